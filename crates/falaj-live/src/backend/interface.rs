//! An end of a bridge: an existing interface, by whichever way it is read and written, a guest's
//! card, shared memory of another program, or a queue of the firewall.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, io};

use nix::sys::eventfd::{EfdFlags, EventFd};

use falaj_engine::batch::BatchPolicy;

use crate::backend::memif::{MEMIF, Memif, MemifName};
use crate::backend::nfqueue::Queue;
use crate::backend::packet::{self, Monitor, PacketSocket, Place, State};
#[cfg(feature = "vhost-user")]
use crate::backend::vhost_user::VhostUser;
use crate::backend::xdp::{self, XdpSocket};
use crate::error::Error;

/// What people call an end of a bridge: `eth0`, `eth0@NETNS`, `vhost:/run/a.sock`,
/// `memif:/run/b.sock`, `nfqueue:5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndName {
    /// An interface.
    Interface(Place),
    /// The socket to which the machine monitor of a guest connects.
    VhostUser(PathBuf),
    /// Shared memory of another program.
    Memif(MemifName),
    /// A queue of the firewall.
    Queue(u16),
}

/// What the name of a guest's socket begins with.
const VHOST: &str = "vhost:";
/// And that of a queue.
const QUEUE: &str = "nfqueue:";

impl FromStr for EndName {
    type Err = String;

    fn from_str(text: &str) -> Result<EndName, String> {
        if let Some(number) = text.strip_prefix(QUEUE) {
            let number = number
                .parse()
                .map_err(|_| format!("write a queue's number, 0 to 65535: `{QUEUE}5`"))?;
            return Ok(EndName::Queue(number));
        }
        if let Some(name) = text.strip_prefix(MEMIF) {
            return name.parse().map(EndName::Memif);
        }
        match text.strip_prefix(VHOST) {
            Some("") => Err(format!(
                "write the path of a socket behind `{VHOST}`, such as `{VHOST}/run/guest.sock`"
            )),
            Some(_) if !cfg!(feature = "vhost-user") => {
                Err("this program was built without guests' cards (cargo feature `vhost-user`)"
                    .into())
            }
            Some(path) => Ok(EndName::VhostUser(path.into())),
            None => text.parse().map(EndName::Interface),
        }
    }
}

impl fmt::Display for EndName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndName::Interface(place) => place.fmt(f),
            EndName::VhostUser(path) => write!(f, "{VHOST}{}", path.display()),
            EndName::Memif(name) => name.fmt(f),
            EndName::Queue(number) => write!(f, "{QUEUE}{number}"),
        }
    }
}

/// An existing interface, a guest's card or shared memory. Of one link either both ends are AF_XDP
/// sockets or none is: what others pass on with a note of what is left to do, these could not.
#[derive(Debug)]
pub enum Interface {
    /// By a packet socket.
    Packet(Arc<PacketSocket>),
    /// By an AF_XDP socket.
    Xdp(Rc<XdpSocket>),
    /// A guest's card.
    #[cfg(feature = "vhost-user")]
    VhostUser(Rc<VhostUser>),
    /// Shared memory of another program.
    Memif(Rc<Memif>),
    /// A queue of the firewall.
    Queue(Rc<Queue>),
}

impl Interface {
    /// By a packet socket, and what tells of changes.
    ///
    /// # Errors
    /// As [`packet::open`].
    pub fn packet(place: &Place) -> Result<(Interface, Monitor), Error> {
        let (socket, monitor) = packet::open(place, true)?;
        Ok((Interface::Packet(Arc::new(socket)), monitor))
    }

    /// By an AF_XDP socket, and what tells of changes.
    ///
    /// # Errors
    /// As [`xdp::open`].
    pub fn xdp(place: &Place) -> Result<(Interface, Monitor), Error> {
        let (socket, monitor) = xdp::open(place)?;
        Ok((Interface::Xdp(Rc::new(socket)), monitor))
    }

    /// A guest's card, and what tells of changes.
    ///
    /// # Errors
    /// As [`VhostUser::listen`].
    #[cfg(feature = "vhost-user")]
    pub fn vhost_user(path: &std::path::Path) -> io::Result<(Interface, Monitor)> {
        let (card, monitor) = VhostUser::listen(path)?;
        Ok((Interface::VhostUser(Rc::new(card)), monitor))
    }

    /// Shared memory of another program, and what tells of changes. Packets go in containers by
    /// this policy, if there is one and the other side can do that.
    ///
    /// # Errors
    /// As [`Memif::open`].
    pub fn memif(
        name: &MemifName,
        policy: Option<BatchPolicy>,
    ) -> io::Result<(Interface, Monitor)> {
        let (memif, monitor) = Memif::open(name, policy)?;
        Ok((Interface::Memif(Rc::new(memif)), monitor))
    }

    /// A queue of the firewall, which never changes.
    ///
    /// # Errors
    /// As [`Queue::open`].
    pub fn queue(number: u16, fail_open: bool) -> io::Result<(Interface, Monitor)> {
        let silent =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let monitor = Monitor::adopt(silent.as_fd().try_clone_to_owned()?);
        Ok((Interface::Queue(Rc::new(Queue::open(number, fail_open)?)), monitor))
    }

    /// Its largest IP packet; `None` where that is another's affair.
    ///
    /// # Errors
    /// What the kernel says; the interface may be gone.
    pub fn mtu(&self) -> io::Result<Option<u32>> {
        match self {
            Interface::Packet(socket) => socket.mtu().map(Some),
            Interface::Xdp(socket) => socket.mtu().map(Some),
            #[cfg(feature = "vhost-user")]
            Interface::VhostUser(_) => Ok(None),
            Interface::Memif(_) | Interface::Queue(_) => Ok(None),
        }
    }

    /// Its number, which tells interfaces of one network namespace apart.
    pub fn index(&self) -> Option<i32> {
        match self {
            Interface::Packet(socket) => Some(socket.index()),
            Interface::Xdp(socket) => Some(socket.index()),
            #[cfg(feature = "vhost-user")]
            Interface::VhostUser(_) => None,
            Interface::Memif(_) | Interface::Queue(_) => None,
        }
    }

    /// Whether VLAN tags of frames that come in are lost.
    pub fn loses_tags(&self) -> bool {
        matches!(self, Interface::Xdp(socket) if socket.loses_tags())
    }

    /// Looks how it is, and takes one of its name that has appeared; says how it is if that has
    /// changed.
    pub fn look(&self) -> Option<State> {
        match self {
            Interface::Packet(socket) => socket.look(),
            Interface::Xdp(socket) => socket.look(),
            #[cfg(feature = "vhost-user")]
            Interface::VhostUser(card) => card.look(),
            Interface::Memif(memif) => memif.look(),
            Interface::Queue(_) => None,
        }
    }

    /// Why it is as it is, if that was not said before and there is more to say.
    pub fn why(&self) -> Option<String> {
        match self {
            Interface::Memif(memif) => memif.why(),
            _ => None,
        }
    }

    /// Units that nobody read in time.
    pub fn unread(&self) -> u64 {
        match self {
            Interface::Packet(socket) => socket.unread(),
            Interface::Xdp(socket) => socket.unread(),
            // What finds the ring full waits in the guest.
            #[cfg(feature = "vhost-user")]
            Interface::VhostUser(_) => 0,
            // So it does in the other program.
            Interface::Memif(_) => 0,
            Interface::Queue(queue) => queue.unread(),
        }
    }
}
