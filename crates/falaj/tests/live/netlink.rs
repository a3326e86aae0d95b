//! Functions that configure the kernel's network by netlink, for these tests.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Prop,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::net::if_::if_nametoindex;
use std::net::IpAddr;

/// Creates a veth pair with default settings: `here`, and `there` in the network namespace of a
/// process.
pub(crate) fn veth(here: &str, there: &str, process: u32) {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![LinkAttribute::IfName(there.into()), LinkAttribute::NetNsPid(process)];
    let mut link = LinkMessage::default();
    let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)));
    let info = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), data]);
    link.attributes = vec![LinkAttribute::IfName(here.into()), info];
    request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL);
}

/// Creates a kernel bridge.
pub(crate) fn add_bridge(name: &str) {
    add(name, vec![LinkInfo::Kind(InfoKind::Bridge)], None);
}

/// Creates an interface for a VLAN on top of the interface `below`. Returns true if it was created,
/// and false if the kernel has no VLANs.
pub(crate) fn add_vlan(name: &str, below: &str, id: u16) -> bool {
    let data = LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(id)]));
    let info = vec![LinkInfo::Kind(InfoKind::Vlan), data];
    let flags = NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
    match ask(RouteNetlinkMessage::NewLink(new(name, info, Some(below))), flags) {
        NetlinkPayload::Error(error) if error.code.is_none() => true,
        NetlinkPayload::Error(error)
            if error.code.is_some_and(|code| code.get() == -nix::libc::EOPNOTSUPP) =>
        {
            false
        }
        answer => panic!("{answer:?}"),
    }
}

/// Creates an interface with an Ethernet address of its own on top of the interface `below`
/// (macvlan).
pub(crate) fn add_macvlan(name: &str, below: &str) {
    add(name, vec![LinkInfo::Kind(InfoKind::MacVlan)], Some(below));
}

fn add(name: &str, info: Vec<LinkInfo>, below: Option<&str>) {
    let link = RouteNetlinkMessage::NewLink(new(name, info, below));
    request(link, NLM_F_CREATE | NLM_F_EXCL);
}

fn new(name: &str, info: Vec<LinkInfo>, below: Option<&str>) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.attributes = vec![LinkAttribute::IfName(name.into()), LinkAttribute::LinkInfo(info)];
    link.attributes.extend(below.map(|below| LinkAttribute::Link(interface(below).header.index)));
    link
}

/// Makes an interface a port of a bridge.
pub(crate) fn add_to_bridge(name: &str, bridge: &str) {
    let mut link = interface(name);
    link.attributes = vec![LinkAttribute::Controller(interface(bridge).header.index)];
    request(RouteNetlinkMessage::SetLink(link), 0);
}

/// Gives an interface an additional name.
pub(crate) fn add_name(name: &str, other: &str) {
    let mut link = interface(name);
    link.attributes = vec![LinkAttribute::PropList(vec![Prop::AltIfName(other.into())])];
    request(RouteNetlinkMessage::NewLinkProp(link), NLM_F_CREATE | NLM_F_EXCL);
}

fn interface(name: &str) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = if_nametoindex(name).expect("the interface is there");
    link
}

/// Brings an interface up or takes it down.
pub(crate) fn set_up(name: &str, up: bool) {
    let mut link = interface(name);
    link.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    link.header.change_mask = LinkFlags::Up;
    request(RouteNetlinkMessage::SetLink(link), 0);
}

/// Renames an interface.
pub(crate) fn rename(name: &str, to: &str) {
    let mut link = interface(name);
    link.attributes = vec![LinkAttribute::IfName(to.into())];
    request(RouteNetlinkMessage::SetLink(link), 0);
}

/// Sets an interface's mtu.
pub(crate) fn set_mtu(name: &str, mtu: u32) {
    let mut link = interface(name);
    link.attributes = vec![LinkAttribute::Mtu(mtu)];
    request(RouteNetlinkMessage::SetLink(link), 0);
}

/// Sets an interface's Ethernet address.
pub(crate) fn set_ethernet_address(name: &str, address: [u8; 6]) {
    let mut link = interface(name);
    link.attributes = vec![LinkAttribute::Address(address.into())];
    request(RouteNetlinkMessage::SetLink(link), 0);
}

/// Removes an interface.
pub(crate) fn delete(name: &str) {
    request(RouteNetlinkMessage::DelLink(interface(name)), 0);
}

/// Returns an interface's promiscuity count.
pub(crate) fn promiscuity(name: &str) -> u32 {
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) =
        ask(RouteNetlinkMessage::GetLink(interface(name)), 0)
    else {
        panic!("the kernel describes the interface")
    };
    let of = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Promiscuity(n) => Some(*n),
        _ => None,
    };
    link.attributes.iter().find_map(of).expect("a count")
}

/// Gives an interface an address that is usable at once.
pub(crate) fn add_address(name: &str, address: IpAddr, prefix: u8) {
    let mut message = AddressMessage::default();
    message.header.family =
        if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    message.header.index = if_nametoindex(name).expect("the interface is there");
    if address.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL);
}

fn request(message: RouteNetlinkMessage, flags: u16) {
    match ask(message, flags | NLM_F_ACK) {
        NetlinkPayload::Error(error) if error.code.is_none() => {}
        answer => panic!("{answer:?}"),
    }
}

fn ask(message: RouteNetlinkMessage, flags: u16) -> NetlinkPayload<RouteNetlinkMessage> {
    let socket = Socket::new(NETLINK_ROUTE).expect("a netlink socket");
    socket.connect(&SocketAddr::new(0, 0)).expect("the kernel listens");
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0).expect("asked");
    let (answer, _) = socket.recv_from_full().expect("an answer");
    NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).expect("a message").payload
}
