//! A policer: a token bucket that decides, without a queue, if a packet conforms. It is the
//! single-rate case of RFC 2697, like `police` of tc and `limit` of nftables.
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
}

/// The bucket of a policer; full until it is first used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// The units that were missing to a full bucket at `at`.
    missing: u128,
    at: Time,
}

impl TokenBucket {
    /// Takes the tokens of an IP packet of `length` bytes, if it conforms; returns true then. A
    /// packet that does not conform takes no tokens.
    pub fn conforms(&mut self, policer: &Policer, length: u32, now: Time) -> bool {
        let gained = u128::from(policer.rate.0) * u128::from(now.since(self.at).0);
        self.missing = self.missing.min(policer.size()).saturating_sub(gained);
        self.at = now;
        let missing = self.missing + u128::from(policer.layer.from_ip(length)) * TOKEN;
        let conforms = missing <= policer.size();
        if conforms {
            self.missing = missing;
        }
        conforms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policer(rate: Rate, burst: u64, layer: CountedLayer) -> Policer {
        Policer { rate, burst, layer }
    }

    /// 8 Mbit/s are 1 B in 1 us. Of 3,000 B two packets of 1,500 B conform at once, and the next
    /// packet 1.5 ms later to the nanosecond.
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
}
