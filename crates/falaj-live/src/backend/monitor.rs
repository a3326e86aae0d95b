//! Notifications of the kernel about changes of interfaces.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
};
use nix::unistd::read;

/// A descriptor that is readable when an interface of a network namespace has changed, appeared or
/// disappeared.
#[derive(Debug)]
pub struct Monitor(OwnedFd);

impl Monitor {
    /// A socket for the network namespace that the process is in now.
    pub(crate) fn make() -> Result<OwnedFd, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, libc::RTMGRP_LINK as u32))?;
        Ok(socket)
    }

    /// Takes over a socket created by `make`, or any non-blocking descriptor that is readable when
    /// there is news.
    pub(crate) fn adopt(socket: OwnedFd) -> Monitor {
        Monitor(socket)
    }

    /// Discards the notifications. The reader checks the state itself, so it needs only the fact
    /// that there were some.
    pub fn clear(&self) {
        let mut told = [0; 4096];
        // An error reports once that notifications were lost for lack of room; that is news too.
        while !matches!(read(&self.0, &mut told), Err(Errno::EAGAIN) | Ok(0)) {}
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
