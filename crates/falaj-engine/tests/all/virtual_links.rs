//! Virtual links, compared with a naive model.

use crate::common::model::{self, Departure, Variant};
use crate::common::{Arrival, Dice, bursts, emits, run, virtual_links};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// Sparse and dense arrivals over some cycles.
fn scenario(seed: u64, serve: &'static str, preset: &'static str) -> (PipeSpec, Vec<Arrival>) {
    let mut dice = Dice::new(seed);
    let spec = virtual_links(&mut dice, serve, preset);
    let cycle: u64 = spec.setup.flows.iter().map(|f| f.values.span("phase").unwrap().0).sum();
    let arrivals = bursts(&mut dice, &spec, 9 * cycle + 500);
    (spec, arrivals)
}

fn departures(spec: &PipeSpec, arrivals: &[Arrival]) -> Vec<(u32, u64, u64)> {
    emits(&run(spec, arrivals, |_, _, _| {}))
        .iter()
        .map(|e| (e.handle, e.start.0, e.end.0))
        .collect()
}

fn plain(departures: &[Departure]) -> Vec<(u32, u64, u64)> {
    departures.iter().map(|d| (d.handle, d.start, d.end)).collect()
}

#[track_caller]
fn assert_same(seed: u64, spec: &PipeSpec, ours: &[(u32, u64, u64)], model: &[(u32, u64, u64)]) {
    if let Some(i) = (0..ours.len().max(model.len())).find(|&i| ours.get(i) != model.get(i)) {
        panic!(
            "seed {seed}: departure {i} is {:?}, in the model {:?}: {spec:?}",
            ours.get(i),
            model.get(i)
        );
    }
}

#[test]
fn phase_wise_departures_are_those_of_the_model() {
    for seed in 0..4_000 {
        let (spec, arrivals) = scenario(seed, "phase-wise", "clean");
        let model = plain(&model::phase_wise(&spec, &arrivals));
        assert_same(seed, &spec, &departures(&spec, &arrivals), &model);
    }
}

#[test]
fn packet_wise_departures_are_those_of_the_model() {
    for seed in 0..4_000 {
        let preset = if seed % 2 == 0 { "paper" } else { "clean" };
        let (spec, arrivals) = scenario(seed, "packet-wise", preset);
        let variant = Variant { paper: preset == "paper", interrupt: true };
        let (model, began) = model::packet_wise(&spec, &arrivals, variant);
        assert_same(seed, &spec, &departures(&spec, &arrivals), &plain(&model));
        let phases: u64 = spec.setup.flows.iter().map(|f| f.values.span("phase").unwrap().0).sum();
        let carried = u64::from(spec.setup.largest) * 8 * spec.setup.flows.len() as u64;
        let carries = spec.setup.scheduler.choice("tail") == Some("carry");
        let cycle = if carries { phases + carried } else { phases };
        let busy = began
            .windows(2)
            .filter(|w| model.iter().any(|d| w[0] <= d.arrival && d.arrival < w[1]));
        for w in
            busy.filter(|_| spec.setup.flows.iter().any(|f| f.values.choice("kind") == Some("A")))
        {
            assert!(
                w[1] - w[0] <= cycle,
                "seed {seed}: a cycle of {} is longer than all phases, {cycle}",
                w[1] - w[0]
            );
        }
    }
}

/// Idle time costs no events: one step passes over a hundred idle days. After idle time, the phases
/// are those of the stepwise model.
#[test]
fn an_idle_link_makes_no_events_and_keeps_its_phases() {
    for seed in 0..2_000 {
        for (serve, preset) in
            [("phase-wise", "clean"), ("packet-wise", "clean"), ("packet-wise", "paper")]
        {
            let mut dice = Dice::new(seed);
            let spec = virtual_links(&mut dice, serve, preset);
            let flows = spec.setup.flows.len() as u64;
            let mut at = 0;
            let arrivals: Vec<Arrival> = (0..8)
                .map(|_| {
                    at += dice.from(0, 30_000);
                    Arrival {
                        at: Time(at),
                        flow: FlowId(dice.from(0, flows - 1) as u32),
                        bytes: dice.from(1, spec.setup.largest.into()) as u32,
                    }
                })
                .collect();
            let model = match serve {
                "phase-wise" => model::phase_wise(&spec, &arrivals),
                _ => {
                    model::packet_wise(
                        &spec,
                        &arrivals,
                        Variant { paper: preset == "paper", interrupt: true },
                    )
                    .0
                }
            };
            assert_same(seed, &spec, &departures(&spec, &arrivals), &plain(&model));

            // A hundred days later, the first step takes no longer.
            let mut engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
            let mut out = Vec::new();
            assert_eq!(engine.next_event(), Time::NEVER);
            engine.poll(Time::ZERO + Span::from_secs(8_640_000), &mut out);
            let unit = Unit { flow: FlowId(0), handle: 0, bytes: 1 };
            engine.input(PipeId(0), unit, Time::ZERO + Span::from_secs(8_640_000), &mut out);
        }
    }
}

fn four_is_kept(spec: &PipeSpec, departures: &[Departure]) -> Result<u32, String> {
    let four = u64::from(spec.setup.largest) * 8 * spec.setup.flows.len() as u64;
    let mut hot = 0;
    for d in departures.iter().filter(|d| d.hot) {
        hot += 1;
        if d.end - d.arrival > four {
            return Err(format!("{} > {four}: {d:?}", d.end - d.arrival));
        }
    }
    Ok(hot)
}

/// Bound (4) of the paper holds under its condition. This is the only test that fails if links with
/// packets do not interrupt the wait at a cycle's end.
#[test]
fn an_empty_queue_waits_for_one_packet_of_each_at_most() {
    let (mut hot, mut trapped) = (0, 0);
    for seed in 0..8_000 {
        let preset = if seed % 4 == 0 { "clean" } else { "paper" };
        let (spec, arrivals) = scenario(seed, "packet-wise", preset);
        let right = Variant { paper: preset == "paper", interrupt: true };
        let (departed, _) = model::packet_wise(&spec, &arrivals, right);
        assert_same(seed, &spec, &departures(&spec, &arrivals), &plain(&departed));
        hot += four_is_kept(&spec, &departed)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}: {spec:?}"));
        let (departed, _) =
            model::packet_wise(&spec, &arrivals, Variant { interrupt: false, ..right });
        trapped += u32::from(four_is_kept(&spec, &departed).is_err());
    }
    assert!(hot > 10_000, "the condition holds often enough to mean something: {hot}");
    assert!(trapped > 5, "the trap is there to be seen: {trapped}");
}

/// The phase of a link without packets causes no event. A packet is due when its last bit is sent.
/// A packet that arrives in the meantime finds its link's phase in the right place.
#[test]
fn a_wait_ends_when_a_link_can_send() {
    let at = |bytes: u64| Time(bytes * 8);
    let unit = |flow: u32| Unit { flow: FlowId(flow), handle: flow, bytes: 4 };
    // A phase of ten byte times for each link.
    let link = |kind| {
        let values = Values::default().with("kind", Value::Choice(kind));
        FlowSetup::new(values.with("phase", Value::Span(Span(80))), Limit::Packets(10))
    };
    let serve = Values::default().with("serve", Value::Choice("phase-wise"));
    let setup = Setup {
        rate: Rate::from_mbit(1000),
        largest: 4,
        scheduler: serve.with("tail", Value::Choice("wait")),
        flows: ["A", "B", "A", "A"].map(link).into(),
    };
    let mut engine = Engine::new(&[PipeSpec::new("virtual-links", setup, Span::ZERO)]).unwrap();
    let mut out = Vec::new();
    assert_eq!((engine.next_event(), engine.next_due()), (Time::NEVER, Time::NEVER));
    // Time 1 is in the first link's phase. The last link's phase begins at 20, after those of two
    // links of type A.
    engine.input(PipeId(0), unit(3), at(1), &mut out);
    assert_eq!(engine.next_event(), at(20));
    let due = engine.next_due();
    assert!(due <= at(24) && due + Span(1) >= at(24), "{due:?}");
    assert!(out.is_empty());
    // The third link's phase began at 10, so its packet may be sent at once.
    engine.input(PipeId(0), unit(2), at(13), &mut out);
    assert_eq!((engine.next_event(), engine.next_due()), (at(17), at(17)));
    engine.poll(at(100), &mut out);
    let ends: Vec<(u32, u64)> = emits(&out).iter().map(|e| (e.handle, e.end.0 / 8)).collect();
    assert_eq!(ends, [(2, 17), (3, 24)]);
}

/// In each phase, phase-wise and packet-wise service send at least as many packets of the largest
/// size as fit the phase exactly, whatever fraction of a nanosecond was left over before. A packet
/// beyond these ends less than a nanosecond after the phase. The bound of a full queue counts the
/// same packets. Links are always backlogged; phases are close to the length at which one more
/// packet fits.
#[test]
fn a_phase_carries_the_packets_that_the_bound_counts() {
    let (mut exact, mut edges) = (0, 0);
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed ^ 0xed6e);
        let (rate, largest) = match seed {
            0 => (900_000, 200),
            _ => (dice.one_of(&[900_000, 33_333_333, 7_777_777_777]), dice.from(20, 300)),
        };
        let rate = if seed % 3 == 1 { Rate(dice.from(1_000, 2_000_000_000)) } else { Rate(rate) };
        let packets = if seed == 0 { 5 } else { dice.from(2, 9) };
        let phase = rate.airtime_of_many(packets * largest) + Span(dice.from(0, 2)) - Span(1);
        // By definition, `n` packets of `L` bytes fit the phase `W` at rate `C` if `n L` is at most
        // `W C`.
        let fit = |span: u64| {
            let work = |n: u64| u128::from(n * largest * 8_000_000_000);
            let time = u128::from(span) * u128::from(rate.0);
            (0..2 * packets + 2).take_while(|&n| work(n) <= time).last().unwrap()
        };
        // A packet that would end a nanosecond or more after the phase does not fit; one that would
        // end less than a nanosecond after it may fit.
        let (least, most) = (fit(phase.0), fit(phase.0 + 1));
        let serve = dice.one_of(&["phase-wise", "packet-wise"]);
        let tails: &[_] =
            if serve == "phase-wise" { &["wait", "skip"] } else { &["wait", "skip", "carry"] };
        let tail = dice.one_of(tails);
        let links = dice.from(1, 3);
        let flow = |phase: Span, limit| {
            let values = Values::default().with("kind", Value::Choice("A"));
            FlowSetup::new(values.with("phase", Value::Span(phase)), Limit::Packets(limit))
        };
        let scheduler = Values::default().with("serve", Value::Choice(serve));
        let other = rate.airtime(largest as u32) * 2 + Span(dice.from(0, 3));
        let mut setup = Setup {
            rate,
            largest: largest as u32,
            scheduler: scheduler.with("tail", Value::Choice(tail)),
            flows: (0..links).map(|f| flow(if f == 0 { phase } else { other }, 1_000)).collect(),
        };
        let cycles = 12;
        let arrivals: Vec<Arrival> = (0..(cycles + 2) * (packets + 2))
            .flat_map(|_| 0..links as u32)
            .map(|f| Arrival {
                at: Time::ZERO,
                flow: FlowId(f),
                bytes: if f == 0 { largest } else { dice.from(1, largest) } as u32,
            })
            .collect();
        let spec = PipeSpec::new("virtual-links", setup.clone(), Span::ZERO);
        // Fractions of a nanosecond make a cycle longer than this sum.
        let cycle = phase.0 + (links - 1) * other.0;
        let end = cycles * (cycle + links) + 1;
        let sent = emits(&run(&spec, &arrivals, |_, _, _| {}));
        let sent = sent.iter().filter(|e| e.flow == FlowId(0) && e.end.0 <= end).count() as u64;
        let case = format!("seed {seed}: {sent} packets, {least} to {most} a phase: {spec:?}");
        assert!(sent >= cycles * least, "{case}");
        if tail == "wait" {
            assert!(sent <= (cycles + 1) * most, "{case}");
            exact += u32::from(least == most);
        }
        edges += u32::from(least < packets);
        // A full queue of `least` packets takes one phase; one packet more takes another cycle.
        let mut bound = |packets: u64| {
            setup.flows[0].limit = Limit::Packets(packets as u32);
            let spec = PipeSpec::new("virtual-links", setup.clone(), Span::ZERO);
            let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
            engine.guarantee(PipeId(0), FlowId(0)).unwrap().delay.delay
        };
        if serve == "phase-wise" {
            let last = |packets: u64| rate.airtime_of_many(packets * largest);
            let (one, two) = (bound(least), bound(least + 1));
            assert_eq!(two + last(least), one + Span(cycle) + last(1), "{case}");
        }
    }
    assert!(exact > 500 && edges > 500, "{exact} {edges}");
}
