//! Every parser under words that its texts have, and under bytes that they have not: whatever it
//! is, it is read or refused with a place. Each target is a plain function, for any fuzzer; here
//! all of them run briefly over random texts, and for as many seconds as `FALAJ_FUZZ_SECONDS` says.

use falaj_engine::chance::Chance;
use falaj_engine::key::Key;
use falaj_scenario::import::{Host, ipfw, netconfig, tc};
use falaj_scenario::{Diagnostics, parse};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A name, what reads a text, and words that such texts have.
pub(crate) type Target = (&'static str, fn(&str), &'static str);

/// What is wrong stands somewhere in the text, and says something.
fn placed(text: &str, problems: &Diagnostics) {
    let lines = text.split('\n').count();
    for problem in problems.problems() {
        assert!(
            (1..=lines).contains(&problem.line) && problem.column >= 1,
            "{}:{}",
            problem.line,
            problem.column
        );
        assert!(!problem.title.is_empty() && text.get(problem.span.clone()).is_some());
    }
    let _ = problems.render(false);
}

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

fn of_tc(text: &str) {
    for rate in [None, falaj_scenario::parse_rate("1gbit").ok()] {
        match tc(text, "a.sh", &Host { rate, down: None }) {
            Ok(made) => assert!(parse(&made.scenario, "b.toml").is_ok(), "{}", made.scenario),
            Err(problems) => placed(text, &problems),
        }
    }
}

fn of_ipfw(text: &str) {
    match ipfw(text, "a.sh") {
        Ok(made) => assert!(parse(&made.scenario, "b.toml").is_ok(), "{}", made.scenario),
        Err(problems) => placed(text, &problems),
    }
}

fn of_netconfig(text: &str) {
    match netconfig(text, "a") {
        Ok(made) => assert!(made.tables.is_none_or(|tables| parse(&tables, "b.toml").is_ok())),
        Err(problems) => placed(text, &problems),
    }
}

/// A file that a scenario names by this key.
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

/// Every frame has a key, and what it says of ports and addresses fits together.
fn packet(text: &str) {
    let key = Key::of_ethernet(text.as_bytes());
    assert_eq!(key.src.is_some(), key.dst.is_some());
    assert!(key.ports.is_none() || key.protocol.is_some());
}

/// Every parser.
pub(crate) const TARGETS: [Target; 10] = [
    (
        "scenario",
        scenario,
        "[link.x]|\n|rate = \"1mbit\"|delay = \"1ms\"|[link.x.flow.a]|match = \"udp\"|[link.x.flow.a.flow.b]|scheduler = { kind = \"htb\" }|queue = { limit = \"9p\", policy = \"red\" }|weight = 3|[[rule]]|to = \"x\"|name = \"r\"|[table.t]|\"10.0.0.0/8\" = \"x\"|loss = \"1%\"|=|\"|{|}|[|]|each = \"src\"|[traffic.z]|model = \"cbr\"|size = \"100B\"|[run]|seed = 1|ceil = \"2mbit\"|kind = \"hfsc\"",
    ),
    (
        "tc",
        of_tc,
        "tc qdisc add dev e|tc class add dev e|tc filter add dev e|\n|root|parent|handle|1:|1:1|1:10|2:|10:|classid|flowid|netem|tbf|htb|hfsc|prio|drr|qfq|ets|cbs|red|codel|pie|fq_codel|sfq|pfifo|delay|10ms|1ms|loss|1%|rate|1mbit|8mbit|burst|10k|limit|1000|100k|ceil|sc|rt|ls|ul|m1|d|m2|umax|dmax|1500b|default|10|quantum|weight|bands|3|strict|quanta|avpkt|min|max|ecn|target|interval|u32 match ip dport 80 0xffff|matchall|idleslope|sendslope|-5000|slot|reorder|gap|distribution|normal|state|gemodel|overhead|mpu|0|;|'|$x|\\",
    ),
    (
        "ipfw",
        of_ipfw,
        "ipfw pipe 1 config|ipfw queue 1 config|ipfw sched 1 config|ipfw add|ipfw table 1 add|\n|pipe|queue|1|2|100|prob|0.5|bw|1Mbit/s|delay|10|plr|0.1|0.1,0.2,0.3,0.4|mask|all|src-ip|0xffff|/24|weight|type|qfq|rr|fq_codel|prio|red|gred|0.002/5/15/0.1|codel|pie|ecn|target|5ms|ip|udp|from|to|any|10.0.0.0/8|table(1)|in|out|not|{|}|or|via|em0|skipto|allow|deny|count|tablearg|frag|dscp|ef|lookup|dst-port|80,90-99|MAC|mac-type|0x0806|one_pass|disable|burst|50KB",
    ),
    (
        "netconfig",
        of_netconfig,
        "config|delete|client|SERVER|service|80|80,90-99|10.0.0.0/8|2001:db8::1|IN|OUT|in|bw|1Mbit/s|delay|10|plr|0.1|queue|50|red|0.002/5/15/0.1|mask|all|codel|'|$x",
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

/// Draws, one after the other.
struct Dice(Chance, u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        self.0.draw(self.1) % n
    }
}

fn text(dice: &mut Dice, words: &[&str], glue: &str) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(60) {
        match dice.below(20) {
            0 => text.extend(char::from_u32(dice.below(0x500) as u32)),
            1 => text.push('\n'),
            _ => text.push_str(words[dice.below(words.len() as u64) as usize]),
        }
        text.push_str(glue);
    }
    text
}

#[test]
fn whatever_they_are_given() {
    let seconds =
        std::env::var("FALAJ_FUZZ_SECONDS").ok().map(|s| s.parse().expect("a number of seconds"));
    let only = std::env::var("FALAJ_FUZZ_TARGET").ok();
    for (n, (name, target, words)) in TARGETS.into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let words: Vec<&str> = words.split('|').collect();
        let glue = if name == "packet" { "" } else { " " };
        let (begin, mut runs) = (Instant::now(), 0u64);
        let goes_on = |runs: u64| match seconds {
            Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
            None => runs < 300,
        };
        while goes_on(runs) {
            let mut dice = Dice(Chance::new(runs, n as u64, 0), 0);
            let text = text(&mut dice, &words, glue);
            let outcome = std::panic::catch_unwind(|| target(&text));
            assert!(outcome.is_ok(), "{name}, run {runs}: {text:?}");
            runs += 1;
        }
        println!("{name}: {runs} runs in {:?}", begin.elapsed());
    }
}

/// What fuzzers begin with, and what they have found.
#[test]
fn texts_that_fuzzers_begin_with() {
    let all = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target, _) in TARGETS {
        let Ok(files) = std::fs::read_dir(all.join(name)) else {
            assert!(name == "scenario", "{name} has none; of scenarios there are the examples");
            continue;
        };
        for file in files {
            let bytes = std::fs::read(file.expect("a file").path()).expect("a file");
            target(&String::from_utf8_lossy(&bytes));
        }
    }
}
