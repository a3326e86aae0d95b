//! Setups that disciplines refuse: each error has the words that a user reads, and its place in the
//! file.

use falaj_sched::disciplines::dcf::{Channel, RATES};
use falaj_sched::units::counted_layer::CountedLayer;
use falaj_sched::units::time::Span;

/// A link of 10 Mbit/s with two flows.
fn text(scheduler: &str, flow: &str) -> String {
    format!(
        "[link.a]\nrate = \"10mbit\"\nscheduler = {{ {scheduler} }}\n[link.a.flow.x]\nmatch = \"udp\"\n{flow}\n\
         [link.a.flow.y]\nmatch = \"any\"\n{flow}\n"
    )
}

#[test]
fn what_cannot_be_is_refused_with_its_reason_and_a_way_out() {
    let mut otherwise = Vec::new();
    for (scheduler, flow, what, help) in [
        (
            r#"kind = "hrr", frame = 2"#,
            "slots = 2",
            "2 slots are more than the 0 that are left",
            "a longer `frame` than 2",
        ),
        (
            r#"kind = "dcf", basic-rate = "3mbit""#,
            "",
            "802.11b has no rate of 3mbit",
            "1mbit, 2mbit, 5.5mbit or 11mbit",
        ),
        (r#"kind = "dcf", header = "5000B""#, "", "a header of 5000 B is too large", "up to 4096B"),
        (
            r#"kind = "dcf", cw-min = 63, cw-max = 31"#,
            "",
            "31 is below `cw-min`, 63",
            "`cw-min` or more",
        ),
        (
            r#"kind = "dcf""#,
            "rate = \"3mbit\"",
            "802.11b has no rate of 3mbit",
            "no more than the link's",
        ),
        (
            r#"kind = "tas", cycle = "2ms""#,
            "opens = \"1.5ms\"\nopen = \"1.5ms\"",
            "the gate closes at 3ms, after the cycle of 2ms",
            "shift `opens`",
        ),
        (
            r#"kind = "tas", cycle = "10ms""#,
            "open = \"100us\"",
            "a packet of 1514 B does not fit into 100us",
            "at least ",
        ),
        (
            r#"kind = "arc""#,
            "rate = \"1mbit\"\nperiod = \"1us\"",
            "a period of 1us is out of range",
            "the time of a packet of 1514 B at 1mbit",
        ),
        (
            r#"kind = "netback""#,
            "credit = \"100B\"",
            "a packet of 1514 B would never be sent with that credit",
            "at least `1514B`, or leave it out",
        ),
        (
            r#"kind = "rcsp""#,
            "priority = 0\nmin-gap = \"1us\"\ninterval = \"1s\"",
            "in 1s there are 1000000 packets at a mean gap of 1us",
            "from one to 4096 times",
        ),
        (
            r#"kind = "hfsc""#,
            "rate = \"1mbit\"\nburst-rate = \"2mbit\"\nburst-time = \"2h\"",
            "it lasts too long",
            "at most 3600s",
        ),
        (
            r#"kind = "dualpi2", interval = "100ns""#,
            "",
            "100ns is not a round trip",
            "at least 1us",
        ),
        (
            r#"kind = "drr""#,
            "queue = { policy = \"red\", min = \"5p\", max = \"15kB\" }",
            "5p and 15000B are counted differently",
            "both in packets, or both in bytes",
        ),
        (
            r#"kind = "drr""#,
            "queue = { policy = \"red\", min = \"15p\", max = \"5p\" }",
            "from 15p to 5p is not a range",
            "`max` is above `min`",
        ),
        (
            r#"kind = "drr""#,
            "queue = { policy = \"red\", limit = \"10p\" }",
            "a queue of 10p never gets as long as 15p",
            "a longer `limit`",
        ),
    ] {
        let text = text(scheduler, flow);
        let said = match falaj_scenario::parse(&text, "a.toml") {
            Ok(_) => "nothing".to_owned(),
            Err(errors) => errors.to_string(),
        };
        if !(said.contains(what) && said.contains(help)) {
            otherwise.push(format!("not `{what}` and `{help}`, but {said}"));
        }
    }
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
    // Neither the scheduler nor a flow sets a rate here, so the error concerns the link's rate.
    let slow = text(r#"kind = "dcf""#, "").replace("10mbit", "500kbit");
    let said = falaj_scenario::parse(&slow, "a.toml").expect_err("no such rate").to_string();
    assert!(
        said.contains("802.11b has no rate as low as 500kbit") && said.contains("at least 1mbit"),
        "{said}"
    );
}

/// The air time of a packet depends on its IP length, and not on the layer at which the link
/// counts.
#[test]
fn a_station_sends_an_ip_packet_in_the_same_time_at_every_layer() {
    let layers = [CountedLayer::Payload, CountedLayer::Ip, CountedLayer::L2, CountedLayer::L1];
    for header in ["", ", header = \"40B\""] {
        let frames = layers.map(|layer| {
            let text = format!(
                "[link.a]\nrate = \"11mbit\"\nlayer = \"{}\"\n\
                 scheduler = {{ kind = \"dcf\"{header} }}\n",
                layer.name()
            );
            let scenario = falaj_scenario::parse(&text, "stations.toml").expect("no errors").0;
            let channel = Channel::new(&scenario.links[0].up.pipe.setup).expect("a channel");
            let frame = |ip: u32| channel.frame(RATES[3], layer.from_ip(ip));
            // Layer 1 counts IP packets shorter than 46 bytes as 46 bytes.
            let least = if layer == CountedLayer::L1 { 46 } else { 28 };
            (28..=1500).map(|ip| frame(ip.max(least))).collect::<Vec<_>>()
        });
        let bytes = if header.is_empty() { 36 } else { 40 };
        let expected = |ip: u32| Span::from_micros(192) + RATES[3].airtime(ip + bytes);
        for (layer, frames) in layers.iter().zip(&frames) {
            let least = if *layer == CountedLayer::L1 { 46 } else { 28 };
            let all: Vec<_> = (28..=1500_u32).map(|ip| expected(ip.max(least))).collect();
            assert_eq!(*frames, all, "{layer:?}");
        }
    }
}
