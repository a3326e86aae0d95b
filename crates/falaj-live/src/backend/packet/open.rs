//! Opening a packet socket, in this network namespace or another one.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::{PacketSocket, claim};
use crate::backend::monitor::Monitor;
use crate::backend::name::InterfaceName;
use crate::error::{Error, SetupStep};
use crate::netns::made_in;

/// Opens a packet socket at an interface, with the monitor of its changes. The interface is
/// `promiscuous` (accepts frames for other Ethernet addresses) until the socket is dropped.
///
/// To enter another network namespace, the process makes a copy of itself; for that it must be
/// single-threaded. If the network namespace belongs to another user namespace, the copy enters the
/// user namespace first. The creator of a user namespace needs no root privileges for that.
///
/// # Errors
/// The step that failed, its cause, and a remedy.
pub fn open(place: &InterfaceName, promiscuous: bool) -> Result<(PacketSocket, Monitor), Error> {
    let failed = |(step, errno)| Error::new(step, None, errno);
    let made = made_in(place.namespace.as_deref(), || claimed(&place.interface, promiscuous))?;
    take_over(made, &place.interface, promiscuous).map_err(failed)
}

/// Creates a packet socket, the monitor, and the claim that excludes other forwarders, in the
/// process's current network namespace.
pub(crate) fn claimed(
    interface: &str,
    promiscuous: bool,
) -> Result<Vec<OwnedFd>, (SetupStep, Errno)> {
    // The monitor is created first, so that no later change is missed.
    let monitor = Monitor::make().map_err(|errno| (SetupStep::Netlink, errno))?;
    let socket = PacketSocket::make(interface, promiscuous)?;
    let [name, number] = claim(interface)?;
    Ok(vec![socket, monitor, name, number])
}

/// Takes over the descriptors that [`claimed`] has created, in this or another process.
pub(crate) fn take_over(
    made: Vec<OwnedFd>,
    interface: &str,
    promiscuous: bool,
) -> Result<(PacketSocket, Monitor), (SetupStep, Errno)> {
    let [socket, monitor, name, number] =
        <[OwnedFd; 4]>::try_from(made).map_err(|_| (SetupStep::EnterNamespace, Errno::EPROTO))?;
    let socket = PacketSocket::adopt(socket, interface, promiscuous)?;
    Ok((socket.claimed([name, number]), Monitor::adopt(monitor)))
}
