//! Worked examples as they are written down: instants in bytes of time, of 8 ns; flows
//! by letters, departures as `A1@2` (flow, number, end).

use super::{Arrival, emits, run};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::queue::FlowId;
use falaj_sched::time::Time;

/// The first example of the notes.
pub const E1: &[(u64, char, u32)] = &[
    (0, 'A', 2),
    (0, 'A', 2),
    (0, 'A', 2),
    (0, 'A', 2),
    (0, 'B', 4),
    (0, 'B', 1),
    (0, 'B', 3),
    (1, 'C', 3),
    (1, 'C', 3),
];

/// Arrivals in order of time, of (when, flow, bytes).
pub fn arrivals(all: &[(u64, char, u32)]) -> Vec<Arrival> {
    let flow = |name: char| FlowId(name as u32 - 'A' as u32);
    let arrival = |&(at, f, bytes): &(u64, char, u32)| Arrival { at: Time(at * 8), flow: flow(f), bytes };
    let mut all: Vec<Arrival> = all.iter().map(arrival).collect();
    all.sort_by_key(|a| (a.at, a.flow));
    all
}

/// Departures of (flow, end).
pub fn written(departures: impl IntoIterator<Item = (usize, Time)>) -> String {
    let mut number = [0; 26];
    let name = |(f, end): (usize, Time)| {
        number[f] += 1;
        format!("{}{}@{}", (b'A' + f as u8) as char, number[f], end.0 / 8)
    };
    departures.into_iter().map(name).collect::<Vec<_>>().join(" ")
}

/// What a pipe makes of these arrivals.
pub fn order(spec: &PipeSpec, all: &[(u64, char, u32)]) -> String {
    written(emits(&run(spec, &arrivals(all), |_, _, _| {})).iter().map(|e| (e.flow.index(), e.end)))
}
