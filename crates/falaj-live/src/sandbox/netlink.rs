//! The requests to the kernel's network configuration that a sandbox needs, one function each.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use falaj_sched::units::rate::Rate;
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::neighbour_table::{
    NeighbourTableAttribute, NeighbourTableMessage, NeighbourTableParameter,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;

/// The settings of an interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetlinkInterface<'a> {
    pub(crate) name: &'a str,
    pub(crate) mac: [u8; 6],
    /// The largest IP packet in bytes.
    pub(crate) mtu: u16,
    /// Largest number of frames that wait for the reader.
    pub(crate) queue: u32,
    /// True if the interface accepts units of many packets; otherwise the kernel divides them
    /// first.
    pub(crate) large: bool,
}

impl NetlinkInterface<'_> {
    fn attributes(&self) -> Vec<LinkAttribute> {
        let mut attributes = vec![
            LinkAttribute::IfName(self.name.into()),
            LinkAttribute::Address(self.mac.into()),
            LinkAttribute::Mtu(self.mtu.into()),
            LinkAttribute::TxQueueLen(self.queue),
        ];
        if !self.large {
            attributes.push(LinkAttribute::GsoMaxSegs(1));
        }
        attributes
    }
}

/// A synchronous route-netlink socket of one network namespace.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket to the network namespace that the process is in now.
    pub(crate) fn open() -> Result<Netlink, Errno> {
        let socket = Socket::new(NETLINK_ROUTE).map_err(errno)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(errno)?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Brings interface `index` up.
    pub(crate) fn up(&mut self, index: u32) -> Result<(), Errno> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Gives interface `index` the settings of `interface`.
    pub(crate) fn configure(
        &mut self,
        index: u32,
        interface: NetlinkInterface<'_>,
    ) -> Result<(), Errno> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = interface.attributes();
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Makes a pair of veth interfaces: `here` in this network namespace, `there` in `namespace`.
    pub(crate) fn add_veth(
        &mut self,
        here: NetlinkInterface<'_>,
        there: NetlinkInterface<'_>,
        namespace: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let mut peer = LinkMessage::default();
        peer.attributes = there.attributes();
        peer.attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
        let mut link = LinkMessage::default();
        link.attributes = here.attributes();
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes a kernel bridge in this network namespace.
    pub(crate) fn add_bridge(&mut self, name: &str) -> Result<(), Errno> {
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ];
        self.request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes interface `index` a port of the bridge `bridge`.
    pub(crate) fn add_to_bridge(&mut self, index: u32, bridge: u32) -> Result<(), Errno> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = vec![LinkAttribute::Controller(bridge)];
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Limits the rate at which interface `index` sends, by a token bucket. The burst is at least
    /// two of the largest frames for `mtu`. Frames that wait for tokens are queued, at most 1 MiB.
    pub(crate) fn add_token_bucket(
        &mut self,
        index: u32,
        rate: Rate,
        mtu: u16,
    ) -> Result<(), Errno> {
        /// `TCA_TBF_PARMS`, `TCA_TBF_RATE64` and `TCA_TBF_BURST`.
        const PARAMETERS: u16 = 1;
        const RATE: u16 = 4;
        const BURST: u16 = 6;
        const WAITS: u32 = 1 << 20;
        let bytes = rate.0 / 8;
        // The burst covers a timer that is late by half a millisecond.
        let burst = u32::try_from(bytes / 2_000).unwrap_or(u32::MAX).max(2 * (u32::from(mtu) + 18));
        // Rate and peak rate of a `tc_tbf_qopt`, then the limit; the link layer is Ethernet.
        let mut parameters = [0; 36];
        parameters[1] = 1;
        parameters[8..12].copy_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
        parameters[24..28].copy_from_slice(&WAITS.to_ne_bytes());
        let option = |kind, value: &[u8]| TcOption::Other(DefaultNla::new(kind, value.to_vec()));
        let mut message = TcMessage::with_index(i32::try_from(index).map_err(|_| Errno::ENODEV)?);
        message.header.parent = TcHandle::ROOT;
        message.attributes = vec![
            TcAttribute::Kind("tbf".into()),
            TcAttribute::Options(vec![
                option(PARAMETERS, &parameters),
                option(RATE, &bytes.to_ne_bytes()),
                option(BURST, &burst.to_ne_bytes()),
            ]),
        ];
        self.request(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Gives interface `index` an address, usable at once: without the wait for duplicate address
    /// detection.
    pub(crate) fn add_address(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), Errno> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix;
        message.header.scope = AddressScope::Universe;
        message.header.index = index;
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a permanent entry for the Ethernet address of a neighbour behind interface `index`.
    pub(crate) fn add_neighbour(
        &mut self,
        index: u32,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), Errno> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(match address {
                IpAddr::V4(address) => NeighbourAddress::Inet(address),
                IpAddr::V6(address) => NeighbourAddress::Inet6(address),
            }),
            NeighbourAttribute::LinkLayerAddress(mac.into()),
        ];
        self.request(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Lets interface `index` answer ARP requests for other hosts' addresses without delay. `/proc`
    /// does not show this setting to user namespaces, so netlink sets it.
    pub(crate) fn answer_at_once(&mut self, index: u32) -> Result<(), Errno> {
        let mut message = NeighbourTableMessage::default();
        message.header.family = AddressFamily::Inet;
        message.attributes = vec![
            NeighbourTableAttribute::Name("arp_cache".into()),
            NeighbourTableAttribute::Parms(vec![
                NeighbourTableParameter::Ifindex(index),
                NeighbourTableParameter::ProxyDelay(0),
            ]),
        ];
        self.request(RouteNetlinkMessage::SetNeighbourTable(message), 0)
    }

    /// Routes packets for these addresses through interface `index` to `gateway`.
    pub(crate) fn add_route(
        &mut self,
        index: u32,
        (to, prefix): (IpAddr, u8),
        gateway: IpAddr,
    ) -> Result<(), Errno> {
        let mut message = route(index, gateway);
        message.header.destination_prefix_length = prefix;
        message.attributes.push(RouteAttribute::Destination(to.into()));
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes interface `index`, and with it its addresses and routes.
    pub(crate) fn remove(&mut self, index: u32) -> Result<(), Errno> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.request(RouteNetlinkMessage::DelLink(link), 0)
    }

    /// Routes all packets without a better route through interface `index` to `gateway`.
    pub(crate) fn add_default_route(&mut self, index: u32, gateway: IpAddr) -> Result<(), Errno> {
        self.request(
            RouteNetlinkMessage::NewRoute(route(index, gateway)),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Errno> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(errno)?;
        let (answer, _) = self.socket.recv_from_full().map_err(errno)?;
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map(|answer| answer.payload)
        {
            // The kernel's errors are negative errnos; an acknowledgement is the error 0, which has
            // no code here.
            Ok(NetlinkPayload::Error(error)) => match error.code {
                None => Ok(()),
                Some(code) => Err(Errno::from_raw(-code.get())),
            },
            _ => Err(Errno::EPROTO),
        }
    }
}

/// A route for all packets through interface `index` to `gateway`.
fn route(index: u32, gateway: IpAddr) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(gateway);
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Gateway(gateway.into()), RouteAttribute::Oif(index)];
    message
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
