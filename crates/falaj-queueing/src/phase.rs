//! Phase-type distributions: the time until a Markov chain is absorbed.

use crate::linear::Mat;
use crate::matrix::{check_within, dot, from_rows, poisson, row_times, solve_row};
use crate::refused::{Refused, positive};

/// A phase-type distribution: the time until a Markov chain with initial probabilities `start` and
/// transition rates `within` is absorbed. If `start` sums up to less than one, the rest is the
/// probability of zero.
#[derive(Clone, Debug)]
pub struct PhaseType {
    pub(crate) start: Vec<f64>,
    pub(crate) within: Mat,
}

const WHAT: &str = "phase-type distribution";

impl PhaseType {
    /// Builds a distribution from the initial probability of each phase, and the transition rates
    /// between the phases (off the diagonal; the diagonal has the negated total rate of leaving).
    ///
    /// # Errors
    /// The matrix or the probabilities are not those of a phase-type distribution.
    pub fn new(start: Vec<f64>, within: &[Vec<f64>]) -> Result<PhaseType, Refused> {
        let within = from_rows(WHAT, within)?;
        if start.len() != within.nrows() {
            let why = format!(
                "{} initial probabilities, and a matrix of {} phases",
                start.len(),
                within.nrows()
            );
            return Err(Refused::Shape { what: WHAT, why });
        }
        let sum: f64 = start.iter().sum();
        if start.iter().any(|p| !(0.0..=1.0).contains(p)) || sum > 1.0 + 1e-9 {
            let why = "an initial probability is not between 0 and 1, or their sum is more than 1";
            return Err(Refused::Shape { what: WHAT, why: why.into() });
        }
        check_within(WHAT, &within)?;
        let ph = PhaseType { start, within };
        // If a phase is never left, the mean is not finite.
        let mean = ph.mean();
        if !mean.is_finite() || mean < 0.0 {
            return Err(Refused::Shape { what: WHAT, why: "a phase is never left".into() });
        }
        Ok(ph)
    }

    /// The Erlang distribution: `phases` exponential steps in sequence, each of this rate.
    pub fn erlang(phases: usize, rate: f64) -> Result<PhaseType, Refused> {
        let rate = positive("the rate of an Erlang distribution", rate)?;
        if phases == 0 {
            let what = "the number of phases of an Erlang distribution";
            return Err(Refused::Value { what, value: 0.0, allowed: "1 or more" });
        }
        let start = (0..phases).map(|i| f64::from(u8::from(i == 0))).collect();
        let within = Mat::from_fn(phases, phases, |i, j| {
            if i == j {
                -rate
            } else if j == i + 1 {
                rate
            } else {
                0.0
            }
        });
        Ok(PhaseType { start, within })
    }

    /// The exponential distribution of this rate.
    pub fn exponential(rate: f64) -> Result<PhaseType, Refused> {
        PhaseType::erlang(1, rate)
    }

    /// A mixture of exponential distributions, given as pairs of probability and rate.
    pub fn hyper_exponential(branches: &[(f64, f64)]) -> Result<PhaseType, Refused> {
        let n = branches.len();
        let row = |i: usize| (0..n).map(|j| if i == j { -branches[i].1 } else { 0.0 }).collect();
        let rows: Vec<Vec<f64>> = (0..n).map(row).collect();
        for &(_, rate) in branches {
            positive("the rate of a hyper-exponential branch", rate)?;
        }
        let sum: f64 = branches.iter().map(|b| b.0).sum();
        if (sum - 1.0).abs() > 1e-9 {
            let what = "the sum of a hyper-exponential distribution's probabilities";
            return Err(Refused::Value { what, value: sum, allowed: "1" });
        }
        PhaseType::new(branches.iter().map(|b| b.0).collect(), &rows)
    }

    /// Number of phases.
    pub fn order(&self) -> usize {
        self.start.len()
    }

    /// The rate of absorption from each phase.
    pub fn exits(&self) -> Vec<f64> {
        (0..self.order())
            .map(|i| -(0..self.order()).map(|j| self.within[(i, j)]).sum::<f64>())
            .collect()
    }

    /// The `n`-th moment: the mean of the `n`-th power.
    pub fn moment(&self, n: u32) -> f64 {
        let negated = -&self.within;
        let mut row = self.start.clone();
        for i in 1..=n {
            row = solve_row(&negated, &row);
            row.iter_mut().for_each(|v| *v *= f64::from(i));
        }
        row.iter().sum()
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.moment(1)
    }

    /// The squared coefficient of variation: the variance divided by the square of the mean.
    pub fn squared_variation(&self) -> f64 {
        let mean = self.mean();
        self.moment(2) / (mean * mean) - 1.0
    }

    /// Probability that the time is above `y`, by uniformization. All terms of the sum are
    /// non-negative, so no digits cancel.
    pub fn tail(&self, y: f64) -> f64 {
        let fastest = (0..self.order()).map(|i| -self.within[(i, i)]).fold(0.0, f64::max);
        let n = self.order();
        let step =
            Mat::from_fn(n, n, |i, j| f64::from(u8::from(i == j)) + self.within[(i, j)] / fastest);
        let mut row = self.start.clone();
        let mut sum = 0.0;
        for weight in poisson(fastest * y.max(0.0)) {
            sum += weight * row.iter().sum::<f64>();
            row = row_times(&row, &step);
        }
        sum
    }

    /// The Laplace-Stieltjes transform at `s`: the mean of `exp(-s X)`.
    pub fn transform(&self, s: f64) -> f64 {
        let n = self.order();
        let shifted = Mat::from_fn(n, n, |i, j| if i == j { s } else { 0.0 } - self.within[(i, j)]);
        let at_zero = 1.0 - self.start.iter().sum::<f64>();
        at_zero + dot(&solve_row(&shifted, &self.start), &self.exits())
    }

    /// The distribution of the variable multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Result<PhaseType, Refused> {
        let factor = positive("the factor of a distribution", factor)?;
        let n = self.order();
        let within = Mat::from_fn(n, n, |i, j| self.within[(i, j)] / factor);
        Ok(PhaseType { start: self.start.clone(), within })
    }

    /// Distribution of the remaining time at a random moment.
    pub fn residual(&self) -> PhaseType {
        let mean = self.mean();
        let start = solve_row(&-&self.within, &self.start).into_iter().map(|v| v / mean).collect();
        PhaseType { start, within: self.within.clone() }
    }

    /// Distribution of the minimum of two independent variables.
    pub fn least(&self, other: &PhaseType) -> PhaseType {
        let start =
            self.start.iter().flat_map(|a| other.start.iter().map(move |b| a * b)).collect();
        PhaseType { start, within: crate::matrix::kron_sum(&self.within, &other.within) }
    }

    /// A mixture of distributions, given with their probabilities: their phases side by side.
    pub fn mixture(parts: &[(f64, PhaseType)]) -> Result<PhaseType, Refused> {
        let sum: f64 = parts.iter().map(|(p, _)| p).sum();
        if parts.iter().any(|(p, _)| *p < 0.0) || (sum - 1.0).abs() > 1e-9 {
            let what = "the sum of a mixture's probabilities";
            return Err(Refused::Value {
                what,
                value: sum,
                allowed: "1, and none of them negative",
            });
        }
        let order = parts.iter().map(|(_, part)| part.order()).sum();
        let mut within = Mat::zeros(order, order);
        let mut start = Vec::with_capacity(order);
        for (probability, part) in parts {
            let at = start.len();
            for i in 0..part.order() {
                for j in 0..part.order() {
                    within[(at + i, at + j)] = part.within[(i, j)];
                }
            }
            start.extend(part.start.iter().map(|p| probability * p));
        }
        Ok(PhaseType { start, within })
    }
}
