//! What the kernel tells of interfaces as it happens.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
};
use nix::unistd::read;

/// Readable when an interface of a network namespace has changed, come or gone.
#[derive(Debug)]
pub struct Monitor(OwnedFd);

impl Monitor {
    /// For the network namespace that the process is in now.
    pub(crate) fn make() -> Result<OwnedFd, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, libc::RTMGRP_LINK as u32))?;
        Ok(socket)
    }

    /// Takes over a socket that `make` made, or anything that is readable when there is news and
    /// never blocks.
    pub(crate) fn adopt(socket: OwnedFd) -> Monitor {
        Monitor(socket)
    }

    /// Throws away what was told: that there was something is all that matters, for whoever looks
    /// sees the rest.
    pub fn clear(&self) {
        let mut told = [0; 4096];
        // News that found no room is an error once, and news too.
        while !matches!(read(&self.0, &mut told), Err(Errno::EAGAIN) | Ok(0)) {}
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
