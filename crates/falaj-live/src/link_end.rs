//! The two ends of a link, and the addresses that they have in a sandbox.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// One end of the link, and the side behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Side a of a sandbox, where `COMMAND` runs.
    Near,
    /// Side b of a sandbox, where the peer's command runs.
    Far,
}

impl End {
    /// Both ends, near first.
    pub const BOTH: [End; 2] = [End::Near, End::Far];

    /// The opposite end.
    pub fn other(self) -> End {
        match self {
            End::Near => End::Far,
            End::Far => End::Near,
        }
    }

    /// 0 for near, 1 for far: an index into arrays with one entry per end.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The IPv4 address of the side in the first subnet; its prefix is 24 bits long.
    pub fn address(self) -> Ipv4Addr {
        Subnet::default().address(self)
    }

    /// The IPv6 address of the side in the first subnet; its prefix is 64 bits long. A link with an
    /// MTU below 1280 B has none.
    pub fn address6(self) -> Ipv6Addr {
        Subnet::default().address6(self)
    }

    /// The Ethernet address of the side's interface.
    pub fn mac(self) -> [u8; 6] {
        [0x02, 0xfa, 0x1a, 0, 0, self.number()]
    }

    fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// Writes `near` or `far`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Near => "near",
            End::Far => "far",
        })
    }
}

/// The subnets of a link: 10.77.N.0/24 and fd77:0:0:N::/64. A link inside of another link needs
/// different subnets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subnet(u8);

impl Subnet {
    /// The largest number of a link's subnet; higher numbers are for other purposes: see
    /// [`nat`](crate::nat).
    const LAST: u8 = 253;
    /// The length of its IPv4 prefix.
    pub(crate) const PREFIX: u8 = 24;
    /// The length of its IPv6 prefix.
    pub(crate) const PREFIX6: u8 = 64;

    /// Returns a subnet that contains no IPv4 address of an interface of this network namespace;
    /// IPv6 addresses are not examined. If possible, its number is above those in use, so that
    /// nested links are numbered from the outermost on. If no subnet is free, returns number 0.
    pub fn free() -> Subnet {
        Subnet::free_ones().next().unwrap_or_default()
    }

    /// All free subnets; the first one is that of [`Subnet::free`].
    pub(crate) fn free_ones() -> impl Iterator<Item = Subnet> {
        let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
        let used = interfaces.filter_map(|interface| {
            match interface.address?.as_sockaddr_in()?.ip().octets() {
                [10, 77, n, _] if n <= Subnet::LAST => Some(n),
                _ => None,
            }
        });
        let used: Vec<u8> = used.collect();
        let behind = used.iter().max().map_or(0, |last| last + 1);
        (behind..=Subnet::LAST).chain(0..behind).filter(move |n| !used.contains(n)).map(Subnet)
    }

    pub(crate) fn numbered(number: u8) -> Subnet {
        Subnet(number)
    }

    /// The number of the subnet.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The address of the IPv4 subnet, without its prefix length.
    pub(crate) fn network(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.0, 0)
    }

    /// The address of the IPv6 subnet, without its prefix length.
    pub(crate) fn network6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.0.into(), 0, 0, 0, 0)
    }

    /// The IPv4 address of a side.
    pub fn address(self, end: End) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.0, end.number())
    }

    /// The IPv6 address of a side.
    pub fn address6(self, end: End) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.0.into(), 0, 0, 0, end.number().into())
    }

    /// Two addresses of the subnet for the way out: the far side's address, and its gateway's.
    pub(crate) fn way_out(self) -> [Ipv4Addr; 2] {
        [130, 129].map(|n| Ipv4Addr::new(10, 77, self.0, n))
    }
}
