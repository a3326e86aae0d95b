//! Worked examples in written form: instants in byte times of 8 ns; flows by letters, departures as
//! `A1@2` (flow, number, end).

use super::{Arrival, emits, run};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Time;

/// Arrivals in order of time, as (instant, flow, bytes).
pub fn arrivals(all: &[(u64, char, u32)]) -> Vec<Arrival> {
    let flow = |name: char| FlowId(name as u32 - 'A' as u32);
    let arrival =
        |&(at, f, bytes): &(u64, char, u32)| Arrival { at: Time(at * 8), flow: flow(f), bytes };
    let mut all: Vec<Arrival> = all.iter().map(arrival).collect();
    all.sort_by_key(|a| (a.at, a.flow));
    all
}

/// Formats departures of (flow, end).
pub fn written(departures: impl IntoIterator<Item = (usize, Time)>) -> String {
    let mut number = [0; 26];
    let name = |(f, end): (usize, Time)| {
        number[f] += 1;
        format!("{}{}@{}", (b'A' + f as u8) as char, number[f], end.0 / 8)
    };
    departures.into_iter().map(name).collect::<Vec<_>>().join(" ")
}

/// The departures of a pipe for these arrivals.
pub fn order(spec: &PipeSpec, all: &[(u64, char, u32)]) -> String {
    written(emits(&run(spec, &arrivals(all), |_, _, _| {})).iter().map(|e| (e.flow.index(), e.end)))
}

/// The longest time in microseconds from a packet's arrival to its last bit, for the first flow on
/// a link of 10 Mbit/s. The first flow is a victim with 97.31 packets of 242 B per second, the
/// second flow has 1999.3 packets of 1042 B per second. For comparison: in Linux 6.12 in simulated
/// time, where a packet on a serializing link is done at its first bit, the longest waits were
/// those for whole frames.
pub fn longest_wait_of_a_victim(spec: &PipeSpec) -> f64 {
    let every = |hundredths: u64, flow, bytes| {
        let at = move |n: u64| Time(n * 100_000_000_000 / hundredths);
        (0..)
            .map(move |n| Arrival { at: at(n), flow: FlowId(flow), bytes })
            .take_while(|a| a.at < Time(20_000_000_000))
    };
    let mut arrivals: Vec<_> = every(9_731, 0, 242).chain(every(199_930, 1, 1042)).collect();
    arrivals.sort_by_key(|a| (a.at, a.flow));
    let sent = emits(&run(spec, &arrivals, |_, _, _| {}));
    let longest = sent.iter().filter(|e| e.flow.0 == 0).map(|e| e.end - e.arrival).max();
    longest.expect("it was sent").as_micros_f64()
}
