//! Every discipline against its own promises, under adversarial arrivals.

mod common;

use common::{Arrival, Dice, any_pipe, bursts, emits, run, virtual_links};
use falaj_engine::{Engine, PipeId};
use falaj_sched::params::Value;
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::time::Time;

/// (1'), (1'') and (3) for every packet that got in, with packets of any size,
/// queues in packets and in bytes.
#[test]
fn no_packet_stays_longer_than_promised() {
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed);
        let spec = any_pipe(&mut dice);
        let arrivals = bursts(&mut dice, &spec, 20_000);
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        for e in emits(&run(&spec, &arrivals, |_, _, _| {})) {
            let promise = engine.promise(PipeId(0), e.flow).expect("these setups are all promised something");
            let delay = e.end - e.arrival;
            assert!(
                delay <= promise.delay.delay,
                "seed {seed}: {delay} > {} {}: {spec:?}",
                promise.delay.delay,
                promise.delay.formula
            );
        }
    }
}

/// (2), and DRR's share: whoever always has packets gets at least the promised
/// rate, once the latency has passed.
#[test]
fn saturated_flows_get_their_rate() {
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed);
        let serve = dice.one_of(&["phase-wise", "packet-wise"]);
        let preset = dice.one_of(&["clean", "paper"]);
        let mut spec = virtual_links(&mut dice, serve, preset);
        if seed % 3 == 0 {
            spec.kind = "drr";
            for f in &mut spec.setup.flows {
                f.values.set("quantum", Value::Bytes(u64::from(spec.setup.largest) + dice.from(0, 20)));
            }
        }
        spec.setup.flows[0].limit = Limit::Packets(1_000_000);
        let cycle: u64 = spec.setup.flows.iter().map(|f| f.values.span("phase").unwrap().0).sum();
        let horizon = 60 * cycle;
        let mut arrivals = bursts(&mut dice, &spec, horizon);
        arrivals.retain(|a| a.flow != FlowId(0));
        let sizes: Vec<u32> = (0..horizon / 8).map(|_| dice.from(1, spec.setup.largest.into()) as u32).collect();
        let backlog = sizes.into_iter().map(|bytes| Arrival { at: Time::ZERO, flow: FlowId(0), bytes });
        arrivals.splice(0..0, backlog);
        let engine = Engine::new(std::slice::from_ref(&spec)).unwrap();
        let promised = engine.promise(PipeId(0), FlowId(0)).unwrap();
        let sent: u64 = emits(&run(&spec, &arrivals, |_, _, _| {}))
            .iter()
            .filter(|e| e.flow == FlowId(0) && e.end.0 <= horizon)
            .map(|e| u64::from(e.bytes))
            .sum();
        let due = promised.rate.0 as f64 / 8e9 * (horizon - promised.latency.0.min(horizon)) as f64;
        assert!(sent as f64 >= due.floor(), "seed {seed}: {sent} B < {due} B: {spec:?}");
    }
}
