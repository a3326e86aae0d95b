//! Tests of libraries: valid ones behave like their built-in equivalents, and invalid answers are
//! not obeyed.

use crate::common::{c_example, library, naughty, root, rust};
use falaj_engine::change::{PipeChange, Prepared};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, Output, PipeId};
use falaj_plugin::load;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::library::Loaded;
use falaj_sched::contract::params::{self, FlowSetup, Given, Inner, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::path::{Path, PathBuf};

const PIPE: PipeId = PipeId(0);
const LARGEST: u32 = 100;

fn loaded(path: &Path) -> Loaded {
    load(path, "./libmine.so").unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn quantum(bytes: u64) -> Given {
    Given {
        name: "quantum".into(),
        text: format!("{bytes}B").into(),
        unit: params::Unit::Bytes,
        number: bytes,
    }
}

fn setup(scheduler: Values, flows: usize) -> Setup {
    let flow = || FlowSetup::new(Values::default(), Limit::Packets(6));
    // A byte takes 8 ns.
    let flows = std::iter::repeat_with(flow).take(flows).collect();
    Setup { rate: Rate::from_mbit(1000), largest: LARGEST, scheduler, flows }
}

fn plugin(library: &Loaded, flows: usize) -> PipeSpec {
    let mut scheduler = Values::default();
    scheduler.set_library(library.clone());
    PipeSpec::new("plugin", setup(scheduler, flows), Span::ZERO)
}

/// A generator of pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// An event at an instant: a packet arrives, or the pipe is changed.
enum Event {
    Packet { flow: u32, bytes: u32 },
    Change(Box<PipeSpec>),
}

/// Runs the events; returns flow, handle and start of each packet sent, and the contract
/// violations.
fn run(
    spec: &PipeSpec,
    events: Vec<(u64, Event)>,
    polls: &[u64],
) -> (Vec<(u32, u32, u64)>, Vec<Breach>) {
    let mut engine =
        Engine::new(std::slice::from_ref(spec)).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let (mut out, mut handle, mut polls) = (Vec::new(), 0, polls.iter().peekable());
    for (at, event) in events {
        while let Some(poll) = polls.next_if(|&&poll| poll < at) {
            engine.poll(Time(*poll), &mut out);
        }
        match event {
            Event::Packet { flow, bytes } => {
                let unit = Unit { flow: FlowId(flow), handle, bytes };
                engine.input(PIPE, unit, Time(at), &mut out);
                handle += 1;
            }
            Event::Change(spec) => {
                engine.poll(Time(at), &mut out);
                let prepared = Prepared::new(&[PipeChange::new(PIPE, *spec)])
                    .unwrap_or_else(|wrong| panic!("{wrong:?}"));
                engine.apply(prepared, Time(at), &mut out).unwrap();
            }
        }
    }
    engine.poll(Time(1 << 40), &mut out);
    let (mut sent, mut dropped) = (Vec::new(), 0);
    for output in out {
        match output {
            Output::Emit(emit) => sent.push((emit.flow.0, emit.handle, emit.start.0)),
            Output::Drop(_) => dropped += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent.len() + dropped, handle as usize, "each packet is sent or dropped");
    (sent, engine.breaches(PIPE))
}

/// Packets in bursts that exceed the link's capacity.
fn packets(seed: u64, flows: u32, count: usize) -> Vec<(u64, Event)> {
    let (mut dice, mut at) = (Dice(seed), 0);
    let mut packet = || {
        at += dice.below(3) * dice.below(700);
        let (flow, bytes) =
            (dice.below(flows.into()) as u32, 1 + dice.below(LARGEST.into()) as u32);
        (at, Event::Packet { flow, bytes })
    };
    (0..count).map(|_| packet()).collect()
}

/// The example plug-ins of deficit round robin, in C and in Rust.
fn drrs() -> [PathBuf; 2] {
    [c_example("drr.c"), rust(&root().join("examples/plugins/rust/src/lib.rs"))]
}

fn with_quanta(mut spec: PipeSpec, quanta: &[u64]) -> PipeSpec {
    for (flow, &bytes) in spec.setup.flows.iter_mut().zip(quanta) {
        match spec.kind {
            "plugin" => flow.values.give(vec![quantum(bytes)]),
            _ => flow.values.set("quantum", Value::Bytes(bytes)),
        }
    }
    spec
}

#[test]
fn both_examples_are_as_the_built_in_discipline_with_changes_and_polls() {
    let built_in = || PipeSpec::new("drr", setup(Values::default(), 4), Span::ZERO);
    for path in drrs() {
        let mine = loaded(&path);
        for seed in 0..200 {
            let mut dice = Dice(seed + 7);
            let mut quanta = || [0; 5].map(|_| u64::from(LARGEST) + dice.below(150));
            let (before, after) = (quanta(), quanta());
            let run_of = |base: &dyn Fn(usize) -> PipeSpec| {
                let mut events = packets(seed, 4, 60);
                let middle = events[30].0;
                // There is one more flow from here on.
                events.insert(30, (middle, Event::Change(Box::new(with_quanta(base(5), &after)))));
                let polls: Vec<u64> = (0..200).map(|n| n * 97).collect();
                run(
                    &with_quanta(base(4), &before),
                    events,
                    if seed % 2 == 0 { &polls } else { &[] },
                )
            };
            let (theirs, broken) = run_of(&|flows| plugin(&mine, flows));
            let ours =
                run_of(&|flows| PipeSpec { setup: setup(Values::default(), flows), ..built_in() });
            assert_eq!(
                (&theirs, &broken),
                (&ours.0, &Vec::new()),
                "{} seed {seed}",
                path.display()
            );
        }
    }
}

/// The settings of a flow under DRR++: quantum in bytes, and latency.
type FlowOfDrrpp = (u64, &'static str);

/// DRR++ as built in, or as the example in C.
fn drrpp(library: Option<&Loaded>, form: &'static str, flows: &[FlowOfDrrpp]) -> PipeSpec {
    let mut spec = match library {
        Some(library) => plugin(library, flows.len()),
        None => PipeSpec::new("drr++", setup(Values::default(), flows.len()), Span::ZERO),
    };
    let text = |name: &str, text: &str| Given {
        name: name.into(),
        text: text.into(),
        unit: params::Unit::Text,
        number: 0,
    };
    match library {
        Some(_) => spec.setup.scheduler.give(vec![text("form", form)]),
        None => spec.setup.scheduler.set("form", Value::Choice(form)),
    }
    for (flow, &(bytes, latency)) in spec.setup.flows.iter_mut().zip(flows) {
        match library {
            Some(_) => flow.values.give(vec![quantum(bytes), text("latency", latency)]),
            None => {
                flow.values.set("quantum", Value::Bytes(bytes));
                flow.values.set("latency", Value::Choice(latency));
            }
        }
    }
    spec
}

#[test]
fn drr_plus_plus_in_c_is_as_the_built_in_discipline_with_changes_and_polls() {
    let mine = loaded(&c_example("drr_plus_plus.c"));
    let mut unlike = 0;
    for seed in 0..200 {
        let mut dice = Dice(seed + 7);
        // Any of the flows may have low latency, and the change draws this again.
        let mut draw = || {
            [0; 5].map(|_| {
                let latency = if dice.below(2) == 0 { "low" } else { "normal" };
                (u64::from(LARGEST) + dice.below(150), latency)
            })
        };
        let (before, after) = (draw(), draw());
        let run_of = |library: Option<&Loaded>, form: &'static str| {
            let mut events = packets(seed, 4, 60);
            let middle = events[30].0;
            let change = Event::Change(Box::new(drrpp(library, form, &after)));
            events.insert(30, (middle, change));
            let polls: Vec<u64> = (0..200).map(|n| n * 97).collect();
            let polls = if seed % 2 == 0 { &polls[..] } else { &[] };
            run(&drrpp(library, form, &before[..4]), events, polls)
        };
        let runs = ["modified", "gated"].map(|form| {
            let (theirs, broken) = run_of(Some(&mine), form);
            assert_eq!((&theirs, broken), (&run_of(None, form).0, Vec::new()), "{form}, {seed}");
            theirs
        });
        unlike += u32::from(runs[0] != runs[1]);
    }
    assert!(unlike > 50, "the gate matters in {unlike} cases");
}

#[test]
fn drr_plus_plus_in_c_refuses_what_it_does_not_know() {
    let mine = loaded(&c_example("drr_plus_plus.c"));
    let refused = |form, flows: &[FlowOfDrrpp]| {
        let (_, refused) =
            Engine::new(&[drrpp(Some(&mine), form, flows)]).map(drop).expect_err("a wrong value");
        let refused = refused.into_iter().next().unwrap();
        (refused.flow, refused.what)
    };
    let what = |what: &str| format!("`./libmine.so`: {what}");
    let good = (100, "normal");
    assert_eq!(
        refused("gated", &[good, (99, "low")]),
        (Some(1), what("the `quantum` is out of range"))
    );
    assert_eq!(
        refused("gated", &[good, (100, "no")]),
        (Some(1), what("the only parameters of a flow are `quantum` and `latency`"))
    );
    assert_eq!(
        refused("mw00", &[good]),
        (None, what("the only parameter of the scheduler is `form`"))
    );
}

#[test]
fn a_parameter_that_is_refused_is_told_with_the_library() {
    for path in drrs() {
        let spec = with_quanta(plugin(&loaded(&path), 2), &[200, 99]);
        let (_, refused) = Engine::new(&[spec]).map(drop).expect_err("too small");
        let refused = refused.into_iter().next().unwrap();
        assert_eq!((refused.flow, refused.param), (Some(1), "with"));
        assert_eq!(refused.what, "`./libmine.so`: the `quantum` is out of range");
        assert_eq!(
            refused.help,
            "`quantum` is a size: at least `100B`, the largest packet as the link accounts it; \
             at most 1 GiB"
        );
    }
}

/// Packets for the first of three flows, then for the second; the third stays empty.
fn row() -> Vec<(u64, Event)> {
    (0..12).map(|n| (n, Event::Packet { flow: (n / 6) as u32, bytes: 50 })).collect()
}

#[test]
fn what_breaks_the_contract_is_told_and_not_obeyed() {
    for (fault, what) in [
        ("UNKNOWN_FLOW", "it serves flow 3, and there are 3, the first of which is 0"),
        ("EMPTY_FLOW", "it serves flow 2 (the first is 0), which has no packet"),
        ("PAST", "it waits until 1.599us, which is over"),
        ("NOW", "it waits until 1.6us, which is over"),
        ("NEVER", "it waits for ever while 2 flows have packets"),
        ("IDLE", "it waits for ever while 2 flows have packets"),
        ("WAITS", "it waits while 2 flows have packets, and declares to be work-conserving"),
        ("ENDLESS", "it waited 1000 times in a row while 2 flows have packets"),
        ("NO_ANSWER", "it answers 77, which is not an answer"),
        ("FAILS", "it failed: it is Sunday"),
        ("FAILS_SILENTLY", "it failed: the library gives no reason"),
        ("DROPS_EMPTY", "it drops from flow 2 (the first is 0), which has no packet"),
    ] {
        let (sent, broken) = run(&plugin(&loaded(&naughty(fault)), 3), row(), &[]);
        // Four packets of the first flow; then falaj serves the flows in turn.
        let flows: Vec<u32> = sent.iter().map(|&(flow, ..)| flow).collect();
        assert_eq!(flows, [0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1], "{fault}");
        let [Breach { library, what: told, at, times, instead }] = &broken[..] else {
            panic!("{fault}: {broken:?}")
        };
        assert_eq!(
            (&library[..], &told[..], *times, *instead),
            ("./libmine.so", what, 1, 8),
            "{fault}"
        );
        assert_eq!(at.0, if fault == "ENDLESS" { 1600 + 1000 } else { 1600 }, "{fault}");
    }
    // The library serves the first flow until its queue is empty, and then serves it again.
    let four = (0..8).map(|n| (n, Event::Packet { flow: (n / 4) as u32, bytes: 50 })).collect();
    let (sent, broken) = run(&plugin(&loaded(&naughty("TWICE")), 2), four, &[]);
    assert_eq!(sent.len(), 8);
    assert_eq!(
        broken[0].what,
        "it serves flow 0 (the first is 0) once more, whose last packet has left"
    );
    assert_eq!(
        broken[0].to_string(),
        "the plug-in `./libmine.so` broke its contract at 1.6us: it serves flow 0 (the first is 0) \
         once more, whose last packet has left; it is not called again, and 4 packets took turns"
    );
    // Flows that are served round robin have no guarantee of the library.
    let mut engine = Engine::new(&[plugin(&loaded(&naughty("FAILS_SILENTLY")), 3)]).unwrap();
    let mut out = Vec::new();
    for n in 0..12 {
        let unit = Unit { flow: FlowId(n / 6), handle: n, bytes: 50 };
        engine.input(PIPE, unit, Time(n.into()), &mut out);
    }
    engine.poll(Time(1 << 40), &mut out);
    let none = engine.guarantee(PIPE, FlowId(0)).expect_err("the library failed");
    assert!(none.0.contains("has broken its contract"), "{}", none.0);
}

#[test]
fn a_panic_in_rust_is_told_and_the_program_goes_on() {
    let source =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("panics-{}.rs", std::process::id()));
    std::fs::write(
        &source,
        r#"
        use falaj_plugin_api::{Answer, Discipline, Queue, Refused, Sent, Setup, export};
        struct Panics(u32);
        export!(Panics);
        impl Discipline for Panics {
            const NAME: &'static std::ffi::CStr = c"panics";
            const WORK_CONSERVING: bool = true;
            fn new(setup: &Setup<'_>) -> Result<Panics, Refused> {
                assert!(setup.flows.len() > 1, "one flow is too few");
                Ok(Panics(0))
            }
            fn ready(&mut self, _: &[Queue], _: u32, _: u64) {}
            fn next(&mut self, queues: &[Queue], _: u64) -> Answer {
                queues.iter().position(|q| q.head > 0).map_or(Answer::Idle, |f| Answer::Serve(f as u32))
            }
            fn take(&mut self, _: &[Queue], _: u32, _: &Sent) {
                self.0 += 1;
                assert!(self.0 < 4, "{} is enough", self.0);
            }
        }
        "#,
    )
    .unwrap();
    let mine = loaded(&rust(&source));
    let (sent, broken) = run(&plugin(&mine, 2), row(), &[]);
    assert_eq!(
        (sent.len(), &broken[0].what[..], broken[0].instead),
        (12, "it failed: panic: 4 is enough", 8)
    );
    let (_, refused) = Engine::new(&[plugin(&mine, 1)]).map(drop).expect_err("it panics");
    assert_eq!(
        refused.to_string(),
        "`with`: `./libmine.so`: panic: one flow is too few; tell the author of the library"
    );
}

#[test]
fn what_is_no_discipline_is_not_loaded() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/naughty.c");
    let why = |path: &Path| load(path, "./libmine.so").expect_err("it is none").what;
    let of = |flags: &[&str]| why(&library(&source, flags));
    assert_eq!(
        of(&["-DFAULT=NONE", "-DABI=0xfa1a0007u"]),
        "`./libmine.so` is of version 7 of the plug-ins' interface, and this is version 1"
    );
    assert_eq!(
        of(&["-DFAULT=NONE", "-DABI=7"]),
        "`./libmine.so` is not a discipline: `falaj_discipline` begins with 0x00000007"
    );
    assert_eq!(
        of(&["-DFAULT=NONE", "-DWITHOUT_NEXT"]),
        "`./libmine.so` is not a discipline: its `next` is NULL"
    );
    let other = library(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c"), &[]);
    assert_eq!(
        why(&other),
        "`./libmine.so` is not a discipline: there is no `falaj_discipline` in it"
    );
    assert!(why(&source).starts_with("`./libmine.so` cannot be loaded: "), "{}", why(&source));
    // The system's own directories are not searched.
    assert!(
        load(Path::new("libc.so.6"), "libc.so.6")
            .expect_err("not here")
            .what
            .contains("cannot be loaded")
    );
    let refusal = |fault: &str| {
        let (_, refused) =
            Engine::new(&[plugin(&loaded(&naughty(fault)), 2)]).map(drop).expect_err(fault);
        refused.into_iter().next().unwrap()
    };
    let silent = refusal("NULLS");
    assert_eq!(
        (silent.flow, &silent.what[..]),
        (None, "`./libmine.so`: there is no instance, and no reason is given")
    );
    let long = refusal("NULLS_WITH_REASON");
    assert_eq!((long.flow, long.what), (Some(1), format!("`./libmine.so`: {}", "x".repeat(256))));
}

#[test]
fn another_takes_over_while_packets_wait() {
    let (bad, good) = (loaded(&naughty("PAST")), loaded(&c_example("drr.c")));
    let three = || PipeSpec::new("drr", setup(Values::default(), 3), Span::ZERO);
    for successor in [plugin(&good, 3), three(), plugin(&bad, 3)] {
        let again = successor.setup.scheduler.library() == Some(&bad);
        // At the change the fifth packet is in transmission, served round robin.
        let mut events = row();
        events.push((1700, Event::Change(Box::new(successor))));
        let (sent, broken) = run(&plugin(&bad, 3), events, &[]);
        assert_eq!(sent.len(), 12);
        assert_eq!(sent[5].2, 2000, "the one on the wire ends when it was to end");
        let times = if again { vec![(1, 1), (1, 3)] } else { vec![(1, 1)] };
        let told: Vec<(u64, u64)> =
            broken.iter().map(|breach| (breach.times, breach.instead)).collect();
        assert_eq!(told, times, "what the first did is told afterwards too: {broken:?}");
    }
    // From a built-in discipline to a library: the queued packets arrive again, in their order.
    let mut events = row();
    events.push((450, Event::Change(Box::new(plugin(&good, 3)))));
    let (sent, broken) = run(&three(), events, &[]);
    assert_eq!((sent.len(), broken), (12, Vec::new()));
}

#[test]
fn tags_are_of_the_packet_at_the_head_and_guarantees_as_declared() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/stamps.c");
    let mine = loaded(&library(&source, &[]));
    for seed in 0..50 {
        // At a change, packets of the same instant arrive in the order of flows.
        let apart = |(n, (at, event))| (at + n as u64, event);
        let mut events: Vec<(u64, Event)> =
            packets(seed, 3, 60).into_iter().enumerate().map(apart).collect();
        let middle = events[30].0;
        // The tags are computed again at a change.
        events.insert(30, (middle, Event::Change(Box::new(plugin(&mine, 3)))));
        let (sent, broken) = run(&plugin(&mine, 3), events, &[]);
        assert!(sent.is_sorted_by_key(|&(_, handle, _)| handle), "first in, first out: {sent:?}");
        assert_eq!(broken, Vec::new());
    }
    let engine = Engine::new(&[plugin(&mine, 2)]).unwrap();
    let guarantee = engine.guarantee(PIPE, FlowId(0)).unwrap();
    assert_eq!(
        (guarantee.rate, guarantee.latency, guarantee.delay.delay),
        (Rate::from_mbit(500), Span(100), Span(7))
    );
    let none = engine.guarantee(PIPE, FlowId(1)).expect_err("only the first has one");
    assert_eq!(none.0, "the plug-in `./libmine.so` declares no guarantee");
}

#[test]
fn a_library_may_hold_packets_and_polls_are_nothing_to_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/ticks.c");
    let mut spec = plugin(&loaded(&library(&source, &[])), 2);
    let tick = Given {
        name: "tick".into(),
        text: "10us".into(),
        unit: params::Unit::Span,
        number: 10_000,
    };
    spec.setup.scheduler.give(vec![tick]);
    let packet = |at, flow, bytes| (at, Event::Packet { flow, bytes });
    for polls in [&[][..], &[2_500, 7_000, 9_999, 10_000, 10_001]] {
        let events = vec![
            packet(1_000, 1, 100),
            packet(2_000, 0, 50),
            packet(10_100, 0, 50),
            packet(40_000, 1, 1),
        ];
        let (sent, broken) = run(&spec, events, polls);
        assert_eq!(sent, [(0, 1, 10_000), (0, 2, 20_000), (1, 0, 30_000), (1, 3, 40_000)]);
        assert_eq!(broken, Vec::new());
    }
}

#[test]
fn a_library_may_stand_above_and_below_another_discipline() {
    let mine = loaded(&c_example("drr.c"));
    for seed in 0..50 {
        let tree = |above: &PipeSpec, below: &PipeSpec| {
            let mut spec = above.clone();
            spec.setup.flows[1].inner =
                Some(Box::new(Inner { kind: below.kind, setup: below.setup.clone() }));
            run(&spec, packets(seed, 3, 60), &[])
        };
        let (built_in, library) =
            (PipeSpec::new("drr", setup(Values::default(), 2), Span::ZERO), plugin(&mine, 2));
        let ours = tree(&built_in, &built_in);
        assert_eq!(ours.1, Vec::new());
        for (above, below) in [(&library, &built_in), (&built_in, &library), (&library, &library)] {
            assert_eq!(tree(above, below), ours, "seed {seed}");
        }
    }
}

#[test]
fn what_the_how_to_shows_is_a_discipline() {
    let page = std::fs::read_to_string(root().join("docs/how-to/plugin.md")).unwrap();
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let written = |name: &str, text: String| {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    };
    let example = std::fs::read_to_string(root().join("examples/plugins/c/longest.c")).unwrap();
    assert_eq!(block("c"), example);
    let in_c = c_example("longest.c");
    let in_rust = rust(&written("longest.rs", block("rust")));
    for path in [in_c, in_rust] {
        // At the decisions after the first one, the queues hold 200 B and 120 B, then 100 B and
        // 120 B, then 100 B and 60 B, and last 0 B and 60 B.
        let lengths = [(0, 100), (1, 60), (0, 100), (0, 100), (1, 60)];
        let events = lengths.map(|(flow, bytes)| (0, Event::Packet { flow, bytes }));
        let (sent, broken) = run(&plugin(&loaded(&path), 2), events.into(), &[]);
        let flows: Vec<u32> = sent.iter().map(|&(flow, ..)| flow).collect();
        assert_eq!((flows, broken), (vec![0, 0, 1, 0, 1], Vec::new()));
    }
}
