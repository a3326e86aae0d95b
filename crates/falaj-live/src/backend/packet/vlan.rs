//! Restores VLAN tags that the kernel has removed from frames.

use nix::errno::Errno;

use super::sys::VlanTag;
use crate::backend::tap::Tap;

/// Bytes of both Ethernet addresses; the tag follows them.
const ADDRESSES: usize = 12;
const LENGTH: usize = 4;

/// Restores the removed tag of a unit of `length` bytes, if there was one; returns the new length
/// in bytes.
///
/// The offsets in the virtio-net header count from the frame's beginning and do not include the
/// removed tag, so they grow by its length.
pub(super) fn put_back(
    unit: &mut [u8],
    length: usize,
    tag: Option<VlanTag>,
) -> Result<usize, Errno> {
    let Some(tag) = tag else { return Ok(length) };
    let at = Tap::VNET_HEADER + ADDRESSES;
    if length < at {
        return Err(Errno::EBADMSG);
    }
    if length + LENGTH > unit.len() {
        return Err(Errno::EMSGSIZE);
    }
    unit.copy_within(at..length, at + LENGTH);
    unit[at..at + 2].copy_from_slice(&tag.tpid.to_be_bytes());
    unit[at + 2..at + 4].copy_from_slice(&tag.tci.to_be_bytes());
    const NEEDS_CHECKSUM: u8 = 1;
    if unit[0] & NEEDS_CHECKSUM != 0 {
        further(unit, CHECKSUM_START);
    }
    if unit[1] != 0 {
        further(unit, HEADERS);
    }
    Ok(length + LENGTH)
}

/// Offset of the field with the length of headers, in the virtio-net header.
const HEADERS: usize = 2;
/// Offset of the field with the start of the checksum, in the virtio-net header.
const CHECKSUM_START: usize = 6;

fn further(unit: &mut [u8], at: usize) {
    let field = u16::from_le_bytes([unit[at], unit[at + 1]]).saturating_add(LENGTH as u16);
    unit[at..at + 2].copy_from_slice(&field.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Option<VlanTag> = Some(VlanTag { tpid: 0x88a8, tci: 0xa005 });

    #[test]
    fn a_tag_stands_behind_the_addresses_and_moves_what_the_header_points_at() {
        let header = |flags, gso, headers: u16, start: u16| {
            let mut unit = vec![flags, gso];
            unit.extend(headers.to_le_bytes());
            unit.extend([0x9c, 5]);
            unit.extend(start.to_le_bytes());
            unit.extend([16, 0, 0, 0]);
            unit
        };
        let frame: Vec<u8> = (0..40).collect();
        for (flags, gso) in [(0, 0), (1, 0), (1, 1), (2, 0)] {
            let mut unit = header(
                flags,
                gso,
                if gso > 0 { 54 } else { 0 },
                if flags & 1 > 0 { 34 } else { 0 },
            );
            unit.extend(&frame);
            let length = unit.len();
            unit.resize(length + 4, 0xee);
            assert_eq!(put_back(&mut unit, length, TAG), Ok(length + 4));
            let mut expected = header(
                flags,
                gso,
                if gso > 0 { 58 } else { 0 },
                if flags & 1 > 0 { 38 } else { 0 },
            );
            expected.extend(&frame[..12]);
            expected.extend([0x88, 0xa8, 0xa0, 0x05]);
            expected.extend(&frame[12..]);
            assert_eq!(unit, expected);
        }
    }

    #[test]
    fn a_unit_without_room_for_the_tag_is_refused() {
        for length in Tap::VNET_HEADER..100 {
            let mut unit = vec![0xff; length + 3];
            assert_eq!(put_back(&mut unit, length, None), Ok(length));
            assert!(put_back(&mut unit, length, TAG).is_err(), "{length}");
            unit.push(0);
            assert_eq!(
                put_back(&mut unit, length, TAG).is_ok(),
                length >= Tap::VNET_HEADER + 12,
                "{length}"
            );
        }
    }
}
