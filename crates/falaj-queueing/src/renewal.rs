//! The wait in PH/PH/1, as a phase-type distribution with as many phases as the service has: the
//! paper's formulas (10) to (19), after Asmussen and Ramaswami, with misprints corrected.

use crate::arrivals::Arrivals;
use crate::linear::Mat;
use crate::matrix::{dot, kron, row_times, solve_column, solve_row};
use crate::phase::PhaseType;
use crate::qbd::Method;
use crate::queue::blocks;
use crate::refused::{Refused, stable};

/// The wait with independent intervals and services: start `P[W > 0] theta D / (theta D 1)` and
/// rates `Delta^-1 (S + R* s alpha)^T Delta`. `R*` is the rate matrix at arrivals, whose size is
/// the number of phases of the service.
pub fn renewal_wait(interval: &PhaseType, service: &PhaseType) -> Result<PhaseType, Refused> {
    stable(service.mean() / interval.mean())?;
    let arrivals = Arrivals::renewal(interval);
    let qbd = blocks(&arrivals, &Arrivals::renewal(service));
    let solved = qbd.solve(Method::LogarithmicReduction)?;
    let (m, exits) = (service.order(), service.exits());
    let stay = Mat::identity(m);
    // N = (-A1 - A0 G)^-1, and R* = (tau (x) I) N (t (x) I).
    let up = kron(&arrivals.heard, &stay);
    let within =
        &kron(&arrivals.silent, &stay) + &kron(&Mat::identity(interval.order()), &service.within);
    let left = &-&within - &(&up * &solved.g);
    let starts = Mat::from_fn(1, interval.order(), |_, j| interval.start[j]);
    let leaves = interval.exits();
    let leaves = Mat::from_fn(leaves.len(), 1, |i, _| leaves[i]);
    let seen = &kron(&starts, &stay) * &left.lu().solve(&kron(&leaves, &stay));
    // sigma: the distribution of the service's phase at a random moment.
    let mean = service.mean();
    let sigma: Vec<f64> =
        solve_row(&-&service.within, &service.start).into_iter().map(|v| v / mean).collect();
    if sigma.iter().any(|&s| s <= 0.0) {
        let why = "a phase of the service is never reached".to_owned();
        return Err(Refused::Shape { what: "service to which these formulas apply", why });
    }
    let d = Mat::from_fn(m, m, |i, j| seen[(j, i)] * sigma[j] / sigma[i]);
    let theta: Vec<f64> = exits.iter().zip(&sigma).map(|(s, sigma)| mean * s * sigma).collect();
    let after = row_times(&theta, &d);
    let visits = solve_column(&(&Mat::identity(m) - &seen), &vec![1.0; m]);
    let waits = 1.0 - 1.0 / dot(&service.start, &visits);
    let sum: f64 = after.iter().sum();
    let start = after.into_iter().map(|v| waits * v / sum).collect();
    // S + R* s alpha, transposed and weighted.
    let begun: Vec<f64> = (0..m).map(|i| (0..m).map(|j| seen[(i, j)] * exits[j]).sum()).collect();
    let within = Mat::from_fn(m, m, |i, j| {
        (service.within[(j, i)] + begun[j] * service.start[i]) * sigma[j] / sigma[i]
    });
    Ok(PhaseType { start, within })
}
