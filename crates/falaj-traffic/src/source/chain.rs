//! Markovian arrivals (MAP): random transitions between states; some transitions produce a packet.
//!
//! The process is by Neuts. Its form here is that of Lucantoni, "New results on the single server
//! queue with a batch Markovian arrival process" (1991): `D0` has the rates of transitions without
//! a packet, `D1` the rates of transitions with a packet. A packet may come without a change of
//! state. The diagonal of `D0` is such that each row of `D0 + D1` adds up to zero. In a modulated
//! Poisson process (MMPP) `D1` is diagonal.

use super::{exponential, unit};
use falaj_engine::chance::Chance;
use serde::{Deserialize, Serialize};

/// A Markovian arrival process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    states: Vec<ChainState>,
    /// The stationary distribution: the fraction of time spent in each state.
    stationary: Vec<f64>,
    /// Mean number of packets per second.
    rate: f64,
}

/// A state and its transitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ChainState {
    /// Mean time until the next transition, in nanoseconds.
    stay: f64,
    moves: Vec<Move>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Move {
    /// Cumulative probability of this transition and the transitions before it.
    until: f64,
    to: usize,
    packet: bool,
}

/// Maximum number of states.
pub const STATES_MAX: usize = 64;

impl Chain {
    /// Creates a chain with these rates of transitions, per second.
    ///
    /// # Errors
    /// An error in the matrices, as a message.
    pub fn new(d0: &[Vec<f64>], d1: &[Vec<f64>]) -> Result<Chain, String> {
        let n = d0.len();
        if n == 0 || n > STATES_MAX {
            return Err(format!("there are {n} states: write 1 to {STATES_MAX} rows"));
        }
        for (name, rows) in [("d0", d0), ("d1", d1)] {
            if rows.len() != n {
                return Err(format!("`{name}` has {} rows, and `d0` {n}", rows.len()));
            }
            if let Some(row) = rows.iter().position(|row| row.len() != n) {
                return Err(format!(
                    "row {} of `{name}` has {} numbers, not {n}",
                    row + 1,
                    rows[row].len()
                ));
            }
            for (i, row) in rows.iter().enumerate() {
                let wrong = |(j, rate): (usize, &f64)| {
                    !rate.is_finite() || (*rate < 0.0) != (name == "d0" && i == j) && *rate != 0.0
                };
                if let Some((j, rate)) =
                    row.iter().copied().enumerate().find(|(j, rate)| wrong((*j, rate)))
                {
                    let place = format!("`{name}`, row {}, column {}: {rate}", i + 1, j + 1);
                    return Err(format!(
                        "{place}; rates must not be negative, except on the diagonal of `d0`, \
                         where they must not be positive"
                    ));
                }
            }
        }
        for i in 0..n {
            let (sum, scale) = (0..n)
                .flat_map(|j| [d0[i][j], d1[i][j]])
                .fold((0.0, 0.0f64), |(sum, scale), rate| (sum + rate, scale.max(rate.abs())));
            if sum.abs() > 1e-9 * scale {
                return Err(format!(
                    "the sum of row {} of `d0` and `d1` is {sum}, and must be 0",
                    i + 1
                ));
            }
            if scale == 0.0 {
                return Err(format!("state {} is never left: its rows have no rates", i + 1));
            }
        }
        let between = |i: usize, j: usize| if i == j { 0.0 } else { d0[i][j] + d1[i][j] };
        let stationary =
            stationary(n, between).ok_or("some states are never reached from others")?;
        let rate = (0..n).map(|i| stationary[i] * d1[i].iter().sum::<f64>()).sum();
        if rate <= 0.0 {
            return Err("the source sends no packets: `d1` has no rates".into());
        }
        let state = |i: usize| {
            let all = (0..n).flat_map(|j| {
                [(if i == j { 0.0 } else { d0[i][j] }, j, false), (d1[i][j], j, true)]
            });
            let all: Vec<(f64, usize, bool)> = all.filter(|&(rate, ..)| rate > 0.0).collect();
            let total: f64 = all.iter().map(|&(rate, ..)| rate).sum();
            let mut until = 0.0;
            let moves = all.into_iter().map(|(rate, to, packet)| {
                until += rate / total;
                Move { until, to, packet }
            });
            ChainState { stay: 1e9 / total, moves: moves.collect() }
        };
        Ok(Chain { states: (0..n).map(state).collect(), stationary, rate })
    }

    /// Creates a chain with a Poisson process in each state. A state is given by its packets per
    /// second and its mean duration in seconds. When a state ends, each other state follows with
    /// the same probability.
    ///
    /// # Errors
    /// The same as those of [`Chain::new`].
    pub fn modulated(states: &[(f64, f64)]) -> Result<Chain, String> {
        let n = states.len();
        let others = (n.max(2) - 1) as f64;
        let away = |stay: f64| if n > 1 { 1.0 / (stay * others) } else { 0.0 };
        let d0 = |i: usize| {
            let (packets, stay) = states[i];
            let row = |j| if i == j { -packets - away(stay) * (n - 1) as f64 } else { away(stay) };
            (0..n).map(row).collect::<Vec<f64>>()
        };
        let d1 =
            |i: usize| (0..n).map(|j| if i == j { states[i].0 } else { 0.0 }).collect::<Vec<f64>>();
        let rows = |row: &dyn Fn(usize) -> Vec<f64>| (0..n).map(row).collect::<Vec<_>>();
        Chain::new(&rows(&d0), &rows(&d1))
    }

    /// Mean number of packets per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns a state drawn from the stationary distribution.
    pub(super) fn begin(&self, chance: &mut Chance) -> usize {
        let mut at = unit(chance);
        let found = self.stationary.iter().position(|share| {
            at -= share;
            at < 0.0
        });
        found.unwrap_or(self.states.len() - 1)
    }

    /// Returns the time until the next packet, in nanoseconds, and updates the state.
    pub(super) fn wait(&self, state: &mut usize, chance: &mut Chance) -> f64 {
        let mut nanos = 0.0;
        loop {
            let ChainState { stay, moves } = &self.states[*state];
            nanos += stay * exponential(chance);
            let at = unit(chance);
            let last = moves.len() - 1;
            let one = &moves[moves.iter().position(|m| at < m.until).unwrap_or(last)];
            *state = one.to;
            if one.packet {
                return nanos;
            }
        }
    }
}

/// Computes the stationary distribution of these rates by elimination without subtractions
/// (Grassmann, Taksar and Heyman 1985). Returns `None` if not all states reach each other.
fn stationary(n: usize, rate: impl Fn(usize, usize) -> f64) -> Option<Vec<f64>> {
    let mut a: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| rate(i, j)).collect()).collect();
    for k in (1..n).rev() {
        let out: f64 = a[k][..k].iter().sum();
        if out <= 0.0 {
            return None;
        }
        for i in 0..k {
            a[i][k] /= out;
            for j in 0..k {
                let through = a[i][k] * a[k][j];
                a[i][j] += through;
            }
        }
    }
    let mut law = vec![1.0];
    while law.len() < n {
        let k = law.len();
        law.push(law.iter().zip(&a).map(|(share, row)| share * row[k]).sum());
    }
    let total: f64 = law.iter().sum();
    // A state that is never entered again has probability zero.
    (law.iter().all(|&share| share > 0.0)).then(|| law.iter().map(|share| share / total).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_stationary_law() {
        // Two states, with mean durations of 1 s and 3 s, and with 100 and 20 packets a second: the
        // process is in them a quarter and three quarters of the time.
        let two = Chain::modulated(&[(100.0, 1.0), (20.0, 3.0)]).unwrap();
        assert!((two.rate() - (0.25 * 100.0 + 0.75 * 20.0)).abs() < 1e-9);
        assert!((two.stationary[0] - 0.25).abs() < 1e-12);
        // Gaps with an Erlang distribution: every second transition produces a packet.
        let erlang =
            Chain::new(&[vec![-10.0, 10.0], vec![0.0, -10.0]], &[vec![0.0, 0.0], vec![10.0, 0.0]])
                .unwrap();
        assert!((erlang.rate() - 5.0).abs() < 1e-12);
        let one = Chain::modulated(&[(7.0, 1.0)]).unwrap();
        assert!((one.rate() - 7.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_process_is_refused() {
        let says = |d0: &[Vec<f64>], d1: &[Vec<f64>]| Chain::new(d0, d1).unwrap_err();
        assert_eq!(says(&[], &[]), "there are 0 states: write 1 to 64 rows");
        assert_eq!(says(&[vec![-1.0]], &[]), "`d1` has 0 rows, and `d0` 1");
        assert_eq!(says(&[vec![-1.0, 1.0]], &[vec![1.0]]), "row 1 of `d0` has 2 numbers, not 1");
        let below = "`d1`, row 1, column 1: -1; rates must not be negative, except on the diagonal \
                     of `d0`, where they must not be positive";
        assert_eq!(says(&[vec![-1.0]], &[vec![-1.0]]), below);
        assert_eq!(
            says(&[vec![-1.0]], &[vec![2.0]]),
            "the sum of row 1 of `d0` and `d1` is 1, and must be 0"
        );
        assert_eq!(
            says(&[vec![0.0]], &[vec![0.0]]),
            "state 1 is never left: its rows have no rates"
        );
        let split = [vec![-1.0, 0.0], vec![1.0, -2.0]];
        assert_eq!(
            says(&split, &[vec![1.0, 0.0], vec![0.0, 1.0]]),
            "some states are never reached from others"
        );
        let silent = [vec![-1.0, 1.0], vec![1.0, -1.0]];
        assert_eq!(
            says(&silent, &[vec![0.0, 0.0], vec![0.0, 0.0]]),
            "the source sends no packets: `d1` has no rates"
        );
    }
}
