//! Replaying what entered a live link: the same engine, the same instants, the
//! same decisions.

use falaj_engine::each::Ids;
use falaj_engine::engine::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::params::Refusals;
use falaj_sched::queue::FlowId;
use falaj_sched::time::Time;
use falaj_traffic::capture::{Taken, Verdict};
use falaj_traffic::meter::Meter;

/// A packet that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where it enters.
    pub pipe: PipeId,
    /// Its flow.
    pub flow: FlowId,
    /// What it is to the pipe's masks.
    pub ids: Ids,
    /// Length as the link accounts it; at least 1.
    pub bytes: u32,
    /// When; instants never go back.
    pub at: Time,
}

impl Arrival {
    /// What a capture says of a packet; `ids` are to be read in its frame.
    pub fn of(taken: &Taken, ids: Ids) -> Arrival {
        let (pipe, flow) = (PipeId(taken.way), FlowId(taken.flow));
        Arrival { pipe, flow, ids, bytes: taken.bytes.max(1), at: taken.arrival }
    }
}

/// What came of a replay.
pub struct Replayed {
    /// What became of each packet, in order of arrival.
    pub verdicts: Vec<Verdict>,
    /// By pipe and flow: what was counted, and the delays of what was sent.
    pub flows: Vec<Vec<(Counters, Meter)>>,
}

/// Feeds these arrivals to an engine of these pipes; what is queued after the
/// last one is sent, unless `until` comes first.
///
/// # Errors
/// A discipline refuses its setup.
///
/// # Panics
/// Instants that go back; a pipe or flow that is not there.
pub fn replay(pipes: &[PipeSpec], arrivals: &[Arrival], until: Option<Time>) -> Result<Replayed, (PipeId, Refusals)> {
    let mut engine = Engine::new(pipes)?;
    let mut verdicts = vec![Verdict::Waiting; arrivals.len()];
    let mut delays: Vec<Vec<Meter>> = pipes.iter().map(|p| vec![Meter::new(); p.setup.leaves().len()]).collect();
    let mut out = Vec::new();
    let mut note = |out: &mut Vec<Output>| {
        for output in out.drain(..) {
            match output {
                Output::Emit(e) => {
                    verdicts[e.handle as usize] = Verdict::Sent { start: e.start, end: e.end, due: e.due };
                    delays[e.pipe.0 as usize][e.flow.index()].record(e.end - e.arrival);
                }
                Output::Drop(d) => verdicts[d.handle as usize] = Verdict::Dropped(d.why),
                // They follow from the same draws, and no capture has them.
                Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) => {}
            }
        }
    };
    for (handle, arrival) in arrivals.iter().enumerate() {
        let unit = Unit { flow: arrival.flow, handle: handle as u32, bytes: arrival.bytes };
        engine.input_of(arrival.pipe, unit, &arrival.ids, arrival.at, &mut out);
        note(&mut out);
    }
    engine.poll(until.unwrap_or(Time(Time::NEVER.0 - 1)), &mut out);
    note(&mut out);
    let with_counters = |(p, flows): (usize, Vec<Meter>)| {
        let of = |(f, delay)| (engine.counters(PipeId(p as u32), FlowId(f as u32)), delay);
        flows.into_iter().enumerate().map(of).collect()
    };
    let flows = delays.into_iter().enumerate().map(with_counters).collect();
    Ok(Replayed { verdicts, flows })
}

/// The first packet on which a replay decided otherwise than the live engine. One that was
/// still queued when the capture ended was not decided on.
pub fn first_difference(taken: &[Taken], verdicts: &[Verdict]) -> Option<usize> {
    taken.iter().zip(verdicts).position(|(taken, verdict)| match taken.verdict {
        Verdict::Waiting => false,
        other => other != *verdict,
    })
}
