//! Opening a packet socket, in this network namespace or another one.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::{PacketSocket, claim};
use crate::backend::monitor::Monitor;
use crate::backend::name::InterfaceName;
use crate::error::{Error, SetupStep};
use crate::netns::made_in;

/// Opens a packet socket at an interface, and what tells of changes there. The interface is
/// `promiscuous` (takes frames for Ethernet addresses that are not its own) until the socket is
/// dropped.
///
/// Another network namespace is entered by a copy of the process, which must have one thread only.
/// A namespace whose users are somebody else's is entered together with that user namespace:
/// whoever made it may do that without being root.
///
/// # Errors
/// Says which step failed, why, and what to try.
pub fn open(place: &InterfaceName, promiscuous: bool) -> Result<(PacketSocket, Monitor), Error> {
    let failed = |(step, errno)| Error::new(step, None, errno);
    let made = made_in(place.namespace.as_deref(), || claimed(&place.interface, promiscuous))?;
    take_over(made, &place.interface, promiscuous).map_err(failed)
}

/// A packet socket, what tells of changes, and the claim that nobody else forwards there, in the
/// network namespace that the process is in now.
pub(crate) fn claimed(
    interface: &str,
    promiscuous: bool,
) -> Result<Vec<OwnedFd>, (SetupStep, Errno)> {
    // The monitor first: what happens from here on is told.
    let monitor = Monitor::make().map_err(|errno| (SetupStep::Netlink, errno))?;
    let socket = PacketSocket::make(interface, promiscuous)?;
    let [name, number] = claim(interface)?;
    Ok(vec![socket, monitor, name, number])
}

/// Takes over what [`claimed`] made, be it in another process.
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
