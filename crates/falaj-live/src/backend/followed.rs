//! The interface that a socket is bound to.
//!
//! The kernel binds sockets to an interface's number, and so continues delivery when the interface
//! is renamed. falaj follows an interface in the same way: by its number as long as that exists,
//! and by its requested name only when the number is gone.

use super::name::InterfaceState;
use nix::errno::Errno;
use nix::libc::{self, c_int};
use std::os::fd::BorrowedFd;

/// An interface as it was at the last check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FollowedInterface {
    /// Its number in the kernel; negative if there is no interface.
    pub(crate) index: c_int,
    /// Its name at the last check.
    pub(crate) name: String,
    pub(crate) state: InterfaceState,
}

impl FollowedInterface {
    /// An interface that does not exist; one of this name is awaited.
    pub(crate) fn gone(name: &str) -> FollowedInterface {
        FollowedInterface { index: -1, name: name.to_owned(), state: InterfaceState::Gone }
    }

    /// The interface of this name in the network namespace of the socket.
    ///
    /// # Errors
    /// There is no interface of this name.
    pub(crate) fn called(socket: BorrowedFd<'_>, name: &str) -> Result<FollowedInterface, Errno> {
        let index = crate::sys::index(socket, name)?;
        let state = state(socket, name)?;
        Ok(FollowedInterface { index, name: name.to_owned(), state })
    }

    /// The present state of the same interface, even if it was renamed. If it is gone, the
    /// interface with the name `asked`, if there is one.
    pub(crate) fn look(&self, socket: BorrowedFd<'_>, asked: &str) -> FollowedInterface {
        self.same(socket)
            .or_else(|| FollowedInterface::called(socket, asked).ok())
            .unwrap_or_else(|| FollowedInterface::gone(asked))
    }

    fn same(&self, socket: BorrowedFd<'_>) -> Option<FollowedInterface> {
        /// Number of tries, because the interface may be renamed between the two queries.
        const TRIES: usize = 8;
        if self.index < 0 {
            return None;
        }
        (0..TRIES).find_map(|_| {
            let name = crate::sys::name(socket, self.index).ok()?;
            let state = state(socket, &name).ok()?;
            Some(FollowedInterface { index: self.index, name, state })
        })
    }

    /// Returns true if `other` is another interface, or the same one in another state.
    pub(crate) fn differs(&self, other: &FollowedInterface) -> bool {
        (self.index, self.state) != (other.index, other.state)
    }

    /// The interface's name, if it differs from the requested one.
    pub(crate) fn other_name(&self, asked: &str) -> Option<String> {
        (self.index >= 0 && self.name != asked).then(|| self.name.clone())
    }
}

fn state(socket: BorrowedFd<'_>, name: &str) -> Result<InterfaceState, Errno> {
    let up = crate::sys::flags(socket, name)? & libc::IFF_UP != 0;
    Ok(if up { InterfaceState::Up } else { InterfaceState::Down })
}
