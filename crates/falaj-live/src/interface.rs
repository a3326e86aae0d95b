//! An existing interface, by whichever way it is read and written.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use crate::packet::{self, Monitor, PacketSocket, Place, State};
use crate::sandbox::Error;
use crate::xdp::{self, XdpSocket};

/// An existing interface. Of one link both ends are of one kind: what a packet socket passes on with a note of what is
/// left to do, an AF_XDP socket could not.
#[derive(Debug)]
pub enum Interface {
    /// By a packet socket.
    Packet(Arc<PacketSocket>),
    /// By an AF_XDP socket.
    Xdp(Rc<XdpSocket>),
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

    /// Its largest IP packet.
    ///
    /// # Errors
    /// What the kernel says; the interface may be gone.
    pub fn mtu(&self) -> io::Result<u32> {
        match self {
            Interface::Packet(socket) => socket.mtu(),
            Interface::Xdp(socket) => socket.mtu(),
        }
    }

    /// Its number; it tells interfaces of one network namespace apart.
    pub fn index(&self) -> i32 {
        match self {
            Interface::Packet(socket) => socket.index(),
            Interface::Xdp(socket) => socket.index(),
        }
    }

    /// Looks how it is, and takes one of its name that has appeared; says how it is if that has changed.
    pub fn look(&self) -> Option<State> {
        match self {
            Interface::Packet(socket) => socket.look(),
            Interface::Xdp(socket) => socket.look(),
        }
    }

    /// Units that nobody read in time.
    pub fn unread(&self) -> u64 {
        match self {
            Interface::Packet(socket) => socket.unread(),
            Interface::Xdp(socket) => socket.unread(),
        }
    }
}
