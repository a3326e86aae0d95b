//! End-to-end bounds against packets that do their worst.

use falaj_plan::network::Routes;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::simulate;
use std::sync::atomic::AtomicBool;

/// Three links in a row, some of which each source passes; the second one may keep flows apart.
const CHAIN: &str = r#"
    [link.a]
    rate = "10mbit"
    delay = "5ms"
    [link.b]
    rate = "20mbit"
    delay = "1ms"
    scheduler = { kind = "SECOND" }
    [link.b.flow.calls]
    match = "udp dport 5004"
    [link.b.flow.rest]
    match = "any"
    [link.c]
    rate = "8mbit"
    [[rule]]
    match = "src 10.1.0.0/16"
    to = ["a", "b", "c"]
    [[rule]]
    match = "src 10.2.0.0/16"
    to = ["b", "c"]
    [[rule]]
    to = "c"
    [traffic.calls]
    headers = "udp src 10.1.0.1 dport 5004"
    model = "greedy"
    size = "250B"
    allowed = { rate = "1mbit", burst = "2kB" }
    [traffic.backup]
    headers = "udp src 10.1.0.2 dport 873"
    model = "greedy"
    size = "1514B"
    allowed = { rate = "2mbit", burst = "15kB" }
    [traffic.files]
    headers = "udp src 10.2.0.1 dport 80"
    model = "greedy"
    size = "1514B"
    allowed = { rate = "2mbit", burst = "30kB" }
    offset = "OTHER"
    [traffic.last]
    headers = "udp src 10.3.0.1 dport 80"
    model = "greedy"
    size = "1514B"
    allowed = { rate = "1mbit", burst = "9kB" }
    offset = "LAST"
"#;

/// At all offsets of the bursts, no packet is later than its bound; and some come near it.
#[test]
fn no_packet_is_later_than_its_bound_from_end_to_end() {
    for second in ["fifo", "drr", "wf2q+", "qfq"] {
        let mut nearest: f64 = 0.0;
        let offsets =
            (8..32).step_by(6).flat_map(|other| (15..60).step_by(9).map(move |last| (other, last)));
        for (other, last) in offsets {
            let text = CHAIN.replace("SECOND", second).replace("OTHER", &format!("{other}ms"));
            let text = text.replace("LAST", &format!("{last}ms"));
            let (scenario, _) = falaj_scenario::parse(&text, "x")
                .unwrap_or_else(|why| panic!("{}", why.render(false)));
            let ways = falaj_plan::plan(&scenario).unwrap();
            let routes = Routes::of(&scenario, &ways).unwrap();
            let run = simulate(
                &experiment(&scenario, Span::from_millis(150)),
                1,
                &AtomicBool::new(false),
            )
            .expect("it is valid");
            for (outlook, seen) in routes.outlooks().iter().zip(&run.ways) {
                let (bound, seen) =
                    (outlook.delay.expect("all is known"), seen.max().expect("packets were sent"));
                assert!(
                    seen <= bound,
                    "{second} {other} {last}: {} {seen} above {bound}",
                    outlook.route.traffic
                );
                nearest = nearest.max(seen.as_secs_f64() / bound.as_secs_f64());
            }
        }
        assert!(nearest > 0.4, "{second}: {nearest}");
    }
}
