//! The ECN bits of IP headers in Ethernet frames, read and written in place.

use crate::key::{Key, is_tag};
use falaj_sched::units::draws::mix;
use falaj_sched::units::label::{Ecn, Label};
use std::net::IpAddr;

const ETHERNET: usize = 14;
const TAG: usize = 4;

/// Offset of the IP header and its version; VLAN tags before it are skipped.
fn header(frame: &[u8]) -> Option<(usize, u8)> {
    let mut at = ETHERNET;
    while matches!(*frame.get(at - 2..at)?, [high, low] if is_tag(u16::from_be_bytes([high, low])))
    {
        at += TAG;
    }
    let (kind, version) = (frame.get(at - 2..at)?, frame.get(at)? >> 4);
    let (is_ip, least) = match kind {
        [0x08, 0x00] => (version == 4, 20),
        [0x86, 0xdd] => (version == 6, 40),
        _ => (false, 0),
    };
    (is_ip && frame.len() >= at + least).then_some((at, version))
}

/// The ECN bits of a frame; [`Ecn::Not`] if it is not IP.
pub fn of_ethernet(frame: &[u8]) -> Ecn {
    match header(frame) {
        Some((at, 4)) => Ecn::from_bits(frame[at + 1]),
        // The traffic class spans the first two bytes.
        Some((at, _)) => Ecn::from_bits(frame[at + 1] >> 4),
        None => Ecn::Not,
    }
}

/// Writes these ECN bits into a frame whose endpoints support ECN, to mark it or to restore its
/// earlier bits. The IPv4 header checksum is updated (RFC 1624).
pub fn mark_ethernet(frame: &mut [u8], ecn: Ecn) {
    match (header(frame), of_ethernet(frame)) {
        (_, Ecn::Not) | (None, _) => {}
        (Some((at, 4)), _) => {
            let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let before = word(frame, at);
            frame[at + 1] = frame[at + 1] & !3 | ecn as u8;
            let sum =
                u32::from(!word(frame, at + 10)) + u32::from(!before) + u32::from(word(frame, at));
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        (Some((at, _)), _) => frame[at + 1] = frame[at + 1] & !0x30 | (ecn as u8) << 4,
    }
}

/// The packet's label for queue policies: its ECN bits, and a hash of the connection's addresses,
/// protocol and ports.
pub fn label(key: &Key) -> Label {
    let address = |address: Option<IpAddr>| match address {
        Some(IpAddr::V4(v4)) => u64::from(v4.to_bits()),
        Some(IpAddr::V6(v6)) => mix(v6.to_bits() as u64) ^ (v6.to_bits() >> 64) as u64,
        None => 0,
    };
    let (from, to) = key.ports.unwrap_or_default();
    let rest =
        u64::from(from) << 24 | u64::from(to) << 8 | u64::from(key.protocol.map_or(0, |p| p.0));
    let connection = mix(mix(mix(address(key.src)) ^ address(key.dst)) ^ rest);
    Label { ecn: key.tos.map_or(Ecn::Not, Ecn::from_bits), connection, ..Label::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4HeaderSlice, PacketBuilder};

    fn frame(version: u8, ecn: u8, port: u16) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let builder = match version {
            4 => builder.ip(etherparse::IpHeaders::Ipv4(
                etherparse::Ipv4Header {
                    source: [10, 0, 0, 1],
                    destination: [10, 0, 0, 2],
                    ecn: etherparse::IpEcn::try_new(ecn).unwrap(),
                    time_to_live: 64,
                    ..Default::default()
                },
                Default::default(),
            )),
            _ => builder.ip(etherparse::IpHeaders::Ipv6(
                etherparse::Ipv6Header {
                    traffic_class: 0xA4 | ecn,
                    hop_limit: 64,
                    ..Default::default()
                },
                Default::default(),
            )),
        };
        let mut out = Vec::new();
        builder.udp(5000, port).write(&mut out, &[7; 10]).unwrap();
        out
    }

    #[test]
    fn marks_are_written_and_the_checksum_follows() {
        for bits in 0..4 {
            for tags in 0..3 {
                let mut four = frame(4, bits, 9);
                (0..tags).for_each(|_| _ = four.splice(12..12, [0x81, 0x00, 0x00, 0x05]).count());
                let at = ETHERNET + tags * TAG;
                assert_eq!(of_ethernet(&four), Ecn::from_bits(bits));
                let before = four.clone();
                mark_ethernet(&mut four, Ecn::Ce);
                let header = Ipv4HeaderSlice::from_slice(&four[at..]).unwrap();
                assert_eq!(header.ecn().value(), if bits == 0 { 0 } else { 3 });
                assert_eq!(
                    header.header_checksum(),
                    header.to_header().calc_header_checksum(),
                    "{bits}"
                );
                mark_ethernet(&mut four, Ecn::from_bits(bits));
                assert_eq!(four, before, "{bits}: as it was");
            }
            let mut six = frame(6, bits, 9);
            assert_eq!(of_ethernet(&six), Ecn::from_bits(bits));
            let before = six.clone();
            mark_ethernet(&mut six, Ecn::Ce);
            assert_eq!(of_ethernet(&six), if bits == 0 { Ecn::Not } else { Ecn::Ce });
            assert_eq!(six[14] >> 4, 6, "the rest stays");
            mark_ethernet(&mut six, Ecn::from_bits(bits));
            assert_eq!(six, before, "{bits}: as it was");
        }
    }

    #[test]
    fn what_is_no_ip_has_no_bits_and_is_left_alone() {
        let whole = frame(4, 2, 9);
        for length in 0..34 {
            let mut cut = whole[..length].to_vec();
            assert_eq!(of_ethernet(&cut), Ecn::Not);
            mark_ethernet(&mut cut, Ecn::Ce);
            assert_eq!(cut, whole[..length]);
        }
        let mut arp = whole.clone();
        arp[13] = 0x06;
        assert_eq!(of_ethernet(&arp), Ecn::Not);
    }

    #[test]
    fn connections_are_told_apart() {
        let number = |port| label(&Key::of_ethernet(&frame(4, 1, port))).connection;
        assert_eq!(number(9), number(9));
        assert_ne!(number(9), number(10));
        assert_eq!(label(&Key::of_ethernet(&frame(6, 1, 9))).ecn, Ecn::Ect1);
    }
}
