//! Masks: the parts of a packet, and the bits of each part, that count. Their values are the
//! packet's id, and each id gets a queue or a link of its own. A mask selects no packets; that is
//! the purpose of a match.

use crate::header::Protocol;
use crate::key::Key;
use crate::term::Term;
use falaj_sched::units::time::Span;
use std::fmt;
use std::net::IpAddr;

/// The bits of an address that count, by the version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressBits {
    /// Bits of an IPv4 address.
    pub v4: u32,
    /// Bits of an IPv6 address.
    pub v6: u128,
}

impl AddressBits {
    /// Whole addresses.
    pub const WHOLE: AddressBits = AddressBits { v4: u32::MAX, v6: u128::MAX };
}

/// The first `count` bits of a field of `of` bits, at most 128.
pub const fn first_bits(count: u32, of: u32) -> u128 {
    if count == 0 { 0 } else { u128::MAX >> (128 - count) << (of - count) }
}

/// The bits that count in a field of `of` bits, as a scenario writes them after the field: nothing
/// for all, `/24` for the first 24, `/0x000000ff` for others.
fn suffix(bits: u128, of: u32) -> String {
    let count = bits.count_ones();
    if count == of {
        String::new()
    } else if bits == first_bits(count, of) {
        format!("/{count}")
    } else {
        format!("/0x{bits:0digits$x}", digits = of as usize / 4)
    }
}

/// The parts of a packet that count. Packets with the same values of all these parts have the same
/// [`MaskId`]; a missing part is a value of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mask {
    /// Source address.
    pub src: Option<AddressBits>,
    /// Destination address.
    pub dst: Option<AddressBits>,
    /// The bits of the source port of TCP and UDP that count.
    pub sport: Option<u16>,
    /// The bits of the destination port that count.
    pub dport: Option<u16>,
    /// The protocol that IP carries.
    pub proto: bool,
    /// Differentiated services code point.
    pub dscp: bool,
    /// The whole byte of DSCP and ECN, which includes `dscp`.
    pub tos: bool,
    /// Time to live, or hop limit.
    pub ttl: bool,
    /// Length of the IP packet.
    pub length: bool,
    /// Flags of TCP.
    pub flags: bool,
    /// The Ethernet type.
    pub ether: bool,
    /// Number of the outer VLAN.
    pub vlan: bool,
    /// Source address of the frame.
    pub mac_src: bool,
    /// Destination address of the frame.
    pub mac_dst: bool,
    /// Flow label of IPv6.
    pub flow_label: bool,
    /// The mark that rules have set.
    pub mark: bool,
}

/// Number of bytes of an id for parts: enough for addresses, ports and protocol of an IPv6 packet.
const PARTS: usize = 37;
/// Two more bytes of flags for the parts that the packet has.
const FLAGS: usize = 2;

/// The id of a packet under a mask: the values of the parts that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MaskId {
    length: u8,
    bytes: [u8; FLAGS + PARTS],
}

impl MaskId {
    /// The id of a packet under no mask.
    pub const NONE: MaskId = MaskId { length: 0, bytes: [0; FLAGS + PARTS] };

    /// The bytes that distinguish it from other ids of its mask.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Default for MaskId {
    fn default() -> MaskId {
        MaskId::NONE
    }
}

impl fmt::Debug for MaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Fills an id part by part.
struct Filling {
    id: MaskId,
    shift: u16,
    flags: u16,
}

impl Filling {
    /// Adds the next part, which may be missing.
    #[inline]
    fn part<const N: usize>(&mut self, part: Option<[u8; N]>) {
        self.flagged(part, 1, 1);
    }

    /// Adds a part, with a flag of `bits` bits: two for an address, whose flag shows the version of
    /// IP, and one for any other part. All flags together fit into [`FLAGS`] bytes.
    #[inline]
    fn flagged<const N: usize>(&mut self, part: Option<[u8; N]>, flag: u16, bits: u16) {
        let shift = self.shift;
        self.shift += bits;
        let Some(part) = part else { return };
        self.flags |= flag << shift;
        let from = usize::from(self.id.length);
        if let Some(place) = self.id.bytes.get_mut(from..from + N) {
            place.copy_from_slice(&part);
            self.id.length += N as u8;
        }
    }

    fn address(&mut self, addr: Option<IpAddr>, bits: AddressBits) {
        match addr {
            Some(IpAddr::V4(addr)) => {
                self.flagged(Some((addr.to_bits() & bits.v4).to_be_bytes()), 1, 2);
            }
            Some(IpAddr::V6(addr)) => {
                self.flagged(Some((addr.to_bits() & bits.v6).to_be_bytes()), 2, 2);
            }
            None => self.flagged::<0>(None, 0, 2),
        }
    }
}

impl Mask {
    /// Number of bytes of all its parts; more than [`Mask::MOST`] do not fit into an id.
    pub fn size(&self) -> usize {
        let flag = |set: bool, bytes: usize| if set { bytes } else { 0 };
        let addresses = [self.src, self.dst].iter().flatten().count() * 16;
        let ports = flag(self.sport.is_some(), 2) + flag(self.dport.is_some(), 2);
        let ip = flag(self.proto, 1)
            + flag(self.dscp || self.tos, 1)
            + flag(self.ttl, 1)
            + flag(self.length, 3);
        let small = ip + flag(self.flow_label, 3) + flag(self.flags, 1) + flag(self.mark, 4);
        let frame = flag(self.vlan, 2) + flag(self.ether, 2);
        addresses + ports + small + frame + flag(self.mac_src, 6) + flag(self.mac_dst, 6)
    }

    /// The largest size of a mask.
    pub const MOST: usize = PARTS;

    /// The id of a packet with this key.
    pub fn id(&self, key: &Key) -> MaskId {
        let mut id =
            Filling { id: MaskId { length: FLAGS as u8, ..MaskId::NONE }, shift: 0, flags: 0 };
        if let Some(bits) = self.src {
            id.address(key.src, bits);
        }
        if let Some(bits) = self.dst {
            id.address(key.dst, bits);
        }
        if let Some(bits) = self.sport {
            id.part(key.ports.map(|ports| (ports.0 & bits).to_be_bytes()));
        }
        if let Some(bits) = self.dport {
            id.part(key.ports.map(|ports| (ports.1 & bits).to_be_bytes()));
        }
        if self.proto {
            id.part(key.protocol.map(|Protocol(n)| [n]));
        }
        if self.tos {
            id.part(key.tos.map(|tos| [tos]));
        } else if self.dscp {
            id.part(key.tos.map(|tos| [tos >> 2]));
        }
        if self.ttl {
            id.part(key.ttl.map(|ttl| [ttl]));
        }
        if self.length {
            let bytes = key.length.map(u32::to_be_bytes);
            id.part(bytes.map(|[_, first, second, third]| [first, second, third]));
        }
        if self.flags {
            id.part(key.tcp.map(|flags| [flags]));
        }
        if self.ether {
            id.part(key.ether.map(u16::to_be_bytes));
        }
        if self.vlan {
            id.part(key.vlan.map(u16::to_be_bytes));
        }
        if self.flow_label {
            let bytes = key.flow_label.map(u32::to_be_bytes);
            id.part(bytes.map(|[_, first, second, third]| [first, second, third]));
        }
        if self.mac_src {
            id.part(key.macs.map(|macs| macs.src));
        }
        if self.mac_dst {
            id.part(key.macs.map(|macs| macs.dst));
        }
        if self.mark {
            // There is always a mark, so it needs no flag.
            id.flagged(Some(key.mark.to_be_bytes()), 0, 0);
        }
        id.id.bytes[..FLAGS].copy_from_slice(&id.flags.to_be_bytes());
        id.id
    }

    /// An id of this mask in words, in the syntax of a `match`, with two exceptions. A part that
    /// the packet does not have is written as in `no src`. If the bits that count are not the first
    /// of a field, they are written after its value, as in `src 0.0.0.7/0x000000ff`.
    pub fn words(&self, id: &MaskId) -> String {
        let [first, second, rest @ ..] = id.bytes() else { return "any".to_owned() };
        let mut rest = rest;
        let mut flags = u16::from_be_bytes([*first, *second]);
        let mut out: Vec<String> = Vec::new();
        let mut next = |bytes: &[usize]| {
            let length = bytes
                .get(usize::from(flags) % bytes.len())
                .map_or(0, |length| (*length).min(rest.len()));
            // One flag bit distinguishes two lengths, two bits distinguish four.
            flags >>= bytes.len().ilog2();
            let (part, behind) = rest.split_at(length);
            rest = behind;
            part
        };
        let number = |part: &[u8]| part.iter().fold(0u32, |n, &byte| n << 8 | u32::from(byte));
        let mac = |part: &[u8]| {
            part.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
        };
        for (name, bits) in [("src", self.src), ("dst", self.dst)] {
            let Some(bits) = bits else { continue };
            let part = next(&[0, 4, 16, 0]);
            let address = if let Ok(four) = <[u8; 4]>::try_from(part) {
                Some((IpAddr::from(four), suffix(bits.v4.into(), 32)))
            } else {
                let sixteen = <[u8; 16]>::try_from(part).ok();
                sixteen.map(|sixteen| (IpAddr::from(sixteen), suffix(bits.v6, 128)))
            };
            out.push(match address {
                Some((addr, suffix)) => format!("{name} {addr}{suffix}"),
                None => format!("no {name}"),
            });
        }
        for (name, bits) in [("sport", self.sport), ("dport", self.dport)] {
            let Some(bits) = bits else { continue };
            let part = next(&[0, 2]);
            let (first, last) = (number(part), number(part) | u32::from(!bits));
            let prefix = u128::from(bits) == first_bits(bits.count_ones(), 16);
            out.push(match part {
                [] => format!("no {name}"),
                _ if first == last => format!("{name} {first}"),
                _ if prefix => format!("{name} {first}-{last}"),
                _ => format!("{name} {first}{}", suffix(bits.into(), 16)),
            });
        }
        let lengths = [1, 1, 1, 1, 3, 1, 2, 2, 3, 6, 6];
        for ((name, _), length) in
            self.singles().into_iter().zip(lengths).filter(|((_, set), _)| *set)
        {
            out.push(match (next(&[0, length]), name) {
                ([], _) => format!("no {name}"),
                (part, "mac-src" | "mac-dst") => format!("{name} {}", mac(part)),
                (&[set], "flags") => Term::Flags { set, clear: !set }.to_string(),
                (&[value], "tos") => Term::Tos { value, mask: u8::MAX }.to_string(),
                (part, "ether") => format!("ether 0x{:04x}", number(part)),
                (part, _) => format!("{name} {}", number(part)),
            });
        }
        if self.mark {
            out.push(format!("mark {}", number(next(&[4]))));
        }
        out.join(" ")
    }
}

impl Mask {
    /// The parts that count whole or not at all, in the order of an id.
    fn singles(&self) -> [(&'static str, bool); 11] {
        [
            ("proto", self.proto),
            ("tos", self.tos),
            ("dscp", self.dscp && !self.tos),
            ("ttl", self.ttl),
            ("length", self.length),
            ("flags", self.flags),
            ("ether", self.ether),
            ("vlan", self.vlan),
            ("flow-label", self.flow_label),
            ("mac-src", self.mac_src),
            ("mac-dst", self.mac_dst),
        ]
    }
}

impl fmt::Display for Mask {
    /// Writes it as in a scenario's `mask`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (name, bits) in [("src", self.src), ("dst", self.dst)] {
            let Some(bits) = bits else { continue };
            parts.push(format!("{name}{}", suffix(bits.v4.into(), 32)));
            let of_six = format!("{name}6{}", suffix(bits.v6, 128));
            parts.extend((bits.v6 != u128::MAX).then_some(of_six));
        }
        for (name, bits) in [("sport", self.sport), ("dport", self.dport)] {
            parts.extend(bits.map(|bits| format!("{name}{}", suffix(bits.into(), 16))));
        }
        let singles = self.singles().into_iter().chain([("mark", self.mark)]);
        parts.extend(singles.filter(|single| single.1).map(|single| single.0.to_owned()));
        f.write_str(&parts.join(" "))
    }
}

/// A mask with its limits: each id has one queue or one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskConfig {
    /// The parts that distinguish ids.
    pub mask: Mask,
    /// Maximum number of ids that have their own queue or link at a time; at least 1. Further ids
    /// share.
    pub most: u32,
    /// A queue or link that is idle for this time, which is above zero, is removed once it has no
    /// deficit.
    pub expire: Span,
}

impl MaskConfig {
    /// Default of `max-flows`, the maximum number of ids.
    pub const MOST: u32 = 65_536;
    /// The largest maximum allowed.
    pub const LIMIT: u32 = 1 << 20;
    /// Default of `expire`.
    pub const EXPIRE: Span = Span::from_secs(10);

    /// Number of queues or links that further ids share.
    pub fn shared(&self) -> u32 {
        self.most.div_ceil(64).min(1024)
    }

    /// Number of places, shared ones included.
    pub fn places(&self) -> u32 {
        self.most + self.shared()
    }

    /// Index of this place in a list by places. Shared places come first: others are appended as
    /// they are used.
    #[inline]
    pub(crate) fn slot(&self, place: u32) -> usize {
        let slot = if place < self.most { place + self.shared() } else { place - self.most };
        slot as usize
    }

    /// The place at this index of such a list.
    #[inline]
    pub(crate) fn place_in(&self, slot: usize) -> u32 {
        let (slot, shared) = (slot as u32, self.shared());
        if slot < shared { slot + self.most } else { slot - shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    const WHOLE: Option<AddressBits> = Some(AddressBits::WHOLE);

    fn udp(src: [u8; 4], dport: u16) -> Vec<u8> {
        let mut frame = Vec::new();
        let packet =
            PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [4; 6]).single_vlan(7.try_into().unwrap());
        let mut ip =
            etherparse::Ipv4Header::new(0, 64, etherparse::ip_number::UDP, src, [10, 9, 9, 9])
                .unwrap();
        ip.dscp = 46.try_into().unwrap();
        packet
            .ip(etherparse::IpHeaders::Ipv4(ip, Default::default()))
            .udp(1, dport)
            .write(&mut frame, &[0; 9])
            .unwrap();
        frame
    }

    fn id(mask: &Mask, frame: &[u8]) -> MaskId {
        mask.id(&Key::of_ethernet(frame))
    }

    #[test]
    fn packets_alike_under_the_mask_have_one_id() {
        let net = Mask {
            src: Some(AddressBits { v4: !0xff, v6: first_bits(64, 128) }),
            dport: Some(u16::MAX),
            ..Mask::default()
        };
        let first = id(&net, &udp([10, 1, 2, 3], 80));
        assert_eq!(first, id(&net, &udp([10, 1, 2, 250], 80)));
        for other in [udp([10, 1, 3, 3], 80), udp([10, 1, 2, 3], 81), b"no packet".to_vec()] {
            assert_ne!(first, id(&net, &other));
        }
        assert_eq!(net.words(&first), "src 10.1.2.0/24 dport 80");
        assert_eq!(net.words(&id(&net, b"")), "no src no dport");
        assert_eq!(net.to_string(), "src/24 src6/64 dport");
        let ports = Mask { dport: Some(0xff00), ..Mask::default() };
        let first = id(&ports, &udp([10, 1, 2, 3], 0x1280));
        assert_eq!(first, id(&ports, &udp([10, 1, 2, 3], 0x12ff)));
        assert_ne!(first, id(&ports, &udp([10, 1, 2, 3], 0x1380)));
        assert_eq!(
            (ports.words(&first), ports.to_string()),
            ("dport 4608-4863".to_owned(), "dport/8".to_owned())
        );
        // The last bits, and bits with a hole.
        let last = Some(AddressBits { v4: 0xff, v6: u128::MAX });
        let last = Mask { src: last, dport: Some(0xf00f), ..Mask::default() };
        let first = id(&last, &udp([10, 1, 2, 3], 0x1281));
        assert_eq!(first, id(&last, &udp([192, 168, 9, 3], 0x1371)));
        assert_ne!(first, id(&last, &udp([10, 1, 2, 4], 0x1281)));
        assert_ne!(first, id(&last, &udp([10, 1, 2, 3], 0x1282)));
        assert_eq!(
            (last.words(&first), last.to_string()),
            (
                "src 0.0.0.3/0x000000ff dport 4097/0xf00f".to_owned(),
                "src/0x000000ff dport/0xf00f".to_owned()
            )
        );
    }

    #[test]
    fn all_parts_of_a_frame_are_read() {
        let mask = Mask {
            dst: WHOLE,
            sport: Some(u16::MAX),
            proto: true,
            dscp: true,
            vlan: true,
            flow_label: true,
            mac_src: true,
            ..Mask::default()
        };
        let of = id(&mask, &udp([10, 1, 2, 3], 80));
        let words =
            "dst 10.9.9.9 sport 1 proto 17 dscp 46 vlan 7 no flow-label mac-src 02:00:00:00:00:01";
        assert_eq!(mask.words(&of), words);
        let mut six = Vec::new();
        let mut ip =
            etherparse::Ipv6Header { hop_limit: 9, source: [0x20; 16], ..Default::default() };
        (ip.traffic_class, ip.flow_label) = (10 << 2, 0xabcde.try_into().unwrap());
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ip(etherparse::IpHeaders::Ipv6(ip, Default::default()))
            .tcp(5, 6, 7, 8)
            .write(&mut six, &[])
            .unwrap();
        let mask = Mask {
            src: Some(AddressBits { v4: u32::MAX, v6: first_bits(20, 128) }),
            dscp: true,
            flow_label: true,
            ..Mask::default()
        };
        assert_eq!(mask.words(&id(&mask, &six)), "src 2020:2000::/20 dscp 10 flow-label 703710");
    }

    #[test]
    fn any_part_of_a_packet_makes_another_id() {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ip(etherparse::IpHeaders::Ipv4(
                etherparse::Ipv4Header {
                    time_to_live: 9,
                    dscp: 46.try_into().unwrap(),
                    ..Default::default()
                },
                Default::default(),
            ))
            .tcp(5, 6, 7, 8)
            .syn()
            .write(&mut frame, &[0; 60])
            .unwrap();
        let key = Key { mark: 7, ..Key::of_ethernet(&frame) };
        let none = Mask::default();
        let alike = Key { ports: Some((9, 9)), src: None, ..key };
        // Each mask, its id in words, a packet of another id, and the words of an id without that
        // part.
        let cases = [
            (Mask { tos: true, ..none }, "tos 0xb8", Key { tos: Some(0xb9), ..key }, "no tos"),
            (Mask { ttl: true, ..none }, "ttl 9", Key { ttl: Some(8), ..key }, "no ttl"),
            (
                Mask { length: true, ..none },
                "length 100",
                Key { length: Some(65_636), ..key },
                "no length",
            ),
            (
                Mask { flags: true, ..none },
                "flags syn,!fin,!rst,!psh,!ack,!urg,!ece,!cwr",
                Key { tcp: Some(0x12), ..key },
                "no flags",
            ),
            (
                Mask { ether: true, ..none },
                "ether 0x0800",
                Key { ether: Some(0x806), ..key },
                "no ether",
            ),
            (Mask { mark: true, ..none }, "mark 7", Key { mark: 0x1_0007, ..key }, "mark 0"),
        ];
        for (mask, words, other, without) in cases {
            assert_eq!(mask.words(&mask.id(&key)), words);
            assert_eq!(mask.id(&key), mask.id(&alike), "{mask}");
            assert_ne!(mask.id(&key), mask.id(&other), "{mask}");
            assert_ne!(mask.id(&key), mask.id(&Key::default()), "{mask}");
            assert_eq!(mask.words(&mask.id(&Key::default())), without);
        }
        // All parts that fit besides addresses, each still in its place.
        let most = Mask {
            sport: Some(u16::MAX),
            dport: Some(u16::MAX),
            proto: true,
            tos: true,
            ttl: true,
            length: true,
            flags: true,
            ether: true,
            vlan: true,
            flow_label: true,
            mac_src: true,
            mac_dst: true,
            mark: true,
            ..none
        };
        assert!(most.size() <= Mask::MOST);
        assert_eq!(
            most.words(&most.id(&key)),
            "sport 5 dport 6 proto 6 tos 0xb8 ttl 9 length 100 flags \
             syn,!fin,!rst,!psh,!ack,!urg,!ece,!cwr ether 0x0800 no vlan no flow-label mac-src \
             02:02:02:02:02:02 mac-dst 04:04:04:04:04:04 mark 7"
        );
    }

    /// The largest mask that fits has an id for every frame, and no header is read beyond its end.
    #[test]
    fn cut_frames_have_ids() {
        let most = Mask {
            src: WHOLE,
            dst: WHOLE,
            sport: Some(u16::MAX),
            dport: Some(u16::MAX),
            proto: true,
            ..Mask::default()
        };
        assert_eq!(most.size(), Mask::MOST);
        let others = Mask {
            dscp: true,
            vlan: true,
            flow_label: true,
            mac_src: true,
            mac_dst: true,
            ..Mask::default()
        };
        let frame = udp([10, 1, 2, 3], 80);
        for length in 0..frame.len() {
            let words = [most, others].map(|mask| mask.words(&id(&mask, &frame[..length])));
            assert!(!words[0].is_empty() && !words[1].is_empty());
        }
    }
}
