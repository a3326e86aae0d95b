//! Filling a batch: a packet opens the batch, which departs when it is full or its timeout expires.

use crate::refused::{Refused, positive};

/// The rule by which a batch departs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Packets in a full batch.
    pub size: usize,
    /// Time from the first packet to the latest departure of the batch; `None`: no timeout.
    pub timeout: Option<f64>,
}

/// The measure of delay that is kept below the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// The mean over packets.
    Mean,
    /// This quantile of the packets' delays.
    Percentile(f64),
}

/// Sizes and waits of batches that Poisson packets fill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// Mean number of packets in a batch.
    pub size: f64,
    /// Mean time, over packets, until their batch departs.
    pub wait: f64,
    /// Fraction of the batches that depart full.
    pub full: f64,
}

impl Policy {
    /// A policy with a size of one or more and a timeout above zero.
    pub fn new(size: usize, timeout: Option<f64>) -> Result<Policy, Refused> {
        if size == 0 {
            return Err(Refused::Value {
                what: "the number of packets in a batch",
                value: 0.0,
                allowed: "1 or more",
            });
        }
        if let Some(timeout) = timeout {
            positive("the timeout of a batch", timeout)?;
        }
        Ok(Policy { size, timeout })
    }

    /// Mean size, mean wait and fraction of full batches with Poisson packets of this rate.
    ///
    /// A batch has more than `j` packets if the `j` packets after the first arrive within the
    /// timeout, which has the probability `P(j)`. So the batch has `1 + P(1) + … + P(k-1)` packets
    /// on average, which wait `(1 P(1) + … + (k-1) P(k-1)) / rate` in all.
    pub fn fill(&self, rate: f64) -> Result<Fill, Refused> {
        let rate = positive("the rate of packets", rate)?;
        let k = self.size as f64;
        let Some(timeout) = self.timeout else {
            return Ok(Fill { size: k, wait: (k - 1.0) / (2.0 * rate), full: 1.0 });
        };
        let steps = (self.size - 1) as f64;
        let mean = rate * timeout;
        // The timeout is so long that batches always fill before it.
        if mean - spread(mean) > steps {
            return Ok(Fill { size: k, wait: steps / (2.0 * rate), full: 1.0 });
        }
        Ok(Filling::new(rate, timeout)?.at(self.size))
    }
}

/// Distance from the mean that a Poisson number exceeds with a probability below 1e-18.
fn spread(mean: f64) -> f64 {
    10.0 * mean.sqrt() + 40.0
}

/// [`Policy::fill`] for batches of any size, with one rate and one timeout.
#[derive(Clone, Debug)]
pub struct Filling {
    rate: f64,
    /// Number of further packets that always arrive within the timeout.
    always: usize,
    /// `P(always + 1)` and so on.
    within: Vec<f64>,
    /// Entry `i` is the sum of `P(j)` (sizes) or of `j P(j)` (waits) over `j` from `1` to
    /// `always + i`.
    sizes: Vec<f64>,
    waits: Vec<f64>,
}

impl Filling {
    /// Computes the values for Poisson packets of this rate and this timeout.
    pub fn new(rate: f64, timeout: f64) -> Result<Filling, Refused> {
        let rate = positive("the rate of packets", rate)?;
        let mean = rate * positive("the timeout of a batch", timeout)?;
        let always = (mean - spread(mean)).max(0.0) as usize;
        let last = (mean + spread(mean)) as usize;
        // Poisson probabilities relative to that of the most likely number, computed from there to
        // both sides.
        let likeliest = mean as usize;
        let mut weights = vec![1.0; last - always + 1];
        for m in likeliest + 1..=last {
            weights[m - always] = weights[m - always - 1] * mean / m as f64;
        }
        for m in (always..likeliest).rev() {
            weights[m - always] = weights[m - always + 1] * (m + 1) as f64 / mean;
        }
        let sum: f64 = weights.iter().sum();
        // Summed from the largest number down, so that small tails keep their digits.
        let mut tail = 0.0;
        for weight in weights.iter_mut().rev() {
            tail += *weight / sum;
            *weight = tail;
        }
        let within = weights.split_off(1);
        let known = always as f64;
        let (mut sizes, mut waits) = (vec![known], vec![known * (known + 1.0) / 2.0]);
        for (i, p) in within.iter().enumerate() {
            sizes.push(sizes[i] + p);
            waits.push(waits[i] + (always + i + 1) as f64 * p);
        }
        Ok(Filling { rate, always, within, sizes, waits })
    }

    /// Mean size, wait and fraction of full batches of at most `size` packets.
    pub fn at(&self, size: usize) -> Fill {
        let last = size.saturating_sub(1);
        let (more, waits, full) = match last.checked_sub(self.always) {
            None => (last as f64, last as f64 * (last + 1) as f64 / 2.0, 1.0),
            Some(0) => (self.sizes[0], self.waits[0], 1.0),
            Some(i) => {
                let known = i.min(self.within.len());
                (
                    self.sizes[known],
                    self.waits[known],
                    self.within.get(i - 1).copied().unwrap_or(0.0),
                )
            }
        };
        Fill { size: 1.0 + more, wait: waits / self.rate / (1.0 + more), full }
    }
}
