//! `falaj bench sim`: packets simulated a second, through engine and registry,
//! with counters and delay histogram on.

use super::{cpu_nanos, exit, median};
use crate::show::{self, say};
use crate::sim::interruptible;
use anyhow::Result;
use falaj_engine::PipeId;
use falaj_engine::account::Account;
use falaj_engine::classifier::Classifier;
use falaj_engine::key::Key;
use falaj_engine::network::{NetworkSpec, Place};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::label::Ecn;
use falaj_sched::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::rate::Rate;
use falaj_sched::time::{Span, Time};
use falaj_sim::{Experiment, Feed, simulate};
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, SourceSpec};
use serde_json::json;
use std::process::ExitCode;

/// What `bench sim` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Packets for each figure, in millions.
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Runs for each figure; the median counts.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Only what has this in its name.
    #[arg(long)]
    only: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Discipline and its scheduler's values.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const FLOWS: [u32; 3] = [2, 16, 64];

const CASES: &[Case] = &[
    ("fifo", "fifo", &[]),
    ("drr", "drr", &[]),
    ("phase-wise", "virtual-links", &[("serve", "phase-wise")]),
    ("packet-wise", "virtual-links", &[("serve", "packet-wise")]),
    ("packet-wise, paper", "virtual-links", &[("serve", "packet-wise"), ("preset", "paper")]),
    ("packet-wise, skip", "virtual-links", &[("serve", "packet-wise"), ("tail", "skip")]),
];

/// The paper's link: 1 Gbit/s, packets of 500 B, queues of 20, load 1.0 by
/// Poisson sources, links of type A and B in turn.
fn experiment((_, kind, values): &Case, flows: u32, packets: u64) -> Experiment {
    let mut scheduler = Values::default();
    values.iter().for_each(|&(name, value)| scheduler.set(name, Value::Choice(value)));
    let flow = |f: u32| FlowSetup {
        values: Values::default()
            .with("kind", Value::Choice(if f.is_multiple_of(2) { "A" } else { "B" }))
            .with("phase", Value::Span(Span::from_micros(30))),
        limit: Limit::Packets(20),
        inner: None,
    };
    let setup = Setup { rate: Rate::from_mbit(1000), largest: 500, scheduler, flows: (0..flows).map(flow).collect() };
    let source = SourceSpec {
        model: Model::Poisson,
        rate: Rate::from_bits(1_000_000_000 / u64::from(flows)),
        sizes: Sizes::Fixed(500),
        limit: None,
        start: Time::ZERO,
        stop: Time::NEVER,
    };
    let feed = |f: u32| Feed {
        pipe: PipeId(0),
        flow: FlowId(f),
        routed: false,
        key: Key::default(),
        source: source.clone(),
        stream: f.into(),
        ecn: Ecn::Not,
        traffic: 0,
    };
    let pipe = PipeSpec::new(kind, setup, Span::ZERO);
    let place = Place { pipe, classifier: Classifier::default(), account: Account::Ip };
    Experiment {
        network: NetworkSpec { places: vec![place], rules: Vec::new(), seed: 0 },
        feeds: (0..flows).map(feed).collect(),
        duration: Span(packets * 4_000),
        warm_up: Span::ZERO,
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let mut results = Vec::new();
    let cases: Vec<&Case> = CASES.iter().filter(|c| args.only.as_ref().is_none_or(|only| c.0.contains(only))).collect();
    let bar = show::progress((cases.len() * FLOWS.len() * args.repeat.max(1)) as u64, "simulating");
    let ((), interrupted) = interruptible(|stop| {
        for case in cases {
            for flows in FLOWS {
                let experiment = experiment(case, flows, args.millions * 1_000_000);
                let mut rates = Vec::new();
                for seed in 0..args.repeat.max(1) {
                    let before = cpu_nanos();
                    let run = simulate(&experiment, seed as u64, stop).map_err(|(_, refused)| refused)?;
                    let used = cpu_nanos() - before;
                    if !run.complete {
                        return Ok(());
                    }
                    let packets: u64 = run.pipes[0].iter().map(|f| f.counters.offered).sum();
                    rates.push(packets as f64 * 1e3 / used as f64);
                    bar.inc(1);
                }
                results.push((case.0, flows, median(rates)));
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let exit = exit(interrupted, results.is_empty())?;
    if args.json {
        let all: Vec<_> = results
            .iter()
            .map(|(name, flows, rate)| json!({ "discipline": name, "flows": flows, "mpps": rate }))
            .collect();
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(exit);
    }
    say!("million packets simulated a second of CPU, one core; {} M packets, median of {}", args.millions, args.repeat);
    let rows = results.iter().map(|(name, flows, rate)| {
        vec![(*name).to_owned(), flows.to_string(), format!("{rate:.1}"), format!("{:.0}", 1e3 / rate)]
    });
    say!("{}", show::table(&["discipline", "flows", "M packets/s", "ns/packet"], rows));
    Ok(exit)
}
