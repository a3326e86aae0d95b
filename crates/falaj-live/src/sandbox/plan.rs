//! What a side is to be, told by whoever makes it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::spec::{INTERFACE, SandboxSide};
use crate::host_port::HostPort;
use crate::link_end::{End, Subnet};

/// An interface at one end of a link, and who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    /// The Ethernet address at the other end.
    pub(crate) peer: [u8; 6],
    pub(crate) mtu: u16,
    /// Its own, with their prefixes' lengths. Those of IPv6 are left out where the link carries
    /// none.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// Who is at the other end, with their Ethernet addresses.
    pub(crate) neighbours: Vec<(IpAddr, [u8; 6])>,
    /// What goes out here, all that has no better route or these addresses, and to whom.
    pub(crate) routes: Vec<(Option<(IpAddr, u8)>, IpAddr)>,
}

impl Attachment {
    /// The `n`-th interface of a side, at this end of link `link`, with addresses of IPv6 or
    /// without; without routes.
    pub(crate) fn new(
        n: usize,
        link: u8,
        end: End,
        subnet: Subnet,
        mtu: u16,
        six: bool,
    ) -> Attachment {
        let mac = |end: End| {
            let [a, b, c, _, _, number] = end.mac();
            [a, b, c, link, 0, number]
        };
        let other = end.other();
        let mut addresses = vec![(subnet.address(end).into(), Subnet::PREFIX)];
        let mut neighbours = vec![(subnet.address(other).into(), mac(other))];
        if six {
            addresses.push((subnet.address6(end).into(), Subnet::PREFIX6));
            neighbours.push((subnet.address6(other).into(), mac(other)));
        }
        Attachment {
            name: interface(n),
            mac: mac(end),
            peer: mac(other),
            mtu,
            addresses,
            neighbours,
            routes: Vec::new(),
        }
    }
}

/// The name of the `n`-th interface of a side.
pub(crate) fn interface(n: usize) -> String {
    match n {
        0 => INTERFACE.to_owned(),
        _ => format!("{}{n}", INTERFACE.trim_end_matches('0')),
    }
}

/// What a side passes on that is not for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forwards {
    #[default]
    Nothing,
    /// Over IPv4, to the way out that will be there.
    WayOut,
    /// All.
    All,
}

/// A variable of the command's environment.
#[derive(Clone, Debug)]
pub(crate) enum Variable {
    Text(String),
    V4(Ipv4Addr),
    /// Only where the side's first link carries IPv6.
    V6(Ipv6Addr),
    /// Inside of another link, that one's would be there.
    Unset,
}

/// One side.
#[derive(Debug, Default)]
pub(crate) struct SidePlan {
    pub(crate) side: SandboxSide,
    /// By their order the interfaces have their names.
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) forwards: Forwards,
    pub(crate) variables: Vec<(String, Variable)>,
    /// What `/etc/hosts` is to hold; `None`: what the caller's holds.
    pub(crate) names: Option<String>,
    /// The network namespace that it is in, by its name or a process there; `None`: one of its
    /// own.
    pub(crate) namespace: Option<String>,
    /// Ports of the host that it forwards: as the near side to the far one, as the far side to the
    /// caller, which gets the sockets.
    pub(crate) host_ports: Vec<HostPort>,
}
