//! Runs every parser of the crate on random texts of known and unknown words. Each text must be
//! accepted, or refused with a place. A target is a plain function, for any fuzzer.

#[path = "fuzz/harness.rs"]
pub(crate) mod harness;

use falaj_engine::key::Key;
use falaj_scenario::parse;
use harness::{Target, placed};
use std::path::PathBuf;

fn scenario(text: &str) {
    match parse(text, "a.toml") {
        Ok((_, warnings)) => placed(text, &warnings),
        Err(problems) => {
            assert!(problems.has_errors());
            placed(text, &problems);
        }
    }
    if let Ok(laid_out) = falaj_scenario::format(text, "a.toml") {
        assert_eq!(
            falaj_scenario::format(&laid_out, "a.toml").ok().as_ref(),
            Some(&laid_out),
            "twice is once"
        );
    }
}

/// Writes the text to a file, and reads a scenario that names the file by this key.
fn named(text: &str, suffix: &str, key: &str) {
    let name = format!("falaj-fuzz-{}.{suffix}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("a file");
    let scenario = format!(
        "[link.x]\nrate = \"1mbit\"\n{}\n",
        key.replace("FILE", &path.display().to_string())
    );
    let scenario = if key.starts_with("trace") {
        scenario.replace("rate = \"1mbit\"\n", "")
    } else {
        scenario
    };
    match parse(&scenario, "a.toml") {
        Ok((_, warnings)) => placed(&scenario, &warnings),
        Err(problems) => {
            let said = problems.to_string();
            assert!(said.contains("falaj-fuzz-"), "it names the file: {said}");
        }
    }
}

fn profile(text: &str) {
    named(text, "profile", "profile = \"FILE\"");
}

fn trace(text: &str) {
    named(text, "csv", "trace = \"FILE\"");
}

/// Reads the text as a trace of a link, and the scenario that is made of it.
fn link_trace(text: &str) {
    crate::link_traces::read_or_refused(text.as_bytes(), None);
}

fn mahimahi(text: &str) {
    named(text, "trace", "trace = \"FILE\"");
}

fn distribution(text: &str) {
    named(text, "dist", "jitter = { amount = \"1ms\", table = \"FILE\" }");
}

fn matching(text: &str) {
    if let Err(error) = falaj_scenario::parse_match(text) {
        assert!(!error.what.is_empty());
    }
}

/// Checks that every frame has a key, whose ports and addresses are consistent.
fn packet(text: &str) {
    let key = Key::of_ethernet(text.as_bytes());
    assert_eq!(key.src.is_some(), key.dst.is_some());
    assert!(key.ports.is_none() || key.protocol.is_some());
}

/// The targets: every parser of the crate.
pub(crate) const TARGETS: [Target; 8] = [
    (
        "scenario",
        scenario,
        "[link.x]|\n|rate = \"1mbit\"|delay = \"1ms\"|[link.x.flow.a]|match = \"udp\"|[link.x.flow.a.flow.b]|scheduler = { kind = \"htb\" }|queue = { limit = \"9p\", policy = \"red\" }|weight = 3|[[rule]]|to = \"x\"|name = \"r\"|[table.t]|\"10.0.0.0/8\" = \"x\"|loss = \"1%\"|=|\"|{|}|[|]|mask = \"src\"|[traffic.z]|model = \"cbr\"|size = \"100B\"|[run]|seed = 1|ceil = \"2mbit\"|kind = \"hfsc\"",
    ),
    (
        "profile",
        profile,
        "name|x|bw|1Mbit/s|samples|10|loss-level|0.9|prob|delay|prob delay|\n|0|1|0.5|100|0 0|1 9|0.5 3|#|-1|1e9",
    ),
    (
        "trace",
        trace,
        "0s,1mbit|1s,2mbit|500ms,0bit|\n|#|,|1s|1mbit|time,rate|-1s,1mbit|9999999999s,1tbit",
    ),
    (
        "link-trace",
        link_trace,
        "time|rate|delay|loss|_s|_ms| (mbit)|,|,|\n|\n|0|1|2s|3|10mbit|5ms|1%|#|-1|\u{feff}|\"|unlimited",
    ),
    ("mahimahi", mahimahi, "0|1|2|5|5|10|1000|\n|#|-1|99999999999999999999|x"),
    ("distribution", distribution, "0|1|-8192|8192|32767|-32768|40000|\n|#|x|1.5| "),
    (
        "match",
        matching,
        "udp|tcp|any|not|(|)|or|and|src|10.0.0.0/8|dport|80|80-90|1,2,3|proto|47|dscp|ef|flags|syn,!ack|table|t|vlan|7|length|0-9|fragment",
    ),
    (
        "packet",
        packet,
        "\u{8}\0|E\0\0|\0\0\0\0|\u{6}|\u{11}|`\0|\u{1}|AAAAAAAAAAAA|\u{2c}|\0\u{8}|\u{7f}\0|@",
    ),
];

#[test]
fn whatever_they_are_given() {
    harness::run(&TARGETS);
}

/// Runs the targets on the seed texts of fuzzers, and on texts that fuzzers have found.
#[test]
fn texts_that_fuzzers_begin_with() {
    harness::run_corpus(&TARGETS);
}
