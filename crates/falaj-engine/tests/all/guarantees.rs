//! Every discipline against its own guarantees, under adversarial arrivals.

use crate::common::{Arrival, Dice, any_pipe, become_kind, bursts, by_device, emits, run};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{RateCondition, StaircaseCurve};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_theory::{Curve, exact, float};

/// Delay bounds, such as (1'), (1'') and (3) of virtual links as docs/explanation/bounds.md numbers
/// them, hold for every packet that is queued, with packets of any size, and queue limits in
/// packets and in bytes.
#[test]
fn no_packet_stays_longer_than_guaranteed() {
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed);
        let mut spec = any_pipe(&mut dice);
        if seed % 3 == 2 {
            by_device(&mut dice, &mut spec);
        }
        let arrivals = bursts(&mut dice, &spec, 20_000);
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        for e in emits(&run(&spec, &arrivals, |_, _, _| {})) {
            let Ok(guarantee) = engine.guarantee(PipeId(0), e.flow) else { continue };
            let delay = e.end - e.arrival;
            let unconditional = guarantee
                .others
                .iter()
                .filter(|b| b.condition.starts_with("packets that found room"));
            for bound in unconditional.chain([&guarantee.delay]) {
                assert!(
                    delay <= bound.delay,
                    "seed {seed}: {delay} > {} {}: {spec:?}",
                    bound.delay,
                    bound.formula
                );
            }
        }
    }
}

/// Guaranteed rates, such as (2) of virtual links and DRR's share: a flow that is backlogged from
/// some instant on has received its service curve at every instant, counted in whole packets.
#[test]
fn backlogged_flows_get_their_service_curve() {
    for seed in 0..4_000 {
        let mut dice = Dice::new(seed);
        let mut spec = any_pipe(&mut dice);
        if spec.kind == "fifo" {
            spec.setup.flows.truncate(1);
        }
        spec.setup.leaf_mut(0).unwrap().limit = Limit::Packets(1_000_000);
        let phase =
            |f: &FlowSetup| f.values.span("phase").unwrap_or(spec.setup.largest_airtime() * 4).0;
        let cycle: u64 = spec.setup.flows.iter().map(phase).sum();
        let from = dice.from(0, 3 * cycle);
        let horizon = from + 12 * cycle;
        if seed % 3 == 2 {
            by_device(&mut dice, &mut spec);
        }
        let largest = spec.setup.largest;
        let sizes = dice.from(0, 2);
        let size = |dice: &mut Dice| match sizes {
            0 => largest,
            1 => dice.from(1, largest.into()) as u32,
            _ => dice.one_of(&[largest / 2 + 1, largest]),
        };
        let mut arrivals = bursts(&mut dice, &spec, horizon);
        arrivals.retain(|a| a.flow != FlowId(0));
        let own = |bytes| Arrival { at: Time(from), flow: FlowId(0), bytes };
        arrivals.extend((0..12 * cycle / 8).map(|_| own(size(&mut dice))));
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let Ok(guarantee) = engine.guarantee(PipeId(0), FlowId(0)) else { continue };
        let mut done = 0;
        for e in emits(&run(&spec, &arrivals, |_, _, _| {}))
            .iter()
            .filter(|e| e.flow == FlowId(0) && e.end.0 <= horizon)
        {
            // Just before its last bit leaves, the packet does not count yet.
            let waited = (e.end.0 - from).saturating_sub(guarantee.latency.0) as f64 - 1e-6;
            let due = guarantee.rate.0 as f64 / 8e9 * waited.max(0.0);
            assert!(
                f64::from(done) >= due,
                "seed {seed}: {done} B < {due} B at {:?}: {spec:?}",
                e.end
            );
            done += e.bytes;
        }
    }
}

struct Condition;
impl registry::Visitor for Condition {
    type Output = Option<RateCondition>;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
        discipline.rate_condition()
    }
}

/// The same for one backlog after another: the service curve holds from the beginning of each
/// backlog, unless the guarantee requires that the flow has no deficit then. For all disciplines
/// the guarantee also holds in another form. For any instant there is an earlier instant such that
/// the flow has got all bytes that had arrived by the earlier one, plus its rate from one latency
/// after it.
#[test]
fn later_backlogs_get_their_service_curve_too() {
    let (mut seen, mut later) = (0, 0);
    // By discipline, the first seed with which the guarantee does not hold.
    let mut broken = std::collections::BTreeMap::new();
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed ^ 0x1a7e);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        if spec.kind == "fifo" {
            spec.setup.flows.truncate(1);
            spec.setup.scheduler = Default::default();
        }
        spec.setup.flows[0].limit = Limit::Packets(1_000_000);
        let Ok(condition) = registry::build(spec.kind, &spec.setup, Condition) else { continue };
        let Ok(engine) = Engine::new(std::slice::from_ref(&spec)) else { continue };
        let Ok(guarantee) = engine.guarantee(PipeId(0), FlowId(0)) else { continue };
        let mut arrivals = bursts(&mut dice, &spec, 20_000);
        arrivals.retain(|a| a.flow != FlowId(0));
        // Bursts at any distance, of a few packets or of many.
        let (mut at, mut own) = (dice.from(0, 2_000), Vec::new());
        while at < 20_000 {
            for _ in 0..dice.from(1, 12) {
                own.push(Arrival {
                    at: Time(at),
                    flow: FlowId(0),
                    bytes: dice.from(1, spec.setup.largest.into()) as u32,
                });
                at += dice.from(0, 3) * dice.from(0, 60);
            }
            at += dice.from(0, 2 * guarantee.latency.0.min(3_000));
        }
        arrivals.extend(&own);
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let sent: Vec<_> = emits(&run(&spec, &arrivals, |_, _, _| {}))
            .into_iter()
            .filter(|e| e.flow.0 == 0)
            .collect();
        assert_eq!(sent.len(), own.len(), "nothing is lost");
        let due = |from: Time, until: Time| {
            let waited = (until.0 - from.0).saturating_sub(guarantee.latency.0 + 1) as f64 - 1e-6;
            guarantee.rate.0 as f64 / 8e9 * waited.max(0.0)
        };
        // Bytes before each packet; the bytes before a backlog's first packet, and its arrival.
        let (mut before, mut starts, mut begun) = (0u64, Vec::new(), (0, Time::ZERO));
        for (n, (a, e)) in own.iter().zip(&sent).enumerate() {
            if n == 0 || sent[n - 1].end <= a.at {
                begun = (before, a.at);
                later += u32::from(n > 0);
            }
            starts.push((before, a.at));
            let from_backlog = (before - begun.0) as f64 >= due(begun.1, e.end);
            let least = starts
                .iter()
                .map(|&(sent, at)| sent as f64 + due(at, e.end))
                .fold(f64::INFINITY, f64::min);
            if before as f64 + 1e-6 < least || condition.is_none() && !from_backlog {
                broken.entry(spec.kind).or_insert(seed);
            }
            before += u64::from(a.bytes);
            seen += 1;
        }
    }
    assert!(broken.is_empty(), "a service curve is broken: {broken:?}");
    assert!(seen > 200_000 && later > 20_000, "{seen} packets, {later} later backlogs");
}

/// A strict server keeps its rate over any interval of backlog: from any departure on, not only
/// from the start of the backlog. Trees depend on that.
#[test]
fn strict_disciplines_keep_their_rate_over_any_interval() {
    struct Strict;
    impl registry::Visitor for Strict {
        type Output = bool;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> bool {
            discipline.serves_strictly()
        }
    }
    let mut seen = 0;
    for seed in 0..8_000 {
        let mut dice = Dice::new(seed ^ 0x57_1c7);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        spec.setup.flows[0].limit = Limit::Packets(1_000_000);
        if !registry::build(spec.kind, &spec.setup, Strict).unwrap() {
            continue;
        }
        seen += 1;
        let (largest, horizon) = (spec.setup.largest, 30_000);
        let sizes = dice.from(0, 2);
        let mut arrivals = bursts(&mut dice, &spec, horizon);
        arrivals.retain(|a| a.flow != FlowId(0));
        let from = dice.from(0, 2_000);
        arrivals.extend((0..horizon / 8).map(|_| {
            let bytes = match sizes {
                0 => largest,
                1 => dice.from(1, largest.into()) as u32,
                _ => dice.one_of(&[largest / 2 + 1, largest]),
            };
            Arrival { at: Time(from), flow: FlowId(0), bytes }
        }));
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let Ok(guarantee) = engine.guarantee(PipeId(0), FlowId(0)) else { continue };
        let own: Vec<_> = emits(&run(&spec, &arrivals, |_, _, _| {}))
            .into_iter()
            .filter(|e| e.flow.0 == 0)
            .collect();
        let own: Vec<_> = own.into_iter().take_while(|e| e.end.0 < horizon).collect();
        // Just before packet j leaves, packets i + 1 to j - 1 have left since packet i.
        for i in 0..own.len() {
            let mut done = 0;
            for e in &own[i + 1..] {
                // Ends are rounded up to a nanosecond.
                let waited =
                    (e.end.0 - own[i].end.0).saturating_sub(guarantee.latency.0 + 1) as f64 - 1e-6;
                let due = guarantee.rate.0 as f64 / 8e9 * waited.max(0.0);
                assert!(
                    f64::from(done) >= due,
                    "seed {seed}: {done} B < {due} B from {:?} on: {spec:?}",
                    own[i].end
                );
                done += e.bytes;
            }
        }
    }
    assert!(seen > 500, "{seen}");
}

/// Deficit round robin's turns: over any interval of backlog a flow gets the staircase curve, which
/// is nowhere below the curve of its rate and latency. One flow's quantum is many times a packet,
/// so that the two differ.
#[test]
fn turns_are_served_as_said() {
    struct Ask;
    impl registry::Visitor for Ask {
        type Output = Option<StaircaseCurve>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Option<StaircaseCurve> {
            discipline.turns(FlowId(0))
        }
    }
    let (mut nearest, mut gained) = (0.0f64, 0.0f64);
    for seed in 0..700 {
        let mut dice = Dice::new(seed ^ 0x7a_bae);
        let mut spec = any_pipe(&mut dice);
        spec.setup.flows.iter_mut().for_each(|f| f.inner = None);
        become_kind(&mut dice, &mut spec, registry::entry("drr").unwrap());
        let largest = spec.setup.largest;
        for f in &mut spec.setup.flows {
            f.limit = Limit::Packets(100_000);
            f.values.set(
                "quantum",
                Value::Bytes(u64::from(largest) * dice.from(1, 6) + dice.from(0, 3)),
            );
        }
        // At 1 Gbit/s a byte takes whole nanoseconds, so that bounds may be met exactly.
        spec.setup.rate = dice.one_of(&[Rate::from_mbit(1000), spec.setup.rate]);
        let turns = registry::build("drr", &spec.setup, Ask).unwrap().expect("drr has turns");
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let guarantee = engine.guarantee(PipeId(0), FlowId(0)).unwrap();
        let (curve, line) =
            (Curve::in_turns(&turns, 12), Curve::rate_latency(guarantee.rate, guarantee.latency));
        for t in 0..80u64 {
            let t = exact(t * guarantee.latency.0 / 16);
            // A nanosecond for ends that are rounded up, and one for other rounding.
            assert!(curve.at(&(&t + exact(2))) >= line.at(&t), "seed {seed}: {t}");
            gained = gained.max(float(&(curve.at(&t) - line.at(&t))) / turns.cycle[0].bytes as f64);
        }
        let from = dice.from(0, 2_000);
        let horizon = from + 8 * guarantee.latency.0;
        let worst = dice.from(0, 1) == 0;
        let mut arrivals = Vec::new();
        for f in 0..spec.setup.flows.len() as u64 {
            // The other flows begin with a packet after which a visit leaves a deficit of all but a
            // byte of a packet. So they may send most of a packet in addition to their quanta when
            // the packet of flow 0 arrives.
            let quantum =
                u64::from(spec.setup.flows[f as usize].values.bytes("quantum").unwrap() as u32);
            let (mut at, end) = if f == 0 { (from, from + 1) } else { (dice.from(0, 50), horizon) };
            let mut sent = 0;
            while sent * 4 < horizon && at < end {
                let whole = quantum / u64::from(largest) * u64::from(largest);
                let bytes = match worst {
                    true if f > 0 && sent == 0 => (quantum - whole + 1) as u32 % largest + 1,
                    true => largest,
                    false => dice.from(1, largest.into()) as u32,
                };
                sent += u64::from(bytes);
                at += if worst || f == 0 { 0 } else { dice.from(0, 8 * u64::from(bytes)) };
                arrivals.push(Arrival { at: Time(at), flow: FlowId(f as u32), bytes });
            }
        }
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let own: Vec<_> = emits(&run(&spec, &arrivals, |_, _, _| {}))
            .into_iter()
            .filter(|e| e.flow.0 == 0)
            .collect();
        let starts =
            std::iter::once((0, from)).chain(own.iter().enumerate().map(|(n, e)| (n + 1, e.end.0)));
        for (first, start) in starts.take(40) {
            let mut done = 0;
            for e in own[first..].iter().take_while(|e| e.end.0 < horizon) {
                // The packet leaves no later than the curve reaches its last byte. If the backlog
                // is counted from the end of another packet, the start was reported in the
                // nanosecond in which it began.
                done += e.bytes;
                let told = u64::from(first > 0);
                let due = curve.at(&exact((e.end.0 - start).saturating_sub(told)));
                assert!(
                    exact(done) >= due,
                    "seed {seed}: {done} B < {due} B from {start} on: {spec:?}"
                );
                nearest = nearest.max(float(&due) / f64::from(done));
            }
        }
    }
    assert!(nearest > 0.9 && gained > 0.3, "{nearest} {gained}");
}

/// At rates where a byte is not a whole number of nanoseconds a neighbor may choose its sizes so
/// that the end of each of our packets is rounded up.
#[test]
fn a_neighbour_cannot_round_our_rate_away() {
    for (mbit, phase, tail) in [
        (10_000, 1_000_000, "wait"),
        (10_000, 1_000_000, "carry"),
        (100_000, 100_000, "wait"),
        (400_000, 30_000, "wait"),
    ] {
        let link = || FlowSetup {
            values: Values::default()
                .with("kind", Value::Choice("A"))
                .with("phase", Value::Span(Span(phase))),
            limit: Limit::Packets(4),
            inner: None,
        };
        let scheduler = Values::default().with("tail", Value::Choice(tail));
        let setup = Setup {
            rate: Rate::from_mbit(mbit),
            largest: 1514,
            scheduler,
            flows: vec![link(), link()],
        };
        let spec = PipeSpec::new("virtual-links", setup, Span::ZERO);
        let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let guarantee = engine.guarantee(PipeId(0), FlowId(0)).unwrap();
        let horizon = 300 * phase;
        let unit = |f, bytes| Unit { flow: FlowId(f), handle: 0, bytes };
        // The fraction of a nanosecond that a packet leaves behind, in units of 1/mbit.
        let rest = |bytes: u32| u64::from(bytes) * 8000 % mbit;
        let worst_after =
            |r: u64| (60..400).find(|&s| (r + rest(s)) % mbit + rest(64) >= mbit).unwrap();
        let mut out = Vec::new();
        engine.input(PipeId(0), unit(1, worst_after(0)), Time::ZERO, &mut out);
        for _ in 0..3 {
            engine.input(PipeId(0), unit(0, 64), Time::ZERO, &mut out);
        }
        let (mut sent, mut left_over, mut wire_end) = (0, 0, Time::ZERO);
        loop {
            for output in std::mem::take(&mut out) {
                let Output::Emit(e) = output else { panic!("{output:?}") };
                left_over =
                    (if e.start == wire_end { left_over } else { 0 } + rest(e.bytes)) % mbit;
                wire_end = e.end;
                if e.flow == FlowId(0) {
                    sent += if e.end.0 <= horizon { 64 } else { 0 };
                    engine.input(PipeId(0), unit(0, 64), e.start, &mut out);
                    if engine.counters(PipeId(0), FlowId(1)).backlog == 0 {
                        engine.input(PipeId(0), unit(1, worst_after(left_over)), e.start, &mut out);
                    }
                }
            }
            let next = engine.next_event();
            if next.0 > horizon {
                break;
            }
            engine.poll(next, &mut out);
            if out.is_empty() && engine.counters(PipeId(0), FlowId(1)).backlog == 0 {
                engine.input(PipeId(0), unit(1, worst_after(left_over)), next, &mut out);
            }
        }
        let due = guarantee.rate.0 as f64 / 8e9 * (horizon - guarantee.latency.0) as f64;
        assert!(f64::from(sent) >= due, "{mbit} Mbit/s, {tail}: {sent} B < {due} B");
    }
}

/// Delay bounds in extreme cases: many links, slow and fast rates.
#[test]
fn delay_bounds_hold_for_many_links_and_any_rate() {
    for seed in 0..800 {
        let mut dice = Dice::new(seed ^ 0xabcdef);
        let mut spec = any_pipe(&mut dice);
        let largest = dice.one_of(&[1, 2, 64, 1514, 9000]);
        let rate = Rate(dice.one_of(&[
            9_600,
            3_333_333,
            100_000_000,
            1_000_000_007,
            99_999_999_999,
            1_000_000_000_000,
        ]));
        let airtime = rate.airtime(largest).0;
        let links = dice.one_of(&[1u64, 2, 8, 63, 64, 65, 130]);
        let longest = dice.one_of(&[1, 2, 8, 40]);
        let flow = |dice: &mut Dice| {
            let phase = dice.from(airtime, longest * airtime);
            let bytes = Limit::Bytes(dice.from(largest.into(), 30 * u64::from(largest)));
            let packets = Limit::Packets(dice.from(1, 30) as u32);
            // A flow with a priority has no quantum.
            let values = if spec.kind == "ets" {
                Values::default()
            } else {
                spec.setup.flows[0].values.clone()
            };
            FlowSetup {
                values: values
                    .with("kind", Value::Choice(dice.one_of(&["A", "B"])))
                    .with("phase", Value::Span(Span(phase)))
                    .with("quantum", Value::Bytes(u64::from(largest) + dice.from(0, 2000)))
                    .with("slots", Value::Count(dice.from(1, 30)))
                    .with("level", Value::Count(1))
                    .with("rate", Value::Rate(Rate((rate.0 / (links + 1)).max(1))))
                    .with("window", Value::Span(Span(airtime * 2 * (links + 1))))
                    .with(
                        "latency",
                        Value::Choice(if spec.kind == "drr+" { "low" } else { "normal" }),
                    ),
                limit: if phase > airtime + 1 { dice.one_of(&[bytes, packets]) } else { packets },
                inner: None,
            }
        };
        spec.setup.flows = (0..links).map(|_| flow(&mut dice)).collect();
        spec.setup.flows[0].values.set("latency", Value::Choice("low"));
        spec.setup.scheduler.set("frame", Value::Count(30 * links));
        (spec.setup.rate, spec.setup.largest) = (rate, largest);
        let cycle: u64 = spec.setup.flows.iter().map(|f| f.values.span("phase").unwrap().0).sum();
        if !matches!(spec.kind, "virtual-links" | "drr") {
            // Valid values depend on the rate and on the number of flows.
            let entry = registry::entry(spec.kind).unwrap();
            become_kind(&mut dice, &mut spec, entry);
        }
        let mut arrivals = Vec::new();
        for f in 0..links as u32 {
            let (gap, mut at) =
                (dice.one_of(&[0, airtime / 4, 2 * airtime, cycle / 10]), dice.from(0, 2 * cycle));
            for _ in 0..120 {
                arrivals.push(Arrival {
                    at: Time(at),
                    flow: FlowId(f),
                    bytes: dice.from(1, largest.into()) as u32,
                });
                at += dice.from(0, gap) + if dice.from(0, 30) == 0 { cycle } else { 0 };
            }
        }
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        for e in emits(&run(&spec, &arrivals, |_, _, _| {})) {
            let Ok(guarantee) = engine.guarantee(PipeId(0), e.flow) else { continue };
            let delay = e.end - e.arrival;
            assert!(
                delay <= guarantee.delay.delay,
                "seed {seed}: {delay} > {}: {spec:?}",
                guarantee.delay.delay
            );
        }
    }
}
