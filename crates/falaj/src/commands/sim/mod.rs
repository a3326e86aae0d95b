//! `falaj sim`: runs a scenario in simulated time.
//!
//! | module | content |
//! |---|---|
//! | [`connections`] | results of TCP connections |
//! | [`replay`] | `--replay`: replays the packets that entered a live link |
//! | [`export`] | packets and flows in files for other programs |
//! | `pictures` | pictures of the results |

mod connections;
mod export;
#[cfg(feature = "plots")]
mod pictures;
mod replay;

use crate::commands::sim::export::Exports;
use anyhow::{Context, Result, bail};
use falaj_control::masks;
use falaj_control::summary::{RULE_HEADER, air_json, air_told, breach_json, rule_json, rule_row};
use falaj_engine::rules::RuleCounters;
use falaj_experiment::replications::{Replications, SimulatedFlow};
use falaj_experiment::simulation::ReplicationArgs;
use falaj_scenario::{Link, Scenario};
use falaj_sched::units::time::Span;
use falaj_sim::WarmUp;
use falaj_sim::scenario::{fed_flows, name_of, pipe_of};
use falaj_terminal::effective_config::EffectiveConfig;
#[cfg(feature = "plots")]
use falaj_terminal::place;
use falaj_terminal::{arguments, file, text};
use falaj_traffic::meter::Meter;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `sim`.
#[derive(clap::Args)]
#[command(after_help = "\
--replay sends the packets of a capture at the same instants: those of `falaj run --capture`
through their own link, to check that every decision is the same, or through another link (FILE);
or those of any pcap or pcapng, with interface 0 as up and interface 1 as down.

Replications run on all cores; the number of cores does not change the results. The warm-up before
the steady state is not counted (--warm-up). Sources send the same packets over any links, so two
simulations with one seed can be compared; `falaj compare` does that in pairs.

Exit status: 0; 1 if a replay differs from the live link's decisions, or its capture breaks off; 3
if the maximum number of replications is reached before --until; 130 after Ctrl-C, with the results
until then.

Examples:
  falaj sim examples/tenants.toml --duration 30s --replications 16
  falaj sim examples/tenants.toml --until 'delay.mean ±1%'
  falaj sim examples/tenants.toml --plot pictures
  falaj sim examples/tenants.toml --packets packets.parquet --trace trace.json
  falaj sim --replay capture.pcapng
  falaj sim examples/tenants.toml --replay capture.pcapng")]
pub(crate) struct Args {
    /// The scenario.
    #[arg(required_unless_present = "replay")]
    file: Option<PathBuf>,
    /// Replay this capture instead of the scenario's sources.
    #[arg(long, value_name = "CAPTURE", conflicts_with_all = ["duration", "replications", "seed",
        "until", "warm_up"])]
    replay: Option<PathBuf>,
    /// With --replay of another program's capture: interfaces of the up and down directions;
    /// packets of other interfaces are left out [default: 1 is down, all others are up].
    #[arg(long, value_name = "up=N,down=N", requires = "replay",
        value_parser = replay::Interfaces::parse)]
    interface: Option<replay::Interfaces>,
    /// Simulated time of each replication [default: the scenario's].
    #[arg(long, value_parser = arguments::parse_duration)]
    duration: Option<Span>,
    #[command(flatten)]
    practice: ReplicationArgs,
    /// Draw pictures into this directory: throughput, backlog and Jain's index over time, delays
    /// with intervals, arrivals and departures beside the planned curves, link occupancy, reasons
    /// for losses.
    #[cfg(feature = "plots")]
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    exports: Exports,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: EffectiveConfig,
}

/// Returns the flow's name or, if both directions have traffic, `flow up` or `flow down`.
pub(crate) fn name_of_flow(link: &Link, pipe: usize, flow: usize, both_ways: bool) -> String {
    let (direction, way) = if pipe == 0 { (&link.up, "up") } else { (&link.down, "down") };
    let name = &direction.flows[flow].name;
    if both_ways { format!("{name} {way}") } else { name.clone() }
}

#[derive(Serialize)]
struct Json {
    flow: String,
    offered: u64,
    delivered: u64,
    dropped: u64,
    dropped_by_policy: u64,
    marked: u64,
    air: serde_json::Value,
    lost: u64,
    duplicated: u64,
    corrupted: u64,
    reordered: u64,
    loss_half_width: Option<f64>,
    offered_rate: f64,
    offered_rate_half_width: Option<f64>,
    delivered_rate: f64,
    delivered_rate_half_width: Option<f64>,
    delay_mean_ns: Option<f64>,
    delay_mean_half_width_ns: Option<f64>,
    delay_p50_ns: Option<u64>,
    delay_p50_half_width_ns: Option<f64>,
    delay_p99_ns: Option<u64>,
    delay_p99_half_width_ns: Option<f64>,
    delay_max_ns: Option<u64>,
    max_backlog_packets: u64,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(capture) = &args.replay {
        let ends = args.interface.as_ref();
        args.exports.check_replay()?;
        let output = replay::ReplayOutput { exports: &args.exports, as_json: args.json };
        return replay::main(capture, args.file.as_deref(), ends, &output);
    }
    let path = args.file.as_deref().context("a scenario is needed")?;
    args.exports.check()?;
    #[cfg(feature = "plots")]
    if let Some(out) = &args.plot {
        if place::is_one_picture("--plot", out)? {
            bail!("--plot {}: there are several pictures; name a directory", out.display());
        }
        place::try_directory(out)?;
    }
    let mut scenario = file::read(path)?;
    scenario.run.duration = args.duration.unwrap_or(scenario.run.duration);
    args.practice.apply(&mut scenario);
    if scenario.traffic.is_empty() {
        bail!("{} has no [traffic.NAME]: there is nothing to simulate", path.display());
    }
    let plan = args.practice.plan(&scenario, WarmUp::Found)?;
    #[cfg(feature = "plots")]
    let plan =
        if args.plot.is_some() { plan.with(crate::commands::sim::pictures::SHARES) } else { plan };
    args.asked.tell(&scenario);
    let runs = Replications::as_planned(&scenario, &plan)?;
    tell(args, &scenario, &runs)?;
    // Files are written after the table, which is printed even if writing fails.
    #[cfg(feature = "plots")]
    if let Some(out) = &args.plot {
        crate::commands::sim::pictures::write(
            out,
            &scenario,
            runs.study(),
            runs.simulation.warmed.cut,
        )?;
    }
    args.exports.write(
        &scenario,
        path,
        (runs.duration(), runs.simulation.warmed.cut),
        runs.len(),
    )?;
    Ok(runs.simulation.exit())
}

/// Prints the results, as a table or JSON.
fn tell(args: &Args, scenario: &Scenario, runs: &Replications) -> Result<()> {
    // With rules, packets also reach links that no source names.
    let told = if scenario.rules.is_empty() { fed_flows(scenario) } else { runs.reached(scenario) };
    let rules: Vec<(&str, RuleCounters)> = scenario
        .rules
        .iter()
        .zip(runs.study().taken())
        .map(|(rule, taken)| (rule.name.as_str(), *taken))
        .collect();
    let flows: Vec<(String, SimulatedFlow)> = told
        .into_iter()
        .map(|at| (name_of(scenario, at), runs.flow(pipe_of(at.0, at.1), at.2)))
        .collect();
    let breaches = runs.breaches(scenario);
    if args.json {
        let json: Vec<Json> = flows.iter().map(|(name, f)| json(name, f)).collect();
        let (warm_up, until) = runs.simulation.json(scenario);
        say!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({
                "duration_ns": runs.duration().0,
                "seed": scenario.run.seed,
                "replications": runs.len(),
                "complete": !runs.interrupted(),
                "warm_up": warm_up,
                "until": until,
                "flows": json,
                "rules": rules.iter().map(|(name, taken)| rule_json(name, taken))
                    .collect::<Vec<_>>(),
                "unmatched": runs.study().unmatched(),
                "ways": runs.ways()
                    .map(|(source, way)| way_json(&scenario.traffic[source].name, way))
                    .collect::<Vec<_>>(),
                "connections": runs.connections()
                    .map(|(source, of)| connections::json(&scenario.traffic[source], of))
                    .collect::<Vec<_>>(),
                "breaches": breaches.iter().map(|(way, breach)| breach_json(way, breach))
                    .collect::<Vec<_>>(),
                "masks": runs.many(scenario).iter().map(|(name, report)| masks::json(name, report))
                    .collect::<Vec<_>>(),
            }))?
        );
        return Ok(());
    }
    say!(
        "simulated: {}; means with 95 % intervals; delays of the queue, last bit in to last bit out",
        runs.simulation.title(scenario)
    );
    let header = [
        "flow",
        "offered",
        "delivered",
        "dropped",
        "delay mean",
        "p50",
        "p99",
        "max",
        "backlog max",
    ];
    say!("{}", text::table(&header, flows.iter().map(|(name, f)| row(name, f))));
    connections::tell(scenario, runs);
    runs.simulation.tell(scenario);
    if !rules.is_empty() {
        say!(
            "{}",
            text::table(&RULE_HEADER, rules.iter().map(|(name, taken)| rule_row(name, taken)))
        );
        let rows = runs.ways().map(|(source, way)| way_row(&scenario.traffic[source].name, way));
        say!(
            "{}",
            text::table(&["from end to end", "mean", "least", "p99", "max", "jitter"], rows)
        );
    }
    for (way, breach) in &breaches {
        say!("{way}: {breach}");
    }
    if runs.study().unmatched() > 0 {
        say!("{} packets matched no rule", runs.study().unmatched());
    }
    let of = |n: u64, what: &'static str| Some((n, what)).filter(|_| n > 0);
    for (name, f) in &flows {
        let all = [of(f.dropped_by_policy, "were dropped"), of(f.marked, "were marked")];
        let all = all
            .into_iter()
            .flatten()
            .map(|(n, what)| format!("{} {what}", text::percent(n, f.offered)));
        let all: Vec<String> = all.collect();
        if !all.is_empty() {
            say!("by the policy of the queue, of the packets of {name}: {}", all.join(", "));
        }
    }
    let simulated = runs.counted() * runs.len() as u64;
    let air = flows.iter().filter_map(|(name, f)| air_told(name, &f.air, simulated));
    air.for_each(|told| say!("{told}"));
    for (name, f) in &flows {
        let all = [
            of(f.lost, "were lost"),
            of(f.duplicated, "arrived twice"),
            of(f.corrupted, "arrived with a flipped bit"),
            of(f.reordered, "overtook others"),
        ];
        let all = all
            .into_iter()
            .flatten()
            .map(|(n, what)| format!("{} {what}", text::percent(n, f.sent + f.lost)));
        let all: Vec<String> = all.collect();
        if !all.is_empty() {
            say!("on the link, of the packets of {name}: {}", all.join(", "));
        }
    }
    for (name, report) in runs.many(scenario) {
        let first = if runs.len() > 1 { "\nof the first replication: " } else { "\n" };
        say!("{first}{}", masks::told(&name, report));
    }
    Ok(())
}

/// Returns the largest delay minus the smallest.
fn jitter(way: &Meter) -> Option<Span> {
    Some(way.max()?.saturating_sub(way.min()?))
}

fn way_row(name: &str, way: &Meter) -> Vec<String> {
    let spans = [way.min(), way.quantile(0.99), way.max(), jitter(way)];
    let mean = text::nanos(way.mean_nanos().unwrap_or_default());
    [name.to_owned(), mean].into_iter().chain(spans.map(text::span)).collect()
}

fn way_json(name: &str, way: &Meter) -> serde_json::Value {
    serde_json::json!({
        "traffic": name,
        "delivered": way.count(),
        "delay_mean_ns": way.mean_nanos(),
        "delay_min_ns": way.min().map(|s| s.0),
        "delay_p99_ns": way.quantile(0.99).map(|s| s.0),
        "delay_max_ns": way.max().map(|s| s.0),
        "jitter_ns": jitter(way).map(|s| s.0),
    })
}

fn row(name: &str, f: &SimulatedFlow) -> Vec<String> {
    vec![
        name.to_owned(),
        text::rate(f.offered_rate.map_or(0.0, |e| e.mean)),
        text::rate(f.sent_rate.map_or(0.0, |e| e.mean)),
        text::share(f.dropped, f.offered, f.loss),
        text::delay(f.mean),
        text::delay(f.p50),
        text::delay(f.p99),
        text::span(f.delay.max()),
        format!("{} p", f.max_backlog),
    ]
}

fn json(name: &str, f: &SimulatedFlow) -> Json {
    Json {
        flow: name.to_owned(),
        offered: f.offered,
        delivered: f.sent,
        dropped: f.dropped,
        dropped_by_policy: f.dropped_by_policy,
        marked: f.marked,
        air: air_json(&f.air),
        lost: f.lost,
        duplicated: f.duplicated,
        corrupted: f.corrupted,
        reordered: f.reordered,
        loss_half_width: f.loss.and_then(|e| e.half_width),
        offered_rate: f.offered_rate.map_or(0.0, |e| e.mean),
        offered_rate_half_width: f.offered_rate.and_then(|e| e.half_width),
        delivered_rate: f.sent_rate.map_or(0.0, |e| e.mean),
        delivered_rate_half_width: f.sent_rate.and_then(|e| e.half_width),
        delay_mean_ns: f.mean.map(|e| e.mean),
        delay_mean_half_width_ns: f.mean.and_then(|e| e.half_width),
        delay_p50_ns: f.delay.quantile(0.5).map(|s| s.0),
        delay_p50_half_width_ns: f.p50.and_then(|e| e.half_width),
        delay_p99_ns: f.delay.quantile(0.99).map(|s| s.0),
        delay_p99_half_width_ns: f.p99.and_then(|e| e.half_width),
        delay_max_ns: f.delay.max().map(|s| s.0),
        max_backlog_packets: f.max_backlog,
    }
}
