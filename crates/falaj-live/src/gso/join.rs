//! Joining of datagrams that leave together into one unit: the reverse of cutting.
//!
//! Most of the cost of a packet is its system call. Datagrams that are equal except for their
//! payloads, and whose checksums are unfinished, are sent in one unit; the kernel splits it again
//! into datagrams with the same payloads. No packet waits for this: only packets that are delivered
//! one after the other at one instant anyhow are joined.
//!
//! One header field may change: if fragmentation is forbidden and all identifications are equal,
//! the kernel makes them count up, as in segmentation. Receivers must ignore identifications in
//! that case (RFC 6864, section 4.1).

use super::{
    ETHERNET, HeaderOffsets, IPV6, IpVersion, Transport, UDP, VNET_HEADER, add,
    ones_complement_sum, put, tags, virtio, word, word_le,
};

/// The largest number of datagrams in a unit of a socket that every kernel accepts
/// (`UDP_MAX_SEGMENTS` of Linux: 64, in newer kernels 128).
const MOST: usize = 64;
/// Flag of the IPv4 header: fragmentation is forbidden.
const DF: u16 = 0x4000;
/// Protocol number of UDP.
const PROTOCOL: u8 = 17;

/// The headers of one datagram; `None` for a unit that cannot be joined.
fn datagram(unit: &[u8]) -> Option<HeaderOffsets> {
    if unit.get(..virtio::CHECKSUM_START)? != [virtio::NEEDS_CHECKSUM, 0, 0, 0, 0, 0] {
        return None;
    }
    let ip = VNET_HEADER + ETHERNET + tags(unit)?;
    let (network, header, protocol, length) = match word(unit, ip - 2)? {
        0x0800 if *unit.get(ip)? == 0x45 && word(unit, ip + 6)? & !DF == 0 => {
            (IpVersion::Ip4, 20, *unit.get(ip + 9)?, word(unit, ip + 2)?.into())
        }
        0x86dd => {
            (IpVersion::Ip6, IPV6, *unit.get(ip + 6)?, IPV6 + usize::from(word(unit, ip + 4)?))
        }
        _ => return None,
    };
    let segment = ip + header;
    let checksum =
        (word_le(unit, virtio::CHECKSUM_START)?, word_le(unit, virtio::CHECKSUM_START + 2)?);
    let is_sound =
        network == IpVersion::Ip6 || ones_complement_sum(unit.get(ip..segment)?) == 0xffff;
    let right = protocol == PROTOCOL
        && is_sound
        && checksum == (segment - VNET_HEADER, 6)
        && ip + length == unit.len()
        && segment + usize::from(word(unit, segment + 4)?) == unit.len()
        && segment + UDP < unit.len();
    right.then_some(HeaderOffsets { network, transport: Transport::Udp, ip, segment })
}

/// Returns true if the headers of two datagrams, which are at the same offsets, are equal except
/// for lengths, identification and the fields that depend on these.
fn are_alike(at: HeaderOffsets, a: &[u8], b: &[u8]) -> bool {
    let HeaderOffsets { network, ip, segment, .. } = at;
    let same = |from: usize, to: usize| a[from..to] == b[from..to];
    let network = match network {
        IpVersion::Ip4 => same(ip, ip + 2) && same(ip + 6, ip + 10) && same(ip + 12, segment),
        IpVersion::Ip6 => same(ip, ip + 4) && same(ip + 6, segment),
    };
    // The checksum field holds the sum of the pseudo-header.
    let [(a_length, a_sum), (b_length, b_sum)] = [a, b]
        .map(|unit| (word(unit, segment + 4).unwrap_or(0), word(unit, segment + 6).unwrap_or(0)));
    network
        && same(0, ip)
        && same(segment, segment + 4)
        && add(add(a_sum, !a_length), b_length) == b_sum
}

/// Datagrams that are joined into one unit.
#[derive(Default)]
pub(crate) struct TrainJoin {
    bytes: Vec<u8>,
    /// Headers of the first datagram.
    headers: Option<HeaderOffsets>,
    /// Length of each payload but the last.
    size: usize,
    packets: usize,
    /// True if identifications of IPv4 count up, false if all are equal; `None` until there are
    /// two.
    counts: Option<bool>,
}

impl TrainJoin {
    /// Begins with this unit; returns true if others may join it.
    pub(crate) fn begin(&mut self, unit: &[u8]) -> bool {
        self.headers = datagram(unit);
        let Some(HeaderOffsets { segment, .. }) = self.headers else { return false };
        self.bytes.clear();
        self.bytes.extend_from_slice(unit);
        (self.size, self.packets, self.counts) = (unit.len() - segment - UDP, 1, None);
        true
    }

    /// Appends a unit, if it may join the others; returns true if it did.
    pub(crate) fn add(&mut self, unit: &[u8]) -> bool {
        let Some(at) = self.headers.filter(|headers| datagram(unit) == Some(*headers)) else {
            return false;
        };
        let payload = at.segment + UDP;
        let length = self.bytes.len() + unit.len() - payload;
        // Only the last datagram may be shorter.
        let are_full = self.bytes.len() == payload + self.packets * self.size;
        let fits = unit.len() - payload <= self.size
            && self.packets < MOST
            && length - at.ip <= u16::MAX.into();
        if !(are_full && fits && are_alike(at, &self.bytes, unit) && self.counts_on(at, unit)) {
            return false;
        }
        self.bytes.extend_from_slice(&unit[payload..]);
        self.packets += 1;
        true
    }

    /// Returns true if the unit's identification is the one that segmentation would assign, or one
    /// that receivers must ignore.
    fn counts_on(&mut self, at: HeaderOffsets, unit: &[u8]) -> bool {
        if at.network == IpVersion::Ip6 {
            return true;
        }
        let identification = |unit| word(unit, at.ip + 4).unwrap_or(0);
        let (first, this) = (identification(&self.bytes), identification(unit));
        let counts = first.wrapping_add(self.packets as u16) == this;
        let is_free = first == this && word(unit, at.ip + 6) == Some(DF);
        (counts || is_free) && *self.counts.get_or_insert(counts) == counts
    }

    /// The joined unit.
    pub(crate) fn unit(&mut self) -> &[u8] {
        if let Some(headers) = self.headers
            && self.packets > 1
        {
            let payload = headers.segment + UDP;
            let unit = &mut self.bytes;
            unit[virtio::GSO_TYPE] = virtio::UDP_L4;
            put(unit, virtio::HEADER_LENGTH, ((payload - VNET_HEADER) as u16).swap_bytes());
            put(unit, virtio::GSO_SIZE, (self.size as u16).swap_bytes());
            headers.set_length(unit, UDP + self.size);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::Train;
    use super::super::tests::{Recipe, finished_is_right, recipe, unit};
    use super::*;
    use proptest::prelude::*;

    /// The datagrams of a unit.
    fn apart(unit: &[u8]) -> Vec<Vec<u8>> {
        let Some(train) = Train::of(unit) else { return vec![unit.to_vec()] };
        let one = |n| {
            let mut one = Vec::new();
            train.cut(unit, n..n + 1, &mut one);
            one
        };
        (0..train.packets()).map(one).collect()
    }

    /// Joins the packets where possible.
    fn together(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut join, mut units, mut rest) = (TrainJoin::default(), Vec::new(), packets);
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            if !join.begin(first) {
                units.push(first.clone());
                continue;
            }
            while let Some((_, behind)) = rest.split_first().filter(|(next, _)| join.add(next)) {
                rest = behind;
            }
            units.push(join.unit().to_vec());
        }
        units
    }

    proptest! {
        /// A unit that was cut is joined again. Cutting the joined unit gives the same packets, bit
        /// for bit.
        #[test]
        fn joining_is_the_reverse_of_cutting(mut r in recipe(), udp in prop::bool::weighted(0.9)) {
            (r.udp, r.extension) = (udp, r.extension && !udp);
            let mut whole = unit(&r);
            if r.payload <= r.size {
                // The unit is one packet, whatever its header says.
                whole[virtio::GSO_TYPE] = 0;
                whole[virtio::GSO_SIZE..virtio::GSO_SIZE + 2].fill(0);
            }
            let packets = apart(&whole);
            let units = together(&packets);
            if udp && r.payload > 0 {
                prop_assert_eq!(units.len(), packets.len().div_ceil(MOST));
            } else {
                prop_assert_eq!(units.len(), packets.len());
            }
            for unit in &units {
                prop_assert!(finished_is_right(unit, &r));
                prop_assert!(unit.len() - VNET_HEADER - ETHERNET <= 8 + 65_535);
            }
            let again: Vec<_> = units.iter().flat_map(|unit| apart(unit)).collect();
            prop_assert_eq!(again, packets);
        }

        /// With changed bytes, some packets are joined and some are not; the result is the same
        /// packets in the same order.
        #[test]
        fn only_what_is_alike_is_joined(
            mut r in recipe(),
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..80_usize, any::<u8>()),
                0..6,
            ),
        ) {
            (r.udp, r.extension, r.payload) = (true, false, r.payload.max(1));
            let mut packets = apart(&unit(&r));
            for (which, at, value) in changes {
                let packet = which.index(packets.len());
                if let Some(byte) = packets[packet].get_mut(at) {
                    *byte = value;
                }
            }
            let again: Vec<_> = together(&packets).iter().flat_map(|unit| apart(unit)).collect();
            prop_assert_eq!(again, packets);
        }
    }
    fn datagram_of(payload: usize, identification: u16, change: impl Fn(&mut Recipe)) -> Vec<u8> {
        let mut r =
            Recipe { udp: true, payload, size: payload, identification, ..Recipe::default() };
        change(&mut r);
        let mut unit = unit(&r);
        unit[virtio::GSO_TYPE..virtio::CHECKSUM_START].fill(0);
        unit
    }

    #[test]
    fn identifications_of_a_unit_are_equal_or_count_up() {
        let same: Vec<_> = (0..3).map(|_| datagram_of(100, 7, |_| ())).collect();
        let units = together(&same);
        assert_eq!(units.len(), 1);
        let counted: Vec<_> = (7..10).map(|n| datagram_of(100, n, |_| ())).collect();
        assert_eq!(apart(&units[0]), counted);
        // Identifications must either all be equal or all count up.
        for wrong in [[7, 7, 9], [7, 8, 8], [7, 9, 10]] {
            let packets: Vec<_> = wrong.iter().map(|&n| datagram_of(100, n, |_| ())).collect();
            assert_eq!(together(&packets).len(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn behind_a_shorter_one_or_before_a_longer_one_it_ends() {
        for (lengths, units) in [
            ([100, 100, 100], 1),
            ([100, 100, 30], 1),
            ([100, 30, 30], 2),
            ([100, 200, 200], 2),
            ([30, 100, 30], 2),
        ] {
            let packets: Vec<_> = lengths
                .iter()
                .zip(1..)
                .map(|(&length, n)| datagram_of(length, n, |_| ()))
                .collect();
            assert_eq!(together(&packets).len(), units, "{lengths:?}");
        }
        let many: Vec<_> = (0..200).map(|n| datagram_of(1, n, |_| ())).collect();
        assert_eq!(
            together(&many).iter().map(|unit| apart(unit).len()).collect::<Vec<_>>(),
            [64, 64, 64, 8]
        );
        let large: Vec<_> = (0..4).map(|n| datagram_of(20_000, n, |_| ())).collect();
        assert_eq!(together(&large).len(), 2, "an IP packet has 65,535 bytes at most");
    }

    #[test]
    fn what_differs_is_not_joined() {
        let first = datagram_of(100, 1, |_| ());
        let mut join = TrainJoin::default();
        // Class, time to live, addresses and ports, each changed by a bit; the IPv4 header checksum
        // is correct.
        let ip = VNET_HEADER + ETHERNET;
        for at in [VNET_HEADER + 5, ip + 1, ip + 8, ip + 15, ip + 19, ip + 21, ip + 23] {
            let mut other = datagram_of(100, 2, |_| ());
            other[at] ^= 4;
            put(&mut other, ip + 10, 0);
            let sum = !ones_complement_sum(&other[ip..ip + 20]);
            put(&mut other, ip + 10, sum);
            assert!(join.begin(&first) && !join.add(&other), "{at}");
        }
        assert!(join.begin(&first) && join.add(&datagram_of(100, 2, |_| ())));
        // A datagram with a complete checksum is not joined, because the checksum may be wrong.
        let mut made = first.clone();
        made[0] = 0;
        assert!(!join.begin(&made));
        assert!(!join.begin(&datagram_of(0, 1, |_| ())), "nothing in it");
        assert!(!join.begin(&datagram_of(100, 1, |r| r.udp = false)), "TCP");
        assert!(join.begin(&datagram_of(100, 1, |r| r.ip6 = true)));
        assert!(!join.begin(&datagram_of(100, 1, |r| (r.ip6, r.extension) = (true, true))));
    }
}
