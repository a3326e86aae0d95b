//! Service of flows after weights, rates and deadlines have changed while packets are queued.

use crate::common::{Dice, become_kind, emits};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::entry;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const PIPE: PipeId = PipeId(0);

/// A link of 1 Gbit/s: a byte takes 8 ns.
fn pipe(
    kind: &'static str,
    largest: u32,
    queue: u32,
    flows: impl Iterator<Item = Values>,
) -> PipeSpec {
    let flows = flows.map(|values| FlowSetup::new(values, Limit::Packets(queue))).collect();
    let setup = Setup { rate: Rate::from_mbit(1000), largest, scheduler: Values::default(), flows };
    PipeSpec::new(kind, setup, Span::ZERO)
}

/// Time of `n` packets of the largest size at this rate.
fn packets(n: u64, spec: &PipeSpec, rate: Rate) -> Span {
    rate.airtime_of_many(n * u64::from(spec.setup.largest))
}

/// Allowance on top of a guarantee until the link has been idle: see decision 8. `ahead` is the
/// largest number of bytes that the flow may have been ahead at any of its earlier rates.
fn settling(spec: &PipeSpec, guarantee: &Guarantee, ahead: u64) -> Span {
    let link = packets(spec.setup.flows.len() as u64, spec, spec.setup.rate);
    match spec.kind {
        "scfq" | "sfq" | "edf" => Span::ZERO,
        "wfq" | "wf2q+" | "ffs" => packets(1, spec, guarantee.rate),
        "wf2q" => link,
        "spfq" => guarantee.rate.airtime_of_many(ahead) + link,
        "qfq" | "qfq+" => packets(3, spec, guarantee.rate),
        kind => panic!("{kind} is not here"),
    }
}

/// Weights and deadlines change by any factor, again and again, while all flows are backlogged. No
/// packet waits longer than the present guarantee of its flow and the allowance of [`settling`],
/// counted from its arrival, or from the last change if it was queued then.
#[test]
fn guarantees_hold_from_a_change_on() {
    for kind in ["scfq", "sfq", "wfq", "wf2q", "spfq", "edf", "qfq", "qfq+", "wf2q+", "ffs"] {
        let (mut met, mut nearest) = (0, 0.0f64);
        for seed in 0..700 {
            let mut dice = Dice::new(seed);
            let (n, largest) = (dice.from(1, 8), dice.from(1, 12) as u32);
            let mut spec =
                pipe(kind, largest, dice.from(1, 25) as u32, (0..n).map(|_| Values::default()));
            let mut draw = |dice: &mut Dice| {
                become_kind(dice, &mut spec, entry(kind).expect("registered"));
                let most = dice.one_of(&[3, 20, 60_000]);
                if kind != "edf" {
                    for f in &mut spec.setup.flows {
                        f.values.set("weight", Value::Count(dice.from(1, most)));
                    }
                }
                spec.clone()
            };
            let mut now_set = draw(&mut dice);
            let mut engine = Engine::new(std::slice::from_ref(&now_set)).unwrap();
            let ask = |engine: &Engine| -> Vec<Guarantee> {
                (0..n as u32)
                    .map(|f| engine.guarantee(PIPE, FlowId(f)).expect("guarantees"))
                    .collect()
            };
            let mut guaranteed = ask(&engine);
            let mut ahead = vec![0; n as usize];
            let (mut out, mut now, mut since) = (Vec::new(), 0, 0);
            let mut check = |out: &mut Vec<Output>,
                             set: &PipeSpec,
                             guaranteed: &[Guarantee],
                             ahead: &[u64],
                             since: u64| {
                for e in emits(&std::mem::take(out)) {
                    let guarantee = &guaranteed[e.flow.index()];
                    let (delay, bound) =
                        (Span(e.end.0 - e.arrival.0.max(since)), guarantee.delay.delay);
                    let bound = bound
                        + if since > 0 {
                            settling(set, guarantee, ahead[e.flow.index()])
                        } else {
                            Span::ZERO
                        };
                    assert!(
                        delay <= bound,
                        "{kind}, seed {seed}: {delay} > {bound} after {since} ns: {set:?}"
                    );
                    if e.arrival.0 < since {
                        (met, nearest) = (met + 1, nearest.max(delay.0 as f64 / bound.0 as f64));
                    }
                }
            };
            let calm = dice.from(1, 200) * u64::from(largest);
            for _ in 0..400 {
                now += dice.from(0, calm);
                if dice.from(0, 29) == 0 {
                    engine.poll(Time(now), &mut out);
                    check(&mut out, &now_set, &guaranteed, &ahead, since);
                    let slowest = guaranteed
                        .iter()
                        .filter(|p| p.rate > Rate(0))
                        .map(|p| packets(1, &now_set, p.rate))
                        .max()
                        .unwrap_or(Span::ZERO);
                    for (ahead, p) in ahead.iter_mut().zip(&guaranteed) {
                        *ahead = (*ahead).max(
                            (u128::from(p.rate.0) * u128::from(slowest.0) / 8_000_000_000) as u64
                                + 1,
                        );
                    }
                    now_set = draw(&mut dice);
                    let prepared = engine.prepare(PIPE, &now_set).unwrap();
                    engine.apply(prepared, Time(now), &mut out).unwrap();
                    (since, guaranteed) = (now, ask(&engine));
                }
                let flow = FlowId(dice.from(0, n - 1) as u32);
                for _ in 0..dice.from(1, 30) {
                    let any = dice.from(1, largest.into()) as u32;
                    let bytes = dice.one_of(&[largest, any]);
                    engine.input(PIPE, Unit { flow, handle: 0, bytes }, Time(now), &mut out);
                }
            }
            engine.poll(Time(1 << 40), &mut out);
            check(&mut out, &now_set, &guaranteed, &ahead, since);
        }
        assert!(
            met > 100_000 && nearest > 0.7,
            "{kind}: {met} packets waited through a change, {nearest} of the bound"
        );
    }
}

const BY_SHARES: [&str; 12] = [
    "scfq",
    "sfq",
    "wfq",
    "wf2q",
    "spfq",
    "virtual-clock",
    "sced",
    "qfq",
    "qfq+",
    "wf2q+",
    "ffs",
    "timer-wheels",
];

/// Disciplines with turns and slots, also when rates change and packets become larger: after a
/// change and the end of the packet then on the wire, no packet waits longer than the new guarantee
/// of its flow. No packet waits for the unused rest of a slot of the old length.
#[test]
fn turns_and_slots_begin_after_what_is_on_the_wire() {
    for kind in ["hrr", "drr", "wrr", "rr", "virtual-links"] {
        let (mut met, mut nearest) = (0, 0.0f64);
        for seed in 0..1_500 {
            let mut dice = Dice::new(seed);
            let (n, largest) = (dice.from(1, 6), dice.from(1, 12) as u32);
            let mut spec =
                pipe(kind, largest, dice.from(1, 25) as u32, (0..n).map(|_| Values::default()));
            become_kind(&mut dice, &mut spec, entry(kind).expect("registered"));
            let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
            let ask = |engine: &Engine| -> Vec<Option<Span>> {
                (0..n as u32)
                    .map(|f| Some(engine.guarantee(PIPE, FlowId(f)).ok()?.delay.delay))
                    .collect()
            };
            let (mut guaranteed, mut now, mut since, mut wire) = (ask(&engine), 0, 0, 0);
            let mut out = Vec::new();
            let mut check =
                |out: &mut Vec<Output>, guaranteed: &[Option<Span>], since: u64, wire: u64| {
                    for e in emits(&std::mem::take(out)) {
                        let Some(bound) = guaranteed[e.flow.index()] else { continue };
                        let bound = bound + Span(wire.saturating_sub(e.arrival.0.max(since)));
                        let delay = Span(e.end.0 - e.arrival.0.max(since));
                        assert!(
                            delay <= bound,
                            "{kind}, seed {seed}: {delay} > {bound} after {since} ns"
                        );
                        if e.arrival.0 < since {
                            (met, nearest) =
                                (met + 1, nearest.max(delay.0 as f64 / bound.0 as f64));
                        }
                    }
                };
            let calm = dice.from(1, 200) * u64::from(largest);
            for _ in 0..300 {
                now += dice.from(0, calm);
                if dice.from(0, 29) == 0 {
                    engine.poll(Time(now), &mut out);
                    let then = emits(&out).last().map_or(wire, |e| e.end.0);
                    check(&mut out, &guaranteed, since, wire);
                    wire = then;
                    spec.setup.rate = Rate(dice.from(50_000_000, 2_000_000_000));
                    spec.setup.largest += dice.from(0, 2) as u32;
                    become_kind(&mut dice, &mut spec, entry(kind).expect("registered"));
                    let prepared = engine.prepare(PIPE, &spec).unwrap();
                    engine.apply(prepared, Time(now), &mut out).unwrap();
                    for output in &out {
                        if let Output::Retimed(retimed) = output {
                            wire = retimed.end.0;
                        }
                    }
                    (since, guaranteed) = (now, ask(&engine));
                }
                let flow = FlowId(dice.from(0, n - 1) as u32);
                for _ in 0..dice.from(1, 30) {
                    let bytes = dice.from(1, spec.setup.largest.into()) as u32;
                    engine.input(PIPE, Unit { flow, handle: 0, bytes }, Time(now), &mut out);
                }
            }
            engine.poll(Time(1 << 40), &mut out);
            check(&mut out, &guaranteed, since, wire);
        }
        assert!(
            met > 10_000 && nearest > 0.8,
            "{kind}: {met} packets waited through a change, {nearest} of the bound"
        );
    }
}

/// Two flows of a discipline with weights, or with rates.
fn two(kind: &'static str, parts: [u64; 2]) -> PipeSpec {
    let by_rate = entry(kind).expect("registered").flow.iter().any(|param| param.name == "rate");
    let value = |part| match by_rate {
        true => Values::default()
            .with("rate", Value::Rate(Rate(1_000_000_000 * part / (parts[0] + parts[1])))),
        false => Values::default().with("weight", Value::Count(part)),
    };
    pipe(kind, 1000, 2_000, parts.into_iter().map(value))
}

/// Three packets of a flow are queued when its share changes from a thousandth of the link to all
/// but a thousandth. By the old share they would leave within 24 ms, by the new share within 24 us.
#[test]
fn a_larger_share_counts_for_what_is_queued() {
    for kind in BY_SHARES {
        let mut engine = Engine::new(&[two(kind, [1, 1000])]).unwrap();
        let mut out = Vec::new();
        for (flow, packets) in [(1, 2_000), (0, 3)] {
            for _ in 0..packets {
                engine.input(
                    PIPE,
                    Unit { flow: FlowId(flow), handle: 0, bytes: 1000 },
                    Time::ZERO,
                    &mut out,
                );
            }
        }
        let change = Time(400_002);
        let prepared = engine.prepare(PIPE, &two(kind, [1000, 1])).unwrap();
        engine.apply(prepared, change, &mut out).unwrap();
        engine.poll(Time(20_000_000), &mut out);
        let last = emits(&out).iter().filter(|e| e.flow == FlowId(0)).map(|e| e.end).max().unwrap();
        // The packet on the wire, and one packet of the other flow at most.
        assert!(last <= change + Span(5 * 8_000), "{kind}: {last:?}");
    }
}

/// A change for each packet: of the neighbor's weight, of all weights, or of the flow's own weight.
/// The waiting time of the head is not lost, and the flow gets its turns.
#[test]
fn changes_without_end_do_not_starve_a_flow() {
    for kind in BY_SHARES {
        for parts in [[[1, 100], [1, 101]], [[1, 100], [2, 200]], [[1, 100], [2, 100]]] {
            let mut engine = Engine::new(&[two(kind, parts[0])]).unwrap();
            let mut out = Vec::new();
            for flow in [0, 1] {
                for _ in 0..2_000 {
                    engine.input(
                        PIPE,
                        Unit { flow: FlowId(flow), handle: 0, bytes: 1000 },
                        Time::ZERO,
                        &mut out,
                    );
                }
            }
            for change in 0..1_500 {
                let prepared = engine.prepare(PIPE, &two(kind, parts[change % 2])).unwrap();
                engine.apply(prepared, Time(8_001 * change as u64), &mut out).unwrap();
            }
            // Its share of 1500 packets is 14.8, and 22.1 if its own weight changes.
            let own = emits(&out).iter().filter(|e| e.flow == FlowId(0)).count();
            assert!((14..=30).contains(&own), "{kind}, {parts:?}: {own}");
        }
    }
}
