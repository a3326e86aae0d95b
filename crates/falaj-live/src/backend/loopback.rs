//! A port for machines without network namespaces: it receives datagrams at a loopback socket and
//! passes them on to another socket. One port serves one source.

use crate::backend::port::{Port, PortHandover, Received};
use crate::socket_buffer;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::message::Corrupt;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// The way to find the flow of datagrams whose headers the kernel has removed.
#[derive(Clone, Copy, Debug)]
pub enum FlowLookup {
    /// All datagrams belong to this flow.
    Flow(FlowId),
    /// By rules, as if each datagram had these headers.
    Key(Key),
}

/// A port that receives datagrams at a loopback socket and passes them on to a loopback address.
pub struct LoopbackPort {
    socket: UdpSocket,
    to: SocketAddr,
    sorted: FlowLookup,
}

impl LoopbackPort {
    /// A port that passes datagrams on to `to`; the kernel chooses the address at which the port
    /// receives.
    pub fn new(to: SocketAddr, sorted: FlowLookup) -> io::Result<LoopbackPort> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        socket_buffer::enlarge(&socket);
        Ok(LoopbackPort { socket, to, sorted })
    }

    /// The address at which the port receives datagrams.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

fn unless_it_would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        // A receiver that does not exist yet, or not any more, causes a connection refusal.
        Err(e)
            if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

impl Port for LoopbackPort {
    fn name(&self) -> String {
        format!("The loopback socket that passes on to {}", self.to)
    }

    fn longest(&self) -> usize {
        65_536
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let length = unless_it_would_block(self.socket.recv(buffer))?;
        let flow = match self.sorted {
            FlowLookup::Flow(flow) => Some(flow),
            FlowLookup::Key(_) => None,
        };
        Ok(length
            .map(|length| Received::packet(length, CountedLayer::Ip.from_udp(length as u32), flow)))
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        Ok(unless_it_would_block(self.socket.send_to(unit, self.to))?.is_some())
    }

    fn key(&self, unit: &[u8]) -> Key {
        match self.sorted {
            FlowLookup::Flow(_) => Key::default(),
            FlowLookup::Key(key) => {
                Key { length: Some(CountedLayer::Ip.from_udp(unit.len() as u32)), ..key }
            }
        }
    }

    fn corrupt(&self, unit: &mut [u8], corrupt: &Corrupt) {
        corrupt.flip(unit);
    }

    /// Does nothing: the ECN bits are in a header that the kernel removes.
    fn mark(&self, _: &mut [u8], _: Ecn) {}

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl PortHandover for LoopbackPort {}
