//! The interface that a socket is bound to.
//!
//! The kernel binds sockets to an interface's number, and so goes on delivering when somebody
//! renames it. An interface is followed in the same way: by its number as long as there is one of
//! that number, and by the name that it was asked for by only when that one is gone.

use super::name::InterfaceState;
use nix::errno::Errno;
use nix::libc::{self, c_int};
use std::os::fd::BorrowedFd;

/// An interface as it was when last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FollowedInterface {
    /// Its number; below zero where there is none.
    pub(crate) index: c_int,
    /// Its name then.
    pub(crate) name: String,
    pub(crate) state: InterfaceState,
}

impl FollowedInterface {
    /// None; one of this name is waited for.
    pub(crate) fn gone(name: &str) -> FollowedInterface {
        FollowedInterface { index: -1, name: name.to_owned(), state: InterfaceState::Gone }
    }

    /// The interface of this name in the network namespace of the socket.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn called(socket: BorrowedFd<'_>, name: &str) -> Result<FollowedInterface, Errno> {
        let index = crate::sys::index(socket, name)?;
        let state = state(socket, name)?;
        Ok(FollowedInterface { index, name: name.to_owned(), state })
    }

    /// The same interface as it is now, whatever it is called; where it is gone, one that is called
    /// `asked`, if there is one.
    pub(crate) fn look(&self, socket: BorrowedFd<'_>, asked: &str) -> FollowedInterface {
        self.same(socket)
            .or_else(|| FollowedInterface::called(socket, asked).ok())
            .unwrap_or_else(|| FollowedInterface::gone(asked))
    }

    fn same(&self, socket: BorrowedFd<'_>) -> Option<FollowedInterface> {
        /// It may be renamed between the two questions.
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

    /// Returns true if it is another interface, or in another state.
    pub(crate) fn differs(&self, other: &FollowedInterface) -> bool {
        (self.index, self.state) != (other.index, other.state)
    }

    /// Its name, if that is not the one that it was asked for by.
    pub(crate) fn other_name(&self, asked: &str) -> Option<String> {
        (self.index >= 0 && self.name != asked).then(|| self.name.clone())
    }
}

fn state(socket: BorrowedFd<'_>, name: &str) -> Result<InterfaceState, Errno> {
    let up = crate::sys::flags(socket, name)? & libc::IFF_UP != 0;
    Ok(if up { InterfaceState::Up } else { InterfaceState::Down })
}
