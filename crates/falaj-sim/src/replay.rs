//! Replaying what entered a live link: the same engine, the same instants, the
//! same decisions.

use falaj_engine::ecn;
use falaj_engine::key::Key;
use falaj_engine::network::{Network, NetworkSpec, Packet, Refused};
use falaj_engine::pipe::Counters;
use falaj_engine::rules;
use falaj_engine::{Output, PipeId, Why};
use falaj_sched::params::Refusals;
use falaj_sched::queue::FlowId;
use falaj_sched::time::Time;
use falaj_traffic::capture::{Taken, Verdict};
use falaj_traffic::meter::Meter;

/// A packet that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its way in: up (0) or down (1); without rules, the pipe.
    pub way: u32,
    /// Its flow, where that is known; else rules and links say it.
    pub flow: Option<FlowId>,
    /// What it is to rules, links and masks.
    pub key: Key,
    /// Length of the IP packet; at least 1.
    pub length: u32,
    /// When; instants never go back.
    pub at: Time,
}

/// What came of a replay.
pub struct Replayed {
    /// What became of each packet, in order of arrival.
    pub verdicts: Vec<Verdict>,
    /// By pipe and flow: what was counted, and the delays of what was sent.
    pub flows: Vec<Vec<(Counters, Meter)>>,
    /// What each rule has taken.
    pub taken: Vec<rules::Taken>,
    /// Packets that no rule took, or no flow of their link.
    pub unmatched: u64,
}

/// Feeds these arrivals to a network; what is queued after the last one is sent, unless `until` comes first.
///
/// # Errors
/// A discipline refuses its setup.
///
/// # Panics
/// Instants that go back; a pipe or flow that is not there.
pub fn replay(spec: &NetworkSpec, arrivals: &[Arrival], until: Option<Time>) -> Result<Replayed, (PipeId, Refusals)> {
    let mut network = Network::new(spec)?;
    let mut verdicts = vec![Verdict::Waiting; arrivals.len()];
    let mut delays: Vec<Vec<Meter>> = network.flows().into_iter().map(|flows| vec![Meter::new(); flows]).collect();
    let mut out = Vec::new();
    let mut unmatched = 0;
    let mut note = |network: &mut Network, out: &mut Vec<Output>, verdicts: &mut Vec<Verdict>| {
        for output in out.drain(..) {
            match output {
                Output::Emit(e) => {
                    verdicts[e.handle as usize] = Verdict::Sent { start: e.start, end: e.end, due: e.due };
                    delays[e.pipe.0 as usize][e.flow.index()].record(e.end - e.arrival);
                }
                Output::Drop(d) => verdicts[d.handle as usize] = Verdict::Dropped(d.why),
                // They follow from the same draws, and no capture has them.
                Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
            }
        }
        for e in network.passed() {
            delays[e.pipe.0 as usize][e.flow.index()].record(e.end - e.arrival);
        }
    };
    for (handle, arrival) in arrivals.iter().enumerate() {
        let Arrival { way, flow, key, length, at } = *arrival;
        let entry = match flow {
            Some(flow) => Ok(network.straight(PipeId(way), flow)),
            None => network.route(&key, way as usize, length, at),
        };
        match entry {
            Ok(entry) => {
                let packet = Packet { handle: handle as u32, length, label: ecn::label(&key) };
                network.enter(entry, &key, packet, at, &mut out);
                note(&mut network, &mut out, &mut verdicts);
            }
            Err(Refused::Dropped) => verdicts[handle] = Verdict::Dropped(Why::Rule),
            Err(Refused::Unmatched) => {
                verdicts[handle] = Verdict::Dropped(Why::Unmatched);
                unmatched += 1;
            }
        }
    }
    network.poll(until.unwrap_or(Time(Time::NEVER.0 - 1)), &mut out);
    note(&mut network, &mut out, &mut verdicts);
    let with_counters = |(p, flows): (usize, Vec<Meter>)| {
        let of = |(f, delay)| (network.counters(PipeId(p as u32), FlowId(f as u32)), delay);
        flows.into_iter().enumerate().map(of).collect()
    };
    let flows = delays.into_iter().enumerate().map(with_counters).collect();
    let unmatched = unmatched + network.unmatched();
    Ok(Replayed { verdicts, flows, taken: network.taken().to_vec(), unmatched })
}

/// The first packet on which a replay decided otherwise than the live engine. One that was
/// still queued when the capture ended was not decided on.
pub fn first_difference(taken: &[Taken], verdicts: &[Verdict]) -> Option<usize> {
    taken.iter().zip(verdicts).position(|(taken, verdict)| match taken.verdict {
        Verdict::Waiting => false,
        other => other != *verdict,
    })
}
