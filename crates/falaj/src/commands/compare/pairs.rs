//! `falaj compare` of several scenarios, all simulated under the same arrivals.

use super::Args;
#[cfg(feature = "plots")]
use super::picture;
use crate::commands::plan::whatif::WhatIf;
use anyhow::{Result, bail};
use falaj_experiment::simulation::Simulation;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_sim::measure::Measure;
use falaj_sim::scenario::pipe_of;
use falaj_sim::scenario::{all_flows, name_of};
use falaj_sim::{Gathered, Study, WarmUp};
use falaj_terminal::{file, text};
use falaj_traffic::interval::Estimate;
use falaj_traffic::source::Model;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// The quantities compared: measure, label in the table, key in JSON.
const MEASURES: [(Measure, &str, &str); 5] = [
    (Measure::DelayMean, "delay mean", "delay_mean_ns"),
    (Measure::DelayQuantile(0.5), "delay p50", "delay_p50_ns"),
    (Measure::DelayQuantile(0.99), "delay p99", "delay_p99_ns"),
    (Measure::Rate, "rate", "rate"),
    (Measure::Loss, "lost", "loss"),
];

/// Reads the scenarios and their names. All others are compared with the first.
fn read(args: &Args) -> Result<(Vec<Scenario>, Vec<String>)> {
    let path = args.what.file();
    let name = path.display().to_string();
    if args.what_if.is_empty() {
        let paths = || std::iter::once(path).chain(args.others.iter().map(PathBuf::as_path));
        let scenarios: Vec<Scenario> = paths().map(file::read).collect::<Result<_>>()?;
        return Ok((scenarios, paths().map(|path| path.display().to_string()).collect()));
    }
    let (_, text) = file::text(path)?;
    let (mut changed, first) = WhatIf::new(text, &name)?;
    let words: Vec<&str> = args.what_if.iter().map(|set| set.text.as_str()).collect();
    let second = changed.set("--what-if", &args.what_if, false)?;
    Ok((vec![first, second], vec![name, format!("the same with {}", words.join(", "))]))
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let (what, practice) = (&args.what, &args.practice);
    #[cfg(feature = "plots")]
    if let Some(path) = &args.svg {
        picture::try_place(path)?;
    }
    let (mut scenarios, names) = read(args)?;
    let [first, others @ ..] = &mut scenarios[..] else { unreachable!("there is a first one") };
    first.run.duration = what.duration().unwrap_or(first.run.duration);
    practice.apply(first);
    if first.traffic.is_empty() {
        bail!("{} has no [traffic.NAME]: there is nothing to simulate", names[0]);
    }
    for other in others {
        other.run = first.run;
        same_sources(first, other)?;
    }
    let (scenarios, first) = (&scenarios, &scenarios[0]);
    let plan = practice.plan(first, WarmUp::Found)?;
    let simulation = Simulation::run(&scenarios.iter().collect::<Vec<_>>(), &plan)?;
    let flows = flows(scenarios, &simulation);
    #[cfg(feature = "plots")]
    if let Some(path) = &args.svg {
        picture::write(path, &names, &flows)?;
    }
    if what.json {
        let (warm_up, until) = simulation.json(first);
        let flow = |PairedFlow { name, first, others }: &PairedFlow<'_>| {
            let mut json = json!({ "flow": name });
            for (measure, _, key) in MEASURES {
                let mean = |e: Option<Estimate>| e.map(|e| e.mean);
                let other = |other: &&Gathered| {
                    let difference = first.difference(other, measure);
                    json!({
                        "mean": mean(other.estimate(measure)), "difference": mean(difference),
                        "half_width": difference.and_then(|e| e.half_width),
                    })
                };
                json[key] = json!({
                    "first": mean(first.estimate(measure)),
                    "others": others.iter().map(other).collect::<Vec<Json>>(),
                });
            }
            json
        };
        let json = json!({
            "first": names[0], "others": names[1..], "complete": !simulation.interrupted(),
            "seed": first.run.seed,
            "replications": simulation.studies[0].replications(),
            "duration_ns": simulation.studies[0].duration().0,
            "warm_up": warm_up, "until": until,
            "flows": flows.iter().map(flow).collect::<Vec<Json>>(),
        });
        say!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(simulation.exit());
    }
    say!(
        "simulated in pairs, under the same arrivals: {}; differences with 95 % intervals",
        simulation.title(first)
    );
    let called = called(names.len());
    let all: Vec<String> =
        called.iter().zip(&names).map(|(called, name)| format!("{called}: {name}")).collect();
    say!("{}", all.join("; "));
    if first.traffic.iter().any(|source| matches!(source.model, Model::Tcp(_))) {
        say!(
            "TCP connections adapt to the packets that arrive: they have the same random numbers, but not the same packets"
        );
    }
    say!("{}", table(&called, &flows));
    simulation.tell(first);
    Ok(simulation.exit())
}

/// Returns the labels of the scenarios in the table: `first` and `other` for two scenarios, `#1`,
/// `#2`, `#3` for more.
fn called(scenarios: usize) -> Vec<String> {
    match scenarios {
        2 => vec!["first".into(), "other".into()],
        n => (1..=n).map(|n| format!("#{n}")).collect(),
    }
}

/// Returns the table. It has, for each flow, the values of the first scenario and, for each other
/// scenario, its values, the differences, and a verdict on each difference.
fn table(called: &[String], flows: &[PairedFlow<'_>]) -> String {
    let mut header = vec![String::new(), called[0].clone()];
    for other in &called[1..] {
        header.extend([other.clone(), format!("{other} - {}", called[0]), String::new()]);
    }
    let mut rows = Vec::new();
    for PairedFlow { name, first, others } in flows {
        for (n, (measure, called, _)) in MEASURES.into_iter().enumerate() {
            let of = |gathered: &Gathered| {
                let estimate = gathered.estimate(measure);
                value(measure, estimate.map(|e| Estimate { half_width: None, ..e }), false)
            };
            let label = if n == 0 { format!("{name}  {called}") } else { format!("  {called}") };
            let mut row = vec![label, of(first)];
            for other in others {
                let difference = first.difference(other, measure);
                let verdict = verdict(difference).into();
                row.extend([of(other), value(measure, difference, true), verdict]);
            }
            rows.push(row);
        }
    }
    text::table(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows).to_string()
}

/// Checks that both scenarios send the same packets, as paired comparison requires. A source's
/// stream of random numbers is identified by the source's position in the file.
fn same_sources(first: &Scenario, second: &Scenario) -> Result<()> {
    if first.traffic.len() != second.traffic.len() {
        let [a, b] = [first, second].map(|scenario| scenario.traffic.len());
        bail!(
            "one scenario has {a} sources and the other {b}: scenarios with different arrivals \
             cannot be compared in pairs"
        );
    }
    for (a, b) in first.traffic.iter().zip(&second.traffic) {
        let sends = |s: &falaj_scenario::Source| (s.spec(), s.sources, s.towards, s.ecn);
        if sends(a) != sends(b) {
            bail!(
                "source `{}` of one scenario and `{}` of the other do not send alike: scenarios \
                 with different arrivals cannot be compared in pairs. Sources are known by their \
                 places; links, flows and disciplines may differ",
                a.name,
                b.name
            );
        }
    }
    Ok(())
}

/// A flow that has the same name in all scenarios and received packets in each.
pub(super) struct PairedFlow<'a> {
    pub(super) name: String,
    pub(super) first: &'a Gathered,
    pub(super) others: Vec<&'a Gathered>,
}

fn flows<'a>(scenarios: &[Scenario], simulation: &'a Simulation) -> Vec<PairedFlow<'a>> {
    let of = |(scenario, study): (&Scenario, &'a Study)| -> Vec<(String, &'a Gathered)> {
        let flow = |at: (usize, _, usize)| {
            (name_of(scenario, at), study.flow(pipe_of(at.0, at.1), FlowId(at.2 as u32)))
        };
        let flows = all_flows(scenario).into_iter().map(flow);
        flows.filter(|(_, flow)| flow.counters.offered > 0).collect()
    };
    let mut all = scenarios.iter().zip(&simulation.studies).map(of);
    let firsts = all.next().unwrap_or_default();
    let others: Vec<_> = all.collect();
    let compared = |(name, first): (String, &'a Gathered)| {
        let same = |of: &Vec<(String, &'a Gathered)>| {
            of.iter().find(|(other, _)| *other == name).map(|(_, flow)| *flow)
        };
        let others = others.iter().map(same).collect::<Option<_>>()?;
        Some(PairedFlow { name, first, others })
    };
    firsts.into_iter().filter_map(compared).collect()
}

/// Returns an estimate in words; a difference has a sign.
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

/// Returns the verdict on a difference: the scenarios differ if the confidence interval excludes
/// zero.
fn verdict(difference: Option<Estimate>) -> &'static str {
    match difference {
        Some(Estimate { mean: 0.0, half_width: Some(0.0), .. }) => "the same",
        Some(Estimate { mean, half_width: Some(half), .. }) if mean > half => "more",
        Some(Estimate { mean, half_width: Some(half), .. }) if -mean > half => "less",
        Some(Estimate { half_width: Some(_), .. }) => "no significant difference",
        _ => "",
    }
}
