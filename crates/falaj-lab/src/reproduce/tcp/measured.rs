//! The measurements of a cell on one side, and derived values.

use falaj_traffic::meter::Meter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Two connections are fair if Jain's index has at least this value. At this value the slower
/// connection has about 63 percent of the faster one's rate.
const FAIR: f64 = 0.95;
/// Number of consecutive intervals in which the connections must be fair.
const IN_A_ROW: usize = 3;

/// The results of a cell, measured or simulated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Goodput of the first connection before the second starts, in bit/s.
    pub(super) goodput: f64,
    /// Mean delay of this connection's packets at the link, last bit in to last bit out, in
    /// nanoseconds.
    pub(super) mean: f64,
    /// 99th percentile of this delay, in nanoseconds.
    pub(super) p99: f64,
    /// Packets that arrived at the link.
    pub(super) offered: u64,
    /// Packets that were dropped or lost at the link.
    pub(super) gone: u64,
    /// Packets that were marked at the link.
    pub(super) marked: u64,
    /// Bytes that each of two connections sent over the link, for each of the equal intervals
    /// (`PARTS`) after the start of the second connection.
    pub(super) parts: Vec<[u64; 2]>,
}

impl Measured {
    /// The delays that a meter counts now, without those that it had counted before.
    pub(super) fn of_delays(now: &Meter, before: Option<&Meter>) -> Measured {
        let mut counts: BTreeMap<u64, u64> =
            now.counts().map(|(delay, times)| (delay.0, times)).collect();
        let mut sum = sum(now);
        let mut count = now.count();
        if let Some(before) = before {
            for (delay, times) in before.counts() {
                if let Some(all) = counts.get_mut(&delay.0) {
                    *all -= times.min(*all);
                }
            }
            sum -= self::sum(before);
            count -= before.count();
        }
        let mut so_far = 0;
        let p99 = counts.iter().find(|(_, times)| {
            so_far += **times;
            so_far as f64 >= 0.99 * count as f64
        });
        Measured {
            mean: if count > 0 { sum / count as f64 } else { 0.0 },
            p99: p99.filter(|_| count > 0).map_or(0.0, |(delay, _)| *delay as f64),
            ..Measured::default()
        }
    }

    /// The fraction of packets that were dropped or lost.
    pub(super) fn loss(&self) -> f64 {
        self.gone as f64 / self.offered.max(1) as f64
    }

    /// The means of several runs, and the sums of their packet counts. The intervals with
    /// two connections are those of the run with the median convergence.
    pub(super) fn mean(runs: &[Measured]) -> Measured {
        let number = runs.len().max(1) as f64;
        let mean = |of: fn(&Measured) -> f64| runs.iter().map(of).sum::<f64>() / number;
        let sum = |of: fn(&Measured) -> u64| runs.iter().map(of).sum();
        // The run with the median convergence.
        let mut by_convergence: Vec<&Measured> = runs.iter().collect();
        by_convergence.sort_by_key(|run| run.converged().unwrap_or(usize::MAX));
        let parts = by_convergence.get(runs.len() / 2).map(|run| run.parts.clone());
        Measured {
            goodput: mean(|m| m.goodput),
            mean: mean(|m| m.mean),
            p99: mean(|m| m.p99),
            offered: sum(|m| m.offered),
            gone: sum(|m| m.gone),
            marked: sum(|m| m.marked),
            parts: parts.unwrap_or_default(),
        }
    }

    /// The first interval from which on the connections share fairly for [`IN_A_ROW`] intervals.
    pub(super) fn converged(&self) -> Option<usize> {
        let fair = |pair: &[u64; 2]| {
            let [a, b] = pair.map(|bytes| bytes as f64);
            (a + b).powi(2) >= FAIR * 2.0 * (a * a + b * b) && a + b > 0.0
        };
        self.parts.windows(IN_A_ROW).position(|parts| parts.iter().all(fair))
    }
}

fn sum(meter: &Meter) -> f64 {
    meter.mean_nanos().unwrap_or(0.0) * meter.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::time::Span;

    /// 100 delays of 1 us, then 99 of 10 us and one of 100 us.
    #[test]
    fn delays_are_those_since_an_instant() {
        let mut meter = Meter::new();
        meter.record_n(Span::from_micros(1), 100);
        let before = meter.clone();
        meter.record_n(Span::from_micros(10), 99);
        meter.record_n(Span::from_micros(100), 1);
        let since = Measured::of_delays(&meter, Some(&before));
        assert!((since.mean - 10_900.0).abs() < 1e-6, "{}", since.mean);
        assert!((10_000.0..10_020.0).contains(&since.p99), "{}", since.p99);
        assert_eq!(Measured::of_delays(&meter, None).p99, since.p99);
        assert_eq!(Measured::of_delays(&meter, Some(&meter)).mean, 0.0);
    }

    /// Rates of 2 and 3 are fair enough, rates of 1 and 2 are not: Jain's index is 25/26 and 9/10.
    #[test]
    fn two_converge_once_they_stay_fair() {
        let of = |parts: &[[u64; 2]]| {
            Measured { parts: parts.to_vec(), ..Measured::default() }.converged()
        };
        assert_eq!(of(&[[2, 1], [3, 2], [2, 3], [1, 2], [3, 2], [1, 1], [2, 3]]), Some(4));
        assert_eq!(of(&[[3, 2], [3, 2], [2, 1]]), None);
        assert_eq!(of(&[[0, 0]; 3]), None);
    }
}
