//! Links that their devices pace: packets are handed over ahead of time, never more than there is
//! room for, and chosen as on a link that falaj paces.

use crate::common::{Arrival, Dice, any_pipe, bursts, by_device, emits};
use falaj_engine::masks::MaskIds;
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Pace, PipeSpec};
use falaj_engine::{Emit, Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::label::Label;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const PIPE: PipeId = PipeId(0);

/// A FIFO on a device-paced link; a byte takes 8 ns.
fn fifo(largest: u32, backlog: u32) -> PipeSpec {
    let flow = FlowSetup::new(Values::default(), Limit::Packets(1_000_000));
    let setup = Setup {
        rate: Rate::from_mbit(1000),
        largest,
        scheduler: Values::default(),
        flows: vec![flow],
    };
    PipeSpec { pace: Pace::Device { backlog }, ..PipeSpec::new("fifo", setup, Span::ZERO) }
}

fn engine(spec: &PipeSpec) -> Engine {
    Engine::new(std::slice::from_ref(spec))
        .unwrap_or_else(|refused| panic!("{refused:?}: {spec:?}"))
}

fn put(engine: &mut Engine, handle: u32, bytes: u32, now: u64, out: &mut Vec<Output>) {
    engine.input(PIPE, Unit { flow: FlowId(0), handle, bytes }, Time(now), out);
}

/// The instant of each decision, and the start of each transmission.
fn times(out: &mut Vec<Output>) -> Vec<(u64, u64)> {
    let times = emits(out).iter().map(|e| (e.due.0, e.start.0)).collect();
    out.clear();
    times
}

#[test]
fn a_device_is_filled_and_let_alone_until_half_of_it_has_gone() {
    // The device holds 40 B, a packet has 10 B. The device is full above 30 B, and is offered
    // packets again at 15 B, which it sends in 120 ns.
    let (mut engine, mut out) = (engine(&fifo(10, 40)), Vec::new());
    (0..10).for_each(|handle| put(&mut engine, handle, 10, 0, &mut out));
    assert_eq!(times(&mut out), [(0, 0), (0, 80), (0, 160), (0, 240)]);
    assert_eq!(engine.next_event(), Time(200));
    engine.poll(Time(1_000), &mut out);
    let sent = [(200, 320), (200, 400), (360, 480), (360, 560), (520, 640), (520, 720)];
    assert_eq!(times(&mut out), sent);
    assert_eq!(engine.next_event(), Time::NEVER);
    // A packet that arrives at a device with a backlog begins after that backlog; it is handed over
    // at once.
    put(&mut engine, 0, 10, 1_000, &mut out);
    put(&mut engine, 1, 5, 1_030, &mut out);
    assert_eq!(times(&mut out), [(1_000, 1_000), (1_030, 1_080)]);
}

#[test]
fn a_device_for_one_packet_gets_each_when_it_is_to_begin() {
    let (mut engine, mut out) = (engine(&fifo(10, 10)), Vec::new());
    (0..3).for_each(|handle| put(&mut engine, handle, 10, 0, &mut out));
    engine.poll(Time(1_000), &mut out);
    assert_eq!(times(&mut out), [(0, 0), (80, 80), (160, 160)]);
}

#[test]
fn a_port_that_refuses_is_asked_no_more_until_it_has_room() {
    let (mut engine, mut out) = (engine(&fifo(10, 40)), Vec::new());
    (0..8).for_each(|handle| put(&mut engine, handle, 10, 0, &mut out));
    assert_eq!(times(&mut out).len(), 4);
    engine.port_room(PIPE, 0, Time(100), &mut out);
    put(&mut engine, 8, 10, 5_000, &mut out);
    engine.poll(Time(9_000), &mut out);
    assert_eq!((times(&mut out), engine.next_event()), (vec![], Time::NEVER));
    assert_eq!(engine.counters(PIPE, FlowId(0)).backlog, 5, "no packet is decided on");
    // Half of the room is reported: the other half, 160 ns, has to leave first.
    engine.port_room(PIPE, 20, Time(10_000), &mut out);
    assert_eq!(times(&mut out), [(10_000, 10_160), (10_000, 10_240)]);
    // A report of more room than is possible by the rate is ignored.
    engine.port_room(PIPE, 40, Time(10_010), &mut out);
    assert_eq!(times(&mut out), []);
    engine.poll(Time(20_000), &mut out);
    assert_eq!(times(&mut out), [(10_200, 10_320), (10_200, 10_400), (10_360, 10_480)]);
}

/// The packet that was handed over last is in the device: the new head of its queue is still
/// waiting, and is the first to be dropped if `fq_codel` has too many packets.
#[test]
fn the_longest_waiting_packet_is_dropped_behind_a_device() {
    let dropped = |limit: u64, packets: &[(u64, u32)]| {
        let mut spec = PipeSpec { kind: "fq_codel", ..fifo(10, 20) };
        for (name, value) in [("target", 5), ("interval", 100)] {
            spec.setup.scheduler.set(name, Value::Span(Span::from_millis(value)));
        }
        spec.setup.scheduler.set("limit", Value::Count(limit));
        let (mut engine, mut out) = (engine(&spec), Vec::new());
        for (handle, &(connection, bytes)) in packets.iter().enumerate() {
            let unit = Unit { flow: FlowId(0), handle: handle as u32, bytes };
            let label = Label { connection, ..Label::default() };
            engine.input_labelled(PIPE, unit, &MaskIds::NONE, label, Time(0), &mut out);
        }
        let gone = |output: &Output| {
            if let Output::Drop(dropped) = output { Some(dropped.handle) } else { None }
        };
        assert_eq!(emits(&out).len(), 2, "the device is full of two");
        out.iter().filter_map(gone).collect::<Vec<_>>()
    };
    assert_eq!(dropped(3, &[(1, 10); 6]), [2]);
    // Packet 2 is alone in its queue, which is the longest.
    assert_eq!(dropped(1, &[(1, 10), (1, 10), (1, 10), (2, 5)]), [2]);
}

/// On a link that falaj paces, reports of the port have no effect.
#[test]
fn where_falaj_paces_room_is_not_asked_for() {
    let spec = PipeSpec { pace: Pace::Falaj, ..fifo(10, 40) };
    let (mut engine, mut out) = (engine(&spec), Vec::new());
    engine.port_room(PIPE, 0, Time(0), &mut out);
    put(&mut engine, 0, 10, 0, &mut out);
    assert_eq!(times(&mut out), [(80, 0)]);
}

/// The driver need not check before there is something to do, whatever arrives.
#[test]
fn it_is_said_for_how_long_a_device_has_enough() {
    let (mut engine, mut out) = (engine(&fifo(10, 40)), Vec::new());
    assert_eq!(engine.supplied_until(), Time::NEVER);
    (0..10).for_each(|handle| put(&mut engine, handle, 10, 0, &mut out));
    assert_eq!((engine.supplied_until(), engine.next_refill()), (Time(200), Time(200)));
    engine.poll(Time(1_000), &mut out);
    assert_eq!(engine.supplied_until(), Time::NEVER);
    // The last packet of a flow that may run empty is not handed over early: half of the device's
    // backlog is left at 1,480.
    let mut spec = fifo(10, 40);
    spec.kind = "drr";
    spec.setup.flows[0].values.set("quantum", Value::Bytes(10));
    let mut engine = Engine::new(&[spec]).unwrap_or_else(|(_, refused)| panic!("{refused:?}"));
    (0..3).for_each(|handle| put(&mut engine, handle, 10, 1_360, &mut out));
    assert_eq!((engine.supplied_until(), engine.next_event()), (Time(1_480), Time(1_600)));
    assert_eq!(
        (engine.next_refill(), engine.next_due()),
        (Time::NEVER, Time::NEVER),
        "nothing is to be handed over"
    );
    assert_eq!(engine.counters(PIPE, FlowId(0)).backlog, 1, "the last one");
}

/// A report of a port, and its instant.
#[derive(Clone, Copy)]
struct Said {
    at: Time,
    room: u32,
}

/// A port that refuses now and then, and has room again later.
fn port(dice: &mut Dice, backlog: u32) -> Vec<Said> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < 15_000 {
        at += dice.from(1, 4_000);
        all.push(Said { at: Time(at), room: 0 });
        at += dice.from(0, 3_000);
        all.push(Said { at: Time(at), room: dice.from(1, 2 * u64::from(backlog)) as u32 });
    }
    all
}

/// Runs arrivals and reports of the port through the engine; `poll` may poll it in between.
fn run(
    spec: &PipeSpec,
    arrivals: &[Arrival],
    port: &[Said],
    mut poll: impl FnMut(&mut Engine, Time, &mut Vec<Output>),
) -> Vec<Output> {
    let (mut engine, mut out, mut said) = (engine(spec), Vec::new(), port.iter().peekable());
    for (handle, a) in arrivals.iter().enumerate() {
        while let Some(said) = said.next_if(|said| said.at <= a.at) {
            poll(&mut engine, said.at, &mut out);
            engine.port_room(PIPE, said.room, said.at, &mut out);
        }
        poll(&mut engine, a.at, &mut out);
        engine.input(
            PIPE,
            Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes },
            a.at,
            &mut out,
        );
    }
    said.for_each(|said| engine.port_room(PIPE, said.room, said.at, &mut out));
    while engine.next_event() != Time::NEVER {
        engine.poll(engine.next_event(), &mut out);
    }
    for f in 0..spec.setup.leaves().len() {
        let c = engine.counters(PIPE, FlowId(f as u32));
        assert_eq!((c.backlog, c.offered), (0, c.sent + c.dropped()), "{c:?}");
    }
    out
}

/// For every discipline, and for any reports of the port: the device is handed packets back to back
/// at its rate, and never holds more than its backlog; nothing is handed to a port that refuses;
/// extra polls change nothing.
#[test]
fn never_more_than_there_is_room_for() {
    let (mut ahead, mut refused) = (0, 0);
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed ^ 0xde_71ce);
        let mut spec = any_pipe(&mut dice);
        if !by_device(&mut dice, &mut spec) {
            continue;
        }
        let Pace::Device { backlog } = spec.pace else { unreachable!("just so paced") };
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let port = if seed % 2 == 0 { port(&mut dice, backlog) } else { Vec::new() };
        let late = run(&spec, &arrivals, &port, |_, _, _| {});
        let mut now = Time::ZERO;
        let eager = run(&spec, &arrivals, &port, |engine, until, out| {
            while now < until {
                now = Time(now.0 + dice.from(0, 300)).min(until);
                if dice.from(0, 3) == 0 {
                    now = now.max(engine.next_event().min(until));
                }
                (0..dice.from(1, 3)).for_each(|_| engine.poll(now, out));
            }
        });
        assert_eq!(late, eager, "seed {seed}: {spec:?}");
        let (mut free, mut decided) = (Time::ZERO, Time::ZERO);
        for e in emits(&late) {
            let Emit { start, end, due, .. } = e;
            assert!(
                start >= free && due <= start && due >= decided && e.arrival <= due,
                "seed {seed}: {e:?}"
            );
            let holds = spec.setup.rate.airtime(backlog) + Span(1);
            assert!(end - due <= holds, "seed {seed}: {e:?} in {holds}");
            let said = port.iter().rev().find(|said| said.at <= due);
            let at_once = port.iter().any(|said| said.at == due);
            assert!(
                at_once || said.is_none_or(|said| said.room > 0),
                "seed {seed}: {e:?} is refused"
            );
            ahead += u32::from(due < start);
            refused += u32::from(said.is_some_and(|said| said.room == 0));
            (free, decided) = (end, due);
        }
    }
    assert!(ahead > 100_000, "{ahead} ahead of time");
    assert!(refused < 1_000, "{refused} at the instants at which the port refuses");
}

/// A device-paced link decides like a link that falaj paces, at which each packet arrives later:
/// when the backlog that the device had at its arrival has left. This holds for disciplines that
/// ignore the clock.
#[test]
fn decided_as_if_what_comes_came_when_the_device_is_done() {
    let mut sent = 0;
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed ^ 0x5ea_50f7);
        let mut spec = any_pipe(&mut dice);
        let looks_at_no_clock =
            ["fifo", "drr", "wrr", "priority", "ets", "drr++"].contains(&spec.kind);
        if !looks_at_no_clock
            || spec.setup.flows.iter().any(|flow| flow.inner.is_some())
            || !by_device(&mut dice, &mut spec)
        {
            continue;
        }
        // A packet that the device was handed has left its queue, and a packet on the wire has not.
        let endless = Limit::Packets(1_000_000);
        spec.setup.flows.iter_mut().for_each(|flow| flow.limit = endless);
        if spec.kind == "fifo" {
            spec.setup.scheduler.set("queue", Value::Limit(endless));
        }
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let (mut device, mut out, mut shifted) = (engine(&spec), Vec::new(), Vec::new());
        for (handle, a) in arrivals.iter().enumerate() {
            device.poll(a.at, &mut out);
            let until = emits(&out).last().map_or(Time::ZERO, |e| e.end);
            // If the device is full, the next packet is decided on by then; otherwise none is
            // queued.
            let is_full = device.next_event() <= until;
            let at = if is_full && until > a.at { Time(until.0 - 1) } else { a.at.max(until) };
            shifted.push(Arrival { at, ..*a });
            device.input(
                PIPE,
                Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes },
                a.at,
                &mut out,
            );
        }
        device.poll(Time(Time::NEVER.0 - 1), &mut out);
        let falaj = PipeSpec { pace: Pace::Falaj, ..spec.clone() };
        let order = |out: &[Output]| {
            emits(out).iter().map(|e| (e.handle, e.start, e.end)).collect::<Vec<_>>()
        };
        assert_eq!(
            order(&out),
            order(&crate::common::run(&falaj, &shifted, |_, _, _| {})),
            "seed {seed}: {spec:?}"
        );
        sent += out.len();
    }
    assert!(sent > 50_000, "{sent}");
}

/// The more the device holds, the fewer the wake-ups: about one for half of its backlog.
#[test]
fn the_hand_over_wakes_once_for_half_a_backlog() {
    let wakes = |backlog: u32| {
        let (mut engine, mut out) = (engine(&fifo(10, backlog)), Vec::new());
        (0..10_000).for_each(|handle| put(&mut engine, handle, 10, 0, &mut out));
        engine.poll(Time(10_000_000), &mut out);
        let mut due: Vec<Time> = emits(&out).iter().map(|e| e.due).collect();
        assert_eq!(due.len(), 10_000);
        due.dedup();
        due.len()
    };
    assert_eq!(wakes(10), 10_000);
    for packets in [11, 21, 101] {
        let refills = 10_000 / ((packets as usize - 1) / 2);
        assert!(
            wakes(10 * packets).abs_diff(refills) <= refills / 4,
            "{packets}: {} {refills}",
            wakes(10 * packets)
        );
    }
}

/// The pacing changes: packets of a flow stay in order, no two packets are on the wire at once, and
/// none is lost.
#[test]
fn the_pace_may_be_changed_at_any_time() {
    let (mut handed, mut ended) = (0, 0);
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed ^ 0xc4a_96e5);
        let mut spec = any_pipe(&mut dice);
        spec.delay = Span::ZERO;
        let falaj = spec.clone();
        if !by_device(&mut dice, &mut spec) {
            continue;
        }
        let arrivals = bursts(&mut dice, &spec, 15_000);
        let (mut engine, mut out) = (engine(&falaj), Vec::new());
        for (handle, a) in arrivals.iter().enumerate() {
            if dice.from(0, 9) == 0 {
                let mut paced = spec.clone();
                let to = match dice.from(0, 2) {
                    0 => &falaj,
                    1 => &spec,
                    _ => {
                        by_device(&mut dice, &mut paced);
                        &paced
                    }
                };
                let prepared = engine.prepare(PIPE, to).expect("it fits");
                engine.apply(prepared, a.at, &mut out).expect("nothing came between");
            }
            if dice.from(0, 19) == 0 {
                engine.port_room(PIPE, dice.from(0, 2) as u32 * 10, a.at, &mut out);
            }
            engine.input(
                PIPE,
                Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes },
                a.at,
                &mut out,
            );
        }
        engine.port_room(PIPE, 1, Time(15_000), &mut out);
        engine.poll(Time(Time::NEVER.0 - 1), &mut out);
        let (mut free, mut last) = (Time::ZERO, vec![None; spec.setup.leaves().len()]);
        for output in &out {
            // If the capacity changes, the packet on the wire ends at the reported instant.
            if let Output::Retimed(r) = output {
                assert!([r.old_end, r.end].contains(&free), "seed {seed}: {r:?}");
                free = r.end;
            }
            let Output::Emit(e) = output else { continue };
            assert!(e.start >= free, "seed {seed}: two at once: {e:?}");
            assert!(last[e.flow.index()].replace(e.handle) < Some(e.handle), "seed {seed}: order");
            free = e.end;
            match e.due < e.end {
                true => handed += 1,
                false => ended += 1,
            }
        }
        for f in 0..last.len() {
            let c = engine.counters(PIPE, FlowId(f as u32));
            assert_eq!((c.backlog, c.offered), (0, c.sent + c.dropped()), "seed {seed}: {c:?}");
        }
    }
    assert!(handed > 50_000 && ended > 50_000, "{handed} and {ended}");
}

#[test]
fn what_no_device_does_is_refused() {
    let refused = |change: &dyn Fn(&mut PipeSpec)| {
        let mut spec = fifo(10, 40);
        change(&mut spec);
        let (pipe, refused) = Engine::new(&[spec]).err().expect("refused");
        assert_eq!(pipe, PIPE);
        refused.into_iter().map(|r| r.param).collect::<Vec<_>>()
    };
    assert_eq!(refused(&|spec| spec.pace = Pace::Device { backlog: 9 }), ["backlog"]);
    assert_eq!(refused(&|spec| spec.setup.rate = Rate::UNLIMITED), ["rate"]);
    assert_eq!(refused(&|spec| spec.delay = Span(1)), ["paced-by"]);
    assert_eq!(
        refused(&|spec| spec.capacity = falaj_sched::units::capacity::Capacity::TokenBucket(100)),
        ["paced-by"]
    );
    let loss = falaj_engine::impair::loss::Loss::Every(2);
    assert_eq!(refused(&|spec| spec.impairments.loss = Some(loss.clone())), ["paced-by"]);
}
