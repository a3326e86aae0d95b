//! What is read of a packet to tell its flow.

use crate::classifier::{Protocol, Version};
use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use std::net::IpAddr;

/// The part of a packet that rules look at; `None` where a packet has none or
/// is cut off. Of a fragment but the first, ports are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Key {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// What IP carries.
    pub protocol: Option<Protocol>,
    /// Source and destination port of TCP and UDP.
    pub ports: Option<(u16, u16)>,
}

impl Key {
    /// Reads an Ethernet frame; whatever it is, there is a key.
    pub fn of_ethernet(frame: &[u8]) -> Key {
        let Ok(packet) = LaxSlicedPacket::from_ethernet(frame) else { return Key::default() };
        let mut key = match &packet.net {
            Some(LaxNetSlice::Ipv4(ip)) => Key {
                src: Some(ip.header().source_addr().into()),
                dst: Some(ip.header().destination_addr().into()),
                protocol: Some(Protocol(ip.payload().ip_number.0)),
                ports: None,
            },
            Some(LaxNetSlice::Ipv6(ip)) => Key {
                src: Some(ip.header().source_addr().into()),
                dst: Some(ip.header().destination_addr().into()),
                protocol: Some(Protocol(ip.payload().ip_number.0)),
                ports: None,
            },
            _ => Key::default(),
        };
        key.ports = match &packet.transport {
            Some(TransportSlice::Udp(udp)) => Some((udp.source_port(), udp.destination_port())),
            Some(TransportSlice::Tcp(tcp)) => Some((tcp.source_port(), tcp.destination_port())),
            _ => None,
        };
        key
    }

    /// The version of IP.
    pub fn version(&self) -> Option<Version> {
        self.src.map(|addr| if addr.is_ipv4() { Version::V4 } else { Version::V6 })
    }
}
