//! `falaj plan`: prints the guarantees of a scenario, before anything runs. The computation is in
//! `falaj-plan`.
//!
//! | module | task |
//! |---|---|
//! | [`stations`] | throughput of the stations of a radio channel, if all always have packets |
//! | [`whatif`] | the scenario with other values |
//! | [`fits`] | `plan fits`: checks whether all flows fit, and how many more would fit |
//! | [`example`] | `plan example`: networks of the literature, as scenarios |
//! | [`method`] | names of the methods of bounds over several links |
//! | [`saihu`] | `plan saihu`: bounds for a network in the format of other tools |
//! | [`phases`] | the guarantees from each scheduled change on |
//! | [`report`] | prints a plan as text |
//! | `aggregate` | `plan aggregate`: sizes of batches |
//! | `draw` | the curves and their distances, as SVG |

#[cfg(feature = "queueing")]
mod aggregate;
#[cfg(feature = "plots")]
mod draw;
mod example;
mod fits;
mod method;
mod phases;
mod report;
mod saihu;
mod stations;
pub(crate) mod whatif;

use anyhow::{Context, Error, Result, bail};
use falaj_plan::network::Routes;
use falaj_plan::{Way, counterpart, plan};
use falaj_scenario::edit::{Set, parse_set};
use method::Method;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use whatif::WhatIf;

/// Arguments of `plan`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
A flow may have requirements, and the plan is refused if its guarantee does not meet them. It may
also have an envelope, the most that it sends, which bounds its delay and its backlog:
  [link.uplink.flow.voice]
  requires = { rate = \"10mbit\", delay = \"5ms\" }
  envelope = { rate = \"10mbit\", burst = \"3kB\" }
Without an envelope one is derived from the flow's traffic, unless that is Poisson. A requirement
is judged by the guarantee for any traffic of the flow, or by the envelopes that flows declare.

KEY is a path in the file, link.uplink.flow.voice.phase, or a part of it that is unique.

Exit status: 0 all requirements are met; 1 one is not; 2 the input is invalid.

Examples:
  falaj plan uplink.toml
  falaj plan uplink.toml --requires voice.delay=3ms
  falaj plan uplink.toml --what-if voice.phase=60us --what-if uplink.rate=1gbit
  falaj plan uplink.toml --svg plan.svg
  falaj plan chain.toml --saihu network.json
  falaj plan example sink-tree > tree.toml && falaj plan tree.toml --method linear"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<PlanCommand>,
    /// The scenario.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Requirement of a flow, in addition to the file: `voice.delay=3ms`, `voice.rate=10mbit`.
    #[arg(long, value_name = "FLOW.KEY=VALUE", value_parser = parse_set)]
    requires: Vec<Set>,
    /// Plan with another value, and compare with the unchanged file; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_set)]
    what_if: Vec<Set>,
    /// Draw each flow's curves into one file, `*.svg`, `*.png` or `*.pdf`, or a file for each into
    /// a directory.
    #[arg(long, visible_alias = "plot", value_name = "PATH")]
    svg: Option<PathBuf>,
    /// Show only this bound over several links.
    #[arg(long, value_name = "NAME")]
    method: Option<Method>,
    /// Export servers and flows for Saihu's tools, as an output-port network.
    #[arg(long, value_name = "FILE.json")]
    saihu: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum PlanCommand {
    /// Check whether all flows with requirements fit on the link, and how many more would
    Fits(fits::Args),
    /// Print a network of the literature as a scenario
    Example(example::Args),
    /// Compute bounds for a network of servers and flows in Saihu's format.
    Saihu(saihu::Args),
    /// Find the batch size that keeps a delay, its cost, and the number of virtual machines that
    /// fit.
    #[cfg(feature = "queueing")]
    Aggregate(aggregate::Args),
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        Some(PlanCommand::Fits(args)) => return fits::main(args),
        Some(PlanCommand::Example(args)) => return example::main(args),
        Some(PlanCommand::Saihu(args)) => return saihu::main(args),
        #[cfg(feature = "queueing")]
        Some(PlanCommand::Aggregate(args)) => return aggregate::main(args),
        None => {}
    }
    let file = args.file.as_ref().context("the scenario is missing: `falaj plan FILE`")?;
    let (name, text) = falaj_terminal::file::text(file)?;
    let (mut changed, mut scenario) = WhatIf::new(text, &name)?;
    if !args.requires.is_empty() {
        scenario = changed.set("--requires", &args.requires, true)?;
    }
    let other = if args.what_if.is_empty() {
        None
    } else {
        Some(changed.set("--what-if", &args.what_if, false)?)
    };
    let before = plan(&scenario)?;
    let after = other.as_ref().map(plan).transpose()?;
    let ways = after.as_ref().unwrap_or(&before);
    let before = after.as_ref().map(|_| &before);
    let mut refused = ways.iter().any(|w| !w.unmet.is_empty());
    let planned = other.as_ref().unwrap_or(&scenario);
    let routes = Routes::of(planned, ways);
    if args.method.is_some() && routes.as_ref().is_ok_and(|routes| !routes.is_network()) {
        bail!(
            "--method: no traffic passes several links, and one link has no choice of methods; \
             rules lead traffic over several, as in `falaj plan example tandem`"
        );
    }
    let phases = phases::phases(planned);
    if args.json {
        let only = args.method.map(Method::of_theory);
        let mut all = falaj_plan::json::all(planned, ways, before, only);
        let (of_phases, unmet) = phases::json(&phases, only)?;
        all["phases"] = of_phases;
        refused |= unmet;
        say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        for way in ways {
            match counterpart(way, before) {
                _ if way.same => say!("{}: the same, without traffic\n", way.name()),
                before => report::print(way, before),
            }
        }
        refused |= phases::print(&phases)?;
        report::end_to_end(&routes, args.method);
    }
    if let Some(path) = &args.saihu {
        let network = routes.map_err(Error::msg).and_then(|routes| saihu_of(file, &routes));
        let text = serde_json::to_string_pretty(&network.context("--saihu")?)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.svg {
        draw(path, ways)?;
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn saihu_of(file: &Path, routes: &Routes) -> Result<serde_json::Value> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    falaj_plan::saihu::write(&name, routes).map_err(Error::msg)
}

#[cfg(feature = "plots")]
fn draw(path: &Path, ways: &[Way<'_>]) -> Result<()> {
    for line in draw::write(path, ways)? {
        eprintln!("{line}");
    }
    Ok(())
}

#[cfg(not(feature = "plots"))]
fn draw(_: &Path, _: &[Way<'_>]) -> Result<()> {
    bail!("--svg: falaj was built without `plots`")
}
