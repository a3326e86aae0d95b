//! Fields of packet headers: versions of IP, protocols, and prefixes of addresses.

use std::fmt;
use std::net::IpAddr;

/// The version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The protocol that IP carries, by its assigned number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP of IPv4.
    pub const ICMP: Protocol = Protocol(1);
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// ICMP of IPv6.
    pub const ICMP6: Protocol = Protocol(58);

    /// Returns true if the protocol has ports that a rule can match (TCP and UDP).
    pub const fn has_ports(self) -> bool {
        matches!(self, Protocol::TCP | Protocol::UDP)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::ICMP => f.write_str("icmp"),
            Protocol::TCP => f.write_str("tcp"),
            Protocol::UDP => f.write_str("udp"),
            Protocol::ICMP6 => f.write_str("icmp6"),
            Protocol(n) => write!(f, "proto {n}"),
        }
    }
}

/// Addresses that share their first `len` bits; the bits after those are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Net {
    /// The lowest address.
    pub addr: IpAddr,
    /// Number of bits compared: 0 to 32 (IPv4) or 128 (IPv6).
    pub len: u8,
}

impl Net {
    /// The addresses that share the first `len` bits of `addr`.
    pub fn new(addr: IpAddr, len: u8) -> Net {
        let shared = match addr {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32u32.saturating_sub(len.into())).unwrap_or(0);
                IpAddr::V4((a.to_bits() & mask).into())
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128u32.saturating_sub(len.into())).unwrap_or(0);
                IpAddr::V6((a.to_bits() & mask).into())
            }
        };
        Net { addr: shared, len }
    }

    /// Number of bits of a whole address: 32 (IPv4) or 128 (IPv6).
    pub const fn bits(&self) -> u8 {
        match self.addr {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    /// The version of its addresses.
    pub const fn version(&self) -> Version {
        match self.addr {
            IpAddr::V4(_) => Version::V4,
            IpAddr::V6(_) => Version::V6,
        }
    }

    /// Its lowest and its highest address, as numbers.
    pub fn range(&self) -> (u128, u128) {
        let low = match self.addr {
            IpAddr::V4(a) => a.to_bits().into(),
            IpAddr::V6(a) => a.to_bits(),
        };
        (low, low | u128::MAX.checked_shr(128 - u32::from(self.bits() - self.len)).unwrap_or(0))
    }

    /// Returns true if `addr` is in this prefix.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                Net::new(addr, self.len).addr == self.addr
            }
            _ => false,
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == self.bits() {
            write!(f, "{}", self.addr)
        } else {
            write!(f, "{}/{}", self.addr, self.len)
        }
    }
}
