//! Simulated links that are paced by their devices: packets leave when the device has sent them,
//! within the planned delay.

use falaj_plan::network::Routes;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::{Run, simulate};
use std::sync::atomic::AtomicBool;

/// Virtual links A and B with phases of 300 us each; 1514 B take 121 us. Both are overloaded. A
/// third link, of type A, is nearly empty.
const LINKS: &str = r#"
    [link.l]
    rate = "100mbit"
    scheduler = { kind = "virtual-links", serve = "SERVE" }
    PACE
    [link.l.flow.a]
    match = "udp dport 1"
    kind = "A"
    phase = "300us"
    [link.l.flow.b]
    match = "udp dport 2"
    kind = "B"
    phase = "300us"
    [link.l.flow.calls]
    match = "any"
    kind = "A"
    phase = "200us"
    [traffic.one]
    flow = "a"
    model = "poisson"
    rate = "90mbit"
    size = "1514B"
    [traffic.two]
    flow = "b"
    model = "on-off"
    on = "3ms"
    off = "3ms"
    rate = "95mbit"
    size = "100B-1514B"
    [traffic.calls]
    flow = "calls"
    model = "cbr"
    rate = "1mbit"
    size = "200B"
"#;

fn simulated(text: &str) -> (Run, Vec<Span>) {
    let (scenario, _) =
        falaj_scenario::parse(text, "x").unwrap_or_else(|why| panic!("{}", why.render(false)));
    let ways = falaj_plan::plan(&scenario).expect("accepted");
    let bounds = ways[0]
        .flows
        .iter()
        .map(|flow| flow.guarantee.as_ref().expect("guaranteed").delay.delay)
        .collect();
    let run = simulate(&experiment(&scenario, Span::from_secs(2)), 1, &AtomicBool::new(false))
        .expect("it is valid");
    (run, bounds)
}

/// For any backlog of the device, flows keep their rates. Delay bounds grow by exactly the
/// transmission time of the bytes that the device may hold, apart from rounding; no packet exceeds
/// them.
#[test]
fn rates_stay_and_delays_grow_by_what_the_device_holds() {
    for serve in ["phase-wise", "packet-wise"] {
        let text = LINKS.replace("SERVE", serve);
        let (alone, bounds) = simulated(&text.replace("PACE", ""));
        for packets in [1, 2, 8, 64] {
            let device = format!("paced-by = \"device\"\nbacklog = \"{packets}p\"");
            let (run, later) = simulated(&text.replace("PACE", &device));
            let holds = Span(packets * 121_120);
            for (f, (bound, later)) in bounds.iter().zip(later).enumerate() {
                assert!(
                    (*bound + holds).0.abs_diff(later.0) <= 2,
                    "{serve} {packets}: {bound} {later}"
                );
                let (flow, before) = (&run.pipes[0][f], &alone.pipes[0][f]);
                let slowest = flow.delay.max().expect("packets came");
                assert!(slowest <= later, "{serve} {packets}: {slowest} > {later}");
                let (sent, then) = (flow.counters.sent as f64, before.counters.sent as f64);
                assert!(
                    (sent / then - 1.0).abs() < 0.02,
                    "{serve} {packets}: {sent} and {then} of flow {f}"
                );
            }
        }
    }
}

/// Row 4 of the table of Fortuna and Chydzinski (2013), with phases of 3 ms: the device accepts the
/// whole queue of link B at once, and more packets arrive while it sends them. B's queue has not
/// run empty, and B keeps its phase.
#[test]
fn a_flow_whose_packets_keep_coming_keeps_its_turn() {
    let text = LINKS.replace("300us", "3ms").replace("200us", "3ms").replace("100B-1514B", "1514B");
    for serve in ["phase-wise", "packet-wise"] {
        let rate = |pace: &str| {
            let (run, _) = simulated(&text.replace("SERVE", serve).replace("PACE", pace));
            run.pipes[0].iter().map(|flow| flow.counters.sent as f64).collect::<Vec<_>>()
        };
        let (falaj, device) = (rate(""), rate("paced-by = \"device\"\nbacklog = \"25p\""));
        for (f, (falaj, device)) in falaj.iter().zip(&device).enumerate() {
            assert!(
                (device / falaj - 1.0).abs() < 0.03,
                "{serve}: {device} and {falaj} of flow {f}"
            );
        }
    }
}

/// On an idle link, pacing by the device makes no difference: delays end when the last bit leaves,
/// and not when packets are handed to the device.
#[test]
fn pacing_makes_no_difference_on_an_idle_link() {
    let text = "[link.l]\nrate = \"100mbit\"\nPACE\n[traffic.t]\nmodel = \"cbr\"\nrate = \"10mbit\"\nsize = \"1000B\"";
    let mean = |pace: &str| simulated(&text.replace("PACE", pace)).0.pipes[0][0].delay.mean_nanos();
    assert_eq!(mean("paced-by = \"device\"\nbacklog = \"20p\""), Some(80_000.0));
    assert_eq!(mean(""), Some(80_000.0));
}

/// A link behind a device-paced link receives packets when they leave the device, and not when they
/// are handed to it.
#[test]
fn what_follows_gets_packets_when_they_have_left() {
    let text = "[link.l]\nrate = \"10mbit\"\npaced-by = \"device\"\nbacklog = \"40p\"\n[link.m]\nrate = \"1gbit\"\n\
                [[rule]]\nto = [\"l\", \"m\"]\n[traffic.t]\nmodel = \"greedy\"\nsize = \"1000B\"\n\
                allowed = { rate = \"1mbit\", burst = \"30kB\" }\nheaders = \"udp\"";
    let (scenario, _) =
        falaj_scenario::parse(text, "x").unwrap_or_else(|why| panic!("{}", why.render(false)));
    let run = simulate(&experiment(&scenario, Span::from_millis(500)), 1, &AtomicBool::new(false))
        .expect("it is valid");
    // 30 packets arrive at once; the last one waits for the transmission of all 30: 24 ms, and 8 us
    // on the second link.
    let ways = falaj_plan::plan(&scenario).expect("accepted");
    let bound =
        Routes::of(&scenario, &ways).expect("routes").outlooks(None)[0].delay.expect("bounded");
    let slowest = run.ways[0].max().expect("packets came");
    assert!(slowest >= Span(19 * 800_000) && slowest <= Span(30 * 800_000 + 8_000), "{slowest}");
    assert!(slowest <= bound, "{slowest} > {bound}");
}
