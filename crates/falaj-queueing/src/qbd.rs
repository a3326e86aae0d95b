//! Quasi-birth-death processes: a level that changes by one at a time, and a phase.
//!
//! Row `i` of `G` is the distribution of the phase in which the process first arrives at the level
//! below, if it starts in phase `i`. `R` is the expected time in the phases of the next level for
//! each unit of time in the phases of this level. `G` and `R` are the least solutions of
//! `A2 + A1 G + A0 G^2 = 0` and `A0 + R A1 + R^2 A2 = 0`. Logarithmic reduction is from Latouche
//! and Ramaswami (1993), cyclic reduction from Bini and Meini (1995).
//!
//! If arrivals come from few phases and services begin in few phases, most columns of `A0` and `A2`
//! are zero. Both reductions preserve these zeros: only the other columns are computed.

use crate::linear::Mat;
use crate::matrix::{
    add_columns, columns, from_rows, largest, occupied, row_sums, row_times, rows, stationary,
};
use crate::refused::Refused;

/// The rates of a quasi-birth-death process away from its boundary.
#[derive(Clone, Debug)]
pub struct Qbd {
    /// Rates to the level above, `A0`.
    up: Mat,
    /// Rates within a level, `A1`.
    within: Mat,
    /// Rates to the level below, `A2`.
    down: Mat,
}

/// The algorithm that computes `G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each step doubles the number of levels that a path may reach.
    LogarithmicReduction,
    /// Each step eliminates every other level.
    CyclicReduction,
}

/// `G` and `R`, and the residuals of their equations.
#[derive(Clone, Debug)]
pub struct Solved {
    pub(crate) g: Mat,
    pub(crate) r: Mat,
    /// Number of steps of the reduction.
    pub steps: usize,
    /// The largest entry of `A2 + A1 G + A0 G^2`, divided by the fastest rate.
    pub residual_g: f64,
    /// The largest entry of `A0 + R A1 + R^2 A2`, divided by the fastest rate.
    pub residual_r: f64,
}

/// Maximum number of steps. Convergence is quadratic: at a load of 1 - 1e-12, 40 steps suffice.
const STEPS: usize = 64;

impl Qbd {
    /// Builds the process from the rates up, within a level, and down; each row of their sum is
    /// zero.
    pub(crate) fn new(up: Mat, within: Mat, down: Mat) -> Qbd {
        Qbd { up, within, down }
    }

    /// Builds the process from rows.
    ///
    /// # Errors
    /// The matrices are not square, differ in size, have negative rates, or rows that do not sum up
    /// to zero.
    pub fn from_rows(
        up: &[Vec<f64>],
        within: &[Vec<f64>],
        down: &[Vec<f64>],
    ) -> Result<Qbd, Refused> {
        const WHAT: &str = "quasi-birth-death process";
        let wrong = |why: &str| Err(Refused::Shape { what: WHAT, why: why.to_owned() });
        let (up, within, down) =
            (from_rows(WHAT, up)?, from_rows(WHAT, within)?, from_rows(WHAT, down)?);
        let size = (within.nrows(), within.nrows());
        if within.nrows() == 0
            || [&up, &within, &down].iter().any(|m| (m.nrows(), m.ncols()) != size)
        {
            return wrong("the three matrices must be square and of the same size");
        }
        let all = &(&up + &within) + &down;
        let rate = |m: &Mat, i: usize, j: usize| m[(i, j)] >= 0.0 && m[(i, j)].is_finite();
        let fits = |i: usize| {
            (0..size.0)
                .all(|j| rate(&up, i, j) && rate(&down, i, j) && (i == j || rate(&within, i, j)))
                && row_sums(&all)[i].abs() <= 1e-9 * within[(i, i)].abs()
        };
        if !(0..size.0).all(fits) {
            return wrong(
                "the rates must be finite and not negative, and each row must sum up to zero over the three matrices",
            );
        }
        Ok(Qbd::new(up, within, down))
    }

    /// Mean change of the level per unit of time, far from the boundary. The process is stable if
    /// this mean change is below zero.
    pub fn drift(&self) -> f64 {
        let phases = stationary(&(&(&self.up + &self.within) + &self.down));
        let sum = |m| row_times(&phases, m).iter().sum::<f64>();
        sum(&self.up) - sum(&self.down)
    }

    /// Number of phases, which is the order of each matrix.
    pub fn order(&self) -> usize {
        self.within.nrows()
    }

    /// Computes `G` and `R`. The process must be stable; the caller ensures it.
    pub fn solve(&self, method: Method) -> Result<Solved, Refused> {
        let (from, to) = (occupied(&self.down), occupied(&self.up));
        let part = Occupied { up: &to, down: &from };
        let (first, steps) = match method {
            Method::LogarithmicReduction => self.logarithmic(&part)?,
            Method::CyclicReduction => self.cyclic(&part)?,
        };
        // One step of the plain iteration removes the rounding error of the reduction.
        let n = self.order();
        let fastest = largest(&self.within);
        let down = columns(&self.down, &from);
        let up = columns(&self.up, &to);
        let left = |g: &Mat| {
            let mut left = -&self.within;
            add_columns(&mut left, &from, &(&up * &rows(g, &to)), -1.0);
            left.lu()
        };
        let g = left(&first).solve(&down);
        let mut residual = &down + &(&self.within * &g);
        residual += &(&up * &(&rows(&g, &to) * &rows(&g, &from)));
        let residual_g = largest(&residual) / fastest;

        let senders: Vec<usize> = occupied(&self.up.transpose());
        let sent = rows(&self.up, &senders);
        let some = left(&g).solve_left(&sent);
        let mut r = Mat::zeros(n, n);
        for (i, &row) in senders.iter().enumerate() {
            for j in 0..n {
                // Rounding may leave a small negative number in place of a zero.
                r[(row, j)] = some[(i, j)].max(0.0);
            }
        }
        let mut residual = &sent + &(&some * &self.within);
        let twice = &columns(&some, &senders) * &(&some * &down);
        add_columns(&mut residual, &from, &twice, 1.0);
        let residual_r = largest(&residual) / fastest;
        let worst = residual_g.max(residual_r);
        if worst.is_nan() || worst > 1e-10 {
            return Err(Refused::NotConverged { what: "the matrices G and R", residual: worst });
        }
        let mut full = Mat::zeros(n, n);
        add_columns(&mut full, &from, &g, 1.0);
        Ok(Solved { g: full, r, steps, residual_g, residual_r })
    }

    /// Columns of `G` by logarithmic reduction.
    fn logarithmic(&self, at: &Occupied<'_>) -> Result<(Mat, usize), Refused> {
        let lu = (-&self.within).lu();
        let mut high = lu.solve(&columns(&self.up, at.up));
        let mut low = lu.solve(&columns(&self.down, at.down));
        let (mut g, mut reached) = (low.clone(), high.clone());
        for step in 1..=STEPS {
            let mut stay = Mat::identity(self.order());
            add_columns(&mut stay, at.down, &(&high * &rows(&low, at.up)), -1.0);
            add_columns(&mut stay, at.up, &(&low * &rows(&high, at.down)), -1.0);
            let lu = stay.lu();
            let (higher, lower) = (&high * &rows(&high, at.up), &low * &rows(&low, at.down));
            (high, low) = (lu.solve(&higher), lu.solve(&lower));
            let more = &reached * &rows(&low, at.up);
            g += &more;
            reached = &reached * &rows(&high, at.up);
            if ended(largest(&more), step)? || largest(&reached) < 1e-300 {
                return Ok((g, step));
            }
        }
        Err(Refused::NotConverged { what: "logarithmic reduction", residual: largest(&reached) })
    }

    /// Columns of `G` by cyclic reduction.
    fn cyclic(&self, at: &Occupied<'_>) -> Result<(Mat, usize), Refused> {
        let mut up = columns(&self.up, at.up);
        let mut down = columns(&self.down, at.down);
        let first_down = down.clone();
        let mut stay = -&self.within;
        let mut lowest = stay.clone();
        let fastest = largest(&self.within);
        for step in 1..=STEPS {
            let lu = stay.clone().lu();
            let (falls, climbs) = (lu.solve(&down), lu.solve(&up));
            let returns = &up * &rows(&falls, at.up);
            add_columns(&mut lowest, at.down, &returns, -1.0);
            add_columns(&mut stay, at.down, &returns, -1.0);
            add_columns(&mut stay, at.up, &(&down * &rows(&climbs, at.down)), -1.0);
            up = &up * &rows(&climbs, at.up);
            down = &down * &rows(&falls, at.down);
            if ended(largest(&returns) / fastest, step)? {
                return Ok((lowest.lu().solve(&first_down), step));
            }
        }
        Err(Refused::NotConverged { what: "cyclic reduction", residual: largest(&up) / fastest })
    }
}

/// The columns of `A0` and `A2` that are not zero.
struct Occupied<'a> {
    up: &'a [usize],
    down: &'a [usize],
}

/// Returns true if the last step of a reduction was too small to matter. A step that is not a
/// finite number is an error.
fn ended(change: f64, step: usize) -> Result<bool, Refused> {
    if change.is_finite() {
        Ok(change < 1e-16)
    } else {
        Err(Refused::NotConverged { what: "the reduction", residual: step as f64 })
    }
}

fn by_rows(m: &Mat) -> Vec<Vec<f64>> {
    (0..m.nrows()).map(|i| m.row(i).collect()).collect()
}

impl Solved {
    /// `G` by rows.
    pub fn g_rows(&self) -> Vec<Vec<f64>> {
        by_rows(&self.g)
    }

    /// `R` by rows.
    pub fn r_rows(&self) -> Vec<Vec<f64>> {
        by_rows(&self.r)
    }

    /// The largest eigenvalue of `R`: the ratio of the probabilities of successive levels, far up.
    pub fn decay(&self) -> f64 {
        // Power iteration on a non-negative matrix. Phases that do not feed the next level have
        // rows of zeros, so they do not matter.
        let mut row = vec![1.0; self.r.nrows()];
        let mut factor = 0.0;
        for _ in 0..100_000 {
            let next = row_times(&row, &self.r);
            let most = next.iter().copied().fold(0.0, f64::max);
            if most == 0.0 {
                return 0.0;
            }
            row = next.into_iter().map(|v| v / most).collect();
            if (most - factor).abs() < 1e-15 * most {
                return most;
            }
            factor = most;
        }
        factor
    }

    /// Largest distance of a row sum of `G` from one. A stable process leaves every level
    /// downwards at some time, so each row sum is one.
    pub fn defect(&self) -> f64 {
        row_sums(&self.g).into_iter().fold(0.0, |worst, sum| f64::max(worst, (sum - 1.0).abs()))
    }
}
