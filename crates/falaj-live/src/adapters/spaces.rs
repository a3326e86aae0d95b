//! Namespaces for adapters, created or existing, each with a TAP.

use crate::error::Error;
use crate::link_end::{End, Subnet};
use crate::sandbox::hosts::All;
use crate::sandbox::plan::{Attachment, Forwards, SidePlan};
use crate::sandbox::{Hosts, Join, SandboxSide, UserNamespace};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A namespace for an adapter, or for the uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Name of an existing namespace, or ID of a process in it; `None`: a new namespace is created.
    pub namespace: Option<String>,
    /// Ethernet address of the TAP in the namespace.
    pub mac: [u8; 6],
    /// Place of the namespace in the subnet, 1 to 254; it determines the IP addresses, and the
    /// route to the uplink, which has place 1. `None`: the user of the namespace configures its
    /// addresses.
    pub place: Option<u8>,
}

impl Space {
    /// A namespace at a place of the subnet, which also determines the Ethernet address.
    pub fn placed(namespace: Option<String>, at: Addresses, place: u8) -> Space {
        Space { namespace, mac: at.mac(place), place: Some(place) }
    }

    /// A namespace without IP addresses. Its Ethernet address is drawn at random, because behind
    /// the uplink there may be other hosts with interfaces of this kind.
    pub fn bare(namespace: Option<String>) -> Space {
        // `RandomState` takes its keys from the kernel's random numbers.
        let [a, b, c, d, e, ..] = RandomState::new().hash_one(()).to_be_bytes();
        Space { namespace, mac: [0x02, a, b, c, d, e], place: None }
    }
}

/// The addresses in the subnet of a link between namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses(Subnet);

impl Addresses {
    /// The place of the uplink.
    pub const UPLINK: u8 = 1;
    /// The highest place.
    pub const LAST: u8 = 254;

    /// The subnet that [`Subnet::free`] returns.
    pub fn free() -> Addresses {
        Addresses(Subnet::free())
    }

    /// The subnet of this number.
    pub(super) fn numbered(number: u8) -> Addresses {
        Addresses(Subnet::numbered(number))
    }

    pub(super) fn number(self) -> u8 {
        self.0.number()
    }

    /// The IPv4 address at a place.
    pub fn address(self, place: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.0.number(), place)
    }

    /// The IPv6 address at a place.
    pub fn address6(self, place: u8) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.0.number().into(), 0, 0, 0, place.into())
    }

    /// The Ethernet address at a place.
    pub fn mac(self, place: u8) -> [u8; 6] {
        [0x02, 0xfa, 0x1a, self.0.number(), 2, place]
    }

    /// The subnet, and the place in it, that have this Ethernet address; `None` if there are none.
    pub fn of(mac: [u8; 6]) -> Option<(Addresses, u8)> {
        let at = Addresses::numbered(mac[3]);
        let place = mac[5];
        (at.mac(place) == mac && place > 0).then_some((at, place))
    }

    /// The place with this Ethernet address; `None` if there is none, or it is the uplink's place.
    pub fn place(self, mac: [u8; 6]) -> Option<u8> {
        (Addresses::UPLINK + 1..=Addresses::LAST).find(|&place| self.mac(place) == mac)
    }
}

/// Creates the namespaces, each with an interface of this MTU in bytes. The index of a space is the
/// number of its side.
///
/// # Errors
/// As [`Sandbox::start`](crate::sandbox::Sandbox::start).
pub fn start(spaces: &[Space], at: Addresses, mtu: u16) -> Result<Hosts, Error> {
    start_with(spaces, spaces.iter().map(|_| SandboxSide::default()).collect(), at, mtu)
}

/// Creates the namespaces with a command in each, which waits for [`Hosts::go`].
///
/// # Errors
/// As [`Sandbox::start`](crate::sandbox::Sandbox::start).
pub fn start_with(
    spaces: &[Space],
    sides: Vec<SandboxSide>,
    at: Addresses,
    mtu: u16,
) -> Result<Hosts, Error> {
    let plans = spaces.iter().zip(sides).map(|(space, side)| SidePlan {
        side,
        attachments: vec![attachment(space, spaces, at, mtu)],
        forwards: Forwards::Nothing,
        variables: Vec::new(),
        names: None,
        namespace: space.namespace.clone(),
        host_ports: Vec::new(),
        tells_refusals: false,
    });
    let all = All {
        tso: true,
        join: Join::Auto,
        user_namespace: UserNamespace::Auto,
        subnet: at.0,
        resolver: None,
        ends: false,
    };
    Hosts::start(plans.collect(), &all)
}

pub(super) fn attachment(space: &Space, all: &[Space], at: Addresses, mtu: u16) -> Attachment {
    let mut own = Attachment::new(0, 0, End::Near, at.0, mtu, false);
    (own.addresses, own.neighbours) = (Vec::new(), Vec::new());
    (own.mac, own.peer) = (space.mac, at.mac(Addresses::UPLINK));
    let Some(place) = space.place else { return own };
    let both = |place: u8| [IpAddr::from(at.address(place)), at.address6(place).into()];
    own.addresses = both(place).into_iter().zip([Subnet::PREFIX, Subnet::PREFIX6]).collect();
    // The uplink has neighbor entries for all other namespaces with a place, and each of these has
    // entries for the uplink: no address resolution is needed on the link.
    let uplink = |place: u8| place == Addresses::UPLINK;
    let known =
        all.iter().filter_map(|other| other.place).filter(|&other| uplink(other) != uplink(place));
    own.neighbours =
        known.flat_map(|other| both(other).map(|address| (address, at.mac(other)))).collect();
    if place != Addresses::UPLINK {
        own.routes = both(Addresses::UPLINK).map(|gateway| (None, gateway)).into();
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_addresses_are_local_and_differ() {
        let drawn: Vec<_> = (0..1_000).map(|_| Space::bare(None).mac).collect();
        // Unicast addresses, locally administered.
        assert!(drawn.iter().all(|mac| mac[0] == 2));
        let different: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
    }
}
