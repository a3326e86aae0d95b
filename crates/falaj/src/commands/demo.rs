//! `falaj demo`: shows the effect of isolation on real packets, in one minute.

use crate::cli::virtual_time::VirtualTimeArgs;
use crate::commands::compare::Comparison;
use anyhow::{Result, ensure};
use falaj_control::pacing::default_options;
use falaj_experiment::measure::measure;
use falaj_experiment::simulation::SimulationPlan;
use falaj_scenario::Scenario;
use falaj_sched::contract::params::Values;
use falaj_sched::disciplines::fifo;
use falaj_sched::units::time::Span;
use falaj_terminal::{arguments, file, text};
use serde_json::Value as Json;
use std::process::{Command, ExitCode};

/// Arguments of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Duration of the measurement of each scenario.
    #[arg(long, default_value = "5s", value_parser = arguments::parse_duration)]
    duration: Span,
    /// Print JSON: both comparisons, in the format of `compare`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    virtual_time: VirtualTimeArgs,
}

/// The demonstrated scenario, in a file of its own that users can read and change.
const SCENARIO: &str = include_str!("../../../../examples/tenants.toml");

/// The two scenarios: label, and key in JSON.
const SCENARIOS: [(&str, &str); 2] = [("virtual links", "divided"), ("one FIFO", "shared")];

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(status) = args.virtual_time.take_over(None)? {
        return Ok(status);
    }
    let mut divided = file::parse(SCENARIO, "examples/tenants.toml")?;
    divided.run.duration = args.duration;
    let shared = with_one_queue(&divided);
    let tell = |what: &str| {
        if !args.json {
            say!("{what}");
        }
    };

    tell(
        "Two tenants share a link of 100 Mbit/s. Tenant a sends 12 Mbit/s and wants to be on time;\n\
         tenant b floods the link with 150 Mbit/s. Real packets, between two network namespaces.\n",
    );
    tell("1. The link divided into two virtual links (examples/tenants.toml):\n");
    let mut told = Vec::new();
    for scenario in [&divided, &shared] {
        if !told.is_empty() {
            tell(
                "\n2. The same traffic on an undivided link: one FIFO for the same number of \
                 packets.\n",
            );
        }
        let measured = measure(scenario, default_options(), "measuring")?;
        let comparison = Comparison::of(scenario, &SimulationPlan::beside(scenario), measured)?;
        if !args.json {
            comparison.print();
        }
        if comparison.interrupted {
            return Ok(comparison.exit());
        }
        told.push(comparison.to_json());
    }
    // A machine too busy to deliver packets on time does not make the demonstration fail.
    let broken = told.iter().any(|told| told["verdict"] == "broken");
    let status = if broken { ExitCode::from(1) } else { ExitCode::SUCCESS };
    if args.json {
        let named = SCENARIOS.iter().zip(told).map(|(&(_, name), told)| (name.to_owned(), told));
        say!("{}", serde_json::to_string_pretty(&Json::Object(named.collect()))?);
        return Ok(status);
    }
    say!("\nEffect of isolation on tenant a, measured:");
    let mut rows: Vec<_> =
        SCENARIOS.iter().zip(&told).map(|(&(name, _), told)| row(name, told)).collect();
    match in_virtual_time() {
        Ok(Some(told)) => rows.extend(
            SCENARIOS
                .iter()
                .map(|&(name, key)| row(&format!("{name}, in virtual time"), &told[key])),
        ),
        // Without a kernel for virtual time, these rows are omitted.
        Ok(None) => {}
        Err(error) => note!("not measured in virtual time: {error:#}"),
    }
    say!("{}", text::table(&["tenant a behind", "delay p50", "p99", "max", "lost"], rows));
    say!("Next: change examples/tenants.toml and run `falaj compare examples/tenants.toml`.");
    Ok(status)
}

/// Returns the table row of tenant a's measurements.
fn row(name: &str, told: &Json) -> Vec<String> {
    let measured = &told["flows"][0]["measured"];
    let span = |key: &str| text::span(measured["delay"][key].as_u64().map(Span));
    let count = |key: &str| measured[key].as_u64().unwrap_or_default();
    vec![
        name.to_owned(),
        span("p50_ns"),
        span("p99_ns"),
        span("max_ns"),
        text::percent(count("dropped"), count("offered")),
    ]
}

/// Runs one second of the demonstration in virtual time and returns its JSON; `None` if no kernel
/// for virtual time is found.
fn in_virtual_time() -> Result<Option<Json>> {
    if falaj_guest::is_inside() || falaj_guest::kernel::find(None).is_err() {
        return Ok(None);
    }
    note!("a second of it in virtual time, which takes some seconds");
    let args = ["demo", "--virtual-time", "--duration", "1s", "--json", "--quiet"];
    let ran = Command::new(std::env::current_exe()?).args(args).output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr).trim());
    Ok(Some(serde_json::from_slice(&ran.stdout)?))
}

/// Returns the same link and traffic with one queue for all flows.
fn with_one_queue(scenario: &Scenario) -> Scenario {
    let mut shared = scenario.clone();
    for link in &mut shared.links {
        for direction in [&mut link.up, &mut link.down] {
            direction.pipe.kind = fifo::MANIFEST.kind;
            direction.pipe.setup.scheduler = Values::default();
        }
    }
    shared
}
