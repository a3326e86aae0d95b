//! Disciplines compared with naive models that are examined in every nanosecond. One byte takes 8
//! ns.

use super::{Arrival, Dice, become_kind, bursts, emits, run, virtual_links};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::params::Value;
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::entry;
use falaj_sched::units::rate::Rate;
use std::collections::VecDeque;

/// Keys of rates at which a byte takes whole nanoseconds in these tests.
const RATES: [&str; 2] = ["rate", "idle-slope"];

/// A discipline by its definition, examined in every nanosecond.
pub trait Model {
    fn came(&mut self, f: usize, bytes: u32, first: bool, now: u64);
    /// Called once in each nanosecond, before its decisions. `waits`: by flow, true if it has a
    /// packet, the one on the wire included. `sending`: the flow of the packet on the wire.
    fn passes(&mut self, waits: &[bool], sending: Option<usize>, now: u64);
    fn choose(&self, heads: &[Option<u32>], now: u64) -> Option<usize>;
    fn begin(&mut self, f: usize, bytes: u32, now: u64);
    /// The packet of `f` has left; `head` is the length of its next packet.
    fn left(&mut self, f: usize, head: Option<u32>, now: u64);
}

pub fn beside(spec: &PipeSpec, model: impl Model, dice: &mut Dice, seed: u64) {
    let arrivals = bursts(dice, spec, 6_000);
    with(spec, model, &arrivals, seed);
}

/// The same with these arrivals.
pub fn with(spec: &PipeSpec, mut model: impl Model, arrivals: &[Arrival], seed: u64) {
    let sent: Vec<(usize, u64)> = emits(&run(spec, arrivals, |_, _, _| {}))
        .iter()
        .map(|e| (e.flow.index(), e.start.0))
        .collect();
    let leaves = spec.setup.leaves();
    let mut queues = vec![VecDeque::<u32>::new(); leaves.len()];
    let (mut next, mut now, mut wire, mut ours) = (0, 0, None::<(usize, u64)>, Vec::new());
    while next < arrivals.len() || queues.iter().any(|q| !q.is_empty()) {
        let waits: Vec<bool> = queues.iter().map(|q| !q.is_empty()).collect();
        model.passes(&waits, wire.map(|(f, _)| f), now);
        let decide =
            |model: &mut dyn Model, queues: &[VecDeque<u32>], ours: &mut Vec<(usize, u64)>| {
                let heads: Vec<_> = queues.iter().map(|q| q.front().copied()).collect();
                let f = model.choose(&heads, now)?;
                let bytes = heads[f].expect("it has one");
                model.begin(f, bytes, now);
                ours.push((f, now));
                Some((f, now + u64::from(bytes) * 8))
            };
        if let Some((f, _)) = wire.filter(|&(_, end)| end == now) {
            queues[f].pop_front();
            model.left(f, queues[f].front().copied(), now);
            wire = None;
        }
        if wire.is_none() {
            wire = decide(&mut model, &queues, &mut ours);
        }
        while arrivals.get(next).is_some_and(|a| a.at.0 == now) {
            let (f, bytes) = (arrivals[next].flow.index(), arrivals[next].bytes);
            let fits = match leaves[f].limit {
                Limit::Packets(limit) => queues[f].len() < limit as usize,
                Limit::Bytes(limit) => u64::from(queues[f].iter().sum::<u32>() + bytes) <= limit,
            };
            if fits {
                model.came(f, bytes, queues[f].is_empty(), now);
                queues[f].push_back(bytes);
            }
            next += 1;
            if wire.is_none() {
                wire = decide(&mut model, &queues, &mut ours);
            }
        }
        now += 1;
    }
    assert_eq!(sent, ours, "seed {seed}: {spec:?}");
}

pub fn many(kind: &'static str, mut model: impl FnMut(&PipeSpec, &mut Dice, u64)) {
    for seed in 0..250 {
        let mut dice = Dice::new(seed ^ 0x5a9e);
        let mut spec = virtual_links(&mut dice, "packet-wise", "clean");
        become_kind(&mut dice, &mut spec, entry(kind).expect("registered"));
        for f in &mut spec.setup.flows {
            f.limit = Limit::Packets(dice.from(1, 12) as u32);
            // Rates at which fractions stay small.
            for name in RATES {
                if f.values.rate(name).is_some() {
                    f.values.set(
                        name,
                        Value::Rate(Rate::from_mbit(dice.one_of(&[100, 125, 250, 500, 1000]))),
                    );
                }
            }
        }
        model(&spec, &mut dice, seed);
    }
}
