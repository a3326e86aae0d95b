//! Guests' network cards (vhost-user-net), with the cargo feature `vhost-user`.

#[cfg(feature = "vhost-user")]
mod card;
#[cfg(feature = "vhost-user")]
mod device;
#[cfg(feature = "vhost-user")]
mod ring;

#[cfg(feature = "vhost-user")]
pub use card::{VhostUser, VhostUserPort};

use super::BackendEntry;

/// Guests' cards, identified by the socket to which the machine monitor connects: `vhost:PATH`.
pub static BACKEND: BackendEntry = BackendEntry {
    help: "\
vhost:PATH is the network card of a virtual machine: QEMU, or another monitor, connects to the
socket PATH, which falaj creates. The guest needs memory that is shared. falaj needs no privilege
but the right to create PATH.",
    example: "vhost:/run/a.sock vhost:/run/b.sock --rate 1gbit --delay 5ms",
    starts_threads: true,
    ..BackendEntry::new("vhost:", "vhost:PATH", |path| match path {
        "" => Err("write the path of a socket after `vhost:`, such as \
                 `vhost:/run/guest.sock`"
            .into()),
        path => parse(path),
    })
};

#[cfg(not(feature = "vhost-user"))]
fn parse(_path: &str) -> Result<std::sync::Arc<dyn super::Address>, String> {
    Err("this program was built without guests' network cards (cargo feature `vhost-user`)".into())
}

#[cfg(feature = "vhost-user")]
use address::parse;

#[cfg(feature = "vhost-user")]
mod address {
    use super::{BACKEND, VhostUser, VhostUserPort};
    use crate::backend::{
        Address, Backend, BackendEntry, InterfaceState, OpenEnd, OpenError, OpenOptions, Port,
    };
    use std::path::{Path, PathBuf};
    use std::rc::Rc;
    use std::sync::Arc;
    use std::{fmt, io};

    /// The socket to which the machine monitor of a guest connects.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct MonitorSocket(PathBuf);

    pub(super) fn parse(path: &str) -> Result<Arc<dyn Address>, String> {
        Ok(Arc::new(MonitorSocket(path.into())))
    }

    impl fmt::Display for MonitorSocket {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "vhost:{}", self.0.display())
        }
    }

    impl Address for MonitorSocket {
        fn open(&self, _: &OpenOptions) -> Result<OpenEnd, OpenError> {
            let opened = VhostUser::listen(&self.0).map_err(|cause| {
                let attempt = "cannot listen there; use a path that does not exist yet, in a \
                               directory that you may write to";
                OpenError::new(attempt, cause)
            });
            let (card, monitor) = opened?;
            Ok((Box::new(Rc::new(card)), monitor))
        }

        fn socket(&self) -> Option<&Path> {
            Some(&self.0)
        }
    }

    impl Backend for Rc<VhostUser> {
        fn entry(&self) -> &'static BackendEntry {
            &BACKEND
        }

        fn port(&self) -> io::Result<Box<dyn Port>> {
            Ok(Box::new(VhostUserPort::new(Rc::clone(self))))
        }

        fn look(&self) -> Option<InterfaceState> {
            VhostUser::look(self)
        }
    }
}
