//! Flows' rates whose sum is above the link's rate, in every discipline with rates. They are
//! refused, or accepted with a warning; then the guarantees that depend on the sum are void.

use falaj_scenario::Severity;
use falaj_sched::contract::params::Kind;
use falaj_sched::registry::ENTRIES;
use falaj_sched::scheduler::tree;

enum Sum {
    /// An error at the flow that exceeds the rest.
    Refused,
    /// A warning, and some flow has no guarantee.
    Taken,
    /// The sum does not matter: the rate is an upper limit, or proportional.
    NotOne,
}
use Sum::{NotOne, Refused, Taken};

/// Discipline, key of a flow, other keys that such a flow needs, and the treatment of a sum above
/// the link's rate.
const RATES: &[(&str, &str, &str, Sum)] = &[
    ("corr", "rate", "", Refused),
    ("drr+", "rate", "latency = \"low\"\nwindow = \"10ms\"", Refused),
    ("virtual-clock", "rate", "", Refused),
    ("sced", "rate", "", Refused),
    ("sced", "burst-rate", "burst-time = \"10ms\"\nrate = \"1mbit\"", Refused),
    ("arc", "rate", "", Refused),
    ("shaper", "rate", "", Taken),
    ("cbs", "idle-slope", "", Taken),
    ("ats", "rate", "", Taken),
    ("mclock", "reservation", "", Refused),
    ("mclock", "limit", "", NotOne),
    ("hfsc", "rate", "", Refused),
    ("hfsc", "burst-rate", "burst-time = \"10ms\"\nrate = \"1mbit\"", Refused),
    ("hfsc", "share", "", NotOne),
    ("hfsc", "share-burst", "share-time = \"10ms\"\nshare = \"1mbit\"", NotOne),
    ("hfsc", "limit", "", NotOne),
    ("hfsc", "limit-burst", "limit-time = \"10ms\"\nlimit = \"1mbit\"", NotOne),
    ("htb", "rate", "", Taken),
    ("htb", "ceil", "rate = \"1mbit\"", NotOne),
    ("xen-wrr", "min-rate", "", Refused),
];

fn scenario(kind: &str, key: &str, rate: &str, rest: &str) -> String {
    let flow = |name: &str, rule: &str| {
        format!(
            "[link.l.flow.{name}]\nmatch = \"{rule}\"\nqueue = \"9p\"\n{key} = \"{rate}\"\n{rest}\n"
        )
    };
    let link = format!("[link.l]\nrate = \"100mbit\"\nscheduler = {{ kind = \"{kind}\" }}\n");
    link + &flow("a", "udp") + &flow("b", "any")
}

#[test]
fn every_rate_of_every_discipline_is_here() {
    let known: Vec<(&str, &str)> = RATES.iter().map(|&(kind, key, ..)| (kind, key)).collect();
    // In `dcf`, the rate of a station is that of its radio.
    let others = ENTRIES.iter().filter(|e| e.kind != "dcf");
    let rates = others
        .flat_map(|e| e.flow.iter().filter(|p| p.kind == Kind::Rate).map(|p| (e.kind, p.name)));
    for rate in rates {
        assert!(known.contains(&rate), "{rate:?}: what becomes of its sum?");
    }
}

#[test]
fn a_sum_above_the_link_is_refused_or_reported_and_guarantees_nothing() {
    for (kind, key, rest, sum) in RATES {
        let what = format!("{kind}, {key}");
        let parsed = falaj_scenario::parse(&scenario(kind, key, "60mbit", rest), "a.toml");
        match (sum, parsed) {
            (Refused, Err(errors)) => {
                let [problem] = errors.problems() else { panic!("{what}: {errors}") };
                let said = errors.to_string();
                assert_eq!(problem.severity, Severity::Error, "{what}: {said}");
                // The message must contain the flow, the key, the amount, and the cure.
                assert!(problem.title.contains("flow `"), "{what}: {said}");
                assert!(said.contains("mbit") || said.contains(" B"), "{what}: {said}");
                assert!(!problem.help.is_empty(), "{what}: {said}");
            }
            (Taken, Ok((scenario, warnings))) => {
                let [problem] = warnings.problems() else { panic!("{what}: {warnings}") };
                let over =
                    format!("the flows' `{key}`s add up to 120mbit, more than the link's 100mbit");
                assert_eq!(
                    (problem.severity, &problem.title),
                    (Severity::Warning, &format!("flow `b`: {over}"))
                );
                let guarantees =
                    tree::guarantees(kind, &scenario.links[0].up.pipe.setup).expect("it was taken");
                let void = guarantees.iter().filter_map(|p| p.as_ref().err());
                assert!(
                    void.clone().any(|why| why.0.contains("add up to 120mbit")),
                    "{what}: {guarantees:?}"
                );
            }
            (NotOne, Ok((_, warnings))) => assert!(warnings.is_empty(), "{what}: {warnings}"),
            (_, Ok((_, warnings))) => panic!("{what} is taken: {warnings}"),
            (_, Err(errors)) => panic!("{what}: {errors}"),
        }
    }
}

#[test]
fn what_fits_is_neither() {
    for (kind, key, rest, _) in RATES {
        match falaj_scenario::parse(&scenario(kind, key, "49mbit", rest), "a.toml") {
            Ok((_, warnings)) => assert!(warnings.is_empty(), "{kind}, {key}: {warnings}"),
            Err(errors) => panic!("{kind}, {key}: {errors}"),
        }
    }
}

/// In a tree that one discipline serves, the leaves count. Parts that another discipline serves are
/// compared with the flow's own guarantee.
#[test]
fn below_a_flow_too() {
    let parts = |above: &str, rate: &str, below: &str| {
        format!(
            "[link.l]\nrate = \"100mbit\"\nscheduler = {{ kind = \"{above}\" }}\n\
             [link.l.flow.b]\nmatch = \"any\"\n{rate}\nscheduler = {{ kind = \"{below}\" }}\n\
             [link.l.flow.b.flow.c]\nmatch = \"udp\"\nrate = \"60mbit\"\n[link.l.flow.b.flow.d]\nmatch = \"any\"\nrate = \"60mbit\"\n"
        )
    };
    for text in [
        parts("htb", "rate = \"100mbit\"", "htb"),
        parts("drr", "", "htb"),
        parts("drr", "", "shaper"),
    ] {
        let (_, warnings) = falaj_scenario::parse(&text, "a.toml")
            .unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let [problem] = warnings.problems() else { panic!("{text}: {warnings}") };
        assert!(
            problem.title.starts_with("flow `d`: the flows' `rate`s add up to 120mbit"),
            "{text}: {warnings}"
        );
        assert_eq!(problem.line, text.lines().count(), "{text}: {warnings}");
    }
}

/// A warning reports traffic of a flow that certainly exceeds its envelope.
#[test]
fn traffic_beyond_its_envelope_is_said() {
    let told = |traffic: &str| {
        let text = format!(
            "[link.l]\nrate = \"10mbit\"\nlayer = \"l2\"\n[link.l.flow.a]\nmatch = \"any\"\n\
             envelope = {{ rate = \"1mbit\", burst = \"3000B\" }}\n[traffic.x]\nflow = \"a\"\n{traffic}\n"
        );
        let (_, warnings) = falaj_scenario::parse(&text, "a.toml")
            .unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let said: Vec<String> =
            warnings.problems().iter().map(|p| format!("{}: {}", p.title, p.label)).collect();
        said.join("\n")
    };
    let more = "flow `a`: its traffic exceeds its envelope";
    for (traffic, why) in [
        (
            "model = \"cbr\"\nrate = \"1001kbit\"\nsize = \"500B\"",
            "it sends 1.001mbit in the long run, and the envelope allows 1mbit",
        ),
        (
            "model = \"poisson\"\nrate = \"2mbit\"\nsize = \"500B\"",
            "it sends 2mbit in the long run, and the envelope allows 1mbit",
        ),
        (
            "model = \"cbr\"\nrate = \"600kbit\"\nsize = \"500B\"\n[traffic.y]\nflow = \"a\"\nmodel = \"cbr\"\nrate = \"600kbit\"\nsize = \"500B\"",
            "2 sources send 1.2mbit in the long run, and the envelope allows 1mbit",
        ),
        (
            "model = \"on-off\"\nrate = \"4mbit\"\nsize = \"500B\"\non = \"10ms\"\noff = \"90ms\"",
            "a burst of mean length brings 4250 B at once, and the envelope allows 3000 B",
        ),
        (
            "model = \"greedy\"\nsize = \"500B\"\nallowed = { rate = \"1mbit\", burst = \"3500B\" }",
            "it brings 3500 B at once, and the envelope allows 3000 B",
        ),
    ] {
        assert_eq!(told(traffic), format!("{more}: {why}"), "{traffic}");
    }
    for traffic in [
        "model = \"cbr\"\nrate = \"1mbit\"\nsize = \"500B\"",
        "model = \"poisson\"\nrate = \"900kbit\"\nsize = \"500B\"",
        "model = \"on-off\"\nrate = \"2mbit\"\nsize = \"500B\"\non = \"10ms\"\noff = \"90ms\"",
        "model = \"greedy\"\nsize = \"500B\"\nallowed = { rate = \"1mbit\", burst = \"3000B\" }",
        "model = \"cbr\"\nrate = \"5mbit\"\nsize = \"500B\"\nshaped = { rate = \"1mbit\", burst = \"2000B\" }",
    ] {
        assert_eq!(told(traffic), "", "{traffic}");
    }
}
