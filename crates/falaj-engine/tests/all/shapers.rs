//! Disciplines that hold packets deliberately, each compared with a naive model that proceeds from
//! nanosecond to nanosecond. One byte takes 8 ns.

use crate::common::fraction::Fraction;
use crate::common::stepwise::{Model, beside, many};
use crate::common::{Dice, become_kind, bursts, emits, run, virtual_links};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::params::{FlowSetup, Value};
use falaj_sched::registry::entry;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::collections::VecDeque;

/// MGFQ with the queues of its paper: when a gate opens, the packets behind it move one queue
/// ahead.
struct Gated {
    period: u64,
    deadlines: Vec<u64>,
    /// The flow of each queued packet, in order of arrival. The first group is the queue that is
    /// sent.
    groups: Vec<VecDeque<usize>>,
    releases: bool,
}

impl Model for Gated {
    fn came(&mut self, f: usize, _: u32, _: bool, now: u64) {
        let (opened, due) = (now / self.period * self.period, now + self.deadlines[f]);
        let behind = (due - opened).div_ceil(self.period).saturating_sub(1) as usize;
        let last = self.groups.len() - 1;
        self.groups[behind.min(last)].push_back(f);
    }
    fn passes(&mut self, _: &[bool], _: Option<usize>, now: u64) {
        if now > 0 && now.is_multiple_of(self.period) {
            let mut second = self.groups.remove(1);
            self.groups[0].append(&mut second);
            self.groups.push(second);
        }
    }
    fn choose(&self, _: &[Option<u32>], _: u64) -> Option<usize> {
        let groups = if self.releases { &self.groups[..] } else { &self.groups[..1] };
        groups.iter().find_map(|group| group.front().copied())
    }
    fn begin(&mut self, f: usize, _: u32, _: u64) {
        let group = self.groups.iter_mut().find(|group| group.contains(&f)).expect("it is in one");
        assert_eq!(group.pop_front(), Some(f), "the first of the lowest");
    }
    fn left(&mut self, _: usize, _: Option<u32>, _: u64) {}
}

#[test]
fn mgfq_is_its_queues_and_gates() {
    many("mgfq", |spec, dice, seed| {
        let mut spec = spec.clone();
        let (period, gates) = (dice.from(1, 1_500), dice.from(1, 6));
        spec.setup.scheduler.set("period", Value::Span(Span(period)));
        spec.setup.scheduler.set("gates", Value::Count(gates));
        let deadlines: Vec<u64> =
            (0..spec.setup.flows.len()).map(|_| dice.from(0, 6_000)).collect();
        for (f, &deadline) in spec.setup.flows.iter_mut().zip(&deadlines) {
            f.values.set("deadline", Value::Span(Span(deadline)));
        }
        let releases = spec.setup.scheduler.choice("idle") == Some("release");
        let groups = vec![VecDeque::new(); gates as usize + 1];
        beside(&spec, Gated { period, deadlines, groups, releases }, dice, seed);
    });
}

/// Bytes that a rate of the spec yields in a nanosecond.
fn rate(spec: &PipeSpec, f: usize, name: &str) -> Option<Fraction> {
    Some(Fraction::new(spec.setup.flows[f].values.rate(name)?.0 / 1_000_000, 8_000u64))
}

/// A flow's token bucket: each nanosecond adds tokens, up to the burst.
struct Tokens {
    each: Fraction,
    burst: Fraction,
    there: Fraction,
    /// Instants at which queued packets became eligible, and sizes of the packets that wait for
    /// tokens.
    eligible: VecDeque<u64>,
    waiting: VecDeque<u32>,
}

/// `shaper` and `ats` are the same in a model that sees all packets: a packet becomes eligible when
/// there are enough tokens for it.
struct Released {
    flows: Vec<Tokens>,
    classes: Vec<u64>,
}

impl Released {
    fn release(&mut self, now: u64) {
        for f in &mut self.flows {
            while f.waiting.front().is_some_and(|&bytes| Fraction::of(bytes) <= f.there) {
                let bytes = f.waiting.pop_front().expect("there is one");
                f.there = f.there.minus(Fraction::of(bytes));
                f.eligible.push_back(now);
            }
        }
    }
}

impl Model for Released {
    fn came(&mut self, f: usize, bytes: u32, _: bool, now: u64) {
        self.flows[f].waiting.push_back(bytes);
        self.release(now);
    }
    fn passes(&mut self, _: &[bool], _: Option<usize>, now: u64) {
        if now > 0 {
            for f in &mut self.flows {
                f.there =
                    if f.there.plus(f.each) > f.burst { f.burst } else { f.there.plus(f.each) };
            }
        }
        self.release(now);
    }
    fn choose(&self, _: &[Option<u32>], _: u64) -> Option<usize> {
        let first =
            |f: usize| self.flows[f].eligible.front().map(|&then| (self.classes[f], then, f));
        (0..self.flows.len()).filter_map(first).min().map(|(_, _, f)| f)
    }
    fn begin(&mut self, _: usize, _: u32, _: u64) {}
    fn left(&mut self, f: usize, _: Option<u32>, _: u64) {
        self.flows[f].eligible.pop_front();
    }
}

#[test]
fn ats_releases_packets_as_their_tokens_come() {
    many("ats", |spec, dice, seed| {
        let mut spec = spec.clone();
        for f in &mut spec.setup.flows {
            // A token takes a whole number of nanoseconds, so that eligibility times are not
            // rounded.
            f.values.set("rate", Value::Rate(Rate::from_mbit(dice.one_of(&[125, 250, 500, 1000]))));
            f.values.set("class", Value::Count(dice.from(0, 2)));
        }
        let flow = |f: usize| {
            let values = &spec.setup.flows[f].values;
            let of_a_millisecond = values.rate("rate").unwrap().0 / 8_000;
            let burst = Fraction::of(values.bytes("burst").unwrap_or(of_a_millisecond));
            let each = rate(&spec, f, "rate").unwrap();
            Tokens {
                each,
                burst,
                there: burst,
                eligible: VecDeque::new(),
                waiting: VecDeque::new(),
            }
        };
        let flows = (0..spec.setup.flows.len()).map(flow).collect();
        let classes = spec.setup.flows.iter().map(|f| f.values.count("class").unwrap()).collect();
        beside(&spec, Released { flows, classes }, dice, seed);
    });
}

struct Credits {
    slopes: Vec<Option<Fraction>>,
    /// Credit and debt of each flow, in bytes; one of the two is zero.
    credit: Vec<(Fraction, Fraction)>,
    waits: Vec<bool>,
}

fn add(credit: (Fraction, Fraction), more: Fraction) -> (Fraction, Fraction) {
    match credit.1 >= more {
        true => (Fraction::ZERO, credit.1.minus(more)),
        false => (credit.0.plus(more.minus(credit.1)), Fraction::ZERO),
    }
}

impl Model for Credits {
    fn came(&mut self, _: usize, _: u32, _: bool, _: u64) {}
    fn passes(&mut self, waits: &[bool], sending: Option<usize>, now: u64) {
        if now == 0 {
            return;
        }
        let byte = Fraction::new(1u64, 8u64);
        for (f, credit) in self.credit.iter_mut().enumerate() {
            let Some(slope) = self.slopes[f] else { continue };
            if sending == Some(f) {
                // The send slope as a debt: the link's rate minus the idle slope.
                let owed = byte.minus(slope);
                *credit = match credit.0 >= owed {
                    true => (credit.0.minus(owed), credit.1),
                    false => (Fraction::ZERO, credit.1.plus(owed.minus(credit.0))),
                };
            } else if waits[f] {
                *credit = add(*credit, slope);
            } else {
                let (_, owed) = add((Fraction::ZERO, credit.1), slope);
                *credit = (Fraction::ZERO, owed);
            }
        }
        self.waits = waits.to_vec();
    }
    fn choose(&self, heads: &[Option<u32>], _: u64) -> Option<usize> {
        (0..heads.len()).find(|&f| {
            heads[f].is_some() && (self.slopes[f].is_none() || self.credit[f].1 == Fraction::ZERO)
        })
    }
    fn begin(&mut self, _: usize, _: u32, _: u64) {}
    fn left(&mut self, f: usize, head: Option<u32>, _: u64) {
        if head.is_none() {
            self.credit[f].0 = Fraction::ZERO;
        }
    }
}

#[test]
fn cbs_goes_up_and_down_its_slopes() {
    many("cbs", |spec, dice, seed| {
        let slopes: Vec<_> =
            (0..spec.setup.flows.len()).map(|f| rate(spec, f, "idle-slope")).collect();
        let credit = vec![(Fraction::ZERO, Fraction::ZERO); slopes.len()];
        beside(spec, Credits { slopes, credit, waits: Vec::new() }, dice, seed);
    });
}

struct Gates {
    cycle: u64,
    /// For each flow and each nanosecond of the cycle: true if the flow's gate is open.
    open: Vec<Vec<bool>>,
}

impl Model for Gates {
    fn came(&mut self, _: usize, _: u32, _: bool, _: u64) {}
    fn passes(&mut self, _: &[bool], _: Option<usize>, _: u64) {}
    fn choose(&self, heads: &[Option<u32>], now: u64) -> Option<usize> {
        let free = |f: usize, bytes: u32| {
            (now..now + u64::from(bytes) * 8).all(|t| self.open[f][(t % self.cycle) as usize])
        };
        (0..heads.len()).find(|&f| heads[f].is_some_and(|bytes| free(f, bytes)))
    }
    fn begin(&mut self, _: usize, _: u32, _: u64) {}
    fn left(&mut self, _: usize, _: Option<u32>, _: u64) {}
}

#[test]
fn tas_sends_while_gates_are_open() {
    many("tas", |spec, dice, seed| {
        let cycle = spec.setup.scheduler.span("cycle").unwrap().0;
        let gate = |f: &FlowSetup| -> Vec<bool> {
            let opens = f.values.span("opens").map_or(0, |s| s.0);
            let every = f.values.span("every").map_or(cycle, |s| s.0);
            let closes = f.values.span("open").map_or(every, |s| opens + s.0);
            (0..cycle).map(|t| (opens..closes).contains(&(t % every))).collect()
        };
        // A gate that closes at the instant of its next opening stays open, in this model too.
        let open = spec.setup.flows.iter().map(gate).collect();
        beside(spec, Gates { cycle, open }, dice, seed);
    });
}

/// The shaper's rule by definition: in any interval of length `t`, at most `burst + rate t` bytes
/// become eligible.
#[test]
fn a_shaper_never_lets_more_through_than_its_bucket() {
    let (mut packets, mut nearest) = (0, 0.0f64);
    for seed in 0..600 {
        let mut dice = Dice::new(seed ^ 0x0b0c);
        let mut spec = virtual_links(&mut dice, "packet-wise", "clean");
        become_kind(&mut dice, &mut spec, entry("shaper").expect("registered"));
        // With a single flow, a packet leaves when it is eligible.
        spec.setup.flows.truncate(1);
        let values = &spec.setup.flows[0].values;
        let rate = values.rate("rate").unwrap().0 as f64 / 8e9;
        let burst = values.bytes("burst").unwrap_or((rate * 1e6) as u64) as f64;
        let sent = emits(&run(&spec, &bursts(&mut dice, &spec, 20_000), |_, _, _| {}));
        packets += sent.len();
        for (n, first) in sent.iter().enumerate() {
            let mut bytes = 0.0;
            for e in &sent[n..] {
                bytes += f64::from(e.bytes);
                // The first packet became eligible up to a nanosecond before its start.
                let most = burst + rate * ((e.start - first.start).0 + 1) as f64;
                assert!(bytes <= most + 1e-6, "seed {seed}: {bytes} > {most}: {spec:?}");
                nearest = nearest.max(bytes / most);
            }
        }
    }
    assert!(packets > 20_000 && nearest > 0.999, "{packets} {nearest}");
}
