//! Guarantees that `plan` gives or withholds, and their conditions. In a simulation of each of
//! these scenarios a guarantee of an earlier version was broken.

use falaj_plan::bounds::Outlook;
use falaj_plan::{json, plan};

fn planned<T>(text: &str, see: impl Fn(&[Outlook], &serde_json::Value) -> T) -> T {
    let (scenario, _) = falaj_scenario::parse(text, "a.toml").expect("valid");
    let ways = plan(&scenario).expect("accepted");
    see(&ways[0].flows, &json::all(&scenario, &ways, None, None)["directions"][0]["flows"])
}

fn three(kind: &str, b: &str) -> String {
    format!(
        "[link.l]\nrate = \"10mbit\"\nscheduler = {{ kind = \"{kind}\" }}\n\
         [link.l.flow.a]\nmatch = \"udp dport 1\"\nweight = 98\nqueue = \"10p\"\n\
         [link.l.flow.b]\nmatch = \"udp dport 2\"\nqueue = {b}\n\
         [link.l.flow.c]\nmatch = \"any\"\n"
    )
}

/// The fluid server that runs beside the link also counts packets that a neighbour's policy drops
/// later.
#[test]
fn a_policy_that_drops_later_voids_what_a_fluid_server_guarantees_to_all() {
    let guaranteed = |kind: &str, b: &str| {
        planned(&three(kind, b), |flows, _| {
            flows.iter().map(|f| f.guarantee.is_ok()).collect::<Vec<_>>()
        })
    };
    for kind in ["wfq", "wf2q"] {
        assert_eq!(guaranteed(kind, "{ limit = \"3p\", policy = \"head\" }"), [false; 3], "{kind}");
        assert_eq!(
            guaranteed(kind, "{ limit = \"9p\", policy = \"codel\" }"),
            [false; 3],
            "{kind}"
        );
        assert_eq!(guaranteed(kind, "{ limit = \"9p\", policy = \"pie\" }"), [true; 3], "{kind}");
        assert_eq!(guaranteed(kind, "\"3p\""), [true; 3], "{kind}");
    }
    assert_eq!(guaranteed("ffs", "{ limit = \"3p\", policy = \"head\" }"), [true, false, true]);
    for kind in ["spfq", "wf2q+"] {
        assert_eq!(guaranteed(kind, "{ limit = \"3p\", policy = \"head\" }"), [true; 3], "{kind}");
    }
}

/// With stamps computed at arrival, the clock may pass the latest stamp of a short queue that still
/// has packets. The flow then loses the service until its next packet arrives.
#[test]
fn a_rate_on_a_condition_is_told_with_it() {
    let condition =
        |kind| planned(&three(kind, "\"3p\""), |_, json| json[0]["rate_condition"].clone());
    for kind in ["wfq", "wf2q", "spfq"] {
        assert!(condition(kind).as_str().is_some_and(|words| words.contains("2 L")), "{kind}");
    }
    assert_eq!(condition("wf2q+"), "once it has no service in advance");
    assert!(condition("scfq").is_null());
}

fn kept(kind: &str, keys: &str, envelope: &str) -> String {
    format!(
        "[link.l]\nrate = \"10mbit\"\nscheduler = {{ kind = \"{kind}\" }}\n\
         [link.l.flow.v]\nmatch = \"udp dport 1\"\nqueue = \"20p\"\n{keys}\n{envelope}\n\
         [link.l.flow.b]\nmatch = \"any\"\nrate = \"5mbit\"\n"
    )
}

/// By hand: 3000 B at 2 Mbit/s take 12 ms, and a packet of the other flows 1.2112 ms. Adaptive rate
/// control adds a packet at the flow's own rate, a period, and a slice and a packet of each flow.
#[test]
fn a_flow_within_its_envelope_has_a_delay_bound_where_others_have_none() {
    let envelope = "envelope = { rate = \"1mbit\", burst = \"3000B\" }";
    let delay = |kind, rate, envelope| {
        planned(&kept(kind, rate, envelope), |flows, json| {
            assert!(flows[0].guarantee.is_err() && flows[1].best().is_none(), "{kind}");
            assert!(
                json[0]["none"].is_string() && json[1]["deadlines"]["rate"] == 5_000_000,
                "{kind}"
            );
            flows[0].assured.as_ref().map(|delay| delay.delay.0)
        })
    };
    assert_eq!(delay("virtual-clock", "rate = \"2mbit\"", envelope), Some(13_211_202));
    assert_eq!(delay("sced", "rate = \"2mbit\"", envelope), Some(13_211_203));
    let packets = 2 * 6_056_000 + 5 * 1_211_200;
    assert_eq!(delay("arc", "rate = \"2mbit\"", envelope), Some(12_000_000 + packets + 2));
    let faster = "envelope = { rate = \"3mbit\", burst = \"3000B\" }";
    assert_eq!(delay("virtual-clock", "rate = \"2mbit\"", faster), None, "more than its rate");
    assert_eq!(delay("virtual-clock", "rate = \"2mbit\"", ""), None, "nothing is known");
}

/// On the curve's first slope 1514 B at 4 Mbit/s take 3.028 ms; a packet of the other flows takes
/// 1.2112 ms.
#[test]
fn a_curve_that_begins_fast_gives_a_short_delay() {
    let keys = "rate = \"64kbit\"\nburst-rate = \"4mbit\"\nburst-time = \"10ms\"";
    let envelope = "envelope = { rate = \"64kbit\", burst = \"1514B\" }";
    for (kind, nanos) in [("hfsc", 4_239_203), ("sced", 4_239_203)] {
        let delay =
            planned(&kept(kind, keys, envelope), |flows, _| flows[0].best().map(|d| d.delay.0));
        assert_eq!(delay, Some(nanos), "{kind}");
    }
}

/// After a drop within a queue, a shorter packet may be served before packets of other flows, whose
/// deadlines did not account for that.
#[test]
fn no_curve_is_guaranteed_beside_policies_that_drop_later() {
    let envelope = "envelope = { rate = \"1mbit\", burst = \"3000B\" }";
    let text = kept("virtual-clock", "rate = \"2mbit\"", envelope)
        + "queue = { limit = \"9p\", policy = \"head\" }\n";
    assert!(planned(&text, |flows, _| flows[0].best().is_none()));
}
