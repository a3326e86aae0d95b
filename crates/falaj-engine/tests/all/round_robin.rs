//! The round robins, compared with naive models over every sequence of a few steps. One byte takes
//! 8 ns.

use crate::common::{Arrival, Dice, any_pipe, become_kind, bursts, emits, run};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

const PIPE: PipeId = PipeId(0);

/// A pipe whose largest packet has `largest` bytes; one flow for each list of values.
fn pipe(kind: &'static str, largest: u32, scheduler: Values, flows: &[Values]) -> PipeSpec {
    let flow = |values: &Values| FlowSetup::new(values.clone(), Limit::Packets(40));
    let flows = flows.iter().map(flow).collect();
    PipeSpec::new(
        kind,
        Setup { rate: Rate::from_mbit(1000), largest, scheduler, flows },
        Span::ZERO,
    )
}

fn none() -> Values {
    Values::default()
}

fn count(name: &'static str, n: u64) -> Values {
    none().with(name, Value::Count(n))
}

/// dummynet's PRIO has 64 levels, crashes from level 32 on, and puts all flows of a level into the
/// queue of one of these flows.
#[test]
fn there_is_a_queue_for_each_flow_and_no_last_level() {
    let priorities = [65_535, 64, 63, 33, 32, 31, 1_000, 32];
    let mut spec = pipe("priority", 1, none(), &priorities.map(|p| count("priority", p)));
    for f in &mut spec.setup.flows {
        f.limit = Limit::Packets(2);
    }
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let mut out = Vec::new();
    for handle in 0..3 {
        for f in 0..priorities.len() as u32 {
            engine.input(PIPE, Unit { flow: FlowId(f), handle, bytes: 1 }, Time::ZERO, &mut out);
        }
    }
    for f in 0..priorities.len() as u32 {
        let c = engine.counters(PIPE, FlowId(f));
        assert_eq!(
            (c.offered, c.backlog, c.dropped_full),
            (3, 2, 1),
            "flow {f} has its own queue and counters"
        );
    }
    engine.poll(Time(1_000), &mut out);
    let order: Vec<u64> = emits(&out).iter().map(|e| priorities[e.flow.index()]).collect();
    assert_eq!(order[..4], [65_535, 31, 31, 32], "the first finds the link free");
    assert_eq!(order[4..], [32, 32, 32, 33, 33, 63, 63, 64, 64, 1_000, 1_000, 65_535]);
}

fn wrr(weights: &[u64]) -> PipeSpec {
    pipe("wrr", 4, none(), &weights.iter().map(|&w| count("weight", w)).collect::<Vec<_>>())
}

/// An HRR pipe, with flows as (level, slots).
fn hrr(frame: u64, largest: u32, flows: &[(u64, u64)]) -> PipeSpec {
    let flow =
        |&(level, slots): &(u64, u64)| count("level", level).with("slots", Value::Count(slots));
    pipe("hrr", largest, count("frame", frame), &flows.iter().map(flow).collect::<Vec<_>>())
}

fn form(form: &'static str) -> Values {
    none().with("form", Value::Choice(form))
}

// --- Bounds that hold under a condition.

/// Removes the packets of flow 0 that break its contract: at most `r T` bytes in any window of
/// length `T`, `(t - T, t]`, where `r` is the contract's rate.
fn keep_contract(spec: &PipeSpec, arrivals: &mut Vec<Arrival>) {
    let values = &spec.setup.flows[0].values;
    let (Some(rate), Some(window)) = (values.rate("rate"), values.span("window")) else { return };
    let allowed = u128::from(rate.0) * u128::from(window.0) / 8_000_000_000;
    let mut kept: Vec<Arrival> = Vec::new();
    arrivals.retain(|a| {
        if a.flow != FlowId(0) {
            return true;
        }
        let recent = kept.iter().filter(|b| b.at.0 + window.0 > a.at.0);
        let keeps =
            recent.map(|b| u128::from(b.bytes)).sum::<u128>() + u128::from(a.bytes) <= allowed;
        if keeps {
            kept.push(*a);
        }
        keeps
    });
}

#[test]
fn bounds_under_a_condition_hold_where_it_does() {
    let mut met = [0; 3];
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        let kind = dice.one_of(&["wrr", "rr", "hrr", "corr", "drr+", "drr+", "drr++", "drr++"]);
        become_kind(&mut dice, &mut spec, registry::entry(kind).unwrap());
        let mut arrivals = bursts(&mut dice, &spec, 20_000);
        if kind == "drr+" {
            keep_contract(&spec, &mut arrivals);
        } else if kind != "drr++" {
            arrivals
                .iter_mut()
                .filter(|a| a.flow == FlowId(0))
                .for_each(|a| a.bytes = spec.setup.largest);
        }
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let Ok(guarantee) = engine.guarantee(PIPE, FlowId(0)) else { continue };
        let quantum =
            spec.setup.flows[0].values.bytes("quantum").unwrap_or(spec.setup.largest.into());
        let sent: Vec<Emit> = emits(&run(&spec, &arrivals, |_, _, _| {}));
        let own: Vec<&Emit> = sent.iter().filter(|e| e.flow == FlowId(0)).collect();
        for (n, e) in own.iter().enumerate() {
            // The flow's queue at the packet's arrival, including the packet.
            let queued = own[..=n]
                .iter()
                .filter(|before| before.end > e.arrival)
                .map(|b| u64::from(b.bytes));
            for bound in &guarantee.others {
                let condition = match bound.condition {
                    "while the flow keeps its contract" => 0,
                    "if its packets have the largest size" => 1,
                    "packets that find, with themselves, no more than a quantum queued" => {
                        if queued.clone().sum::<u64>() > quantum {
                            continue;
                        }
                        2
                    }
                    _ => continue,
                };
                met[condition] += 1;
                let delay = e.end - e.arrival;
                assert!(
                    delay <= bound.delay,
                    "seed {seed}: {delay} > {} {}: {spec:?}",
                    bound.delay,
                    bound.formula
                );
            }
        }
    }
    assert!(
        met.iter().all(|&n| n > 10_000),
        "the conditions hold often enough to mean something: {met:?}"
    );
}

// --- Every sequence of a few steps, compared with a plain model.

/// A discipline as its paper defines it, written with plain lists and loops.
trait Model {
    /// A packet of flow `f` arrived. `first`: the flow had no packet, neither queued nor on the
    /// wire.
    fn came(&mut self, f: usize, bytes: u32, first: bool, at: u64);
    /// The packet of `f` has left.
    fn left(&mut self, f: usize, bytes: u32, queues: &[VecDeque<u32>]);
    /// Chooses the flow of the next packet. Called once per packet, which then goes on the wire.
    fn choose(&mut self, queues: &[VecDeque<u32>]) -> Option<usize>;
    /// Changes to the other setup while a packet of flow `sending` is on the wire.
    fn change(&mut self, sending: Option<usize>);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Packet(usize, u32),
    Pass(u64),
    Change,
}

/// One queue in order of arrival: the model after a change to another discipline.
struct OneQueue(VecDeque<usize>);

impl Model for OneQueue {
    fn came(&mut self, f: usize, _: u32, _: bool, _: u64) {
        self.0.push_back(f);
    }
    fn left(&mut self, _: usize, _: u32, _: &[VecDeque<u32>]) {
        self.0.pop_front();
    }
    fn choose(&mut self, _: &[VecDeque<u32>]) -> Option<usize> {
        self.0.front().copied()
    }
    fn change(&mut self, _: Option<usize>) {}
}

/// The kind of a change within a discipline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Setup,
    /// A flow is added; the existing flows stay the same.
    Flows,
}

impl Change {
    /// The setup after the change.
    fn of<T>(self, now: T, other: T) -> T {
        match self {
            Change::Setup => other,
            Change::Flows => now,
        }
    }
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Becomes {
    /// The same discipline with another setup.
    AnotherSetup,
    OneQueue,
}

/// The departures of the model, as (flow, end in byte times).
fn plain(mut model: Box<dyn Model>, becomes: Becomes, steps: &[Step]) -> Vec<(usize, u64)> {
    let mut queues = vec![VecDeque::new(); 3];
    // Arrival of each queued packet.
    let mut since: Vec<VecDeque<u64>> = vec![VecDeque::new(); 3];
    let (mut now, mut sending, mut sent) = (0, None::<(usize, u64)>, Vec::new());
    for step in steps.iter().chain([&Step::Pass(1_000)]) {
        match *step {
            Step::Packet(f, bytes) => {
                model.came(f, bytes, queues[f].is_empty(), now);
                queues[f].push_back(bytes);
                since[f].push_back(now);
            }
            Step::Change if becomes == Becomes::OneQueue => {
                let came = |f: usize| since[f].iter().map(move |&at| (at, f));
                let mut all: Vec<(u64, usize)> = (0..3).flat_map(came).collect();
                all.sort_unstable();
                // The packet on the wire stays there.
                if let Some(first) = sending.and_then(|(f, _)| all.iter().position(|p| p.1 == f)) {
                    all[..=first].rotate_right(1);
                }
                model = Box::new(OneQueue(all.into_iter().map(|(_, f)| f).collect()));
            }
            Step::Change => model.change(sending.map(|(f, _)| f)),
            Step::Pass(time) => {
                let until = now + time;
                while let Some((f, end)) = sending.filter(|&(_, end)| end <= until) {
                    now = end;
                    sent.push((f, end));
                    let bytes = queues[f].pop_front().unwrap();
                    since[f].pop_front();
                    model.left(f, bytes, &queues);
                    sending = model.choose(&queues).map(|f| (f, now + u64::from(queues[f][0])));
                }
                now = until;
                continue;
            }
        }
        if sending.is_none() {
            sending = model.choose(&queues).map(|f| (f, now + u64::from(queues[f][0])));
        }
    }
    sent
}

/// The departures of the engine.
fn ours(specs: [&PipeSpec; 2], steps: &[Step]) -> Vec<(usize, u64)> {
    let mut engine = Engine::new(std::slice::from_ref(specs[0])).unwrap();
    let (mut now, mut out) = (0, Vec::new());
    for (handle, step) in steps.iter().chain([&Step::Pass(1_000)]).enumerate() {
        match *step {
            Step::Packet(f, bytes) => {
                let unit = Unit { flow: FlowId(f as u32), handle: handle as u32, bytes };
                engine.input(PIPE, unit, Time(now * 8), &mut out);
            }
            Step::Change => {
                let prepared = engine.prepare(PIPE, specs[1]).unwrap();
                engine.apply(prepared, Time(now * 8), &mut out).unwrap();
            }
            Step::Pass(time) => {
                now += time;
                engine.poll(Time(now * 8), &mut out);
            }
        }
    }
    assert_eq!(engine.next_event(), Time::NEVER);
    emits(&out).iter().map(|e| (e.flow.index(), e.end.0 / 8)).collect()
}

/// Compares the engine with the model over all sequences of six steps. A step is either a packet
/// (of one of three flows, in one of two sizes) with a short pause after it, or a pause of three
/// byte times. The short pause is zero or one byte times, the same throughout a sequence. At one
/// position of each sequence the setup changes, or the discipline becomes one queue, or the last
/// flow is added. In most models, the added flow exists from the start, without packets.
fn every_sequence(
    specs: [&PipeSpec; 2],
    sizes: [u32; 2],
    model: impl Fn(Change) -> Box<dyn Model>,
) {
    let mut queue = specs[0].clone();
    queue.kind = "fifo";
    queue.setup.scheduler = none().with("queue", Value::Limit(Limit::Packets(100)));
    queue.setup.flows.iter_mut().for_each(|f| f.values = none());
    let mut fewer = specs[0].clone();
    fewer.setup.flows.truncate(2);
    let (mut some_differ, mut swaps_differ) = (false, false);
    for n in 0..7usize.pow(6) {
        let mut steps = Vec::new();
        for i in 0..6 {
            match n / 7usize.pow(i) % 7 {
                6 => steps.push(Step::Pass(3)),
                packet => steps.extend([
                    Step::Packet(packet / 2, sizes[packet % 2]),
                    Step::Pass(1 - n as u64 % 2),
                ]),
            }
        }
        let without = plain(model(Change::Setup), Becomes::AnotherSetup, &steps);
        assert_eq!(ours(specs, &steps), without, "{steps:?}");
        // One position per sequence, in turn: all positions would take minutes.
        let place = n % (steps.len() + 1);
        let last = steps.iter().position(|step| matches!(step, Step::Packet(2, _)));
        steps.insert(place, Step::Change);
        let with = plain(model(Change::Setup), Becomes::AnotherSetup, &steps);
        assert_eq!(ours(specs, &steps), with, "{steps:?}");
        let swapped = plain(model(Change::Setup), Becomes::OneQueue, &steps);
        assert_eq!(ours([specs[0], &queue], &steps), swapped, "to one queue: {steps:?}");
        (some_differ, swaps_differ) =
            (some_differ || with != without, swaps_differ || swapped != without);
        if let Some(last) = last {
            steps.remove(place);
            steps.insert(n % (last + 1), Step::Change);
            let added = plain(model(Change::Flows), Becomes::AnotherSetup, &steps);
            assert_eq!(ours([&fewer, specs[0]], &steps), added, "a flow added: {steps:?}");
        }
    }
    assert!(some_differ && swaps_differ, "the changes mean something");
}

/// Strict priority: the backlogged flow with the lowest `priority` is served first.
struct ByPriority {
    now: [u64; 3],
    other: [u64; 3],
    waiting: Vec<usize>,
}

impl Model for ByPriority {
    fn came(&mut self, f: usize, _: u32, first: bool, _: u64) {
        if first {
            self.waiting.push(f);
        }
    }
    fn left(&mut self, f: usize, _: u32, queues: &[VecDeque<u32>]) {
        self.waiting.retain(|&g| g != f);
        if !queues[f].is_empty() {
            self.waiting.push(f);
        }
    }
    fn choose(&mut self, _: &[VecDeque<u32>]) -> Option<usize> {
        self.waiting.iter().copied().min_by_key(|&f| self.now[f])
    }
    fn change(&mut self, sending: Option<usize>) {
        self.waiting.sort_by_key(|&f| (sending != Some(f), self.now[f]));
        self.now = self.other;
    }
}

#[test]
fn priority_is_that_of_a_plain_model() {
    let (now, other) = ([2, 0, 2], [1, 1, 0]);
    let spec = |p: [u64; 3]| pipe("priority", 3, none(), &p.map(|p| count("priority", p)));
    every_sequence([&spec(now), &spec(other)], [1, 3], |change| {
        Box::new(ByPriority { now, other: change.of(now, other), waiting: Vec::new() })
    });
}

struct InTurn {
    weights: [u32; 3],
    other: [u32; 3],
    waiting: VecDeque<usize>,
    left: i64,
}

impl Model for InTurn {
    fn came(&mut self, f: usize, _: u32, first: bool, _: u64) {
        if first {
            self.waiting.push_back(f);
            if self.waiting.len() == 1 {
                self.left = self.weights[f].into();
            }
        }
    }
    fn left(&mut self, f: usize, _: u32, queues: &[VecDeque<u32>]) {
        self.left -= 1;
        if self.left <= 0 || queues[f].is_empty() {
            self.waiting.pop_front();
            if !queues[f].is_empty() {
                self.waiting.push_back(f);
            }
            self.left = self.waiting.front().map_or(0, |&f| self.weights[f].into());
        }
    }
    fn choose(&mut self, _: &[VecDeque<u32>]) -> Option<usize> {
        self.waiting.front().copied()
    }
    fn change(&mut self, _: Option<usize>) {
        if let Some(&f) = self.waiting.front() {
            self.left += i64::from(self.other[f]) - i64::from(self.weights[f]);
        }
        self.weights = self.other;
    }
}

#[test]
fn weighted_round_robin_is_that_of_a_plain_model() {
    let (weights, other) = ([2, 1, 3], [1, 2, 1]);
    let spec = |w: [u32; 3]| wrr(&w.map(u64::from));
    let model = |change: Change| {
        let other = change.of(weights, other);
        Box::new(InTurn { weights, other, waiting: VecDeque::new(), left: 0 }) as Box<dyn Model>
    };
    every_sequence([&spec(weights), &spec(other)], [1, 3], model);
}

/// The service of a discipline besides the visits of deficit round robin.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    /// DRR++: visits to the two groups of flows alternate.
    OtherVisits,
    /// DRR++ of 2000: packets with credit leave before all visits.
    Credit,
    /// DRR+: packets leave between visits while their flow keeps its contract.
    FastLane,
    /// ETS: packets of strict priority leave also during a visit.
    Strict,
}

struct Visits {
    beside: Beside,
    quanta: [u32; 3],
    other: [u32; 3],
    deficits: [u32; 3],
    /// Group of each flow: 1 for flows with the additional service, 0 for the others.
    sort: [usize; 3],
    other_sort: [usize; 3],
    waiting: [Vec<usize>; 2],
    turn: usize,
    visited: bool,
    /// DRR++ of 2000: credit of the low-latency flow in bytes, and remaining visits of the cycle.
    credit: u32,
    cycle: Option<usize>,
    log: Vec<(u64, u32)>,
    /// Number of configured flows. If the quanta stay, the change adds the last flow.
    flows: usize,
    /// With a gate: remaining packets of those that were queued when the visit began.
    inside: Option<usize>,
}

impl Visits {
    fn new(beside: Beside, quanta: [u32; 3], other: [u32; 3], sort: [usize; 3]) -> Visits {
        let mut visits = Visits {
            beside,
            quanta,
            other,
            deficits: [0; 3],
            sort,
            other_sort: sort,
            waiting: [Vec::new(), Vec::new()],
            turn: 0,
            visited: false,
            credit: 0,
            cycle: None,
            log: Vec::new(),
            flows: if quanta == other { 2 } else { 3 },
            inside: None,
        };
        visits.credit = visits.raise();
        visits
    }
    /// Ends the visit of the first flow of this group; `stays`: the flow still has packets.
    fn over(&mut self, sort: usize, stays: bool) {
        let f = self.waiting[sort].remove(0);
        if stays {
            self.waiting[sort].push(f);
        } else {
            self.deficits[f] = 0;
        }
        self.visited = false;
        if self.beside == Beside::OtherVisits {
            self.turn = 1 - sort;
        }
        self.cycle = self.cycle.map(|left| left - 1);
    }
    fn raise(&self) -> u32 {
        self.quanta[0] * self.sort[..self.flows].iter().filter(|&&s| s == 0).count() as u32
    }
}

impl Model for Visits {
    fn came(&mut self, f: usize, bytes: u32, first: bool, at: u64) {
        if self.beside == Beside::FastLane && self.sort[f] == 1 {
            self.log.push((at, bytes));
            let window = self.log.iter().filter(|&&(then, _)| then + 8 > at);
            if window.map(|&(_, bytes)| bytes).sum::<u32>() > 4 {
                self.waiting[1].retain(|&g| g != f);
                self.sort[f] = 0;
                if !first {
                    self.waiting[0].push(f);
                }
            }
        }
        if first {
            self.waiting[self.sort[f]].push(f);
        }
    }
    fn left(&mut self, f: usize, _: u32, queues: &[VecDeque<u32>]) {
        let sort = self.sort[f];
        if sort == 1 && self.beside != Beside::OtherVisits {
            self.waiting[1].retain(|&g| g != f);
            if !queues[f].is_empty() {
                self.waiting[1].push(f);
            }
        } else if self.visited && self.waiting[sort][0] == f {
            self.inside = self.inside.map(|packets| packets - 1);
            if queues[f].is_empty() {
                self.over(sort, false);
            }
        }
    }
    fn choose(&mut self, queues: &[VecDeque<u32>]) -> Option<usize> {
        loop {
            let before = self.waiting[1].first().copied();
            match self.beside {
                Beside::Strict if before.is_some() => return before,
                Beside::FastLane if before.is_some() && !self.visited => return before,
                Beside::Credit => {
                    if let Some(f) = before.filter(|&f| queues[f][0] <= self.credit) {
                        self.credit -= queues[f][0];
                        return before;
                    }
                    if self.waiting[0].is_empty() {
                        self.credit = self.raise() + if before.is_some() { self.credit } else { 0 };
                        self.cycle = None;
                        before?;
                        continue;
                    }
                    if self.cycle == Some(0) {
                        self.credit = self.raise() + if before.is_some() { self.credit } else { 0 };
                        self.cycle = Some(self.waiting[0].len());
                        continue;
                    }
                    self.cycle = self.cycle.or(Some(self.waiting[0].len()));
                }
                _ => {}
            }
            let mut sort = if self.beside == Beside::OtherVisits { self.turn } else { 0 };
            if self.waiting[sort].is_empty() {
                if self.beside != Beside::OtherVisits || self.waiting[1 - sort].is_empty() {
                    return None;
                }
                sort = 1 - sort;
                self.turn = sort;
            }
            let f = self.waiting[sort][0];
            if !self.visited {
                self.deficits[f] += self.quanta[f];
                self.visited = true;
                self.inside = self.inside.map(|_| queues[f].len());
            }
            if self.inside == Some(0) {
                self.deficits[f] = 0;
            } else if queues[f][0] <= self.deficits[f] {
                self.deficits[f] -= queues[f][0];
                return Some(f);
            }
            self.over(sort, true);
        }
    }
    fn change(&mut self, _: Option<usize>) {
        for f in 0..3 {
            self.deficits[f] = self.deficits[f].min(self.other[f]);
        }
        (self.quanta, self.flows) = (self.other, 3);
        if self.beside == Beside::OtherVisits {
            let all =
                [self.waiting[self.turn].clone(), self.waiting[1 - self.turn].clone()].concat();
            self.sort = self.other_sort;
            self.waiting =
                [0, 1].map(|s| all.iter().copied().filter(|&f| self.sort[f] == s).collect());
            if self.visited {
                self.turn = self.sort[all[0]];
            }
        }
        if self.beside == Beside::Credit {
            self.credit = self.credit.min(self.raise() + 3);
        }
    }
}

fn quanta(of: [u32; 3], first: Values) -> [Values; 3] {
    let [a, b, c] = of.map(|q| Value::Bytes(q.into()));
    [first.with("quantum", a), none().with("quantum", b), none().with("quantum", c)]
}

const QUANTA: [u32; 3] = [4, 3, 7];
const OTHER_QUANTA: [u32; 3] = [3, 6, 3];

fn visits(kind: &'static str, scheduler: Values, first: Values, beside: Beside, sort: [usize; 3]) {
    let spec = |q: [u32; 3]| pipe(kind, 3, scheduler.clone(), &quanta(q, first.clone()));
    let model = |change: Change| {
        let other = change.of(QUANTA, OTHER_QUANTA);
        Box::new(Visits::new(beside, QUANTA, other, sort)) as Box<dyn Model>
    };
    every_sequence([&spec(QUANTA), &spec(OTHER_QUANTA)], [2, 3], model);
}

#[test]
fn drr_is_that_of_a_plain_model() {
    visits("drr", none(), none(), Beside::Nothing, [0, 0, 0]);
}

#[test]
fn drr_plus_is_that_of_a_plain_model() {
    // The contract: 4 B in any window of 8 byte times.
    let kept = none()
        .with("latency", Value::Choice("low"))
        .with("rate", Value::Rate(Rate::from_mbit(500)));
    visits("drr+", none(), kept.with("window", Value::Span(Span(64))), Beside::FastLane, [1, 0, 0]);
}

#[test]
fn drr_plus_plus_is_that_of_a_plain_model() {
    let low = none().with("latency", Value::Choice("low"));
    visits("drr++", form("mw00"), low.clone(), Beside::Credit, [1, 0, 0]);
    // A and C exchange their latency classes, without a gate and with a gate.
    let [a, b, c] = quanta(QUANTA, none());
    let [d, e, f] = quanta(OTHER_QUANTA, none());
    let low = |flow: Values| flow.with("latency", Value::Choice("low"));
    for (scheduler, inside) in [(none(), None), (form("gated"), Some(0))] {
        let spec = pipe("drr++", 3, scheduler.clone(), &[low(a.clone()), b.clone(), c.clone()]);
        let other = pipe("drr++", 3, scheduler, &[d.clone(), e.clone(), low(f.clone())]);
        every_sequence([&spec, &other], [2, 3], |change| {
            let other = change.of(QUANTA, OTHER_QUANTA);
            let model = Visits::new(Beside::OtherVisits, QUANTA, other, [1, 0, 0]);
            let other_sort = change.of([1, 0, 0], [0, 0, 1]);
            Box::new(Visits { other_sort, inside, ..model })
        });
    }
}

#[test]
fn ets_is_that_of_a_plain_model() {
    let spec = |q| {
        let [_, b, c] = quanta(q, none());
        pipe("ets", 3, none(), &[count("priority", 3), b, c])
    };
    let model = |change: Change| {
        let other = change.of(QUANTA, OTHER_QUANTA);
        Box::new(Visits::new(Beside::Strict, QUANTA, other, [1, 0, 0])) as Box<dyn Model>
    };
    every_sequence([&spec(QUANTA), &spec(OTHER_QUANTA)], [2, 3], model);
}

/// Carry-over round robin, cycle by cycle, with quotas in fifths of a packet.
struct CarryOver {
    quotas: [i64; 3],
    other: [i64; 3],
    credits: [i64; 3],
    here: Vec<usize>,
    plan: VecDeque<usize>,
}

impl Model for CarryOver {
    fn came(&mut self, f: usize, _: u32, _: bool, _: u64) {
        if !self.here.contains(&f) {
            self.here.push(f);
        }
    }
    fn left(&mut self, _: usize, _: u32, _: &[VecDeque<u32>]) {}
    fn choose(&mut self, queues: &[VecDeque<u32>]) -> Option<usize> {
        while self.plan.is_empty() {
            self.here.retain(|&f| !queues[f].is_empty());
            if self.here.is_empty() {
                return None;
            }
            let mut left = [0, 1, 2].map(|f| queues[f].len());
            for &f in &self.here {
                self.credits[f] += self.quotas[f];
                while left[f] > 0 && self.credits[f] >= 5 {
                    self.plan.push_back(f);
                    self.credits[f] -= 5;
                    left[f] -= 1;
                }
                if left[f] == 0 {
                    self.credits[f] = self.credits[f].min(0);
                }
            }
            let mut minor: Vec<usize> =
                (0..3).filter(|&f| left[f] > 0 && self.credits[f] > 0).collect();
            minor.sort_by_key(|&f| -self.credits[f]);
            for f in minor {
                if self.plan.len() < 4 {
                    self.plan.push_back(f);
                    self.credits[f] -= 5;
                }
            }
        }
        self.plan.pop_front()
    }
    fn change(&mut self, _: Option<usize>) {
        self.quotas = self.other;
    }
}

#[test]
fn carry_over_round_robin_is_that_of_a_plain_model() {
    let (quotas, other) = ([2, 6, 12], [12, 2, 6]);
    let spec = |quotas: [i64; 3]| {
        let rate = |q: i64| none().with("rate", Value::Rate(Rate::from_mbit(50 * q as u64)));
        pipe("corr", 3, count("cycle", 4), &quotas.map(rate))
    };
    every_sequence([&spec(quotas), &spec(other)], [1, 3], |change| {
        let other = change.of(quotas, other);
        Box::new(CarryOver {
            quotas,
            other,
            credits: [0; 3],
            here: Vec::new(),
            plan: VecDeque::new(),
        })
    });
}

/// The owners of the slots at each level, and the current position at each level.
#[derive(Clone)]
struct Frames {
    frame: usize,
    owners: Vec<Vec<usize>>,
    pointers: Vec<usize>,
}

impl Frames {
    fn new(frame: usize, owners: Vec<Vec<usize>>) -> Frames {
        Frames { frame, pointers: vec![0; owners.len()], owners }
    }
    /// The owner of the next slot.
    fn next(&mut self) -> Option<usize> {
        for (pointer, owners) in self.pointers.iter_mut().zip(&self.owners) {
            let place = *pointer;
            *pointer = (place + 1) % self.frame;
            if place < owners.len() {
                return Some(owners[place]);
            }
        }
        None
    }
}

/// The setup after a change.
#[derive(Clone)]
enum Then {
    /// Other frames, whose positions count from time zero; true: the third flow keeps best effort.
    Frames(Frames, bool),
    OneQueue,
}

/// The departures of the model, slot after slot of 2 B, as (flow, end in byte times). At first, the
/// third flow has best effort.
fn by_slots(mut frames: Frames, then: &Then, steps: &[Step]) -> Vec<(usize, u64)> {
    let (mut events, mut now) = (VecDeque::new(), 0);
    for step in steps {
        match *step {
            Step::Pass(time) => now += time,
            event => events.push_back((now, event)),
        }
    }
    let mut best_effort = true;
    let mut queues = vec![VecDeque::<(u64, u32)>::new(); 3];
    let mut sent: Vec<(usize, u64)> = Vec::new();
    let mut other = match then {
        Then::Frames(frames, best_effort) => Some((frames.clone(), *best_effort)),
        Then::OneQueue => None,
    };
    for slot in 0..60 {
        let begins = 2 * slot;
        // Both sets of frames advance with each slot.
        let owner = frames.next();
        let mut others = other.as_mut().map(|(frames, _)| frames.next());
        let mut owner = owner;
        loop {
            // A packet that arrives at the instant at which a slot begins finds the slot taken, or
            // takes it at once.
            let event = events.front().filter(|&&(at, _)| at < begins).copied();
            let event = event.or_else(|| {
                let taken = owner.filter(|&f: &usize| !queues[f].is_empty());
                let taken = taken.or((best_effort && !queues[2].is_empty()).then_some(2));
                if let Some(f) = taken {
                    let (_, bytes) = queues[f].pop_front()?;
                    sent.push((f, begins + u64::from(bytes)));
                    return None;
                }
                events.front().filter(|&&(at, _)| at == begins).copied()
            });
            let Some((at, event)) = event else { break };
            events.pop_front();
            match event {
                Step::Packet(f, bytes) => queues[f].push_back((at, bytes)),
                _ => match (others.take(), &other) {
                    (Some(of_others), Some((after, with))) => {
                        // The positions of the new frames are as if they had been used from the
                        // beginning.
                        (frames, best_effort, owner) = (after.clone(), *with, of_others);
                        other = None;
                    }
                    _ => {
                        one_queue(at, &queues, events, &mut sent);
                        return sent;
                    }
                },
            }
        }
    }
    sent
}

/// Adds the departures from `at` on: after the packet on the wire, packets leave in order of
/// arrival.
fn one_queue(
    at: u64,
    queues: &[VecDeque<(u64, u32)>],
    events: VecDeque<(u64, Step)>,
    sent: &mut Vec<(usize, u64)>,
) {
    let waiting = |f: usize| queues[f].iter().map(move |&(since, bytes)| (since, f, bytes));
    let mut all: Vec<(u64, usize, u32)> = (0..queues.len()).flat_map(waiting).collect();
    all.sort_by_key(|&(since, f, _)| (since, f));
    let later = events.into_iter().filter_map(|(since, event)| match event {
        Step::Packet(f, bytes) => Some((since, f, bytes)),
        _ => None,
    });
    all.extend(later);
    let mut free = sent.last().map_or(at, |&(_, end)| end.max(at));
    for (since, f, bytes) in all {
        free = free.max(since) + u64::from(bytes);
        sent.push((f, free));
    }
}

/// Compares HRR with a model that has a pointer for each level. At one position of each sequence
/// the frames change, a flow is added, or one queue replaces HRR.
#[test]
fn hierarchical_round_robin_is_that_of_a_plain_model() {
    // A has one of the three slots of the first level, and the other two slots are passed down to
    // the second level. B has two of the three slots of the second level; C has best effort. After
    // the change, A and B are both on the first level, which has five slots. The other change adds
    // C with a slot of the first level.
    let spec = hrr(3, 2, &[(1, 1), (2, 2), (1, 0)]);
    let frames = Frames::new(3, vec![vec![0], vec![1, 1]]);
    let changed = hrr(5, 2, &[(1, 2), (1, 1), (1, 0)]);
    let then = Then::Frames(Frames::new(5, vec![vec![0, 1, 0]]), true);
    let (fewer, more) = (hrr(3, 2, &[(1, 1), (2, 2)]), hrr(3, 2, &[(1, 1), (2, 2), (1, 1)]));
    let added = Then::Frames(Frames::new(3, vec![vec![0, 2], vec![1, 1]]), false);
    let mut queue = pipe("fifo", 2, none(), &[none(), none(), none()]);
    queue.setup.scheduler = none().with("queue", Value::Limit(Limit::Packets(100)));
    let mut differ = [false; 3];
    for n in 0..7usize.pow(6) {
        let mut steps = Vec::new();
        for i in 0..6 {
            match n / 7usize.pow(i) % 7 {
                6 => steps.push(Step::Pass(3)),
                packet => steps.extend([
                    Step::Packet(packet / 2, 1 + packet as u32 % 2),
                    Step::Pass(1 - n as u64 % 2),
                ]),
            }
        }
        let without = by_slots(frames.clone(), &then, &steps);
        assert_eq!(ours([&spec, &changed], &steps), without, "{steps:?}");
        let place = n % (steps.len() + 1);
        let last = steps.iter().position(|step| matches!(step, Step::Packet(2, _)));
        steps.insert(place, Step::Change);
        for (k, (then, after)) in
            [(&then, &changed), (&Then::OneQueue, &queue)].into_iter().enumerate()
        {
            let with = by_slots(frames.clone(), then, &steps);
            assert_eq!(ours([&spec, after], &steps), with, "{steps:?} {}", after.kind);
            differ[k] |= with != without;
        }
        if let Some(last) = last {
            steps.remove(place);
            steps.insert(n % (last + 1), Step::Change);
            let with = by_slots(frames.clone(), &added, &steps);
            assert_eq!(ours([&fewer, &more], &steps), with, "a flow added: {steps:?}");
            differ[2] |= with != without;
        }
    }
    assert_eq!(differ, [true; 3], "the changes mean something");
}
