//! The simulated side of a cell: the same link, and `model = "tcp"`.

use super::grid::{Cell, FRAME, PARTS, Times};
use super::measured::Measured;
use anyhow::{Result, anyhow};
use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::time_bins::TimeBins;
use falaj_sim::{Experiment, simulate, simulate_watched};
use falaj_terminal::file;
use std::sync::atomic::AtomicBool;

/// Payload of a segment. The kernel has a timestamp of 12 bytes in each header, the model has none.
/// Goodput counts segments with the kernel's payload.
const KERNEL_PAYLOAD: f64 = 1448.0;
const MODEL_PAYLOAD: f64 = FRAME as f64 - 14.0 - 40.0;

/// Simulates a cell.
pub(super) fn simulate_cell(
    cell: &Cell,
    times: Times,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Measured> {
    let scenario = file::parse_quietly(&cell.with_connections(times, seed), "cell")?;
    let of =
        |duration: Span, warm_up: Span| Experiment { warm_up, ..experiment(&scenario, duration) };
    let refused = |(_, errors)| anyhow!("{cell}: {errors:?}");
    let alone = of(times.second, times.counted);
    let run = simulate(&alone, seed, stop).map_err(refused)?;
    let first = &run.pipes[0][0];
    let bytes = run.connections.iter().find(|(source, _)| *source == 0).map_or(0, |(_, t)| t.bytes);
    // The time before the second connection, as a whole number of parts.
    let before = (times.second.0 / times.part().0) as usize;
    let mut bins = TimeBins::new(times.end, before + PARTS as usize);
    simulate_watched(&of(times.end, Span::ZERO), seed, stop, &mut bins).map_err(refused)?;
    let left = [0, 1].map(|flow| {
        let flow = bins.flow(PipeId(0), FlowId(flow));
        flow.map_or(vec![0; PARTS as usize], |flow| flow.left[before..].to_vec())
    });
    let [first_left, second_left] = &left;
    Ok(Measured {
        goodput: (bytes * 8) as f64 / run.counted().as_secs_f64() * KERNEL_PAYLOAD / MODEL_PAYLOAD,
        offered: first.counters.offered,
        gone: first.counters.dropped() + first.counters.lost,
        marked: first.counters.marked,
        parts: first_left.iter().zip(second_left).map(|(&a, &b)| [a, b]).collect(),
        ..Measured::of_delays(&first.delay, None)
    })
}
