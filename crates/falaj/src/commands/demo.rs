//! `falaj demo`: what isolation is worth, on real packets, in a minute.

use crate::cli::virtual_time::VirtualTimeArgs;
use crate::commands::compare::{BoundVerdict, ComparedFlow, Comparison};
use anyhow::Result;
use falaj_control::pacing::default_options;
use falaj_experiment::measure::measure;
use falaj_experiment::simulation::SimulationPlan;
use falaj_scenario::Scenario;
use falaj_sched::contract::params::Values;
use falaj_sched::disciplines::fifo;
use falaj_terminal::{file, text};
use std::process::ExitCode;

/// What `demo` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    virtual_time: VirtualTimeArgs,
}

/// The scenario that is shown; a file of its own, to be read and changed.
const SCENARIO: &str = include_str!("../../../../examples/tenants.toml");

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(status) = args.virtual_time.take_over(None)? {
        return Ok(status);
    }
    let mut divided = file::parse(SCENARIO, "examples/tenants.toml")?;
    divided.run.duration = falaj_sched::units::time::Span::from_secs(5);
    let shared = with_one_queue(&divided);

    say!(
        "Two tenants share a link of 100 Mbit/s. Tenant a sends 12 Mbit/s and wants to be on time;"
    );
    say!(
        "tenant b floods the link with 150 Mbit/s. Real packets, between two network namespaces.\n"
    );
    say!("1. The link divided into two virtual links (examples/tenants.toml):\n");
    let compare = |scenario: &Scenario| -> Result<Comparison> {
        let measured = measure(scenario, default_options(), "measuring")?;
        Comparison::of(scenario, &SimulationPlan::beside(scenario), measured)
    };
    let first = compare(&divided)?;
    first.print();
    if first.interrupted {
        return Ok(first.exit());
    }
    say!("\n2. The same traffic, the link not divided: one FIFO of as many packets.\n");
    let second = compare(&shared)?;
    second.print();
    if second.interrupted {
        return Ok(second.exit());
    }

    say!("\nWhat isolation is worth to tenant a, measured:");
    let a = |c: &Comparison| -> Vec<String> {
        let row: &ComparedFlow = &c.rows[0];
        let (delay, counters) = (&row.measured.link.delay, &row.measured.link.counters);
        vec![
            text::span(delay.quantile(0.5)),
            text::span(delay.quantile(0.99)),
            text::span(delay.max()),
            text::percent(counters.dropped(), counters.offered),
        ]
    };
    let rows = [("virtual links", &first), ("one FIFO", &second)].map(|(name, c)| {
        let mut row = vec![name.to_owned()];
        row.extend(a(c));
        row
    });
    say!("{}", text::table(&["tenant a behind", "delay p50", "p99", "max", "lost"], rows));
    say!("Next: change examples/tenants.toml and run `falaj compare examples/tenants.toml`.");

    // A machine too busy to hand packets over in time is no fault of the demonstration.
    let broken = [&first, &second].into_iter().any(|c| c.verdict() == BoundVerdict::Broken);
    Ok(if broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The same link and traffic with one queue for all.
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
