//! `falaj bench kernel`: the kernel's disciplines beside ours.
//!
//! A case is a script of `tc` and the traffic that passes. The script runs as it is in a namespace,
//! at one end of a veth pair; and the scenario that `falaj import` makes of it runs live and
//! simulated. The same sources send the same datagrams through all three.

use anyhow::{Context, Result, ensure};
use falaj_control::live_links::only_link;
use falaj_control::pacing::PacingArgs;
use falaj_experiment::measure;
use falaj_experiment::measure::measure_kernel;
use falaj_experiment::replications::Replications;
use falaj_import::{Host, tc};
use falaj_live::addressing::pipe_of;
use falaj_live::sandbox::INTERFACE;
use falaj_live::traffic::datagrams::{EndReport, FlowKey, ReceivedReport};
use falaj_scenario::{Scenario, Towards};
use falaj_sched::units::time::Span;
use falaj_sim::scenario::{fed_flows, name_of};
use falaj_terminal::{file, text};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `bench kernel` takes.
#[derive(clap::Args)]
#[command(after_help = "\
A case is a directory: `tc.sh` sets the kernel's disciplines of the device falaj0, `traffic.toml` has
`[traffic.NAME]` and `[run]` of a scenario. The kernel must have those disciplines.

Delays are from end to end, from one clock; simulated ones are of queue and propagation, without jitter.

Example:
  falaj bench kernel tests/kernel-oracle/cases/*")]
pub struct Args {
    /// The cases.
    #[arg(required = true)]
    cases: Vec<PathBuf>,
    #[command(flatten)]
    pace: PacingArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A case, read.
struct KernelCase {
    name: String,
    script: String,
    scenario: Scenario,
}

/// A flow of a case, three times.
struct KernelComparison {
    name: String,
    kernel: Through,
    live: Through,
    simulated: SimulatedCase,
}

/// What was sent, and what arrived of it.
struct Through {
    sent: u64,
    received: ReceivedReport,
}

/// A flow, simulated, with the propagation of its link.
struct SimulatedCase {
    p50: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
    /// Of all that was offered, what arrived.
    arrived: f64,
}

/// Runs `falaj bench kernel`.
///
/// # Errors
/// The input is wrong, or this machine cannot do it.
pub fn main(args: &Args) -> Result<ExitCode> {
    let cases = args.cases.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    // Namespaces are made while the program has one thread; the simulation takes more.
    let measured: Vec<_> = cases.iter().map(|case| MeasuredCase::of(case, args)).collect();
    let mut all = Vec::new();
    for (case, measured) in cases.iter().zip(measured) {
        match measured.and_then(|measured| rows(case, measured)) {
            Ok(rows) if args.json => {
                all.push(json!({
                    "case": case.name, "flows": rows.iter().map(to_json).collect::<Vec<_>>(),
                }));
            }
            Ok(rows) => print(case, &rows),
            Err(error) if args.json => {
                all.push(json!({ "case": case.name, "error": format!("{error:#}") }));
            }
            Err(error) => say!("{}: {error:#}\n", case.name),
        }
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn read(directory: &Path) -> Result<KernelCase> {
    let text = |name: &str| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let name =
        directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned();
    let (script, traffic) = (text("tc.sh")?, text("traffic.toml")?);
    let told = |errors| {
        file::tell(&errors);
        file::AlreadyReported
    };
    let imported = tc(&script, &format!("{name}/tc.sh"), &Host::default()).map_err(told)?;
    let whole = format!("{}\n{traffic}", imported.scenario);
    let (scenario, warnings) =
        falaj_scenario::parse(&whole, &format!("{name}, as it was imported")).map_err(told)?;
    file::tell(&warnings);
    ensure!(
        scenario.links[only_link(&scenario)?].name == INTERFACE,
        "{name}: the script is to set the device {INTERFACE}"
    );
    Ok(KernelCase { name, script, scenario })
}

/// What was measured of a case.
struct MeasuredCase {
    kernel: Vec<EndReport>,
    live: measure::Measured,
}

impl MeasuredCase {
    fn of(case: &KernelCase, args: &Args) -> Result<MeasuredCase> {
        let kernel = measure_kernel(&case.scenario, &case.script)?;
        let live = measure::measure(&case.scenario, args.pace.options(), "measuring")?;
        if live.losses.by_reason().into_iter().any(|(n, _)| n > 0) {
            note!("{}: some packets were lost outside of the link", case.name);
        }
        Ok(MeasuredCase { kernel, live })
    }
}

/// What was measured, and the simulation of it.
fn rows(case: &KernelCase, mut measured: MeasuredCase) -> Result<Vec<KernelComparison>> {
    let link = only_link(&case.scenario)?;
    let simulated = Replications::run(&case.scenario)?;
    let row = |at: (usize, Towards, usize)| {
        let (pipe, flow) = (pipe_of(at.1) as usize, at.2);
        let is_it = |f: FlowKey| (f.pipe as usize, f.flow as usize) == (pipe, flow);
        let kernel =
            measured.kernel.iter().flat_map(|r| &r.received).find(|r| is_it(r.flow)).cloned();
        let sent = measured
            .kernel
            .iter()
            .flat_map(|r| &r.sent)
            .filter(|s| is_it(s.flow))
            .map(|s| s.datagrams)
            .sum();
        let live = std::mem::take(&mut measured.live.flows[pipe][flow]);
        let delay = case.scenario.links[link].direction(at.1).pipe.delay;
        let sim = simulated.flow(falaj_sim::scenario::pipe_of(at.0, at.1), flow);
        let far = |span: Option<Span>| span.map(|s| (s + delay).0);
        KernelComparison {
            name: name_of(&case.scenario, at),
            kernel: Through { sent, received: kernel.unwrap_or_default() },
            live: Through { sent: live.sent, received: live.received },
            simulated: SimulatedCase {
                p50: far(sim.delay.quantile(0.5)),
                p99: far(sim.delay.quantile(0.99)),
                max: far(sim.delay.max()),
                arrived: sim.sent as f64 / sim.offered.max(1) as f64,
            },
        }
    };
    Ok(fed_flows(&case.scenario).into_iter().map(row).collect())
}

/// In microseconds, whose tenths matter here.
fn micros(nanos: Option<u64>) -> String {
    nanos.map_or(text::DASH.into(), |n| format!("{:.1}", n as f64 / 1000.0))
}

fn print(case: &KernelCase, rows: &[KernelComparison]) {
    say!("{}", case.name);
    case.script
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        .for_each(|line| say!("  {line}"));
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let lines = rows.iter().flat_map(|r| {
        let line = |name: &str, who: &str, arrived: f64, delays: [Option<u64>; 3]| {
            let [p50, p99, max] = delays.map(micros);
            vec![name.to_owned(), who.to_owned(), percent(arrived), p50, p99, max]
        };
        let measured = |name: &str, who: &str, Through { sent, received }: &Through| {
            let arrived = received.datagrams as f64 / (*sent).max(1) as f64;
            line(name, who, arrived, [received.p50, received.p99, received.max])
        };
        let simulated = &r.simulated;
        [
            measured(&r.name, "kernel", &r.kernel),
            measured("", "falaj", &r.live),
            line("", "simulated", simulated.arrived, [simulated.p50, simulated.p99, simulated.max]),
        ]
    });
    say!("{}", text::table(&["flow", "", "arrived", "delay p50, us", "p99", "max"], lines));
}

fn to_json(row: &KernelComparison) -> Json {
    let through =
        |Through { sent, received }: &Through| json!({ "sent": sent, "received": received });
    json!({
        "flow": row.name, "kernel": through(&row.kernel), "falaj": through(&row.live),
        "simulated": {
            "arrived": row.simulated.arrived, "p50": row.simulated.p50, "p99": row.simulated.p99,
            "max": row.simulated.max,
        },
    })
}
