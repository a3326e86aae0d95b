//! Checksums that the sender's kernel has left to a device, where no device completes them.
//!
//! Across veth a TCP or UDP segment arrives with the sum of its pseudo-header in the place of its
//! checksum, and a note beside the packet. The AF_XDP socket gets the packet without the note. So a
//! checksum field that equals the sum of the pseudo-header is treated as unfinished, and the
//! checksum is computed. The complete checksum of a packet equals that sum by chance once in 65,536
//! times, and then the computation yields the same value again.

use crate::backend::frame;
use crate::backend::tap::Tap;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Flag of a virtio-net header: the checksum is still to be computed.
const NEEDED: u8 = 1;

/// Computes the checksum of a unit of one packet, if it is unfinished.
pub fn complete(unit: &mut [u8]) {
    let Some((start, offset, end)) = unit.get(Tap::VNET_HEADER..).and_then(unfinished) else {
        return;
    };
    unit[0] = NEEDED;
    unit[6..8].copy_from_slice(&start.to_le_bytes());
    unit[8..10].copy_from_slice(&offset.to_le_bytes());
    // The checksum does not cover the padding of a short frame.
    frame::finish_checksum(&mut unit[..Tap::VNET_HEADER + end]);
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

/// If the checksum field holds only the sum of the pseudo-header, returns the start of the bytes to
/// be summed, the checksum's offset from that start, and the end of these bytes.
fn unfinished(frame: &[u8]) -> Option<(u16, u16, usize)> {
    let mut ip = ETHERNET;
    while ip < ETHERNET + 2 * TAG && matches!(word(frame, ip - 2)?, 0x8100 | 0x88a8) {
        ip += TAG;
    }
    let (protocol, addresses, transport, length) = match word(frame, ip - 2)? {
        0x0800 => {
            let header = usize::from(*frame.get(ip)? & 0xf) * 4;
            // Fragments are skipped: only the first fragment contains the checksum, which covers
            // the whole packet.
            if header < 20 || word(frame, ip + 6)? & 0x3fff != 0 {
                return None;
            }
            let length = usize::from(word(frame, ip + 2)?).checked_sub(header)?;
            (*frame.get(ip + 9)?, frame.get(ip + 12..ip + 20)?, ip + header, length)
        }
        0x86dd => {
            let length = usize::from(word(frame, ip + 4)?);
            let (protocol, options) = extensions(frame, ip + 40, *frame.get(ip + 6)?)?;
            (protocol, frame.get(ip + 8..ip + 40)?, ip + 40 + options, length.checked_sub(options)?)
        }
        _ => return None,
    };
    let offset = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let end = transport + length;
    // The packet is incomplete if its header states more bytes than the frame has.
    if length < usize::from(offset) + 2 || end > frame.len() {
        return None;
    }
    let there = word(frame, transport + usize::from(offset))?;
    let mut sum = u32::from(protocol) + (length >> 16) as u32 + (length & 0xffff) as u32;
    sum += addresses
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum == u32::from(there)).then_some((u16::try_from(transport).ok()?, offset, end))
}

/// The protocol after the extensions of an IPv6 header, and their length in bytes.
fn extensions(frame: &[u8], at: usize, mut next: u8) -> Option<(u8, usize)> {
    /// Hop-by-hop options, routing, destination options.
    const SKIPPED: [u8; 3] = [0, 43, 60];
    let mut length = 0;
    // Real packets have fewer than 8 extensions.
    for _ in 0..8 {
        if !SKIPPED.contains(&next) {
            return Some((next, length));
        }
        next = *frame.get(at + length)?;
        length += (usize::from(*frame.get(at + length + 1)?) + 1) * 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folded(mut sum: u32) -> u16 {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn sum(bytes: &[u8]) -> u32 {
        bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            .sum()
    }

    /// A unit with an unfinished checksum, the sum of its pseudo-header, and the offset of its
    /// transport header.
    fn unit(
        six: bool,
        udp: bool,
        tags: usize,
        options: bool,
        payload: &[u8],
    ) -> (Vec<u8>, u32, usize) {
        let protocol = if udp { UDP } else { TCP };
        let header = if udp { 8 } else { 20 };
        let length = header + payload.len();
        let mut unit = vec![0; Tap::VNET_HEADER + 12];
        (0..tags).for_each(|_| unit.extend([0x81, 0, 0, 7]));
        unit.extend(if six { [0x86, 0xdd] } else { [0x08, 0x00] });
        let addresses = unit.len() + if six { 8 } else { 12 };
        if six {
            let more = if options { 8 } else { 0 };
            unit.extend([0x60, 0, 0, 0, ((length + more) >> 8) as u8, (length + more) as u8]);
            unit.extend([if options { 0 } else { protocol }, 64]);
            unit.extend((0..32).map(|i| 7 * i));
            if options {
                unit.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            let (more, words) = if options { (4, 6) } else { (0, 5) };
            let total = 20 + more + length;
            unit.extend([
                0x40 | words,
                0,
                (total >> 8) as u8,
                total as u8,
                0,
                1,
                0x40,
                0,
                64,
                protocol,
                0,
                0,
            ]);
            unit.extend([10, 77, 0, 1, 10, 77, 0, 2]);
            unit.extend(std::iter::repeat_n(1, more));
        }
        let pseudo = sum(&unit[addresses..addresses + if six { 32 } else { 8 }])
            + u32::from(protocol)
            + length as u32;
        let transport = unit.len();
        unit.extend(vec![3; header]);
        unit.extend(payload);
        let at = transport + if udp { 6 } else { 16 };
        unit[at..at + 2].copy_from_slice(&folded(pseudo).to_be_bytes());
        (unit, pseudo, transport)
    }

    proptest! {
        #[test]
        fn what_was_left_is_computed_once(
            six: bool,
            udp: bool,
            tags in 0..3_usize,
            options: bool,
            payload in prop::collection::vec(any::<u8>(), 0..64),
            behind in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let (mut unit, pseudo, transport) = unit(six, udp, tags, options, &payload);
            let end = unit.len();
            unit.extend(behind);
            let before = unit.clone();
            complete(&mut unit);
            prop_assert_eq!(folded(sum(&unit[transport..end]) + pseudo), 0xffff);
            prop_assert_eq!(unit[0], 0, "nothing is left to do");
            let at = transport + if udp { 6 } else { 16 };
            prop_assert_eq!(&unit[12..at], &before[12..at]);
            prop_assert_eq!(&unit[at + 2..], &before[at + 2..]);
            let whole = unit.clone();
            complete(&mut unit);
            prop_assert_eq!(&unit[12..], &whole[12..]);
        }

        #[test]
        fn what_is_wrong_stays_wrong(
            six: bool,
            udp: bool,
            at in 0..40_usize,
            bit in 0..8_u32,
            payload in prop::collection::vec(any::<u8>(), 40),
        ) {
            let (mut unit, _, transport) = unit(six, udp, 0, false, &payload);
            complete(&mut unit);
            // A bit of the payload that was flipped on the way, in a packet with a complete
            // checksum.
            let last = transport + if udp { 8 } else { 20 } + at;
            unit[last] ^= 1_u8 << bit;
            let turned = unit.clone();
            prop_assume!(unfinished(&unit[Tap::VNET_HEADER..]).is_none());
            complete(&mut unit);
            prop_assert_eq!(unit, turned);
        }

        #[test]
        fn anything_may_come(
            mut unit in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0..3_usize,
        ) {
            let kinds = [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00]];
            if let Some(place) = unit.get_mut(24..26) {
                place.copy_from_slice(&kinds[kind]);
            }
            let length = unit.len();
            complete(&mut unit);
            prop_assert_eq!(unit.len(), length);
        }
    }

    #[test]
    fn a_fragment_is_left_alone() {
        let (mut unit, ..) = unit(false, true, 0, false, &[7; 20]);
        unit[Tap::VNET_HEADER + ETHERNET + 6] = 0x20;
        let before = unit.clone();
        complete(&mut unit);
        assert_eq!(unit, before);
    }
}
