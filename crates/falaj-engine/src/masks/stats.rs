//! Statistics of one id.

use falaj_sched::units::time::Span;

/// A counter of six bytes: enough for a packet per nanosecond over three days, or for a million per
/// second over almost nine years.
type Count = [u8; 6];

/// Counters, the longest sojourn and a histogram of sojourns of one id, in 128 bytes. Most packets
/// touch just the first cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct SojournStats {
    /// Bytes that were sent, as the link accounts them.
    pub bytes: u64,
    /// Packets dropped before the link.
    pub dropped: u64,
    /// Packets that the link lost.
    pub lost: u64,
    /// The longest time from last bit in to last bit out.
    pub longest: Span,
    /// Number of packets in each bucket: a ring that starts at bucket [`FIRST`].
    sojourns: [Count; SojournStats::BUCKETS],
}

/// The first bucket in the ring: buckets from 16 us to 16 ms share a cache line with the counters.
const FIRST: usize = 3;

fn get(count: Count) -> u64 {
    let [a, b, c, d, e, f] = count;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

#[inline]
fn add(count: &mut Count, more: u64) {
    let sum = get(*count).saturating_add(more).min((1 << 48) - 1).to_le_bytes();
    count.copy_from_slice(&sum[..6]);
}

impl SojournStats {
    /// Number of buckets.
    pub const BUCKETS: usize = 16;

    /// Counts a packet that goes on the link. Its last bit will have left `sojourn` after its
    /// arrival.
    #[inline]
    pub fn sent(&mut self, bytes: u32, sojourn: Span) {
        add(
            &mut self.sojourns[(SojournStats::bucket(sojourn) + SojournStats::BUCKETS - FIRST)
                % SojournStats::BUCKETS],
            1,
        );
        self.bytes += u64::from(bytes);
        self.longest = self.longest.max(sojourn);
    }

    /// Moves a packet that was on the wire when the rate changed from its counted sojourn to
    /// another sojourn. If the old sojourn was the longest, the longest becomes the end of the last
    /// bucket in use.
    pub(crate) fn retimed(&mut self, old: Span, new: Span) {
        let place = |bucket| (bucket + SojournStats::BUCKETS - FIRST) % SojournStats::BUCKETS;
        let was = &mut self.sojourns[place(SojournStats::bucket(old))];
        let rest = get(*was).saturating_sub(1);
        *was = Count::default();
        add(was, rest);
        if old == self.longest {
            let counts = self.sojourns();
            let last = counts.iter().rposition(|&count| count > 0);
            let end = last.and_then(SojournStats::end_of).unwrap_or(old);
            self.longest = if last.is_some() { end.min(old) } else { Span::ZERO };
        }
        add(&mut self.sojourns[place(SojournStats::bucket(new))], 1);
        self.longest = self.longest.max(new);
    }

    /// The bucket of a sojourn. Each bucket ends at four times the end of the bucket before; the
    /// first ends at 1,024 ns.
    #[inline]
    fn bucket(sojourn: Span) -> usize {
        let bits = u64::BITS - (sojourn.0 >> 10).leading_zeros();
        (bits as usize).div_ceil(2).min(SojournStats::BUCKETS - 1)
    }

    /// The upper end of a bucket, exclusive; `None` for the last bucket.
    pub fn end_of(bucket: usize) -> Option<Span> {
        (bucket + 1 < SojournStats::BUCKETS).then(|| Span(1024 << (2 * bucket)))
    }

    /// Number of sojourns in each bucket.
    pub fn sojourns(&self) -> [u64; SojournStats::BUCKETS] {
        std::array::from_fn(|bucket| {
            get(self.sojourns[(bucket + SojournStats::BUCKETS - FIRST) % SojournStats::BUCKETS])
        })
    }

    /// Number of packets that went on the link and were not lost there.
    pub fn packets(&self) -> u64 {
        self.sojourns().iter().sum()
    }

    /// The sojourn that this share (0 to 1) of packets does not exceed: the end of a bucket, or the
    /// longest.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let all = self.packets();
        let wanted = (all as f64 * share).ceil().max(1.0) as u64;
        let below = |end: usize| self.sojourns()[..=end].iter().sum::<u64>() >= wanted;
        let bucket =
            (0..SojournStats::BUCKETS).find(|&bucket| below(bucket)).filter(|_| all > 0)?;
        Some(SojournStats::end_of(bucket).map_or(self.longest, |end| end.min(self.longest)))
    }

    /// Adds the counters of another id.
    pub fn add(&mut self, other: &SojournStats) {
        for (own, more) in self.sojourns.iter_mut().zip(other.sojourns) {
            add(own, get(more));
        }
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.longest = self.longest.max(other.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_small_and_count_far() {
        assert_eq!(size_of::<SojournStats>(), 128);
        let mut stats = SojournStats::default();
        for _ in 0..3 {
            stats.sent(u32::MAX, Span(5));
        }
        assert_eq!((stats.packets(), stats.bytes), (3, 3 * u64::from(u32::MAX)));
        let mut many = SojournStats {
            sojourns: [[0xff, 0xff, 0xff, 0xff, 0, 0]; 16],
            ..SojournStats::default()
        };
        assert_eq!(many.packets(), 16 * u64::from(u32::MAX));
        many.sent(1, Span(0));
        assert_eq!(many.packets(), 16 * u64::from(u32::MAX) + 1, "beyond 32 bits");
    }

    #[test]
    fn every_sojourn_is_below_the_end_of_its_bucket() {
        for n in [
            0,
            1,
            1023,
            1024,
            4095,
            4096,
            16_383,
            16_384,
            1_000_000,
            1 << 36,
            (1 << 38) - 1,
            1 << 38,
            u64::MAX,
        ] {
            let bucket = SojournStats::bucket(Span(n));
            assert!(SojournStats::end_of(bucket).is_none_or(|end| n < end.0), "{n} in {bucket}");
            assert!(
                bucket == 0 || SojournStats::end_of(bucket - 1).is_some_and(|end| n >= end.0),
                "{n} in {bucket}"
            );
        }
        let mut stats = SojournStats::default();
        (0..99).for_each(|_| stats.sent(1, Span(2_000)));
        stats.sent(1, Span(70_000));
        assert_eq!([0.5, 0.99, 1.0].map(|q| stats.quantile(q).unwrap().0), [4096, 4096, 70_000]);
        assert_eq!(SojournStats::default().quantile(0.5), None);
    }
}
