//! Ethernet frames after a virtio-net header: the units of most ports.

use super::port::Received;
use crate::gso::{Train, VNET_HEADER};
use falaj_engine::ecn;
use falaj_engine::key::Key;
use falaj_engine::message::Corrupt;
use falaj_sched::units::label::Ecn;

const ETHERNET: usize = 14;
/// Additional bytes of a VLAN tag.
const TAG: usize = 4;

/// Number of bytes in a frame before the network-layer packet. A VLAN tag is not part of the packet
/// and is not charged: Linux does not count it towards a device's MTU, and `tc` does not count a
/// tag that the device inserts. A second tag is part of the packet.
fn header(frame: &[u8]) -> usize {
    match frame.get(12..14) {
        // 802.1Q and 802.1ad.
        Some([0x81, 0x00] | [0x88, 0xa8]) => ETHERNET + TAG,
        _ => ETHERNET,
    }
}

/// Describes the unit that consists of a virtio-net header and a frame.
pub(crate) fn received(unit: &[u8]) -> Received {
    let frame = unit.get(VNET_HEADER..).unwrap_or(&[]);
    let (length, flow) = (unit.len(), None);
    match Train::of(unit) {
        Some(train) => Received {
            length,
            flow,
            bytes: train.each() as u32,
            last: train.last() as u32,
            train: Some(train),
        },
        None => Received::packet(length, frame.len().saturating_sub(header(frame)) as u32, flow),
    }
}

/// Length of a frame's IP packet, in bytes.
pub(crate) fn length(frame: &[u8]) -> u32 {
    frame.len().saturating_sub(header(frame)) as u32
}

/// The key of the frame after a virtio-net header. If the unit has several packets, the key of the
/// first one.
pub(crate) fn key(unit: &[u8]) -> Key {
    let key = Key::of_ethernet(unit.get(VNET_HEADER..).unwrap_or(&[]));
    match Train::of(unit) {
        Some(train) => {
            // Flags that only the last packet of a unit has: FIN and PSH.
            const LAST: u8 = 0x01 | 0x08;
            let not_here = if train.packets() > 1 { LAST } else { 0 };
            let tcp = key.tcp.map(|flags| flags & !not_here);
            Key { length: key.length.map(|_| train.each() as u32), tcp, ..key }
        }
        None => key,
    }
}

/// Flips a bit of the frame after a virtio-net header.
pub(crate) fn flip(unit: &mut [u8], corrupt: &Corrupt) {
    finish_checksum(unit);
    let header = VNET_HEADER.min(unit.len());
    corrupt.flip(&mut unit[header..]);
}

/// Sets the ECN bits of the frame after a virtio-net header. Only the checksum of the IP header
/// covers these bits.
pub(crate) fn mark(unit: &mut [u8], ecn: Ecn) {
    if let Some(frame) = unit.get_mut(VNET_HEADER..) {
        ecn::mark_ethernet(frame, ecn);
    }
}

/// Completes an unfinished checksum, and clears the note about it in the virtio-net header, so that
/// the receiver verifies the checksum.
pub(crate) fn finish_checksum(unit: &mut [u8]) {
    const NEEDED: u8 = 1;
    let Some((header, frame)) = unit.split_at_mut_checked(VNET_HEADER) else { return };
    let note = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (needed, start, offset) = (header[0] & NEEDED != 0, note(6), note(8));
    // The header now says: the checksum is not unfinished, and not known to be correct.
    header[0] = 0;
    let Some(rest) = frame.get_mut(start..).filter(|rest| needed && rest.len() >= offset + 2)
    else {
        return;
    };
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = rest.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // A UDP checksum of zero would mean that there is none.
    let sum = match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    };
    rest[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::port::Port;
    use crate::backend::tap::{Tap, TapPort};
    use crate::gso::join::TrainJoin;
    use falaj_engine::counted_layer::CountedLayer;
    use proptest::prelude::*;
    use std::os::unix::net::UnixDatagram;

    const MTU: u32 = 1500;

    /// A port that reads the units sent to the socket. As from a TAP, a read takes one unit, which
    /// is truncated if it is too long.
    fn port() -> (TapPort, UnixDatagram) {
        let (kernel, tap) = UnixDatagram::pair().unwrap();
        tap.set_nonblocking(true).unwrap();
        (TapPort::new(String::new(), Tap::adopt(tap.into())), kernel)
    }

    /// The accounted length of a frame with these tags around an IP packet of `packet` bytes.
    fn charged(layer: CountedLayer, tags: &[[u8; 2]], packet: usize) -> u32 {
        let (mut port, kernel) = port();
        let mut unit = vec![0; Tap::VNET_HEADER + 12];
        tags.iter().for_each(|tag| unit.extend([tag[0], tag[1], 0, 5]));
        unit.extend([0x08, 0x00]);
        unit.resize(unit.len() + packet, 0x45);
        kernel.send(&unit).unwrap();
        let mut buffer = vec![0; port.longest()];
        let received = port.receive(&mut buffer).unwrap().unwrap();
        layer.from_ip(received.bytes)
    }

    /// A UDP datagram whose checksum is left to the device, as a kernel passes it on.
    #[test]
    fn a_wrong_bit_is_found_by_the_checksum() {
        let (port, _kernel) = port();
        let sum = |bytes: &[u8]| {
            let mut sum: u32 = bytes
                .chunks(2)
                .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)))
                .sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum as u16
        };
        let (payload, transport) = ([7u8; 33], ETHERNET + 20);
        let length = 8 + payload.len() as u16;
        // Addresses 10.77.0.1 and 10.77.0.2, UDP, and its length.
        let pseudo = sum(&[10, 77, 0, 1, 10, 77, 0, 2, 0, 17, 0, length as u8]);
        let mut whole = vec![0u8; Tap::VNET_HEADER + transport];
        (whole[0], whole[6], whole[8]) = (1, transport as u8, 6);
        whole.extend([0x13, 0x8c, 0x13, 0x8c, 0, length as u8]);
        whole.extend(pseudo.to_be_bytes());
        whole.extend(payload);
        // A bit of the Ethernet header, and a bit of the last byte.
        for draw in [0, u64::MAX] {
            let mut unit = whole.clone();
            port.corrupt(&mut unit, &Corrupt { handle: 0, draw });
            assert_eq!(
                unit[..Tap::VNET_HEADER - 4][0],
                0,
                "nothing is left to do, and nothing is known to be right"
            );
            let datagram = &unit[Tap::VNET_HEADER + transport..];
            let right = u32::from(sum(datagram)) + u32::from(pseudo);
            assert_eq!((right & 0xffff) + (right >> 16) == 0xffff, draw == 0);
            let turned: u32 =
                unit[12..].iter().zip(&whole[12..]).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert!(turned >= 1);
        }
    }

    /// Applies all operations on a unit after a virtio-net header, whatever its bytes are.
    fn handled(bytes: &[u8], draw: u64) {
        let mut bytes = bytes.to_vec();
        let what = received(&bytes);
        assert!(what.length == bytes.len() && what.packets() >= 1 && what.last <= what.bytes);
        key(&bytes);
        if let Some(train) = what.train {
            let (last, mut cut) = (train.packets() - 1, Vec::new());
            for packets in [0..1, last..last + 1, 0..last + 1] {
                train.cut(&bytes, packets.clone(), &mut cut);
                assert_eq!(received(&cut).packets() as usize, packets.len());
            }
        }
        let mut join = TrainJoin::default();
        if join.begin(&bytes) && join.add(&bytes) {
            assert_eq!(received(join.unit()).packets(), 2);
        }
        mark(&mut bytes, Ecn::Ce);
        flip(&mut bytes, &Corrupt { handle: 0, draw });
        assert_eq!(bytes.len(), what.length);
    }

    proptest! {
        /// A TCP unit over IPv4 or IPv6 after tags, with changed bytes in its headers and a
        /// truncated end.
        #[test]
        fn whatever_comes_is_handled(
            six: bool, tags in 0..4_usize, payload in 0..400_usize, end in 0..600_usize, draw: u64,
            changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..8),
        ) {
            let at = ETHERNET + TAG * tags + if six { 40 } else { 20 };
            let mut unit = vec![1, if six { 4 } else { 1 }, 0, 0, 100, 0, at as u8, 0, 16, 0, 0, 0];
            unit.extend([2; 12]);
            (0..tags).for_each(|_| unit.extend([0x81, 0x00, 0, 5]));
            unit.extend(if six { [0x86, 0xdd, 0x60] } else { [0x08, 0x00, 0x45] });
            unit.resize(Tap::VNET_HEADER + at + 12, 0);
            unit.push(0x50);
            unit.resize(unit.len() + 7 + payload, 3);
            for (at, value) in changes {
                if let Some(byte) = unit.get_mut(at) {
                    *byte = value;
                }
            }
            unit.truncate(end.max(10));
            handled(&unit, draw);
        }

        #[test]
        fn whatever_bytes_are_handled(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            draw: u64,
        ) {
            handled(&bytes, draw);
        }
    }

    #[test]
    fn a_vlan_tag_is_beside_the_mtu() {
        const Q: [u8; 2] = [0x81, 0x00];
        const AD: [u8; 2] = [0x88, 0xa8];
        for layer in CountedLayer::NAMES.iter().filter_map(|name| CountedLayer::from_name(name)) {
            let largest = layer.largest(MTU);
            for tags in [&[][..], &[Q], &[AD]] {
                for packet in [100, 1499, 1500] {
                    assert_eq!(
                        charged(layer, tags, packet),
                        layer.from_ip(packet as u32),
                        "{tags:?}"
                    );
                }
                // A packet longer by any number of bytes is too large.
                for packet in [1501, 1504, 1600, 9000] {
                    assert!(charged(layer, tags, packet) > largest, "{packet} {tags:?}");
                }
            }
            // The second tag is payload of the first one, and has to fit.
            assert_eq!(charged(layer, &[AD, Q], 1496), largest);
            assert!(charged(layer, &[AD, Q], 1497) > largest);
        }
    }
}
