//! Disciplines below the flows of another discipline.

use crate::common::{Arrival, Dice, any_pipe, bursts, emits, run, virtual_links};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Inner, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

fn below(spec: &mut PipeSpec, f: usize, kind: &'static str, flows: Vec<FlowSetup>) {
    let setup = Setup { flows, scheduler: Values::default(), ..spec.setup.clone() };
    spec.setup.flows[f].inner = Some(Box::new(Inner { kind, setup }));
}

/// A flow that is divided into one part departs like the undivided flow.
#[test]
fn a_tree_of_single_flows_departs_as_without_it() {
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed);
        let mut plain = any_pipe(&mut dice);
        plain.setup.flows.iter_mut().for_each(|f| f.inner = None);
        let mut tree = plain.clone();
        for f in 0..tree.setup.flows.len() {
            let alone = FlowSetup::new(Values::default(), plain.setup.flows[f].limit);
            below(&mut tree, f, dice.one_of(&["fifo", "drr"]), vec![alone]);
        }
        if Engine::new(std::slice::from_ref(&tree)).is_err() {
            continue;
        }
        let arrivals = bursts(&mut dice, &plain, 15_000);
        let nothing = |_: &mut Engine, _: Time, _: &mut Vec<_>| {};
        assert_eq!(
            run(&plain, &arrivals, nothing),
            run(&tree, &arrivals, nothing),
            "seed {seed}: {plain:?}"
        );
    }
}

/// The leaves below a flow share its service by their quanta, however bursty the other flows are.
#[test]
fn leaves_share_what_their_flow_is_guaranteed() {
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed ^ 0x7ee);
        let mut spec = virtual_links(&mut dice, "packet-wise", "clean");
        let largest = u64::from(spec.setup.largest);
        let quantum = |q: u64| Values::default().with("quantum", Value::Bytes(q));
        let leaf =
            |dice: &mut Dice| FlowSetup::new(quantum(largest + dice.from(0, 9)), Limit::Packets(4));
        let leaves: Vec<FlowSetup> = (0..dice.from(2, 4)).map(|_| leaf(&mut dice)).collect();
        let quanta: Vec<u64> = leaves.iter().map(|f| f.values.bytes("quantum").unwrap()).collect();
        below(&mut spec, 0, "drr", leaves);
        // Every leaf of the first virtual link is always backlogged; the other links have bursts.
        let n = quanta.len() as u32;
        let mut arrivals = bursts(&mut dice, &spec, 60_000);
        arrivals.retain(|a| a.flow.0 >= n);
        for f in 0..n {
            let every = |at| Arrival { at: Time(at), flow: FlowId(f), bytes: largest as u32 };
            arrivals.extend((0..60_000).step_by(20).map(every));
        }
        arrivals.sort_by_key(|a| (a.at, a.flow));
        let mut sent = vec![0u64; n as usize];
        for e in emits(&run(&spec, &arrivals, |_, _, _| {}))
            .iter()
            .filter(|e| e.flow.0 < n && e.end.0 < 60_000)
        {
            sent[e.flow.index()] += u64::from(e.bytes);
        }
        // Under DRR, the services of any two leaves, in quanta, differ by at most one quantum and
        // one packet of each leaf.
        for i in 0..quanta.len() {
            for j in 0..quanta.len() {
                let lead = sent[i] as f64 / quanta[i] as f64 - sent[j] as f64 / quanta[j] as f64;
                assert!(lead.abs() <= 3.0, "seed {seed}: {sent:?} by {quanta:?}");
            }
        }
    }
}

/// The guarantees of a tree hold under bursts, at many levels of load and at odd rates.
#[test]
fn no_leaf_waits_longer_than_guaranteed() {
    let mut guaranteed = 0;
    for seed in 0..5_000 {
        let mut dice = Dice::new(seed ^ 0x1eaf);
        let mut spec = any_pipe(&mut dice);
        crate::common::divide(&mut dice, &mut spec);
        if spec.setup.flows.iter().all(|f| f.inner.is_none()) {
            continue;
        }
        let arrivals = bursts(&mut dice, &spec, 20_000);
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        for e in emits(&run(&spec, &arrivals, |_, _, _| {})) {
            let Ok(guarantee) = engine.guarantee(PipeId(0), e.flow) else { continue };
            guaranteed += 1;
            let delay = e.end - e.arrival;
            assert!(
                delay <= guarantee.delay.delay,
                "seed {seed}: {delay} > {}: {spec:?}",
                guarantee.delay.delay
            );
        }
    }
    assert!(guaranteed > 100_000, "{guaranteed}");
}

/// Two tenants share a link by phases; the first tenant divides its phase by DRR between voice and
/// bulk traffic. Computed by hand at 8 ns per byte: phases of 10 B, packets of 4 B.
#[test]
fn a_link_within_a_link() {
    let link = |kind: &'static str| {
        let values = Values::default()
            .with("kind", Value::Choice(kind))
            .with("phase", Value::Span(Span(80)));
        FlowSetup::new(values, Limit::Packets(10))
    };
    let setup = Setup {
        rate: Rate::from_mbit(1000),
        largest: 4,
        scheduler: Values::default().with("tail", Value::Choice("skip")),
        flows: vec![link("B"), link("B")],
    };
    let mut spec = PipeSpec::new("virtual-links", setup, Span::ZERO);
    let leaf = || FlowSetup::new(Values::default(), Limit::Packets(10));
    below(&mut spec, 0, "drr", vec![leaf(), leaf()]);
    let at_once = [(0, 4), (0, 4), (0, 4), (1, 4), (2, 4), (2, 4), (2, 4)];
    let arrivals: Vec<Arrival> = at_once
        .iter()
        .map(|&(f, bytes)| Arrival { at: Time::ZERO, flow: FlowId(f), bytes })
        .collect();
    let order: Vec<(u32, u64)> = emits(&run(&spec, &arrivals, |_, _, _| {}))
        .iter()
        .map(|e| (e.flow.0, e.end.0 / 8))
        .collect();
    // First cycle: bulk, tenant 2, voice, tenant 2; both phases are then used up. Second cycle:
    // bulk, tenant 2, bulk.
    assert_eq!(order, [(0, 4), (2, 8), (1, 12), (2, 16), (0, 20), (2, 24), (0, 28)]);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let mut dice = Dice::new(1);
    let mut spec = virtual_links(&mut dice, "packet-wise", "clean");
    below(&mut spec, 0, "fifo", vec![FlowSetup::new(Values::default(), Limit::Packets(1))]);
    spec.kind = "fifo";
    spec.setup.scheduler = Values::default();
    let refused = Engine::new(&[spec])
        .err()
        .expect("one queue has nothing to divide")
        .1
        .into_iter()
        .next()
        .unwrap();
    assert_eq!((refused.flow, refused.param), (Some(0), "scheduler"));
    assert!(registry::entry("drr").is_some());
}
