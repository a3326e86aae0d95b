//! Every short sequence of packets with every single change at every step, compared with naive
//! models. A change is of a flow's own parameter or of the rate, adds a flow, or replaces the
//! discipline. One byte takes 8 ns.

use crate::common::aggregates::Naive;
use crate::common::emits;
use crate::common::fraction::Fraction;
use crate::common::units::{most_units_of_a_byte, units_of_a_byte};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

const PIPE: PipeId = PipeId(0);
const LARGEST: u32 = 4;
/// Duration of the steeper (or flatter) first slope of curves, in byte times of the link.
const BURST: u64 = 48;
/// SCED with curves whose first slope is half the second.
const SLOW: &str = "sced, slow at first";

/// The part of the configuration that a model needs.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    kind: &'static str,
    /// By flow: the weight, the quantum, the deadline in byte times, or the denominator of the
    /// flow's fraction of the link.
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
            "virtual-clock" => Values::default()
                .with("rate", Value::Rate(Rate(8_000_000_000 / self.byte / total * part))),
            "arc" => {
                Values::default().with("rate", Value::Rate(Rate(8_000_000_000 / self.byte / part)))
            }
            "sced" | SLOW => {
                let rate = 8_000_000_000 / self.byte / part;
                let rates = Values::default().with("rate", Value::Rate(Rate(rate)));
                let burst = Value::Span(Span(BURST * self.byte));
                let first = if self.kind == SLOW { rate / 2 } else { 2 * rate };
                rates.with("burst-rate", Value::Rate(Rate(first))).with("burst-time", burst)
            }
            _ => Values::default().with("weight", Value::Count(part)),
        };
        let flows = self
            .parts
            .iter()
            .map(|&part| FlowSetup::new(value(part), Limit::Packets(40)))
            .collect();
        let rate = Rate(8_000_000_000 / self.byte);
        let scheduler = match self.kind {
            "fifo" => Values::default().with("queue", Value::Limit(Limit::Packets(100))),
            _ => Values::default(),
        };
        let flows: Vec<FlowSetup> = flows;
        let kind = if self.kind == SLOW { "sced" } else { self.kind };
        PipeSpec::new(kind, Setup { rate, largest: LARGEST, scheduler, flows }, Span::ZERO)
    }
}

/// A discipline by its definition. Instants are nanoseconds.
trait Model {
    fn came(&mut self, f: usize, bytes: u32, now: u64);
    /// The flows whose heads may go on the wire: all that are equally valid.
    fn choose(&mut self, now: u64) -> Vec<usize>;
    fn begin(&mut self, f: usize, now: u64, end: u64);
    /// The packet of `f` has left, whether it began here or under another discipline.
    fn left(&mut self, f: usize, now: u64);
    fn change(&mut self, set: &Set, now: u64);
    /// The packet on the wire leaves at another instant, after a change.
    fn retimed(&mut self, _: u64) {}
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Packet(usize, u32),
    /// Passes this number of nanoseconds.
    Pass(u64),
    Change,
}

/// The departures of the engine.
fn ours(sets: &[Set; 2], specs: &[PipeSpec; 2], steps: &[Step]) -> Vec<Emit> {
    let mut engine = Engine::new(std::slice::from_ref(&specs[0])).unwrap();
    let (mut now, mut out, mut last) = (0, Vec::new(), sets[0].parts.len() - 1);
    for step in steps {
        match *step {
            Step::Packet(f, bytes) => {
                // Once a flow was added, it gets the packets for the last flow.
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

/// Asserts that each packet leaves at an instant at which the model could send it, and that no
/// packet stays queued.
fn beside_the_model(sets: &[Set; 2], specs: &[PipeSpec; 2], steps: &[Step]) {
    let sent = ours(sets, specs, steps);
    let mut sent = sent.iter();
    let mut model = model(&sets[0]);
    let mut queues = vec![VecDeque::<(u32, u64, usize)>::new(); 5];
    let (mut now, mut come, mut sending) = (0, 0, None::<(usize, u64)>);
    let (mut byte, mut last) = (sets[0].byte, sets[0].parts.len() - 1);
    let wrong = |what: &str| -> ! { panic!("{what}: {sets:?} {steps:?}") };
    let mut decide =
        |model: &mut dyn Model, queues: &[VecDeque<(u32, u64, usize)>], now: u64, byte: u64| {
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
                    // In order of arrival, the packet on the wire before all others. Packets of one
                    // instant are ordered by the single queue, if there is one.
                    let of =
                        |f: usize| queues[f].iter().map(move |&(bytes, at, n)| (at, f, bytes, n));
                    let mut all: Vec<_> = (0..5).flat_map(of).collect();
                    all.sort_by_key(|&(at, f, _, n)| {
                        (at, if sets[0].kind == "fifo" { n } else { f })
                    });
                    if let Some(first) =
                        sending.and_then(|(f, _)| all.iter().position(|p| p.1 == f))
                    {
                        all[..=first].rotate_right(1);
                    }
                    model = self::model(&sets[1]);
                    for (_, f, bytes, _) in all {
                        model.came(f, bytes, now);
                    }
                }
                // The remaining bytes of the packet on the wire, at the new rate. A fraction of a
                // nanosecond makes no difference, as later packets take whole nanoseconds.
                if let Some((_, end)) = &mut sending {
                    *end = now + (*end - now) * sets[1].byte / sets[0].byte;
                    model.retimed(*end);
                }
                while let Some((f, end)) = sending.filter(|&(_, end)| end <= now) {
                    queues[f].pop_front();
                    model.left(f, end);
                    sending = decide(&mut *model, &queues, end, byte);
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
        "sced" | SLOW => Box::new(Curves::new(set)),
        "qfq+" => Box::new(Naive::new(&parts)),
        "ffs" => Box::new(Buckets::new(&parts)),
        "timer-wheels" => Box::new(Slots::new(&parts)),
        kind @ ("qfq" | "wf2q+") => Box::new(Even::new(kind == "qfq", &parts)),
        _ => Box::new(Stamps::new(set)),
    }
}

/// The model of FIFO: the flows of the queued packets, in order of arrival.
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

/// Deficit round robin: queues, deficits, and the flows that wait for a visit.
struct Drr {
    quanta: Vec<u64>,
    flows: Vec<(VecDeque<u64>, u64)>,
    round: VecDeque<usize>,
    /// True if the first flow has got its quantum.
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
        self.quanta.clone_from(&set.parts);
        for (&quantum, (_, deficit)) in self.quanta.iter().zip(&mut self.flows) {
            *deficit = (*deficit).min(quantum);
        }
    }
}

/// The move-to-rear list. Parts of the quantum are as small as possible: that of the smallest
/// weight is a largest packet.
struct MoveToRear {
    parts: Vec<i64>,
    /// Flows in the order of the list, with the rest of their parts.
    list: Vec<(usize, i64)>,
    queues: [VecDeque<u32>; 5],
}

impl MoveToRear {
    fn new(weights: &[u64]) -> MoveToRear {
        let parts = MoveToRear::parts(weights);
        MoveToRear {
            list: parts.iter().copied().enumerate().collect(),
            parts,
            queues: Default::default(),
        }
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
        self.list
            .iter()
            .map(|&(f, _)| f)
            .find(|&f| !self.queues[f].is_empty())
            .into_iter()
            .collect()
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

/// Adaptive rate control. A slice is the time of a largest packet at the flow's rate.
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
            flow.expected =
                flow.expected.max(now) + u64::from(LARGEST) * self.set.byte * self.set.parts[f];
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
    /// Slices that have begun continue; a flow's debt is at most a byte less than a largest packet.
    fn change(&mut self, set: &Set, _: u64) {
        self.set = set.clone();
        self.flows.iter_mut().for_each(|flow| flow.left = flow.left.max(1 - i64::from(LARGEST)));
    }
}

/// WF2Q+ and QFQ, examining every flow each time. QFQ's weights are powers of two, as its own
/// numbers are exact then; and from 1 to 8, so that no exact start is a multiple of `sigma` while
/// its rounded value lies below that multiple.
struct Even {
    rounded: bool,
    /// The step of the finest rounding: 64 units.
    finest: Fraction,
    time: Fraction,
    /// The packet on the wire: the bytes that the virtual time has not counted, the instant of the
    /// last count, and the end of the packet.
    wire: (Fraction, u64, u64),
    flows: Vec<EvenFlow>,
}

struct EvenFlow {
    weight: u64,
    sigma: Fraction,
    queue: VecDeque<u32>,
    start: Fraction,
    present: bool,
    /// True if it is empty, but still counts in the virtual time.
    silent: bool,
}

impl EvenFlow {
    fn new(finest: Fraction, weight: u64) -> EvenFlow {
        let (packet, mut sigma) = (Fraction::new(LARGEST, weight), finest);
        while sigma < packet {
            sigma = sigma.times(2, 1);
        }
        EvenFlow {
            weight,
            sigma,
            queue: VecDeque::new(),
            start: Fraction::ZERO,
            present: false,
            silent: false,
        }
    }
}

impl Even {
    fn new(rounded: bool, weights: &[u64]) -> Even {
        let finest = Even::finest(rounded, weights);
        let flows = weights.iter().map(|&w| EvenFlow::new(finest, w)).collect();
        Even { rounded, finest, time: Fraction::ZERO, wire: (Fraction::ZERO, 0, 0), flows }
    }
    fn finest(rounded: bool, weights: &[u64]) -> Fraction {
        let byte = match rounded {
            true => most_units_of_a_byte(weights),
            false => units_of_a_byte(weights).expect("small weights"),
        };
        Fraction::new(1 << 6, byte)
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
    /// Counts the bytes that the wire has carried until `now`.
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
        let all: Vec<_> = (0..self.flows.len())
            .filter(|&f| self.flows[f].present)
            .map(|f| (f, of(&self.flows[f])))
            .collect();
        let Some(soonest) = all.iter().map(|&(_, (start, _))| start).min() else {
            return Vec::new();
        };
        let time = self.time.max(soonest);
        let started = all.into_iter().filter(|&(_, (start, _))| start <= time);
        let started: Vec<_> = started.map(|(f, (_, finish))| (finish, f)).collect();
        let (least, first) = *started.iter().min().expect("the soonest has started");
        self.rise(time);
        match rounded {
            true => {
                started.into_iter().filter(|&(finish, _)| finish == least).map(|(_, f)| f).collect()
            }
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
    fn retimed(&mut self, end: u64) {
        let (left, from, _) = self.wire;
        self.wire = (left, from, end);
        if from >= end {
            self.wire.0 = Fraction::ZERO;
            self.work(left);
        }
    }
    /// A flow that keeps its weight keeps its start. Other flows keep their debt in bytes. Silent
    /// flows without a debt are removed. WF2Q+ does not examine flows that keep their weight: it
    /// removes such a flow only if flows are added, or the smallest weight reaches another power of
    /// two. While there are packets, its unit changes only with that power of two.
    fn change(&mut self, set: &Set, now: u64) {
        self.pass(now);
        if self.flows.iter().all(|f| !f.present)
            && self.finest != Even::finest(self.rounded, &set.parts)
        {
            *self = Even::new(self.rounded, &set.parts);
            return;
        }
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.weight).collect();
        let rescales = most_units_of_a_byte(&before) != most_units_of_a_byte(&set.parts);
        if rescales {
            self.finest = Even::finest(self.rounded, &set.parts);
            for flow in &mut self.flows {
                flow.sigma = EvenFlow::new(self.finest, flow.weight).sigma;
            }
        }
        let all = self.rounded || rescales || set.parts.len() > self.flows.len();
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

/// QFQ+ ignores the instants: its virtual time depends on the bytes sent only.
impl Model for Naive {
    fn came(&mut self, f: usize, bytes: u32, _: u64) {
        self.arrive(f, bytes);
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        self.choose()
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        self.begin(f);
    }
    fn left(&mut self, f: usize, _: u64) {
        self.left(f);
    }
    fn change(&mut self, set: &Set, _: u64) {
        self.change(&set.parts);
    }
}

/// SCED by definition: a flow's curve is the minimum of the curves that began with its backlogs,
/// and each of these is the minimum of two lines. All lines are kept, with the bytes that the flow
/// had sent when each began. A curve that is slow at first is the maximum of two lines. The minimum
/// of all such curves would have many pieces; instead the model takes the minimum of all first
/// lines, the minimum of all second lines, and the maximum of both.
struct Curves {
    set: Set,
    queues: [VecDeque<u32>; 5],
    sent: [u64; 5],
    /// The lines of the burst, then the others.
    lines: [[Vec<Line>; 5]; 2],
}

#[derive(Clone, Copy)]
struct Line {
    from: Fraction,
    sent: u64,
}

impl Curves {
    fn new(set: &Set) -> Curves {
        Curves {
            set: set.clone(),
            queues: Default::default(),
            sent: [0; 5],
            lines: Default::default(),
        }
    }
    /// Nanoseconds per byte.
    fn slope(set: &Set, line: usize, f: usize) -> Fraction {
        match (line, set.kind) {
            (0, SLOW) => Fraction::of(2 * set.byte * set.parts[f]),
            (0, _) => Fraction::new(set.byte * set.parts[f], 2),
            _ => Fraction::of(set.byte * set.parts[f]),
        }
    }
    /// The time by which a line begins before the start of the backlog. The second line begins a
    /// burst's length before it or, if the curve is slow at first, half of a burst's length after
    /// it: so it meets the first line at the end of the burst.
    fn before(set: &Set, line: usize) -> Fraction {
        match (line, set.kind) {
            (0, _) => Fraction::ZERO,
            (_, SLOW) => Fraction::ZERO.minus(Fraction::new(BURST * set.byte, 2)),
            _ => Fraction::of(BURST * set.byte),
        }
    }
}

impl Model for Curves {
    fn came(&mut self, f: usize, bytes: u32, now: u64) {
        if self.queues[f].is_empty() {
            let line = Line { from: Fraction::of(now), sent: self.sent[f] };
            self.lines.iter_mut().for_each(|lines| lines[f].push(line));
        }
        self.queues[f].push_back(bytes);
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        let deadline = |f: usize| {
            let end = self.sent[f] + u64::from(*self.queues[f].front()?);
            let reaches = |line: usize, of: &Line| {
                let time = Curves::slope(&self.set, line, f).times(end - of.sent, 1);
                of.from.plus(time).minus(Curves::before(&self.set, line))
            };
            let [first, other] =
                [0, 1].map(|line| self.lines[line][f].iter().map(|of| reaches(line, of)).max());
            let deadline = if self.set.kind == SLOW { first.min(other) } else { first.max(other) };
            deadline.map(|deadline| (deadline, f))
        };
        (0..5).filter_map(deadline).min().map(|(_, f)| f).into_iter().collect()
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        self.sent[f] += u64::from(self.queues[f][0]);
    }
    fn left(&mut self, f: usize, _: u64) {
        self.queues[f].pop_front();
    }
    /// Lines stay the same number of bytes ahead or behind; before time zero there is nothing.
    fn change(&mut self, set: &Set, now: u64) {
        let (now, sent) = (Fraction::of(now), self.sent);
        for (line, flows) in self.lines.iter_mut().enumerate() {
            for (f, of) in flows
                .iter_mut()
                .enumerate()
                .flat_map(|(f, all)| all.iter_mut().map(move |of| (f, of)))
            {
                let [before, after] = [&self.set, set].map(|set| Curves::slope(set, line, f));
                let reached = of.from.plus(before.times(sent[f] - of.sent, 1));
                let from = now.plus(reached.minus(now).over(before).by(after)).max(Fraction::ZERO);
                *of = Line { from, sent: sent[f] };
            }
        }
        self.set = set.clone();
    }
}

/// Self-clocked fair queueing by buckets, examining every head each time. It serves a head that
/// finishes in the first bucket; of several such heads, the head that came to the bucket first.
struct Buckets {
    weights: Vec<u64>,
    width: Fraction,
    /// The start of a bucket.
    time: Fraction,
    flows: [Bucketed; 5],
    /// The flow on the wire, or the flow that has been alone since it was there: it is in no
    /// bucket.
    in_hand: Option<usize>,
    entered: u64,
}

struct Bucketed {
    queue: VecDeque<u32>,
    start: Fraction,
    present: bool,
    /// True if it is empty, and other flows have been present ever since.
    silent: bool,
    entered: u64,
}

impl Buckets {
    fn new(weights: &[u64]) -> Buckets {
        let flow = || Bucketed {
            queue: VecDeque::new(),
            start: Fraction::ZERO,
            present: false,
            silent: false,
            entered: 0,
        };
        let flows = std::array::from_fn(|_| flow());
        let (time, width) = (Fraction::ZERO, Buckets::width(weights));
        Buckets { weights: weights.to_vec(), width, time, flows, in_hand: None, entered: 0 }
    }
    /// Width of a bucket: a power of two, so that 4092 buckets hold a largest packet of the least
    /// weight.
    fn width(weights: &[u64]) -> Fraction {
        let packet = Fraction::new(LARGEST, *weights.iter().min().expect("flows"));
        let mut width = Fraction::new(1, 1i64 << 38);
        while width.times(4092, 1) < packet {
            width = width.times(2, 1);
        }
        width
    }
    fn enter(&mut self, f: usize) {
        self.entered += 1;
        self.flows[f].entered = self.entered;
    }
    fn waits(&self, f: usize) -> bool {
        self.flows[f].present && self.in_hand != Some(f)
    }
    fn finish(&self, f: usize) -> Fraction {
        self.flows[f].start.plus(Fraction::new(self.flows[f].queue[0], self.weights[f]))
    }
}

impl Model for Buckets {
    fn came(&mut self, f: usize, bytes: u32, _: u64) {
        self.flows[f].queue.push_back(bytes);
        if !self.flows[f].present {
            let alone = self.flows.iter().all(|f| !f.present);
            let (time, flow) = (self.time, &mut self.flows[f]);
            if !flow.silent || flow.start < time {
                flow.start = time;
            }
            (flow.present, flow.silent) = (true, false);
            self.enter(f);
            if alone {
                self.in_hand = Some(f);
            }
        }
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        let bucket = |&f: &usize| (self.finish(f).floor(self.width), self.flows[f].entered);
        let first = self.in_hand.or_else(|| (0..5).filter(|&f| self.waits(f)).min_by_key(bucket));
        first.into_iter().collect()
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        self.in_hand = Some(f);
        self.flows[f].start = self.finish(f).max(self.time);
        self.time = self.flows[f].start.floor(self.width);
    }
    fn left(&mut self, f: usize, _: u64) {
        let alone = !(0..5).any(|g| self.waits(g));
        let flow = &mut self.flows[f];
        flow.queue.pop_front();
        if flow.queue.is_empty() {
            (flow.present, flow.silent, self.in_hand) = (false, true, None);
            if alone {
                self.flows.iter_mut().for_each(|f| f.silent = false);
            }
        } else if !alone {
            self.in_hand = None;
            self.enter(f);
        }
    }
    /// Heads stay the same number of bytes ahead of the virtual time or behind it, at most a bucket
    /// ahead; they come to their buckets in the order of flows.
    fn change(&mut self, set: &Set, _: u64) {
        let before = self.time;
        self.width = Buckets::width(&set.parts);
        self.time = before.floor(self.width);
        for f in 0..set.parts.len() {
            if let Some(&old) = self.weights.get(f).filter(|&&old| old != set.parts[f]) {
                let flow = &mut self.flows[f];
                let ahead = if flow.present { flow.start.minus(before) } else { Fraction::ZERO };
                flow.start = before.plus(ahead.times(old, set.parts[f]));
            }
            self.flows[f].start = self.flows[f].start.min(self.time.plus(self.width));
            self.enter(f);
        }
        self.weights.clone_from(&set.parts);
    }
}

/// Timer wheels without wheels: every head has a number that states when it is due, and all are
/// examined.
struct Slots {
    weights: Vec<u64>,
    flows: [Slotted; 5],
    time: u128,
    entered: u64,
    sending: Option<usize>,
}

#[derive(Default)]
struct Slotted {
    queue: VecDeque<u32>,
    due: u128,
    /// The length for which it is due.
    bytes: u32,
    entered: u64,
    waits: bool,
}

impl Slots {
    fn new(weights: &[u64]) -> Slots {
        Slots {
            weights: weights.to_vec(),
            flows: Default::default(),
            time: 0,
            entered: 0,
            sending: None,
        }
    }
    /// The cost of a byte is 2^24 at weight 1; at other weights that is divided by the weight and
    /// rounded.
    fn cost(&self, f: usize, bytes: u32) -> u128 {
        let weight = u128::from(self.weights[f]);
        u128::from(bytes) * (((1 << 25) + weight) / (2 * weight))
    }
    fn enter(&mut self, f: usize, due: u128) {
        self.entered += 1;
        let flow = &mut self.flows[f];
        (flow.due, flow.bytes, flow.entered, flow.waits) = (due, flow.queue[0], self.entered, true);
    }
    /// Start and end of a flow's slot, and the least weight that has such slots.
    fn slot(&self, f: usize) -> (u128, u128, u64) {
        let least = (0..)
            .map(|k| 1u64 << k)
            .take_while(|&w| w <= self.weights[f])
            .last()
            .expect("a weight");
        let packet = (u128::from(LARGEST) << 24) / u128::from(least);
        let width =
            (0..).map(|k| 1u128 << k).take_while(|&w| w * 8 <= packet).last().expect("wide enough");
        let start = self.flows[f].due / width * width;
        (start, start + width, least)
    }
}

impl Model for Slots {
    fn came(&mut self, f: usize, bytes: u32, _: u64) {
        self.flows[f].queue.push_back(bytes);
        if self.sending != Some(f) && !self.flows[f].waits {
            self.enter(f, self.time + self.cost(f, bytes));
        }
    }
    fn choose(&mut self, _: u64) -> Vec<usize> {
        let key = |&f: &usize| (self.slot(f).1, u64::MAX - self.slot(f).2, self.flows[f].entered);
        let Some(f) = (0..5).filter(|&f| self.flows[f].waits).min_by_key(key) else {
            return Vec::new();
        };
        let before = self.flows[f].bytes;
        // The head of `f` may have left although this model did not choose it. The flow's next
        // packet then takes its place, unless that packet is longer.
        match self.flows[f].queue.front() {
            Some(&bytes) if bytes <= before => vec![f],
            Some(&bytes) => {
                self.enter(f, self.flows[f].due + self.cost(f, bytes - before));
                self.choose(0)
            }
            None => {
                self.flows[f].waits = false;
                self.choose(0)
            }
        }
    }
    fn begin(&mut self, f: usize, _: u64, _: u64) {
        self.time = self.time.max(self.slot(f).0);
        (self.sending, self.flows[f].waits) = (Some(f), false);
    }
    fn left(&mut self, f: usize, _: u64) {
        self.flows[f].queue.pop_front();
        if self.sending.take_if(|g| *g == f).is_some()
            && let Some(&bytes) = self.flows[f].queue.front()
        {
            self.enter(f, self.flows[f].due + self.cost(f, bytes));
        }
    }
    /// Heads keep their due time, unless that is earlier under the new weight, and come to their
    /// slots in that order. A head that comes to another slot is not due before the current time.
    fn change(&mut self, set: &Set, _: u64) {
        let time = self.time;
        let width = |slots: &Slots, f: usize| slots.slot(f).2;
        let before: Vec<u64> = (0..self.weights.len()).map(|f| width(self, f)).collect();
        self.weights.clone_from(&set.parts);
        let mut heads: Vec<(u128, usize)> = Vec::new();
        for f in (0..before.len()).filter(|&f| self.flows[f].waits) {
            let due = self.flows[f].due;
            let due = if width(self, f) == before[f] { due } else { due.max(time) };
            heads.push((due.min(time + self.cost(f, self.flows[f].queue[0])), f));
        }
        heads.sort_unstable();
        heads.into_iter().for_each(|(due, f)| self.enter(f, due));
    }
}

/// Disciplines that stamp packets: all get their tags at arrival.
struct Stamps {
    set: Set,
    waiting: Vec<Stamped>,
    /// Finish of each flow's last packet.
    lasts: Vec<Fraction>,
    /// Virtual time, as it was at `at`.
    v: Fraction,
    at: u64,
    /// Nanoseconds of a byte of the packet on the wire.
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

    /// Virtual time at `now`; that of the fluid server proceeds from one flow's end to the next.
    fn clock(&mut self, now: u64) -> Fraction {
        match self.set.kind {
            "virtual-clock" | "edf" => self.v = Fraction::of(now),
            "spfq" => self.v = self.v.plus(Fraction::of(now - self.at)),
            "wfq" | "wf2q" => {
                let mut work = Fraction::new(now - self.at, self.byte);
                loop {
                    let present = |f: &usize| self.lasts[*f] > self.v;
                    let weights =
                        (0..self.set.parts.len()).filter(present).map(|f| self.set.parts[f]);
                    let sum = weights.sum::<u64>();
                    let Some(least) = (0..5).filter(present).map(|f| self.lasts[f]).min() else {
                        break;
                    };
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

    /// Differences below this may not be resolved by rounded tags; with weights and deadlines
    /// nothing is rounded, and equal tags are served in the order of flows.
    fn near(&self) -> Fraction {
        match self.set.kind {
            "virtual-clock" | "spfq" => Fraction::new(1, 1 << 20),
            _ => Fraction::ZERO,
        }
    }

    /// Virtual time of a byte of `f`.
    fn slope(set: &Set, f: usize) -> Fraction {
        match set.kind {
            "virtual-clock" | "spfq" => {
                Fraction::new(set.byte * set.parts.iter().sum::<u64>(), set.parts[f])
            }
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
        assert!(
            self.waiting.is_empty() || !heads.is_empty(),
            "the fluid has started what the link has"
        );
        let best = best.map(|p| p.flow);
        if near == Fraction::ZERO { best.take(1).collect() } else { best.collect() }
    }
    fn retimed(&mut self, _: u64) {
        self.byte = self.set.byte;
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
    /// Tags stay the same number of bytes ahead of the virtual time.
    fn change(&mut self, set: &Set, now: u64) {
        let v = self.clock(now);
        let old = std::mem::replace(&mut self.set, set.clone());
        let by_length = |tag: Fraction, f: usize| {
            // A flow with a deadline gets its new deadline.
            if set.kind == "edf" {
                return tag
                    .plus(Fraction::of(8 * set.parts[f]))
                    .minus(Fraction::of(8 * old.parts[f]));
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
            let (f, bytes) = (
                packet.flow,
                packet.finish.minus(packet.start).over(Stamps::slope(&old, packet.flow)),
            );
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

/// All sequences of `left` more steps, each of them a packet of a flow or a pause; flows are first
/// used in their order, because they are equal at first.
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

/// Sequences of `length` steps with three flows and two sizes, each change at each place. Flows are
/// equal, so of the 117,649 sequences of six steps only the 19,973 that differ after renaming are
/// run. After a packet no time passes, or half of a byte's time.
fn every_change(length: usize, kind: &'static str, part: u64, another: u64, from_fifo: bool) {
    every_change_of(length, kind, [part; 3], another, from_fifo);
}

/// The same for flows that may differ: then all sequences are run.
fn every_change_of(
    length: usize,
    kind: &'static str,
    parts: [u64; 3],
    another: u64,
    from_fifo: bool,
) {
    let set = Set { kind, parts: parts.into(), byte: 8 };
    let alike = parts.iter().all(|part| *part == parts[0]);
    let mut changes = vec![[set.clone(), Set { byte: 16, ..set.clone() }]];
    for f in (0..3).filter(|&f| parts[f] != another) {
        let mut changed = set.clone();
        changed.parts[f] = another;
        changes.push([set.clone(), changed]);
    }
    let more = Set { parts: [set.parts.clone(), vec![another]].concat(), ..set.clone() };
    changes.push([set.clone(), more]);
    let fifo = Set { kind: "fifo", ..set.clone() };
    changes.extend(from_fifo.then(|| [fifo.clone(), set.clone()]));
    changes.push([set.clone(), fifo]);
    let specs: Vec<[PipeSpec; 2]> =
        changes.iter().map(|sets| [sets[0].spec(), sets[1].spec()]).collect();
    let mut count = 0;
    sequences(&mut Vec::new(), length, 3, &[2, 4], if alike { 0 } else { 3 }, &mut |steps| {
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
    let of_all = 7usize.pow(length as u32);
    assert_eq!(count, if alike { [2923, 19_973][length - 5] } else { of_all });
}

#[test]
fn drr() {
    every_change(6, "drr", 5, 9, true);
}

/// Eight steps, four flows of equal or different quanta that come into play in their order: 18,002
/// sequences.
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

/// The smallest weight rises above a power of two or falls below it, so that the unit of virtual
/// time changes.
#[test]
fn qfq_in_another_unit() {
    every_change(5, "qfq", 8, 1, true);
    every_change_of(5, "qfq", [1, 4, 4], 8, true);
}

/// Two aggregates of one flow become one of two flows, or flows change to another aggregate; an
/// added flow enlarges its aggregate.
#[test]
fn qfq_plus() {
    every_change_of(6, "qfq+", [1, 2, 4], 2, true);
    every_change_of(5, "qfq+", [2, 1, 1], 2, true);
    every_change_of(5, "qfq+", [1, 4, 1], 8, true);
    every_change_of(5, "qfq+", [2, 4, 8], 1, true);
}

#[test]
fn wf2q_plus() {
    every_change(6, "wf2q+", 1, 8, true);
}

/// Weights without a power of two as a common multiple: equal finishes are still equal.
#[test]
fn wf2q_plus_by_other_weights() {
    every_change(5, "wf2q+", 3, 5, true);
    every_change(5, "wf2q+", 6, 1, true);
    every_change_of(5, "wf2q+", [1, 4, 4], 8, true);
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

/// The sum of the curves of all flows is below the link's line, bursts too.
#[test]
fn sced() {
    every_change(6, "sced", 16, 4, true);
}

/// Curves whose first slope is half the second.
#[test]
fn sced_slow_at_first() {
    every_change(6, SLOW, 16, 4, true);
}

/// The width of a bucket follows from the smaller weight. At the larger weight a byte is an eighth
/// of a bucket, so that buckets blur the order of later packets.
#[test]
fn ffs() {
    every_change(6, "ffs", 4096, 1, true);
    every_change(5, "ffs", 1, 4, true);
}

#[test]
fn timer_wheels() {
    every_change(6, "timer-wheels", 3, 40, true);
    every_change(5, "timer-wheels", 5, 7, true);
}
