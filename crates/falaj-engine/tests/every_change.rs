//! Every short sequence of packets with every single change at every step, beside
//! naive models: of a flow's own parameter, of the rate, a flow added, the
//! discipline swapped. One byte takes 8 ns.

mod common;

use common::emits;
use common::fraction::Fraction;
use common::units::units_of_a_byte;
use falaj_engine::engine::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Engine, PipeId};
use falaj_sched::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::rate::Rate;
use falaj_sched::time::{Span, Time};
use std::collections::VecDeque;

const PIPE: PipeId = PipeId(0);
const LARGEST: u32 = 4;

/// What is set, as far as a model must know.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    kind: &'static str,
    /// Weights, quanta, deadlines in bytes of time, or what part of the link a flow has: one of so many.
    parts: Vec<u64>,
    /// Nanoseconds of a byte.
    byte: u64,
}

impl Set {
    fn spec(&self) -> PipeSpec {
        let total: u64 = self.parts.iter().sum();
        let value = |part| match self.kind {
            "drr" => Values::default().with("quantum", Value::Bytes(part)),
            "edf" => Values::default().with("deadline", Value::Span(Span(8 * part))),
            "virtual-clock" => {
                Values::default().with("rate", Value::Rate(Rate(8_000_000_000 / self.byte / total * part)))
            }
            "arc" => Values::default().with("rate", Value::Rate(Rate(8_000_000_000 / self.byte / part))),
            _ => Values::default().with("weight", Value::Count(part)),
        };
        let flows = self.parts.iter().map(|&part| FlowSetup::new(value(part), Limit::Packets(40))).collect();
        let rate = Rate(8_000_000_000 / self.byte);
        let scheduler = match self.kind {
            "fifo" => Values::default().with("queue", Value::Limit(Limit::Packets(100))),
            _ => Values::default(),
        };
        let flows: Vec<FlowSetup> = flows;
        PipeSpec::new(self.kind, Setup { rate, largest: LARGEST, scheduler, flows }, Span::ZERO)
    }
}

/// A discipline by its definition. Instants are nanoseconds.
trait Model {
    fn came(&mut self, f: usize, bytes: u32, now: u64);
    /// Whose heads may go on the wire: all that are equally good.
    fn choose(&mut self, now: u64) -> Vec<usize>;
    fn begin(&mut self, f: usize, now: u64, end: u64);
    /// The packet of `f` has left, whether it was begun here or under another discipline.
    fn left(&mut self, f: usize, now: u64);
    fn change(&mut self, set: &Set, now: u64);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Packet(usize, u32),
    /// Nanoseconds.
    Pass(u64),
    Change,
}

/// What the engine sends.
fn ours(sets: &[Set; 2], specs: &[PipeSpec; 2], steps: &[Step]) -> Vec<Emit> {
    let mut engine = Engine::new(std::slice::from_ref(&specs[0])).unwrap();
    let (mut now, mut out, mut last) = (0, Vec::new(), sets[0].parts.len() - 1);
    for step in steps {
        match *step {
            Step::Packet(f, bytes) => {
                // Once there is a flow more, it gets what was for the last one.
                let flow = FlowId(if f == sets[0].parts.len() - 1 { last } else { f } as u32);
                engine.input(PIPE, Unit { flow, handle: 0, bytes }, Time(now), &mut out);
            }
            Step::Change => {
                let prepared = engine.prepare(PIPE, &specs[1]).unwrap();
                engine.apply(prepared, Time(now), &mut out).unwrap();
                last = sets[1].parts.len() - 1;
            }
            Step::Pass(time) => {
                now += time;
                engine.poll(Time(now), &mut out);
            }
        }
    }
    engine.poll(Time(1 << 40), &mut out);
    emits(&out)
}

/// Every packet that leaves is one that the model would send then, and none is left.
fn beside_the_model(sets: &[Set; 2], specs: &[PipeSpec; 2], steps: &[Step]) {
    let sent = ours(sets, specs, steps);
    let mut sent = sent.iter();
    let mut model = model(&sets[0]);
    let mut queues = vec![VecDeque::<(u32, u64, usize)>::new(); 5];
    let (mut now, mut come, mut sending) = (0, 0, None::<(usize, u64)>);
    let (mut byte, mut last) = (sets[0].byte, sets[0].parts.len() - 1);
    let wrong = |what: &str| -> ! { panic!("{what}: {sets:?} {steps:?}") };
    let mut decide = |model: &mut dyn Model, queues: &[VecDeque<(u32, u64, usize)>], now: u64, byte: u64| {
        let best = model.choose(now);
        if best.is_empty() {
            return None;
        }
        let Some(e) = sent.next() else { wrong(&format!("sends less: {best:?} at {now}")) };
        let (f, end) = (e.flow.index(), now + u64::from(queues[e.flow.index()][0].0) * byte);
        if !best.contains(&f) || (e.start, e.end) != (Time(now), Time(end)) {
            wrong(&format!("{e:?} at {now} instead of {best:?}"));
        }
        model.begin(f, now, end);
        Some((f, end))
    };
    for step in steps.iter().chain([&Step::Pass(1 << 30)]) {
        match *step {
            Step::Packet(f, bytes) => {
                let f = if f == sets[0].parts.len() - 1 { last } else { f };
                queues[f].push_back((bytes, now, come));
                come += 1;
                model.came(f, bytes, now);
            }
            Step::Change => {
                (last, byte) = (sets[1].parts.len() - 1, sets[1].byte);
                if sets[0].kind == sets[1].kind {
                    model.change(&sets[1], now);
                } else {
                    // In order of arrival, the one on the wire before all. Only one queue knows more than the instant.
                    let of = |f: usize| queues[f].iter().map(move |&(bytes, at, n)| (at, f, bytes, n));
                    let mut all: Vec<_> = (0..5).flat_map(of).collect();
                    all.sort_by_key(|&(at, f, _, n)| (at, if sets[0].kind == "fifo" { n } else { f }));
                    if let Some(first) = sending.and_then(|(f, _)| all.iter().position(|p| p.1 == f)) {
                        all[..=first].rotate_right(1);
                    }
                    model = self::model(&sets[1]);
                    for (_, f, bytes, _) in all {
                        model.came(f, bytes, now);
                    }
                }
            }
            Step::Pass(time) => {
                let until = now + time;
                while let Some((f, end)) = sending.filter(|&(_, end)| end <= until) {
                    queues[f].pop_front();
                    model.left(f, end);
                    sending = decide(&mut *model, &queues, end, byte);
                }
                now = until;
                continue;
            }
        }
        if sending.is_none() {
            sending = decide(&mut *model, &queues, now, byte);
        }
    }
    if sent.next().is_some() || queues.iter().any(|q| !q.is_empty()) {
        wrong("packets are left");
    }
}

fn model(set: &Set) -> Box<dyn Model> {
    let parts = set.parts.clone();
    match set.kind {
        "fifo" => Box::new(Fifo(VecDeque::new())),
        "drr" => Box::new(Drr {
            quanta: parts,
            flows: vec![(VecDeque::new(), 0); 5],
            round: VecDeque::new(),
            visited: false,
        }),
        "mtr-ls" => Box::new(MoveToRear::new(&parts)),
        "arc" => Box::new(Slices { set: set.clone(), flows: Default::default() }),
        kind @ ("qfq" | "wf2q+") => Box::new(Even::new(kind == "qfq", &parts)),
        _ => Box::new(Stamps::new(set)),
    }
}

/// In order of arrival.
struct Fifo(VecDeque<usize>);

impl Model for Fifo {
    fn came(&mut self, f: usize, _: u32, _: u64) {
        self.0.push_back(f);
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        self.0.front().copied().into_iter().collect()
    }
    fn begin(&mut self, _: usize, _: u64, _: u64) {}
    fn left(&mut self, _: usize, _: u64) {
        self.0.pop_front();
    }
    fn change(&mut self, _: &Set, _: u64) {}
}

/// Deficit round robin: queues, deficits, and who waits for a visit.
struct Drr {
    quanta: Vec<u64>,
    flows: Vec<(VecDeque<u64>, u64)>,
    round: VecDeque<usize>,
    /// The first one has got its quantum.
    visited: bool,
}

impl Model for Drr {
    fn came(&mut self, f: usize, bytes: u32, _: u64) {
        self.flows[f].0.push_back(bytes.into());
        if !self.round.contains(&f) {
            self.round.push_back(f);
        }
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        while let Some(&f) = self.round.front() {
            let (queue, deficit) = &mut self.flows[f];
            if !std::mem::replace(&mut self.visited, true) {
                *deficit += self.quanta[f];
            }
            if queue.front().is_some_and(|bytes| bytes <= deficit) {
                return vec![f];
            }
            self.visited = false;
            self.round.pop_front();
            match queue.is_empty() {
                true => *deficit = 0,
                false => self.round.push_back(f),
            }
        }
        Vec::new()
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        self.flows[f].1 -= self.flows[f].0[0];
    }
    fn left(&mut self, f: usize, _: u64) {
        self.flows[f].0.pop_front();
    }
    fn change(&mut self, set: &Set, _: u64) {
        self.quanta = set.parts.clone();
        for (&quantum, (_, deficit)) in self.quanta.iter().zip(&mut self.flows) {
            *deficit = (*deficit).min(quantum);
        }
    }
}

/// The move-to-rear list. Parts of the quantum are as large as they must be: the smallest weight's is a largest packet.
struct MoveToRear {
    parts: Vec<i64>,
    /// Flows as they stand, with what is left of their parts.
    list: Vec<(usize, i64)>,
    queues: [VecDeque<u32>; 5],
}

impl MoveToRear {
    fn new(weights: &[u64]) -> MoveToRear {
        let parts = MoveToRear::parts(weights);
        MoveToRear { list: parts.iter().copied().enumerate().collect(), parts, queues: Default::default() }
    }
    fn parts(weights: &[u64]) -> Vec<i64> {
        let least = weights.iter().min().expect("flows");
        weights.iter().map(|w| (u64::from(LARGEST) * w / least) as i64).collect()
    }
}

impl Model for MoveToRear {
    fn came(&mut self, f: usize, bytes: u32, _: u64) {
        self.queues[f].push_back(bytes);
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        self.list.iter().map(|&(f, _)| f).find(|&f| !self.queues[f].is_empty()).into_iter().collect()
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        let bytes = i64::from(self.queues[f][0]);
        self.list.iter_mut().find(|(g, _)| *g == f).expect("all are in the list").1 -= bytes;
    }
    fn left(&mut self, f: usize, _: u64) {
        self.queues[f].pop_front();
        let at = self.list.iter().position(|(g, _)| *g == f).expect("all are in the list");
        if self.list[at].1 <= 0 {
            let (f, left) = self.list.remove(at);
            self.list.push((f, left + self.parts[f]));
        }
    }
    fn change(&mut self, set: &Set, _: u64) {
        self.parts = MoveToRear::parts(&set.parts);
        self.list.iter_mut().for_each(|(f, left)| *left = (*left).min(self.parts[*f]));
        self.list.extend((self.list.len()..self.parts.len()).map(|f| (f, self.parts[f])));
    }
}

/// Adaptive rate control. A slice is a largest packet at the flow's rate.
struct Slices {
    set: Set,
    flows: [Sliced; 5],
}

#[derive(Default)]
struct Sliced {
    queue: VecDeque<u32>,
    expected: u64,
    left: i64,
}

impl Slices {
    fn slice(&mut self, f: usize, now: u64) {
        let flow = &mut self.flows[f];
        if !flow.queue.is_empty() && flow.left <= 0 {
            flow.left += i64::from(LARGEST);
            flow.expected = flow.expected.max(now) + u64::from(LARGEST) * self.set.byte * self.set.parts[f];
        }
    }
}

impl Model for Slices {
    fn came(&mut self, f: usize, bytes: u32, now: u64) {
        let flow = &mut self.flows[f];
        flow.queue.push_back(bytes);
        if flow.queue.len() == 1 {
            if flow.expected <= now {
                flow.left = flow.left.min(0);
            }
            self.slice(f, now);
        }
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        let waiting = (0..5).filter(|&f| !self.flows[f].queue.is_empty());
        waiting.min_by_key(|&f| (self.flows[f].expected, f)).into_iter().collect()
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        self.flows[f].left -= i64::from(self.flows[f].queue[0]);
    }
    fn left(&mut self, f: usize, now: u64) {
        self.flows[f].queue.pop_front();
        self.slice(f, now);
    }
    /// Slices that have begun go on; a slice pays back all but a byte of the one before.
    fn change(&mut self, set: &Set, _: u64) {
        self.set = set.clone();
        self.flows.iter_mut().for_each(|flow| flow.left = flow.left.max(1 - i64::from(LARGEST)));
    }
}

/// WF2Q+ and QFQ, looking at every flow each time. QFQ's weights are powers of two, as its
/// own numbers are exact then; and from 1 to 8, as no start then becomes a
/// multiple of `sigma` by which its rounded one might lie below.
struct Even {
    rounded: bool,
    /// The finest rounding: 2^22 of the units that a byte has 2^38 of under QFQ, WF2Q+'s own there.
    finest: Fraction,
    time: Fraction,
    /// The packet on the wire: bytes that the time has not counted, since when, until when.
    wire: (Fraction, u64, u64),
    flows: Vec<EvenFlow>,
}

struct EvenFlow {
    weight: u64,
    sigma: Fraction,
    queue: VecDeque<u32>,
    start: Fraction,
    present: bool,
    /// It has nothing, but counts.
    silent: bool,
}

impl EvenFlow {
    fn new(finest: Fraction, weight: u64) -> EvenFlow {
        let (packet, mut sigma) = (Fraction::new(LARGEST, weight), finest);
        while sigma < packet {
            sigma = sigma.times(2, 1);
        }
        EvenFlow { weight, sigma, queue: VecDeque::new(), start: Fraction::ZERO, present: false, silent: false }
    }
}

impl Even {
    fn new(rounded: bool, weights: &[u64]) -> Even {
        let finest = Even::finest(rounded, weights);
        let flows = weights.iter().map(|&w| EvenFlow::new(finest, w)).collect();
        Even { rounded, finest, time: Fraction::ZERO, wire: (Fraction::ZERO, 0, 0), flows }
    }
    fn finest(rounded: bool, weights: &[u64]) -> Fraction {
        Fraction::new(1 << 22, if rounded { 1 << 38 } else { units_of_a_byte(weights).expect("small weights") })
    }
    fn rise(&mut self, to: Fraction) {
        self.time = to;
        for f in &mut self.flows {
            f.silent &= f.start.floor(f.sigma) >= to.floor(f.sigma);
        }
    }
    fn work(&mut self, bytes: Fraction) {
        let sum: u64 = self.flows.iter().filter(|f| f.present || f.silent).map(|f| f.weight).sum();
        if bytes > Fraction::ZERO {
            self.rise(self.time.plus(bytes.times(1, sum)));
        }
    }
    /// Counts what the wire has carried until `now`.
    fn pass(&mut self, now: u64) {
        let (left, from, end) = self.wire;
        if now > from && from < end {
            let sent = left.times(now.min(end) - from, end - from);
            self.wire = (left.minus(sent), now, end);
            self.work(sent);
        }
    }
}

impl Model for Even {
    fn came(&mut self, f: usize, bytes: u32, now: u64) {
        self.flows[f].queue.push_back(bytes);
        if !self.flows[f].present {
            self.pass(now);
            let (time, flow) = (self.time, &mut self.flows[f]);
            if !flow.silent || flow.start < time {
                flow.start = time;
            }
            (flow.present, flow.silent) = (true, false);
        }
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        let rounded = self.rounded;
        let of = |flow: &EvenFlow| {
            let bytes = Fraction::new(flow.queue[0], flow.weight);
            let start = if rounded { flow.start.floor(flow.sigma) } else { flow.start };
            (start, start.plus(if rounded { flow.sigma.times(2, 1) } else { bytes }))
        };
        let all: Vec<_> =
            (0..self.flows.len()).filter(|&f| self.flows[f].present).map(|f| (f, of(&self.flows[f]))).collect();
        let Some(soonest) = all.iter().map(|&(_, (start, _))| start).min() else { return Vec::new() };
        let time = self.time.max(soonest);
        let started = all.into_iter().filter(|&(_, (start, _))| start <= time);
        let started: Vec<_> = started.map(|(f, (_, finish))| (finish, f)).collect();
        let (least, first) = *started.iter().min().expect("the soonest has started");
        self.rise(time);
        match rounded {
            true => started.into_iter().filter(|&(finish, _)| finish == least).map(|(_, f)| f).collect(),
            false => vec![first],
        }
    }
    fn begin(&mut self, f: usize, now: u64, end: u64) {
        let bytes = self.flows[f].queue[0];
        match self.rounded {
            true => self.work(Fraction::of(bytes)),
            false => self.wire = (Fraction::of(bytes), now, end),
        }
        let flow = &mut self.flows[f];
        flow.start = flow.start.plus(Fraction::new(bytes, flow.weight));
    }
    fn left(&mut self, f: usize, now: u64) {
        self.pass(now);
        let (time, flow) = (self.time, &mut self.flows[f]);
        flow.queue.pop_front();
        if flow.queue.is_empty() {
            (flow.present, flow.silent) = (false, flow.start > time);
        }
        if self.flows.iter().all(|f| !f.present) {
            self.flows.iter_mut().for_each(|f| f.silent = false);
        }
    }
    /// Who keeps its weight keeps its start. Others keep what they owe, in bytes. Silent flows that owe nothing have left after it; of
    /// WF2Q+, which looks at nobody whose weight stays, only if they are weighed anew or flows are added. Its unit
    /// stays while there are packets.
    fn change(&mut self, set: &Set, now: u64) {
        self.pass(now);
        if self.flows.iter().all(|f| !f.present) && self.finest != Even::finest(self.rounded, &set.parts) {
            *self = Even::new(self.rounded, &set.parts);
            return;
        }
        let all = self.rounded || set.parts.len() > self.flows.len();
        for (f, &weight) in set.parts.iter().enumerate() {
            let Some(flow) = self.flows.get_mut(f) else {
                self.flows.push(EvenFlow::new(self.finest, weight));
                continue;
            };
            flow.silent &= flow.start > self.time || !all && weight == flow.weight;
            if weight != flow.weight {
                let owed = flow.start.max(self.time).minus(self.time);
                flow.start = self.time.plus(owed.times(flow.weight, weight));
                (flow.weight, flow.sigma) = (weight, EvenFlow::new(self.finest, weight).sigma);
            }
        }
    }
}

/// Disciplines that stamp packets: all get their tags when they come.
struct Stamps {
    set: Set,
    waiting: Vec<Stamped>,
    /// Finish of each flow's last packet.
    lasts: Vec<Fraction>,
    /// Virtual time, as it was at `at`.
    v: Fraction,
    at: u64,
    /// Nanoseconds of a byte of what is on the wire.
    byte: u64,
}

#[derive(Clone, Copy)]
struct Stamped {
    flow: usize,
    start: Fraction,
    finish: Fraction,
}

impl Stamps {
    fn new(set: &Set) -> Stamps {
        let (waiting, lasts) = (Vec::new(), vec![Fraction::ZERO; 5]);
        Stamps { set: set.clone(), waiting, lasts, v: Fraction::ZERO, at: 0, byte: set.byte }
    }

    /// Virtual time at `now`; that of the fluid goes from one flow's end to the next.
    fn clock(&mut self, now: u64) -> Fraction {
        match self.set.kind {
            "virtual-clock" | "edf" => self.v = Fraction::of(now),
            "spfq" => self.v = self.v.plus(Fraction::of(now - self.at)),
            "wfq" | "wf2q" => {
                let mut work = Fraction::new(now - self.at, self.byte);
                loop {
                    let present = |f: &usize| self.lasts[*f] > self.v;
                    let weights = (0..self.set.parts.len()).filter(present).map(|f| self.set.parts[f]);
                    let sum = weights.sum::<u64>();
                    let Some(least) = (0..5).filter(present).map(|f| self.lasts[f]).min() else { break };
                    let needed = least.minus(self.v).times(sum, 1);
                    if needed > work {
                        self.v = self.v.plus(work.times(1, sum));
                        break;
                    }
                    (self.v, work) = (least, work.minus(needed));
                }
            }
            _ => {}
        }
        self.at = now;
        self.v
    }

    /// Rounded tags may not tell apart what is nearer than that; by weights and deadlines nothing is rounded, and
    /// equals are served in order of flows.
    fn near(&self) -> Fraction {
        match self.set.kind {
            "virtual-clock" | "spfq" => Fraction::new(1, 1 << 20),
            _ => Fraction::ZERO,
        }
    }

    /// What a byte of `f` takes.
    fn slope(set: &Set, f: usize) -> Fraction {
        match set.kind {
            "virtual-clock" | "spfq" => Fraction::new(set.byte * set.parts.iter().sum::<u64>(), set.parts[f]),
            _ => Fraction::new(1, set.parts[f]),
        }
    }
}

impl Model for Stamps {
    fn came(&mut self, flow: usize, bytes: u32, now: u64) {
        let v = self.clock(now);
        let start = self.lasts[flow].max(v);
        let finish = match self.set.kind {
            "edf" => v.plus(Fraction::of(8 * self.set.parts[flow])),
            _ => start.plus(Stamps::slope(&self.set, flow).times(bytes, 1)),
        };
        self.lasts[flow] = finish;
        self.waiting.push(Stamped { flow, start, finish });
    }
    fn choose(&mut self, now: u64) -> Vec<usize> {
        let v = self.clock(now);
        let heads = (0..5).filter_map(|f| self.waiting.iter().find(|p| p.flow == f).copied());
        let started = |p: &Stamped, by: Fraction| self.set.kind != "wf2q" || p.start <= by;
        let near = self.near();
        let heads: Vec<_> = heads.filter(|p| started(p, v.plus(near))).collect();
        let tag = |p: &Stamped| if self.set.kind == "sfq" { p.start } else { p.finish };
        let least = heads.iter().filter(|p| started(p, v.minus(near))).map(tag).min();
        let best = heads.iter().filter(|p| least.is_none_or(|least| tag(p) <= least.plus(near)));
        assert!(self.waiting.is_empty() || !heads.is_empty(), "the fluid has started what the link has");
        let best = best.map(|p| p.flow);
        if near == Fraction::ZERO { best.take(1).collect() } else { best.collect() }
    }
    fn begin(&mut self, f: usize, now: u64, _: u64) {
        self.clock(now);
        self.byte = self.set.byte;
        let packet = self.waiting.iter().find(|p| p.flow == f).expect("it was offered");
        match self.set.kind {
            "scfq" => self.v = packet.finish,
            "sfq" => self.v = packet.start,
            _ => {}
        }
    }
    fn left(&mut self, f: usize, now: u64) {
        self.clock(now);
        let first = self.waiting.iter().position(|p| p.flow == f).expect("it was begun");
        self.waiting.remove(first);
        if self.set.kind == "spfq" {
            let heads = (0..5).filter_map(|f| self.waiting.iter().find(|p| p.flow == f));
            self.v = self.v.max(heads.map(|p| p.start).min().unwrap_or(Fraction::ZERO));
        }
        if self.waiting.is_empty() && !matches!(self.set.kind, "virtual-clock" | "edf") {
            self.v = self.lasts.iter().copied().fold(self.v, Fraction::max);
        }
    }
    /// What is ahead of the time stays as many bytes.
    fn change(&mut self, set: &Set, now: u64) {
        let v = self.clock(now);
        let old = std::mem::replace(&mut self.set, set.clone());
        let by_length = |tag: Fraction, f: usize| {
            // A flow with a deadline gets the other one.
            if set.kind == "edf" {
                return tag.plus(Fraction::of(8 * set.parts[f])).minus(Fraction::of(8 * old.parts[f]));
            }
            let [from, to] = [&old, set].map(|set| Stamps::slope(set, f));
            match tag > v {
                true => v.plus(tag.minus(v).over(from).by(to)),
                false => tag,
            }
        };
        for f in 0..old.parts.len() {
            self.lasts[f] = by_length(self.lasts[f], f);
        }
        for packet in &mut self.waiting {
            let (f, bytes) = (packet.flow, packet.finish.minus(packet.start).over(Stamps::slope(&old, packet.flow)));
            let length = bytes.by(Stamps::slope(set, f));
            if set.kind == "sfq" {
                packet.start = by_length(packet.start, f);
                packet.finish = packet.start.plus(length);
            } else {
                packet.finish = by_length(packet.finish, f);
                packet.start = packet.finish.minus(length);
            }
        }
    }
}

/// All sequences of `left` more steps, of which each is one of a flow's packets or a pause;
/// flows come into play in their order, as they are alike at first.
fn sequences(
    steps: &mut Vec<Step>,
    left: usize,
    flows: usize,
    sizes: &[u32],
    in_play: usize,
    run: &mut impl FnMut(&[Step]),
) {
    if left == 0 {
        return run(steps);
    }
    steps.push(Step::Pass(24));
    sequences(steps, left - 1, flows, sizes, in_play, run);
    steps.pop();
    for f in 0..(in_play + 1).min(flows) {
        for &bytes in sizes {
            steps.push(Step::Packet(f, bytes));
            sequences(steps, left - 1, flows, sizes, in_play.max(f + 1), run);
            steps.pop();
        }
    }
}

/// So many steps, three flows, two sizes: of six 19,973 sequences up to renaming, of 117,649. Between
/// them passes no time, or half of a byte's. With each of the changes at each place.
fn every_change(length: usize, kind: &'static str, part: u64, another: u64, from_fifo: bool) {
    let set = Set { kind, parts: vec![part; 3], byte: 8 };
    let mut changes = vec![[set.clone(), Set { byte: 16, ..set.clone() }]];
    for f in 0..3 {
        let mut changed = set.clone();
        changed.parts[f] = another;
        changes.push([set.clone(), changed]);
    }
    let more = Set { parts: [set.parts.clone(), vec![another]].concat(), ..set.clone() };
    changes.push([set.clone(), more]);
    let fifo = Set { kind: "fifo", ..set.clone() };
    changes.extend(from_fifo.then(|| [fifo.clone(), set.clone()]));
    changes.push([set.clone(), fifo]);
    let specs: Vec<[PipeSpec; 2]> = changes.iter().map(|sets| [sets[0].spec(), sets[1].spec()]).collect();
    let mut count = 0;
    sequences(&mut Vec::new(), length, 3, &[2, 4], 0, &mut |steps| {
        count += 1;
        let between = Step::Pass([0, 4][count % 2]);
        let mut with = Vec::with_capacity(13);
        for place in 0..=length {
            with.clear();
            for (n, &step) in steps.iter().enumerate() {
                with.extend((n == place).then_some(Step::Change));
                with.push(step);
                with.extend(matches!(step, Step::Packet(..)).then_some(between));
            }
            with.extend((place == length).then_some(Step::Change));
            for (sets, specs) in changes.iter().zip(&specs) {
                beside_the_model(sets, specs, &with);
            }
        }
    });
    assert_eq!(count, [2923, 19_973][length - 5]);
}

#[test]
fn drr() {
    every_change(6, "drr", 5, 9, true);
}

/// Eight steps, four flows of different quanta that come into play in their order: 18,002 sequences.
#[test]
fn drr_of_four_flows() {
    for quanta in [[4, 4, 4, 4], [4, 5, 7, 11], [9, 4, 6, 4]] {
        let set = Set { kind: "drr", parts: quanta.into(), byte: 8 };
        let (sets, spec) = ([set.clone(), set.clone()], set.spec());
        let specs = [spec.clone(), spec];
        let mut count = 0;
        sequences(&mut Vec::new(), 8, 4, &[0], 0, &mut |steps| {
            let mut sizes = [4, 2, 4, 1, 3, 4, 4, 2].into_iter();
            let sized = |&step: &Step| match step {
                Step::Packet(f, _) => Step::Packet(f, sizes.next().expect("one for each step")),
                other => other,
            };
            beside_the_model(&sets, &specs, &steps.iter().map(sized).collect::<Vec<_>>());
            count += 1;
        });
        assert_eq!(count, 18_002);
    }
}

#[test]
fn qfq() {
    every_change(6, "qfq", 1, 8, true);
}

#[test]
fn wf2q_plus() {
    every_change(6, "wf2q+", 1, 8, true);
}

/// Weights that no power of two is a multiple of: equal finishes are equal all the same.
#[test]
fn wf2q_plus_by_other_weights() {
    every_change(5, "wf2q+", 3, 5, true);
    every_change(5, "wf2q+", 6, 1, true);
}

#[test]
fn scfq() {
    every_change(6, "scfq", 2, 1, false);
}

#[test]
fn sfq() {
    every_change(6, "sfq", 3, 5, false);
}

#[test]
fn wfq() {
    every_change(6, "wfq", 5, 3, false);
}

#[test]
fn wf2q() {
    every_change(6, "wf2q", 3, 1, false);
}

#[test]
fn spfq() {
    every_change(6, "spfq", 2, 1, true);
}

#[test]
fn virtual_clock() {
    every_change(6, "virtual-clock", 2, 4, true);
}

#[test]
fn edf() {
    every_change(6, "edf", 8, 2, true);
}

#[test]
fn mtr_ls() {
    every_change(6, "mtr-ls", 1, 2, true);
}

#[test]
fn arc() {
    every_change(6, "arc", 8, 2, true);
}
