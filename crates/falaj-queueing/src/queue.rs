//! A server that serves in the order of arrival, with Markovian arrivals and services: MAP/MAP/1,
//! and its special cases MAP/PH/1 and PH/PH/1.

use crate::arrivals::Arrivals;
use crate::linear::Mat;
use crate::matrix::{dot, kron, poisson, row_sums, row_times, solve_row};
use crate::phase::PhaseType;
use crate::qbd::{Method, Qbd, Solved};
use crate::refused::{Refused, stable};

/// A queue in steady state.
#[derive(Clone, Debug)]
pub struct Queue {
    arrivals: Arrivals,
    service: Arrivals,
    /// `G` and `R`, and the residuals of their equations.
    pub solved: Solved,
    /// Probabilities of the phases while the queue is empty.
    empty: Vec<f64>,
    /// Probabilities of the phases while the queue is not empty, over all its levels: `pi_0 R (I -
    /// R)^-1`.
    busy: Vec<f64>,
    number: f64,
    rate: f64,
    load: f64,
}

impl Queue {
    /// Builds a queue with independent services.
    pub fn new(arrivals: &Arrivals, service: &PhaseType) -> Result<Queue, Refused> {
        Queue::with_method(arrivals, &Arrivals::renewal(service), Method::CyclicReduction)
    }

    /// Builds a queue whose service times may depend on one another. Each service ends at a
    /// departure of the process `service`, whose phase does not change while the queue is empty.
    pub fn with_method(
        arrivals: &Arrivals,
        service: &Arrivals,
        method: Method,
    ) -> Result<Queue, Refused> {
        let rate = arrivals.rate();
        let load = stable(rate / service.rate())?;
        let qbd = blocks(arrivals, service);
        let solved = qbd.solve(method)?;
        let n = qbd.order();
        let m = service.order();
        // B1 + R A2, where A2 has a service's departures in blocks along its diagonal.
        let mut boundary = kron(&arrivals.silent, &Mat::identity(m));
        for i in 0..n {
            for j in 0..n {
                let block = j - j % m;
                boundary[(i, j)] += (0..m)
                    .map(|p| solved.r[(i, block + p)] * service.heard[(p, j % m)])
                    .sum::<f64>();
            }
        }
        let left = (&Mat::identity(n) - &solved.r).lu();
        let visits: Vec<f64> = left.solve(&Mat::from_fn(n, 1, |_, _| 1.0)).entries().collect();
        // One of the equations follows from the others; it is replaced by the sum over all levels.
        let with_sum = Mat::from_fn(n, n, |i, j| if j == 0 { visits[i] } else { boundary[(i, j)] });
        let mut right = vec![0.0; n];
        right[0] = 1.0;
        let empty = solve_row(&with_sum, &right);
        let once = row_times(&empty, &solved.r);
        let once = Mat::from_fn(1, n, |_, j| once[j]);
        let busy: Vec<f64> = left.solve_left(&once).entries().collect();
        let number = dot(&busy, &visits);
        let idle: f64 = empty.iter().sum();
        let off = (idle - (1.0 - load)).abs();
        // All arrivals are served, so the load determines how often the server is busy.
        if off.is_nan() || off > 1e-8 {
            return Err(Refused::NotConverged { what: "the fraction of idle time", residual: off });
        }
        Ok(Queue {
            arrivals: arrivals.clone(),
            service: service.clone(),
            solved,
            empty,
            busy,
            number,
            rate,
            load,
        })
    }

    /// Offered load: arriving work over the server's capacity.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// Mean number in the system, including the packet in service.
    pub fn mean_number(&self) -> f64 {
        self.number
    }

    /// Mean wait of an arrival, by Little's law.
    pub fn mean_wait(&self) -> f64 {
        (self.number - self.load) / self.rate
    }

    /// Probability that an arrival finds the system empty.
    pub fn no_wait(&self) -> f64 {
        let heard = kron(&self.arrivals.heard, &Mat::identity(self.service.order()));
        dot(&self.empty, &row_sums(&heard)) / self.rate
    }

    /// The matrix `D1 1 (x) I`, divided by the arrival rate. It maps the queue's phases before an
    /// arrival to the phase of the service at the arrival.
    fn found(&self) -> Mat {
        let heard = row_sums(&self.arrivals.heard);
        let m = self.service.order();
        Mat::from_fn(
            heard.len() * m,
            m,
            |i, j| if i % m == j { heard[i / m] / self.rate } else { 0.0 },
        )
    }

    /// Probabilities of a wait above each of these times.
    ///
    /// The service is uniformized with its fastest rate. After each event of this process, the
    /// number of packets in front of the arrival follows from `R` alone, for all levels at once.
    /// All terms are non-negative.
    pub fn waits_longer(&self, times: &[f64]) -> Vec<f64> {
        let m = self.service.order();
        let fastest = (0..m).map(|i| -self.service.silent[(i, i)]).fold(0.0, f64::max);
        let weights: Vec<Vec<f64>> = times.iter().map(|y| poisson(fastest * y.max(0.0))).collect();
        let looks = weights.iter().map(Vec::len).max().unwrap_or(0);
        let stay = Mat::from_fn(m, m, |i, j| {
            f64::from(u8::from(i == j)) + self.service.silent[(i, j)] / fastest
        });
        let leave = Mat::from_fn(m, m, |i, j| self.service.heard[(i, j)] / fastest);
        let mut found = self.found();
        let mut sums = vec![0.0; times.len()];
        for look in 0..looks {
            let longer = dot(&self.busy, &row_sums(&found));
            for (sum, weights) in sums.iter_mut().zip(&weights) {
                *sum += weights.get(look).unwrap_or(&0.0) * longer;
            }
            found = &(&found * &stay) + &(&self.solved.r * &(&found * &leave));
        }
        sums
    }

    /// The wait as a phase-type distribution: the chain of [`waits_longer`](Queue::waits_longer),
    /// reversed in time. Its number of phases is at most the number of phases of the arrivals
    /// times the square of the number of phases of the service.
    pub fn wait(&self) -> PhaseType {
        let (n, m) = (self.busy.len(), self.service.order());
        let found = self.found();
        // Phases in which the queue is never busy are never reached.
        let seen: Vec<(usize, usize)> = (0..n)
            .filter(|&i| self.busy[i] > 0.0)
            .flat_map(|i| (0..m).map(move |j| (i, j)))
            .collect();
        let start = seen.iter().map(|&(i, j)| self.busy[i] * found[(i, j)]).collect();
        let within = Mat::from_fn(seen.len(), seen.len(), |a, b| {
            let ((here, phase), (next, next_phase)) = (seen[a], seen[b]);
            // d/dt found = found S0 + R found S1, transposed, and weighted by the time each phase
            // is busy.
            let silent = if here == next { self.service.silent[(phase, next_phase)] } else { 0.0 };
            let left = self.solved.r[(next, here)] * self.service.heard[(phase, next_phase)];
            (silent + left) * self.busy[next] / self.busy[here]
        });
        PhaseType { start, within }
    }
}

/// The queue as a quasi-birth-death process: the level is the number in the system.
pub(crate) fn blocks(arrivals: &Arrivals, service: &Arrivals) -> Qbd {
    let (a, s) = (Mat::identity(arrivals.order()), Mat::identity(service.order()));
    Qbd::new(
        kron(&arrivals.heard, &s),
        &kron(&arrivals.silent, &s) + &kron(&a, &service.silent),
        kron(&a, &service.heard),
    )
}

/// The queue as a quasi-birth-death process, to be solved by either method.
pub fn process(arrivals: &Arrivals, service: &PhaseType) -> Qbd {
    blocks(arrivals, &Arrivals::renewal(service))
}
