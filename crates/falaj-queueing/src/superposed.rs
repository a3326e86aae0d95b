//! Batches of several streams before one server: a superposition of Erlang renewal processes,
//! which is not a renewal process itself.
//!
//! Packets of a stream are Poisson; every `size` packets form a batch. The interval between batches
//! has one exponential step per packet. So the numbers of packets in the streams' open batches form
//! a Markov chain, and the queue is a MAP/M/1. Equal streams are not distinguished; still, four
//! streams and batches of 160 packets have more states than any matrix can hold.
//!
//! So the same stream of batches is solved for small sizes, and the mean is extrapolated to the
//! true size as a function of one over the size. This function is not a power series: sources of
//! nearly equal rates drift past one another slowly, which adds half powers. The mean is
//! extrapolated with and without half powers, and with one size fewer; the differences give the
//! error.

use crate::arrivals::Arrivals;
use crate::line::Stream;
use crate::linear::Mat;
use crate::phase::PhaseType;
use crate::printed::{self, Printed};
use crate::queue::Queue;
use crate::refused::{Refused, positive, stable};

/// Batches of one size from several streams, served in sequence with exponential times.
#[derive(Clone, Debug, PartialEq)]
pub struct Superposed {
    streams: Vec<Stream>,
    size: usize,
    service: f64,
}

/// A mean wait and an estimate of its error.
#[derive(Clone, Debug, PartialEq)]
pub struct Mean {
    /// The mean wait.
    pub wait: f64,
    /// Estimate of the largest distance from the true mean.
    pub error: f64,
    /// The sizes that were solved directly, and their mean waits; a single entry if the size itself
    /// is small enough.
    pub from: Vec<(usize, f64)>,
}

/// Sizes that are solved directly, if their matrices are small enough.
const SIZES: [usize; 13] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32];

/// Limit on the time of a solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Matrices up to 260: some tens of milliseconds.
    Quick,
    /// Matrices up to 800: some tenths of a second.
    Full,
}

impl Effort {
    fn largest(self) -> f64 {
        match self {
            Effort::Quick => 260.0,
            Effort::Full => 800.0,
        }
    }
}

impl Superposed {
    /// Builds batches of `size` packets, or of the stream's own size, each served in `service` on
    /// average. Unstable loads are refused.
    pub fn new(streams: &[Stream], size: usize, service: f64) -> Result<Superposed, Refused> {
        if size == 0 || streams.iter().any(|stream| stream.size == Some(0)) {
            return Err(Refused::Value {
                what: "the number of packets in a batch",
                value: 0.0,
                allowed: "1 or more",
            });
        }
        positive("the mean service of a batch", service)?;
        for stream in streams {
            positive("the rate of a stream", stream.rate)?;
        }
        let streams: Vec<Stream> = streams.iter().copied().filter(|s| s.count > 0).collect();
        if streams.is_empty() {
            return Err(Refused::Value {
                what: "the number of streams",
                value: 0.0,
                allowed: "1 or more",
            });
        }
        let superposed = Superposed { streams, size, service };
        stable(superposed.load())?;
        Ok(superposed)
    }

    /// The streams.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Packets in a batch of a stream without its own size.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The mean service of a batch.
    pub fn service(&self) -> f64 {
        self.service
    }

    /// Batches per unit of time.
    pub fn rate(&self) -> f64 {
        let batches = |s: &Stream| s.count as f64 * s.rate / self.packets(s) as f64;
        self.streams.iter().map(batches).sum()
    }

    /// Packets in a batch of this stream.
    pub(crate) fn packets(&self, stream: &Stream) -> usize {
        stream.size.unwrap_or(self.size)
    }

    /// Offered load: arriving work over the server's capacity.
    pub fn load(&self) -> f64 {
        self.rate() * self.service
    }

    /// Asymptotic rate at which the tail of the wait falls: `P[W > y]` is like `exp(-decay y)`.
    /// Exact for any size and any number of streams: with `x` the factor between levels, `sum of
    /// rate (x^(-1/size) - 1) = mu (1 - x)`.
    pub fn decay(&self) -> f64 {
        let mu = 1.0 / self.service;
        // In terms of u = -ln x, the function is below zero close to zero, since the load is below
        // one, and above zero far out.
        let excess = |u: f64| {
            let come = |s: &Stream| s.count as f64 * s.rate * (u / self.packets(s) as f64).exp_m1();
            self.streams.iter().map(come).sum::<f64>() + mu * (-u).exp_m1()
        };
        let mut high = 1.0;
        while excess(high) <= 0.0 {
            high *= 2.0;
        }
        let mut low = high / 2.0;
        while excess(low) > 0.0 {
            low /= 2.0;
        }
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if excess(middle) > 0.0 { high = middle } else { low = middle }
        }
        -mu * (-0.5 * (low + high)).exp_m1()
    }

    /// The model as printed: the superposition is treated as a renewal process.
    pub fn as_printed(&self) -> Result<Printed, Refused> {
        printed::solve(self)
    }

    /// Number of phases that batches of `size` packets need.
    fn order(&self, size: usize) -> f64 {
        let phases = |s: &Stream| Arrivals::erlangs_order(s.count, s.size.unwrap_or(size));
        self.streams.iter().map(phases).product()
    }

    /// The same stream of batches, but with `size` packets each: fewer and longer steps, at equal
    /// rate and load. Streams with their own size keep it.
    pub fn arrivals(&self, size: usize) -> Result<Arrivals, Refused> {
        let scale = size as f64 / self.size as f64;
        let mut groups = self.streams.iter().map(|s| match s.size {
            Some(own) => Arrivals::erlangs(s.count, own, s.rate),
            None => Arrivals::erlangs(s.count, size, s.rate * scale),
        });
        let first = groups.next().expect("there is a stream")?;
        groups.try_fold(first, |all, group| Ok(all.with(&group?)))
    }

    /// The queue with batches of `size` packets, at equal rate and load.
    pub fn queue(&self, size: usize) -> Result<Queue, Refused> {
        Queue::new(&self.arrivals(size)?, &PhaseType::exponential(1.0 / self.service)?)
    }

    /// The mean wait: solved directly if the size allows, otherwise extrapolated from smaller
    /// sizes.
    pub fn exact(&self, effort: Effort) -> Result<Mean, Refused> {
        if self.order(self.size) <= effort.largest() {
            let wait = self.queue(self.size)?.mean_wait();
            return Ok(Mean { wait, error: 1e-8 * wait, from: vec![(self.size, wait)] });
        }
        let fitting =
            SIZES.into_iter().filter(|&k| k < self.size && self.order(k) <= effort.largest());
        let mut sizes: Vec<usize> = fitting.collect();
        // The largest sizes contribute most; more than six terms amplify rounding.
        sizes.drain(..sizes.len().saturating_sub(6));
        // Streams of unlike sizes are not extrapolated: no test shows how accurate that would be.
        if sizes.len() < 3 || self.streams.iter().any(|s| s.size.is_some()) {
            let count: usize = self.streams.iter().map(|s| s.count).sum();
            let why = format!(
                "{count} streams have too many phases for matrices up to {}",
                effort.largest()
            );
            return Err(Refused::Shape { what: "superposition that can be solved exactly", why });
        }
        let mut from = Vec::with_capacity(sizes.len());
        for size in sizes {
            from.push((size, self.queue(size)?.mean_wait()));
        }
        Ok(continued(from, self.size))
    }
}

/// Extrapolates values at some sizes to another size.
fn continued(from: Vec<(usize, f64)>, size: usize) -> Mean {
    let at = |from: &[(usize, f64)], powers: &dyn Fn(usize) -> f64| interpolate(from, size, powers);
    let whole = |n: usize| n as f64;
    let halves = |n: usize| if n < 2 { n as f64 } else { 0.5 * (n + 1) as f64 };
    let fewer = &from[1..];
    let (series, half) = (at(&from, &whole), at(&from, &halves));
    // Both differences fall as sizes grow, a little more slowly than the error. In tests the error
    // was never above twice their sum.
    let error = 2.0 * ((series - half).abs() + (half - at(fewer, &halves)).abs());
    Mean { wait: half, error, from }
}

/// The interpolating curve: a sum of powers of one over the size.
fn interpolate(from: &[(usize, f64)], size: usize, powers: &dyn Fn(usize) -> f64) -> f64 {
    let n = from.len();
    let term = |size: usize, j: usize| (size as f64).powf(-powers(j));
    let m = Mat::from_fn(n, n, |i, j| term(from[i].0, j));
    let values: Vec<f64> = from.iter().map(|&(_, value)| value).collect();
    let factors = crate::matrix::solve_column(&m, &values);
    factors.iter().enumerate().map(|(j, factor)| factor * term(size, j)).sum()
}
