//! Changes while packets are queued: of any parameter, of the rate, of the
//! number of flows, of the discipline itself.

use crate::common::{Dice, any_pipe, become_kind, bursts, by_device, divide, impair};
use falaj_engine::impair::Impairments;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Pace, PipeSpec};
use falaj_engine::{ChangeError, DropReason, Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

const PIPE: PipeId = PipeId(0);

/// Nothing is lost but at full queues, packets of a flow keep their order, the
/// link never carries two at once, and rests only if nobody has anything or the
/// discipline keeps it free.
#[test]
fn no_change_loses_or_reorders_a_packet() {
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed ^ 0x00c4_a96e);
        let mut spec = any_pipe(&mut dice);
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut queued: Vec<VecDeque<u32>> = vec![VecDeque::new(); 32];
        let (mut out, mut wire_free) = (Vec::new(), Time::ZERO);
        let mut check = |out: &mut Vec<Output>, queued: &mut Vec<VecDeque<u32>>| {
            for output in out.drain(..) {
                match output {
                    Output::Emit(e) => {
                        assert_eq!(
                            queued[e.flow.index()].pop_front(),
                            Some(e.handle),
                            "seed {seed}: order"
                        );
                        assert!(e.start >= wire_free, "seed {seed}: two at once");
                        wire_free = e.end;
                    }
                    Output::Drop(d)
                        if matches!(d.why, DropReason::Lost | DropReason::Discipline) =>
                    {
                        assert_eq!(
                            queued[d.flow.index()].pop_front(),
                            Some(d.handle),
                            "seed {seed}: order"
                        );
                    }
                    Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
                    Output::Drop(d) if d.why == DropReason::Policy => {
                        let queued = &mut queued[d.flow.index()];
                        let place = queued.iter().position(|&handle| handle == d.handle);
                        assert!(
                            place.and_then(|place| queued.remove(place)).is_some(),
                            "seed {seed}: never came"
                        );
                    }
                    Output::Drop(d) => {
                        assert_eq!(
                            queued[d.flow.index()].pop_back(),
                            Some(d.handle),
                            "seed {seed}"
                        );
                    }
                }
            }
        };
        for (handle, a) in arrivals.iter().enumerate() {
            if dice.from(0, 9) == 0 {
                change(&mut dice, &mut spec);
                let prepared = engine
                    .prepare(PIPE, &spec)
                    .unwrap_or_else(|e| panic!("seed {seed}: {e}: {spec:?}"));
                engine.apply(prepared, a.at, &mut out).unwrap();
            }
            engine.poll(a.at, &mut out);
            check(&mut out, &mut queued);
            queued[a.flow.index()].push_back(handle as u32);
            let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
            engine.input(PIPE, unit, a.at, &mut out);
            check(&mut out, &mut queued);
        }
        let mut steps = 0;
        while engine.next_event() != Time::NEVER {
            engine.poll(engine.next_event(), &mut out);
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed}: never comes to an end");
        }
        check(&mut out, &mut queued);
        assert!(queued.iter().all(VecDeque::is_empty), "seed {seed}: {queued:?} stay behind");
        for f in 0..spec.setup.leaves().len() as u32 {
            let c = engine.counters(PIPE, FlowId(f));
            assert_eq!((c.backlog, c.offered), (0, c.sent + c.dropped()), "seed {seed}: {c:?}");
        }
    }
}

/// The discipline, the link, the flows, a limit or only the parameters become others.
fn change(dice: &mut Dice, spec: &mut PipeSpec) {
    let mut entry = registry::entry(spec.kind).expect("registered");
    match dice.from(0, 7) {
        6 if dice.from(0, 2) == 0 => {
            (spec.impairments, spec.capacity) = (Impairments::default(), Capacity::Serialise);
        }
        6 => impair(dice, spec),
        7 if spec.pace == Pace::Falaj && by_device(dice, spec) => {}
        7 => spec.pace = Pace::Falaj,
        0 => entry = dice.one_of(&registry::ENTRIES.iter().collect::<Vec<_>>()),
        1 => spec.setup.rate = Rate::from_bits(dice.from(900_000_000, 1_100_000_000)),
        2 => spec.delay = Span(dice.from(0, 2_000)),
        3 if spec.setup.flows.len() < 8 => {
            let another = spec.setup.flows[0].clone();
            spec.setup.flows.push(another);
        }
        4 => spec.setup.flows[0].limit = Limit::Packets(dice.from(1, 30) as u32),
        _ => {}
    }
    // What flows may ask for depends on the rate and on how many they are.
    // No flow may go, so what was divided becomes as many.
    spec.setup.flows = spec.setup.leaves().into_iter().cloned().collect();
    if matches!(entry.kind, "virtual-links" | "dcf") {
        (spec.capacity, spec.impairments.profile) = (Capacity::Serialise, None);
    }
    // What no device does was asked for.
    if spec.pace != Pace::Falaj && (entry.kind == "dcf" || spec.refused().is_some()) {
        spec.pace = Pace::Falaj;
    }
    become_kind(dice, spec, entry);
    if dice.from(0, 1) == 0 && spec.setup.flows.len() < 9 {
        divide(dice, spec);
    }
}

#[test]
fn flows_do_not_vanish_and_a_bad_setup_changes_nothing() {
    let mut dice = Dice::new(7);
    let mut spec = any_pipe(&mut dice);
    while spec.setup.flows.len() < 2 {
        spec = any_pipe(&mut dice);
    }
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let mut fewer = spec.clone();
    fewer.setup.flows.pop();
    assert_eq!(
        engine.prepare(PIPE, &fewer).err(),
        Some(ChangeError::Fewer { flows: spec.setup.flows.len() })
    );
    // What waits would be too large; what is on the wire would not mind.
    let mut smaller = spec.clone();
    smaller.setup.largest -= 1;
    let prepared = engine.prepare(PIPE, &smaller).unwrap();
    let unit = Unit { flow: FlowId(0), handle: 0, bytes: spec.setup.largest };
    (0..2).for_each(|_| engine.input(PIPE, unit, Time::ZERO, &mut Vec::new()));
    let too_large = ChangeError::Smaller { largest: spec.setup.largest };
    assert_eq!(engine.prepare(PIPE, &smaller).err(), Some(too_large.clone()));
    assert_eq!(engine.apply(prepared, Time::ZERO, &mut Vec::new()), Err(too_large));
    assert_eq!(engine.counters(PIPE, FlowId(0)).backlog, 2);
    let mut no_room = spec.clone();
    no_room.setup.flows[1].limit = Limit::Packets(0);
    let refused = engine.prepare(PIPE, &no_room);
    // These have queues of their own.
    assert!(
        refused.is_err() || matches!(spec.kind, "fifo" | "fq_codel" | "dualpi2"),
        "{}",
        spec.kind
    );
}

/// Flows, larger packets: a change that was prepared before they came would take them out again.
/// It is refused, and what came goes on; one that has as many is right.
#[test]
fn a_change_prepared_before_another_one_takes_nothing_out() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed ^ 0x5_1a1e);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.limit = Limit::Packets(9));
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let prepare = |engine: &Engine, spec: &PipeSpec| engine.prepare(PIPE, spec).unwrap();
        let stale = [prepare(&engine, &spec), prepare(&engine, &spec)];
        let mut more = spec.clone();
        let flows = spec.setup.leaves().len();
        // No flow may go, so what was divided becomes as many.
        more.setup.flows = more.setup.leaves().into_iter().cloned().collect();
        more.setup.flows.push(more.setup.flows[0].clone());
        let mut larger = spec.clone();
        larger.setup.largest += 1;
        let mut out = Vec::new();
        let mut send = |engine: &mut Engine, flow, bytes, at| {
            let unit = Unit { flow: FlowId(flow), handle: 0, bytes };
            (0..3).for_each(|_| engine.input(PIPE, unit, Time(at), &mut out));
        };
        send(&mut engine, 0, 1, 0);
        let (with, refused) = match dice.from(0, 1) {
            0 => (&mut more, ChangeError::Fewer { flows: flows + 1 }),
            _ => (&mut larger, ChangeError::Smaller { largest: spec.setup.largest + 1 }),
        };
        let entry =
            registry::entry(dice.one_of(&["drr", "wfq", "qfq", "priority", "fifo"])).unwrap();
        if with.setup.flows.iter().any(|f| f.inner.is_some()) {
            continue;
        }
        become_kind(&mut dice, with, entry);
        if entry.kind == "fifo" {
            // One queue for all, in which what the other flow has sent leaves room.
            with.setup.scheduler.set("queue", Value::Limit(Limit::Packets(30)));
        }
        let with = with.clone();
        let (first, meanwhile) = (prepare(&engine, &with), prepare(&engine, &with));
        engine.apply(first, Time(2), &mut Vec::new()).unwrap();
        let (last, bytes) = (with.setup.flows.len() as u32 - 1, with.setup.largest);
        send(&mut engine, last, bytes, 3);
        for stale in stale {
            assert_eq!(
                engine.apply(stale, Time(4), &mut Vec::new()),
                Err(refused.clone()),
                "seed {seed}"
            );
        }
        send(&mut engine, last, bytes, 5);
        engine.apply(meanwhile, Time(6), &mut Vec::new()).unwrap();
        send(&mut engine, last, bytes, 7);
        engine.poll(Time(1 << 40), &mut Vec::new());
        let counters = engine.counters(PIPE, FlowId(last));
        assert_eq!((counters.backlog, counters.dropped_large), (0, 0), "seed {seed}");
        assert!(counters.sent > 0, "seed {seed}");
    }
}

/// A rate that changes does so for the packet after the one on the wire.
#[test]
fn the_packet_on_the_wire_ends_when_it_was_to_end() {
    let mut dice = Dice::new(3);
    let mut spec = any_pipe(&mut dice);
    become_kind(&mut dice, &mut spec, registry::entry("drr").unwrap());
    (spec.setup.rate, spec.setup.largest, spec.delay) = (Rate::from_mbit(8), 1000, Span::ZERO);
    spec.setup.flows.truncate(1);
    spec.setup.flows[0] = FlowSetup::new(Default::default(), Limit::Packets(9));
    let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
    let mut out = Vec::new();
    for handle in 0..2 {
        engine.input(PIPE, Unit { flow: FlowId(0), handle, bytes: 1000 }, Time::ZERO, &mut out);
    }
    for (kind, rate) in [("drr", 16), ("fifo", 16)] {
        (spec.kind, spec.setup.rate) = (kind, Rate::from_mbit(rate));
        let prepared = engine.prepare(PIPE, &spec).unwrap();
        engine.apply(prepared, Time(500_000), &mut out).unwrap();
        assert_eq!(engine.next_event(), Time(1_000_000), "{kind}");
    }
    engine.poll(Time(5_000_000), &mut out);
    let ends = crate::common::emits(&out).iter().map(|e| e.end).collect::<Vec<_>>();
    assert_eq!(ends, [Time(1_000_000), Time(1_500_000)]);
}

/// Weights of another scale say the same: a head that was a packet ahead by the old
/// ones does not wait for as many packets of the others as the new ones are larger.
#[test]
fn heads_do_not_starve_when_all_weights_grow() {
    for (kind, first) in [("scfq", 0), ("scfq", 1), ("sfq", 0), ("sfq", 1)] {
        let pipe = |weight| {
            let flow = |limit| {
                FlowSetup::new(Values::default().with("weight", Value::Count(weight)), limit)
            };
            let flows = vec![flow(Limit::Packets(3)), flow(Limit::Packets(2_000))];
            let setup = Setup {
                rate: Rate::from_mbit(1000),
                largest: 1000,
                scheduler: Values::default(),
                flows,
            };
            PipeSpec::new(kind, setup, Span::ZERO)
        };
        for change in [2, 8_002, 16_002, 24_002] {
            let mut engine = Engine::new(&[pipe(1)]).unwrap();
            let mut out = Vec::new();
            for flow in [first, 1 - first] {
                for handle in 0..[3, 2_000][flow as usize] {
                    engine.input(
                        PIPE,
                        Unit { flow: FlowId(flow), handle, bytes: 1000 },
                        Time::ZERO,
                        &mut out,
                    );
                }
            }
            let prepared = engine.prepare(PIPE, &pipe(1_000)).unwrap();
            engine.apply(prepared, Time(change), &mut out).unwrap();
            engine.poll(Time(20_000_000), &mut out);
            let promise = engine.promise(PIPE, FlowId(0)).unwrap().delay.delay;
            let longest = crate::common::emits(&out)
                .iter()
                .filter(|e| e.flow == FlowId(0))
                .map(|e| e.end - e.arrival)
                .max();
            assert!(longest <= Some(promise), "{kind}, {change}: {longest:?} > {promise}");
        }
    }
}
