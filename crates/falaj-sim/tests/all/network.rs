//! End-to-end bounds, checked with sources that cause large delays.

use falaj_plan::network::Routes;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::simulate;
use std::sync::atomic::AtomicBool;

/// Three links in a row. Each source passes some of them. The second link may have separate flows.
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

/// A ring of three links with the same rate. Each source passes two of them, so the delays depend
/// on each other in a circle.
const RING: &str = r#"
    link.a = { rate = "10mbit", delay = "1ms" }
    link.b = { rate = "10mbit", delay = "1ms" }
    link.c = { rate = "10mbit", delay = "1ms" }
    [[rule]]
    match = "src 10.1.0.0/16"
    to = ["a", "b"]
    [[rule]]
    match = "src 10.2.0.0/16"
    to = ["b", "c"]
    [[rule]]
    to = ["c", "a"]
    [traffic.one]
    headers = "udp src 10.1.0.1 dport 80"
    model = "greedy"
    size = "1000B"
    allowed = { rate = "3mbit", burst = "10kB" }
    [traffic.two]
    headers = "udp src 10.2.0.1 dport 80"
    model = "greedy"
    size = "1000B"
    allowed = { rate = "3mbit", burst = "10kB" }
    offset = "OTHER"
    [traffic.three]
    headers = "udp src 10.3.0.1 dport 80"
    model = "greedy"
    size = "1000B"
    allowed = { rate = "3mbit", burst = "10kB" }
    offset = "LAST"
"#;

/// Three links in a row with the same rate. One source passes all links; two other sources pass two
/// links each.
const TANDEM: &str = r#"
    link.a = { rate = "10mbit", delay = "1ms" }
    link.b = { rate = "10mbit", delay = "1ms" }
    link.c = { rate = "10mbit", delay = "1ms" }
    [[rule]]
    match = "src 10.1.0.0/16"
    to = ["a", "b", "c"]
    [[rule]]
    match = "src 10.2.0.0/16"
    to = ["a", "b"]
    [[rule]]
    to = ["b", "c"]
    [traffic.one]
    headers = "udp src 10.1.0.1 dport 80"
    model = "greedy"
    size = "500B"
    allowed = { rate = "1mbit", burst = "3kB" }
    [traffic.two]
    headers = "udp src 10.2.0.1 dport 80"
    model = "greedy"
    size = "500B"
    allowed = { rate = "2mbit", burst = "6kB" }
    offset = "OTHER"
    [traffic.three]
    headers = "udp src 10.3.0.1 dport 80"
    model = "greedy"
    size = "500B"
    allowed = { rate = "2mbit", burst = "6kB" }
    offset = "LAST"
"#;

/// Returns the largest ratio of a source's longest delay to its bound. Fails if a packet exceeds
/// its bound.
fn nearest(text: &str) -> f64 {
    let (scenario, _) =
        falaj_scenario::parse(text, "x").unwrap_or_else(|why| panic!("{}", why.render(false)));
    let ways = falaj_plan::plan(&scenario).unwrap();
    let routes = Routes::of(&scenario, &ways).unwrap();
    let run = simulate(&experiment(&scenario, Span::from_millis(150)), 1, &AtomicBool::new(false))
        .expect("it is valid");
    let each = routes.outlooks(None).into_iter().zip(&run.ways).map(|(outlook, seen)| {
        let (bound, seen) =
            (outlook.delay.expect("all is known"), seen.max().expect("packets were sent"));
        assert!(seen <= bound, "{text}: {} {seen} above {bound}", outlook.route.traffic);
        seen.as_secs_f64() / bound.as_secs_f64()
    });
    each.fold(0.0, f64::max)
}

/// At all offsets of the bursts, no packet exceeds its bound, and some delays are close to the
/// bound.
#[test]
fn no_packet_is_later_than_its_bound_from_end_to_end() {
    for second in ["fifo", "drr", "wf2q+", "qfq"] {
        let offsets =
            (8..32).step_by(6).flat_map(|other| (15..60).step_by(9).map(move |last| (other, last)));
        let delays = offsets.map(|(other, last)| {
            let text = CHAIN.replace("SECOND", second).replace("OTHER", &format!("{other}ms"));
            nearest(&text.replace("LAST", &format!("{last}ms")))
        });
        let most = delays.fold(0.0, f64::max);
        assert!(most > 0.4, "{second}: {most}");
    }
}

#[test]
fn packets_of_a_ring_and_a_tandem_keep_their_bounds() {
    for (text, least) in [(RING, 0.4), (TANDEM, 0.7)] {
        let offsets = (0..20).step_by(3).flat_map(|a| (0..20).step_by(3).map(move |b| (a, b)));
        let delays = offsets.map(|(other, last)| {
            nearest(
                &text.replace("OTHER", &format!("{other}ms")).replace("LAST", &format!("{last}ms")),
            )
        });
        let most = delays.fold(0.0, f64::max);
        assert!(most > least, "{most}: {text}");
    }
}
