//! Reads a scenario, and shows the messages for a wrong scenario.
//! `cargo run -p falaj-scenario --example read_a_scenario`

pub(crate) fn main() {
    let text = "[link.uplink]\nrate = \"10mbit\"\nscheduler = { kind = \"drr\" }\n\
                [link.uplink.flow.calls]\nmatch = \"udp dport 5004\"\n\
                [link.uplink.flow.rest]\nmatch = \"any\"\n";
    let (scenario, warnings) = falaj_scenario::parse(text, "uplink.toml").expect("it is valid");
    for flow in &scenario.links[0].up.flows {
        println!("flow {}: {:?}", flow.name, flow.matches);
    }
    assert!(warnings.is_empty());

    let wrong = text.replace("10mbit", "10M").replace("drr", "dr");
    let diagnostics =
        falaj_scenario::parse(&wrong, "uplink.toml").expect_err("two things are wrong");
    println!("{diagnostics}");
    assert_eq!(diagnostics.problems().len(), 2);
}
