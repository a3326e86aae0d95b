//! Random pipes and adversarial arrivals, all from one seed.
#![allow(dead_code, unreachable_pub)]

pub mod aggregates;
pub mod copies;
pub mod examples;
pub mod fraction;
pub mod model;
pub mod stepwise;
pub mod units;

use falaj_engine::chance::Chance;
use falaj_engine::framing::{Cells, Framing};
use falaj_engine::impair::Impairments;
use falaj_engine::impair::corrupt::Corruption;
use falaj_engine::impair::distribution::{DelayTable, Distribution};
use falaj_engine::impair::duplicate::Duplication;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::jitter::Jitter;
use falaj_engine::impair::loss::{FourStates, GilbertElliott, Loss};
use falaj_engine::impair::profile::Profile;
use falaj_engine::impair::reorder::Reorder;
use falaj_engine::impair::slots::Slots;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Pace, PipeSpec};
use falaj_engine::{Emit, Engine, Output, PipeId};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Inner, Kind, Param, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::{self, ENTRIES};
use falaj_sched::units::capacity::{Capacity, Opportunities, Steps};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use rand_core::Rng;
use std::sync::{Arc, LazyLock};

/// One packet: its instant, flow and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Time,
    pub flow: FlowId,
    pub bytes: u32,
}

/// A sequence of random choices.
pub struct Dice(Chance);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Chance::new(seed, 99, 0))
    }
    /// From `low` to `high`, both included.
    pub fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next_u64() % (high - low + 1)
    }
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.from(0, choices.len() as u64 - 1) as usize]
    }
}

/// Virtual links at 1 Gbit/s (8 ns per byte): tiny packets, so that a model may step through every
/// nanosecond.
pub fn virtual_links(dice: &mut Dice, serve: &'static str, preset: &'static str) -> PipeSpec {
    let largest = dice.from(2, 12) as u32;
    let n = dice.from(1, 5);
    let beyond = serve == "packet-wise" && dice.from(0, 1) == 0;
    let tail = if beyond {
        dice.one_of(&["wait", "skip", "carry"])
    } else {
        dice.one_of(&["wait", "skip"])
    };
    let equal = dice.from(0, 1) == 0;
    let airtime = u64::from(largest) * 8;
    let phase = dice.from(airtime, 8 * airtime);
    let flows = (0..n)
        .map(|_| {
            let phase = if equal { phase } else { dice.from(airtime, 8 * airtime) };
            let values = Values::default()
                .with("kind", Value::Choice(dice.one_of(&["A", "B"])))
                .with("phase", Value::Span(Span(phase)))
                .with(
                    "lend",
                    Value::Choice(if beyond { dice.one_of(&["yes", "yes", "no"]) } else { "no" }),
                );
            FlowSetup::new(values, limit(dice, largest, phase > airtime))
        })
        .collect();
    let mut scheduler = Values::default()
        .with("serve", Value::Choice(serve))
        .with("tail", Value::Choice(tail))
        .with("preset", Value::Choice(preset));
    if beyond {
        scheduler.set("start", Value::Choice(dice.one_of(&["continue", "second", "rotate"])));
    }
    let setup = Setup { rate: Rate::from_mbit(1000), largest, scheduler, flows };
    PipeSpec::new("virtual-links", setup, Span::ZERO)
}

/// Any discipline of the registry at an odd rate.
pub fn any_pipe(dice: &mut Dice) -> PipeSpec {
    let serve = dice.one_of(&["phase-wise", "packet-wise"]);
    let preset = if serve == "phase-wise" { "clean" } else { dice.one_of(&["clean", "paper"]) };
    let mut spec = virtual_links(dice, serve, preset);
    spec.setup.rate = Rate::from_bits(dice.from(900_000_000, 1_100_000_000));
    spec.delay = Span(dice.from(0, 1000));
    let airtime = spec.setup.largest_airtime();
    for f in &mut spec.setup.flows {
        let phase = f.values.span("phase").unwrap().max(airtime + Span(2));
        f.values.set("phase", Value::Span(phase));
    }
    let entry = dice.one_of(&ENTRIES.iter().collect::<Vec<_>>());
    if entry.kind != "virtual-links" {
        become_kind(dice, &mut spec, entry);
    }
    if dice.from(0, 3) == 0 {
        divide(dice, &mut spec);
    }
    spec
}

/// An invented table.
static TABLE: LazyLock<DelayTable> =
    LazyLock::new(|| DelayTable::new(&[-300, -10, 0, 20, 400]).expect("they differ"));

/// Sets some of the impairments of the link.
pub fn impair(dice: &mut Dice, spec: &mut PipeSpec) {
    let event = |dice: &mut Dice| RandomEvent {
        probability: Probability::of(dice.from(0, 10), 20),
        correlation: Probability::of(dice.from(0, 10).saturating_sub(5), 7),
    };
    let span = |dice: &mut Dice| Span(dice.from(1, 500));
    let wanted = |dice: &mut Dice| dice.from(0, 1) == 0;
    spec.seed = dice.from(0, 1 << 40);
    let framing = Framing {
        overhead: -(dice.from(0, 2) as i32),
        cells: Cells::None,
        largest: spec.setup.largest,
    };
    spec.framing = wanted(dice).then_some(framing);
    let rate =
        |dice: &mut Dice| Rate(dice.from(0, 3).min(1) * dice.from(100_000_000, 2_000_000_000));
    spec.capacity = match dice.from(0, 6) {
        0 => Capacity::TokenBucket(dice.from(1, 100)),
        1 => {
            let steps = vec![
                (Time(0), rate(dice)),
                (Time(dice.from(1, 500)), rate(dice)),
                (Time(777), Rate(900_000_001)),
            ];
            Capacity::Steps(Arc::new(
                Steps::new(steps, Some(Span(dice.from(1_000, 2_000)))).expect("a good trace"),
            ))
        }
        2 => {
            let at = vec![Time(5), Time(60), Time(60), Time(dice.from(60, 90))];
            let all = Opportunities::new(at, Span(dice.from(90, 200)), dice.from(1, 20) as u32);
            Capacity::Opportunities(Arc::new(all.expect("a good trace")))
        }
        3 if !spec.setup.rate.is_unlimited() => Capacity::TwoBuckets {
            burst: dice.from(1, 100),
            peak: Rate(spec.setup.rate.0 * dice.from(11, 50) / 10),
            peak_burst: dice.from(1, 20),
        },
        _ => Capacity::Serialise,
    };
    spec.impairments = Impairments {
        loss: wanted(dice).then(|| match dice.from(0, 4) {
            0 => Loss::Random(event(dice)),
            1 => Loss::GilbertElliott(GilbertElliott {
                to_bad: Probability::of(1, dice.from(2, 30)),
                to_good: Probability::of(1, dice.from(1, 8)),
                loss_bad: Probability::of(dice.from(0, 4), 4),
                loss_good: Probability::of(dice.from(0, 1), 50),
            }),
            2 => Loss::FourStates(FourStates {
                p13: Probability::of(1, dice.from(3, 30)),
                p31: Probability::of(1, dice.from(2, 8)),
                p32: Probability::of(dice.from(0, 1), 3),
                p23: Probability::of(1, 3),
                p14: Probability::of(dice.from(0, 1), 40),
            }),
            3 => Loss::Every(dice.from(1, 20)),
            _ => Loss::Numbers([2..=3, 7..=7, 11..=19].into()),
        }),
        duplicate: wanted(dice).then(|| Duplication(event(dice))),
        corrupt: wanted(dice).then(|| Corruption(event(dice))),
        reorder: wanted(dice).then(|| Reorder { event: event(dice), gap: dice.from(1, 5) }),
        jitter: wanted(dice).then(|| Jitter {
            amount: span(dice),
            distribution: match dice.from(0, 2) {
                0 => Distribution::Uniform,
                1 => Distribution::Pareto,
                _ => Distribution::Table(TABLE.clone()),
            },
            correlation: event(dice).correlation,
            keeps_order: wanted(dice),
        }),
        profile: wanted(dice).then(|| {
            let (first, most) = (span(dice), Span(500 + dice.from(0, 500)));
            let points = vec![
                (Probability::NEVER, Span(0)),
                (Probability::of(1, 3), first),
                (Probability::of(2, 3), first),
                (Probability::of(2, 3), Span(500)),
                (Probability::ALWAYS, most),
            ];
            Profile::new(points, Probability::of(dice.from(15, 20), 20), wanted(dice))
                .expect("a distribution")
        }),
        slots: wanted(dice).then(|| {
            let least = span(dice);
            Slots {
                least,
                most: least + Span(dice.from(0, 300)),
                packets: dice.from(1, 9),
                bytes: dice.from(1, 99),
            }
        }),
    };
    accepted(spec);
}

/// Removes what makes a packet's time unknown, if the discipline divides the time of the link.
pub fn accepted(spec: &mut PipeSpec) {
    if spec.refused().is_some() {
        (spec.capacity, spec.impairments.profile, spec.impairments.slots) =
            (Capacity::Serialise, None, None);
    }
}

/// Makes the device pace the link, if that is possible; returns true if it does.
pub fn by_device(dice: &mut Dice, spec: &mut PipeSpec) -> bool {
    let largest = spec.setup.largest;
    let backlog =
        largest * dice.one_of(&[1, 2, 3, 8, 20]) + dice.from(0, u64::from(largest)) as u32;
    let paced = PipeSpec { pace: Pace::Device { backlog }, delay: Span::ZERO, ..spec.clone() };
    let accepted = paced.refused().is_none();
    if accepted {
        *spec = paced;
    }
    accepted
}

/// Gives some of the flows disciplines of their own, if the discipline above them allows that.
/// Disciplines that handle trees as a whole get trees.
pub fn divide(dice: &mut Dice, spec: &mut PipeSpec) {
    let undivided = spec.clone();
    let levels = dice.one_of(&[1, 1, 2, 3]);
    divide_to(dice, spec, levels);
    if Engine::new(std::slice::from_ref(spec)).is_err() {
        *spec = undivided;
    }
}

fn divide_to(dice: &mut Dice, spec: &mut PipeSpec, levels: u64) {
    for f in 0..spec.setup.flows.len() {
        if dice.from(0, 1) == 0 {
            continue;
        }
        let flows =
            vec![FlowSetup::new(Values::default(), Limit::Packets(1)); dice.from(1, 3) as usize];
        let setup = Setup { flows, ..spec.setup.clone() };
        let mut below = PipeSpec::new(spec.kind, setup, spec.delay);
        let own = registry::takes_trees(spec.kind) && dice.from(0, 3) > 0;
        let any = dice.one_of(&ENTRIES.iter().collect::<Vec<_>>());
        let entry = registry::entry(spec.kind).filter(|_| own).unwrap_or(any);
        become_kind(dice, &mut below, entry);
        for flow in &mut below.setup.flows {
            flow.limit = Limit::Packets(dice.from(1, 12) as u32);
        }
        if levels > 1 && dice.from(0, 1) == 0 {
            divide_to(dice, &mut below, levels - 1);
        }
        if own {
            // Keys that only undivided flows may have are left out.
            let only = entry.draw.leaves_only;
            let kept = spec.setup.flows[f].values.iter().filter(|(name, _)| !only.contains(name));
            spec.setup.flows[f].values =
                kept.fold(Values::default(), |all, (name, value)| all.with(name, value));
        }
        spec.setup.flows[f].inner = Some(Box::new(Inner { kind: below.kind, setup: below.setup }));
    }
}

/// Turns the pipe into one of this kind. Its parameters get random values that are valid together.
pub fn become_kind(dice: &mut Dice, spec: &mut PipeSpec, entry: &'static Manifest) {
    for _ in 0..1_000 {
        draw_values(dice, spec, entry);
        accepted(spec);
        if Engine::new(std::slice::from_ref(spec)).is_ok() {
            return;
        }
    }
    panic!("no values are accepted: {spec:?}");
}

fn draw_values(dice: &mut Dice, spec: &mut PipeSpec, entry: &'static Manifest) {
    spec.kind = entry.kind;
    let setup = &spec.setup;
    let (rate, largest, n) = (setup.rate, u64::from(setup.largest), setup.flows.len() as u64);
    let mut value = |param: &Param| {
        // A default or another parameter may determine the value.
        if param.default.is_some() && dice.from(0, 2) == 0 {
            return None;
        }
        if let Some((_, draw)) = entry.draw.values.iter().find(|(name, _)| *name == param.name) {
            return Some(draw(setup, &mut |low, high| dice.from(low, high)));
        }
        Some(match param.kind {
            // Shares that fit on the link together.
            Kind::Rate => Value::Rate(Rate(dice.from((rate.0 / n / 10).max(1), rate.0 / n))),
            Kind::Span => Value::Span(Span(dice.from(1, 20_000))),
            Kind::Bytes => Value::Bytes(dice.from(largest, 20 * largest)),
            Kind::Limit => Value::Limit(Limit::Packets(dice.from(1, 60) as u32)),
            Kind::Count { min, max } => Value::Count(dice.from(min, max.min(min + 19))),
            Kind::Probability => Value::Probability(Probability::of(dice.from(0, 20), 20)),
            Kind::Choice(words) => Value::Choice(dice.one_of(words)),
        })
    };
    let mut all = |params: &'static [Param]| {
        let values = params.iter().filter_map(|p| Some((p.name, value(p)?)));
        values.fold(Values::default(), |all, (name, value)| all.with(name, value))
    };
    let scheduler = all(entry.scheduler);
    let flows: Vec<Values> = setup.flows.iter().map(|_| all(entry.flow)).collect();
    spec.setup.scheduler = scheduler;
    for (flow, values) in spec.setup.flows.iter_mut().zip(flows) {
        flow.values = values;
    }
    (entry.draw.fit)(&mut spec.setup, &mut |low, high| dice.from(low, high));
}

fn limit(dice: &mut Dice, largest: u32, bytes_too: bool) -> Limit {
    match dice.from(0, if bytes_too { 4 } else { 3 }) {
        4 => Limit::Bytes(dice.from(u64::from(largest), 20 * u64::from(largest))),
        3 => Limit::Packets(1),
        _ => Limit::Packets(dice.from(1, 25) as u32),
    }
}

/// Dense bursts and pauses of each flow: arrivals under which bounds must hold.
pub fn bursts(dice: &mut Dice, spec: &PipeSpec, horizon: u64) -> Vec<Arrival> {
    let largest = spec.setup.largest;
    let sizes = dice.from(0, 2);
    let odd = dice.from(1, u64::from(largest)) as u32;
    let mut all = Vec::new();
    for f in 0..spec.setup.leaves().len() {
        let (longest_gap, longest_pause) = (dice.from(1, 400), dice.from(1, 20_000));
        let mut at = dice.from(0, 2_000);
        while at < horizon {
            for _ in 0..dice.from(1, 60) {
                let bytes = match sizes {
                    0 => largest,
                    1 => dice.from(1, u64::from(largest)) as u32,
                    _ => dice.one_of(&[odd, largest]),
                };
                all.push(Arrival { at: Time(at), flow: FlowId(f as u32), bytes });
                at += dice.from(0, longest_gap);
            }
            at += dice.from(0, longest_pause);
        }
    }
    all.retain(|a| a.at.0 < horizon);
    all.sort_by_key(|a| (a.at, a.flow));
    all
}

/// Runs the arrivals through the engine; `poll` may poll it in between.
pub fn run(
    spec: &PipeSpec,
    arrivals: &[Arrival],
    mut poll: impl FnMut(&mut Engine, Time, &mut Vec<Output>),
) -> Vec<Output> {
    let mut engine = Engine::new(std::slice::from_ref(spec)).expect("a valid pipe");
    let mut out = Vec::new();
    for (handle, a) in arrivals.iter().enumerate() {
        poll(&mut engine, a.at, &mut out);
        engine.input(
            PipeId(0),
            Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes },
            a.at,
            &mut out,
        );
    }
    while engine.next_event() != Time::NEVER {
        engine.poll(engine.next_event(), &mut out);
    }
    for f in 0..spec.setup.leaves().len() {
        let c = engine.counters(PipeId(0), FlowId(f as u32));
        assert_eq!(c.backlog, 0, "nothing stays behind: {spec:?}");
        assert_eq!(c.offered, c.sent + c.dropped(), "conservation: {c:?}");
    }
    out
}

pub fn emits(out: &[Output]) -> Vec<Emit> {
    out.iter().filter_map(|o| if let Output::Emit(e) = o { Some(*e) } else { None }).collect()
}
