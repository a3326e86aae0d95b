//! The key of a packet: the header fields that decide its flow.
//!
//! Every frame has a key. Fields that are cut off or malformed are unknown, and those before them
//! are known:
//!
//! | fault | known fields |
//! |---|---|
//! | shorter than an Ethernet header | nothing |
//! | cut off in a VLAN tag, or with a fourth one | MACs, the outer tag if it is whole |
//! | IP whose fixed header is cut off, states an impossible length, or is of another version than its Ethernet type | MACs, tag, Ethernet type |
//! | cut off, or malformed, after the fixed header of IP | also addresses, protocol, TOS, TTL, length according to the header |
//! | IPv6 whose further headers are cut off or more than [`MOST_HEADERS`] | the protocol is the first header that was not read |
//! | a fragment other than the first | all but ports and TCP flags |
//! | TCP or UDP whose first 4 bytes are cut off | all but ports and TCP flags |
//! | TCP whose first 14 bytes are cut off | all but TCP flags |

use crate::header::{Protocol, Version};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU64;

/// The header fields that rules match; `None` where a packet has no such field or is cut off. A
/// fragment other than the first has no known ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Key {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// The protocol that IP carries, after extension headers of IPv6.
    pub protocol: Option<Protocol>,
    /// Source and destination port of TCP and UDP.
    pub ports: Option<(u16, u16)>,
    /// The Ethernet addresses.
    pub macs: Option<Macs>,
    /// The Ethernet type, after VLAN tags.
    pub ether: Option<u16>,
    /// The VLAN of the outer tag.
    pub vlan: Option<u16>,
    /// Type of service of IPv4, traffic class of IPv6: DSCP and ECN.
    pub tos: Option<u8>,
    /// Time to live of IPv4, hop limit of IPv6.
    pub ttl: Option<u8>,
    /// Length of the IP packet according to its header.
    pub length: Option<u32>,
    /// Flow label of IPv6.
    pub flow_label: Option<u32>,
    /// Flags of TCP, the low eight.
    pub tcp: Option<u8>,
    /// The place of the packet in a fragmented packet.
    pub fragment: Fragment,
    /// The mark that rules have set, zero if none has. It is in no header: it goes with the packet
    /// from link to link.
    pub mark: u32,
    /// The virtual adapter where the packet entered, or where it is to leave. It is in no header:
    /// the packet's port determines it.
    pub adapter: Option<AdapterId>,
}

/// A virtual adapter, by a number that follows from its name alone: the number does not depend on
/// other adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterId(NonZeroU64);

impl AdapterId {
    /// The adapter of this name: its FNV-1a hash, never zero. A caller with several names checks
    /// that their numbers differ.
    pub fn named(name: &str) -> AdapterId {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        AdapterId(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// The number of the adapter, never zero.
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// The upper 15 bits of the number, with the lowest bit set, so that it is never zero.
    pub(crate) fn short(self) -> u16 {
        (self.0.get() >> 49) as u16 | 1
    }
}

/// The number in base 16: the engine does not keep names.
impl fmt::Display for AdapterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The Ethernet addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Macs {
    /// Source address.
    pub src: [u8; 6],
    /// Destination address.
    pub dst: [u8; 6],
}

/// The place of a packet in a fragmented packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fragment {
    /// A whole packet.
    #[default]
    No,
    /// The first fragment, which has the headers of the protocol that IP carries.
    First,
    /// A later fragment.
    Later,
}

/// The largest number of VLAN tags that are read.
const TAGS: usize = 3;
/// The largest number of IPv6 extension headers that are read.
pub const MOST_HEADERS: usize = 16;

/// Protocols that are extension headers of IPv6. The authentication header may follow a header of
/// IPv4, too.
mod header {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// Ethernet types.
const IP4: u16 = 0x0800;
const IP6: u16 = 0x86dd;
/// Smaller values are a length and not a type.
const FIRST_TYPE: u16 = 0x0600;

/// Returns true if this is the type of a VLAN tag.
pub(crate) const fn is_tag(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100)
}

impl Key {
    /// Reads an Ethernet frame; every frame has a key.
    pub fn of_ethernet(frame: &[u8]) -> Key {
        let mut key = Key::default();
        let Some((head, mut rest)) = frame.split_first_chunk::<14>() else { return key };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, k0, k1] = *head;
        key.macs = Some(Macs { dst: [d0, d1, d2, d3, d4, d5], src: [s0, s1, s2, s3, s4, s5] });
        let mut kind = u16::from_be_bytes([k0, k1]);
        for _ in 0..TAGS {
            if !is_tag(kind) {
                break;
            }
            let Some((&[t0, t1, k0, k1], behind)) = rest.split_first_chunk::<4>() else {
                return key;
            };
            key.vlan.get_or_insert(u16::from_be_bytes([t0, t1]) & 0x0fff);
            (kind, rest) = (u16::from_be_bytes([k0, k1]), behind);
        }
        if kind < FIRST_TYPE || is_tag(kind) {
            return key;
        }
        key.ether = Some(kind);
        match kind {
            IP4 => key.ip4(rest),
            IP6 => key.ip6(rest),
            _ => {}
        }
        key
    }

    /// The key of a datagram or segment as an ordinary sender makes it, in an IP packet of `length`
    /// bytes.
    pub fn of_ordinary(protocol: Protocol, from: SocketAddr, to: SocketAddr, length: u32) -> Key {
        Key {
            src: Some(from.ip()),
            dst: Some(to.ip()),
            protocol: Some(protocol),
            ports: protocol.has_ports().then_some((from.port(), to.port())),
            ether: Some(if from.is_ipv4() { IP4 } else { IP6 }),
            tos: Some(0),
            ttl: Some(64),
            length: Some(length),
            flow_label: from.is_ipv6().then_some(0),
            tcp: (protocol == Protocol::TCP).then_some(TCP_ACK),
            ..Key::default()
        }
    }

    /// The key of a TCP segment that acknowledges, with the same addresses and ports.
    pub fn of_tcp(self) -> Key {
        Key { protocol: Some(Protocol::TCP), tcp: Some(TCP_ACK), ..self }
    }

    fn ip4(&mut self, packet: &[u8]) {
        let Some((head, _)) = packet.split_first_chunk::<20>() else { return };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let ihl = usize::from(head[0] & 0x0f) * 4;
        if head[0] >> 4 != 4 || ihl < 20 {
            return;
        }
        let address = |at: usize| {
            IpAddr::V4(Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]))
        };
        (self.src, self.dst) = (Some(address(12)), Some(address(16)));
        (self.tos, self.ttl, self.length) = (Some(head[1]), Some(head[8]), Some(word(2).into()));
        let pieces = word(6);
        self.fragment = match (pieces & 0x1fff, pieces & 0x2000) {
            (0, 0) => Fragment::No,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        // Bytes after the packet are padding. A length of zero is left for the device to fill in;
        // with it, as with any length below the header's, all bytes belong to the packet.
        let end = usize::from(word(2));
        let end = if end < ihl { packet.len() } else { end.min(packet.len()) };
        self.carried(head[9], packet.get(ihl..end).unwrap_or(&[]), false);
    }

    fn ip6(&mut self, packet: &[u8]) {
        let Some((head, rest)) = packet.split_first_chunk::<40>() else { return };
        if head[0] >> 4 != 6 {
            return;
        }
        let address = |at: usize| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&head[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(bytes))
        };
        (self.src, self.dst) = (Some(address(8)), Some(address(24)));
        let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        self.tos = Some((first >> 20) as u8);
        self.flow_label = Some(first & 0x000f_ffff);
        self.ttl = Some(head[7]);
        let length = u16::from_be_bytes([head[4], head[5]]);
        self.length = Some(u32::from(length) + 40);
        // A length of zero is that of a jumbogram, or left for the device to fill in.
        let end = if length == 0 { rest.len() } else { rest.len().min(length.into()) };
        self.carried(head[6], &rest[..end], true);
    }

    /// Reads the headers that IP carries.
    fn carried(&mut self, mut protocol: u8, mut rest: &[u8], six: bool) {
        use header::{
            AUTHENTICATION, DESTINATION, FRAGMENT, HIP, HOP_BY_HOP, MOBILITY, ROUTING, SHIM6,
        };
        self.protocol = Some(Protocol(protocol));
        for _ in 0..MOST_HEADERS {
            if self.fragment == Fragment::Later {
                return;
            }
            let length = match (protocol, rest) {
                (HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6, [_, length, ..])
                    if six =>
                {
                    8 + 8 * usize::from(*length)
                }
                (FRAGMENT, [_, _, high, low, ..]) if six => {
                    let pieces = u16::from_be_bytes([*high, *low]);
                    if rest.len() >= 8 {
                        self.fragment = match (pieces >> 3, pieces & 1) {
                            (0, 0) => Fragment::No,
                            (0, _) => Fragment::First,
                            _ => Fragment::Later,
                        };
                    }
                    8
                }
                (AUTHENTICATION, [_, length, ..]) => 8 + 4 * usize::from(*length),
                _ => break,
            };
            let Some(behind) = rest.get(length..) else { return };
            (protocol, rest) = (rest[0], behind);
            self.protocol = Some(Protocol(protocol));
        }
        if let ([s0, s1, d0, d1, ..], Protocol::TCP | Protocol::UDP) = (rest, Protocol(protocol)) {
            self.ports = Some((u16::from_be_bytes([*s0, *s1]), u16::from_be_bytes([*d0, *d1])));
            if protocol == Protocol::TCP.0 {
                self.tcp = rest.get(13).copied();
            }
        }
    }

    /// The version of IP.
    pub fn version(&self) -> Option<Version> {
        self.src.map(|addr| if addr.is_ipv4() { Version::V4 } else { Version::V6 })
    }
}

/// The TCP flag that most segments have.
const TCP_ACK: u8 = 0x10;

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{LaxNetSlice, LaxSlicedPacket, PacketBuilder, TransportSlice};
    use proptest::prelude::*;

    fn of(packet: etherparse::PacketBuilderStep<etherparse::UdpHeader>) -> Vec<u8> {
        let mut frame = Vec::new();
        packet.write(&mut frame, &[7; 24]).expect("a vector takes it all");
        frame
    }

    fn frames() -> Vec<Vec<u8>> {
        let mut tcp = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([1; 16], [2; 16], 64)
            .tcp(80, 5000, 1, 1)
            .syn()
            .write(&mut tcp, &[0; 9])
            .expect("a vector takes it all");
        let mut six =
            of(PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64).udp(5, 6));
        // Two headers before UDP: destination options, and a fragment header of a whole packet.
        six[14 + 6] = header::DESTINATION;
        six[14 + 5] += 16;
        six.splice(54..54, [header::FRAGMENT, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 9]);
        vec![
            of(PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
                .udp(1, 2)),
            of(PacketBuilder::ethernet2([2; 6], [4; 6])
                .single_vlan(7u16.try_into().expect("a VLAN"))
                .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 3)
                .udp(1, 2)),
            tcp,
            six,
        ]
    }

    #[test]
    fn a_key_is_read() {
        let [plain, tagged, tcp, six] = &frames()[..] else { panic!("four of them") };
        let key = Key::of_ethernet(plain);
        assert_eq!(
            (key.ports, key.ttl, key.tos, key.ether),
            (Some((1, 2)), Some(64), Some(0), Some(0x800))
        );
        assert_eq!((key.length, key.fragment, key.vlan), (Some(52), Fragment::No, None));
        assert_eq!(key.macs, Some(Macs { src: [2; 6], dst: [4; 6] }));
        let key = Key::of_ethernet(tagged);
        assert_eq!((key.vlan, key.ports, key.ttl), (Some(7), Some((1, 2)), Some(3)));
        let key = Key::of_ethernet(tcp);
        assert_eq!(
            (key.tcp, key.ports, key.version()),
            (Some(2), Some((80, 5000)), Some(Version::V6))
        );
        let key = Key::of_ethernet(six);
        assert_eq!(
            (key.protocol, key.ports, key.length),
            (Some(Protocol::UDP), Some((5, 6)), Some(88))
        );
    }

    #[test]
    fn of_a_piece_only_the_first_has_ports() {
        let mut frame = frames()[0].clone();
        for (pieces, fragment, ports) in [
            ([0x20, 0], Fragment::First, Some((1, 2))),
            ([0x20, 9], Fragment::Later, None),
            ([0x00, 9], Fragment::Later, None),
            ([0x40, 0], Fragment::No, Some((1, 2))),
        ] {
            frame[14 + 6..14 + 8].copy_from_slice(&pieces);
            let key = Key::of_ethernet(&frame);
            assert_eq!(
                (key.fragment, key.ports, key.protocol),
                (fragment, ports, Some(Protocol::UDP))
            );
        }
        let mut six = frames()[3].clone();
        six[62 + 3] = 8 | 1;
        let key = Key::of_ethernet(&six);
        assert_eq!(
            (key.fragment, key.ports, key.protocol),
            (Fragment::Later, None, Some(Protocol::UDP))
        );
    }

    /// As a frame gets shorter, each field keeps its value or becomes unknown, and never changes.
    #[test]
    fn what_is_cut_off_is_not_known() {
        for frame in frames() {
            let whole = Key::of_ethernet(&frame);
            for length in 0..frame.len() {
                let key = Key::of_ethernet(&frame[..length]);
                assert!(key.src == whole.src || key.src.is_none());
                assert!(key.ports == whole.ports || key.ports.is_none());
                assert!(key.tcp == whole.tcp || key.tcp.is_none());
                assert!(key.ether == whole.ether || key.ether.is_none());
                assert_eq!(key.src.is_some(), key.protocol.is_some());
            }
        }
    }

    #[test]
    fn nonsense_is_no_ip() {
        let mut frame = frames()[0].clone();
        for first in [0x65, 0x44, 0x00, 0xff] {
            frame[14] = first;
            let key = Key::of_ethernet(&frame);
            assert_eq!((key.src, key.protocol, key.ether), (None, None, Some(0x800)), "{first:x}");
        }
        // A header that is longer than the packet.
        frame[14] = 0x4f;
        frame[14 + 3] = 60;
        frame.truncate(14 + 50);
        let key = Key::of_ethernet(&frame);
        assert_eq!((key.src.is_some(), key.protocol, key.ports), (true, Some(Protocol::UDP), None));
        // IPv6 extension headers without an end.
        let mut six = frames()[2].clone();
        six[14 + 6] = header::HOP_BY_HOP;
        six.truncate(54);
        six.resize(54 + 400, 0);
        (six[14 + 4], six[14 + 5]) = (1, 144);
        assert_eq!(Key::of_ethernet(&six).protocol, Some(Protocol(header::HOP_BY_HOP)));
    }

    proptest! {
        /// Compares with another parser, on whole packets and on packets with changed bytes.
        #[test]
        fn another_parser_reads_the_same(
            which in 0usize..4,
            edits in prop::collection::vec((12usize..80, any::<u8>()), 0..3),
        ) {
            let mut frame = frames()[which].clone();
            let length = frame.len();
            edits.iter().for_each(|&(at, byte)| frame[at % length] = byte);
            let key = Key::of_ethernet(&frame);
            let Ok(other) = LaxSlicedPacket::from_ethernet(&frame) else { return Ok(()) };
            // The other parser trusts the first bits of the header, and ours the frame's type.
            let version = if matches!(other.net, Some(LaxNetSlice::Ipv6(_))) { IP6 } else { IP4 };
            if key.ether != Some(version) {
                return Ok(());
            }
            let (src, protocol) = match &other.net {
                Some(LaxNetSlice::Ipv4(ip)) => {
                    (Some(IpAddr::from(ip.header().source_addr())), Some(ip.payload().ip_number.0))
                }
                Some(LaxNetSlice::Ipv6(ip)) => {
                    (Some(IpAddr::from(ip.header().source_addr())), Some(ip.payload().ip_number.0))
                }
                _ => (None, None),
            };
            // The other parser reads nothing from a header that is cut off in its options.
            if src.is_some() {
                prop_assert_eq!(key.src, src);
            }
            // It also reads nothing after these IPv6 headers, or after a header that it takes for
            // malformed.
            let ends = [header::MOBILITY, header::HIP, header::SHIM6].map(Some);
            if src.is_some() && !ends.contains(&protocol) && other.stop_err.is_none() {
                prop_assert_eq!(key.protocol.map(|p| p.0), protocol);
            }
            let ports = match &other.transport {
                Some(TransportSlice::Udp(udp)) => Some((udp.source_port(), udp.destination_port())),
                Some(TransportSlice::Tcp(tcp)) => Some((tcp.source_port(), tcp.destination_port())),
                _ => None,
            };
            // The other parser wants the whole header, and ours just the ports.
            if ports.is_some() {
                prop_assert_eq!(key.ports, ports);
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = Key::of_ethernet(&bytes);
        }
    }
}
