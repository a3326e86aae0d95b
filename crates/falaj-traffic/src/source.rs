//! Traffic sources. The same source drives the simulator and, as real
//! datagrams, the live generator.

use falaj_engine::chance::Chance;
use falaj_sched::rate::{BIT_NANOS, Rate};
use falaj_sched::time::{Span, Time};
use rand_distr::{Distribution, Exp1};

/// How packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Exponential gaps; the rate is the mean.
    Poisson,
    /// Equal gaps, the first packet at the start.
    Cbr,
    /// Equal gaps while on; on and off last exponential times with these means.
    OnOff {
        /// Mean time on.
        on: Span,
        /// Mean time off.
        off: Span,
    },
}

/// What a source sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// How packets follow each other.
    pub model: Model,
    /// As the link accounts it; of an on-off source while it is on.
    pub rate: Rate,
    /// Length of each packet as the link accounts it.
    pub size: u32,
    /// No packet before.
    pub start: Time,
    /// No packet at or after.
    pub stop: Time,
}

impl SourceSpec {
    /// The rate in the long run.
    pub fn mean_rate(&self) -> Rate {
        match self.model {
            Model::Poisson | Model::Cbr => self.rate,
            Model::OnOff { on, off } => {
                let share = u128::from(self.rate.0) * u128::from(on.0) / u128::from((on + off).0.max(1));
                Rate(share as u64)
            }
        }
    }
}

/// A source as the iterator of its arrival instants, in order.
#[derive(Clone, Debug)]
pub struct Source {
    spec: SourceSpec,
    chance: Chance,
    /// Nanoseconds between packets at the rate: whole part and remainder.
    gap: u64,
    gap_rest: u64,
    mean_gap: f64,
    /// Remainder carried, in units of `1 / rate` nanoseconds, so that no drift builds up.
    rest: u64,
    /// Part of a nanosecond carried by random times.
    carry: f64,
    next: Time,
    /// End of the time on.
    on_until: Time,
}

impl Source {
    /// The source number `index` under `seed`: each has its own random stream.
    pub fn new(spec: SourceSpec, seed: u64, index: u64) -> Source {
        /// Keeps the streams of sources apart from those of other elements.
        const SOURCES: u64 = 0x736f_7572_6365;
        let work = u64::from(spec.size) * BIT_NANOS;
        let mean_gap = work as f64 / spec.rate.0 as f64;
        let mut source = Source {
            spec,
            chance: Chance::new(seed, SOURCES, index),
            gap: work / spec.rate.0,
            gap_rest: work % spec.rate.0,
            mean_gap,
            rest: 0,
            carry: 0.0,
            next: spec.start,
            on_until: Time::NEVER,
        };
        match spec.model {
            Model::Cbr => {}
            Model::Poisson => source.next = spec.start + source.exponential(mean_gap),
            Model::OnOff { on, .. } => source.on_until = spec.start + source.exponential(on.0 as f64),
        }
        source
    }

    /// Length of its packets, as the link accounts it.
    pub fn size(&self) -> u32 {
        self.spec.size
    }

    #[inline]
    fn exponential(&mut self, mean: f64) -> Span {
        let unit: f64 = Exp1.sample(&mut self.chance);
        let exact = unit * mean + self.carry;
        let whole = exact as u64;
        self.carry = exact - whole as f64;
        Span(whole)
    }

    fn equal_gap(&mut self) -> Span {
        self.rest += self.gap_rest;
        let more = u64::from(self.rest >= self.spec.rate.0);
        self.rest -= more * self.spec.rate.0;
        Span(self.gap + more)
    }
}

impl Iterator for Source {
    type Item = Time;

    #[inline]
    fn next(&mut self) -> Option<Time> {
        let at = self.next;
        if at >= self.spec.stop {
            return None;
        }
        self.next = match self.spec.model {
            Model::Poisson => at + self.exponential(self.mean_gap),
            Model::Cbr => at + self.equal_gap(),
            Model::OnOff { on, off } => {
                let mut next = at + self.equal_gap();
                // The gap runs on in time on: a burst that began with a packet
                // would send half a packet more than its share.
                while next >= self.on_until {
                    let over = next - self.on_until;
                    let on_again = self.on_until + self.exponential(off.0 as f64);
                    self.on_until = on_again + self.exponential(on.0 as f64);
                    next = on_again + over;
                }
                next
            }
        };
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(model: Model) -> SourceSpec {
        SourceSpec { model, rate: Rate::from_mbit(100), size: 500, start: Time::ZERO, stop: Time(10_000_000_000) }
    }

    #[test]
    fn cbr_keeps_its_rate_exactly() {
        let odd = SourceSpec { rate: Rate::from_bits(33_333_333), ..spec(Model::Cbr) };
        let times: Vec<Time> = Source::new(odd, 1, 0).collect();
        for (n, t) in times.iter().enumerate() {
            assert_eq!(u128::from(t.0), n as u128 * 4_000_000_000_000 / 33_333_333);
        }
        assert_eq!(times.len(), 83_334);
    }

    /// 250,000 packets expected; the count of a Poisson process has that
    /// variance too, and its gaps the standard deviation of their mean.
    #[test]
    fn poisson_has_the_mean_and_the_spread_of_poisson() {
        for seed in 0..5 {
            let times: Vec<Time> = Source::new(spec(Model::Poisson), seed, 3).collect();
            let n = times.len() as f64;
            assert!((n - 250_000.0).abs() < 4.0 * 500.0, "{n}");
            let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).0 as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.01, "{}", variance.sqrt() / mean);
        }
    }

    #[test]
    fn on_off_has_its_share_of_the_rate() {
        // Bursts of 125 packets, and bursts of one: 40 us is a packet's gap.
        for (on, seconds) in [(Span::from_millis(5), 200), (Span::from_micros(40), 4)] {
            let long =
                SourceSpec { stop: Time(seconds * 1_000_000_000), ..spec(Model::OnOff { on, off: Span(on.0 * 3) }) };
            assert_eq!(long.mean_rate(), Rate::from_mbit(25));
            // 10,000 cycles or more: the share's standard error is about 1 % of it.
            let sent = Source::new(long, 4, 0).count() as f64 * 4_000.0 / seconds as f64;
            assert!((sent / 25e6 - 1.0).abs() < 0.04, "{on}: {sent}");
        }
    }

    #[test]
    fn streams_differ_by_seed_and_index_and_repeat() {
        let first = |seed, index| Source::new(spec(Model::Poisson), seed, index).take(50).collect::<Vec<_>>();
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }
}
