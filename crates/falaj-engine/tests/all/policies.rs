//! Queues with policies, under every discipline: whatever they drop, the rest of the contract
//! holds.

use crate::common::{Dice, any_pipe, become_kind, bursts, divide, emits, impair};
use falaj_engine::chance::Chance;
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{DropReason, Engine, Output, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::RateCondition;
use falaj_sched::contract::params::{FlowSetup, POLICY, Setup, Value, Values};
use falaj_sched::queues::aqm::NAMES;
use falaj_sched::queues::aqm::policy::Policy;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::{self, ENTRIES};
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

const PIPE: PipeId = PipeId(0);

/// A policy for the times and lengths of these tiny pipes.
fn policy(dice: &mut Dice, limit: Limit) -> Option<Policy> {
    let mut values = Values::default();
    let (target, interval) = (dice.from(1, 200), dice.from(201, 2_000));
    let spans = [
        ("target", target),
        ("interval", interval),
        ("update", dice.from(1, 500)),
        ("burst", dice.from(1, 900)),
    ];
    spans.into_iter().for_each(|(name, span)| values.set(name, Value::Span(Span(span))));
    let min = dice.from(1, 4);
    let threshold = |n: u64| match limit {
        Limit::Packets(_) => Limit::Packets(n as u32),
        Limit::Bytes(_) => Limit::Bytes(n),
    };
    values.set("min", Value::Limit(threshold(min)));
    values.set("max", Value::Limit(threshold(min + dice.from(1, 6))));
    values.set("probability", Value::Probability(Probability::of(dice.from(1, 20), 20)));
    values.set("weight", Value::Probability(Probability::of(dice.from(1, 20), 20)));
    values.set("ecn", Value::Choice(dice.one_of(&["yes", "no"])));
    Policy::new(dice.one_of(NAMES), &values, limit).unwrap_or(None)
}

/// Gives policies to queues, where their discipline has queues that support them.
fn manage(dice: &mut Dice, spec: &mut PipeSpec) {
    let alone = spec.clone();
    let one = policy(dice, Limit::Packets(20));
    for n in 0..spec.setup.leaves().len() {
        let leaf = spec.setup.leaf_mut(n).expect("counted");
        let policy = if alone.kind == "fifo" { one } else { policy(dice, leaf.limit) };
        if let Some(policy) = policy {
            leaf.values.set(POLICY, Value::Policy(policy));
        }
    }
    if Engine::new(std::slice::from_ref(spec)).is_err() {
        *spec = alone;
    }
}

fn managed(dice: &mut Dice) -> PipeSpec {
    let mut spec = any_pipe(dice);
    manage(dice, &mut spec);
    spec
}

/// A label for each packet, of one of a few connections, by its number.
fn label(seed: u64, handle: usize) -> Label {
    let draw = Chance::new(seed, 5, 5).draw(handle as u64);
    Label { ecn: Ecn::from_bits(draw as u8), connection: (draw >> 8) % 7, ..Label::default() }
}

fn run(
    spec: &PipeSpec,
    seed: u64,
    arrivals: &[crate::common::Arrival],
    mut poll: impl FnMut(&mut Engine, Time, &mut Vec<Output>),
) -> (Vec<Output>, Vec<Counters>) {
    let mut engine = Engine::new(std::slice::from_ref(spec)).expect("a valid pipe");
    let mut out = Vec::new();
    for (handle, a) in arrivals.iter().enumerate() {
        poll(&mut engine, a.at, &mut out);
        let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
        engine.input_labelled(PIPE, unit, &MaskIds::NONE, label(seed, handle), a.at, &mut out);
    }
    let mut steps = 0;
    while engine.next_event() != Time::NEVER {
        engine.poll(engine.next_event(), &mut out);
        steps += 1;
        assert!(steps < 1_000_000, "never comes to an end");
    }
    let counters =
        (0..spec.setup.leaves().len() as u32).map(|f| engine.counters(PIPE, FlowId(f))).collect();
    (out, counters)
}

/// Polls change nothing, every loss is reported, only packets that support ECN are marked, and
/// packets that leave do so in time.
#[test]
fn polls_change_nothing_counters_add_up_and_delays_are_kept() {
    let (mut dropped, mut marked, mut kept) = (0, 0, 0);
    // By discipline and policy, a seed with which a delay is too long.
    let mut broken = BTreeMap::new();
    for seed in 0..2_500 {
        let mut dice = Dice::new(seed ^ 0xa9a9);
        let mut spec = managed(&mut dice);
        let impaired = seed % 4 == 0;
        if impaired {
            impair(&mut dice, &mut spec);
        }
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let (late, counters) = run(&spec, seed, &arrivals, |_, _, _| {});
        let mut now = Time::ZERO;
        let (eager, _) = run(&spec, seed, &arrivals, |engine, until, out| {
            while now < until {
                now = Time(now.0 + dice.from(0, 300)).min(until);
                if dice.from(0, 3) == 0 {
                    now = now.max(engine.next_event().min(until));
                }
                for _ in 0..dice.from(1, 3) {
                    engine.poll(now, out);
                }
            }
        });
        assert_eq!(late, eager, "seed {seed}: {spec:?}");
        let engine = Engine::new(std::slice::from_ref(&spec)).expect("valid");
        let count = |f: usize, why| {
            late.iter()
                .filter(|o| matches!(o, Output::Drop(d) if d.why == why && d.flow.index() == f))
                .count() as u64
        };
        for (f, c) in counters.iter().enumerate() {
            assert_eq!((c.backlog, c.offered), (0, c.sent + c.dropped()), "seed {seed}: {c:?}");
            assert_eq!(c.dropped_by_policy, count(f, DropReason::Policy), "seed {seed}");
            assert_eq!(c.dropped_full, count(f, DropReason::QueueFull), "seed {seed}");
            dropped += c.dropped_by_policy;
            marked += c.marked;
        }
        for output in &late {
            if let Output::Mark(mark) = output {
                assert!(
                    label(seed, mark.handle as usize).ecn.is_capable(),
                    "seed {seed}: marked in vain"
                );
            }
        }
        for e in emits(&late).iter().filter(|_| !impaired) {
            if let Ok(guarantee) = engine.guarantee(PIPE, e.flow) {
                let policy = spec.setup.leaves()[e.flow.index()]
                    .values
                    .policy()
                    .map_or("tail", |p| p.name());
                if e.end - e.arrival > guarantee.delay.delay {
                    broken.insert((spec.kind, policy), seed);
                }
                kept += 1;
            }
        }
    }
    assert!(broken.is_empty(), "delays are longer than guaranteed: {broken:?}");
    assert!(
        dropped > 50_000 && marked > 5_000 && kept > 50_000,
        "{dropped} drops, {marked} marks, {kept} in time mean little"
    );
}

/// A flow that is always backlogged keeps its guaranteed rate, whatever packets its policy and
/// those of other flows drop. If the guarantee needs two queued packets, the flow has them, and has
/// no policy of its own.
#[test]
fn rates_are_kept_with_and_beside_policies() {
    struct Condition;
    impl registry::Visitor for Condition {
        type Output = Option<RateCondition>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
            discipline.rate_condition()
        }
    }
    let mut seen = BTreeMap::new();
    // By discipline and the flow's own policy, a seed with which the rate is too low.
    let mut broken = BTreeMap::new();
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed ^ 0xfade);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        if spec.kind == "fifo" {
            spec.setup.flows.truncate(1);
            spec.setup.scheduler = Default::default();
        }
        manage(&mut dice, &mut spec);
        let Ok(condition) = registry::build(spec.kind, &spec.setup, Condition) else { continue };
        let largest = u64::from(spec.setup.largest);
        let own = &mut spec.setup.flows[0];
        let mut values = Values::default();
        for (name, value) in own.values.iter().filter(|(name, _)| *name != POLICY) {
            values.set(name, value);
        }
        (own.values, own.limit) = match condition {
            Some(RateCondition::Queued) => (values, Limit::Bytes(4 * largest)),
            _ => {
                let limit = Limit::Packets(dice.from(2, 12) as u32);
                let (target, interval) = (Span(dice.from(1, 200)), Span(dice.from(201, 2_000)));
                let law = Values::default()
                    .with("target", Value::Span(target))
                    .with("interval", Value::Span(interval));
                let policy = Policy::new(dice.one_of(&["tail", "head", "codel"]), &law, limit)
                    .expect("valid");
                (
                    policy.map_or(values.clone(), |policy| {
                        values.with(POLICY, Value::Policy(policy))
                    }),
                    limit,
                )
            }
        };
        let Ok(engine) = Engine::new(std::slice::from_ref(&spec)) else { continue };
        let Some(guarantee) = engine.guarantee(PIPE, FlowId(0)).ok().filter(|p| p.rate.0 > 0)
        else {
            continue;
        };
        let from = dice.from(0, 1_000);
        let horizon = from + (8 * guarantee.latency.0).clamp(5_000, 30_000);
        let mut arrivals = bursts(&mut dice, &spec, horizon);
        arrivals.retain(|a| a.flow != FlowId(0));
        let sizes = dice.from(0, 2);
        let mut send = |at| {
            let bytes = match sizes {
                0 => largest,
                1 => dice.from(1, largest),
                _ => dice.one_of(&[1, largest]),
            };
            arrivals.push(crate::common::Arrival {
                at: Time(at),
                flow: FlowId(0),
                bytes: bytes as u32,
            });
        };
        (0..4 * largest).for_each(|_| send(from));
        // Packets arrive faster than they are sent.
        (from..horizon).step_by(6).for_each(&mut send);
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let (out, _) = run(&spec, seed, &arrivals, |_, _, _| {});
        let name = spec.setup.flows[0].values.policy().map_or("tail", |p| p.name());
        let mut done = 0;
        for e in emits(&out).iter().filter(|e| e.flow == FlowId(0) && e.end.0 <= horizon) {
            let waited = (e.end.0 - from).saturating_sub(guarantee.latency.0) as f64 - 1e-6;
            if f64::from(done) < guarantee.rate.0 as f64 / 8e9 * waited.max(0.0) {
                broken.insert((spec.kind, name), seed);
            }
            done += e.bytes;
            *seen.entry((spec.kind, name)).or_insert(0) += 1;
        }
    }
    assert!(broken.is_empty(), "rates are below what is guaranteed: {broken:?}");
    let by = |policy| seen.iter().filter(|((_, p), n)| *p == policy && **n > 1_000).count();
    assert!(by("head") > 8 && by("codel") > 8 && by("tail") > 15, "{seen:?} means little");
}

/// Policies and disciplines are added, removed and changed with packets queued.
#[test]
fn a_change_loses_nothing_untold() {
    let mut marked = 0;
    for seed in 0..2_500 {
        let mut dice = Dice::new(seed ^ 0xc4a9);
        let mut spec = managed(&mut dice);
        let flows = spec.setup.leaves().len();
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("valid");
        let mut queued: Vec<VecDeque<u32>> = vec![VecDeque::new(); flows];
        let mut out = Vec::new();
        let mut free = Time::ZERO;
        let mut see = |out: &mut Vec<Output>, queued: &mut Vec<VecDeque<u32>>| {
            for output in out.drain(..) {
                let (flow, handle) = match output {
                    Output::Emit(e) => {
                        assert!(e.start >= free, "seed {seed}: two at once");
                        free = e.end;
                        (e.flow, e.handle)
                    }
                    Output::Drop(d) => (d.flow, d.handle),
                    Output::Mark(mark) => {
                        marked += 1;
                        assert!(
                            label(seed, mark.handle as usize).ecn.is_capable(),
                            "seed {seed}: marked in vain"
                        );
                        continue;
                    }
                    _ => continue,
                };
                let of_flow = &mut queued[flow.index()];
                let place = of_flow.iter().position(|&h| h == handle);
                let removed = place.and_then(|place| of_flow.remove(place));
                assert!(removed.is_some(), "seed {seed}: {output:?} twice, or never came");
            }
        };
        for (handle, a) in arrivals.iter().enumerate() {
            if dice.from(0, 19) == 0 {
                spec.setup.flows = spec.setup.leaves().into_iter().cloned().collect();
                let kind = if dice.from(0, 1) == 0 { spec.kind } else { dice.one_of(ENTRIES).kind };
                become_kind(&mut dice, &mut spec, registry::entry(kind).expect("known"));
                if dice.from(0, 2) == 0 {
                    // The division keeps the number of leaves, or is not made.
                    divide(&mut dice, &mut spec);
                }
                manage(&mut dice, &mut spec);
                let prepared =
                    engine.prepare(PIPE, &spec).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                let known = |handle: u32| label(seed, handle as usize);
                engine
                    .apply_with_labels(prepared, &known, a.at, &mut out)
                    .expect("prepared just now");
                queued.resize(spec.setup.leaves().len().max(queued.len()), VecDeque::new());
            }
            engine.poll(a.at, &mut out);
            see(&mut out, &mut queued);
            queued[a.flow.index()].push_back(handle as u32);
            let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
            engine.input_labelled(PIPE, unit, &MaskIds::NONE, label(seed, handle), a.at, &mut out);
            see(&mut out, &mut queued);
        }
        engine.poll(Time(1 << 50), &mut out);
        see(&mut out, &mut queued);
        assert!(queued.iter().all(VecDeque::is_empty), "seed {seed}: {queued:?} stay behind");
    }
    assert!(marked > 1_000, "{marked} marks mean little");
}

fn fifo(policy: &str, values: Values, limit: Limit) -> PipeSpec {
    let policy = Policy::new(policy, &values, limit).unwrap();
    let values =
        policy.map_or_else(Values::default, |p| Values::default().with(POLICY, Value::Policy(p)));
    let flows = vec![FlowSetup::new(values, limit)];
    let setup =
        Setup { rate: Rate::from_mbit(8), largest: 1000, scheduler: Values::default(), flows };
    PipeSpec::new("fifo", setup, Span::ZERO)
}

/// Packets of 1000 B, 1 ms on the link, `each` of them in each millisecond.
fn overload(spec: &PipeSpec, of: std::ops::Range<u64>, ecn: Ecn, each: u32) -> Vec<Output> {
    let mut engine = Engine::new(std::slice::from_ref(spec)).unwrap();
    let (mut out, mut handle) = (Vec::new(), 0);
    for ms in of {
        for _ in 0..each {
            let unit = Unit { flow: FlowId(0), handle, bytes: 1000 };
            let label = Label { ecn, ..Label::default() };
            engine.input_labelled(
                PIPE,
                unit,
                &MaskIds::NONE,
                label,
                Time(ms * 1_000_000),
                &mut out,
            );
            handle += 1;
        }
    }
    engine.poll(Time(1 << 50), &mut out);
    out
}

#[test]
fn head_drop_drops_the_longest_waiting_packet_and_not_the_one_on_the_wire() {
    let spec = fifo("head", Values::default(), Limit::Packets(3));
    let out = overload(&spec, 0..1, Ecn::Not, 5);
    let dropped: Vec<u32> = out
        .iter()
        .filter_map(|o| if let Output::Drop(d) = o { Some(d.handle) } else { None })
        .collect();
    let sent: Vec<u32> = emits(&out).iter().map(|e| e.handle).collect();
    assert_eq!((dropped, sent), (vec![1, 2], vec![0, 3, 4]));
    // No packet can be dropped if the only place is on the wire.
    let out = overload(&fifo("head", Values::default(), Limit::Packets(1)), 0..1, Ecn::Not, 2);
    assert!(
        matches!(out[1], Output::Drop(d) if d.handle == 1 && d.why == DropReason::QueueFull),
        "{out:?}"
    );
}

/// Two packets per millisecond where one leaves: the packet that leaves at n ms arrived at n/2, so
/// the head is 5 ms old from 9 ms on. The first drop is an interval later; the next drops follow
/// the control law.
#[test]
fn codel_drops_at_the_instants_of_its_law() {
    let spec = fifo("codel", Values::default(), Limit::Packets(10_000));
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let (mut out, mut drops) = (Vec::new(), Vec::new());
    for ms in 0..600u64 {
        for _ in 0..2 {
            engine.input(
                PIPE,
                Unit { flow: FlowId(0), handle: 0, bytes: 1000 },
                Time(ms * 1_000_000),
                &mut out,
            );
        }
        drops.extend(out.drain(..).filter(|o| matches!(o, Output::Drop(_))).map(|_| ms));
    }
    assert_eq!(drops, [109, 209, 280, 338, 388, 433, 473, 511, 547, 580]);
}

#[test]
fn a_mark_is_told_before_the_packet_goes() {
    let values = Values::default().with("ecn", Value::Choice("yes"));
    let out = overload(&fifo("codel", values, Limit::Packets(10_000)), 0..600, Ecn::Ect0, 2);
    let marks: Vec<usize> = (0..out.len()).filter(|&i| matches!(out[i], Output::Mark(_))).collect();
    assert!(marks.len() > 9 && !out.iter().any(|o| matches!(o, Output::Drop(_))));
    for i in marks {
        let (Output::Mark(mark), Output::Emit(emit)) = (out[i], out[i + 1]) else {
            panic!("{:?}", out[i + 1])
        };
        assert_eq!((mark.handle, mark.flow), (emit.handle, emit.flow));
    }
}

/// The drops depend on the seed, and on nothing else.
#[test]
fn the_same_seed_drops_the_same() {
    let pie = fifo("pie", Values::default(), Limit::Packets(1000));
    let red = fifo("red", Values::default(), Limit::Packets(1000));
    for spec in [pie, red] {
        let with = |seed| overload(&PipeSpec { seed, ..spec.clone() }, 0..2000, Ecn::Not, 2);
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }
}

fn of_its_own(kind: &'static str, scheduler: Values) -> PipeSpec {
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(1))];
    PipeSpec::new(
        kind,
        Setup { rate: Rate::from_mbit(8), largest: 1000, scheduler, flows },
        Span::ZERO,
    )
}

/// One connection fills the queues, and another sends little: only the first one loses packets,
/// from the front of its queue, and the second one waits for two packets at most.
#[test]
fn fq_codel_takes_it_from_the_fattest() {
    let spec = of_its_own("fq_codel", Values::default().with("limit", Value::Count(20)));
    let mut engine = Engine::new(&[spec]).unwrap();
    let mut out = Vec::new();
    for ms in 0..400u64 {
        for connection in [1, 1, 1, 2] {
            let small = connection == 2;
            if small && ms % 5 != 0 {
                continue;
            }
            let unit = Unit {
                flow: FlowId(0),
                handle: connection as u32,
                bytes: if small { 100 } else { 1000 },
            };
            engine.input_labelled(
                PIPE,
                unit,
                &MaskIds::NONE,
                Label { connection, ..Label::default() },
                Time(ms * 1_000_000),
                &mut out,
            );
            let waiting = engine.counters(PIPE, FlowId(0)).backlog;
            assert!(waiting <= 21, "20 wait and one is on the wire: {waiting}");
        }
    }
    engine.poll(Time(1 << 50), &mut out);
    assert!(
        out.iter().all(|o| !matches!(o, Output::Drop(d) if d.handle == 2)),
        "the thin one loses nothing"
    );
    let slowest = emits(&out).iter().filter(|e| e.handle == 2).map(|e| e.end - e.arrival).max();
    assert!(slowest <= Some(Span(2_100_000)), "{slowest:?}");
    let fat = emits(&out).iter().filter(|e| e.handle == 1).map(|e| e.end - e.arrival).max();
    assert!(fat <= Some(Span(24_000_000)), "the first go, so the last wait short: {fat:?}");
    let c = engine.counters(PIPE, FlowId(0));
    assert!(c.dropped_by_policy > 700 && c.dropped_full == 0, "{c:?}");
}

/// Scalable packets go before classic ones; they are marked and never dropped.
#[test]
fn dualpi2_keeps_the_scalable_queue_short() {
    // No classic packet waits longer than the time shift of 1 s, so a scalable packet waits for one
    // classic packet at most.
    let spec =
        of_its_own("dualpi2", Values::default().with("shift", Value::Span(Span::from_secs(1))));
    let mut engine = Engine::new(&[spec]).unwrap();
    let mut out = Vec::new();
    for ms in 0..5_000u64 {
        let mut send = |ecn, handle, bytes| {
            let unit = Unit { flow: FlowId(0), handle, bytes };
            let label = Label { ecn, ..Label::default() };
            engine.input_labelled(
                PIPE,
                unit,
                &MaskIds::NONE,
                label,
                Time(ms * 1_000_000),
                &mut out,
            );
        };
        send(Ecn::Ect1, 1, 200);
        send(Ecn::Not, 0, 820);
    }
    engine.poll(Time(1 << 50), &mut out);
    let longest = |handle| {
        emits(&out)
            .iter()
            .filter(|e| e.handle == handle)
            .map(|e| (e.end - e.arrival).0)
            .max()
            .unwrap()
    };
    let count = |of: &dyn Fn(&Output) -> bool| out.iter().filter(|o| of(o)).count();
    let marks = count(&|o| matches!(o, Output::Mark(m) if m.handle == 1));
    let drops = count(&|o| matches!(o, Output::Drop(d) if d.handle == 0));
    assert!(longest(1) <= 1_020_000, "{} ns", longest(1));
    assert!(longest(0) > 10_000_000, "{} ns", longest(0));
    assert!(marks > drops && drops > 20, "{marks} marks, {drops} drops");
    assert_eq!(count(&|o| matches!(o, Output::Drop(d) if d.handle == 1)), 0);
}

/// The outputs for a hundred packets of 1000 B that arrive at a `fifo` at once, which is replaced
/// by another discipline after 50 ms.
fn changed_to(
    kind: &'static str,
    scheduler: Values,
    policy: Option<Policy>,
    known: impl Fn(u32) -> Label,
) -> Vec<Output> {
    let spec = fifo("tail", Values::default(), Limit::Packets(500));
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let mut out = Vec::new();
    for handle in 0..100 {
        engine.input(PIPE, Unit { flow: FlowId(0), handle, bytes: 1000 }, Time::ZERO, &mut out);
    }
    let mut after = spec;
    (after.kind, after.setup.scheduler) = (kind, scheduler);
    policy
        .into_iter()
        .for_each(|policy| after.setup.flows[0].values.set(POLICY, Value::Policy(policy)));
    let prepared = engine.prepare(PIPE, &after).expect("it fits");
    engine.apply_with_labels(prepared, &known, Time(50_500_000), &mut out).expect("it fits still");
    engine.poll(Time(1 << 50), &mut out);
    assert_eq!(
        emits(&out).len() + out.iter().filter(|o| matches!(o, Output::Drop(_))).count(),
        100
    );
    out
}

/// The milliseconds at which marks were reported; a mark is reported with the packet that goes
/// next.
fn marked_at(out: &[Output]) -> Vec<u64> {
    let next = |i: usize| emits(&out[i..]).first().map(|e| e.start.0 / 1_000_000);
    (0..out.len()).filter(|&i| matches!(out[i], Output::Mark(_))).filter_map(next).collect()
}

/// Packets keep their labels and their waiting times when another discipline takes them over.
#[test]
fn after_a_change_packets_are_judged_by_what_they_are_and_by_when_they_came() {
    let capable = |ecn| move |_: u32| Label { ecn, ..Label::default() };
    let codel = Values::default()
        .with("ecn", Value::Choice("yes"))
        .with("target", Value::Span(Span::from_millis(40)))
        .with("interval", Value::Span(Span::from_millis(60)));
    // The first packet that the new discipline examines has waited for 51 ms, and the interval
    // begins then.
    let first = |scheduler: Values, policy| {
        marked_at(&changed_to("fq_codel", scheduler, policy, capable(Ecn::Ect0)))
    };
    let short = codel.clone().with("interval", Value::Span(Span::from_millis(45)));
    assert_eq!(first(short, None).first(), Some(&96));
    assert!(first(codel.clone(), None).is_empty(), "it is over before the interval is");
    // Packets whose endpoints do not support marks are dropped.
    let short = codel.clone().with("interval", Value::Span(Span::from_millis(45)));
    let out = changed_to("fq_codel", short.clone(), None, capable(Ecn::Not));
    assert!(
        marked_at(&out).is_empty()
            && out.iter().any(|o| matches!(o, Output::Drop(d) if d.why == DropReason::Policy))
    );
    // The same for a policy of a queue.
    let policy = Policy::new("codel", &short, Limit::Packets(500)).expect("a policy");
    let out = changed_to("drr", Values::default(), policy, capable(Ecn::Ect0));
    assert_eq!((marked_at(&out).first(), emits(&out).len()), (Some(&96), 100));
    // Scalable packets have waited beyond the ramp: all are marked except the one on the wire, and
    // the next one. Marks come at equal distances, and the first distance begins with that next
    // packet.
    let out = changed_to("dualpi2", Values::default(), None, capable(Ecn::Ect1));
    assert_eq!(marked_at(&out).len(), 48);
    // A connection of one packet, the last packet but one, goes before another connection's long
    // queue.
    let connection =
        |handle: u32| Label { connection: u64::from(handle == 98), ..Label::default() };
    let out = changed_to("fq_codel", Values::default(), None, connection);
    let place = emits(&out).iter().position(|e| e.handle == 98).expect("it was sent");
    assert!((51..=53).contains(&place), "{place}");
}

/// Bytes that two always backlogged flows get of a link, if flow 0 has this policy; and whether
/// both have a guarantee.
fn shares(kind: &'static str, seed: u64, name: &str) -> Option<(bool, [u64; 2])> {
    let mut dice = Dice::new(seed ^ 0x4ead);
    let mut spec = any_pipe(&mut dice);
    spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
    spec.setup.flows.truncate(2);
    if spec.setup.flows.len() < 2 {
        return None;
    }
    become_kind(&mut dice, &mut spec, registry::entry(kind).expect("known"));
    let largest = u64::from(spec.setup.largest);
    let limit = Limit::Packets(dice.from(2, 5) as u32);
    let own = &mut spec.setup.flows[0];
    own.limit = limit;
    let mut values = Values::default();
    for (key, value) in own.values.iter().filter(|(key, _)| *key != POLICY) {
        values.set(key, value);
    }
    let policy = Policy::new(name, &Values::default(), limit).expect("valid");
    own.values = policy.map_or(values.clone(), |policy| values.with(POLICY, Value::Policy(policy)));
    spec.setup.flows[1].limit = Limit::Packets(8);
    let engine = Engine::new(std::slice::from_ref(&spec)).ok()?;
    let guaranteed = [0, 1].iter().all(|f| engine.guarantee(PIPE, FlowId(*f)).is_ok());
    // With packets of one size a policy changes which ones leave, and not how many bytes.
    let horizon = 400 * 8 * largest;
    let step = 3 * largest;
    let arrivals = (0..horizon).step_by(step as usize).flat_map(|at| {
        [0, 1].map(|f| crate::common::Arrival {
            at: Time(at),
            flow: FlowId(f),
            bytes: largest as u32,
        })
    });
    let (out, _) = run(&spec, seed, &arrivals.collect::<Vec<_>>(), |_, _, _| {});
    let got = |f| {
        emits(&out)
            .iter()
            .filter(|e| e.flow == FlowId(f) && e.end.0 <= horizon)
            .map(|e| u64::from(e.bytes))
            .sum()
    };
    Some((guaranteed, [got(0), got(1)]))
}

/// A packet that is dropped from the front of a queue costs neither its flow nor others any
/// service. With head drop both flows get as many bytes as with tail drop, under every discipline
/// that shares the link and whose queues support head drop. Disciplines that use only a packet's
/// arrival or due time guarantee no share, or none if rates do not fit. If a fluid server continues
/// to count dropped packets (`DropImpact::All`) there is no guarantee any more.
#[test]
fn head_drop_takes_nothing_from_anybody_s_share() {
    let mut seen = BTreeMap::new();
    let mut broken = Vec::new();
    // These disciplines have one queue for all flows, or queues of their own; or guarantee delays
    // and no rates; or, during bursts, are first in first out, so that a flow with a longer queue
    // gets more.
    let own = ["fifo", "fq", "cake", "fq_codel", "fq_pie", "dualpi2"];
    let others = [&own[..], &["edf", "mgfq", "ats", "wfq", "wf2q"]].concat();
    let kinds = ENTRIES.iter().filter(|entry| !others.contains(&entry.kind));
    for entry in kinds.clone() {
        for seed in 0..60 {
            let (Some((fits, tail)), Some((_, head))) =
                (shares(entry.kind, seed, "tail"), shares(entry.kind, seed, "head"))
            else {
                continue;
            };
            if !fits && entry.kind == "rcsp" {
                continue;
            }
            *seen.entry(entry.kind).or_insert(0) += 1;
            for f in [0, 1] {
                // A packet or two may be in transit at the end.
                if head[f] * 100 < (tail[f] * 95).saturating_sub(300) {
                    broken.push((entry.kind, seed, f, tail[f], head[f]));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
    for entry in kinds {
        assert!(seen.get(entry.kind).is_some_and(|n| *n > 5), "{}: {seen:?}", entry.kind);
    }
}
