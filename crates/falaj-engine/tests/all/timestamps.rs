//! Disciplines that stamp packets, compared with a naive model in exact fractions, and with the
//! fluid server that they approximate. One byte takes 8 ns.

use crate::common::examples::arrivals;
use crate::common::fraction::Fraction;
use crate::common::{Arrival, Dice, bursts, emits, run};
use falaj_engine::fairness::{self, Worst};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Emit, Engine, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::params::{FlowSetup, Kind, POLICY, Setup, Value, Values};
use falaj_sched::mechanisms::gps::fluid::Fluid;
use falaj_sched::queues::aqm::policy::Policy;
use falaj_sched::queues::queue::{FlowId, Limit, Packet};
use falaj_sched::registry::{self, Visitor};
use falaj_sched::scheduler::Scheduler;
use falaj_sched::scheduler::instance::SchedulerInstance;
use falaj_sched::units::rate::{Rate, Wire};
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

fn setup(largest: u32, flows: Vec<Values>) -> Setup {
    let flows =
        flows.into_iter().map(|values| FlowSetup::new(values, Limit::Packets(100_000))).collect();
    Setup { rate: Rate::from_mbit(1000), largest, scheduler: Values::default(), flows }
}

fn weights(largest: u32, weights: &[u64]) -> Setup {
    setup(
        largest,
        weights.iter().map(|&w| Values::default().with("weight", Value::Count(w))).collect(),
    )
}

fn rates(largest: u32, mbit: &[u64]) -> Setup {
    let rate = |&m: &u64| Values::default().with("rate", Value::Rate(Rate::from_mbit(m)));
    setup(largest, mbit.iter().map(rate).collect())
}

/// Drives a discipline as in most papers: packets that arrive at an instant are queued before the
/// decision of that instant is made. A pipe differs: at the end of a transmission it decides first,
/// and then handles the packets that arrive at that instant.
struct Together<'a> {
    setup: &'a Setup,
    arrivals: &'a [Arrival],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Served {
    flow: usize,
    /// Index of the packet in the list of arrivals.
    handle: usize,
    start: u64,
    end: u64,
}

impl Visitor for Together<'_> {
    type Output = Vec<Served>;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Vec<Served> {
        let mut station = SchedulerInstance::new(self.setup, discipline);
        let mut wire = Wire::new(self.setup.rate);
        let (mut now, mut next, mut served) = (Time::ZERO, 0, Vec::new());
        let admit = |station: &mut SchedulerInstance<D>, next: &mut usize, until: Time| {
            while let Some(a) = self.arrivals.get(*next).filter(|a| a.at <= until) {
                let packet =
                    Packet { handle: *next as u32, bytes: a.bytes, flow: a.flow, arrival: a.at };
                station.arrive(packet, a.at).unwrap();
                *next += 1;
            }
        };
        loop {
            admit(&mut station, &mut next, now);
            match station.next(now, &wire) {
                Decision::Serve(f) => {
                    let (packet, sent) = station.take(f, now, &mut wire);
                    admit(&mut station, &mut next, Time(sent.end.0 - 1));
                    station.finish(f, sent.end);
                    // The end of a transmission is processed before any later arrival.
                    let _ = station.next(sent.end, &wire);
                    let handle = packet.handle as usize;
                    served.push(Served { flow: f.index(), handle, start: now.0, end: sent.end.0 });
                    now = sent.end;
                }
                Decision::Idle if next == self.arrivals.len() => return served,
                Decision::Idle => now = self.arrivals[next].at,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn together(kind: &str, setup: &Setup, arrivals: &[Arrival]) -> Vec<Served> {
    registry::build(kind, setup, Together { setup, arrivals }).unwrap()
}

// A naive model: packets in a list; tags are exact fractions, assigned to every packet at its
// arrival.

#[derive(Clone, Copy)]
struct Waiting {
    handle: usize,
    flow: usize,
    bytes: u64,
    start: Fraction,
    finish: Fraction,
}

/// The discipline named `kind`. The unit of time is the transmission time of a byte. Arrivals at an
/// instant come before the decision of that instant. For `edf` the weights are deadlines.
struct Model<'a> {
    kind: &'a str,
    weights: &'a [u64],
    all: &'a [(u64, usize, u64)],
    next: usize,
    waiting: Vec<Waiting>,
    /// Finish tag of each flow's last packet.
    lasts: Vec<Fraction>,
    /// Virtual time at the instant `at`.
    v: Fraction,
    at: Fraction,
}

impl Model<'_> {
    /// Virtual time at `now`. The fluid server's virtual time is computed step by step, from the
    /// instant at which one flow's backlog ends to the next such instant.
    fn clock(&mut self, now: Fraction) -> Fraction {
        match self.kind {
            "virtual-clock" | "edf" => now,
            "spfq" => self.v.plus(now.minus(self.at)),
            "wfq" | "wf2q" => {
                while self.at < now {
                    let present = |f: &usize| self.lasts[*f] > self.v;
                    let sum: u64 =
                        (0..self.weights.len()).filter(present).map(|f| self.weights[f]).sum();
                    let Some(least) =
                        (0..self.weights.len()).filter(present).map(|f| self.lasts[f]).min()
                    else {
                        break;
                    };
                    let then = self.at.plus(least.minus(self.v).times(sum, 1));
                    if then > now {
                        self.v = self.v.plus(now.minus(self.at).times(1, sum));
                        break;
                    }
                    (self.v, self.at) = (least, then);
                }
                self.at = now;
                self.v
            }
            _ => self.v,
        }
    }

    fn admit(&mut self, until: u64) {
        while let Some(&(at, flow, bytes)) = self.all.get(self.next).filter(|a| a.0 <= until) {
            let total: u64 = self.weights.iter().sum();
            let (own, clock) = (Fraction::of(bytes), self.clock(Fraction::of(at)));
            let start = self.lasts[flow].max(clock);
            let finish = match self.kind {
                "edf" => clock.plus(Fraction::of(self.weights[flow])),
                "virtual-clock" | "spfq" => start.plus(own.times(total, self.weights[flow])),
                _ => start.plus(own.times(1, self.weights[flow])),
            };
            self.lasts[flow] = finish;
            self.waiting.push(Waiting { handle: self.next, flow, bytes, start, finish });
            self.next += 1;
        }
    }

    fn heads(&self) -> Vec<Waiting> {
        (0..self.weights.len())
            .filter_map(|f| self.waiting.iter().find(|p| p.flow == f).copied())
            .collect()
    }

    fn run(mut self) -> Vec<(usize, u64)> {
        let (mut now, mut served) = (0, Vec::new());
        loop {
            self.admit(now);
            let heads = self.heads().into_iter();
            let chosen = match self.kind {
                "sfq" => heads.min_by_key(|p| (p.start, p.flow)),
                "wf2q" => {
                    let v = self.clock(Fraction::of(now));
                    heads.filter(|p| p.start <= v).min_by_key(|p| (p.finish, p.flow))
                }
                _ => heads.min_by_key(|p| (p.finish, p.flow)),
            };
            let Some(packet) = chosen else {
                assert!(self.waiting.is_empty(), "rests though packets wait");
                let Some(&(at, ..)) = self.all.get(self.next) else { return served };
                now = at;
                // The system is empty: tags and virtual time begin anew at zero.
                self.lasts.fill(Fraction::of(0));
                (self.v, self.at) = (Fraction::of(0), Fraction::of(now));
                continue;
            };
            match self.kind {
                "scfq" => self.v = packet.finish,
                "sfq" => self.v = packet.start,
                _ => {}
            }
            now += packet.bytes;
            self.admit(now - 1);
            self.waiting.retain(|p| p.handle != packet.handle);
            served.push((packet.handle, now));
            if self.kind == "spfq" {
                let least = self.heads().iter().map(|p| p.start).min();
                self.v = self.clock(Fraction::of(now)).max(least.unwrap_or(Fraction::of(0)));
                self.at = Fraction::of(now);
            }
        }
    }
}

/// All sequences of six packets of three flows and two sizes, for several patterns of arrival
/// times. The naive model tags every packet at its arrival, in exact fractions.
#[test]
fn every_short_sequence_is_served_as_by_the_plain_model() {
    for (kind, wanted) in [
        ("scfq", [3, 2, 1]),
        ("sfq", [3, 2, 1]),
        ("wfq", [3, 2, 1]),
        ("wf2q", [3, 2, 1]),
        ("spfq", [2, 1, 1]),
        ("virtual-clock", [2, 1, 1]),
        ("edf", [7, 2, 4]),
    ] {
        let setup = match kind {
            "virtual-clock" => rates(3, &wanted.map(|w| w * 250)),
            "edf" => setup(
                3,
                wanted.map(|d| Values::default().with("deadline", Value::Span(Span(8 * d)))).into(),
            ),
            _ => weights(3, &wanted),
        };
        for rhythm in [[0, 0, 0, 1, 3, 4], [0, 0, 1, 2, 2, 9]] {
            for code in 0..6usize.pow(6) {
                let digit = |k: usize| code / 6usize.pow(k as u32) % 6;
                let mut all: Vec<_> =
                    (0..6).map(|k| (rhythm[k], digit(k) / 2, [1, 3][digit(k) % 2])).collect();
                all.sort_by_key(|&(at, flow, _)| (at, flow));
                let (weights, zero) = (&wanted[..], Fraction::of(0));
                let (waiting, lasts) = (Vec::new(), vec![zero; 3]);
                let model =
                    Model { kind, weights, all: &all, next: 0, waiting, lasts, v: zero, at: zero };
                let arrival = |&(at, f, bytes): &(u64, usize, u64)| Arrival {
                    at: Time(8 * at),
                    flow: FlowId(f as u32),
                    bytes: bytes as u32,
                };
                let arrivals: Vec<_> = all.iter().map(arrival).collect();
                let served = together(kind, &setup, &arrivals);
                let served: Vec<_> = served.iter().map(|s| (s.handle, s.end / 8)).collect();
                assert_eq!(served, model.run(), "{kind}: {all:?}");
            }
        }
    }
}

/// SCED by definition, for service curves that begin with a burst. Whenever a flow's backlog
/// begins, its deadline curve becomes the minimum of the previous curve and of its service curve
/// from that instant. The model keeps all these curves: a packet's deadline is the latest time at
/// which one of them reaches the packet's last byte.
struct Curves {
    /// Service curve of each flow: first slope, its duration in byte times, second slope.
    of: [(Fraction, Fraction, Fraction); 3],
    /// Beginning of each backlog in byte times, and the bytes that the flow sent before it.
    begun: [Vec<(u64, u64)>; 3],
    sent: [u64; 3],
    queues: [VecDeque<(usize, u64)>; 3],
}

impl Curves {
    fn come(&mut self, flow: usize, handle: usize, bytes: u64, now: u64) {
        if self.queues[flow].is_empty() {
            self.begun[flow].push((now, self.sent[flow]));
        }
        self.queues[flow].push_back((handle, bytes));
    }

    fn deadline(&self, f: usize) -> Option<Fraction> {
        let (slope, until, after) = self.of[f];
        let end = self.sent[f] + self.queues[f].front()?.1;
        let reached = |&(from, sent): &(u64, u64)| {
            let (bytes, burst) = (Fraction::of(end - sent), until.by(slope));
            let time = if bytes <= burst {
                bytes.over(slope)
            } else {
                until.plus(bytes.minus(burst).over(after))
            };
            Fraction::of(from).plus(time)
        };
        self.begun[f].iter().map(reached).max()
    }

    fn run(mut self, all: &[(u64, usize, u64)]) -> Vec<(usize, u64)> {
        let (mut now, mut next, mut served) = (0, 0, Vec::new());
        let admit = |curves: &mut Curves, next: &mut usize, until: u64| {
            while let Some(&(at, flow, bytes)) = all.get(*next).filter(|a| a.0 <= until) {
                curves.come(flow, *next, bytes, at);
                *next += 1;
            }
        };
        loop {
            admit(&mut self, &mut next, now);
            let Some((_, f)) = (0..3).filter_map(|f| Some((self.deadline(f)?, f))).min() else {
                let Some(&(at, ..)) = all.get(next) else { return served };
                now = at;
                continue;
            };
            let (handle, bytes) = self.queues[f][0];
            now += bytes;
            admit(&mut self, &mut next, now - 1);
            self.queues[f].pop_front();
            self.sent[f] += bytes;
            served.push((handle, now));
        }
    }
}

#[test]
fn every_short_sequence_is_served_by_the_lowest_of_all_curves() {
    let curve = |burst: u64, time: u64, rate: u64| {
        Values::default()
            .with("rate", Value::Rate(Rate::from_mbit(rate)))
            .with("burst-rate", Value::Rate(Rate::from_mbit(burst)))
            .with("burst-time", Value::Span(Span(8 * time)))
    };
    let pieces = [(500, 4, 250), (250, 6, 125), (250, 0, 250)];
    let setup = setup(3, pieces.map(|(burst, time, rate)| curve(burst, time, rate)).into());
    let part = |mbit: u64| Fraction::new(mbit, 1000);
    for rhythm in [[0, 0, 0, 1, 3, 4], [0, 0, 1, 2, 2, 9], [0, 3, 6, 9, 20, 20]] {
        for code in 0..6usize.pow(6) {
            let digit = |k: usize| code / 6usize.pow(k as u32) % 6;
            let mut all: Vec<_> =
                (0..6).map(|k| (rhythm[k], digit(k) / 2, [1, 3][digit(k) % 2])).collect();
            all.sort_by_key(|&(at, flow, _)| (at, flow));
            let model = Curves {
                of: pieces.map(|(burst, time, rate)| (part(burst), Fraction::of(time), part(rate))),
                begun: Default::default(),
                sent: [0; 3],
                queues: Default::default(),
            };
            let arrival = |&(at, f, bytes): &(u64, usize, u64)| Arrival {
                at: Time(8 * at),
                flow: FlowId(f as u32),
                bytes: bytes as u32,
            };
            let arrivals: Vec<_> = all.iter().map(arrival).collect();
            let served = together("sced", &setup, &arrivals);
            let served: Vec<_> = served.iter().map(|s| (s.handle, s.end / 8)).collect();
            assert_eq!(served, model.run(&all), "{all:?}");
        }
    }
}

// Compared with the fluid server.

/// Random flows and arrivals; queues that never fill.
fn random_shares(dice: &mut Dice, kind: &'static str, rate: Rate) -> (PipeSpec, Vec<Arrival>) {
    let n = dice.from(1, 8);
    let most = dice.one_of(&[1, 3, 20, 65_536]);
    let flow = |dice: &mut Dice| FlowSetup {
        values: Values::default().with("weight", Value::Count(dice.from(1, most))),
        limit: Limit::Packets(1_000_000),
        inner: None,
    };
    let flows = (0..n).map(|_| flow(dice)).collect();
    let largest = dice.from(2, 40) as u32;
    let setup = Setup { rate, largest, scheduler: Values::default(), flows };
    let spec = PipeSpec::new(kind, setup, Span::ZERO);
    let arrivals = bursts(dice, &spec, 15_000);
    (spec, arrivals)
}

/// The fluid server after all arrivals have been served, and the discipline's departures.
fn beside_the_fluid(spec: &PipeSpec, arrivals: &[Arrival]) -> (Fluid, Vec<Emit>) {
    let mut fluid = Fluid::new(&spec.setup).unwrap();
    for a in arrivals {
        fluid.arrive(a.flow, a.bytes, a.at);
    }
    let departures = emits(&run(spec, arrivals, |_, _, _| {}));
    fluid.advance(departures.last().map_or(Time::ZERO, |e| e.end + Span(10)));
    (fluid, departures)
}

/// Tolerance in nanoseconds: departures and the fluid server's times are each rounded to 1 ns.
const ROUNDING: u64 = 2;
/// Disciplines by timestamps whose flows have weights.
const TAGGED: [&str; 5] = ["scfq", "sfq", "wfq", "wf2q", "spfq"];

/// A packet ends at most one packet time after its end in the fluid server. The rate is one at
/// which a byte takes a whole number of nanoseconds. At other rates, an error of one nanosecond
/// becomes many nanoseconds for a flow whose share varies with the number of backlogged flows.
#[test]
fn wfq_and_wf2q_leave_a_packet_after_the_fluid_at_most() {
    for (kind, enough) in [("wfq", 0.95), ("wf2q", 0.95)] {
        let mut worst = 0.0f64;
        for seed in 0..1_500 {
            let mut dice = Dice::new(seed);
            let (spec, arrivals) = random_shares(&mut dice, kind, Rate::from_mbit(1000));
            let (fluid, departures) = beside_the_fluid(&spec, &arrivals);
            let packet = spec.setup.largest_airtime().0;
            for e in departures {
                let finish =
                    fluid.finish(e.handle as usize).expect("the fluid runs empty with the link").0;
                assert!(
                    e.end.0 <= finish + packet + ROUNDING,
                    "{kind}, seed {seed}: {e:?} after {finish}: {spec:?}"
                );
                worst = worst.max(e.end.0.saturating_sub(finish) as f64 / packet as f64);
                if kind == "wf2q" {
                    let start = fluid.start(e.handle as usize).unwrap().0;
                    assert!(
                        e.start.0 + ROUNDING >= start,
                        "seed {seed}: {e:?} before {start}: {spec:?}"
                    );
                }
            }
        }
        assert!(worst >= enough, "{kind}: {worst}");
    }
}

/// Arrivals in which flow 0 never exceeds `burst + rate t`, and mostly sends as much as that
/// allows. The other flows are arbitrary.
fn conforming(
    dice: &mut Dice,
    spec: &PipeSpec,
    burst: u64,
    rate: Rate,
    horizon: u64,
) -> Vec<Arrival> {
    let mut all = bursts(dice, spec, horizon);
    all.retain(|a| a.flow != FlowId(0));
    let per_byte = 8_000_000_000;
    let (full, mut tokens, mut at) = (burst * per_byte, burst * per_byte, dice.from(0, 3_000));
    let lazy = dice.from(0, 3) == 0;
    while at < horizon {
        let bytes = dice.from(1, spec.setup.largest.into());
        let missing = (bytes * per_byte).saturating_sub(tokens);
        let pause = missing.div_ceil(rate.0) + if lazy { dice.from(0, 800) } else { 0 };
        at += pause;
        tokens = (tokens + pause * rate.0).min(full) - bytes * per_byte;
        all.push(Arrival { at: Time(at), flow: FlowId(0), bytes: bytes as u32 });
    }
    all.sort_by_key(|a| (a.at, a.flow));
    all
}

/// A flow that conforms to its rate meets its delay bound, whatever the other flows send, even if
/// they do not conform and have no guarantee.
#[test]
fn a_flow_that_keeps_to_its_rate_has_its_delay() {
    for kind in ["virtual-clock", "sced", "arc", "wfq", "wf2q", "spfq"] {
        let mut worst = 0.0f64;
        for seed in 0..600 {
            let mut dice = Dice::new(seed);
            let rate = Rate::from_bits(dice.from(900_000_000, 1_100_000_000));
            let (mut spec, _) = random_shares(&mut dice, kind, rate);
            let (link, largest, n) =
                (spec.setup.rate, u64::from(spec.setup.largest), spec.setup.flows.len() as u64);
            let packet = spec.setup.largest_airtime().0;
            let own = Rate(dice.from(link.0 / n / 8, link.0 / n));
            let burst = dice.from(largest, 8 * largest);
            let time = |bytes: u64, rate: Rate| rate.airtime_of_many(bytes).0;
            let (rate, bound) = match kind {
                "sced" => {
                    // Up to the burst, the curve rises faster than the rate, or more slowly.
                    for f in &mut spec.setup.flows[1..] {
                        f.values.set("rate", Value::Rate(Rate(link.0 / n)));
                    }
                    let values = &mut spec.setup.flows[0].values;
                    values.set("rate", Value::Rate(own));
                    let first = Rate(dice.from(own.0 / 2 + 1, own.0 * 2)).min(Rate(link.0 / n));
                    let span = time(burst, first);
                    values.set("burst-rate", Value::Rate(first));
                    values.set("burst-time", Value::Span(Span(span)));
                    let late = u128::from(own.0.saturating_sub(first.0)) * u128::from(span)
                        / u128::from(own.0);
                    let delay = if first >= own {
                        time(burst, first)
                    } else {
                        time(burst, own) + late as u64 + 1
                    };
                    (own, delay + packet)
                }
                "arc" => {
                    let values = &mut spec.setup.flows[0].values;
                    values.set("rate", Value::Rate(own));
                    let period = time(largest, own) * dice.from(1, 5);
                    values.set("period", Value::Span(Span(period)));
                    (own, time(burst, own) + 2 * period + packet)
                }
                "virtual-clock" => {
                    spec.setup.flows[0].values.set("rate", Value::Rate(own));
                    (own, time(burst, own) + packet)
                }
                _ => {
                    spec.setup.flows[0].limit = Limit::Bytes(burst);
                    let guarantee = Engine::new(std::slice::from_ref(&spec))
                        .unwrap()
                        .guarantee(PipeId(0), FlowId(0));
                    let guarantee = guarantee.unwrap();
                    spec.setup.flows[0].limit = Limit::Packets(1_000_000);
                    (guarantee.rate, guarantee.others[0].delay.0)
                }
            };
            let arrivals = conforming(&mut dice, &spec, burst, rate, 15_000);
            for e in
                emits(&run(&spec, &arrivals, |_, _, _| {})).iter().filter(|e| e.flow == FlowId(0))
            {
                let delay = (e.end - e.arrival).0;
                assert!(
                    delay <= bound + ROUNDING,
                    "{kind}, seed {seed}: {delay} > {bound}: {spec:?}"
                );
                worst = worst.max(delay as f64 / bound as f64);
            }
        }
        assert!(worst > 0.6, "{kind}: nothing came near its bound: {worst}");
    }
}

/// Weights without a common divisor, and a link that is never idle: no error accumulates over a
/// quarter of a million packets, and the last packets are as punctual as the first ones.
#[test]
fn tags_do_not_drift() {
    let setup = weights(40, &[65_521, 65_519, 40_009, 3]);
    for kind in ["wfq", "wf2q"] {
        let mut dice = Dice::new(5);
        let packet = |dice: &mut Dice, k: u64| Arrival {
            at: Time(0),
            flow: FlowId((k % 3) as u32),
            bytes: dice.from(1, 40) as u32,
        };
        let mut all: Vec<_> = (0..250_000).map(|k| packet(&mut dice, k)).collect();
        let bytes: u64 = all.iter().map(|a| u64::from(a.bytes)).sum();
        all.extend((0..5).map(|k| Arrival {
            at: Time(bytes * 6 + 200 * k),
            flow: FlowId(3),
            bytes: 3,
        }));
        let mut fluid = Fluid::new(&setup).unwrap();
        for a in &all {
            fluid.arrive(a.flow, a.bytes, a.at);
        }
        let served = together(kind, &setup, &all);
        fluid.advance(Time(bytes * 8 + 15 * 8 + 10));
        for s in served {
            let finish = fluid.finish(s.handle).expect("the fluid runs empty with the link").0;
            assert!(s.end <= finish + 40 * 8 + ROUNDING, "{kind}: {s:?} after {finish}");
        }
    }
}

/// Flows that never run empty share in proportion over the whole range of weights: among N flows,
/// each packet ends at most N packet times after the instant at which the flow's exact share sends
/// it.
#[test]
fn the_heaviest_weights_share_in_proportion() {
    const PACKETS: u64 = 20_000;
    let drawn = [1, 3, 65_536, 65_537, 1 << 31, 4_294_967_291, u64::from(u32::MAX)];
    for (seed, kind) in (0..40).flat_map(|seed| TAGGED.map(|kind| (seed, kind))) {
        let mut dice = Dice::new(seed);
        let weights_: Vec<u64> = (0..dice.from(2, 4)).map(|_| dice.one_of(&drawn)).collect();
        let total: u64 = weights_.iter().sum();
        let mut setup = weights(1_500, &weights_);
        let mut arrivals = Vec::new();
        for (f, &weight) in weights_.iter().enumerate() {
            let packets = PACKETS * weight / total * 2 + 10;
            setup.flows[f].limit = Limit::Packets(packets as u32);
            arrivals.extend((0..packets).map(|_| Arrival {
                at: Time::ZERO,
                flow: FlowId(f as u32),
                bytes: dice.from(700, 1_500) as u32,
            }));
        }
        let packet = u128::from(setup.rate.airtime(setup.largest).0);
        let behind = packet * weights_.len() as u128 + 10;
        let mut sent = vec![0u128; weights_.len()];
        for packet in together(kind, &setup, &arrivals).iter().take(PACKETS as usize) {
            sent[packet.flow] += u128::from(arrivals[packet.handle].bytes);
            let own = sent[packet.flow] * 8_000_000_000 * u128::from(total)
                / (u128::from(weights_[packet.flow]) * u128::from(setup.rate.0));
            assert!(u128::from(packet.end) <= own + behind, "{kind}, {weights_:?}: {packet:?}");
        }
    }
}

/// Disciplines whose virtual time has 64 bits keep their guarantees over the whole range of
/// weights, although they round slopes: the guarantees include the rounding. The reserved rate is
/// at most this rounding below the exact share.
#[test]
fn the_heaviest_weights_keep_their_guarantees() {
    const PACKETS: u64 = 20_000;
    let drawn = [1, 3, 65_536, 65_537, 1 << 31, 4_294_967_291, u64::from(u32::MAX)];
    let kinds = ["wf2q+", "qfq", "qfq+", "ffs"];
    for (seed, kind) in (0..40).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let mut dice = Dice::new(seed);
        let weights_: Vec<u64> = (0..dice.from(2, 4)).map(|_| dice.one_of(&drawn)).collect();
        let total: u64 = weights_.iter().sum();
        let lightest = *weights_.iter().min().expect("flows");
        let mut setup = weights(1_500, &weights_);
        let mut arrivals = Vec::new();
        for (f, &weight) in weights_.iter().enumerate() {
            let packets = PACKETS * weight / total * 2 + 10;
            setup.flows[f].limit = Limit::Packets(packets as u32);
            arrivals.extend((0..packets).map(|_| Arrival {
                at: Time::ZERO,
                flow: FlowId(f as u32),
                bytes: dice.from(700, 1_500) as u32,
            }));
        }
        let spec = PipeSpec::new(kind, setup.clone(), Span::ZERO);
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let guarantees: Vec<_> = (0..weights_.len())
            .map(|f| engine.guarantee(PipeId(0), FlowId(f as u32)).unwrap())
            .collect();
        for (guarantee, &weight) in guarantees.iter().zip(&weights_) {
            let exact = setup.rate.0 as f64 * weight as f64 / total as f64;
            // The rounding of the flow's own slope, and of the sum of up to four weights.
            let rounding = weight as f64 / lightest as f64 / (1u64 << 37) as f64 + 1e-9;
            let rate = guarantee.rate.0 as f64;
            assert!(
                rate <= exact && rate >= exact * (1.0 - rounding) - 1.0,
                "{kind}, {weights_:?}: {rate} {exact}"
            );
        }
        let mut sent = vec![0u64; weights_.len()];
        for packet in together(kind, &setup, &arrivals).iter().take(PACKETS as usize) {
            sent[packet.flow] += u64::from(arrivals[packet.handle].bytes);
            let guarantee = &guarantees[packet.flow];
            // A share below 1 bit/s is rounded down to 0.
            if guarantee.rate.0 == 0 {
                continue;
            }
            let latest = guarantee.latency + guarantee.rate.airtime_of_many(sent[packet.flow]);
            assert!(packet.end <= latest.0 + 10, "{kind}, {weights_:?}: {packet:?}");
        }
    }
}

/// The order of packets is the same when the clock has run for more than a year.
#[test]
fn order_does_not_depend_on_when() {
    for kind in ["scfq", "sfq", "wfq", "wf2q", "spfq"] {
        let setup = weights(3, &[3, 2, 1]);
        let order = |from: u64| {
            let all = [(0, 0, 3), (0, 1, 1), (0, 2, 3), (2, 0, 1), (3, 2, 1), (4, 1, 3), (4, 0, 3)];
            let at = |&(at, f, bytes): &(u64, u32, u32)| Arrival {
                at: Time(from + 8 * at),
                flow: FlowId(f),
                bytes,
            };
            let all: Vec<_> = all.iter().map(at).collect();
            together(kind, &setup, &all)
                .iter()
                .map(|s| (s.handle, s.end - from))
                .collect::<Vec<_>>()
        };
        assert_eq!(order(0), order(400 * 86_400 * 1_000_000_000), "{kind}");
    }
}

// Fairness.

fn as_emits(served: &[Served], all: &[Arrival]) -> Vec<Emit> {
    let emit = |s: &Served| Emit {
        pipe: PipeId(0),
        flow: FlowId(s.flow as u32),
        handle: s.handle as u32,
        bytes: all[s.handle].bytes,
        arrival: all[s.handle].at,
        start: Time(s.start),
        end: Time(s.end),
        due: Time(s.end),
    };
    served.iter().map(emit).collect()
}

/// Flow A has half of the link, and ten other flows share the rest. Ten packets of A arrive at 0,
/// and an eleventh at 10, in byte times. WFQ takes back the service that it gave too early: over
/// `(10, 21]` A has one packet of eleven, 4.5 less than its share of 5.5. Its last packet leaves 11
/// after its arrival instead of 2. In order of start tags (`sfq`), A falls behind over `(1, 12]`.
#[test]
fn the_fairness_indices_of_a_small_example() {
    let shares = [10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let setup = weights(1, &shares);
    let mut all = vec![(0, 'A', 1); 10];
    all.push((10, 'A', 1));
    all.extend(('B'..='K').map(|f| (0, f, 1)));
    let all = arrivals(&all);
    let of = |kind: &str| {
        let sent = as_emits(&together(kind, &setup, &all), &all);
        fairness::measure(setup.rate, &shares, &sent)[0].unwrap()
    };
    let worst =
        |amount: f64, from: u64, to: u64| Worst { amount, from: Time(8 * from), to: Time(8 * to) };
    for kind in ["wfq", "scfq"] {
        assert_eq!(of(kind).t_wfi, worst(9.0 * 8.0, 10, 21), "{kind}");
    }
    // A's new backlog begins at 10, because its previous packet has just left.
    assert_eq!(of("wfq").b_wfi, worst(4.5, 10, 21));
    assert_eq!(of("sfq").b_wfi, worst(4.5, 1, 12));
    // Every second packet is A's, and leaves one byte time before it is due.
    assert_eq!((of("wf2q").b_wfi.amount, of("wf2q").t_wfi.amount), (0.0, -8.0));
}

/// Random traffic without gaps. Only WF2Q keeps every flow within about one packet of its share at
/// all times, `L_i + (L - L_i) r_i/C`: `L_i` is the flow's largest packet, `L` the link's, `r_i`
/// the flow's rate and `C` the link's. The other disciplines have equally good delays, but do not
/// keep the shares.
#[test]
fn only_wf2q_is_worst_case_fair() {
    let worst = |kind: &'static str| {
        let mut worst = 0.0f64;
        for seed in 0..400 {
            let mut dice = Dice::new(seed);
            let n = dice.from(2, 10);
            let shares: Vec<u64> = (0..n).map(|_| dice.from(1, 20)).collect();
            let setup = if kind == "virtual-clock" {
                let total: u64 = shares.iter().sum();
                let rate = |w: &u64| {
                    Values::default().with("rate", Value::Rate(Rate(1_000_000_000 * w / total)))
                };
                setup(20, shares.iter().map(rate).collect())
            } else {
                weights(20, &shares)
            };
            let largest: Vec<u64> = (0..n).map(|_| dice.from(1, 20)).collect();
            let mut all = Vec::new();
            for (f, &w) in shares.iter().enumerate() {
                let begin = dice.from(0, 2) * 1_000;
                let packet = |dice: &mut Dice| dice.from(largest[f].div_ceil(2), largest[f]) as u32;
                // As many packets as keep the flow backlogged for about as long as the others.
                for _ in 0..4 * w {
                    all.push(Arrival {
                        at: Time(begin),
                        flow: FlowId(f as u32),
                        bytes: packet(&mut dice),
                    });
                }
            }
            all.sort_by_key(|a| (a.at, a.flow));
            let sent = as_emits(&together(kind, &setup, &all), &all);
            let total: u64 = shares.iter().sum();
            for (f, index) in fairness::measure(setup.rate, &shares, &sent).iter().enumerate() {
                let own = largest[f] as f64;
                let bound = own + (20.0 - own) * shares[f] as f64 / total as f64;
                worst = worst.max(index.unwrap().b_wfi.amount / bound);
            }
        }
        worst
    };
    let wf2q = worst("wf2q");
    assert!((0.8..=1.0001).contains(&wf2q), "{wf2q}");
    let others = [("wfq", 1.8), ("scfq", 1.8), ("sfq", 1.8), ("spfq", 5.0), ("virtual-clock", 5.0)];
    for (kind, at_least) in others {
        let other = worst(kind);
        assert!(other > at_least, "{kind}: {other}");
    }
}

// Setups that are refused, and setups that are not.

#[test]
fn a_setup_that_cannot_be_kept_is_refused_by_the_key() {
    let refused = |kind: &str, setup: &Setup| {
        let refused =
            registry::build(kind, setup, Together { setup, arrivals: &[] }).expect_err(kind);
        let refused = refused.into_iter().next().expect("a reason");
        (refused.flow, refused.param, refused.what)
    };
    for kind in ["scfq", "sfq", "wfq", "wf2q", "spfq", "mtr-ls"] {
        let zero = (Some(1), "weight", "a weight of 0 is out of range".to_owned());
        assert_eq!(refused(kind, &weights(4, &[1, 0])), zero, "{kind}");
        assert_eq!(refused(kind, &weights(4, &[1 << 32])).1, "weight", "{kind}");
    }
    for kind in ["virtual-clock", "sced", "arc"] {
        let over = "the flows' `rate`s add up to 1.001gbit, more than the link's 1gbit".to_owned();
        assert_eq!(refused(kind, &rates(4, &[500, 501])), (Some(1), "rate", over), "{kind}");
        let mut nothing_left = rates(4, &[1000, 1]);
        nothing_left.flows[1].values = Values::default();
        let nothing = "the other flows leave nothing of the link's 1gbit".to_owned();
        assert_eq!(refused(kind, &nothing_left), (Some(1), "rate", nothing), "{kind}");
    }
    assert_eq!(refused("edf", &rates(4, &[500])).1, "deadline");
    let mut steep = rates(4, &[500, 400]);
    for f in &mut steep.flows {
        f.values.set("burst-rate", Value::Rate(Rate::from_mbit(600)));
        f.values.set("burst-time", Value::Span(Span(8_000)));
    }
    let burst = "within 8us the flows' curves require 1200 B, but the link sends 1000 B".to_owned();
    assert_eq!(refused("sced", &steep), (Some(0), "burst-time", burst));
    let mut short = rates(4, &[500]);
    short.flows[0].values.set("period", Value::Span(Span(63)));
    assert_eq!(
        refused("arc", &short),
        (Some(0), "period", "a period of 63ns is out of range".into())
    );
    let mut short = weights(4, &[3, 1]);
    short.scheduler.set("period", Value::Span(Span(127)));
    assert_eq!(refused("mtr-ls", &short).1, "period");
    short.scheduler.set("period", Value::Span(Span(128)));
    assert!(registry::build("mtr-ls", &short, Together { setup: &short, arrivals: &[] }).is_ok());
}

/// Combines values at the ends of every range. An accepted setup has a guarantee or states why it
/// has none, and serves packets.
#[test]
fn no_setup_panics() {
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed);
        let entry = dice.one_of(&registry::ENTRIES.iter().collect::<Vec<_>>());
        let rate = Rate(dice.one_of(&[
            1,
            7,
            9_600,
            1_000_000_000,
            400_000_000_000,
            1_000_000_000_000_000,
        ]));
        let largest = dice.one_of(&[1, 64, 1514, 65_550]);
        let spans = [0, 1, 1_000, 1_000_000_000, 3_600_000_000_000, u64::MAX];
        let flow = |dice: &mut Dice| {
            let mut values = Values::default();
            for param in entry.flow {
                if param.default.is_some() && dice.from(0, 1) == 0 {
                    continue;
                }
                let value = match param.name {
                    "weight" => {
                        let Kind::Count { max, .. } = param.kind else { unreachable!("a count") };
                        Value::Count(dice.one_of(&[1, 2, 65_521, max - 1, max]))
                    }
                    "rate" | "burst-rate" => {
                        Value::Rate(Rate(dice.one_of(&[1, 1_000_000, rate.0 / 8 + 1, u64::MAX])))
                    }
                    "quantum" => Value::Bytes(dice.one_of(&[0, 1514, 65_550, u64::MAX])),
                    "kind" => Value::Choice("B"),
                    _ => Value::Span(Span(dice.one_of(&spans))),
                };
                values.set(param.name, value);
            }
            let limit =
                dice.one_of(&[Limit::Packets(1), Limit::Packets(u32::MAX), Limit::Bytes(u64::MAX)]);
            FlowSetup::new(values, limit)
        };
        let flows: Vec<_> = (0..dice.from(1, 4)).map(|_| flow(&mut dice)).collect();
        let mut scheduler = Values::default();
        if entry.kind == "mtr-ls" && dice.from(0, 1) == 0 {
            scheduler.set("period", Value::Span(Span(dice.one_of(&spans))));
        }
        let spec = PipeSpec::new(entry.kind, Setup { rate, largest, scheduler, flows }, Span::ZERO);
        let Ok(engine) = Engine::new(std::slice::from_ref(&spec)) else { continue };
        let n = spec.setup.flows.len() as u64;
        for f in 0..n {
            let _ = engine.guarantee(PipeId(0), FlowId(f as u32));
        }
        let packet = |dice: &mut Dice, k: u64| Arrival {
            at: Time(k * 1_000),
            flow: FlowId(dice.from(0, n - 1) as u32),
            bytes: dice.from(1, largest.into()) as u32,
        };
        let arrivals: Vec<_> = (0..40).map(|k| packet(&mut dice, k)).collect();
        run(&spec, &arrivals, |_, _, _| {});
    }
}

/// A policy drops the head of `a`, and the finish tag of `a`'s next packet is earlier than the
/// virtual time. The virtual time does not go back to this tag: a packet of `g` that arrives then
/// starts at the current virtual time, and waits for a packet of `h` that is queued already.
#[test]
fn the_time_of_scfq_does_not_go_back_where_a_head_is_thrown_away() {
    let mut setup = weights(1500, &[1, 1, 1]);
    let (a, g, h) = (FlowId(0), FlowId(1), FlowId(2));
    let policy =
        Policy::new("head", &Values::default(), Limit::Packets(2)).expect("valid").expect("one");
    setup.flows[0] =
        FlowSetup::new(Values::default().with(POLICY, Value::Policy(policy)), Limit::Packets(2));
    let of = |at, flow, bytes| Arrival { at: Time(at), flow, bytes };
    let arrivals = [
        of(0, h, 100),
        of(100, a, 1500),
        of(100, a, 64),
        of(100, g, 1000),
        of(100, h, 1200),
        // g's packet is on the wire until 8,800 ns. To make room for this packet of a, the policy
        // drops a's first one; a's next packet has the finish tag 164.
        of(1_000, a, 64),
        // Arrives while that packet of a is on the wire.
        of(9_000, g, 1000),
    ];
    let spec = PipeSpec::new("scfq", setup, Span::ZERO);
    let out = run(&spec, &arrivals, |engine, until, out| {
        while engine.next_event() <= until {
            engine.poll(engine.next_event(), out);
        }
    });
    let order: Vec<(FlowId, u32)> = emits(&out).iter().map(|e| (e.flow, e.handle)).collect();
    assert_eq!(order, [(h, 0), (g, 3), (a, 2), (a, 5), (h, 4), (g, 6)]);
}
