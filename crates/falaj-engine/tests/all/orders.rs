//! Worked examples: who leaves when, computed by hand. One byte takes 8 ns.

use crate::common::examples::{E1, order};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// A pipe whose largest packet has 4 B; one flow for each list of values.
fn pipe(kind: &'static str, scheduler: Values, flows: Vec<Values>) -> PipeSpec {
    let flows =
        flows.into_iter().map(|values| FlowSetup::new(values, Limit::Packets(10))).collect();
    PipeSpec::new(
        kind,
        Setup { rate: Rate::from_mbit(1000), largest: 4, scheduler, flows },
        Span::ZERO,
    )
}

#[test]
fn fifo_keeps_the_order_of_arrival() {
    let fifo = pipe("fifo", Values::default(), vec![Values::default(); 3]);
    assert_eq!(order(&fifo, E1), "A1@2 A2@4 A3@6 A4@8 B1@12 B2@13 B3@16 C1@19 C2@22");
}

#[test]
fn drr_serves_in_proportion_to_the_quanta() {
    let drr = |quanta: [u64; 3]| {
        let flow = |q| Values::default().with("quantum", Value::Bytes(q));
        pipe("drr", Values::default(), quanta.map(flow).into())
    };
    assert_eq!(order(&drr([4, 4, 4]), E1), "A1@2 A2@4 B1@8 C1@11 A3@13 A4@15 B2@16 B3@19 C2@22");
    assert_eq!(order(&drr([8, 4, 4]), E1), "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 B2@16 B3@19 C2@22");
    // Quanta below a packet are saved up from visit to visit.
    let any = |quanta| {
        let mut spec = drr(quanta);
        spec.setup.scheduler = Values::default().with("quanta", Value::Choice("any"));
        spec
    };
    assert_eq!(order(&any([2, 2, 2]), E1), "A1@2 A2@4 B1@8 C1@11 A3@13 B2@14 C2@17 A4@19 B3@22");
    assert_eq!(order(&any([4, 2, 2]), E1), "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 B2@16 C2@19 B3@22");
}

/// A packet that comes while the flow's last one is on the wire keeps the
/// flow's turn and its deficit; a reset at the start of that transmission
/// would send B first.
#[test]
fn drr_looks_whether_a_flow_is_empty_after_its_last_bit() {
    let flow = Values::default().with("quantum", Value::Bytes(4));
    let drr = pipe("drr", Values::default(), vec![flow.clone(), flow]);
    let meanwhile = [(0, 'A', 2), (0, 'B', 4), (0, 'B', 4), (1, 'A', 2)];
    assert_eq!(order(&drr, &meanwhile), "A1@2 A2@4 B1@8 B2@12");
    // One that comes with the last bit finds the flow gone.
    let too_late = [(0, 'A', 2), (0, 'B', 4), (0, 'B', 4), (2, 'A', 2)];
    assert_eq!(order(&drr, &too_late), "A1@2 B1@6 A2@8 B2@12");
}

fn virtual_links(serve: &'static str, tail: &'static str, kinds: &[&'static str]) -> PipeSpec {
    let scheduler =
        Values::default().with("serve", Value::Choice(serve)).with("tail", Value::Choice(tail));
    // Ten bytes of time for each: two packets of 4 B and a tail of 2.
    let flow = |kind: &&'static str| {
        Values::default().with("kind", Value::Choice(kind)).with("phase", Value::Span(Span(80)))
    };
    pipe("virtual-links", scheduler, kinds.iter().map(flow).collect())
}

/// Three packets of 4 B for each of two links, at once.
const FULL: &[(u64, char, u32)] =
    &[(0, 'A', 4), (0, 'A', 4), (0, 'A', 4), (0, 'B', 4), (0, 'B', 4), (0, 'B', 4)];

#[test]
fn phases_follow_each_other_and_tails_are_waited_out_or_skipped() {
    let wait = virtual_links("phase-wise", "wait", &["A", "A"]);
    assert_eq!(order(&wait, FULL), "A1@4 A2@8 B1@14 B2@18 A3@24 B3@34");
    let skip = virtual_links("phase-wise", "skip", &["A", "A"]);
    assert_eq!(order(&skip, FULL), "A1@4 A2@8 B1@12 B2@16 A3@20 B3@30");
    // Of type B: A's second phase ends with its last packet, at 24.
    let b = virtual_links("phase-wise", "wait", &["B", "B"]);
    assert_eq!(order(&b, FULL), "A1@4 A2@8 B1@14 B2@18 A3@24 B3@28");
}

#[test]
fn packet_wise_links_take_turns_and_tails_end_the_cycle() {
    let wait = virtual_links("packet-wise", "wait", &["A", "A"]);
    assert_eq!(order(&wait, FULL), "A1@4 B1@8 A2@12 B2@16 A3@24 B3@28");
    let skip = virtual_links("packet-wise", "skip", &["A", "A"]);
    assert_eq!(order(&skip, FULL), "A1@4 B1@8 A2@12 B2@16 A3@20 B3@24");
}

/// Phases of links without packets are no events, and what is due then is due
/// when its last bit is out; who arrives meanwhile finds its phase where it is.
#[test]
fn a_wait_ends_when_somebody_can_send() {
    let at = |bytes: u64| Time(bytes * 8);
    let unit = |flow: u32| Unit { flow: FlowId(flow), handle: flow, bytes: 4 };
    let mut engine =
        Engine::new(&[virtual_links("phase-wise", "wait", &["A", "B", "A", "A"])]).unwrap();
    let mut out = Vec::new();
    assert_eq!((engine.next_event(), engine.next_due()), (Time::NEVER, Time::NEVER));
    // In the first link's phase; the last one's begins at 20, behind those of two links of type A.
    engine.input(PipeId(0), unit(3), at(1), &mut out);
    assert_eq!(engine.next_event(), at(20));
    let due = engine.next_due();
    assert!(due <= at(24) && due + Span(1) >= at(24), "{due:?}");
    assert!(out.is_empty());
    // The third link's phase has begun at 10: it may send at once.
    engine.input(PipeId(0), unit(2), at(13), &mut out);
    assert_eq!((engine.next_event(), engine.next_due()), (at(17), at(17)));
    engine.poll(at(100), &mut out);
    let ends: Vec<(u32, u64)> = out
        .iter()
        .filter_map(|o| match o {
            falaj_engine::Output::Emit(e) => Some((e.handle, e.end.0 / 8)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(2, 17), (3, 24)]);
}
