//! Distributions of delays: shapes of mean 0 and deviation 1, stored as the inverse of their
//! distribution function at equal steps of probability and interpolated linearly. They are computed
//! at set-up in floating point; the path of packets uses integers.
//!
//! A table of finite range has a smaller deviation than the distribution that it approximates;
//! netem's tables have this fault. Here every table is scaled until the interpolated distribution
//! has mean 0 and deviation 1.

use super::jitter_process::JitterProcess;
use std::sync::{Arc, LazyLock, OnceLock};

/// Distribution of delays around their mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform over a range.
    Uniform,
    /// Normal, cut off at 4 deviations.
    Normal,
    /// Pareto with exponent 3: no delay is much lower than the mean, a few are far higher.
    Pareto,
    /// A quarter normal and three quarters Pareto, as netem mixes them.
    ParetoNormal,
    /// A measured distribution.
    Table(DelayTable),
}

/// A measured distribution.
#[derive(Clone, Debug)]
pub struct DelayTable {
    points: Arc<[f64]>,
    /// Computed at its first use.
    process: Arc<OnceLock<Arc<JitterProcess>>>,
}

impl PartialEq for DelayTable {
    fn eq(&self, other: &DelayTable) -> bool {
        self.points == other.points
    }
}

/// Steps of probability in built-in tables.
const STEPS: usize = 4096;
/// Range of the normal distribution in deviations. It is a little less than 4, because scaling
/// widens it, so that no delay is negative if the mean is four times the deviation.
const FAR: f64 = 3.998;
/// Exponent of the Pareto distribution.
const EXPONENT: f64 = 3.0;

impl DelayTable {
    /// A distribution from all these samples, of any scale and in any order; each stands for the
    /// same probability. `None` if there are fewer than two samples or all are equal.
    pub fn new(samples: &[i32]) -> Option<DelayTable> {
        let mut points: Vec<f64> = samples.iter().map(|&s| f64::from(s)).collect();
        points.sort_by(f64::total_cmp);
        let differ = points.first()? < points.last()?;
        differ.then(|| DelayTable { points: standardised(points).into(), process: Arc::default() })
    }
}

impl Distribution {
    /// The points of the distribution, scaled to mean 0 and deviation 1; `None` for the uniform
    /// distribution, which needs no points.
    pub(crate) fn standard(&self) -> Option<Vec<f64>> {
        Some(match self {
            Distribution::Uniform => return None,
            Distribution::Normal => standardised(normal()),
            Distribution::Pareto => standardised(pareto()),
            Distribution::ParetoNormal => {
                let (normal, pareto) = (standardised(normal()), standardised(pareto()));
                standardised(normal.iter().zip(pareto).map(|(n, p)| 0.25 * n + 0.75 * p).collect())
            }
            Distribution::Table(table) => table.points.to_vec(),
        })
    }
}

impl Distribution {
    /// The jitter process of this distribution for links that keep order; for a named distribution
    /// it is computed once.
    pub(crate) fn process(&self) -> Arc<JitterProcess> {
        static NAMED: [LazyLock<Arc<JitterProcess>>; 4] = [
            LazyLock::new(|| of_name(&Distribution::Uniform)),
            LazyLock::new(|| of_name(&Distribution::Normal)),
            LazyLock::new(|| of_name(&Distribution::Pareto)),
            LazyLock::new(|| of_name(&Distribution::ParetoNormal)),
        ];
        let named = match self {
            Distribution::Uniform => 0,
            Distribution::Normal => 1,
            Distribution::Pareto => 2,
            Distribution::ParetoNormal => 3,
            Distribution::Table(table) => {
                return Arc::clone(
                    table.process.get_or_init(|| Arc::new(JitterProcess::new(&table.points))),
                );
            }
        };
        Arc::clone(&NAMED[named])
    }
}

fn of_name(distribution: &Distribution) -> Arc<JitterProcess> {
    Arc::new(JitterProcess::new(&distribution.standard().unwrap_or_else(|| vec![-1.0, 1.0])))
}

/// Mean and deviation of the distribution that interpolates linearly between points at equal steps.
pub(super) fn moments(points: &[f64]) -> (f64, f64) {
    let lines = (points.len() - 1) as f64;
    let sum =
        |of: fn(f64, f64) -> f64| points.windows(2).map(|w| of(w[0], w[1])).sum::<f64>() / lines;
    let mean = sum(f64::midpoint);
    // Computed around the first point, so that a large mean costs no precision.
    let first = points[0];
    let shifted: f64 = points
        .windows(2)
        .map(|w| (w[0] - first, w[1] - first))
        .map(|(a, b)| (a * a + a * b + b * b) / 3.0)
        .sum::<f64>()
        / lines;
    (mean, (shifted - (mean - first).powi(2)).max(0.0).sqrt())
}

fn standardised(mut points: Vec<f64>) -> Vec<f64> {
    let (mean, deviation) = moments(&points);
    points.iter_mut().for_each(|p| *p = (*p - mean) / deviation);
    points
}

/// The inverse of the Pareto distribution function at equal steps of probability. The last step
/// stands for the infinite tail. Its height gives it the tail's part of the variance, which is a
/// quarter of the whole.
fn pareto() -> Vec<f64> {
    let quantile = |p: f64| (1.0 - p).powf(-1.0 / EXPONENT);
    let mut points: Vec<f64> = (0..STEPS).map(|i| quantile(i as f64 / STEPS as f64)).collect();
    // The squares beyond x contribute 3 / x; a line from x to y contributes (x^2 + x y + y^2) / 3.
    let x = points[STEPS - 1];
    let squares = 3.0 * EXPONENT / (EXPONENT - 2.0) / x * STEPS as f64;
    points.push((x * x / 4.0 + squares - x * x).sqrt() - x / 2.0);
    points
}

/// The inverse of the normal distribution function, integrated from its density in small steps.
fn normal() -> Vec<f64> {
    const PIECES: usize = 200_000;
    let width = 2.0 * FAR / PIECES as f64;
    let at = |i: usize| width * i as f64 - FAR;
    let density = |x: f64| (-x * x / 2.0).exp();
    let mut below = vec![0.0; PIECES + 1];
    for i in 1..=PIECES {
        below[i] = below[i - 1] + f64::midpoint(density(at(i - 1)), density(at(i))) * width;
    }
    let all = below[PIECES];
    let inverse = |i: usize| {
        let p = all * i as f64 / STEPS as f64;
        let after = below.partition_point(|&b| b < p).clamp(1, PIECES);
        let part = (p - below[after - 1]) / (below[after] - below[after - 1]);
        at(after - 1) + width * part
    };
    (0..=STEPS).map(inverse).collect()
}
