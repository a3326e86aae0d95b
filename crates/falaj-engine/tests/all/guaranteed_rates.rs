//! Guaranteed rate clocks with every discipline: no change at any instant makes a clock report a
//! broken guarantee, and a server that gives less than its guarantee is detected.

use crate::common::{Dice, any_pipe, become_kind, emits};
use falaj_engine::guaranteed_rate::GuaranteedRateClock;
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{RateCondition, Settling};
use falaj_sched::contract::params::{Setup, Value};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::{self, ENTRIES};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const PIPE: PipeId = PipeId(0);

/// The conditions of a discipline's guaranteed rates: the allowance after a change, and the
/// condition on the queue.
struct Conditions;
impl registry::Visitor for Conditions {
    type Output = (Settling, Option<RateCondition>);
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
        (discipline.settling(), discipline.rate_condition())
    }
}

/// By flow, the guaranteed rate, its latency, and the allowance until the link has been idle after
/// a change; `None` for a flow whose rate is not guaranteed or cannot be checked.
fn guarantees(
    engine: &Engine,
    setup: &Setup,
    kind: &str,
) -> Vec<Option<(Rate, Span, Option<Span>)>> {
    let (settling, condition) = registry::build(kind, setup, Conditions).expect("it was built");
    let of = |f: usize| {
        let guarantee = engine.guarantee(PIPE, FlowId(f as u32)).ok()?;
        let is_judged = guarantee.rate.0 > 0 && condition != Some(RateCondition::Queued);
        is_judged.then(|| (guarantee.rate, guarantee.latency, settling.time(setup, &guarantee)))
    };
    (0..setup.flows.len()).map(of).collect()
}

/// A pipe of this kind, with undivided flows.
fn pipe(dice: &mut Dice, kind: &'static str) -> PipeSpec {
    let mut spec = any_pipe(dice);
    for flow in &mut spec.setup.flows {
        (flow.inner, flow.limit) = (None, Limit::Packets(dice.from(1, 40) as u32));
    }
    spec.setup.scheduler = Default::default();
    become_kind(dice, &mut spec, registry::entry(kind).expect("registered"));
    spec
}

/// Changes values, the rate, the largest packet, the number of flows, or the discipline itself.
fn change(dice: &mut Dice, spec: &mut PipeSpec) {
    let mut entry = registry::entry(spec.kind).expect("registered");
    match dice.from(0, 5) {
        0 => spec.setup.rate = Rate::from_bits(dice.from(500_000_000, 2_000_000_000)),
        1 => spec.setup.largest += dice.from(0, 2) as u32,
        2 if spec.setup.flows.len() < 8 => {
            let another = spec.setup.flows[0].clone();
            spec.setup.flows.push(another);
        }
        3 => entry = dice.one_of(&ENTRIES.iter().collect::<Vec<_>>()),
        _ => {}
    }
    become_kind(dice, spec, entry);
}

/// The flows that are checked, and the results.
#[derive(Default)]
struct Judged {
    clocks: Vec<Option<GuaranteedRateClock>>,
    packets: u64,
    in_settling: u64,
}

#[test]
fn changes_at_any_instant_prove_nothing_broken() {
    let mut unjudged = Vec::new();
    for entry in ENTRIES {
        let mut judged = Judged::default();
        for seed in 0..150 {
            let mut dice = Dice::new(seed ^ 0x6c0c);
            let mut spec = pipe(&mut dice, entry.kind);
            let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("accepted");
            let mut guaranteed = guarantees(&engine, &spec.setup, spec.kind);
            let begin = |of: &Option<(Rate, Span, Option<Span>)>| {
                of.map(|(rate, latency, _)| GuaranteedRateClock::new(rate, latency, Time::ZERO))
            };
            judged.clocks = guaranteed.iter().map(begin).collect();
            // Remaining time on the wire at the last change, and the time of a largest packet;
            // `None` once the link has been idle.
            let mut settling = None::<Span>;
            let (mut out, mut now, mut wire_until) = (Vec::new(), Time::ZERO, Time::ZERO);
            let calm = dice.from(1, 150) * u64::from(spec.setup.largest);
            for step in 0..=400 {
                now += if step == 400 { Span(1 << 40) } else { Span(dice.from(0, calm)) };
                engine.poll(now, &mut out);
                for e in emits(&std::mem::take(&mut out)) {
                    wire_until = wire_until.max(e.end);
                    let (Some(clock), Some((.., more))) =
                        (&mut judged.clocks[e.flow.index()], guaranteed[e.flow.index()])
                    else {
                        continue;
                    };
                    let allowance = match settling {
                        None => Span::ZERO,
                        Some(wire) => match more {
                            Some(more) => wire + more,
                            None => Span(u64::MAX / 4),
                        },
                    };
                    judged.packets += 1;
                    judged.in_settling += u64::from(settling.is_some() && more.is_some());
                    let proof = clock.departed(e.arrival, e.end, e.bytes, allowance);
                    assert_eq!(proof, None, "seed {seed}: {e:?} with {allowance}: {spec:?}");
                }
                let is_empty = |f: usize| engine.counters(PIPE, FlowId(f as u32)).backlog == 0;
                if now >= wire_until && (0..spec.setup.flows.len()).all(is_empty) {
                    settling = None;
                }
                if dice.from(0, 29) == 0 {
                    // The packet on the wire ends as computed at the old rate, or at the new one.
                    let wire = wire_until.since(now);
                    change(&mut dice, &mut spec);
                    let prepared = engine.prepare(PIPE, &spec).expect("accepted");
                    engine.apply(prepared, now, &mut out).expect("it fits");
                    settling = Some(wire + spec.setup.largest_airtime());
                    guaranteed = guarantees(&engine, &spec.setup, spec.kind);
                    let before = std::mem::take(&mut judged.clocks);
                    judged.clocks = guaranteed.iter().map(begin).collect();
                    for ((clock, guarantee), before) in
                        judged.clocks.iter_mut().zip(&guaranteed).zip(before)
                    {
                        *clock = guarantee.and_then(|(rate, latency, settling)| match before {
                            Some(before) => Some(before.changed(rate, latency, now)),
                            // A regulator may still count earlier service against the flow; the
                            // amount is unknown here.
                            None if settling.is_none() => None,
                            None => Some(GuaranteedRateClock::new(rate, latency, now)),
                        });
                    }
                }
                let flow = FlowId(dice.from(0, spec.setup.flows.len() as u64 - 1) as u32);
                for _ in 0..dice.from(1, 12) {
                    let any = dice.from(1, spec.setup.largest.into()) as u32;
                    let bytes = dice.one_of(&[spec.setup.largest, any]);
                    engine.input(PIPE, Unit { flow, handle: 0, bytes }, now, &mut out);
                }
            }
        }
        if judged.packets < 10_000 {
            unjudged.push(entry.kind);
        } else {
            assert!(
                judged.in_settling > 0,
                "{}: no packet was checked while a change settled",
                entry.kind
            );
        }
    }
    println!("rates hardly or not checked: {unjudged:?}");
    assert!(unjudged.len() * 2 < ENTRIES.len(), "hardly anything was judged: {unjudged:?}");
}

/// While all flows flood the link, a flow with too small a weight gets less than four fifths of its
/// guaranteed rate, and the clocks report it.
#[test]
fn a_wrong_weight_is_found() {
    let mut faults = 0;
    for kind in ["scfq", "sfq", "wfq", "wf2q", "spfq", "qfq", "qfq+", "wf2q+", "drr"] {
        for seed in 0..180 {
            let mut dice = Dice::new(seed ^ 0xbad);
            let mut spec = pipe(&mut dice, kind);
            spec.setup.flows.resize(4, spec.setup.flows[0].clone());
            for flow in &mut spec.setup.flows {
                flow.limit = Limit::Packets(100_000);
                let share = dice.from(3, 8);
                match kind {
                    "drr" => {
                        let bytes = share * u64::from(spec.setup.largest);
                        flow.values.set("quantum", Value::Bytes(bytes));
                    }
                    _ => flow.values.set("weight", Value::Count(share)),
                }
            }
            let guaranteed = {
                let engine = Engine::new(std::slice::from_ref(&spec)).expect("accepted");
                guarantees(&engine, &spec.setup, kind)
            };
            let Some((rate, latency, _)) = guaranteed[0] else { continue };
            let key = if kind == "drr" { "quantum" } else { "weight" };
            let mut wrong = spec.clone();
            let values = &mut wrong.setup.flows[0].values;
            // With this smaller weight, the flow's share is less than four fifths of the share that
            // its own weight guarantees.
            let half = match kind {
                "drr" => Value::Bytes(values.bytes(key).expect("set") * 2 / 3),
                _ => Value::Count(1),
            };
            values.set(key, half);
            let mut engine = Engine::new(std::slice::from_ref(&wrong)).expect("accepted");
            let mut out = Vec::new();
            for _ in 0..2_000 {
                for flow in 0..4 {
                    let bytes = dice.from(1, spec.setup.largest.into()) as u32;
                    let unit = Unit { flow: FlowId(flow), handle: 0, bytes };
                    engine.input(PIPE, unit, Time::ZERO, &mut out);
                }
            }
            engine.poll(Time(1 << 40), &mut out);
            let mut clock = GuaranteedRateClock::new(rate, latency, Time::ZERO);
            let proof = emits(&out)
                .iter()
                .filter(|e| e.flow == FlowId(0))
                .find_map(|e| clock.departed(e.arrival, e.end, e.bytes, Span::ZERO));
            let proof = proof.unwrap_or_else(|| panic!("{kind}, seed {seed}: not found"));
            assert!(proof.served < proof.guaranteed, "{proof:?}");
            faults += 1;
        }
    }
    assert!(faults >= 1_000, "{faults} faults");
}
