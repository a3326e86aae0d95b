//! Markovian arrival processes: Markov chains in which some transitions are arrivals.

use crate::linear::Mat;
use crate::matrix::{check_within, from_rows, kron_sum, row_sums, row_times, stationary};
use crate::phase::PhaseType;
use crate::refused::{Refused, positive};
use std::collections::BTreeMap;

/// A Markovian arrival process: transitions without an arrival, and transitions with one. A service
/// process with memory has the same form; its arrivals are departures.
#[derive(Clone, Debug)]
pub struct Arrivals {
    pub(crate) silent: Mat,
    pub(crate) heard: Mat,
}

const WHAT: &str = "Markovian arrival process";

impl Arrivals {
    /// Builds the process from the rates of transitions without and with an arrival (`D0` and
    /// `D1`).
    pub fn new(silent: &[Vec<f64>], heard: &[Vec<f64>]) -> Result<Arrivals, Refused> {
        let (silent, heard) = (from_rows(WHAT, silent)?, from_rows(WHAT, heard)?);
        let refuse = |why: &str| Err(Refused::Shape { what: WHAT, why: why.into() });
        if silent.nrows() != heard.nrows() {
            return refuse("both matrices must have the same size");
        }
        check_within(WHAT, &silent)?;
        if heard.entries().any(|v| v < 0.0) {
            return refuse("a transition with an arrival has a negative rate");
        }
        let most = crate::matrix::largest(&silent);
        if row_sums(&(&silent + &heard)).iter().any(|sum| sum.abs() > 1e-9 * most) {
            return refuse("the rates of a row of both matrices together must sum up to zero");
        }
        let arrivals = Arrivals { silent, heard };
        let rate = arrivals.rate();
        if rate.is_nan() || rate <= 0.0 {
            return refuse("there are no arrivals");
        }
        Ok(arrivals)
    }

    /// A renewal process: independent intervals with this distribution.
    pub fn renewal(interval: &PhaseType) -> Arrivals {
        let exits = interval.exits();
        let n = interval.order();
        let heard = Mat::from_fn(n, n, |i, j| exits[i] * interval.start[j]);
        Arrivals { silent: interval.within.clone(), heard }
    }

    /// Superposition of `count` equal sources, each with Erlang intervals of `phases` steps of this
    /// rate. Equal sources need not be distinguished: the state is the number of sources in each
    /// phase.
    pub fn erlangs(count: usize, phases: usize, rate: f64) -> Result<Arrivals, Refused> {
        let rate = positive("the rate of a source", rate)?;
        if count == 0 || phases == 0 {
            let what = if count == 0 {
                "the number of sources"
            } else {
                "the number of packets in a batch"
            };
            return Err(Refused::Value { what, value: 0.0, allowed: "1 or more" });
        }
        let mut states = Vec::new();
        spread(count, phases, &mut Vec::new(), &mut states);
        let number: BTreeMap<&[usize], usize> =
            states.iter().enumerate().map(|(i, s)| (s.as_slice(), i)).collect();
        let n = states.len();
        let (mut silent, mut heard) = (Mat::zeros(n, n), Mat::zeros(n, n));
        for (i, state) in states.iter().enumerate() {
            silent[(i, i)] = -rate * count as f64;
            for phase in (0..phases).filter(|&p| state[p] > 0) {
                let mut next = state.clone();
                let to = (phase + 1) % phases;
                next[phase] -= 1;
                next[to] += 1;
                let part = if to == 0 { &mut heard } else { &mut silent };
                part[(i, number[next.as_slice()])] += rate * state[phase] as f64;
            }
        }
        Ok(Arrivals { silent, heard })
    }

    /// Number of phases of [`Arrivals::erlangs`]: the ways of spreading `count` sources over
    /// `phases`.
    pub fn erlangs_order(count: usize, phases: usize) -> f64 {
        (1..=count).map(|i| (phases - 1 + i) as f64 / i as f64).product::<f64>().round()
    }

    /// The superposition of both processes; each keeps its own phase.
    pub fn with(&self, other: &Arrivals) -> Arrivals {
        Arrivals {
            silent: kron_sum(&self.silent, &other.silent),
            heard: kron_sum(&self.heard, &other.heard),
        }
    }

    /// Number of phases.
    pub fn order(&self) -> usize {
        self.silent.nrows()
    }

    /// The probability of each phase at a random time.
    pub fn phases(&self) -> Vec<f64> {
        stationary(&(&self.silent + &self.heard))
    }

    /// Arrivals per unit of time.
    pub fn rate(&self) -> f64 {
        row_times(&self.phases(), &self.heard).iter().sum()
    }

    /// Distribution of the interval between two arrivals. This distribution does not show how
    /// successive intervals depend on one another.
    pub fn interval(&self) -> PhaseType {
        let rate = self.rate();
        let start = row_times(&self.phases(), &self.heard).into_iter().map(|v| v / rate).collect();
        PhaseType { start, within: self.silent.clone() }
    }

    /// Distribution of the time from a random moment to the next arrival.
    pub fn residual(&self) -> PhaseType {
        PhaseType { start: self.phases(), within: self.silent.clone() }
    }
}

/// All ways of spreading `left` over the remaining phases.
fn spread(left: usize, phases: usize, so_far: &mut Vec<usize>, states: &mut Vec<Vec<usize>>) {
    if phases == 1 {
        so_far.push(left);
        states.push(so_far.clone());
        so_far.pop();
        return;
    }
    for here in (0..=left).rev() {
        so_far.push(here);
        spread(left - here, phases - 1, so_far, states);
        so_far.pop();
    }
}
