//! `falaj bench kernel`: compares the kernel's disciplines with falaj's.
//!
//! A case is a script of `tc` and its traffic. The script runs unchanged in a namespace, at one end
//! of a veth pair. `falaj import` converts the script to a scenario, which runs live and in
//! simulation. The same sources send the same datagrams in all three.
//!
//! | module | content |
//! |---|---|
//! | `compared` | a flow through the kernel, through falaj and in simulation, and the differences |
//! | `report` | the results as a table and as JSON |

mod compared;
mod report;

use self::compared::{ComparedFlow, MeasuredCase};
use anyhow::{Context, Result, ensure};
use falaj_control::live_links::only_link;
use falaj_control::pacing::PacingArgs;
use falaj_import::{Host, tc};
use falaj_live::sandbox::INTERFACE;
use falaj_scenario::Scenario;
use falaj_terminal::file;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `bench kernel`.
#[derive(clap::Args)]
#[command(after_help = "\
A case is a directory: `tc.sh` sets the kernel's disciplines of the device falaj0, `traffic.toml`
has `[traffic.NAME]` and `[run]` of a scenario. The kernel must have those disciplines; the kernel
that `make kernel` builds for --virtual-time has all of them.

Delays are end to end: measured ones from sending to receiving, on one clock; simulated ones from
queue to delivery. `- kernel` is the difference from the kernel. The line below the table compares
the delays of each packet that arrived through the kernel and through live falaj.

Exit status: 0; 2 if a case could not be measured.

Examples:
  falaj bench kernel --virtual-time tests/kernel-oracle/cases/*
  falaj bench kernel tests/kernel-oracle/cases/tbf --json")]
pub struct Args {
    /// Directories of the cases.
    #[arg(required = true)]
    cases: Vec<PathBuf>,
    #[command(flatten)]
    pace: PacingArgs,
    /// Seed of random numbers, also in a guest in virtual time [default: the case's].
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A case with its scenario.
struct KernelCase {
    name: String,
    script: String,
    scenario: Scenario,
}

impl KernelCase {
    fn measure(&self, args: &Args) -> Result<MeasuredCase> {
        let measured = MeasuredCase::of(self, args.pace.options())?;
        if measured.lost_elsewhere() {
            note!("{}: some packets were lost outside of the link", self.name);
        }
        Ok(measured)
    }
}

/// Runs `falaj bench kernel`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let cases = args.cases.iter().map(|path| read(path, args)).collect::<Result<Vec<_>>>()?;
    // Namespaces must be created while the process is single-threaded; the simulation may use
    // threads.
    let measured: Vec<_> = cases.iter().map(|case| case.measure(args)).collect();
    let mut failed = false;
    let mut all = Vec::new();
    for (case, measured) in cases.iter().zip(measured) {
        match measured.and_then(|measured| ComparedFlow::all(case, &measured)) {
            Ok(flows) if args.json => all.push(json!({
                "case": case.name, "flows": flows.iter().map(report::to_json).collect::<Vec<_>>(),
            })),
            Ok(flows) => report::print(case, &flows),
            Err(error) => {
                failed = true;
                if args.json {
                    all.push(json!({ "case": case.name, "error": format!("{error:#}") }));
                } else {
                    say!("{}: {error:#}\n", case.name);
                }
            }
        }
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(ExitCode::from(if failed { 2 } else { 0 }))
}

fn read(directory: &Path, args: &Args) -> Result<KernelCase> {
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
    // Paths of captures are relative to the case's directory.
    let place = directory.join("scenario imported from tc.sh, followed by traffic.toml");
    let (mut scenario, warnings) =
        falaj_scenario::parse(&whole, &place.to_string_lossy()).map_err(told)?;
    file::tell(&warnings);
    if let Some(seed) = args.seed {
        scenario.begin_at(seed);
    }
    file::make_room_for_marks(&mut scenario);
    ensure!(
        scenario.changes.is_empty(),
        "{name}: the script must run without `sleep`, before the traffic begins"
    );
    ensure!(
        scenario.links[only_link(&scenario)?].name == INTERFACE,
        "{name}: the script must set the device {INTERFACE}"
    );
    Ok(KernelCase { name, script, scenario })
}
