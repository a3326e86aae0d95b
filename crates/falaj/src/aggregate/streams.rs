//! Streams of packets through one ring to a reader that takes as long as a model's server: what is computed, measured.

use super::producer::{Load, Way, apart, run};
use super::{Cost, LONGEST};
use anyhow::{Context, Result};
use falaj_engine::container::Policy;
use falaj_live::priority::{self, Rank};
use falaj_sched::time::Span;

/// What the model is of. Services are exponential, and containers leave full alone.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    /// Packets a second of a stream, times its part.
    pub(crate) rate: f64,
    /// Streams, and how many times that rate they have.
    pub(crate) parts: &'static [f64],
    /// Packets of a container.
    pub(crate) packets: u32,
    /// What it costs in the mean.
    pub(crate) cost: Cost,
}

/// What came of it.
pub(crate) struct Measured {
    /// Mean delays of the streams, in seconds.
    pub(crate) delays: Vec<f64>,
    /// Packets that were given away, over those that were to be.
    pub(crate) given: f64,
}

/// Packets of 64 B.
const SIZE: usize = 64;
/// Nobody waits for room in it while a queue is stable.
const RING: usize = 1 << 22;
/// What is not counted in the beginning: queues are empty then.
const SKIP: Span = Span::from_millis(100);

impl Streams {
    /// Measures for so long, by this seed.
    pub(crate) fn measure(&self, long: Span, seed: u64) -> Result<Measured> {
        // In a thread, of which nothing stays: it is in a class and at a place of its own.
        std::thread::scope(|scope| scope.spawn(|| self.measured(long, seed)).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn measured(&self, long: Span, seed: u64) -> Result<Measured> {
        priority::be_punctual(Rank::Sender);
        let policy = Policy { packets: self.packets, bytes: LONGEST, timeout: Span::MAX, when_idle: false };
        let load = Load {
            rate: Some(self.rate),
            streams: self.parts,
            step: None,
            size: SIZE,
            long: long + SKIP,
            skip: SKIP,
            part: 0.99,
            cost: self.cost,
            exponential: true,
            ring: RING,
            seed,
            apart: apart(),
        };
        let outcome = run(Way { policy, always_ring: false, tuned: None }, &load)?;
        let rate: f64 = self.rate * self.parts.iter().sum::<f64>();
        let given = outcome.packets as f64 / (rate * outcome.nanos as f64 * 1e-9);
        let delay = |number: usize| {
            let stream = outcome.report.streams.get(number).filter(|stream| stream.packets > 0);
            let stream = stream.context("nothing came of a stream: measure for longer")?;
            Ok(stream.delay as f64 / stream.packets as f64 * 1e-9)
        };
        Ok(Measured { delays: (0..self.parts.len()).map(delay).collect::<Result<_>>()?, given })
    }
}
