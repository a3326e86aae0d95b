//! Datagrams that leave together, made one unit: the reverse of cutting.
//!
//! A system call for each is most of what a packet costs. What is alike but for its payload, and of
//! a checksum that is still to be made, goes in one piece; the kernel makes datagrams of it again,
//! with the same payloads. Nothing waits for that: it is done with what is due at one instant
//! anyhow.
//!
//! Of the headers one thing may come out otherwise: where fragmentation is forbidden and all
//! identifications are one, they count up, as segmentation has it. Nobody may look at them there
//! (RFC 6864, section 4.1).

use super::{
    ETHERNET, HeaderOffsets, IPV6, IpVersion, Transport, UDP, VNET_HEADER, add,
    ones_complement_sum, put, tags, virtio, word, word_le,
};

/// As many as a socket may send in one piece (`UDP_MAX_SEGMENTS` of Linux).
const MOST: usize = 64;
/// Of the IPv4 header: fragmentation is forbidden.
const DF: u16 = 0x4000;
/// UDP's number.
const PROTOCOL: u8 = 17;

/// The headers of one datagram; `None` for all that is never one of several.
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

/// Are the headers of two datagrams, which are at the same places, the same, but for lengths,
/// identification and what follows from these?
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

/// Datagrams that become one unit.
#[derive(Default)]
pub(crate) struct TrainJoin {
    bytes: Vec<u8>,
    /// Of the first.
    headers: Option<HeaderOffsets>,
    /// Of each payload but the last.
    size: usize,
    packets: usize,
    /// Do identifications of IPv4 count up, or are they all the same? Known once there are two.
    counts: Option<bool>,
}

impl TrainJoin {
    /// Begins with this unit; whether others may join it.
    pub(crate) fn begin(&mut self, unit: &[u8]) -> bool {
        self.headers = datagram(unit);
        let Some(HeaderOffsets { segment, .. }) = self.headers else { return false };
        self.bytes.clear();
        self.bytes.extend_from_slice(unit);
        (self.size, self.packets, self.counts) = (unit.len() - segment - UDP, 1, None);
        true
    }

    /// Adds a unit behind the others, if it may join them.
    pub(crate) fn add(&mut self, unit: &[u8]) -> bool {
        let Some(at) = self.headers.filter(|headers| datagram(unit) == Some(*headers)) else {
            return false;
        };
        let payload = at.segment + UDP;
        let length = self.bytes.len() + unit.len() - payload;
        // The last one alone may be shorter.
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

    /// Is its identification one that segmentation would give it, or one that nobody may look at?
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

    /// All of them as one unit.
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

    /// The datagrams that a unit stands for.
    fn apart(unit: &[u8]) -> Vec<Vec<u8>> {
        let Some(train) = Train::of(unit) else { return vec![unit.to_vec()] };
        let one = |n| {
            let mut one = Vec::new();
            train.cut(unit, n..n + 1, &mut one);
            one
        };
        (0..train.packets()).map(one).collect()
    }

    /// Joined as far as they may be.
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
        /// What was cut is joined again, and cutting that gives the same packets, bit for bit.
        #[test]
        fn joining_is_the_reverse_of_cutting(mut r in recipe(), udp in prop::bool::weighted(0.9)) {
            (r.udp, r.extension) = (udp, r.extension && !udp);
            let mut whole = unit(&r);
            if r.payload <= r.size {
                // One packet, whatever its header says.
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

        /// With bytes changed, some joined and some not, what comes out are the same packets in the
        /// same order.
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
    fn where_nobody_may_look_at_identifications_they_count_up() {
        let same: Vec<_> = (0..3).map(|_| datagram_of(100, 7, |_| ())).collect();
        let units = together(&same);
        assert_eq!(units.len(), 1);
        let counted: Vec<_> = (7..10).map(|n| datagram_of(100, n, |_| ())).collect();
        assert_eq!(apart(&units[0]), counted);
        // All are the same, or all count.
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
        // Class, time to live, addresses and ports, each by a bit; the first has checksums that
        // fit.
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
        // A checksum that is made already may be a wrong one.
        let mut made = first.clone();
        made[0] = 0;
        assert!(!join.begin(&made));
        assert!(!join.begin(&datagram_of(0, 1, |_| ())), "nothing in it");
        assert!(!join.begin(&datagram_of(100, 1, |r| r.udp = false)), "TCP");
        assert!(join.begin(&datagram_of(100, 1, |r| r.ip6 = true)));
        assert!(!join.begin(&datagram_of(100, 1, |r| (r.ip6, r.extension) = (true, true))));
    }
}
