//! The network of one side: quiet, and complete before the first packet.
//!
//! Packets that the kernel would send by itself (address resolution, duplicate address detection,
//! router solicitations) would use the emulated link and disturb measurements, so they are
//! prevented beforehand.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use falaj_sched::units::rate::Rate;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;

use super::netlink::{Netlink, NetlinkInterface};
use super::plan::{Attachment, Forwards};
use super::spec::NAT_INTERFACE;
use crate::backend::packet::PacketSocket;
use crate::backend::tap::Tap;
use crate::error::SetupStep;
use crate::link_end::Subnet;

/// Number of frames that may wait in the kernel for the forwarder. At a million frames per second
/// they arrive within 8 ms, so the forwarder may be without the processor for that time. falaj's
/// own queues, with the configured limits, come after this queue.
const QUEUE: u32 = 8192;

/// The name of the other interface of the pair, if the link's interface is one of a veth pair.
pub(super) const OUTER: &str = "falaj1";

/// The name of the kernel bridge between the sides, which is in a namespace of its own.
const BRIDGE: &str = "bridge";

/// 24 days in milliseconds, the longest interval that the kernel accepts; the kernel draws the
/// actual interval at random from 0 to this value.
const NEVER: &str = "2147483647";

type Failure = (SetupStep, Errno);

/// One side's network while it is being set up.
pub(super) struct SideNetwork {
    netlink: Netlink,
}

impl SideNetwork {
    /// Prepares the namespace, still without its links: the loopback interface, and settings for
    /// new interfaces.
    pub(super) fn prepare() -> Result<SideNetwork, Failure> {
        let mut network = SideNetwork::found()?;
        let loopback = if_nametoindex("lo").and_then(|index| network.netlink.up(index));
        loopback.map_err(|errno| (SetupStep::Loopback, errno))?;
        for conf in ["all", "default"] {
            for (name, value) in [
                ("disable_ipv6", "0"),
                ("accept_dad", "0"),
                ("dad_transmits", "0"),
                ("accept_ra", "0"),
                ("router_solicitations", "0"),
                // The link-local address follows from the Ethernet address: see `link_local`.
                ("addr_gen_mode", "0"),
                // The first reports of multicast groups are sent within milliseconds; their
                // repetitions are practically never sent.
                ("mldv1_unsolicited_report_interval", NEVER),
                ("mldv2_unsolicited_report_interval", NEVER),
            ] {
                set(&format!("ipv6/conf/{conf}/{name}"), value);
            }
            // If there are two paths between hosts, packets may arrive by the other path.
            set(&format!("ipv4/conf/{conf}/rp_filter"), "0");
        }
        // Processes of any group may send pings; the kernel only accepts groups that the user
        // namespace maps.
        let (first, last) = groups();
        set("ipv4/ping_group_range", &format!("{first} {last}"));
        Ok(network)
    }

    /// The network of an existing namespace, which is used without changing settings.
    pub(super) fn found() -> Result<SideNetwork, Failure> {
        Ok(SideNetwork { netlink: Netlink::open().map_err(|errno| (SetupStep::Netlink, errno))? })
    }

    /// Makes the side's end of a link: a TAP interface.
    pub(super) fn add_tap(&mut self, at: &Attachment, tso: bool) -> Result<Tap, Failure> {
        let tap = Tap::create(&at.name, tso, false)?;
        // The offloads of a TAP were set when it was created.
        let configured = if_nametoindex(&*at.name)
            .and_then(|index| self.netlink.configure(index, interface(at, at.mac, true)));
        configured.map_err(|errno| (SetupStep::Interface, errno))?;
        self.configure(at)?;
        Ok(tap)
    }

    /// Makes a link: a pair of veth interfaces, the second one in namespace `there`.
    pub(super) fn add_veth(
        &mut self,
        at: &Attachment,
        there: BorrowedFd<'_>,
    ) -> Result<(), Failure> {
        let (here, peer) = (interface(at, at.mac, true), interface(at, at.peer, true));
        self.netlink.add_veth(here, peer, there).map_err(|errno| (SetupStep::CreateVeth, errno))?;
        self.configure(at)
    }

    /// Makes the side's end of a link: a pair of veth interfaces, with a packet socket at the outer
    /// one. The outer interface is in a separate network namespace, which answers no packets; this
    /// namespace and the pair live as long as the socket. The outer interface sends at `rate`, if
    /// there is one.
    pub(super) fn add_packet(
        &mut self,
        at: &Attachment,
        tso: bool,
        rate: Option<Rate>,
    ) -> Result<OwnedFd, Failure> {
        let veth = |errno| (SetupStep::CreateVeth, errno);
        let side = network_namespace().map_err(veth)?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(veth)?;
        set("ipv6/conf/default/disable_ipv6", "1");
        let between = network_namespace().map_err(veth)?;
        let mut there = Netlink::open().map_err(|errno| (SetupStep::Netlink, errno))?;
        let here = interface(at, at.mac, tso);
        // The outer interface has another Ethernet address, so that the kernel regards incoming
        // packets as addressed to other hosts and processes them no further.
        let [a, b, c, link, _, end] = at.mac;
        let outer =
            NetlinkInterface { name: OUTER, mac: [a, b, c, link, 1, end], large: true, ..here };
        self.netlink.add_veth(here, outer, between.as_fd()).map_err(veth)?;
        let up = if_nametoindex(OUTER).and_then(|index| there.up(index));
        up.map_err(|errno| (SetupStep::Interface, errno))?;
        if let Some(rate) = rate {
            let index = if_nametoindex(OUTER).map_err(|errno| (SetupStep::Interface, errno))?;
            there
                .add_token_bucket(index, rate, at.mtu)
                .map_err(|errno| (SetupStep::TokenBucket, errno))?;
        }
        let socket = PacketSocket::make(OUTER, false)?;
        setns(side, CloneFlags::CLONE_NEWNET).map_err(veth)?;
        self.configure(at)?;
        PacketSocket::await_carrier(socket.as_fd(), OUTER);
        Ok(socket)
    }

    /// Makes a kernel bridge in a network namespace of its own, with the first of its ports.
    /// Returns the namespace; the bridge lives as long as this descriptor.
    pub(super) fn add_bridge(&mut self, at: &Attachment) -> Result<OwnedFd, Failure> {
        let bridge = |errno| (SetupStep::CreateBridge, errno);
        let side = network_namespace().map_err(bridge)?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(bridge)?;
        set("ipv6/conf/default/disable_ipv6", "1");
        let between = network_namespace().map_err(bridge)?;
        let mut there = Netlink::open().map_err(|errno| (SetupStep::Netlink, errno))?;
        there.add_bridge(BRIDGE).map_err(bridge)?;
        let up = if_nametoindex(BRIDGE).and_then(|index| there.up(index));
        up.map_err(bridge)?;
        self.add_bridge_port(at, side)?;
        Ok(between)
    }

    /// Makes a port of the bridge in namespace `between`; its other end is the side's interface.
    pub(super) fn join_bridge(&mut self, at: &Attachment, between: OwnedFd) -> Result<(), Failure> {
        let bridge = |errno| (SetupStep::CreateBridge, errno);
        let side = network_namespace().map_err(bridge)?;
        setns(between, CloneFlags::CLONE_NEWNET).map_err(bridge)?;
        self.add_bridge_port(at, side)
    }

    /// Makes a port from within the bridge's namespace; then returns to the side's namespace.
    fn add_bridge_port(&mut self, at: &Attachment, side: OwnedFd) -> Result<(), Failure> {
        let bridge = |errno| (SetupStep::CreateBridge, errno);
        let mut here = Netlink::open().map_err(|errno| (SetupStep::Netlink, errno))?;
        let [a, b, c, link, _, end] = at.mac;
        let name = format!("port{end}");
        let port = NetlinkInterface {
            name: &name,
            mac: [a, b, c, link, 1, end],
            ..interface(at, at.mac, true)
        };
        here.add_veth(port, interface(at, at.mac, true), side.as_fd())
            .map_err(|errno| (SetupStep::CreateVeth, errno))?;
        let index = if_nametoindex(&*name).map_err(bridge)?;
        let master = if_nametoindex(BRIDGE).map_err(bridge)?;
        here.add_to_bridge(index, master).and_then(|()| here.up(index)).map_err(bridge)?;
        setns(side, CloneFlags::CLONE_NEWNET).map_err(bridge)?;
        self.configure(at)
    }

    /// Brings the second of a pair of veth interfaces up, and waits until both can transmit.
    pub(super) fn complete_veth(&mut self, at: &Attachment) -> Result<(), Failure> {
        self.configure(at)?;
        SideNetwork::await_carrier(at)
    }

    /// Waits until an interface can transmit.
    pub(super) fn await_carrier(at: &Attachment) -> Result<(), Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let socket = socket.map_err(|error| {
            (SetupStep::Loopback, Errno::from_raw(error.raw_os_error().unwrap_or_default()))
        })?;
        PacketSocket::await_carrier(socket.as_fd(), &at.name);
        Ok(())
    }

    /// Brings the interface up and gives it addresses, neighbours and routes.
    fn configure(&mut self, at: &Attachment) -> Result<(), Failure> {
        let index = if_nametoindex(&*at.name).map_err(|errno| (SetupStep::Interface, errno))?;
        let netlink = &mut self.netlink;
        netlink.up(index).map_err(|errno| (SetupStep::Interface, errno))?;

        let six = has_ipv6(&at.name);
        let fits = |address: &IpAddr| six || address.is_ipv4();
        for &(address, prefix) in at.addresses.iter().filter(|(address, _)| fits(address)) {
            netlink
                .add_address(index, address, prefix)
                .map_err(|errno| (SetupStep::Addresses, errno))?;
        }
        let link_local = six.then(|| (link_local(at.peer).into(), at.peer));
        for (address, mac) in
            at.neighbours.iter().copied().filter(|(address, _)| fits(address)).chain(link_local)
        {
            netlink
                .add_neighbour(index, address, mac)
                .map_err(|errno| (SetupStep::Neighbours, errno))?;
        }
        for &(to, gateway) in at.routes.iter().filter(|(_, gateway)| fits(gateway)) {
            let added = match to {
                Some(to) => netlink.add_route(index, to, gateway),
                None => netlink.add_default_route(index, gateway),
            };
            added.map_err(|errno| (SetupStep::Routes, errno))?;
        }
        Ok(())
    }
}

/// Makes a TAP interface in the current namespace, whose other settings do not change. With `stays`
/// the TAP is persistent and may exist already; then it keeps the settings that its owner gave it.
pub(crate) fn tap_in_place(at: &Attachment, stays: bool) -> Result<Tap, Failure> {
    let mut network = SideNetwork::found()?;
    let was_there = if_nametoindex(&*at.name);
    if !stays {
        return network.add_tap(at, true);
    }
    let tap = Tap::create(&at.name, true, true)?;
    if let Ok(index) = was_there {
        network.netlink.up(index).map_err(|errno| (SetupStep::Interface, errno))?;
        return Ok(tap);
    }
    let configured = if_nametoindex(&*at.name)
        .and_then(|index| network.netlink.configure(index, interface(at, at.mac, true)));
    configured.map_err(|errno| (SetupStep::Interface, errno))?;
    network.configure(at)?;
    Ok(tap)
}

/// Lets the namespace forward packets for other hosts, if configured.
pub(super) fn forward(forwards: Forwards) {
    match forwards {
        Forwards::Nothing => {}
        Forwards::WayOut => {
            set("ipv4/ip_forward", "1");
            // At the way out, hosts ask with ARP for the near side's address; new interfaces
            // inherit this setting.
            set("ipv4/conf/default/proxy_arp", "1");
        }
        Forwards::All => {
            set("ipv4/ip_forward", "1");
            set("ipv6/conf/all/forwarding", "1");
        }
    }
}

/// Brings up the far side's end of a way out through the host, gives it an address, and sets the
/// default route there.
pub(super) fn configure_way_out(subnet: Subnet) -> Result<(), Failure> {
    let [own, gateway] = subnet.way_out();
    let mut netlink = Netlink::open().map_err(|errno| (SetupStep::Netlink, errno))?;
    let index = if_nametoindex(NAT_INTERFACE).map_err(|errno| (SetupStep::Interface, errno))?;
    netlink.up(index).map_err(|errno| (SetupStep::Interface, errno))?;
    netlink.add_address(index, own.into(), 30).map_err(|errno| (SetupStep::Addresses, errno))?;
    netlink.add_default_route(index, gateway.into()).map_err(|errno| (SetupStep::Routes, errno))
}

/// Makes this side answer ARP requests for other hosts' addresses (proxy ARP) without delay at the
/// NAT interface, instead of after a random time of up to 0.8 s.
pub(super) fn answer_at_once() -> Result<(), Failure> {
    let mut netlink = Netlink::open().map_err(|errno| (SetupStep::Netlink, errno))?;
    let index = if_nametoindex(NAT_INTERFACE).map_err(|errno| (SetupStep::Interface, errno))?;
    netlink.answer_at_once(index).map_err(|errno| (SetupStep::Neighbours, errno))
}

/// Returns true if a link carries IPv6. It does not if the MTU is below 1280 bytes or IPv6 is
/// switched off.
pub(super) fn has_ipv6(interface: &str) -> bool {
    fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"))
        .is_ok_and(|off| off.trim() == "0")
}

fn interface(at: &Attachment, mac: [u8; 6], large: bool) -> NetlinkInterface<'_> {
    NetlinkInterface { name: &at.name, mac, mtu: at.mtu, queue: QUEUE, large }
}

/// The network namespace that the process is in now.
pub(super) fn network_namespace() -> Result<OwnedFd, Errno> {
    open("/proc/self/ns/net", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
}

/// The link-local address that the kernel derives from an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Changes a setting of this network namespace. Best effort: `/proc/sys` may be read-only, as in
/// containers, and the link works without the change.
fn set(name: &str, value: &str) {
    let _ = fs::write(format!("/proc/sys/net/{name}"), value);
}

/// The lowest and the highest group of this user namespace; no higher group than the kernel accepts
/// for ping.
fn groups() -> (u32, u32) {
    const HIGHEST: u32 = i32::MAX as u32;
    let map = fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, _outside, count) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some((first, first.saturating_add(count.saturating_sub(1)).min(HIGHEST)))
    });
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, HIGHEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_follow_from_ethernet_addresses() {
        assert_eq!(
            link_local([0x02, 0xfa, 0x1a, 0, 0, 1]),
            "fe80::fa:1aff:fe00:1".parse::<Ipv6Addr>().unwrap()
        );
    }
}
