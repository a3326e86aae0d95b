//! Measures streams of packets through one ring, to a reader with the service times of a model's
//! server, for comparison with the model's computed results.

use super::CrossingCost;
use super::producer::{Crossing, OfferedLoad, run, separate_processors};
use anyhow::{Context, Result};
use falaj_control::batching::LONGEST;
use falaj_engine::batch::BatchPolicy;
use falaj_live::priority::{self, Rank};
use falaj_sched::units::time::Span;
use std::time::Duration;

/// The parameters of the model. Services are exponential, and batches leave only when full.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    /// Packets per second of a stream whose part is 1.
    pub(crate) rate: f64,
    /// The rates of the streams, as multiples of `rate`.
    pub(crate) parts: &'static [f64],
    /// Packets in a batch.
    pub(crate) packets: u32,
    /// Mean cost of a batch.
    pub(crate) cost: CrossingCost,
}

/// The results of a measurement.
pub(crate) struct MeasuredStreams {
    /// Mean delays of the streams, in seconds.
    pub(crate) delays: Vec<f64>,
    /// Ratio of packets sent to packets that the rates require.
    pub(crate) given: f64,
}

/// Size of packets in bytes.
const SIZE: usize = 64;
/// Size of the ring in bytes; with a stable queue no packet waits for room.
const RING: usize = 1 << 22;
/// Time at the beginning that is not counted, because queues are still empty.
const SKIP: Span = Span::from_millis(100);
/// Timeout of batches. The model has none; here batches are full long before this time.
const TIMEOUT: Span = Span::from_secs(60);
/// Minimum number of full batches that the slowest stream sends in a measurement.
const FILLED: f64 = 20.0;

impl Streams {
    /// Measures for this time, or longer if streams are slow, with this seed.
    pub(crate) fn measure(&self, long: Span, seed: u64) -> Result<MeasuredStreams> {
        // In a separate thread, so that scheduling class and processor affinity end with the
        // thread.
        let measured = std::thread::scope(|scope| scope.spawn(|| self.measured(long, seed)).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Pauses, so that other processes get time before the kernel throttles this one.
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
            reader_processor: separate_processors(),
        };
        let outcome = run(Crossing { policy, always_ring: false, tuned: None }, &load)?;
        let rate: f64 = self.rate * self.parts.iter().sum::<f64>();
        let given = outcome.packets as f64 / (rate * outcome.nanos as f64 * 1e-9);
        let delay = |number: usize| {
            let stream = outcome.report.streams.get(number).filter(|stream| stream.packets > 0);
            let stream =
                stream.context("no packet of a stream arrived: this machine is too busy for it")?;
            Ok(stream.delay as f64 / stream.packets as f64 * 1e-9)
        };
        Ok(MeasuredStreams {
            delays: (0..self.parts.len()).map(delay).collect::<Result<_>>()?,
            given,
        })
    }
}
