//! The paper's model as printed: the superposition is treated as a renewal process with the same
//! interval distribution.
//!
//! With exponential services of rate `mu` this is a GI/M/1 queue. Its solution needs one number:
//! the root of `s = A*(mu (1 - s))` between zero and one, where `A*` is the transform of the
//! interval. With the probability `s` there is a wait, which is then exponential with the rate `mu
//! (1 - s)`. No matrix is needed, and none of the `k^(N+1)` states of `N + 1` streams whose batches
//! have `k` packets.

use crate::line::Stream;
use crate::refused::Refused;
use crate::superposed::Superposed;

/// The wait by the model as printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Probability that the wait is above zero.
    pub waits: f64,
    /// Rate of the exponential distribution of the wait, given that the wait is above zero.
    pub decay: f64,
    /// The mean wait.
    pub wait: f64,
}

impl Printed {
    /// Probability of a wait above `y`.
    pub fn waits_longer(&self, y: f64) -> f64 {
        self.waits * (-self.decay * y.max(0.0)).exp()
    }
}

/// The positive points of the eight-point Gauss-Legendre rule on -1 to 1, with their weights. The
/// other four points are the negated ones, with the same weights.
const GAUSS: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_5),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_3),
];
const PANELS: usize = 400;

pub(crate) fn solve(system: &Superposed) -> Result<Printed, Refused> {
    let (mu, rate) = (1.0 / system.service(), system.rate());
    // H(t): the probability that no stream sends within t of a random moment. The interval A has
    // P[A > t] = -H'(t) / rate, so A*(s) = 1 - s / rate (1 - s int exp(-s t) H(t) dt).
    let longest = |s: &Stream| {
        let size = system.packets(s) as f64;
        (size + 12.0 * size.sqrt() + 45.0) / s.rate
    };
    let mut end = system.streams().iter().map(longest).fold(0.0, f64::max);
    let silent = |t: f64| -> f64 {
        system
            .streams()
            .iter()
            .map(|s| residual_tail(system.packets(s), s.rate * t).powi(s.count as i32))
            .product()
    };
    // The interval may end long before the slowest stream sends.
    while silent(0.5 * end) < 1e-18 {
        end *= 0.5;
    }
    let half = 0.5 * end / PANELS as f64;
    let mut points = Vec::with_capacity(8 * PANELS);
    for panel in 0..PANELS {
        let middle = half * (2 * panel + 1) as f64;
        for (point, weight) in GAUSS {
            for t in [middle - half * point, middle + half * point] {
                points.push((t, half * weight * silent(t)));
            }
        }
    }
    let transform = |s: f64| {
        let integral: f64 = points.iter().map(|&(t, weight)| (-s * t).exp() * weight).sum();
        1.0 - s / rate * (1.0 - s * integral)
    };
    // s - A*(mu (1 - s)) is below zero at zero and above zero just below one, since the load is
    // below one.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if middle > transform(mu * (1.0 - middle)) { high = middle } else { low = middle }
    }
    let root = 0.5 * (low + high);
    let decay = mu * (1.0 - root);
    if decay <= 0.0 || !root.is_finite() {
        return Err(Refused::NotConverged {
            what: "the root of the renewal model",
            residual: root,
        });
    }
    Ok(Printed { waits: root, decay, wait: root / decay })
}

/// Probability that the rest of an Erlang interval of `phases` steps, seen at a random moment, is
/// longer than `steps` mean steps. Each phase is equally likely at that moment, so the result is
/// the mean over all phases.
fn residual_tail(phases: usize, steps: f64) -> f64 {
    let k = phases as f64;
    let (first, end) = likely(phases, steps);
    let mut logarithm = log_poisson(first, steps);
    let mut sum = 0.0;
    for m in first..end {
        if m > first {
            logarithm += (steps / m as f64).ln();
        }
        sum += (1.0 - m as f64 / k) * logarithm.exp();
    }
    sum
}

/// A range of counts below `phases`. By the Poisson distribution of this mean, the other counts
/// below `phases` together have a probability below 1e-20. Up to 4096 phases the range has all
/// counts below `phases`.
fn likely(phases: usize, mean: f64) -> (usize, usize) {
    if phases <= 4096 {
        return (0, phases);
    }
    let width = 10.0 * mean.sqrt() + 100.0;
    let first = (mean - width).max(0.0) as usize;
    (first.min(phases), ((mean + width) as usize).min(phases))
}

/// Logarithm of the Poisson probability of `count`. From 200 on, the factorial of `count` is
/// computed by Stirling's series, with a relative error below 1e-9.
fn log_poisson(count: usize, mean: f64) -> f64 {
    let n = count as f64;
    let factorial = if count < 200 {
        (2..=count).map(|m| (m as f64).ln()).sum()
    } else {
        n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + 1.0 / (12.0 * n)
    };
    if count == 0 { -mean } else { n * mean.ln() - mean - factorial }
}

#[cfg(test)]
mod tests {
    use super::{likely, residual_tail};

    /// The tail as a sum over all phases, by the recursion of their probabilities.
    fn summed(phases: usize, steps: f64) -> f64 {
        let mut logarithm = -steps;
        let terms = (0..phases).map(|m| {
            logarithm += if m > 0 { (steps / m as f64).ln() } else { 0.0 };
            (1.0 - m as f64 / phases as f64) * logarithm.exp()
        });
        terms.sum()
    }

    #[test]
    fn the_likely_counts_alone_make_the_tail() {
        for phases in [5_000, 60_000] {
            for of in [0.001, 0.3, 0.9, 0.99, 1.0, 1.001, 1.02, 1.2] {
                let steps = of * phases as f64;
                let (sum, tail) = (summed(phases, steps), residual_tail(phases, steps));
                assert!((sum - tail).abs() < 1e-8, "{phases} {of}: {sum} {tail}");
            }
        }
        let (first, end) = likely(1_000_000, 700_000.0);
        assert!(first > 600_000 && end < 800_000);
    }
}
