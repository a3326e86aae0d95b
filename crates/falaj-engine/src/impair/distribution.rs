//! How delays are distributed: shapes of mean 0 and deviation 1, as the
//! inverse of their distribution function at equal steps of probability, with
//! straight lines between. Made at set-up, with floating point; packets see integers.
//!
//! A table that ends somewhere has less deviation than the distribution that
//! it stands for, and netem's have; here every table is scaled until the
//! lines between its points have mean 0 and deviation 1.

use super::jitter_process::JitterProcess;
use std::sync::{Arc, LazyLock, OnceLock};

/// How delays are distributed around their mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Each value of a range alike.
    Uniform,
    /// Normal, to 4 deviations.
    Normal,
    /// Pareto, with the exponent 3: none is much lower, a few are far higher.
    Pareto,
    /// A quarter normal and three quarters Pareto, as netem mixes them.
    ParetoNormal,
    /// Measured.
    Table(DelayTable),
}

/// A distribution that was measured.
#[derive(Clone, Debug)]
pub struct DelayTable {
    points: Arc<[f64]>,
    /// Made when it is asked for first.
    course: Arc<OnceLock<Arc<JitterProcess>>>,
}

impl PartialEq for DelayTable {
    fn eq(&self, other: &DelayTable) -> bool {
        self.points == other.points
    }
}

/// Steps of probability in tables of our own.
const STEPS: usize = 4096;
/// How far the normal distribution goes: 4 deviations, of which this end takes
/// a little, so that four times the deviation is enough of a delay.
const FAR: f64 = 3.998;
/// Of Pareto.
const EXPONENT: f64 = 3.0;

impl DelayTable {
    /// From samples, of any scale and in any order, as many of them as there
    /// are: each stands for as much probability. `None` if they are fewer than
    /// two or all alike.
    pub fn new(samples: &[i32]) -> Option<DelayTable> {
        let mut points: Vec<f64> = samples.iter().map(|&s| f64::from(s)).collect();
        points.sort_by(f64::total_cmp);
        let differ = points.first()? < points.last()?;
        differ.then(|| DelayTable { points: standardised(points).into(), course: Arc::default() })
    }
}

impl Distribution {
    /// The points of a distribution of mean 0 and deviation 1; `None` of the
    /// uniform one, which needs none.
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
    /// How delays of it go on where none may overtake; that of a name is made once.
    pub(crate) fn course(&self) -> Arc<JitterProcess> {
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
                    table.course.get_or_init(|| Arc::new(JitterProcess::new(&table.points))),
                );
            }
        };
        Arc::clone(&NAMED[named])
    }
}

fn of_name(distribution: &Distribution) -> Arc<JitterProcess> {
    Arc::new(JitterProcess::new(&distribution.standard().unwrap_or_else(|| vec![-1.0, 1.0])))
}

/// Mean and deviation of a distribution of straight lines between points at equal steps.
pub(super) fn moments(points: &[f64]) -> (f64, f64) {
    let lines = (points.len() - 1) as f64;
    let sum =
        |of: fn(f64, f64) -> f64| points.windows(2).map(|w| of(w[0], w[1])).sum::<f64>() / lines;
    let mean = sum(f64::midpoint);
    // Around the first point, so that a large mean costs no digits.
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

/// The last step stands for a tail without an end: a line that is as long as
/// it takes for the tail's part of the variance, which is a quarter of all.
fn pareto() -> Vec<f64> {
    let quantile = |p: f64| (1.0 - p).powf(-1.0 / EXPONENT);
    let mut points: Vec<f64> = (0..STEPS).map(|i| quantile(i as f64 / STEPS as f64)).collect();
    // Of the squares beyond x there are 3 / x; a line from x to y has (x^2 + x y + y^2) / 3 of
    // them.
    let x = points[STEPS - 1];
    let squares = 3.0 * EXPONENT / (EXPONENT - 2.0) / x * STEPS as f64;
    points.push((x * x / 4.0 + squares - x * x).sqrt() - x / 2.0);
    points
}

/// The inverse of the normal distribution function, from the sum of its
/// density in small steps.
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
