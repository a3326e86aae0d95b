//! A socket for datagrams that answers from the address that the client has used.
//!
//! A client that sends to 10.0.0.2 accepts an answer from 10.0.0.2 only. A socket that is bound to
//! all addresses of the host (0.0.0.0, ::) answers from an address that the system chooses, unless
//! it gives the source address along with the answer (`IP_PKTINFO` in ip(7), RFC 3542, section
//! 6.1). So the address to which each request was sent is read along with it.

use nix::libc;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// A socket for datagrams, which may be bound to all addresses of the host.
pub(crate) struct AnsweringSocket {
    socket: UdpSocket,
    is_wildcard: bool,
}

/// A datagram that was read.
pub(crate) struct Received {
    /// Length of the payload in bytes.
    pub(crate) length: usize,
    /// Address of the sender.
    pub(crate) from: SocketAddr,
    /// The address to which the datagram was sent; `None` if the socket is bound to one address.
    pub(crate) to: Option<IpAddr>,
}

impl AnsweringSocket {
    pub(crate) fn bind(at: SocketAddr) -> io::Result<AnsweringSocket> {
        let socket = UdpSocket::bind(at)?;
        let is_wildcard = at.ip().is_unspecified();
        match at {
            _ if !is_wildcard => {}
            SocketAddr::V4(_) => setsockopt(&socket, Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
        }
        Ok(AnsweringSocket { socket, is_wildcard })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// The errors of the system; one of them is an expired read timeout of the socket.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if !self.is_wildcard {
            let (length, from) = self.socket.recv_from(buffer)?;
            return Ok(Received { length, from, to: None });
        }
        let mut space = nix::cmsg_space!(libc::in6_pktinfo);
        let mut buffers = [IoSliceMut::new(buffer)];
        let message = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut buffers,
            Some(&mut space),
            MsgFlags::empty(),
        )?;
        let from = message.address.as_ref().and_then(address);
        let from = from.ok_or_else(|| io::Error::other("a datagram without an address"))?;
        let to = message.cmsgs()?.find_map(|word| match word {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into())
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
            }
            _ => None,
        });
        Ok(Received { length: message.bytes, from, to })
    }

    /// Sends a datagram from one of the host's addresses, or from the socket's own.
    ///
    /// # Errors
    /// The errors of the system.
    pub(crate) fn send(
        &self,
        payload: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<usize> {
        let Some(from) = from else { return self.socket.send_to(payload, to) };
        let (socket, payload) = (self.socket.as_raw_fd(), [IoSlice::new(payload)]);
        let to = SockaddrStorage::from(to);
        let send = |word| Ok(sendmsg(socket, &payload, &[word], MsgFlags::empty(), Some(&to))?);
        match from {
            IpAddr::V4(address) => {
                let nothing = libc::in_addr { s_addr: 0 };
                let ipi_spec_dst = libc::in_addr { s_addr: u32::from(address).to_be() };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: nothing };
                send(ControlMessage::Ipv4PacketInfo(&info))
            }
            IpAddr::V6(address) => {
                let ipi6_addr = libc::in6_addr { s6_addr: address.octets() };
                let info = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
                send(ControlMessage::Ipv6PacketInfo(&info))
            }
        }
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
    v4.or_else(|| storage.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into()))
}
