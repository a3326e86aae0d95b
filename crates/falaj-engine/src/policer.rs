//! Policers: token buckets that decide, without a queue, if a packet conforms. One bucket is the
//! single-rate case of RFC 2697, like `police` of tc and `limit` of nftables. A second bucket that
//! fills at a peak rate limits the speed of bursts, like `peakrate` of tc.
//!
//! Tokens are counted exactly: one byte is 8,000,000,000 units, and the bucket gains `rate` units
//! in each nanosecond.

use crate::counted_layer::CountedLayer;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Time;

/// Units of one byte: bits times the nanoseconds of a second.
const TOKEN: u128 = 8 * 1_000_000_000;

/// The parameters of a policer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// The rate at which the bucket fills.
    pub rate: Rate,
    /// Size of the bucket in bytes; a longer packet never conforms.
    pub burst: u64,
    /// The bytes of a packet that count.
    pub layer: CountedLayer,
}

impl Policer {
    /// Units of a full bucket.
    fn size(&self) -> u128 {
        u128::from(self.burst) * TOKEN
    }

    /// Units that an IP packet of `length` bytes takes.
    fn units(&self, length: u32) -> u128 {
        u128::from(self.layer.from_ip(length)) * TOKEN
    }
}

/// The bucket of a policer; full until it is first used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// The units that were missing from a full bucket at `at`.
    missing: u128,
    at: Time,
}

impl TokenBucket {
    /// Adds the tokens gained until `now`. Returns true if the bucket has this number of units.
    fn has(&mut self, policer: &Policer, units: u128, now: Time) -> bool {
        let gained = u128::from(policer.rate.0) * u128::from(now.since(self.at).0);
        self.missing = self.missing.min(policer.size()).saturating_sub(gained);
        self.at = now;
        self.missing + units <= policer.size()
    }
}

/// Returns true if an IP packet of `length` bytes conforms to all of `policers`, each of which has
/// the bucket of the same index. It then takes its tokens from each bucket. A packet that does not
/// conform takes no tokens.
pub fn conforms(policers: &[Policer], buckets: &mut [TokenBucket], length: u32, now: Time) -> bool {
    let mut conforms = true;
    for (policer, bucket) in policers.iter().zip(&mut *buckets) {
        conforms &= bucket.has(policer, policer.units(length), now);
    }
    if conforms {
        for (policer, bucket) in policers.iter().zip(buckets) {
            bucket.missing += policer.units(length);
        }
    }
    conforms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use std::slice;

    fn policer(rate: Rate, burst: u64, layer: CountedLayer) -> Policer {
        Policer { rate, burst, layer }
    }

    impl TokenBucket {
        fn conforms(&mut self, of: &Policer, length: u32, now: Time) -> bool {
            conforms(slice::from_ref(of), slice::from_mut(self), length, now)
        }
    }

    /// 8 Mbit/s are 1 B in 1 us. With a burst of 3,000 B two packets of 1,500 B conform at once,
    /// and the next packet conforms 1.5 ms later, to the nanosecond.
    #[test]
    fn a_burst_and_then_the_rate() {
        let of = policer(Rate::from_mbit(8), 3000, CountedLayer::Ip);
        let mut bucket = TokenBucket::default();
        let mut conforms = |length, at| bucket.conforms(&of, length, Time(at));
        assert!(conforms(1500, 5) && conforms(1500, 5) && !conforms(1, 5));
        assert!(!conforms(1500, 1_500_004) && conforms(1500, 1_500_005));
        assert!(!conforms(1000, 2_500_004), "those that exceed take no tokens");
        assert!(conforms(1000, 2_500_005));
        assert!(!conforms(3001, 1_000_000_000) && conforms(3000, 1_000_000_000));
    }

    /// At 3 bit/s a byte takes 2.666... s; fractions of a byte are kept.
    #[test]
    fn nothing_is_rounded() {
        let of = policer(Rate(3), 1, CountedLayer::Ip);
        let mut bucket = TokenBucket::default();
        assert!(bucket.conforms(&of, 1, Time(0)));
        let mut conforming = Vec::new();
        for at in 1..=24_000 {
            let at = at * 1_000_000;
            if bucket.conforms(&of, 1, Time(at)) {
                conforming.push(at / 1_000_000);
            }
        }
        assert_eq!(conforming, [2667, 5334, 8001, 10_668, 13_335, 16_002, 18_669, 21_336]);
        assert!(!bucket.conforms(&of, 1, Time(24_002_666_666)));
        assert!(bucket.conforms(&of, 1, Time(24_002_666_667)));
    }

    #[test]
    fn the_layer_counts() {
        for (layer, fits) in [(CountedLayer::Ip, 1000), (CountedLayer::L2, 986)] {
            let of = policer(Rate(0), 1000, layer);
            assert!(!TokenBucket::default().conforms(&of, fits + 1, Time(7)));
            assert!(TokenBucket::default().conforms(&of, fits, Time(7)), "{layer:?}");
        }
    }

    /// A bucket that becomes smaller has no more tokens than it holds.
    #[test]
    fn a_change_keeps_the_tokens() {
        let (large, small) =
            (policer(Rate(0), 9000, CountedLayer::Ip), policer(Rate(0), 1000, CountedLayer::Ip));
        let mut bucket = TokenBucket::default();
        assert!(bucket.conforms(&large, 500, Time(0)));
        assert!(!bucket.conforms(&small, 501, Time(1)) && bucket.conforms(&small, 500, Time(1)));
        assert!(!bucket.conforms(&small, 1, Time(2)));
    }

    const TWO: [Policer; 2] = [
        Policer { rate: Rate::from_mbit(8), burst: 4500, layer: CountedLayer::Ip },
        Policer { rate: Rate::from_mbit(16), burst: 1500, layer: CountedLayer::Ip },
    ];

    /// 8 Mbit/s are 1 B in 1 us, and a peak of 16 Mbit/s is 2 B. Packets of 1,500 B conform 750 us
    /// apart, by the peak's bucket, until the other bucket is empty; then 1.5 ms apart.
    #[test]
    fn a_peak_rate_spreads_a_burst() {
        let mut buckets = [TokenBucket::default(); 2];
        let mut conforms = |length, at| conforms(&TWO, &mut buckets, length, Time(at));
        assert!(conforms(1500, 0));
        for us in [750, 1_500, 2_250, 3_000, 4_500, 6_000] {
            let at = us * 1_000;
            assert!(!conforms(1500, at - 1) && conforms(1500, at), "{us}");
        }
        assert!(!conforms(1501, 1_000_000_000), "longer than the peak's bucket");
    }

    /// The same packets conform as by the kernel's `tcf_police_act`, which counts tokens in
    /// nanoseconds. A byte takes a whole number of them here, so that the kernel does not round.
    #[test]
    fn packets_conform_as_in_linux() {
        let (burst, peak) = (4500 * 1000, 1500 * 500);
        let (mut tokens, mut peak_tokens, mut last) = (burst, peak, 0);
        let mut linux = |length: i64, now: i64| {
            let gained = (now - last).min(burst);
            let left = (gained + tokens).min(burst) - length * 1000;
            let peak_left = (gained + peak_tokens).min(peak) - length * 500;
            let conforms = left | peak_left >= 0;
            if conforms {
                (tokens, peak_tokens, last) = (left, peak_left, now);
            }
            conforms
        };
        let mut buckets = [TokenBucket::default(); 2];
        let (mut now, mut taken) = (0, 0);
        let chance = Chance::new(7, 0, 0);
        for index in 0..100_000 {
            now += chance.draw(2 * index) % 900_000;
            let length = 20 + chance.draw(2 * index + 1) as u32 % 1581;
            let expected = linux(length.into(), now as i64);
            assert_eq!(conforms(&TWO, &mut buckets, length, Time(now)), expected, "{now}");
            taken += usize::from(expected);
        }
        assert!((20_000..80_000).contains(&taken), "{taken}");
    }
}
