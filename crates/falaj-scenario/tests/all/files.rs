//! Valid files, and the scenarios read from them.

use falaj_engine::classifier::Match;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::framing::{Cells, Framing};
use falaj_engine::header::Protocol;
use falaj_engine::impair::corrupt::Corruption;
use falaj_engine::impair::distribution::Distribution;
use falaj_engine::impair::duplicate::Duplication;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::jitter::Jitter;
use falaj_engine::impair::loss::{GilbertElliott, Loss};
use falaj_engine::impair::reorder::Reorder;
use falaj_engine::impair::slots::Slots;
use falaj_engine::pipe::Pace;
use falaj_scenario::{
    Bucket, Diagnostics, PRESETS, Scenario, Towards, default_queue, parse, parse_rate, parse_span,
};
use falaj_sched::contract::params::Value;
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry;
use falaj_sched::units::capacity::{Capacity, Opportunities, Steps};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, PeriodLaw};
use std::sync::Arc;

fn read(text: &str) -> (Scenario, Diagnostics) {
    parse(text, "a.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

const WHOLE: &str = include_str!("../whole.toml");

#[test]
fn a_whole_file() {
    let (scenario, warnings) = read(WHOLE);
    assert!(warnings.is_empty(), "{warnings}");
    assert_eq!(scenario.links.len(), 1);
    assert_eq!(
        (scenario.run.duration, scenario.run.seed, scenario.run.replications),
        (Span::from_secs(60), 7, 16)
    );
    let link = &scenario.links[scenario.link("uplink").expect("the link")];

    let up = &link.up;
    assert_eq!(
        (up.pipe.setup.rate, up.pipe.delay, up.mtu, up.layer),
        (Rate::from_mbit(1000), Span::from_millis(2), 1500, CountedLayer::L2)
    );
    assert_eq!((up.scheduler().kind, up.pipe.setup.largest), ("virtual-links", 1514));
    assert_eq!(up.pipe.setup.scheduler.choice("serve"), Some("packet-wise"));
    assert_eq!(up.pipe.setup.scheduler.choice("tail"), Some("skip"));
    assert_eq!(up.pipe.setup.scheduler.choice("preset"), Some("clean"), "a default is filled in");
    let names: Vec<_> = up.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["voice", "bulk"], "the order is the file's");
    assert_eq!(
        up.flows[0].matches,
        [Match { protocol: Some(Protocol::UDP), dport: Some((5004, 5004)), ..Match::ANY }]
    );
    assert_eq!(up.flows[0].requires.rate, Some(Rate::from_mbit(50)));
    assert_eq!(up.flows[0].requires.delay, Some(Span::from_millis(1)));
    let bucket = |mbit, burst| Bucket { rate: Rate::from_mbit(mbit), burst };
    assert_eq!(up.flows[0].envelope, [bucket(60, 3_000), bucket(50, 20_000)]);
    assert_eq!(up.flows[1].envelope, []);
    assert_eq!(up.pipe.setup.flows[0].limit, Limit::Packets(20));
    assert_eq!(up.pipe.setup.flows[0].values.span("phase"), Some(Span::from_micros(30)));
    assert_eq!(up.pipe.setup.flows[1].values.choice("kind"), Some("B"));

    // The direction has its own rate and scheduler. The flows are shared, but keys of the
    // discipline of `up` are left out.
    let down = &link.down;
    assert_eq!(
        (down.pipe.setup.rate, down.pipe.delay, down.scheduler().kind),
        (Rate::from_mbit(2000), Span::from_millis(2), "fifo")
    );
    assert_eq!(down.flows, up.flows);
    assert_eq!(down.pipe.setup.flows[0].values.iter().count(), 0);
    assert_eq!(down.pipe.setup.scheduler.get("queue"), Some(Value::Limit(Limit::Bytes(64_000))));

    assert!(up.pipe.impairments.is_none());
    let framing = Framing { overhead: -14, cells: Cells::Ptm, largest: 1514 };
    assert_eq!((up.pipe.framing, down.pipe.framing), (None, Some(framing)));
    assert_eq!((down.pipe.setup.largest, down.cost(500)), (1524, 494));
    assert_eq!(
        (&up.pipe.capacity, &down.pipe.capacity),
        (&Capacity::Serialise, &Capacity::TokenBucket(15_000))
    );
    let on_the_link = &down.pipe.impairments;
    let p = |of: u64| Probability::of(of, 10_000);
    let [to_bad, to_good, loss_bad] = [p(50), p(3000), p(8000)];
    let loss = GilbertElliott { to_bad, to_good, loss_bad, loss_good: Probability::NEVER };
    assert_eq!(on_the_link.loss, Some(Loss::GilbertElliott(loss)));
    assert_eq!(on_the_link.duplicate, Some(Duplication(RandomEvent::independent(p(10)))));
    assert_eq!(
        on_the_link.corrupt,
        Some(Corruption(RandomEvent { probability: p(5), correlation: p(1000) }))
    );
    assert_eq!(
        on_the_link.reorder,
        Some(Reorder { event: RandomEvent::independent(p(2500)), gap: 5 })
    );
    let jitter = Jitter {
        amount: Span::from_micros(400),
        distribution: Distribution::Normal,
        correlation: p(2500),
        keeps_order: false,
    };
    assert_eq!(on_the_link.jitter, Some(jitter));
    let (least, most) = (Span::from_millis(5), Span::from_millis(8));
    assert_eq!(on_the_link.slots, Some(Slots { least, most, packets: 32, bytes: u64::MAX }));
    assert_eq!((up.pipe.seed, down.pipe.seed), (7, 7));

    let [voice, bulk] = scenario.traffic.as_slice() else { panic!("two sources") };
    assert_eq!(
        (voice.link, voice.flow, voice.towards, voice.model.clone()),
        (0, 0, Towards::Up, Model::Poisson)
    );
    assert_eq!(
        (voice.rate, voice.sizes.clone(), voice.start, voice.stop),
        (Rate::from_mbit(50), Sizes::Fixed(500), Time::ZERO, None)
    );
    assert_eq!((bulk.flow, bulk.towards), (1, Towards::Down));
    let law = PeriodLaw::Exponential;
    assert_eq!(
        bulk.model,
        Model::OnOff { on: Span::from_millis(10), off: Span::from_millis(90), law }
    );
    assert_eq!((bulk.start, bulk.stop), (Time(1_000_000_000), Some(Time(2_500_000_000))));
}

#[test]
fn the_least_that_will_do() {
    let (scenario, warnings) = read("[link.a]\nrate = \"unlimited\"\n");
    assert!(warnings.is_empty(), "{warnings}");
    let link = &scenario.links[0];
    for direction in [&link.up, &link.down] {
        assert_eq!(
            (direction.scheduler().kind, direction.pipe.delay, direction.mtu),
            ("fifo", Span::ZERO, 1500)
        );
        assert!(direction.pipe.setup.rate.is_unlimited());
        assert_eq!((direction.flows.len(), direction.flows[0].name.as_str()), (1, "all"));
        assert_eq!(direction.flows[0].matches, [Match::ANY]);
        assert_eq!(direction.pipe.setup.flows[0].limit, Limit::Packets(1000));
    }
    assert_eq!(
        (scenario.run.duration, scenario.run.seed, scenario.run.replications),
        (Span::from_secs(10), 1, 8)
    );
}

#[test]
fn a_link_of_the_command_line_is_the_least_file() {
    let rate = parse_rate("10mbit").expect("a rate");
    let delay = parse_span("40ms").expect("a delay");
    let queue = default_queue(rate, delay, 1514);
    let simple = Scenario::simple(rate, delay, queue, 1500);
    let (read, _) = read("[link.link]\nrate = \"10mbit\"\ndelay = \"40ms\"\n");
    assert_eq!(format!("{simple:?}"), format!("{read:?}"));
}

/// The default queue holds the bytes of a round trip, or of 50 ms if that is longer, and at least
/// two packets. An AQM does not change the default.
#[test]
fn a_queue_without_a_limit() {
    let limit = |keys: &str| {
        let text = format!("[link.a]\n{keys}\n[link.a.flow.x]\nmatch = \"any\"\n");
        let queues = ["", "queue = { policy = \"codel\" }\n"].map(|queue| {
            let (scenario, _) = read(&format!("{text}{queue}"));
            scenario.links[0].up.pipe.setup.flows[0].limit
        });
        assert_eq!(queues[0], queues[1]);
        queues[0]
    };
    for (keys, bytes) in [
        ("rate = \"8mbit\"", 50_000),
        ("rate = \"8mbit\"\ndelay = \"10ms\"", 50_000),
        ("rate = \"8mbit\"\ndelay = \"100ms\"", 200_000),
        ("rate = \"64kbit\"", 2 * 1514),
        ("rate = \"64kbit\"\nmtu = \"576B\"", 2 * 590),
        ("rate = \"64kbit\"\nmtu = \"9000B\"\nlayer = \"ip\"", 2 * 9000),
        ("rate = \"400gbit\"\ndelay = \"1s\"", u64::from(u32::MAX)),
    ] {
        assert_eq!(limit(keys), Limit::Bytes(bytes), "{keys}");
    }
}

#[test]
fn a_profile_may_say_the_rate() {
    let (scenario, _) = read(
        "[link.a]\nprofile = \"tests/wifi.profile\"\n[link.b]\nrate = \"1mbit\"\nprofile = { file = \"tests/wifi.profile\", holds-link = \"no\" }",
    );
    let of = |n: usize| {
        let d = &scenario.links[n].up;
        let profile = d.pipe.impairments.profile.as_ref().expect("a profile");
        (d.pipe.setup.rate, profile.most(), profile.occupies)
    };
    assert_eq!(of(0), (Rate::from_mbit(11), Span::from_millis(20), true));
    assert_eq!(of(1), (Rate::from_mbit(1), Span::from_millis(20), false));
}

#[test]
fn presets_are_links() {
    for preset in PRESETS {
        let (scenario, _) = read(&format!("[link.a]\npreset = \"{}\"", preset.name));
        let link = &scenario.links[0];
        assert!(
            link.up.pipe.delay == link.down.pipe.delay
                && link.up.pipe.setup.rate <= link.down.pipe.setup.rate,
            "{}",
            preset.name
        );
        // A link with the preset equals a link with the preset's keys.
        let (keys, _) = read(&format!("[link.a]\n{}", preset.keys));
        assert_eq!(format!("{:?}", keys.links), format!("{:?}", scenario.links));
        assert!(falaj_scenario::presets().contains(preset.source));
    }
    // Explicit values take precedence over a preset. A direction's own preset takes precedence over
    // the link's values for both directions.
    let (scenario, _) = read(
        r#"
        [link.a]
        preset = "cable"
        delay = "30ms"
        [link.a.up]
        preset = "lte"
        [link.a.down]
        rate = "7mbit"
        "#,
    );
    let link = &scenario.links[0];
    assert_eq!(
        (link.up.pipe.setup.rate, link.up.pipe.delay),
        (Rate::from_mbit(12), Span::from_millis(35))
    );
    assert_eq!(
        (link.down.pipe.setup.rate, link.down.pipe.delay),
        (Rate::from_mbit(7), Span::from_millis(30))
    );
}

#[test]
fn the_rate_may_follow_a_trace() {
    let text = r#"
        [link.a.up]
        trace = "tests/lte.trace"
        [link.a.down]
        trace = { file = "tests/train.csv", repeat = "20s" }
        [link.b]
        rate = "1mbit"
        down = { trace = "tests/lte.trace", layer = "ip" }
    "#;
    let (scenario, _) = read(text);
    let [a, b] = &scenario.links[..] else { panic!("two links") };
    let at = [0, 1, 1, 3, 8].map(|ms| Time(ms * 1_000_000)).to_vec();
    let opportunities = |bytes| {
        Capacity::Opportunities(Arc::new(
            Opportunities::new(at.clone(), Span::from_millis(8), bytes).unwrap(),
        ))
    };
    assert_eq!(
        (&a.up.pipe.capacity, &b.down.pipe.capacity),
        (&opportunities(1514), &opportunities(1500))
    );
    assert_eq!(
        (a.up.pipe.setup.rate, b.up.pipe.setup.rate),
        (Rate(1514 * 8 * 5 * 1000 / 8), Rate::from_mbit(1))
    );
    let steps = [(0, 20), (10_000, 5), (12_500, 0)]
        .map(|(ms, mbit)| (Time(ms * 1_000_000), Rate::from_mbit(mbit)));
    let steps = Steps::new(steps.to_vec(), Some(Span::from_secs(20))).unwrap();
    assert_eq!(a.down.pipe.setup.rate, Rate((200_000_000 + 12_500_000) / 20));
    assert_eq!(a.down.pipe.capacity, Capacity::Steps(Arc::new(steps)));
}

#[test]
fn a_burst_may_have_a_peak_rate() {
    let text = r#"
        [link.a]
        rate = "8mbit"
        burst = "10kB"
        peak = { rate = "16mbit", burst = "1600B" }
        [link.a.down]
        rate = "4mbit"
        overhead = "8B"
        peak = "6mbit"
    "#;
    let (scenario, warnings) = read(text);
    assert!(warnings.is_empty(), "{warnings}");
    let [a] = &scenario.links[..] else { panic!("one link") };
    let buckets = |burst, mbit, peak_burst| {
        let peak = Rate::from_mbit(mbit);
        Capacity::TwoBuckets { burst, peak, peak_burst }
    };
    assert_eq!(
        (&a.up.pipe.capacity, &a.down.pipe.capacity),
        (&buckets(10_000, 16, 1_600), &buckets(10_000, 6, 1_522))
    );
}

#[test]
fn a_direction_may_stand_for_itself() {
    let (scenario, _) = read(
        r#"
        [link.a.up]
        rate = "1mbit"
        layer = "l1"
        scheduler = { kind = "drr" }
        [link.a.up.flow.x]
        match = "tcp"
        [link.a.up.flow.y]
        match = ["udp", "any"]
        quantum = "3kB"
        [link.a.down]
        rate = "2mbit"
        mtu = "9kB"
        [traffic.x]
        direction = "down"
        model = "cbr"
        rate = "1mbit"
        size = "9014B"
        "#,
    );
    let link = &scenario.links[0];
    assert_eq!((link.up.pipe.setup.largest, link.down.pipe.setup.largest), (1538, 9014));
    assert_eq!((link.up.flows.len(), link.down.flows.len()), (2, 1));
    assert_eq!(
        link.up.pipe.setup.flows[0].values.bytes("quantum"),
        None,
        "a default in words is left to the discipline"
    );
    assert_eq!(link.up.pipe.setup.flows[1].values.bytes("quantum"), Some(3000));
    assert_eq!(link.up.flows[1].matches.len(), 2);
    assert_eq!((scenario.traffic[0].flow, &scenario.traffic[0].sizes), (0, &Sizes::Fixed(9014)));
}

#[test]
fn endings_of_other_systems_change_nothing() {
    let (unix, _) = read(WHOLE);
    for text in [WHOLE.replace('\n', "\r\n"), format!("\u{feff}{WHOLE}")] {
        assert_eq!(format!("{unix:?}"), format!("{:?}", read(&text).0));
    }
    let errors = parse("\u{feff}[link.a]\r\nrate = \"x\"\r\n", "a.toml").expect_err("no rate");
    assert_eq!((errors.problems()[0].line, errors.problems()[0].column), (2, 8));
}

/// A flow within a flow takes the packets that the matches of both flows select, and has its own
/// share.
#[test]
fn a_divided_flow_is_known_by_its_parts() {
    let text = r#"
[link.up]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
[link.up.flow.a]
match = ["udp dport 5000-5999", "tcp"]
kind = "A"
phase = "1ms"
scheduler = { kind = "drr" }
[link.up.flow.a.flow.calls]
match = "udp dport 5900-6100"
[link.up.flow.a.flow.rest]
match = "any"
queue = "7p"
[link.up.flow.b]
match = "any"
kind = "A"
phase = "1ms"
[traffic.calls]
flow = "a/calls"
model = "cbr"
rate = "1mbit"
size = "500B"
"#;
    let (scenario, _) = falaj_scenario::parse(text, "a.toml").unwrap_or_else(|e| panic!("{e}"));
    let up = &scenario.links[0].up;
    let names: Vec<&str> = up.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["a/calls", "a/rest", "b"]);
    assert_eq!(up.flows[0].matches, falaj_scenario::parse_match("udp dport 5900-5999").unwrap());
    assert_eq!(up.flows[1].matches.len(), 2);
    assert_eq!(up.pipe.setup.leaves().len(), 3);
    assert_eq!(up.pipe.setup.leaves()[1].limit, falaj_sched::queues::queue::Limit::Packets(7));
    assert_eq!(scenario.traffic[0].flow, 0);
}

/// If a class is divided by the same kind of discipline that serves it, its parts belong to the
/// same tree in the setup. If another kind divides it, the setup nests that discipline.
#[test]
fn flows_are_divided_at_any_level() {
    let text = r#"
[link.up]
rate = "100mbit"
scheduler = { kind = "htb" }
[link.up.flow.a]
match = "tcp"
rate = "60mbit"
scheduler = { kind = "htb" }
[link.up.flow.a.flow.b]
match = "dport 80"
rate = "20mbit"
ceil = "50mbit"
scheduler = { kind = "htb" }
[link.up.flow.a.flow.b.flow.c]
match = "src 10.0.0.1"
rate = "15mbit"
prio = 1
[link.up.flow.a.flow.b.flow.d]
match = "any"
rate = "5mbit"
[link.up.flow.a.flow.e]
match = "any"
rate = "40mbit"
scheduler = { kind = "drr" }
[link.up.flow.a.flow.e.flow.f]
match = "any"
[link.up.flow.g]
match = "any"
rate = "40mbit"
"#;
    let (scenario, _) = falaj_scenario::parse(text, "a.toml").unwrap_or_else(|e| panic!("{e}"));
    let up = &scenario.links[0].up;
    let names: Vec<&str> = up.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["a/b/c", "a/b/d", "a/e/f", "g"]);
    assert_eq!(
        up.flows[0].matches,
        falaj_scenario::parse_match("tcp dport 80 src 10.0.0.1").unwrap()
    );
    let a = up.pipe.setup.flows[0].inner.as_ref().expect("it is divided");
    let b = a.setup.flows[0].inner.as_ref().expect("it is divided");
    assert_eq!((a.kind, b.kind, b.setup.flows[0].values.count("prio")), ("htb", "htb", Some(1)));
    assert_eq!(
        b.setup.flows[0].values.rate("rate"),
        Some(falaj_sched::units::rate::Rate::from_mbit(15))
    );
    // The discipline sees its leaves. Another discipline divides one of them.
    let joined = registry::joined("htb", &up.pipe.setup);
    let inner: Vec<Option<&str>> =
        joined.flows.iter().map(|f| f.inner.as_ref().map(|inner| inner.kind)).collect();
    assert_eq!(inner, [None, None, Some("drr"), None]);
}

/// Flows may have only a link-sharing curve, and classes may have no curve at all.
#[test]
fn curves_may_be_left_out() {
    let text = r#"
[link.up]
rate = "100mbit"
scheduler = { kind = "hfsc" }
[link.up.flow.a]
match = "tcp"
scheduler = { kind = "hfsc" }
[link.up.flow.a.flow.b]
match = "dport 80"
rate = "10mbit"
[link.up.flow.a.flow.c]
match = "any"
share = "30mbit"
[link.up.flow.d]
match = "any"
"#;
    let (scenario, _) = falaj_scenario::parse(text, "a.toml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(registry::joined("hfsc", &scenario.links[0].up.pipe.setup).flows.len(), 3);
}

#[test]
fn the_pacing_of_a_link_and_the_backlog_of_its_device() {
    let pace = |rest: &str| {
        let (scenario, warnings) = read(&format!("[link.a]\nrate = \"100mbit\"\n{rest}"));
        assert!(warnings.is_empty(), "{warnings}");
        [&scenario.links[0].up, &scenario.links[0].down]
            .map(|direction| direction.pipe.clone().pace)
    };
    let device = |backlog| [Pace::Device { backlog }; 2];
    assert_eq!(pace(""), [Pace::Falaj; 2]);
    // The default backlog is the bytes of one millisecond, or two packets if that is more.
    assert_eq!(pace("paced-by = \"device\""), device(12_500));
    assert_eq!(
        pace("paced-by = \"device\"\nup.rate = \"1mbit\""),
        [Pace::Device { backlog: 3028 }, device(12_500)[0]]
    );
    assert_eq!(pace("paced-by = \"device\"\nbacklog = \"20p\""), device(30_280));
    assert_eq!(pace("paced-by = \"device\"\nbacklog = \"1p\"\noverhead = \"4B\""), device(1_518));
    assert_eq!(
        pace("up.paced-by = \"device\"\nup.backlog = \"64kB\""),
        [Pace::Device { backlog: 64_000 }, Pace::Falaj]
    );
}
