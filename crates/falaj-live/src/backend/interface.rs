//! Ends that are interfaces of the kernel, by packet sockets or by AF_XDP sockets.

use super::{Address, Backend, BackendEntry, OpenEnd, OpenError, OpenOptions, Port};
use crate::backend::name::{InterfaceName, InterfaceState};
use crate::backend::packet::{self, PacketSocket};
use crate::backend::xdp::{self, XdpPort, XdpSocket};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

/// Interfaces by name: `eth0`, `eth0@NETNS`.
pub static BACKEND: BackendEntry =
    BackendEntry::new("", "IF[@NETNS]", |text| Ok(Arc::new(text.parse::<InterfaceName>()?)));

impl Address for InterfaceName {
    fn open(&self, options: &OpenOptions) -> Result<OpenEnd, OpenError> {
        if options.xdp {
            let (socket, monitor) = xdp::open(self)?;
            return Ok((Box::new(Rc::new(socket)), monitor));
        }
        let (socket, monitor) = packet::open(self, true)?;
        Ok((Box::new(Arc::new(socket)), monitor))
    }

    fn interface(&self) -> Option<&InterfaceName> {
        Some(self)
    }
}

impl Backend for Arc<PacketSocket> {
    fn entry(&self) -> &'static BackendEntry {
        &BACKEND
    }

    fn port(&self) -> io::Result<Box<dyn Port>> {
        Ok(Box::new(self.reader_port()?))
    }

    fn mtu(&self) -> io::Result<Option<u32>> {
        PacketSocket::mtu(self).map(Some)
    }

    fn descriptors(&self) -> Option<[BorrowedFd<'_>; 3]> {
        PacketSocket::descriptors(self)
    }

    fn look(&self) -> Option<InterfaceState> {
        PacketSocket::look(self)
    }

    fn renamed(&self) -> Option<String> {
        PacketSocket::renamed(self)
    }

    fn unread(&self) -> u64 {
        PacketSocket::unread(self)
    }
}

impl Backend for Rc<XdpSocket> {
    fn entry(&self) -> &'static BackendEntry {
        &BACKEND
    }

    fn port(&self) -> io::Result<Box<dyn Port>> {
        Ok(Box::new(XdpPort::new(Rc::clone(self))))
    }

    fn mtu(&self) -> io::Result<Option<u32>> {
        XdpSocket::mtu(self).map(Some)
    }

    fn loses_tags(&self) -> bool {
        XdpSocket::loses_tags(self)
    }

    fn look(&self) -> Option<InterfaceState> {
        XdpSocket::look(self)
    }

    fn renamed(&self) -> Option<String> {
        XdpSocket::renamed(self)
    }

    fn unread(&self) -> u64 {
        XdpSocket::unread(self)
    }
}
