//! Every parser of the crate, with random texts of words that it knows and of other words. Each
//! text is read, or refused with the place of the error.

#[path = "../../../falaj-scenario/tests/all/fuzz/harness.rs"]
pub(crate) mod harness;

use falaj_import::{Host, ipfw, netconfig, tc};
use falaj_scenario::parse;
use harness::{Target, placed};

fn of_tc(text: &str) {
    for rate in [None, falaj_scenario::parse_rate("1gbit").ok()] {
        match tc(text, "a.sh", &Host { rate, down: None }) {
            Ok(made) => assert!(parse(&made.scenario, "b.toml").is_ok(), "{}", made.scenario),
            Err(problems) => placed(text, &problems),
        }
    }
}

fn of_ipfw(text: &str) {
    match ipfw(text, "a.sh", None) {
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

/// All parsers.
pub(crate) const TARGETS: [Target; 3] = [
    (
        "tc",
        of_tc,
        "tc qdisc add dev e|tc class add dev e|tc filter add dev e|iptables -t mangle -A|POSTROUTING|QOS|-j MARK --set-mark 1|-j|-g|RETURN|1 fw|\n|root|parent|handle|1:|1:1|1:10|2:|10:|classid|flowid|netem|tbf|htb|hfsc|prio|drr|qfq|ets|cbs|red|codel|pie|fq_codel|fq_pie|fq|maxrate|cake|bandwidth|besteffort|overhead|sfq|pfifo|pfifo_fast|delay|10ms|1ms|loss|1%|rate|1mbit|8mbit|burst|10k|limit|1000|100k|ceil|sc|rt|ls|ul|m1|d|m2|umax|dmax|1500b|default|10|quantum|weight|bands|3|strict|quanta|avpkt|min|max|ecn|target|interval|u32 match ip dport 80 0xffff|matchall|idleslope|sendslope|-5000|slot|reorder|gap|distribution|normal|state|gemodel|overhead|mpu|0|;|'|$x|\\",
    ),
    (
        "ipfw",
        of_ipfw,
        "ipfw pipe 1 config|ipfw queue 1 config|ipfw sched 1 config|ipfw add|ipfw table 1 add|\n|pipe|queue|1|2|100|prob|0.5|bw|1Mbit/s|delay|10|plr|0.1|0.1,0.2,0.3,0.4|mask|all|src-ip|0xffff|/24|weight|type|qfq|rr|fq_codel|fq_pie|prio|red|gred|0.002/5/15/0.1|codel|pie|ecn|target|5ms|ip|udp|from|to|any|10.0.0.0/8|table(1)|in|out|not|{|}|or|via|em0|skipto|allow|deny|count|tablearg|frag|dscp|ef|lookup|dst-port|80,90-99|MAC|mac-type|0x0806|one_pass|disable|burst|50KB",
    ),
    (
        "netconfig",
        of_netconfig,
        "config|delete|client|SERVER|service|80|80,90-99|10.0.0.0/8|2001:db8::1|IN|OUT|in|bw|1Mbit/s|delay|10|plr|0.1|queue|50|red|0.002/5/15/0.1|mask|all|codel|'|$x",
    ),
];

#[test]
fn whatever_they_are_given() {
    harness::run(&TARGETS);
}

/// The texts that fuzzers begin with, and the texts that fuzzers have found.
#[test]
fn texts_that_fuzzers_begin_with() {
    harness::run_corpus(&TARGETS);
}
