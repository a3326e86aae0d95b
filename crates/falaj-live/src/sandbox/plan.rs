//! The plan of a side: its command, interfaces, environment and namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::spec::{INTERFACE, SandboxSide};
use crate::host_port::HostPort;
use crate::link_end::{End, Subnet};

/// An interface at one end of a link, and the hosts at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    /// The Ethernet address at the other end.
    pub(crate) peer: [u8; 6],
    pub(crate) mtu: u16,
    /// The interface's addresses, with the lengths of their prefixes. IPv6 addresses are left out
    /// if the link carries no IPv6.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// The hosts at the other end, with their Ethernet addresses.
    pub(crate) neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Routes through this interface: a destination prefix, or `None` for the default route, and
    /// the gateway.
    pub(crate) routes: Vec<(Option<(IpAddr, u8)>, IpAddr)>,
}

impl Attachment {
    /// The `n`-th interface of a side, at this end of link `link`, with IPv6 addresses if `six` is
    /// set; without routes.
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

/// The packets for other hosts that a side forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forwards {
    #[default]
    Nothing,
    /// IPv4 packets between the link and the way out through the host, which is added later.
    WayOut,
    /// All packets.
    All,
}

/// A variable of the command's environment.
#[derive(Clone, Debug)]
pub(crate) enum Variable {
    Text(String),
    V4(Ipv4Addr),
    /// An IPv6 address; the variable is set only if the side's first link carries IPv6.
    V6(Ipv6Addr),
    /// The variable is removed: within another link it would have that link's value.
    Unset,
}

/// The plan of one side.
#[derive(Debug, Default)]
pub(crate) struct SidePlan {
    pub(crate) side: SandboxSide,
    /// The side's interfaces; they are named in this order.
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) forwards: Forwards,
    pub(crate) variables: Vec<(String, Variable)>,
    /// The content of `/etc/hosts`; `None`: unchanged.
    pub(crate) names: Option<String>,
    /// The side's network namespace: its name, or the ID of a process in it; `None`: a
    /// namespace of its own.
    pub(crate) namespace: Option<String>,
    /// Ports of the host that the near side reaches at its own loopback addresses. The near side
    /// forwards them to the far side; the far side hands its listening sockets to the caller, which
    /// forwards them to the host.
    pub(crate) host_ports: Vec<HostPort>,
    /// True if the side reports connections to its own loopback addresses that are refused.
    pub(crate) tells_refusals: bool,
}
