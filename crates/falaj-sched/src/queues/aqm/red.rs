//! Random early detection: Floyd and Jacobson 1993; gentle mode after Floyd 2000; marks after RFC
//! 3168.
//!
//! The average length follows the queue slowly. Between two thresholds packets are marked or
//! dropped with a probability that grows with the average. To spread the drops evenly, the
//! probability also grows with the number of packets since the last drop or mark. Above the upper
//! threshold all packets are dropped; in gentle mode, the probability continues to grow until the
//! average is twice that threshold.

use super::policy::RedParameters;
use super::settings::{ECN, marks};
use super::verdict::{Level, Link, Verdict};
use crate::contract::params::{ConfigError, Kind, Param, Values};
use crate::queues::queue::Limit;
use crate::units::probability::Probability;
use crate::units::time::{Span, Time};
use alloc::format;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "min",
        kind: Kind::Limit,
        default: Some("5p"),
        doc: "average queue length below which no packet is dropped, in packets or bytes",
    },
    Param {
        name: "max",
        kind: Kind::Limit,
        default: Some("15p"),
        doc: "average queue length at which the drop probability reaches `probability`; in the \
              unit of `min`, and above it",
    },
    Param {
        name: "probability",
        kind: Kind::Probability,
        default: Some("10%"),
        doc: "drop probability at an average queue length just below `max`",
    },
    Param {
        name: "weight",
        kind: Kind::Probability,
        default: Some("0.2%"),
        doc: "weight of the current queue length in the moving average, at each arrival",
    },
    ECN,
];

impl RedParameters {
    pub(crate) fn new(
        values: &Values,
        limit: Limit,
        gentle: bool,
    ) -> Result<RedParameters, ConfigError> {
        let refused =
            |param, what, help: &str| ConfigError { flow: None, param, what, help: help.into() };
        let min = values.limit("min").unwrap_or(Limit::Packets(5));
        let max = values.limit("max").unwrap_or(Limit::Packets(15));
        let (low, high, bytes) = match (min, max) {
            (Limit::Packets(min), Limit::Packets(max)) => (u64::from(min), u64::from(max), false),
            (Limit::Bytes(min), Limit::Bytes(max)) => (min, max, true),
            _ => {
                let what = format!("{min} and {max} are counted differently");
                return Err(refused(
                    "max",
                    what,
                    "write `min` and `max` both in packets, or both in bytes",
                ));
            }
        };
        let (true, Ok(least), Ok(most)) = (low < high, u32::try_from(low), u32::try_from(high))
        else {
            let what = format!("from {min} to {max} is not a range");
            return Err(refused(
                "max",
                what,
                "`max` is above `min`, three times as much by Floyd; below 4 GiB",
            ));
        };
        let beyond = match limit {
            Limit::Packets(n) => !bytes && most > n,
            Limit::Bytes(n) => bytes && high > n,
        };
        if beyond {
            let what = format!("a queue of {limit} never gets as long as {max}");
            return Err(refused(
                "max",
                what,
                "a longer `limit`, or lower thresholds `min` and `max`",
            ));
        }
        let probability = values.probability("probability").unwrap_or(Probability::of(1, 10));
        let weight = values.probability("weight").unwrap_or(Probability::of(2, 1000));
        for (param, value, why) in [
            ("probability", probability, "with zero, RED drops no packet between its thresholds"),
            ("weight", weight, "with zero, the average length of the queue stays zero"),
        ] {
            if value == Probability::NEVER {
                return Err(refused(param, why.into(), "write one above zero"));
            }
        }
        Ok(RedParameters {
            min: least,
            max: most,
            bytes,
            probability,
            weight,
            gentle,
            ecn: marks(values),
        })
    }
}

/// Fractional bits of the average.
const POINT: u32 = 24;
/// The probability 1.
const ONE: u128 = 1 << 64;

/// RED of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Red {
    of: RedParameters,
    /// Transmission time of a typical packet, which is taken to be of the largest size: the average
    /// of an idle queue is lowered once in this time.
    typical: Span,
    avg: u64,
    /// Time at which the queue became empty.
    idle: Option<Time>,
    /// Number of packets since the last one that was marked or dropped. The distance between two
    /// such packets is uniform over 1 to 1/p_b because of this count (section 7 of the paper).
    count: Option<u64>,
}

impl Red {
    /// State of an empty queue.
    pub fn new(of: RedParameters, link: Link) -> Red {
        Red {
            of,
            typical: link.rate.airtime(link.largest),
            avg: 0,
            idle: Some(Time::ZERO),
            count: None,
        }
    }

    /// Returns the verdict on a packet that arrives. `draw` is a random number.
    pub fn comes(&mut self, level: Level, capable: bool, now: Time, draw: u64) -> Verdict {
        let length = u64::from(if self.of.bytes { level.bytes } else { level.packets }) << POINT;
        if let Some(idle) = self.idle.take() {
            let packets = now.since(idle).0.checked_div(self.typical.0);
            self.avg = packets.map_or(0, |m| sunk(self.avg, self.of.weight, m));
        }
        // avg + w (q - avg), where w is a fraction of 2^64.
        let w = u128::from(self.of.weight.of_all());
        let part = |of: u64| ((u128::from(of) * w) >> 64) as u64;
        self.avg = if length >= self.avg {
            self.avg + part(length - self.avg)
        } else {
            self.avg - part(self.avg - length)
        };
        let (min, max) = (u64::from(self.of.min) << POINT, u64::from(self.of.max) << POINT);
        if self.avg < min {
            self.count = None;
            return Verdict::Pass;
        }
        let Some(p_b) = self.p_b(min, max) else {
            self.count = None;
            return Verdict::Drop;
        };
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        // p_a = p_b / (1 - count p_b), at most one.
        let left = ONE.saturating_sub(u128::from(count).saturating_mul(p_b));
        let hit = p_b >= left || u128::from(draw) * left < p_b << 64;
        if !hit {
            return Verdict::Pass;
        }
        self.count = None;
        if self.of.ecn && capable { Verdict::Mark } else { Verdict::Drop }
    }

    /// The probability that follows from the average alone, in units of 2^-64. `None`: all packets
    /// are dropped.
    fn p_b(&self, min: u64, max: u64) -> Option<u128> {
        let most = u128::from(self.of.probability.of_all());
        if self.avg < max {
            return Some(most * u128::from(self.avg - min) / u128::from(max - min));
        }
        let beyond = u128::from(self.avg - max);
        (self.of.gentle && beyond < u128::from(max))
            .then(|| most + (ONE - most) / u128::from(max) * beyond)
    }

    /// Records that the queue has become empty.
    pub fn emptied(&mut self, now: Time) {
        self.idle = Some(now);
    }

    pub(crate) fn migrate_from(&mut self, old: Red) {
        if old.of.bytes == self.of.bytes {
            (self.avg, self.count) = (old.avg, old.count);
        }
        self.idle = old.idle;
    }
}

/// The average after an idle time of `m` typical packets: avg (1 - w)^m.
fn sunk(avg: u64, weight: Probability, mut m: u64) -> u64 {
    let (mut power, mut left) = (ONE - u128::from(weight.of_all()), u128::from(avg));
    while m > 0 && left > 0 {
        if m & 1 == 1 {
            left = (left * (power >> 1)) >> 63;
        }
        let half = power >> 1;
        power = (half * half) >> 62;
        m >>= 1;
    }
    left as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::draws::Draws;
    use crate::units::rate::Rate;

    const LINK: Link = Link { rate: Rate::from_mbit(8), largest: 1000 };

    fn parameters(gentle: bool, ecn: bool) -> RedParameters {
        let values = Values::default();
        RedParameters { ecn, ..RedParameters::new(&values, Limit::Packets(100), gentle).unwrap() }
    }

    /// Returns the numbers of marked and of dropped packets out of `n`, while the average stays at
    /// this length.
    fn sample(of: RedParameters, length: u32, capable: bool, n: u64) -> (u64, u64) {
        let mut red = Red::new(of, LINK);
        let mut draws = Draws::new(5, u64::from(length));
        let (mut marked, mut dropped) = (0, 0);
        for _ in 0..n {
            (red.avg, red.idle) = (u64::from(length) << POINT, None);
            match red.comes(Level { packets: length, bytes: 0 }, capable, Time::ZERO, draws.draw())
            {
                Verdict::Mark => marked += 1,
                Verdict::Drop => dropped += 1,
                Verdict::Pass => {}
            }
        }
        (marked, dropped)
    }

    /// The distance from one drop to the next is uniform over 1 to 1/p_b (the paper's 3.2), so one
    /// packet in `(1/p_b + 1)/2` is dropped. The standard deviation of their number is computed
    /// from the same distribution.
    #[test]
    fn the_probability_grows_with_the_average_as_the_paper_draws_it() {
        let n = 1 << 20;
        for (length, gentle, inverse) in
            [(6, false, 100), (7, false, 50), (10, false, 20), (14, true, 0)]
        {
            let p_b = match length {
                14 => 0.09,
                _ => 1.0 / f64::from(inverse),
            };
            // Gaps: P(gap > k) = 1 - k p_b, while this is above zero.
            let mut gap = 0.0;
            let mut square = 0.0;
            let mut k = 0.0;
            while 1.0 - k * p_b > 1e-9 {
                gap += 1.0 - k * p_b;
                square += (2.0 * k + 1.0) * (1.0 - k * p_b);
                k += 1.0;
            }
            let deviation = ((square - gap * gap) * n as f64 / gap.powi(3)).sqrt();
            let (marked, dropped) = sample(parameters(gentle, false), length, true, n);
            let expected = n as f64 / gap;
            let off = (dropped as f64 - expected).abs() / deviation;
            assert!(
                marked == 0 && off < 4.0,
                "{length}: {dropped}, not {expected} by {off} deviations"
            );
        }
    }

    #[test]
    fn marks_are_as_rare_as_drops_would_be_and_certainty_is_a_drop() {
        let (drops, marks) = (
            sample(parameters(false, false), 10, true, 100_000),
            sample(parameters(false, true), 10, true, 100_000),
        );
        assert_eq!((drops.0, marks.1), (0, 0));
        assert_eq!(drops.1, marks.0, "the probability decides, whatever is done then");
        assert_eq!(
            sample(parameters(false, true), 10, false, 100_000),
            (0, drops.1),
            "who is not capable is dropped"
        );
        assert_eq!(sample(parameters(false, true), 4, true, 1000), (0, 0));
        assert_eq!(sample(parameters(false, true), 15, true, 1000), (0, 1000));
        // Gentle mode: at an average of 15 there are as many marks as just below 15. At 22 the
        // probability p_b is 52 %, and more than 52 % of the packets are marked, because of the
        // count. At 30 all packets are dropped.
        let (low, high) = (
            sample(parameters(true, true), 15, true, 1000).0,
            sample(parameters(true, true), 22, true, 1000).0,
        );
        assert!((160..=210).contains(&low) && (500..=900).contains(&high), "{low}, {high}");
        assert_eq!(sample(parameters(true, true), 30, true, 1000), (0, 1000));
    }

    #[test]
    fn the_average_follows_slowly_and_decays_without_arrivals() {
        let mut red = Red::new(parameters(false, false), LINK);
        // The average rises from zero to 20 with w = 0.002: 20 (1 - 0.998^n).
        for n in 1..=1000u32 {
            red.comes(Level { packets: 20, bytes: 0 }, false, Time::ZERO, u64::MAX);
            let expected = 20.0 * (1.0 - 0.998f64.powi(n as i32));
            assert!((red.avg as f64 / f64::from(1 << POINT) - expected).abs() < 1e-4, "{n}");
        }
        // After a pause of 346 packets of 1 ms the average is half of its value before the pause.
        // One more arrival at the empty queue lowers the average once more.
        let before = red.avg as f64;
        red.emptied(Time::ZERO);
        red.comes(Level::default(), false, Time(346_500_000), u64::MAX);
        let sunk = red.avg as f64 / before / 0.998;
        assert!((sunk - 0.998f64.powi(346)).abs() < 1e-5, "{sunk}");
    }

    #[test]
    fn thresholds_are_a_range_that_the_queue_can_reach() {
        let with = |min, max| {
            Values::default()
                .with("min", crate::contract::params::Value::Limit(min))
                .with("max", crate::contract::params::Value::Limit(max))
        };
        let refused =
            |values: &Values, limit| RedParameters::new(values, limit, false).unwrap_err().param;
        assert_eq!(refused(&with(Limit::Packets(5), Limit::Packets(5)), Limit::Packets(9)), "max");
        assert_eq!(refused(&with(Limit::Packets(5), Limit::Bytes(5000)), Limit::Packets(9)), "max");
        assert_eq!(refused(&with(Limit::Packets(5), Limit::Packets(10)), Limit::Packets(9)), "max");
        assert!(
            RedParameters::new(&with(Limit::Bytes(5), Limit::Bytes(10)), Limit::Packets(9), false)
                .is_ok()
        );
    }
}
