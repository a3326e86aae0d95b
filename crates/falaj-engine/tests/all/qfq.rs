//! WF2Q+ and QFQ against naive models, and the evenness of their service.

use crate::common::fraction::Fraction;
use crate::common::units::{most_units_of_a_byte, units_of_a_byte};
use crate::common::{Dice, emits};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit, Packet};
use falaj_sched::registry::{self, Visitor};
use falaj_sched::scheduler::instance::SchedulerInstance;
use falaj_sched::scheduler::{Inspection, Scheduler};
use falaj_sched::units::rate::{Rate, Wire};
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// One byte takes 8 ns.
fn setup(weights: &[u64], largest: u32) -> Setup {
    let flow = |&w: &u64| {
        let quantum = Value::Bytes(w * u64::from(largest));
        let values = Values::default().with("weight", Value::Count(w)).with("quantum", quantum);
        FlowSetup::new(values, Limit::Packets(1_000_000))
    };
    Setup {
        rate: Rate::from_mbit(1000),
        largest,
        scheduler: Values::default(),
        flows: weights.iter().map(flow).collect(),
    }
}

/// A scheduler of any kind, on a wire.
trait Driven {
    fn arrive(&mut self, f: usize, bytes: u32);
    /// The transmission of the discipline's choice begins.
    fn begin(&mut self) -> Option<(usize, u32)>;
    /// Half of the transmission has passed.
    fn halfway(&mut self);
    /// The transmission has ended; the discipline is asked for the next packet at once.
    fn end(&mut self);
    fn is_reusable(&mut self, f: usize) -> bool;
}

struct Driver<D: CompleteDiscipline> {
    station: SchedulerInstance<D>,
    wire: Wire,
    now: Time,
    sending: Option<(FlowId, Time)>,
}

impl<D: CompleteDiscipline> Driven for Driver<D> {
    fn arrive(&mut self, f: usize, bytes: u32) {
        let packet = Packet { handle: 0, bytes, flow: FlowId(f as u32), arrival: self.now };
        self.station.arrive(packet, self.now).expect("room");
    }
    fn begin(&mut self) -> Option<(usize, u32)> {
        match self.station.next(self.now, &self.wire) {
            Decision::Serve(queue) => {
                let (packet, sent) = self.station.take(queue, self.now, &mut self.wire);
                self.sending = Some((queue, sent.end));
                Some((packet.flow.index(), packet.bytes))
            }
            Decision::Idle => None,
            other => panic!("{other:?}"),
        }
    }
    fn halfway(&mut self) {
        let (_, end) = self.sending.expect("begun");
        self.now = Time(u64::midpoint(self.now.0, end.0));
    }
    fn end(&mut self) {
        let (queue, end) = self.sending.take().expect("begun");
        self.now = end;
        self.station.finish(queue, end);
        self.station.next(end, &self.wire);
    }
    fn is_reusable(&mut self, f: usize) -> bool {
        self.station.is_reusable(FlowId(f as u32), self.now)
    }
}

fn drive(kind: &str, setup: &Setup) -> Box<dyn Driven> {
    struct Make<'a>(&'a Setup);
    impl Visitor for Make<'_> {
        type Output = Box<dyn Driven>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Box<dyn Driven> {
            let wire = Wire::new(self.0.rate);
            Box::new(Driver {
                station: SchedulerInstance::new(self.0, discipline),
                wire,
                now: Time::ZERO,
                sending: None,
            })
        }
    }
    registry::build(kind, setup, Make(setup)).expect("valid")
}

/// Worst lag of flow `k` behind its share `phi = w/sum w`, by definition: the largest rise of
/// `phi W - W_k` within a backlog, up to a departure of the flow itself. `W` is the number of bytes
/// that the link has sent, and `W_k` the number that it has sent of the flow.
struct Lag {
    weights: Vec<u64>,
    sum: i128,
    served: i128,
    own: Vec<i128>,
    queued: Vec<u32>,
    lowest: Vec<i128>,
    worst: Vec<i128>,
    /// The same up to just before those departures.
    before: Vec<i128>,
}

/// Asserts that no flow lags more than its bound after changes. Other flows may still be ahead from
/// before the change: by three packets under QFQ, by one under WF2Q+ (and one byte for rounding).
fn no_flow_lags_after_changes(lag: &Lag, kind: &str, largest: u32, of: &str) {
    for (f, &worst) in lag.worst.iter().enumerate() {
        let bound = match kind {
            "qfq" => lag.qfq_bound(f, largest, 3 * largest),
            _ => 2 * lag.wf2q_bound(f, largest, largest) + lag.sum,
        };
        assert!(worst <= bound, "{of}, {kind}: flow {f} lags by {}", worst / lag.sum);
    }
}

impl Lag {
    fn new(weights: &[u64]) -> Lag {
        let n = weights.len();
        let sum = weights.iter().sum::<u64>().into();
        let zeros = || vec![0; n];
        let (own, lowest, worst, before) = (zeros(), zeros(), zeros(), zeros());
        Lag {
            weights: weights.to_vec(),
            sum,
            served: 0,
            own,
            queued: vec![0; n],
            lowest,
            worst,
            before,
        }
    }
    /// The lag, multiplied by the sum of the weights.
    fn lag(&self, f: usize) -> i128 {
        i128::from(self.weights[f]) * self.served - self.sum * self.own[f]
    }
    fn arrive(&mut self, f: usize) {
        if self.queued[f] == 0 {
            self.lowest[f] = self.lag(f);
        }
        self.queued[f] += 1;
    }
    fn depart(&mut self, f: usize, bytes: u32) {
        self.before[f] = self.before[f].max(self.lag(f) - self.lowest[f]);
        self.served += i128::from(bytes);
        self.own[f] += i128::from(bytes);
        self.queued[f] -= 1;
        let lag = self.lag(f);
        self.worst[f] = self.worst[f].max(lag - self.lowest[f]);
        self.lowest[f] = self.lowest[f].min(lag);
    }
    /// The worst lag of all flows in whole bytes, rounded to the nearest.
    fn of_all(&self, worst: &[i128]) -> i128 {
        (2 * worst.iter().max().expect("flows") + self.sum) / (2 * self.sum)
    }
    /// QFQ's bound for a flow, multiplied by the sum of the weights: `3 w sigma + 2 phi L`, with
    /// `sigma` in bytes per unit of weight and `L` the largest packet, plus the amount by which a
    /// packet may be longer than the next.
    fn qfq_bound(&self, f: usize, largest: u32, spread: u32) -> i128 {
        let (w, largest) = (self.weights[f], u64::from(largest));
        // The least power of two that is at least L/w, in 1/2^32 of a byte.
        let sigma = ((largest << 32).div_ceil(w)).next_power_of_two();
        let rounded = (i128::from(w) * self.sum * 3 * i128::from(sigma)) >> 32;
        rounded + i128::from(2 * w * largest) + i128::from(spread) * self.sum
    }
    /// WF2Q+'s bound: `L_k + (L - L_k) phi`, with `L_k` the flow's largest packet, here `own`.
    fn wf2q_bound(&self, f: usize, own: u32, largest: u32) -> i128 {
        i128::from(own) * self.sum + i128::from(largest - own) * i128::from(self.weights[f])
    }
}

/// Sets of equal flows: weight, packet length, number.
type FlowSets<'a> = &'a [(u64, u32, usize)];

/// Fills the queues evenly until `high` packets of each flow are queued, then serves them until
/// `low` are left, and so on: returns the lag of each flow, and the order of service.
fn fill_and_drain(
    kind: &str,
    sets: FlowSets<'_>,
    low: usize,
    high: usize,
    rounds: usize,
) -> (Lag, Vec<usize>) {
    let flows: Vec<(u64, u32)> =
        sets.iter().flat_map(|&(w, bytes, n)| vec![(w, bytes); n]).collect();
    let weights: Vec<u64> = flows.iter().map(|f| f.0).collect();
    let largest = flows.iter().map(|f| f.1).max().expect("some");
    let mut station = drive(kind, &setup(&weights, largest));
    let mut lag = Lag::new(&weights);
    // Flows by their number of queued packets, in the order in which they reached that number.
    let mut with: Vec<VecDeque<usize>> = vec![VecDeque::new(); high + 1];
    with[0].extend(0..flows.len());
    let (mut waiting, mut order) = (0, Vec::new());
    for _ in 0..rounds {
        while waiting < high * flows.len() {
            let level = with.iter().position(|w| !w.is_empty()).expect("a flow");
            let f = with[level].pop_front().expect("not empty");
            // At the maximum number of packets flows stay in the list.
            with[(level + 1).min(high)].push_back(f);
            station.arrive(f, flows[f].1);
            lag.arrive(f);
            waiting += 1;
        }
        while waiting > low * flows.len() {
            let (f, bytes) = station.begin().expect("packets wait");
            station.end();
            let level = lag.queued[f] as usize;
            lag.depart(f, bytes);
            with[level].retain(|&other| other != f);
            with[level - 1].push_back(f);
            waiting -= 1;
            order.push(f);
        }
    }
    (lag, order)
}

/// The nine mixes of flows in which dummynet's QFQ was measured: the flows; the least and the most
/// packets of each that are queued; in bytes dummynet's lag, its lag with the true sum of weights,
/// and falaj's lag.
const MIXES: &[(FlowSets<'static>, usize, usize, [i128; 3])] = &[
    (&[(1, 1500, 10)], 0, 30, [5400, 5400, 5400]),
    (&[(1, 1500, 64)], 0, 20, [5906, 5906, 5906]),
    (&[(10, 1500, 1), (1, 1500, 10)], 0, 30, [15_000, 4125, 4125]),
    (&[(20, 1500, 1), (1, 1500, 20)], 0, 30, [30_000, 3188, 3188]),
    (&[(50, 1500, 1), (1, 1500, 50)], 15, 30, [75_000, 2655, 2655]),
    (&[(100, 1500, 1), (1, 1500, 500)], 0, 30, [250_000, 4503, 4490]),
    (&[(1, 1500, 512), (100, 1500, 1)], 0, 30, [250_980, 4534, 4520]),
    (&[(100, 64, 1), (1, 1500, 100)], 0, 30, [149_904, 2229, 2229]),
    (&[(64_000, 1500, 1), (1280, 1500, 50)], 0, 30, [3345, 3345, 3345]),
];

#[test]
fn lags_are_those_of_the_true_sum_in_every_mix() {
    for &(sets, low, high, [_, _, ours]) in MIXES {
        let lag = |kind| fill_and_drain(kind, sets, low, high, 2).0;
        let (qfq, wf2q) = (lag("qfq"), lag("wf2q+"));
        println!("{sets:?}: {} {}", qfq.of_all(&qfq.before), wf2q.of_all(&wf2q.before));
        let lens: Vec<u32> = sets.iter().flat_map(|&(_, bytes, n)| vec![bytes; n]).collect();
        let largest = *lens.iter().max().expect("some");
        for (f, &own) in lens.iter().enumerate() {
            assert!(
                qfq.worst[f] <= qfq.qfq_bound(f, largest, 0),
                "{sets:?} {f}: QFQ {}",
                qfq.worst[f]
            );
            assert!(
                wf2q.worst[f] <= wf2q.wf2q_bound(f, own, largest),
                "{sets:?} {f}: WF2Q+ {}",
                wf2q.worst[f]
            );
        }
        assert!(
            (qfq.of_all(&qfq.before) - ours).abs() <= 1,
            "{sets:?}: {}",
            qfq.of_all(&qfq.before)
        );
    }
}

/// One flow of weight 10 (H) and ten of weight 1.
#[test]
fn a_heavy_flow_is_served_evenly_but_by_drr() {
    for (kind, expected) in [
        ("drr", "HHHHHHHHHH..........HHHHHHHHHH.."),
        ("qfq", "HH..HH.HH..H..HH..HH.H..HH..HH.H"),
        ("wf2q+", "H.H.H.H.H.H.H.H.H.H.H.H.H.H.H.H."),
    ] {
        let (_, order) = fill_and_drain(kind, MIXES[2].0, 0, 30, 1);
        let order: String =
            order.iter().take(32).map(|&f| if f == 0 { 'H' } else { '.' }).collect();
        assert_eq!(order, expected, "{kind}");
    }
    let worst = |kind| {
        let (lag, _) = fill_and_drain(kind, MIXES[4].0, 15, 30, 2);
        lag.of_all(&lag.worst)
    };
    let (drr, qfq, wf2q) = (worst("drr"), worst("qfq"), worst("wf2q+"));
    assert!(drr > 10 * qfq && qfq > wf2q, "{drr} {qfq} {wf2q}");
}

/// WF2Q+ and QFQ by definition, in fractions, examining every flow each time; no groups, no heaps.
/// Weights of QFQ are powers of two, as its own numbers are exact then.
struct Naive {
    rounded: bool,
    now: Fraction,
    /// The bytes of the packet on the wire that the virtual time has not counted, and the number of
    /// these that have been sent. WF2Q+'s virtual time counts sent bytes when a packet arrives at
    /// an empty flow, and at the end of a transmission. QFQ's counts the whole packet when its
    /// transmission begins.
    left: Fraction,
    sent: Fraction,
    flows: Vec<NaiveFlow>,
}

struct NaiveFlow {
    weight: i128,
    /// The unit to which starts and finishes are rounded.
    sigma: Fraction,
    queue: VecDeque<u32>,
    start: Fraction,
    present: bool,
    /// True if it is empty, but the fluid system still serves it.
    silent: bool,
}

impl Naive {
    fn new(kind: &str, weights: &[u64], largest: u32) -> Naive {
        // The finest rounding is 64 units.
        let byte = match kind {
            "qfq" => most_units_of_a_byte(weights),
            _ => units_of_a_byte(weights).expect("small weights"),
        };
        let flow = |&w: &u64| {
            let (packet, mut sigma) = (Fraction::new(largest, w), Fraction::new(1 << 6, byte));
            while sigma < packet {
                sigma = sigma.plus(sigma);
            }
            let (queue, start) = (VecDeque::new(), Fraction::ZERO);
            NaiveFlow { weight: w.into(), sigma, queue, start, present: false, silent: false }
        };
        let zero = Fraction::ZERO;
        Naive {
            rounded: kind == "qfq",
            now: zero,
            left: zero,
            sent: zero,
            flows: weights.iter().map(flow).collect(),
        }
    }

    fn rise(&mut self, to: Fraction) {
        self.now = to;
        for f in &mut self.flows {
            f.silent &= f.start.floor(f.sigma) >= to.floor(f.sigma);
        }
    }

    fn work(&mut self) {
        let bytes = std::mem::replace(&mut self.sent, Fraction::ZERO);
        self.left = self.left.minus(bytes);
        let sum: i128 = self.flows.iter().filter(|f| f.present || f.silent).map(|f| f.weight).sum();
        self.rise(self.now.plus(bytes.times(1, sum)));
    }

    fn arrive(&mut self, f: usize, bytes: u32) {
        let comes = !self.flows[f].present;
        if comes && self.sent > Fraction::ZERO {
            self.work();
        }
        let now = self.now;
        let flow = &mut self.flows[f];
        flow.queue.push_back(bytes);
        if comes {
            if !flow.silent || flow.start < now {
                flow.start = now;
            }
            (flow.present, flow.silent) = (true, false);
        }
    }

    /// The flows that may be served: all that are equally valid.
    fn choose(&mut self) -> Vec<usize> {
        let present = || (0..self.flows.len()).filter(|&f| self.flows[f].present);
        let rounded = self.rounded;
        let start = |f: usize| {
            let flow = &self.flows[f];
            if rounded { flow.start.floor(flow.sigma) } else { flow.start }
        };
        let finish = |f: usize| {
            let flow = &self.flows[f];
            let packet = Fraction::new(flow.queue[0], flow.weight);
            start(f).plus(if rounded { flow.sigma.plus(flow.sigma) } else { packet })
        };
        let lowest = |all: Vec<Fraction>| all.into_iter().reduce(|a, b| if b < a { b } else { a });
        let Some(soonest) = lowest(present().map(start).collect()) else { return Vec::new() };
        let now = if soonest > self.now { soonest } else { self.now };
        let started: Vec<usize> = present().filter(|&f| start(f) <= now).collect();
        let first =
            lowest(started.iter().map(|&f| finish(f)).collect()).expect("a flow has started");
        let best = started.into_iter().filter(|&f| finish(f) == first).collect();
        self.rise(now);
        best
    }

    fn begin(&mut self, f: usize) {
        let bytes = self.flows[f].queue[0];
        (self.left, self.sent) = (Fraction::of(bytes), Fraction::ZERO);
        if self.rounded {
            self.sent = self.left;
            self.work();
        }
        let flow = &mut self.flows[f];
        flow.start = flow.start.plus(Fraction::new(bytes, flow.weight));
    }

    /// Half of the packet has been sent.
    fn halfway(&mut self) {
        self.sent = self.left.times(1, 2);
    }

    fn end(&mut self, f: usize) {
        self.sent = self.left;
        if self.sent > Fraction::ZERO {
            self.work();
        }
        let now = self.now;
        let flow = &mut self.flows[f];
        flow.queue.pop_front();
        if flow.queue.is_empty() {
            (flow.present, flow.silent) = (false, flow.start > now);
        }
        if self.flows.iter().all(|f| !f.present) {
            self.flows.iter_mut().for_each(|f| f.silent = false);
        }
        self.choose();
    }
}

/// A packet arrives at a flow, or the next half of a transmission passes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Arrive(usize),
    Go,
}

/// Runs the steps, then continues until nothing is queued, in parallel with the model.
fn beside_the_model(kind: &str, weights: &[u64], steps: &[Step]) {
    const SIZES: [u32; 5] = [4, 2, 4, 1, 3];
    let largest = 4;
    let mut station = drive(kind, &setup(weights, largest));
    let mut model = Naive::new(kind, weights, largest);
    // The flow on the wire, and whether half of its packet has been sent.
    let mut wire: Option<(usize, bool)> = None;
    let mut come = 0;
    let mut go = |station: &mut Box<dyn Driven>, model: &mut Naive| {
        wire = match wire {
            None => {
                let best = model.choose();
                let Some((f, _)) = station.begin() else {
                    assert!(best.is_empty(), "{kind} {weights:?} {steps:?}: idle");
                    return false;
                };
                let right = if kind == "qfq" { best.contains(&f) } else { best[0] == f };
                assert!(right, "{kind} {weights:?} {steps:?}: {f} instead of {best:?}");
                model.begin(f);
                Some((f, false))
            }
            Some((f, false)) => {
                station.halfway();
                model.halfway();
                Some((f, true))
            }
            Some((f, true)) => {
                station.end();
                model.end(f);
                None
            }
        };
        true
    };
    for &step in steps {
        match step {
            Step::Arrive(f) => {
                let bytes = SIZES[come % SIZES.len()];
                come += 1;
                station.arrive(f, bytes);
                model.arrive(f, bytes);
            }
            Step::Go => {
                go(&mut station, &mut model);
            }
        }
    }
    while go(&mut station, &mut model) {}
    assert!(
        (0..weights.len()).all(|f| station.is_reusable(f)),
        "{kind} {steps:?}: a flow still has a debt after the link was idle"
    );
}

/// All sequences of `left` more steps; flows come into play in their order.
fn all_sequences(
    steps: &mut Vec<Step>,
    left: usize,
    flows: usize,
    in_play: usize,
    run: &mut impl FnMut(&[Step]),
) {
    if left == 0 {
        return run(steps);
    }
    let arrivals = (0..(in_play + 1).min(flows)).map(Step::Arrive);
    for step in std::iter::once(Step::Go).chain(arrivals) {
        steps.push(step);
        let more = in_play + usize::from(step == Step::Arrive(in_play));
        all_sequences(steps, left - 1, flows, more, run);
        steps.pop();
    }
}

#[test]
fn every_short_sequence_is_served_by_definition() {
    for kind in ["qfq", "wf2q+"] {
        for weights in [[1, 1, 1, 1], [1, 2, 4, 8], [8, 1, 1, 2], [1, 16, 1, 4]] {
            let mut count = 0;
            all_sequences(&mut Vec::new(), 8, 4, 0, &mut |steps| {
                count += 1;
                beside_the_model(kind, &weights, steps);
            });
            assert!(count > 18_000, "{count}");
        }
    }
    // Weights without a power of two as a common multiple: ties are still decided by the flow's
    // number.
    for weights in [[3, 5, 7, 2], [10, 1, 3, 6], [1, 3, 9, 27], [60_060, 1, 6, 65_000]] {
        all_sequences(&mut Vec::new(), 8, 4, 0, &mut |steps| {
            beside_the_model("wf2q+", &weights, steps);
        });
    }
}

/// Longer sequences, drawn at random, with more flows.
#[test]
fn long_sequences_are_served_by_definition() {
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed);
        let n = dice.from(2, 9) as usize;
        let weights: Vec<u64> = (0..n).map(|_| 1 << dice.from(0, 5)).collect();
        let arrivals = dice.from(2, 5);
        let step = |dice: &mut Dice| match dice.from(0, 9) {
            n if n < arrivals => Step::Arrive(dice.from(0, weights.len() as u64 - 1) as usize),
            _ => Step::Go,
        };
        let steps: Vec<Step> = (0..dice.from(10, 80)).map(|_| step(&mut dice)).collect();
        for kind in ["qfq", "wf2q+"] {
            beside_the_model(kind, &weights, &steps);
        }
        // Few and small weights, so that the model's fractions stay short.
        let others: Vec<u64> = (0..n.min(5)).map(|_| dice.from(1, 6)).collect();
        let among = |&step: &Step| match step {
            Step::Arrive(f) => Step::Arrive(f % others.len()),
            Step::Go => Step::Go,
        };
        beside_the_model("wf2q+", &others, &steps.iter().map(among).collect::<Vec<_>>());
    }
}

/// Packet lengths are in proportion to the weights, so that all packets finish at the same virtual
/// times. The flow's number decides which packet goes first, for a quarter of a million packets.
/// This includes a flow that was absent and gets a packet at such a virtual time.
#[test]
fn equal_finishes_are_equal_however_long_it_goes_on() {
    for weights in
        [&[3, 5, 7][..], &[1, 2, 3, 4, 5, 6, 7], &[65_521, 3], &[1009, 1, 11], &[1; 7], &[7; 11]]
    {
        let bytes = |f: usize| weights[f] as u32;
        let mut station =
            drive("wf2q+", &setup(weights, *weights.iter().max().expect("some") as u32));
        let last = weights.len() - 1;
        (0..last).for_each(|f| (0..2).for_each(|_| station.arrive(f, bytes(f))));
        for round in 0..250_000 / weights.len() {
            // The last flow is absent every other time for a while.
            if round % 1000 < 500 || round % 2 == 0 {
                station.arrive(last, bytes(last));
            }
            let there = if round % 1000 < 500 || round % 2 == 0 { last + 1 } else { last };
            for f in 0..there {
                assert_eq!(station.begin(), Some((f, bytes(f))), "{weights:?}, round {round}");
                if f < last {
                    station.arrive(f, bytes(f));
                }
                station.end();
            }
        }
    }
}

/// Under fair queueing by buckets (`ffs`) a flow lags by at most a packet of each flow, another
/// packet of its own, and two buckets.
#[test]
fn buckets_lag_by_a_packet_of_each_other_flow_and_no_more() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let n = dice.one_of(&[2, 5, 40]) as usize;
        let weights: Vec<u64> = (0..n).map(|_| any_weight(&mut dice)).collect();
        let largest = 1500;
        let mut station = drive("ffs", &setup(&weights, largest));
        let mut lag = Lag::new(&weights);
        for _ in 0..4_000 {
            let f = dice.from(0, n as u64 - 1) as usize;
            let bytes = dice.one_of(&[1, largest, largest]);
            for _ in 0..dice.one_of(&[0, 1, 2]) {
                station.arrive(f, bytes);
                lag.arrive(f);
            }
            if let Some((f, bytes)) = station.begin() {
                station.end();
                lag.depart(f, bytes);
            }
        }
        let least = *weights.iter().min().expect("flows");
        for (f, &w) in weights.iter().enumerate() {
            // Two buckets of at most 1/2046 of the longest packet's time, a packet of each flow and
            // the flow's own.
            let buckets =
                i128::from(w) * lag.sum * i128::from(largest) * 2 / 2046 / i128::from(least)
                    + lag.sum;
            let packets =
                i128::from(w) * i128::from(largest) * n as i128 + i128::from(largest) * lag.sum;
            assert!(lag.worst[f] <= buckets + packets, "seed {seed}: {f} of {weights:?}");
        }
    }
}

fn any_weight(dice: &mut Dice) -> u64 {
    match dice.from(0, 3) {
        0 => dice.from(1, 65_536),
        1 => 1 << dice.from(0, 16),
        _ => dice.from(1, 12),
    }
}

/// Flows that come and go, with packets of any size: no flow ever lags by more than its bound, in
/// any part of any backlog.
#[test]
fn no_flow_lags_more_than_the_bound() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let n = dice.one_of(&[2, 3, 5, 17, 60]);
        let weights: Vec<u64> = (0..n).map(|_| any_weight(&mut dice)).collect();
        let largest = dice.one_of(&[64, 1500, 9000]);
        // Each flow has its own sizes, from this size to the largest.
        let smallest: Vec<u32> = (0..n).map(|_| dice.one_of(&[1, largest / 2, largest])).collect();
        for kind in ["qfq", "wf2q+"] {
            let mut station = drive(kind, &setup(&weights, largest));
            let mut lag = Lag::new(&weights);
            let eager = dice.from(1, 8);
            for _ in 0..3_000 {
                if dice.from(0, 9) < eager {
                    let f = dice.from(0, n - 1) as usize;
                    for _ in 0..dice.one_of(&[1, 1, 1, 30]) {
                        let bytes = dice.from(smallest[f].into(), largest.into()) as u32;
                        station.arrive(f, bytes);
                        lag.arrive(f);
                    }
                }
                if let Some((f, bytes)) = station.begin() {
                    station.end();
                    lag.depart(f, bytes);
                }
            }
            for (f, &smallest) in smallest.iter().enumerate() {
                let bound = match kind {
                    "qfq" => lag.qfq_bound(f, largest, largest - smallest),
                    // One byte is allowed for rounding.
                    _ => lag.wf2q_bound(f, largest, largest) + lag.sum,
                };
                let (worst, bound) =
                    (lag.worst[f] as f64 / lag.sum as f64, bound as f64 / lag.sum as f64);
                assert!(
                    worst <= bound,
                    "seed {seed}, {kind}, flow {f} of {weights:?}: {worst} B > {bound} B"
                );
            }
        }
    }
}

/// A configured flow that is silent does not change the service of others (dummynet divides by a
/// constant sum, Linux by the sum of all classes).
#[test]
fn silent_neighbours_change_nothing() {
    let active = [10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let mut crowded = active.to_vec();
    crowded.extend([65_536; 2000]);
    for kind in ["qfq", "wf2q+"] {
        let order = |weights: &[u64]| {
            let mut station = drive(kind, &setup(weights, 1500));
            (0..30).for_each(|_| (0..active.len()).for_each(|f| station.arrive(f, 1500)));
            let serve = || {
                let (f, _) = station.begin()?;
                station.end();
                Some(f)
            };
            std::iter::from_fn(serve).collect::<Vec<_>>()
        };
        assert_eq!(order(&active), order(&crowded), "{kind}");
    }
}

/// dummynet's QFQ crashes when the sum of weights passes 131 072.
#[test]
fn any_sum_of_weights_is_served() {
    for sets in [&[(100, 1500, 1311)][..], &[(65_536, 1500, 600), (1, 1500, 3)]] {
        for kind in ["qfq", "wf2q+"] {
            let (lag, order) = fill_and_drain(kind, sets, 0, 2, 1);
            assert_eq!(order.len(), 2 * lag.weights.len(), "{kind}");
            for f in 0..lag.weights.len() {
                assert!(lag.worst[f] <= lag.qfq_bound(f, 1500, 0), "{kind} {f}");
            }
        }
    }
    // The largest packet that the numbers allow, at the least and the largest weight.
    let (lag, _) = fill_and_drain("qfq", &[(1, 1 << 18, 2), (65_536, 1 << 18, 2)], 0, 40, 2);
    assert!((0..4).all(|f| lag.worst[f] <= lag.qfq_bound(f, 1 << 18, 0)));
    let refused =
        |setup: &Setup| Engine::new(&[pipe("qfq", setup.clone())]).map(|_| ()).unwrap_err().1;
    assert!(refused(&setup(&[1], (1 << 18) + 1)).to_string().contains("too large"));
    assert!(refused(&setup(&[0], 1500)).to_string().contains("out of range"));
    assert!(refused(&setup(&[1 << 32], 1500)).to_string().contains("out of range"));
}

/// The slot of the heaviest flow's shortest packet is the finest slot, and at least one unit; slot
/// shifts below zero were a class of defects in Linux.
#[test]
fn the_shortest_packets_of_the_heaviest_flows_are_told_apart() {
    for sets in
        [&[(65_536, 1, 4), (1, 1, 4)][..], &[(65_536, 1, 2), (32_768, 2, 2), (3, 3, 2), (1, 1, 2)]]
    {
        for kind in ["qfq", "wf2q+"] {
            let (lag, order) = fill_and_drain(kind, sets, 0, 30, 2);
            assert_eq!(order.len(), 60 * lag.weights.len(), "{kind}");
            let largest = sets.iter().map(|set| set.1).max().expect("some");
            for f in 0..lag.weights.len() {
                assert!(lag.worst[f] <= lag.qfq_bound(f, largest, 0), "{kind} {f}");
            }
        }
    }
}

/// Packets become longer than any before while others are queued and one is on the wire: groups
/// change, as roundings follow the largest packet. In Linux such a change moved a group's index out
/// of its array.
#[test]
fn the_largest_packet_grows_while_packets_wait() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed ^ 0x1_a26e);
        let n = dice.one_of(&[2, 3, 8]) as usize;
        for kind in ["qfq", "wf2q+"] {
            let (mut weights, mut largest) =
                ((0..n).map(|_| any_weight(&mut dice)).collect::<Vec<_>>(), dice.one_of(&[1, 40]));
            let mut engine = Engine::new(&[pipe(kind, setup(&weights, largest))]).expect("valid");
            let (mut out, mut now) = (Vec::new(), Time::ZERO);
            while largest < 1 << 17 {
                // No flow runs empty within the time.
                let packets = dice.from(1, 60);
                for f in (0..n as u32).map(FlowId) {
                    for _ in 0..packets {
                        engine.input(
                            PipeId(0),
                            Unit { flow: f, handle: 0, bytes: largest },
                            now,
                            &mut out,
                        );
                    }
                }
                let until = now + Span(dice.from(1, 8 * u64::from(largest) * packets));
                engine.poll(until, &mut out);
                now = until;
                let mut lag = Lag::new(&weights);
                (0..n).for_each(|f| (0..10_000).for_each(|_| lag.arrive(f)));
                emits(&out).iter().for_each(|e| lag.depart(e.flow.index(), e.bytes));
                out.clear();
                no_flow_lags_after_changes(
                    &lag,
                    kind,
                    largest,
                    &format!("seed {seed}, {weights:?}"),
                );
                largest = (largest * dice.from(1, 9) as u32).min(1 << 17);
                if dice.from(0, 1) == 0 {
                    weights[dice.from(0, n as u64 - 1) as usize] = any_weight(&mut dice);
                }
                let changed = engine
                    .prepare(PipeId(0), &pipe(kind, setup(&weights, largest)))
                    .expect("valid");
                engine.apply(changed, now, &mut out).unwrap();
            }
            engine.poll(Time::NEVER, &mut out);
            assert!(
                (0..n as u32).all(|f| engine.counters(PipeId(0), FlowId(f)).backlog == 0),
                "seed {seed}, {kind}"
            );
        }
    }
}

/// A flow that is silent after each packet keeps its debt: it gets no more than its share, and its
/// state must not be removed before the debt is paid (dummynet removes it).
#[test]
fn leaving_does_not_cancel_a_debt() {
    for kind in ["qfq", "wf2q+"] {
        let mut station = drive(kind, &setup(&[1, 9], 1000));
        let mut sent = [0, 0];
        for _ in 0..20 {
            station.arrive(1, 1000);
        }
        let mut has_one = false;
        for _ in 0..1000 {
            if !has_one {
                station.arrive(0, 1000);
                has_one = true;
            }
            let (f, _) = station.begin().expect("packets wait");
            station.end();
            sent[f] += 1;
            match f {
                0 => {
                    has_one = false;
                    assert!(!station.is_reusable(0), "{kind}: it was served ahead of its share");
                }
                _ => station.arrive(1, 1000),
            }
        }
        assert!((97..=103).contains(&sent[0]), "{kind}: {sent:?}");
    }
}

fn pipe(kind: &'static str, setup: Setup) -> PipeSpec {
    PipeSpec::new(kind, setup, Span::ZERO)
}

/// Weights change by any factor while all flows have packets queued and one is on the wire: nothing
/// is lost, and from that instant on the bounds hold for the new weights.
#[test]
fn weights_change_while_packets_wait() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let n = dice.one_of(&[2, 4, 20]) as usize;
        let largest = 1500;
        let draw = |dice: &mut Dice| (0..n).map(|_| any_weight(dice)).collect::<Vec<u64>>();
        for kind in ["qfq", "wf2q+"] {
            let mut weights = draw(&mut dice);
            // The first flow's weight stays: over all changes it lags no more than without any.
            let (kept, mut fluid) = (weights[0], 0.0);
            let mut engine = Engine::new(&[pipe(kind, setup(&weights, largest))]).expect("valid");
            let (mut out, mut now) = (Vec::new(), Time::ZERO);
            for _ in 0..3_000 {
                for f in 0..n {
                    let unit = Unit { flow: FlowId(f as u32), handle: 0, bytes: largest };
                    engine.input(PipeId(0), unit, now, &mut out);
                }
            }
            for _ in 0..12 {
                let until = now + Span(dice.from(1, 2_500_000));
                engine.poll(until, &mut out);
                now = until;
                let mut lag = Lag::new(&weights);
                (0..n).for_each(|f| (0..3_000).for_each(|_| lag.arrive(f)));
                for e in emits(&out) {
                    lag.depart(e.flow.index(), e.bytes);
                }
                out.clear();
                no_flow_lags_after_changes(
                    &lag,
                    kind,
                    largest,
                    &format!("seed {seed}, {weights:?}"),
                );
                let sum = lag.sum;
                fluid += (lag.served * i128::from(kept)) as f64 / sum as f64 - lag.own[0] as f64;
                let sigma = (f64::from(largest) / kept as f64).log2().ceil().exp2();
                assert!(
                    fluid <= kept as f64 * 3.0 * sigma + 2.0 * f64::from(largest),
                    "seed {seed}, {kind}: {fluid} B"
                );
                weights = draw(&mut dice);
                weights[0] = kept;
                let changed = engine
                    .prepare(PipeId(0), &pipe(kind, setup(&weights, largest)))
                    .expect("valid");
                engine.apply(changed, now, &mut out).unwrap();
            }
        }
    }
}
