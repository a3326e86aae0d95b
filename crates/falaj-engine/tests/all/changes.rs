//! Changes while packets are queued: of any parameter, of the rate, of the number of flows, of the
//! discipline.

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

/// Nothing is lost except at full queues, packets of a flow keep their order, the link never
/// carries two packets at once, and is idle only if all queues are empty or the discipline keeps it
/// free.
#[test]
fn no_change_loses_or_reorders_a_packet() {
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed ^ 0x00c4_a96e);
        let mut spec = any_pipe(&mut dice);
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut queued: Vec<VecDeque<u32>> = vec![VecDeque::new(); 32];
        let (mut out, mut wire_free, mut by_device) = (Vec::new(), Time::ZERO, false);
        let mut check = |out: &mut Vec<Output>, queued: &mut Vec<VecDeque<u32>>, handed: bool| {
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
                    Output::Retimed(r) => {
                        // A duplicated packet has two reports; at the second, `wire_free` is the
                        // new end already. It is zero if the packet was handed to a device.
                        let known = [r.old_end, r.end, Time::ZERO].contains(&wire_free);
                        assert!(known, "seed {seed}: not the one on the wire");
                        wire_free = r.end;
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
            if handed {
                wire_free = Time::ZERO;
            }
        };
        for (handle, a) in arrivals.iter().enumerate() {
            if dice.from(0, 9) == 0 {
                let rate = spec.setup.rate;
                by_device |= spec.pace != Pace::Falaj;
                change(&mut dice, &mut spec);
                if by_device && spec.setup.rate != rate {
                    // Packets that a device was handed are not reported again.
                    engine.poll(a.at, &mut out);
                    check(&mut out, &mut queued, true);
                }
                let prepared = engine
                    .prepare(PIPE, &spec)
                    .unwrap_or_else(|e| panic!("seed {seed}: {e}: {spec:?}"));
                engine.apply(prepared, a.at, &mut out).unwrap();
            }
            engine.poll(a.at, &mut out);
            check(&mut out, &mut queued, false);
            queued[a.flow.index()].push_back(handle as u32);
            let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
            engine.input(PIPE, unit, a.at, &mut out);
            check(&mut out, &mut queued, false);
        }
        let mut steps = 0;
        while engine.next_event() != Time::NEVER {
            engine.poll(engine.next_event(), &mut out);
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed}: never comes to an end");
        }
        check(&mut out, &mut queued, false);
        assert!(queued.iter().all(VecDeque::is_empty), "seed {seed}: {queued:?} stay behind");
        for f in 0..spec.setup.leaves().len() as u32 {
            let c = engine.counters(PIPE, FlowId(f));
            assert_eq!((c.backlog, c.offered), (0, c.sent + c.dropped()), "seed {seed}: {c:?}");
        }
    }
}

/// Changes the discipline, the link, the flows, a limit or just the parameters.
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
    // Allowed values of flows depend on the rate and on the number of flows. No flow may be
    // removed, so a divided flow becomes that number of flows.
    spec.setup.flows = spec.setup.leaves().into_iter().cloned().collect();
    if matches!(entry.kind, "virtual-links" | "dcf") {
        (spec.capacity, spec.impairments.profile) = (Capacity::Serialise, None);
    }
    // The combination is impossible on a device-paced link.
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
    // A queued packet would be too large; a packet on the wire would not matter.
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
    // These disciplines have queues of their own.
    assert!(
        refused.is_err()
            || matches!(spec.kind, "fifo" | "fq" | "cake" | "fq_codel" | "fq_pie" | "dualpi2"),
        "{}",
        spec.kind
    );
}

/// A change has added flows, or allowed larger packets. A change that was prepared before would
/// remove these flows, or refuse packets that are queued: it is refused, and the later state stays.
/// A change that was prepared for the later state is accepted.
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
        // No flow may be removed, so a divided flow becomes that number of flows.
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
            // One queue for all flows, in which the packets of the other flow leave room.
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

/// A new rate also applies to the rest of the packet on the wire, whatever else changes with it.
#[test]
fn the_rest_of_the_packet_on_the_wire_goes_by_the_new_rate() {
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
        assert_eq!(engine.next_event(), Time(750_000), "{kind}");
    }
    engine.poll(Time(5_000_000), &mut out);
    let ends = crate::common::emits(&out).iter().map(|e| e.end).collect::<Vec<_>>();
    assert_eq!(ends, [Time(1_000_000), Time(1_250_000)]);
    assert_eq!(retimed(&out), [(0, Time(1_000_000), Time(750_000))]);
}

/// Reports of retimed packets: the handle, the old end, the new end.
fn retimed(out: &[Output]) -> Vec<(u32, Time, Time)> {
    let of = |output: &Output| match output {
        Output::Retimed(r) => Some((r.handle, r.old_end, r.end)),
        _ => None,
    };
    out.iter().filter_map(of).collect()
}

/// A rate that was set by mistake is reset: the link continues as if it had not been set, except
/// for the time in which it was set.
#[test]
fn a_bit_per_second_blocks_a_link_for_as_long_as_it_is_set() {
    for bucket in [false, true] {
        let mut spec = one_flow(Rate::from_mbit(8));
        if bucket {
            spec.capacity = Capacity::TokenBucket(1);
        }
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut out = Vec::new();
        send(&mut engine, 0, Time::ZERO, &mut out);
        set_rate(&mut engine, &mut spec, Rate(1), Time(500_000), &mut out);
        assert!(engine.next_event() >= Time(3_990_000_000_000), "{:?}", engine.next_event());
        for handle in 1..4 {
            send(&mut engine, handle, Time(1_000_000), &mut out);
        }
        // 10 s, in which 10 bits are sent.
        set_rate(&mut engine, &mut spec, Rate::from_mbit(8), Time(10_000_500_000), &mut out);
        engine.poll(Time(11_000_000_000), &mut out);
        let (_, _, end) = *retimed(&out).last().expect("retimed");
        let credit = u64::from(bucket) * 1_000;
        assert_eq!(end, Time(10_001_000_000 - 10 * 125 - credit));
        let ends: Vec<Time> = crate::common::emits(&out)[1..].iter().map(|e| e.end).collect();
        assert_eq!(ends, [1, 2, 3].map(|n| end + Span::from_millis(n)), "bucket: {bucket}");
        assert_eq!(engine.counters(PIPE, FlowId(0)).sent, 4);
    }
}

/// The same on a device-paced link, whose device would take hours for its packets at that rate.
#[test]
fn a_device_is_not_waited_for_by_a_rate_that_was_taken_back() {
    for kind in ["fifo", "drr", "wf2q+", "virtual-clock"] {
        let mut spec = PipeSpec { kind, ..one_flow(Rate::from_mbit(8)) };
        let value = match kind {
            "virtual-clock" => Values::default().with("rate", Value::Rate(Rate(1))),
            _ => Values::default(),
        };
        spec.setup.flows[0].values = value;
        spec.pace = Pace::Device { backlog: 3_000 };
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut out = Vec::new();
        set_rate(&mut engine, &mut spec, Rate(1), Time(500_000), &mut out);
        for handle in 0..8 {
            send(&mut engine, handle, Time(1_000_000), &mut out);
        }
        let handed = crate::common::emits(&out).len();
        assert!((1..8).contains(&handed), "{kind}: {handed} handed over");
        let back = Time(10_000_000_000);
        set_rate(&mut engine, &mut spec, Rate::from_mbit(8), back, &mut out);
        engine.poll(back + Span::from_millis(9), &mut out);
        assert_eq!(crate::common::emits(&out).len(), 8, "{kind}");
        assert_eq!(engine.counters(PIPE, FlowId(0)).backlog, 0, "{kind}");
    }
}

/// One flow of packets of 1000 bytes.
fn one_flow(rate: Rate) -> PipeSpec {
    let setup = Setup {
        rate,
        largest: 1000,
        scheduler: Values::default(),
        flows: vec![FlowSetup::new(Default::default(), Limit::Packets(9))],
    };
    PipeSpec::new("fifo", setup, Span::ZERO)
}

fn send(engine: &mut Engine, handle: u32, at: Time, out: &mut Vec<Output>) {
    engine.input(PIPE, Unit { flow: FlowId(0), handle, bytes: 1000 }, at, out);
}

fn set_rate(engine: &mut Engine, spec: &mut PipeSpec, rate: Rate, at: Time, out: &mut Vec<Output>) {
    spec.setup.rate = rate;
    let prepared = engine.prepare(PIPE, spec).unwrap();
    engine.apply(prepared, at, out).unwrap();
}

/// However often the rate changes during one packet, the bits that have left are those that the
/// rates carried, to the nanosecond; and the old end in each report is the end that the report
/// before it had announced.
#[test]
fn no_bit_is_lost_by_any_number_of_changes() {
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed ^ 0x0b17_5eed);
        let any = |dice: &mut Dice| Rate(dice.one_of(&[1, 3, 1_000, 777_777, 8_000_000, u64::MAX]));
        let mut spec = one_flow(Rate(dice.from(1, 2_000_000)));
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let mut out = Vec::new();
        send(&mut engine, 0, Time::ZERO, &mut out);
        let whole = 8_000 * 1_000_000_000u128;
        let (mut done, mut now) = (0, Time::ZERO);
        let mut told = crate::common::emits(&out)[0].end;
        let end = loop {
            let next = Time(now.0 + dice.from(1, 2_000_000));
            let rate = u128::from(spec.setup.rate.0);
            if engine.next_event() <= next || engine.next_event() == Time::NEVER {
                break now.0 + ((whole - done) / rate) as u64;
            }
            done += rate * u128::from(next.0 - now.0);
            now = next;
            out.clear();
            let rate = any(&mut dice);
            let changed = rate != spec.setup.rate;
            set_rate(&mut engine, &mut spec, rate, now, &mut out);
            let all = retimed(&out);
            if changed && engine.next_event() != told {
                assert_eq!(all.len(), 1, "seed {seed}");
                assert_eq!(all[0], (0, told, engine.next_event()), "seed {seed}");
                told = all[0].2;
            } else {
                assert!(all.is_empty(), "seed {seed}: {all:?}");
            }
        };
        assert_eq!(told, Time(end), "seed {seed}");
        engine.poll(told, &mut out);
        let counters = engine.counters(PIPE, FlowId(0));
        assert_eq!((counters.sent, counters.backlog), (1, 0), "seed {seed}");
    }
}

/// Weights of another scale have the same meaning: if all weights grow by a factor, a head that was
/// a packet ahead does not wait for that factor times the packets of other flows.
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
            let guarantee = engine.guarantee(PIPE, FlowId(0)).unwrap().delay.delay;
            let longest = crate::common::emits(&out)
                .iter()
                .filter(|e| e.flow == FlowId(0))
                .map(|e| e.end - e.arrival)
                .max();
            assert!(longest <= Some(guarantee), "{kind}, {change}: {longest:?} > {guarantee}");
        }
    }
}
