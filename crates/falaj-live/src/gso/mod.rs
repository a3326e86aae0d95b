//! Units of many packets, as segmentation offload makes them (GSO): one set of headers, then the
//! payload of all packets. The virtio-net header states where to cut.
//!
//! The queue, the discipline and the rate apply to the packets of such a unit, a *train*; the bytes
//! stay in one piece. Packets that leave together are cut out as a smaller unit. Its headers are as
//! the kernel's own segmentation would make them: length, IPv4 identification and checksum, TCP
//! sequence number and flags, and the note of the unfinished checksum.

pub(crate) mod join;

use nix::errno::Errno;
use std::io;
use std::ops::Range;

/// The virtio-net header's fields (virtio 1.2, section 5.1.6).
mod virtio {
    pub(super) const GSO_TYPE: usize = 1;
    pub(super) const HEADER_LENGTH: usize = 2;
    pub(super) const GSO_SIZE: usize = 4;
    pub(super) const CHECKSUM_START: usize = 6;

    pub(super) const NEEDS_CHECKSUM: u8 = 1;
    pub(super) const TCP4: u8 = 1;
    pub(super) const TCP6: u8 = 4;
    /// UDP, each packet a datagram of its own.
    pub(super) const UDP_L4: u8 = 5;
    /// Only the first packet reports that the congestion window was reduced.
    pub(super) const ECN: u8 = 0x80;
}

/// Bytes of the virtio-net header (version 1, little endian) in front of each unit.
pub(crate) const VNET_HEADER: usize = 12;
const ETHERNET: usize = 14;
const VLAN_TAG: usize = 4;
const IPV6: usize = 40;
const UDP: usize = 8;

/// Flags of TCP that concern one packet of a train.
mod tcp {
    pub(super) const FIN: u8 = 0x01;
    pub(super) const PSH: u8 = 0x08;
    pub(super) const CWR: u8 = 0x80;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpVersion {
    Ip4,
    Ip6,
}

/// Offsets of the headers of a unit, from the start of the virtio-net header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeaderOffsets {
    network: IpVersion,
    transport: Transport,
    /// Start of the IP header.
    ip: usize,
    /// Start of the TCP or UDP header.
    segment: usize,
}

impl HeaderOffsets {
    /// Writes the present length of a unit to all header fields that have it. The part after the IP
    /// header had `before` bytes before.
    fn set_length(&self, unit: &mut [u8], before: usize) {
        let HeaderOffsets { network, transport, ip, segment } = *self;
        let length = unit.len();
        match network {
            IpVersion::Ip4 => {
                put(unit, ip + 2, (length - ip) as u16);
                put(unit, ip + 10, 0);
                let sum = !ones_complement_sum(&unit[ip..segment]);
                put(unit, ip + 10, sum);
            }
            IpVersion::Ip6 => put(unit, ip + 4, (length - ip - IPV6) as u16),
        }
        let (before, after) = (before as u16, (length - segment) as u16);
        let checksum = match transport {
            Transport::Tcp => segment + 16,
            Transport::Udp => {
                put(unit, segment + 4, after);
                segment + 6
            }
        };
        // The checksum field holds the sum of the pseudo-header, which includes the transport's
        // length.
        let sum = word(unit, checksum).unwrap_or(0);
        put(unit, checksum, add(add(sum, !before), after));
    }
}

/// The packets of a unit. Offsets are from the start of the virtio-net header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    headers: HeaderOffsets,
    /// Start of the payload.
    payload: usize,
    /// Payload of each packet but the last.
    size: usize,
    /// Length of the unit.
    length: usize,
}

fn word(unit: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(unit.get(at..at + 2)?.try_into().ok()?))
}

fn word_le(unit: &[u8], at: usize) -> Option<usize> {
    word(unit, at).map(|w| w.swap_bytes().into())
}

fn put(unit: &mut [u8], at: usize, value: u16) {
    unit[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

impl Train {
    /// Parses the headers of a unit; `None` if it is a single packet, or inconsistent with its
    /// virtio-net header.
    pub fn of(unit: &[u8]) -> Option<Train> {
        let kind = *unit.get(virtio::GSO_TYPE)? & !virtio::ECN;
        if kind == 0 || unit[0] & virtio::NEEDS_CHECKSUM == 0 {
            return None;
        }
        let ip = VNET_HEADER + ETHERNET + tags(unit)?;
        let size = word_le(unit, virtio::GSO_SIZE)?;
        let segment = VNET_HEADER + word_le(unit, virtio::CHECKSUM_START)?;
        let (network, transport) = match (kind, word(unit, ip - 2)?) {
            (virtio::TCP4, 0x0800) => (IpVersion::Ip4, Transport::Tcp),
            (virtio::TCP6, 0x86dd) => (IpVersion::Ip6, Transport::Tcp),
            (virtio::UDP_L4, 0x0800) => (IpVersion::Ip4, Transport::Udp),
            (virtio::UDP_L4, 0x86dd) => (IpVersion::Ip6, Transport::Udp),
            _ => return None,
        };
        let shortest = match network {
            IpVersion::Ip4 => usize::from(unit.get(ip)? & 0x0f) * 4,
            IpVersion::Ip6 => IPV6,
        };
        let header = match transport {
            Transport::Tcp => usize::from(unit.get(segment + 12)? >> 4) * 4,
            Transport::Udp => UDP,
        };
        let payload = segment + header;
        let right = match (network, transport) {
            (IpVersion::Ip4, _) => shortest >= 20 && segment == ip + shortest,
            // There may be extension headers in between.
            (IpVersion::Ip6, _) => segment >= ip + shortest,
        } && (transport == Transport::Udp || header >= 20);
        let length = unit.len();
        let several = size > 0 && payload < length && length - payload > size;
        let headers = HeaderOffsets { network, transport, ip, segment };
        (right && several && length - ip <= u16::MAX.into()).then_some(Train {
            headers,
            payload,
            size,
            length,
        })
    }

    /// Number of packets.
    pub fn packets(&self) -> usize {
        (self.length - self.payload).div_ceil(self.size)
    }

    /// Length of each IP packet but the last.
    pub fn each(&self) -> usize {
        self.payload - self.headers.ip + self.size
    }

    /// Length of the last IP packet.
    pub fn last(&self) -> usize {
        self.payload - self.headers.ip
            + (self.length - self.payload - (self.packets() - 1) * self.size)
    }

    /// Makes a unit of these packets alone.
    pub fn cut(&self, unit: &[u8], packets: Range<usize>, out: &mut Vec<u8>) {
        let Train { headers, payload, size, .. } = *self;
        let HeaderOffsets { ip, segment, .. } = headers;
        let from = payload + packets.start * size;
        let to = (payload + packets.end * size).min(self.length);
        out.clear();
        out.extend_from_slice(&unit[..payload]);
        out.extend_from_slice(&unit[from..to]);
        if packets.len() == 1 {
            out[virtio::GSO_TYPE] = 0;
            out[virtio::HEADER_LENGTH..virtio::CHECKSUM_START].fill(0);
        } else if packets.start > 0 {
            out[virtio::GSO_TYPE] &= !virtio::ECN;
        }
        if headers.network == IpVersion::Ip4 {
            let identification = word(out, ip + 4).unwrap_or(0).wrapping_add(packets.start as u16);
            put(out, ip + 4, identification);
        }
        if headers.transport == Transport::Tcp {
            let sequence =
                u32::from_be_bytes(out[segment + 4..segment + 8].try_into().expect("four bytes"));
            let sequence = sequence.wrapping_add((packets.start * size) as u32);
            out[segment + 4..segment + 8].copy_from_slice(&sequence.to_be_bytes());
            let mut not_here = 0;
            if packets.end < self.packets() {
                not_here |= tcp::FIN | tcp::PSH;
            }
            if packets.start > 0 {
                not_here |= tcp::CWR;
            }
            out[segment + 13] &= !not_here;
        }
        headers.set_length(out, self.length - segment);
    }
}

/// Returns true if this is a unit of several datagrams.
pub(crate) fn is_of_datagrams(unit: &[u8]) -> bool {
    Train::of(unit).is_some_and(|train| train.headers.transport == Transport::Udp)
}

/// Passes the packets of a unit to `each` one by one, for a port that accepts single packets only.
/// Returns true if all packets were accepted. `part` is a buffer for one packet.
pub(crate) fn singly(
    unit: &[u8],
    part: &mut Vec<u8>,
    mut each: impl FnMut(&mut [u8]) -> io::Result<bool>,
) -> io::Result<bool> {
    let Some(train) = Train::of(unit) else {
        if unit.get(virtio::GSO_TYPE).is_some_and(|&kind| kind != 0) {
            // A unit of unknown kind.
            return Err(Errno::EINVAL.into());
        }
        part.clear();
        part.extend_from_slice(unit);
        return each(part);
    };
    let mut all = true;
    for packet in 0..train.packets() {
        train.cut(unit, packet..packet + 1, part);
        all &= each(part)?;
    }
    Ok(all)
}

/// Bytes of VLAN tags. A frame has at most two tags.
fn tags(unit: &[u8]) -> Option<usize> {
    let kind = VNET_HEADER + ETHERNET - 2;
    let mut bytes = 0;
    while bytes < 2 * VLAN_TAG && matches!(word(unit, kind + bytes)?, 0x8100 | 0x88a8) {
        bytes += VLAN_TAG;
    }
    Some(bytes)
}

/// Addition in ones' complement.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)]));
    words.fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parameters of a train.
    #[derive(Clone, Debug, Default)]
    pub(super) struct Recipe {
        pub(super) tags: usize,
        pub(super) ip6: bool,
        pub(super) udp: bool,
        pub(super) options: usize,
        pub(super) extension: bool,
        pub(super) size: usize,
        pub(super) payload: usize,
        pub(super) flags: u8,
        pub(super) sequence: u32,
        pub(super) identification: u16,
    }

    pub(super) fn recipe() -> impl Strategy<Value = Recipe> {
        let headers = (0_usize..3, any::<bool>(), any::<bool>(), 0_usize..11, any::<bool>());
        let body = (1_usize..3000, 0_usize..60_000, any::<u8>(), any::<u32>(), any::<u16>());
        (headers, body).prop_map(|((tags, ip6, udp, options, extension), body)| {
            let (size, payload, flags, sequence, identification) = body;
            let (options, extension) = (if udp { 0 } else { options }, extension && ip6);
            Recipe {
                tags,
                ip6,
                udp,
                options,
                extension,
                size,
                payload,
                flags,
                sequence,
                identification,
            }
        })
    }

    /// A unit as the kernel passes it on, with an unfinished checksum.
    pub(super) fn unit(r: &Recipe) -> Vec<u8> {
        let transport = if r.udp { 8 } else { 20 + 4 * r.options };
        let length = transport + r.payload;
        let mut unit = vec![0; VNET_HEADER];
        unit.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        (0..r.tags).for_each(|_| unit.extend([0x81, 0, 0, 7]));
        let (from, to): (Vec<u8>, Vec<u8>) = if r.ip6 {
            ((1..17).collect(), (17..33).collect())
        } else {
            (vec![10, 77, 0, 1], vec![10, 77, 0, 2])
        };
        let protocol = if r.udp { 17 } else { 6 };
        if r.ip6 {
            let between = if r.extension { 8 } else { 0 };
            unit.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            unit.extend(((length + between) as u16).to_be_bytes());
            unit.extend([if r.extension { 60 } else { protocol }, 64]);
            unit.extend(from.iter().chain(&to));
            if r.extension {
                unit.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            unit.extend([0x08, 0x00]);
            let mut ip = vec![0x45, 0];
            ip.extend(((20 + length) as u16).to_be_bytes());
            ip.extend(r.identification.to_be_bytes());
            ip.extend([0x40, 0, 64, protocol, 0, 0]);
            ip.extend(from.iter().chain(&to));
            let sum = !ones_complement_sum(&ip);
            put(&mut ip, 10, sum);
            unit.extend(ip);
        }
        let segment = unit.len();
        let pseudo: Vec<u8> = from
            .iter()
            .chain(&to)
            .copied()
            .chain([0, protocol])
            .chain((length as u16).to_be_bytes())
            .collect();
        let pseudo = ones_complement_sum(&pseudo);
        if r.udp {
            unit.extend([0x10, 0, 0x20, 0]);
            unit.extend((length as u16).to_be_bytes());
            unit.extend(pseudo.to_be_bytes());
        } else {
            unit.extend([0x10, 0, 0x20, 0]);
            unit.extend(r.sequence.to_be_bytes());
            unit.extend([0, 0, 0, 9, (5 + r.options as u8) << 4, r.flags, 1, 0]);
            unit.extend(pseudo.to_be_bytes());
            unit.extend([0, 0]);
            unit.extend((0..4 * r.options).map(|i| i as u8));
        }
        unit.extend((0..r.payload).map(|i| (i / 7) as u8));
        unit[0] = virtio::NEEDS_CHECKSUM;
        unit[1] = match (r.udp, r.ip6) {
            (true, _) => virtio::UDP_L4,
            (false, false) => virtio::TCP4,
            (false, true) => virtio::TCP6,
        };
        unit[4..6].copy_from_slice(&(r.size as u16).to_le_bytes());
        unit[6..8].copy_from_slice(&((segment - VNET_HEADER) as u16).to_le_bytes());
        unit[8..10].copy_from_slice(&(if r.udp { 6_u16 } else { 16 }).to_le_bytes());
        unit
    }

    /// Returns true if a receiver would find the checksum correct, after the device has finished
    /// it.
    pub(super) fn finished_is_right(unit: &[u8], r: &Recipe) -> bool {
        let segment = VNET_HEADER + word_le(unit, virtio::CHECKSUM_START).unwrap();
        let length = unit.len() - segment;
        let field = segment + if r.udp { 6 } else { 16 };
        let mut sent = unit.to_vec();
        let sum = !ones_complement_sum(&sent[segment..]);
        put(&mut sent, field, sum);
        let addresses: Vec<u8> =
            if r.ip6 { (1..33).collect() } else { vec![10, 77, 0, 1, 10, 77, 0, 2] };
        let protocol = if r.udp { 17 } else { 6 };
        let pseudo: Vec<u8> = addresses
            .into_iter()
            .chain([0, protocol])
            .chain((length as u16).to_be_bytes())
            .collect();
        add(ones_complement_sum(&pseudo), ones_complement_sum(&sent[segment..])) == 0xffff
    }

    proptest! {
        #[test]
        fn cut_anywhere_the_packets_are_the_same(
            r in recipe(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let unit = unit(&r);
            prop_assert!(finished_is_right(&unit, &r));
            let Some(train) = Train::of(&unit) else {
                prop_assert!(r.payload <= r.size);
                return Ok(());
            };
            prop_assert!(r.payload > r.size);
            let n = train.packets();
            prop_assert_eq!(n, r.payload.div_ceil(r.size));
            let overhead = train.each() - r.size;
            prop_assert_eq!((n - 1) * r.size + train.last() - overhead, r.payload);
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(n)).chain([0, n]).collect();
            at.sort_unstable();
            at.dedup();
            let (mut payload, mut part) = (Vec::new(), Vec::new());
            for w in at.windows(2) {
                train.cut(&unit, w[0]..w[1], &mut part);
                prop_assert!(finished_is_right(&part, &r), "{w:?}");
                let headers = etherparse::PacketHeaders::from_ethernet_slice(&part[VNET_HEADER..])
                    .expect("a packet");
                match headers.net.as_ref().expect("IP") {
                    etherparse::NetHeaders::Ipv4(ip, _) => {
                        prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                        prop_assert_eq!(
                            ip.identification,
                            r.identification.wrapping_add(w[0] as u16)
                        );
                        prop_assert_eq!(usize::from(ip.total_len), part.len() - train.headers.ip);
                    }
                    etherparse::NetHeaders::Ipv6(ip, _) => {
                        prop_assert_eq!(
                            usize::from(ip.payload_length),
                            part.len() - train.headers.ip - IPV6
                        );
                    }
                    _ => panic!("not IP"),
                }
                match headers.transport.as_ref().expect("TCP or UDP") {
                    etherparse::TransportHeader::Tcp(tcp) => {
                        prop_assert_eq!(
                            tcp.sequence_number,
                            r.sequence.wrapping_add((w[0] * r.size) as u32)
                        );
                        let (first, last) = (w[0] == 0, w[1] == n);
                        prop_assert_eq!(tcp.fin, last && r.flags & 1 != 0);
                        prop_assert_eq!(tcp.psh, last && r.flags & 8 != 0);
                        prop_assert_eq!(tcp.cwr, first && r.flags & 0x80 != 0);
                        prop_assert_eq!(tcp.ece, r.flags & 0x40 != 0);
                    }
                    etherparse::TransportHeader::Udp(udp) => {
                        prop_assert_eq!(
                            usize::from(udp.length),
                            part.len() - train.headers.segment
                        );
                    }
                    _ => panic!("neither TCP nor UDP"),
                }
                // A part of several packets is again a train, with the same packets. A part of one
                // packet is not a train.
                let again = Train::of(&part).map(|t| (t.packets(), t.each()));
                prop_assert_eq!(again, (w[1] - w[0] > 1).then_some((w[1] - w[0], train.each())));
                payload.extend_from_slice(&part[train.payload..]);
            }
            prop_assert_eq!(&payload[..], &unit[train.payload..]);
        }

        /// Cutting twice is the same as cutting once.
        #[test]
        fn a_part_of_a_part(
            r in recipe(),
            a in any::<prop::sample::Index>(),
            b in any::<prop::sample::Index>(),
        ) {
            let unit = unit(&r);
            let Some(train) = Train::of(&unit) else { return Ok(()) };
            let n = train.packets();
            let outer = a.index(n - 1)..n;
            let inner = b.index(outer.len());
            let (mut once, mut twice, mut part) = (Vec::new(), Vec::new(), Vec::new());
            train.cut(&unit, outer.start + inner..n, &mut once);
            train.cut(&unit, outer.clone(), &mut part);
            Train::of(&part).expect("two or more").cut(&part, inner..outer.len(), &mut twice);
            prop_assert_eq!(once, twice);
        }

        /// For any bytes nothing panics, and a unit parsed as a train can be cut.
        #[test]
        fn bytes_of_any_kind(
            r in recipe(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            end in any::<prop::sample::Index>(),
        ) {
            let mut unit = unit(&r);
            for (at, value) in changes {
                let at = at.index(unit.len().min(120));
                unit[at] = value;
            }
            unit.truncate(end.index(unit.len() + 1).max(unit.len().saturating_sub(2000)));
            if let Some(train) = Train::of(&unit) {
                let n = train.packets();
                prop_assert!(n > 1 && train.last() <= train.each());
                let mut part = Vec::new();
                for packet in [0, n / 2, n - 1] {
                    train.cut(&unit, packet..packet + 1, &mut part);
                    train.cut(&unit, 0..packet + 1, &mut part);
                }
            }
        }
    }

    #[test]
    fn short_units_are_no_trains() {
        for length in 0..80 {
            assert_eq!(Train::of(&vec![0xff; length]), None);
            assert_eq!(Train::of(&vec![1; length]), None);
        }
    }
}
