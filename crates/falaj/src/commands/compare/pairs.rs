//! Two scenarios under the same arrivals: `falaj compare` of simulations alone.

use crate::commands::plan::whatif::WhatIf;
use anyhow::{Result, bail};
use falaj_experiment::measure::Measuring;
use falaj_experiment::simulation::{ReplicationArgs, Simulation};
use falaj_scenario::Scenario;
use falaj_scenario::edit::Set;
use falaj_sched::queues::queue::FlowId;
use falaj_sim::measure::Measure;
use falaj_sim::scenario::pipe_of;
use falaj_sim::scenario::{all_flows, name_of};
use falaj_sim::{Gathered, WarmUp};
use falaj_terminal::{file, text};
use falaj_traffic::interval::Estimate;
use falaj_traffic::source::Model;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::ExitCode;

/// What is compared, how it is called, and its name in JSON.
const MEASURES: [(Measure, &str, &str); 5] = [
    (Measure::DelayMean, "delay mean", "delay_mean_ns"),
    (Measure::DelayQuantile(0.5), "delay p50", "delay_p50_ns"),
    (Measure::DelayQuantile(0.99), "delay p99", "delay_p99_ns"),
    (Measure::Rate, "rate", "rate"),
    (Measure::Loss, "lost", "loss"),
];

pub(crate) fn main(
    what: &Measuring,
    other: Option<&Path>,
    sets: &[Set],
    practice: &ReplicationArgs,
) -> Result<ExitCode> {
    let name = what.file().display().to_string();
    let ((mut first, mut second), other_name) = match other {
        Some(other) => {
            ((file::read(what.file())?, file::read(other)?), other.display().to_string())
        }
        None => {
            let (_, text) = file::text(what.file())?;
            let (mut changed, first) = WhatIf::new(text, &name)?;
            let words: Vec<&str> = sets.iter().map(|set| set.text.as_str()).collect();
            (
                (first, changed.set("--what-if", sets, false)?),
                format!("the same with {}", words.join(", ")),
            )
        }
    };
    first.run.duration = what.duration().unwrap_or(first.run.duration);
    practice.apply(&mut first);
    second.run = first.run;
    if first.traffic.is_empty() {
        bail!("{name} has no [traffic.NAME]: there is nothing to simulate");
    }
    same_sources(&first, &second)?;
    let plan = practice.plan(&first, WarmUp::Found)?;
    let simulation = Simulation::run(&[&first, &second], &plan)?;
    let pairs = pairs(&first, &second, &simulation);
    if what.json {
        let (warm_up, until) = simulation.json(&first);
        let flow = |(flow, a, b): &(String, &Gathered, &Gathered)| {
            let mut json = json!({ "flow": flow });
            for (measure, _, key) in MEASURES {
                let mean = |e: Option<Estimate>| e.map(|e| e.mean);
                let difference = a.difference(b, measure);
                json[key] = json!({
                    "first": mean(a.estimate(measure)), "other": mean(b.estimate(measure)),
                    "difference": mean(difference),
                    "half_width": difference.and_then(|e| e.half_width),
                });
            }
            json
        };
        let json = json!({
            "first": name, "other": other_name, "complete": !simulation.interrupted(),
            "seed": first.run.seed,
            "replications": simulation.studies[0].replications(),
            "duration_ns": simulation.studies[0].duration().0,
            "warm_up": warm_up, "until": until,
            "flows": pairs.iter().map(flow).collect::<Vec<Json>>(),
        });
        say!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(simulation.exit());
    }
    say!(
        "simulated in pairs, under the same arrivals: {}; differences with 95 % intervals",
        simulation.title(&first)
    );
    say!("first: {name}; other: {other_name}");
    if first.traffic.iter().any(|source| matches!(source.model, Model::Tcp(_))) {
        say!(
            "what connections of TCP send depends on what arrives: their chances are the same, and their packets not"
        );
    }
    let mut rows = Vec::new();
    for (flow, a, b) in &pairs {
        for (n, (measure, called, _)) in MEASURES.into_iter().enumerate() {
            let mut row =
                vec![if n == 0 { format!("{flow}  {called}") } else { format!("  {called}") }];
            let of = |gathered: &Gathered| {
                gathered.estimate(measure).map(|e| Estimate { half_width: None, ..e })
            };
            let difference = a.difference(b, measure);
            row.extend([of(a), of(b)].map(|e| value(measure, e, false)));
            row.push(value(measure, difference, true));
            row.push(verdict(difference).into());
            rows.push(row);
        }
    }
    say!("{}", text::table(&["", "first", "other", "other - first", ""], rows));
    simulation.tell(&first);
    Ok(simulation.exit())
}

/// Pairs need the same packets: streams of random numbers are known by a source's place in the
/// file.
fn same_sources(first: &Scenario, second: &Scenario) -> Result<()> {
    if first.traffic.len() != second.traffic.len() {
        let [a, b] = [first, second].map(|scenario| scenario.traffic.len());
        bail!(
            "one scenario has {a} sources and the other {b}: under different arrivals there are no pairs"
        );
    }
    for (a, b) in first.traffic.iter().zip(&second.traffic) {
        let sends = |s: &falaj_scenario::Source| (s.spec(), s.sources, s.towards, s.ecn);
        if sends(a) != sends(b) {
            bail!(
                "source `{}` of one scenario and `{}` of the other do not send alike: under \
                 different arrivals there are no pairs. Sources are known by their places; links, \
                 flows and disciplines may differ",
                a.name,
                b.name
            );
        }
    }
    Ok(())
}

/// The flows of both that packets came for, by their names.
fn pairs<'a>(
    first: &Scenario,
    second: &Scenario,
    simulation: &'a Simulation,
) -> Vec<(String, &'a Gathered, &'a Gathered)> {
    let of = |scenario: &Scenario, n: usize| -> Vec<(String, &'a Gathered)> {
        let study = &simulation.studies[n];
        let flow = |at: (usize, _, usize)| {
            (name_of(scenario, at), study.flow(pipe_of(at.0, at.1), FlowId(at.2 as u32)))
        };
        all_flows(scenario)
            .into_iter()
            .map(flow)
            .filter(|(_, flow)| flow.counters.offered > 0)
            .collect()
    };
    let others = of(second, 1);
    let pair = |(name, a): (String, &'a Gathered)| {
        let (_, b) = others.iter().find(|(other, _)| *other == name)?;
        Some((name, a, *b))
    };
    of(first, 0).into_iter().filter_map(pair).collect()
}

/// An estimate in words; of a difference with its sign.
fn value(measure: Measure, e: Option<Estimate>, signed: bool) -> String {
    let Some(e) = e else { return text::DASH.into() };
    let sign = match e.mean {
        m if m < 0.0 => "-",
        m if m > 0.0 && signed => "+",
        _ => "",
    };
    let e = Estimate { mean: e.mean.abs(), ..e };
    let half = |text: &dyn Fn(f64) -> String| {
        e.half_width.map_or(String::new(), |half| format!(" ± {}", text(half)))
    };
    let text = match measure {
        Measure::Rate => format!("{}{}", text::rate(e.mean), half(&text::rate)),
        Measure::Loss => {
            let percent = |share: f64| format!("{:.2} %", share * 100.0);
            format!("{}{}", percent(e.mean), half(&percent))
        }
        _ => format!("{}{}", text::nanos(e.mean), half(&text::nanos)),
    };
    format!("{sign}{text}")
}

/// Where the interval has no zero the other differs.
fn verdict(difference: Option<Estimate>) -> &'static str {
    match difference {
        Some(Estimate { mean: 0.0, half_width: Some(0.0), .. }) => "the same",
        Some(Estimate { mean, half_width: Some(half), .. }) if mean > half => "more",
        Some(Estimate { mean, half_width: Some(half), .. }) if -mean > half => "less",
        Some(Estimate { half_width: Some(_), .. }) => "no difference seen",
        _ => "",
    }
}
