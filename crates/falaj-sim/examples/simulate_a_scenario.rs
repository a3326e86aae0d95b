//! Simulates a scenario: two flows offer more than their link carries, and deficit round robin
//! divides it. `cargo run -p falaj-sim --example simulate_a_scenario`

use falaj_sched::units::time::Span;
use std::sync::atomic::AtomicBool;

const SCENARIO: &str = r#"
    [link.uplink]
    rate = "10mbit"
    scheduler = { kind = "drr" }
    [link.uplink.flow.calls]
    match = "udp dport 5004"
    [link.uplink.flow.rest]
    match = "any"

    [traffic.calls]
    flow = "calls"
    model = "cbr"
    rate = "1mbit"
    size = "200B"
    [traffic.rest]
    flow = "rest"
    model = "poisson"
    rate = "15mbit"
    size = "1500B"
"#;

pub(crate) fn main() {
    let (scenario, _) = falaj_scenario::parse(SCENARIO, "uplink.toml").expect("a valid scenario");
    let duration = Span::from_secs(10);
    let experiment = falaj_sim::scenario::experiment(&scenario, duration);
    let run = falaj_sim::simulate(&experiment, 1, &AtomicBool::new(false)).expect("valid pipes");
    for row in falaj_sim::rows(&scenario, &run) {
        println!("{} {}: {:.1} Mbit/s", row.way, row.flow, row.delivered_rate / 1e6);
    }
    // Pipe 0 is the direction up. The flow `calls` gets all that it offers; the other flow gets the
    // remaining rate.
    let [calls, rest] = &run.pipes[0][..] else { panic!("two flows") };
    assert!(calls.delay.max() < Some(Span::from_millis(5)), "{:?}", calls.delay.max());
    assert_eq!(calls.counters.dropped(), 0);
    assert!((rest.delivered_rate(duration) / 8.9e6 - 1.0).abs() < 0.02);
}
