//! The bound on a flow's delay, without a simulation: calls beside a flow that sends without end.
//! `cargo run -p falaj-plan --example bound_a_flow`

const SCENARIO: &str = r#"
    [link.uplink]
    rate = "10mbit"
    scheduler = { kind = "drr" }
    [link.uplink.flow.calls]
    match = "udp dport 5004"
    envelope = { rate = "1mbit", burst = "1kB" }
    [link.uplink.flow.rest]
    match = "any"
"#;

pub(crate) fn main() {
    let (scenario, _) = falaj_scenario::parse(SCENARIO, "uplink.toml").expect("a valid scenario");
    let ways = falaj_plan::plan(&scenario).expect("a plan");
    for flow in &ways[0].flows {
        let bound = flow.best().expect("a bound");
        println!("{}: {} ms at most", flow.name, bound.delay.0 as f64 / 1e6);
    }
    // Both flows have a quantum of 1514 B. The calls keep to an envelope, so their bound is lower.
    let [calls, rest] = [0, 1].map(|n| ways[0].flows[n].best().expect("a bound").delay);
    assert!(calls < rest);
}
