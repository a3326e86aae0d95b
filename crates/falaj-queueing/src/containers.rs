//! Filling a container: it is opened by a packet, and leaves when it is full or its timeout is over.

use crate::refused::{Refused, positive};

/// When a container leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Packets in a full container.
    pub size: usize,
    /// How long after its first packet a container leaves in any case.
    pub timeout: Option<f64>,
}

/// What packets that come at random find.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// Packets in a container, on average.
    pub size: f64,
    /// How long a packet waits for its container to leave, on average over packets.
    pub wait: f64,
    /// How many of the containers leave full.
    pub full: f64,
}

impl Policy {
    /// A policy with a size of one or more and a timeout above zero.
    pub fn new(size: usize, timeout: Option<f64>) -> Result<Policy, Refused> {
        if size == 0 {
            return Err(Refused::Value {
                what: "the number of packets in a container",
                value: 0.0,
                allowed: "1 or more",
            });
        }
        if let Some(timeout) = timeout {
            positive("the timeout of a container", timeout)?;
        }
        Ok(Policy { size, timeout })
    }

    /// What Poisson packets of this rate find.
    ///
    /// A container has more than `j` packets if the `j` after the first come within the timeout: `P(j)`. So there are
    /// `1 + P(1) + … + P(k-1)` in it, and they wait `(1 P(1) + … + (k-1) P(k-1)) / rate` in all.
    pub fn fill(&self, rate: f64) -> Result<Fill, Refused> {
        let rate = positive("the rate of packets", rate)?;
        let k = self.size as f64;
        let Some(timeout) = self.timeout else {
            return Ok(Fill { size: k, wait: (k - 1.0) / (2.0 * rate), full: 1.0 });
        };
        let mean = rate * timeout;
        // Tails of the Poisson distribution, from above, so that small ones keep their digits.
        let probabilities = crate::matrix::poisson(mean);
        let mut more = vec![0.0; probabilities.len() + 1];
        for m in (0..probabilities.len()).rev() {
            more[m] = more[m + 1] + probabilities[m];
        }
        let within = |j: usize| more.get(j).copied().unwrap_or(0.0);
        let last = (self.size - 1).min(probabilities.len());
        let (mut size, mut waits) = (1.0, 0.0);
        for j in 1..=last {
            size += within(j);
            waits += j as f64 * within(j);
        }
        let full = if self.size == 1 { 1.0 } else { within(self.size - 1) };
        Ok(Fill { size, wait: waits / rate / size, full })
    }
}
