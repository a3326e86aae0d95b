//! Scheduled changes: when they are made, the scenarios to which they lead, and their errors.

use expect_test::{Expect, expect};
use falaj_scenario::{Scenario, parse};
use falaj_sched::units::time::Span;
use std::sync::Arc;

const LINK: &str = "[link.a]\nrate = \"8mbit\"\n[link.a.flow.x]\nmatch = \"udp\"\n\
                    [link.a.flow.y]\nmatch = \"any\"\n";

fn read(rest: &str) -> Scenario {
    parse(&format!("{LINK}{rest}"), "a.toml").unwrap_or_else(|errors| panic!("{errors}")).0
}

/// The first changes: their times in milliseconds, and the rate and the delay after each.
fn steps(rest: &str, number: usize) -> Vec<(u64, String, String)> {
    let scenario = read(rest);
    let changes = scenario.changes.iter().take(number);
    let step = |change: falaj_scenario::ScheduledChange| {
        let pipe = &change.scenario.links[0].up.pipe;
        let rate = pipe.setup.rate.0 / 1_000_000;
        (change.at.0 / 1_000_000, format!("{rate}mbit"), pipe.delay.to_string())
    };
    changes.map(step).collect()
}

fn step(at: u64, rate: &str, delay: &str) -> (u64, String, String) {
    (at, rate.to_owned(), delay.to_owned())
}

#[test]
fn changes_are_made_in_the_order_of_time_and_once_for_each_instant() {
    let text = "[[change]]\nat = \"3s\"\nset = { \"a.rate\" = \"2mbit\" }\n\
                [[change]]\nat = \"1s\"\nset = { a.rate = \"5mbit\", \"a.delay\" = \"4ms\" }\n\
                [[change]]\nat = \"3s\"\nset = { \"link.a.delay\" = \"\" }\n";
    assert_eq!(steps(text, 9), [step(1000, "5mbit", "4ms"), step(3000, "2mbit", "0s")]);
    let sets: Vec<Vec<String>> =
        read(text).changes.iter().map(|change| change.sets.to_vec()).collect();
    assert_eq!(sets, [vec!["a.rate=5mbit", "a.delay=4ms"], vec!["a.rate=2mbit", "link.a.delay="]]);
}

#[test]
fn a_single_table_and_a_table_of_settings_are_changes_too() {
    let text = "[change]\nat = \"1s\"\n[change.set]\na.rate = \"5mbit\"\n\"a.scheduler\" = { kind = \"drr\" }\n";
    let scenario = read(text);
    let change = scenario.changes.iter().next().unwrap();
    assert_eq!(change.scenario.links[0].up.scheduler().kind, "drr");
    assert_eq!(change.sets[..], ["a.rate=5mbit", "a.scheduler={ kind = \"drr\" }"]);
}

#[test]
fn a_change_repeats_until_its_end_or_for_ever() {
    let text = "[[change]]\nat = \"1s\"\nevery = \"2s\"\nuntil = \"5s\"\nset = { \"a.rate\" = \"5mbit\" }\n\
                [[change]]\nat = \"2s\"\nevery = \"2s\"\nset = { \"a.rate\" = \"2mbit\" }\n";
    let rates: Vec<(u64, String)> =
        steps(text, 8).into_iter().map(|(at, rate, _)| (at, rate)).collect();
    let at = |at: u64, rate: &str| (at, rate.to_owned());
    assert_eq!(
        rates,
        [
            at(1000, "5mbit"),
            at(2000, "2mbit"),
            at(3000, "5mbit"),
            at(4000, "2mbit"),
            at(5000, "5mbit"),
            at(6000, "2mbit"),
            at(8000, "2mbit"),
            at(10_000, "2mbit")
        ]
    );
}

/// With two periods, the scenarios recur with the least common multiple of both. Equal scenarios
/// are stored once.
#[test]
fn changes_with_two_periods_lead_to_a_cycle() {
    let text = "[[change]]\nat = \"1s\"\nevery = \"2s\"\nset = { \"a.rate\" = \"5mbit\" }\n\
                [[change]]\nat = \"500ms\"\nevery = \"3s\"\nset = { \"a.rate\" = \"2mbit\", \"a.delay\" = \"1ms\" }\n\
                [[change]]\nat = \"2s\"\nevery = \"3s\"\nset = { \"a.delay\" = \"\" }\n";
    let scenario = read(text);
    let all: Vec<_> = scenario.changes.before(Span::from_secs(600)).collect();
    // Every third change of the first kind has the same instant as a change of the third kind.
    assert_eq!(all.len(), 300 + 200 + 200 - 100);
    let mut different: Vec<*const Scenario> =
        all.iter().map(|change| Arc::as_ptr(&change.scenario)).collect();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() <= 8, "{}", different.len());
    // The expected values come from a plain loop over time.
    let (mut rate, mut delay) = (8, 0);
    let mut naive = Vec::new();
    for tick in 0..1200_u64 {
        let at = 500 * tick;
        let is = |first: u64, every: u64| at >= first && (at - first).is_multiple_of(every);
        let due = [is(1000, 2000), is(500, 3000), is(2000, 3000)];
        rate = if due[0] { 5 } else { rate };
        (rate, delay) = if due[1] { (2, 1) } else { (rate, delay) };
        delay = if due[2] { 0 } else { delay };
        if due.contains(&true) {
            naive.push(step(at, &format!("{rate}mbit"), &Span::from_millis(delay).to_string()));
        }
    }
    assert_eq!(steps(text, naive.len()), naive);
}

fn errors(rest: &str, expected: Expect) {
    let errors = parse(&format!("{LINK}{rest}"), "a.toml").expect_err("no error was found");
    expected.assert_eq(&format!("{errors}\n"));
}

#[test]
fn an_error_is_at_the_setting_that_causes_it() {
    errors(
        "[[change]]\nat = \"1s\"\nset = { \"a.delay\" = \"4ms\", \"a.rate\" = \"5\" }\n\
         [[change]]\nat = \"2s\"\nset = { \"a.rat\" = \"5mbit\" }\n\
         [[change]]\nat = \"3s\"\nset = { \"b.rate\" = \"5mbit\" }\n",
        expect![[r#"
            error: `rate`: `5` is a number without a unit
             --> a.toml:9:39
              |
            9 | set = { "a.delay" = "4ms", "a.rate" = "5" }
              |                                       ^^^ from 1s on
              |
              = help: write `5mbit` or `5kbit`; units of rate: bit, kbit, mbit, gbit, tbit; B/s, kB/s, MB/s, GB/s

            error: link `a` has no key `rat`
              --> a.toml:12:19
               |
            12 | set = { "a.rat" = "5mbit" }
               |                   ^^^^^^^ did you mean `rate`?
               |
               = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`

            error: `b.rate`: no table of the scenario has such a key; its tables are `link.a`, `link.a.flow.x`, `link.a.flow.y`
              --> a.toml:15:20
               |
            15 | set = { "b.rate" = "5mbit" }
               |                    ^^^^^^^
        "#]],
    );
}

#[test]
fn keys_of_a_change() {
    errors(
        "[[change]]\nat = \"1s\"\n[[change]]\nat = \"1s\"\nset = {}\n\
         [[change]]\nat = \"1s\"\nset = \"a.rate=5mbit\"\n\
         [[change]]\nat = \"1s\"\nuntil = \"5s\"\nset = { \"a.rate\" = \"5mbit\" }\n\
         [[change]]\nat = \"9s\"\nevery = \"1s\"\nuntil = \"5s\"\nset = { \"a.rate\" = \"5mbit\" }\n\
         [[change]]\nat = \"9s\"\nevry = \"1s\"\nset = { \"a b\" = \"5mbit\" }\n",
        expect![[r#"
            error: the change lacks `set`
             --> a.toml:7:1
              |
            7 | [[change]]
              | ^^^^^^^^^^
              |
              = help: `set`: keys of links, flows and rules and their new values, as `falaj set` accepts them; an empty text removes a key; write a table of keys and their values, as in `{ "uplink.rate" = "5mbit" }`

            error: the change sets nothing
              --> a.toml:11:7
               |
            11 | set = {}
               |       ^^
               |
               = help: write a key and its value, as in `set = { "uplink.rate" = "5mbit" }`

            error: `set`: a text is not allowed here
              --> a.toml:14:7
               |
            14 | set = "a.rate=5mbit"
               |       ^^^^^^^^^^^^^^
               |
               = help: write a table of keys and their values, as in `{ "uplink.rate" = "5mbit" }`

            error: `until` is for a change that repeats
              --> a.toml:17:9
               |
            17 | until = "5s"
               |         ^^^^
               |
               = help: add `every`, as in `every = "2s"`

            error: `until` is before the change itself
              --> a.toml:22:9
               |
            22 | until = "5s"
               |         ^^^^
               |
               = help: the first change is at 9s

            error: the change has no key `evry`
              --> a.toml:26:1
               |
            26 | evry = "1s"
               | ^^^^ did you mean `every`?
               |
               = help: allowed: `at`, `every`, `set`, `until`

            error: `a b` is not a key; write a key of the scenario and its value, as in `voice.phase=60us`
              --> a.toml:27:9
               |
            27 | set = { "a b" = "5mbit" }
               |         ^^^^^
        "#]],
    );
}

#[test]
fn what_stays_for_a_whole_run() {
    let traffic =
        "[traffic.t]\nflow = \"x\"\nmodel = \"poisson\"\nrate = \"1mbit\"\nsize = \"500B\"\n";
    errors(
        &format!(
            "{traffic}[[change]]\nat = \"1s\"\nset = {{ \"traffic.t.rate\" = \"2mbit\" }}\n\
             [[change]]\nat = \"2s\"\nset = {{ \"link.a.flow.y\" = \"\" }}\n\
             [[change]]\nat = \"3s\"\nset = {{ \"link.b.rate\" = \"5mbit\" }}\n\
             [[change]]\nat = \"4s\"\nset = {{ \"a.mtu\" = \"1400B\" }}\n"
        ),
        expect![[r#"
            error: a scheduled change can set keys of links, flows and rules only
              --> a.toml:14:28
               |
            14 | set = { "traffic.t.rate" = "2mbit" }
               |                            ^^^^^^^
               |
               = help: sources of traffic, hosts and `[run]` keep their keys: a source begins and ends by its `start` and `stop`

            error: a scheduled change adds, removes or moves a link, a flow or a rule
              --> a.toml:17:27
               |
            17 | set = { "link.a.flow.y" = "" }
               |                           ^^
               |
               = help: declare all of them from the start; `falaj set` adds and removes them while a link runs

            error: traffic `t` lacks `link`
              --> a.toml:20:25
               |
            20 | set = { "link.b.rate" = "5mbit" }
               |                         ^^^^^^^ from 3s on
               |
               = help: links: `a`, `b`

            error: the change makes a link's largest packet smaller, and larger packets may be queued
              --> a.toml:23:19
               |
            23 | set = { "a.mtu" = "1400B" }
               |                   ^^^^^^^
               |
               = help: keep `mtu`, `layer`, `overhead` and `cells`, or choose values with which packets count as no fewer bytes
        "#]],
    );
}

#[test]
fn a_warning_of_the_changed_scenario_is_at_the_change() {
    let text = "[traffic.t]\nflow = \"x\"\nmodel = \"poisson\"\nrate = \"6mbit\"\nsize = \"500B\"\n\
                [[change]]\nat = \"1s\"\nset = { \"x.envelope\" = { rate = \"1mbit\", burst = \"9kB\" } }\n";
    let (_, warnings) = parse(&format!("{LINK}{text}"), "a.toml").unwrap();
    let expected = expect![[r#"
        warning: flow `x`: its traffic exceeds its envelope
          --> a.toml:14:24
           |
        14 | set = { "x.envelope" = { rate = "1mbit", burst = "9kB" } }
           |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ it sends 6mbit in the long run, and the envelope allows 1mbit
           |
           = help: delays guaranteed for the envelope are not guaranteed for this traffic
           = help: send less, declare more, or let the traffic pass a bucket: `shaped = { rate = …, burst = … }`"#]];
    expected.assert_eq(&warnings.to_string());
}

/// If there are more changes than are allowed, they are refused without delay, however they repeat.
#[test]
fn a_file_has_a_limited_number_of_changes() {
    for times in ["every = \"1ns\"\nuntil = \"1h\"", "every = \"7ns\"\n# for ever"] {
        errors(
            &format!(
                "[[change]]\nat = \"1s\"\n{times}\nset = {{ \"a.rate\" = \"5mbit\" }}\n\
                 [[change]]\nat = \"1s\"\nevery = \"1h\"\nset = {{ \"a.rate\" = \"4mbit\" }}\n"
            ),
            expect![[r#"
                error: more than 100000 changes
                  --> a.toml:11:7
                   |
                11 | set = { "a.rate" = "5mbit" }
                   |       ^^^^^^^^^^^^^^^^^^^^^^
                   |
                   = help: write a longer `every`, or an earlier `until`; without `until`, changes repeat with the least common multiple of their periods
            "#]],
        );
    }
}
