//! The process that takes batches from the ring and measures their packets.

use super::{CrossingCost, cost};
use crate::bench::median;
use anyhow::{Context, Result};
use falaj_batch::endpoint::Endpoint;
use falaj_engine::batch;
use falaj_engine::chance::Chance;
use falaj_live::clock::{monotonic, thread_cpu};
use falaj_live::priority::{self, Rank};
use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;
use falaj_traffic::meter::Meter;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Offset of the timestamp in a packet, in bytes: after both addresses and the type.
pub(super) const STAMP: usize = 14;

/// The other process of a measurement: for falaj's own use.
#[derive(clap::Args)]
pub struct Args {
    /// Cost to the reader: a time per batch and a time per packet.
    #[arg(long, value_parser = cost, default_value = "0s,0s")]
    cost: CrossingCost,
    /// Draw the cost from an exponential distribution with that mean; seed of its random numbers.
    #[arg(long, value_name = "SEED")]
    exponential: Option<u64>,
    /// Packets carry the timestamp of their transmission.
    #[arg(long)]
    stamped: bool,
    /// Time after the first batch that is not counted.
    #[arg(long, value_parser = parse_span, default_value = "0s")]
    skip: Span,
    /// Quantile of the delay to report besides the mean, from 0 to 1.
    #[arg(long, default_value_t = 0.99)]
    part: f64,
    /// Processor on which the process runs.
    #[arg(long)]
    processor: Option<usize>,
}

/// Length of a [`TimePiece`].
pub(super) const PIECE: Span = Span::from_millis(20);

/// Packets sent in one piece of time, of length [`PIECE`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct TimePiece {
    pub(super) packets: u64,
    /// The sum of their delays in nanoseconds.
    pub(super) delay: u64,
}

/// The measurements of the receiving process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ConsumerReport {
    pub(super) packets: u64,
    pub(super) batches: u64,
    /// Number of invalid batches, and of invalid packets in other batches.
    pub(super) malformed: u64,
    /// Time from the end of the first batch, or of the skipped time, to the end of the last batch,
    /// in nanoseconds.
    pub(super) nanos: u64,
    /// CPU time during the same time, in nanoseconds.
    pub(super) cpu: u64,
    /// Wake-ups sent to the writer.
    pub(super) rung: u64,
    /// The sum of the packets' timestamps, or of their numbers without timestamps: to compute it,
    /// the process reads every packet.
    pub(super) sum: u64,
    /// Delays in nanoseconds: the mean, and the required quantile.
    pub(super) delay: Option<(f64, u64)>,
    /// With timestamps: all pieces of time, in order of sending.
    pub(super) pieces: Vec<TimePiece>,
    /// Packets and delays of each stream; the last byte of the destination is the stream's number.
    pub(super) streams: Vec<TimePiece>,
}

/// Adds packets and their delays to the piece of this number, which is created if necessary.
pub(super) fn add(all: &mut Vec<TimePiece>, number: usize, packets: u64, delay: u64) {
    if number >= all.len() {
        all.resize(number + 1, TimePiece::default());
    }
    all[number].packets += packets;
    all[number].delay += delay;
}

/// The median of the pieces' mean delays, in nanoseconds; `None` without packets.
pub(super) fn middle<'a>(pieces: impl IntoIterator<Item = &'a TimePiece>) -> Option<f64> {
    let with_packets = pieces.into_iter().filter(|piece| piece.packets > 0);
    let means: Vec<f64> =
        with_packets.map(|piece| piece.delay as f64 / piece.packets as f64).collect();
    (!means.is_empty()).then(|| median(means))
}

/// A reader with the declared cost per batch; the actual work on a batch is a part of this cost.
struct SlowReader<'a> {
    args: &'a Args,
    /// Time at which the last batch was finished; `None` if the ring has been empty since.
    done: Option<u64>,
    served: u64,
}

impl SlowReader<'_> {
    /// The time at which the service of a batch begins; 0 if there is no declared cost.
    fn begin(&self) -> u64 {
        if self.args.cost == CrossingCost::default() {
            0
        } else {
            self.done.unwrap_or_else(monotonic)
        }
    }

    /// Waits until the service of the batch is over.
    fn end(&mut self, began: u64, packets: u32) {
        if self.args.cost == CrossingCost::default() {
            return;
        }
        let mut cost = self.args.cost.of(packets).0;
        if let Some(seed) = self.args.exponential {
            let chance = Chance::new(seed, 0, 0).draw(self.served);
            cost = (cost as f64 * -((chance as f64 + 1.0) / (u64::MAX as f64 + 2.0)).ln()) as u64;
        }
        self.served += 1;
        let ends = began + cost;
        while monotonic() < ends {
            std::hint::spin_loop();
        }
        self.done = Some(ends);
    }
}

/// Runs `falaj aggregate consumer`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let line = io::stdin().as_fd().try_clone_to_owned()?;
    let (mut endpoint, _) =
        Endpoint::accept(line).context("this command is for falaj's own use")?;
    args.processor.into_iter().for_each(priority::stay_on);
    priority::be_punctual(Rank::Receiver);
    println!("{}", serde_json::to_string(&consume(&mut endpoint, args)?)?);
    Ok(ExitCode::SUCCESS)
}

fn consume(endpoint: &mut Endpoint, args: &Args) -> Result<ConsumerReport> {
    let (mut report, mut delays, mut bytes) = (ConsumerReport::default(), Meter::new(), Vec::new());
    // The measurement begins at the end of the first batch.
    while !endpoint.receive(&mut bytes)? && !endpoint.is_gone() {
        if endpoint.rest()? {
            endpoint.wait(None)?;
        }
    }
    let first = monotonic();
    let (mut began, mut cpu, mut skips) = (first, thread_cpu(), args.skip != Span::ZERO);
    let mut ended = began;
    let mut server = SlowReader { args, done: None, served: 0 };
    loop {
        let mut took = false;
        while endpoint.receive(&mut bytes)? {
            // Checked for each batch, since a busy reader never leaves the inner loop.
            if skips && monotonic() >= first + args.skip.0 {
                skips = false;
                (began, cpu, delays) = (monotonic(), thread_cpu(), Meter::new());
                report = ConsumerReport {
                    pieces: report.pieces,
                    malformed: report.malformed,
                    ..ConsumerReport::default()
                };
            }
            take(&bytes, &mut server, first, &mut report, &mut delays);
            took = true;
        }
        server.done = None;
        if took {
            ended = monotonic();
            report.cpu = thread_cpu() - cpu;
        } else if endpoint.is_gone() {
            break;
        }
        if endpoint.rest()? {
            endpoint.wait(None)?;
        }
    }
    report.nanos = ended - began;
    report.rung = endpoint.rung();
    report.delay = delays.mean_nanos().zip(delays.quantile(args.part)).map(|(mean, q)| (mean, q.0));
    Ok(report)
}

/// Reads the packets of a batch, waits until its declared cost is over, and records the delays.
fn take(
    bytes: &[u8],
    server: &mut SlowReader<'_>,
    first: u64,
    report: &mut ConsumerReport,
    delays: &mut Meter,
) {
    let began = server.begin();
    report.batches += 1;
    let Ok(packets) = batch::unpack(bytes) else {
        report.malformed += 1;
        return;
    };
    let mut count = 0;
    for packet in packets.clone() {
        match packet {
            Ok(packet) => {
                count += 1;
                report.sum = report.sum.wrapping_add(stamp(&packet).unwrap_or(0));
            }
            Err(_) => report.malformed += 1,
        }
    }
    report.packets += u64::from(count);
    server.end(began, count);
    if server.args.stamped {
        let now = monotonic();
        for packet in packets.flatten() {
            if let Some(stamp) = stamp(&packet) {
                let delay = now.saturating_sub(stamp);
                delays.record(Span(delay));
                let piece = (stamp.saturating_sub(first) / PIECE.0) as usize;
                add(&mut report.pieces, piece, 1, delay);
                add(&mut report.streams, usize::from(packet.to[batch::ADDRESS - 1]), 1, delay);
            }
        }
    }
}

/// The timestamp of a packet whose destination address has been removed.
fn stamp(packet: &batch::BatchedPacket<'_>) -> Option<u64> {
    let (_, behind) = packet.rest.split_at_checked(STAMP - batch::ADDRESS)?;
    behind.first_chunk().map(|stamp| u64::from_le_bytes(*stamp))
}
