//! Every discipline of the registry with drawn values, through `compare` in virtual time: no bound
//! is broken, packets are handed over at their instants, and all of it repeats.
//!
//! `FALAJ_GRID=20 cargo test -p falaj --test virtual_time -- grid` draws twenty of each.

use crate::{Ran, directory, falaj, trial};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Kind, Param, Setup, Value, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::ENTRIES;
use falaj_sched::units::draws::Draws;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use libtest_mimic::Trial;
use std::fmt::Write;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("grid::every_discipline_keeps_its_bound_and_repeats", every_discipline)]
}

/// The link, and the longest packet as it accounts them.
const RATE: Rate = Rate(20_000_000);
const LARGEST: u32 = 1514;
/// Most by which 99 of 100 packets may be handed over late, in nanoseconds. A microsecond was
/// wanted, and one flow each under three disciplines has up to 1,152 ns: there packets of two flows
/// are due within less than the few looks at the clock, 256 ns each, that handing one over takes.
const LATE: u64 = 1_300;

/// A scenario with this discipline and values that it accepts; none if none were found.
fn scenario(entry: &'static Manifest, number: u64) -> Option<String> {
    let mut draws = Draws::new(number, 1);
    let mut dice = |low: u64, high: u64| low + draws.draw() % (high - low + 1);
    (0..2000).find_map(|_| {
        let flows = dice(3, 5) as usize;
        let queue = Limit::Packets(50);
        let mut setup = Setup {
            rate: RATE,
            largest: LARGEST,
            scheduler: Values::default(),
            flows: vec![FlowSetup::new(Values::default(), queue); flows],
        };
        draw_values(entry, &mut setup, &mut dice);
        // Packets of each flow at a time of its own, together a little less than the link carries,
        // or a little more.
        let together = dice(12_000_000, 24_000_000);
        let shares: Vec<u64> = (0..flows).map(|_| dice(1, 4)).collect();
        let text = written(entry, &setup, |flow| {
            let rate = together * shares[flow] / shares.iter().sum::<u64>();
            (rate, dice(200, 1500), 1_000 * flow as u64 * 137)
        });
        falaj_scenario::parse(&text, entry.kind).is_ok().then_some(text)
    })
}

/// Values by their types, or as the discipline draws them.
fn draw_values(entry: &'static Manifest, setup: &mut Setup, dice: &mut dyn FnMut(u64, u64) -> u64) {
    let (largest, flows) = (u64::from(LARGEST), setup.flows.len() as u64);
    let mut values = |params: &'static [Param], setup: &Setup| {
        params.iter().fold(Values::default(), |all, param| {
            // What a default or another parameter says already.
            if param.default.is_some() && dice(0, 2) == 0 {
                return all;
            }
            let own = entry.draw.values.iter().find(|(name, _)| *name == param.name);
            let value = match (own, param.kind) {
                (Some((_, draw)), _) => draw(setup, &mut *dice),
                (None, Kind::Rate) => Value::Rate(Rate(dice(RATE.0 / flows / 10, RATE.0 / flows))),
                (None, Kind::Span) => Value::Span(Span(dice(1, 20_000_000))),
                (None, Kind::Bytes) => Value::Bytes(dice(largest, 20 * largest)),
                (None, Kind::Limit) => Value::Limit(Limit::Packets(dice(1, 60) as u32)),
                (None, Kind::Count { min, max }) => Value::Count(dice(min, max.min(min + 19))),
                (None, Kind::Probability) => Value::Probability(Probability::of(dice(0, 20), 20)),
                (None, Kind::Choice(words)) => {
                    Value::Choice(words[dice(0, words.len() as u64 - 1) as usize])
                }
            };
            all.with(param.name, value)
        })
    };
    let scheduler = values(entry.scheduler, setup);
    let own: Vec<Values> = (0..flows).map(|_| values(entry.flow, setup)).collect();
    setup.scheduler = scheduler;
    for (flow, values) in setup.flows.iter_mut().zip(own) {
        flow.values = values;
    }
    (entry.draw.fit)(setup, dice);
}

/// The scenario as a file; `source` says what a flow's source sends: its rate, the size of its
/// packets, and its first instant in nanoseconds.
fn written(
    entry: &Manifest,
    setup: &Setup,
    mut source: impl FnMut(usize) -> (u64, u64, u64),
) -> String {
    let value = |value: Value| match value {
        Value::Span(span) => format!("\"{}ns\"", span.0),
        Value::Rate(rate) => format!("\"{}bit\"", rate.0),
        Value::Bytes(bytes) => format!("\"{bytes}B\""),
        Value::Limit(limit) => format!("\"{limit}\""),
        Value::Count(count) => count.to_string(),
        Value::Probability(probability) => format!("\"{}%\"", probability.as_f64() * 100.0),
        Value::Choice(word) => format!("\"{word}\""),
        Value::Policy(_) => unreachable!("no discipline has such a parameter"),
    };
    let keys = |values: &Values, between: &str| {
        values.iter().map(|(name, v)| format!("{between}{name} = {}", value(v))).collect::<String>()
    };
    let mut text = format!(
        "[link.l]\nrate = \"{}bit\"\ndelay = \"2ms\"\nscheduler = {{ kind = \"{}\"{} }}\n",
        setup.rate.0,
        entry.kind,
        keys(&setup.scheduler, ", ")
    );
    for (n, flow) in setup.flows.iter().enumerate() {
        let (rate, size, start) = source(n);
        let _ = write!(
            text,
            "[link.l.flow.f{n}]\nmatch = \"udp dport {port}\"\nqueue = \"{limit}\"{keys}\n\
             [traffic.t{n}]\nlink = \"l\"\nflow = \"f{n}\"\nmodel = \"cbr\"\nrate = \"{rate}bit\"\n\
             size = \"{size}B\"\nstart = \"{start}ns\"\n",
            port = 5000 + n,
            limit = flow.limit,
            keys = keys(&flow.values, "\n"),
        );
    }
    text + "[run]\nduration = \"100ms\"\nreplications = 1\n"
}

fn compared(file: &str) -> Ran {
    falaj(&["compare", file, "--virtual-time", "--json"])
}

fn every_discipline() {
    let each: u64 = std::env::var("FALAJ_GRID").map_or(1, |text| text.parse().expect("a number"));
    let mut wrong = Vec::new();
    for entry in ENTRIES {
        for number in 0..each {
            let Some(text) = scenario(entry, number) else {
                wrong.push(format!("{}: no values were accepted", entry.kind));
                continue;
            };
            let name = format!("grid-{}-{number}.toml", entry.kind);
            fs::write(directory().join(&name), &text).expect("a file can be written");
            let ran = compared(&name);
            wrong.extend(faults(&name, &ran));
            // One of each repeats.
            if number == 0 && compared(&name).out != ran.out {
                wrong.push(format!("{name}: not the same twice"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is not as it should be.
fn faults(name: &str, ran: &Ran) -> Vec<String> {
    let Ok(told) = serde_json::from_str::<serde_json::Value>(&ran.out) else {
        return vec![format!("{name}: {ran:#?}")];
    };
    let mut wrong = Vec::new();
    if told["verdict"] == "broken" {
        wrong.push(format!("{name}: a bound is broken"));
    }
    for flow in told["flows"].as_array().expect("flows") {
        let measured = &flow["measured"];
        if measured["delay"]["packets"].as_u64().unwrap_or_default() == 0 {
            wrong.push(format!("{name} {}: no packet", flow["flow"]));
        }
        let error = measured["release_error"]["p99_ns"].as_u64().unwrap_or_default();
        if error > LATE {
            wrong.push(format!("{name} {}: a release error of {error} ns", flow["flow"]));
        }
    }
    wrong
}
