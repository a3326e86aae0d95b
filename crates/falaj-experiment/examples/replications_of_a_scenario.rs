//! Simulates a scenario eight times, and prints the mean delay of its calls with a confidence
//! interval. `cargo run -p falaj-experiment --example replications_of_a_scenario`

use falaj_engine::PipeId;
use falaj_experiment::replications::Replications;

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
size = "250B"

[traffic.rest]
flow = "rest"
model = "poisson"
rate = "12mbit"
size = "1514B"

[run]
duration = "1s"
replications = 8
"#;

pub(crate) fn main() -> anyhow::Result<()> {
    let (scenario, _) = falaj_scenario::parse(SCENARIO, "uplink.toml").expect("a valid scenario");
    let replications = Replications::run(&scenario)?;
    for (flow, name) in ["calls", "rest"].into_iter().enumerate() {
        let flow = replications.flow(PipeId(0), flow);
        let mean = flow.mean.expect("packets have passed");
        println!(
            "{name}: {:.0} us ± {:.0} on average, {} of {} packets dropped",
            mean.mean / 1e3,
            mean.half_width.unwrap_or_default() / 1e3,
            flow.dropped,
            flow.offered
        );
        assert_eq!(flow.dropped == 0, name == "calls", "the others ask for more than there is");
    }
    Ok(())
}
