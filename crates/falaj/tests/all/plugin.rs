//! Tests a discipline in a shared library, from the command line.

use crate::common::{falaj, file, flow};
use crate::libraries::{drr, naughty};
use serde_json::json;

/// Returns a scenario with this scheduler and two flows that send more than the link carries.
fn scenario(scheduler: &str, of_a: &str) -> String {
    format!(
        "[link.uplink]\nrate = \"10mbit\"\nscheduler = {scheduler}\n\n\
         [link.uplink.flow.a]\nmatch = \"udp dport 1\"\n{of_a}\n\n[link.uplink.flow.b]\nmatch = \"any\"\n\n\
         [traffic.one]\nflow = \"a\"\nmodel = \"poisson\"\nrate = \"9mbit\"\nsize = \"1000B\"\n\n\
         [traffic.two]\nflow = \"b\"\nmodel = \"poisson\"\nrate = \"9mbit\"\nsize = \"300B\"\n\n\
         [run]\nduration = \"200ms\"\nreplications = 2\n"
    )
}

#[test]
fn a_library_is_simulated_planned_and_measured_as_its_built_in_twin() {
    drr("libtwin.so");
    let with = "{ kind = \"plugin\", library = \"./libtwin.so\" }";
    let mine = file("plugin-twin.toml", &scenario(with, "with = { quantum = \"4000B\" }"));
    let ours = file("plugin-ours.toml", &scenario("{ kind = \"drr\" }", "quantum = \"4000B\""));
    let sim = |file| falaj(&["sim", file, "--json"]);
    let (theirs, built_in) = (sim(mine), sim(ours));
    assert_eq!((theirs.status, theirs.err.as_str()), (Some(0), ""));
    assert_eq!(theirs.out, built_in.out, "packet by packet");
    assert_eq!(theirs.json()["breaches"], json!([]));
    let plan = falaj(&["plan", mine]);
    assert!(plan.out.contains("the plug-in `./libtwin.so` declares no guarantee"), "{plan:?}");
    // A parameter of the library's discipline is set like any other value.
    let planned = falaj(&["plan", mine, "--what-if", "a.with.quantum=10B"]);
    assert!(
        planned.err.contains("flow `a`: `./libtwin.so`: the `quantum` is out of range"),
        "{planned:?}"
    );
    // A name with a `/` is not always a path: the names of a discipline's regimes contain a `/`
    // too.
    let kinds = "drr,./libtwin.so,hfsc/real-time";
    let bench =
        falaj(&["bench", "sched", "--alg", kinds, "--flows", "4", "-n", "2k", "--repeat", "1"]);
    let named = ["./libtwin.so", "hfsc/real-time"].iter().all(|name| bench.out.contains(name));
    assert!(bench.status == Some(0) && named, "{bench:?}");
    let not = falaj(&["bench", "sched", "--alg", "./libnone.so", "--flows", "4"]);
    assert!(not.err.contains("`./libnone.so` cannot be loaded"), "{not:?}");
}

#[test]
fn what_breaks_the_contract_is_told_at_the_end() {
    naughty("libunknown.so", "UNKNOWN_FLOW");
    let bad = file(
        "plugin-bad.toml",
        &scenario("{ kind = \"plugin\", library = \"./libunknown.so\" }", ""),
    );
    let ran = falaj(&["sim", bad]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let told = "uplink up: the plug-in `./libunknown.so` broke its contract at ";
    let line =
        ran.out.lines().find(|line| line.starts_with(told)).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(
        line.contains("it serves flow 2, and there are 2, the first of which is 0 (2 times"),
        "{line}"
    );
    let json = falaj(&["sim", bad, "--warm-up", "none", "--json"]).json();
    let breach = &json["breaches"][0];
    assert_eq!(
        (&breach["way"], &breach["library"]),
        (&json!("uplink up"), &json!("./libunknown.so"))
    );
    assert_eq!(breach["times"], 2);
    // After the breach, a substitute for the library serves the flows in turn, one packet each, so
    // packets of both flows are delivered.
    let sent = |name: &str| flow(&json["flows"], name)["delivered"].as_u64().expect("a number");
    // In each replication, the library sent four packets before the breach, and one packet may be
    // in transmission at the end.
    let taken = breach["packets_by_turns"].as_u64().expect("a number") + 2 * 4;
    assert!((taken - 2..=taken).contains(&(sent("a") + sent("b"))), "{json}");
    assert!(sent("a").abs_diff(sent("b")) < 2 * 30, "{json}");
}

#[test]
fn what_is_wrong_with_a_library_is_told_where_it_stands() {
    drr("libwrong.so");
    let check = |name: &'static str, scheduler: &str, of_a: &str| {
        let ran = falaj(&["check", file(name, &scenario(scheduler, of_a))]);
        assert_ne!(ran.status, Some(0), "{ran:?}");
        ran.err
    };
    let missing =
        check("plugin-missing.toml", "{ kind = \"plugin\", library = \"./libmissing.so\" }", "");
    assert!(missing.contains("`library`: `./libmissing.so` cannot be loaded: "), "{missing}");
    assert!(missing.contains("plugin-missing.toml:3:"), "{missing}");
    let none = check("plugin-none.toml", "{ kind = \"plugin\" }", "");
    assert!(none.contains("the scheduler `plugin` lacks `library`"), "{none}");
    let with = "{ kind = \"plugin\", library = \"./libwrong.so\" }";
    let small = check("plugin-small.toml", with, "with = { quantum = \"10B\" }");
    assert!(small.contains("flow `a`: `./libwrong.so`: the `quantum` is out of range"), "{small}");
    assert!(small.contains("plugin-small.toml:7:"), "{small}");
    let number = check("plugin-number.toml", with, "with = { quantum = 1.5 }");
    assert!(number.contains("`with`: a number with decimals is not allowed here"), "{number}");
    let outside = check("plugin-outside.toml", with, "quantum = \"4000B\"");
    assert!(outside.contains("flow `a` has no key `quantum`"), "{outside}");
}
