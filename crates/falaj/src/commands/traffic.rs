//! `falaj traffic`: sends a scenario's traffic as real datagrams.

use crate::cli::virtual_time::VirtualTimeArgs;
use anyhow::Result;
use falaj_control::host_limits;
use falaj_control::summary::{FailIf, RULE_HEADER, Summary, rule_json, rule_row};
use falaj_experiment::measure::{Measured, MeasuredFlow, Measuring};
use falaj_scenario::Scenario;
use falaj_scenario::keys::SEED_MAX;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::{all_flows, fed_flows, name_of, pipe_of};
use falaj_terminal::text;
use serde_json::{Value as Json, json};
use std::process::ExitCode;

/// Arguments of `traffic`.
#[derive(clap::Args)]
#[command(after_help = "\
With rules, sources follow them by the headers of their datagrams; a source that names its `link`
has headers that the rules send through that link alone. A flow's row has the packets that its
sources sent and those that arrived, behind all links; the rows below have the packets that each
flow of each link carried.

Examples:
  falaj traffic examples/tenants.toml --duration 5s
  falaj traffic examples/reorder.toml --duration 5s")]
pub(crate) struct Args {
    #[command(flatten)]
    what: Measuring,
    #[command(flatten)]
    fail_if: FailIf,
    /// Seed of random numbers, also in the guest in virtual time [default: the scenario's].
    #[arg(long, value_name = "NUMBER", help_heading = "Virtual time",
        value_parser = falaj_terminal::arguments::number::<u64>(0..=SEED_MAX))]
    seed: Option<u64>,
    #[command(flatten)]
    virtual_time: VirtualTimeArgs,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(status) = args.virtual_time.take_over(args.seed)? {
        return Ok(status);
    }
    let wanted = args.what.read(args.seed)?;
    let scenario = &wanted.scenario;
    if let Some(status) = args.virtual_time.take_over_for(&scenario.run)? {
        return Ok(status);
    }
    args.what.tell(scenario);
    args.fail_if.check(&scenario.links)?;
    host_limits::warn(&scenario.links);
    let measured = args.what.measure(&wanted, "sending")?;
    let rows = || {
        fed_flows(scenario).into_iter().map(|at| {
            (name_of(scenario, at), &measured.flows[pipe_of(at.0, at.1).0 as usize][at.2])
        })
    };
    let carried = || {
        let several = scenario.links.len() > 1;
        let all = all_flows(scenario).into_iter().filter(move |_| several);
        let all = all.map(|at| {
            let flow = &measured.flows[pipe_of(at.0, at.1).0 as usize][at.2].link;
            (name_of(scenario, at), flow)
        });
        all.filter(|(_, flow)| flow.counters.offered > 0)
    };
    if args.what.json {
        let links: Vec<_> = carried()
            .map(|(name, flow)| {
                let delay = |share| flow.delay.quantile(share).map(|span| span.0);
                json!({
                    "flow": name, "offered": flow.counters.offered, "sent": flow.counters.sent,
                    "dropped": flow.counters.dropped(), "delay_p50_ns": delay(0.5),
                    "delay_p99_ns": delay(0.99), "delay_max_ns": flow.delay.max().map(|s| s.0),
                })
            })
            .collect();
        let flows: Vec<_> = rows()
            .map(|(name, f)| {
                json!({
                    "flow": name, "sent": f.sent, "received": f.received.datagrams,
                    "unsent": f.unsent, "sent_late_p99_ns": f.late_p99,
                    "mean_ns": f.received.mean, "p50_ns": f.received.p50, "p99_ns": f.received.p99,
                    "max_ns": f.received.max,
                })
            })
            .collect();
        say!(
            "{}",
            serde_json::to_string_pretty(&json!({
                "over": measured.over, "duration_ns": scenario.run.duration.0, "flows": flows,
                "links": links,
                "rules": rules_json(&measured), "lost_elsewhere": losses(&measured),
            }))?
        );
        return judge(args, scenario, &measured);
    }
    say!(
        "measured over {}: {}, delays from send to receive on one clock",
        measured.over,
        scenario.run.duration
    );
    let table = text::table(
        &["flow", "sent", "received", "lost", "rate", "delay mean", "p50", "p99", "max"],
        rows().map(|(name, f)| {
            vec![
                name,
                f.sent.to_string(),
                f.received.datagrams.to_string(),
                text::percent(f.sent - f.received.datagrams.min(f.sent), f.sent),
                text::rate(f.rate),
                f.received.mean.map_or(text::DASH.into(), text::nanos),
                nanos(f.received.p50),
                nanos(f.received.p99),
                nanos(f.received.max),
            ]
        }),
    );
    say!("{table}");
    if scenario.links.len() > 1 {
        let header = ["in each link", "arrived", "sent", "dropped", "delay p50", "p99", "max"];
        let rows = carried().map(|(name, flow)| {
            let packets = [flow.counters.offered, flow.counters.sent, flow.counters.dropped()];
            let delays = [flow.delay.quantile(0.5), flow.delay.quantile(0.99), flow.delay.max()];
            let delays = delays.map(text::span);
            [name].into_iter().chain(packets.map(|n| n.to_string())).chain(delays).collect()
        });
        say!("{}", text::table(&header, rows));
    }
    tell_rules(&measured);
    tell_losses(&measured);
    rows().for_each(|(name, f)| tell_unsent(&name, f));
    judge(args, scenario, &measured)
}

/// Returns the exit status: 4 if a condition of `--fail-if` holds for the link's results, and
/// otherwise that of the capture.
fn judge(args: &Args, scenario: &Scenario, measured: &Measured) -> Result<ExitCode> {
    let flows =
        measured.flows.iter().map(|pipe| pipe.iter().map(|f| f.link.clone()).collect::<Vec<_>>());
    let summary = Summary::new(&scenario.links, scenario.run.duration, flows, Vec::new());
    Ok(args.fail_if.judge(&summary)?.unwrap_or(measured.capture))
}

/// Prints how many packets the sender had no time to send, if any.
pub(crate) fn tell_unsent(name: &str, flow: &MeasuredFlow) {
    if flow.unsent > 0 {
        say!("the sender of flow {name} had no time to send {} of its packets", flow.unsent);
    }
}

pub(crate) fn nanos(ns: Option<u64>) -> String {
    text::span(ns.map(Span))
}

/// Prints what each rule matched, if the scenario has rules.
pub(crate) fn tell_rules(measured: &Measured) {
    if !measured.rules.is_empty() {
        say!(
            "{}",
            text::table(
                &RULE_HEADER,
                measured.rules.iter().map(|(name, taken)| rule_row(name, taken))
            )
        );
    }
}

/// Returns the counters of each rule as JSON.
pub(crate) fn rules_json(measured: &Measured) -> Vec<Json> {
    measured.rules.iter().map(|(name, taken)| rule_json(name, taken)).collect()
}

/// Prints the packets lost outside the queues, which belong to no flow.
pub(crate) fn tell_losses(measured: &Measured) {
    for (n, why) in measured.losses.by_reason() {
        if n > 0 {
            say!("{n} packets {why}");
        }
    }
}

/// Returns the packets lost outside the queues as JSON, by reason.
pub(crate) fn losses(measured: &Measured) -> Vec<Json> {
    let lost = measured.losses.by_reason().into_iter().filter(|(n, _)| *n > 0);
    lost.map(|(n, why)| json!({ "packets": n, "why": why })).collect()
}
