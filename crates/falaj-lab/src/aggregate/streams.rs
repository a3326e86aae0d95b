//! Streams of packets through one ring to a reader that takes as long as a model's server: what is
//! computed, measured.

use super::CrossingCost;
use super::producer::{Crossing, OfferedLoad, apart, run};
use anyhow::{Context, Result};
use falaj_control::batching::LONGEST;
use falaj_engine::batch::BatchPolicy;
use falaj_live::priority::{self, Rank};
use falaj_sched::units::time::Span;
use std::time::Duration;

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
    pub(crate) cost: CrossingCost,
}

/// What came of it.
pub(crate) struct MeasuredStreams {
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
/// The model's containers have no timeout; these are filled long before.
const TIMEOUT: Span = Span::from_secs(60);
/// Containers of the slowest stream that are filled at the least while it is measured.
const FILLED: f64 = 20.0;

impl Streams {
    /// Measures for so long, or longer if streams are slow, by this seed.
    pub(crate) fn measure(&self, long: Span, seed: u64) -> Result<MeasuredStreams> {
        // In a thread, of which nothing stays: it is in a class and at a place of its own.
        let measured = std::thread::scope(|scope| scope.spawn(|| self.measured(long, seed)).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Whoever else is there gets something too, before the kernel makes sure of it.
        std::thread::sleep(Duration::from_nanos(long.0 / 4));
        measured
    }

    fn measured(&self, long: Span, seed: u64) -> Result<MeasuredStreams> {
        priority::be_punctual(Rank::Sender);
        let policy = BatchPolicy {
            packets: self.packets,
            bytes: LONGEST,
            timeout: TIMEOUT,
            when_idle: false,
        };
        let slowest = self.rate * self.parts.iter().copied().fold(f64::INFINITY, f64::min);
        let filled = Span((f64::from(self.packets) / slowest * FILLED * 1e9) as u64);
        let load = OfferedLoad {
            rate: Some(self.rate),
            streams: self.parts,
            step: None,
            size: SIZE,
            long: long.max(filled) + SKIP,
            skip: SKIP,
            part: 0.99,
            cost: self.cost,
            exponential: true,
            ring: RING,
            seed,
            apart: apart(),
        };
        let outcome = run(Crossing { policy, always_ring: false, tuned: None }, &load)?;
        let rate: f64 = self.rate * self.parts.iter().sum::<f64>();
        let given = outcome.packets as f64 / (rate * outcome.nanos as f64 * 1e-9);
        let delay = |number: usize| {
            let stream = outcome.report.streams.get(number).filter(|stream| stream.packets > 0);
            let stream =
                stream.context("nothing came of a stream: this machine is too busy for it")?;
            Ok(stream.delay as f64 / stream.packets as f64 * 1e-9)
        };
        Ok(MeasuredStreams {
            delays: (0..self.parts.len()).map(delay).collect::<Result<_>>()?,
            given,
        })
    }
}
