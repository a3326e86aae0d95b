//! `falaj sweep`: simulates every combination of values of some keys, in shards that any machine
//! may run.

use anyhow::{Context, Result, bail};
use falaj_scenario::keys::SEED_MAX;
use falaj_sched::units::time::Span;
use falaj_sim::rows::COLUMNS;
use falaj_sim::sweep::{Axis, Results, Shard, Sweep, SweepError, Table};
use falaj_terminal::file::AlreadyReported;
use falaj_terminal::interrupt::{INTERRUPTED, interruptible};
use falaj_terminal::{arguments, file, output, progress, text};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `sweep`.
#[derive(clap::Args)]
#[command(after_help = "\
A sweep is planned once, its shards run on any machine, and their results are merged. The result of
a task depends on the plan and the task's number alone: one shard or a hundred give the same bytes,
results may be merged in any order and repeatedly, and a lost shard is run again.

Exit status: 0; 2 if shards do not belong together or the input is invalid; 130 after Ctrl-C, with
the tasks completed until then.

Examples:
  falaj sweep plan uplink.toml --over uplink.rate=10mbit,20mbit,50mbit --over scheduler=drr,qfq -o plan.jsonl
  falaj sweep run plan.jsonl --shard 3/8 -o part-3.jsonl
  falaj sweep merge part-*.jsonl -o all.jsonl --csv table.csv
In a Slurm array (--array=1-8):
  falaj sweep run plan.jsonl --shard $SLURM_ARRAY_TASK_ID/8 -o part-$SLURM_ARRAY_TASK_ID.jsonl")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: SweepCommand,
}

#[derive(clap::Subcommand)]
enum SweepCommand {
    /// Write the plan of a sweep; each combination of values is checked against the scenario.
    Plan(PlanArgs),
    /// Simulate one shard of a plan, or all of it.
    Run(RunArgs),
    /// Merge shards; print or write a table once all tasks are done.
    Merge(MergeArgs),
}

#[derive(clap::Args)]
struct PlanArgs {
    /// The scenario.
    file: PathBuf,
    /// Values of a key, in the syntax of `falaj set`; the last key varies fastest.
    #[arg(long, value_name = "KEY=VALUE,VALUE,…", value_parser = Axis::parse, required = true)]
    over: Vec<Axis>,
    /// Simulated time of each replication [default: the scenario's].
    #[arg(long, value_parser = arguments::parse_duration)]
    duration: Option<Span>,
    /// Warm-up of each replication, which is not counted.
    #[arg(long, value_parser = arguments::parse_duration)]
    warm_up: Option<Span>,
    /// Independent replications of each combination [default: the scenario's].
    #[arg(long, value_parser = arguments::number::<u32>(1..=10_000))]
    replications: Option<u32>,
    /// Seed of random numbers [default: the scenario's].
    #[arg(long, value_parser = arguments::number::<u64>(0..=SEED_MAX))]
    seed: Option<u64>,
    /// Write the plan to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
struct RunArgs {
    /// Plan, written by `falaj sweep plan`.
    plan: PathBuf,
    /// Shard to simulate: `3/8` is the third of eight.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Write the results to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
struct MergeArgs {
    /// Results, written by `run` or `merge`.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write all results to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the table to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        SweepCommand::Plan(args) => plan(args),
        SweepCommand::Run(args) => run(args),
        SweepCommand::Merge(args) => merge(args),
    }
}

/// Reports the errors of a scenario with their lines.
fn told(error: SweepError) -> anyhow::Error {
    match &error {
        SweepError::Scenario(words, diagnostics) => {
            if !words.is_empty() {
                eprintln!("with {words}:");
            }
            file::tell(diagnostics);
            AlreadyReported.into()
        }
        SweepError::Other(_) => error.into(),
    }
}

fn plan(args: &PlanArgs) -> Result<ExitCode> {
    let (name, text) = file::text(&args.file)?;
    let mut sweep = Sweep::new(&text, &name, args.over.clone()).map_err(told)?;
    if let Some(replications) = args.replications {
        sweep = sweep.replicated(replications);
    }
    if let Some(seed) = args.seed {
        sweep = sweep.seeded(seed);
    }
    if let Some(duration) = args.duration {
        sweep = sweep.lasting(duration);
    }
    if let Some(warm_up) = args.warm_up {
        sweep = sweep.warmed_up(warm_up)?;
    }
    note!("{} combinations, {} tasks", sweep.points(), sweep.tasks());
    write(args.output.as_deref(), &format!("{sweep}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let plan = read(&args.plan)?;
    let tasks = args.shard.tasks(plan.sweep());
    let bar = progress::bar(tasks, "simulating");
    let done = |n: usize| bar.set_position(n as u64);
    let (results, interrupted) =
        interruptible(|stop| plan.sweep().run(args.shard, stop, &done).map_err(told))?;
    bar.finish_and_clear();
    write(args.output.as_deref(), &results)?;
    if interrupted {
        eprintln!("interrupted: {} of {tasks} tasks", results.done());
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let (first, others) = args.files.split_first().context("there is nothing to merge")?;
    let mut all = read(first)?;
    for file in others {
        all.merge(read(file)?).with_context(|| file.display().to_string())?;
    }
    if let Some(output) = &args.output {
        write(Some(output), &all)?;
    }
    let table = match all.table() {
        Ok(table) => table,
        // A part of the shards is a result too, if it is written to a file and no table is
        // requested.
        Err(missing) if args.output.is_some() && args.csv.is_none() => {
            note!("{missing}");
            return Ok(ExitCode::SUCCESS);
        }
        Err(missing) => bail!(missing),
    };
    match &args.csv {
        Some(path) => csv(&table, path)?,
        None if args.output.is_none() => print(&table),
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Results> {
    let name = path.display().to_string();
    let bytes = falaj_scenario::bytes_of(path).with_context(|| format!("cannot read {name}"))?;
    let text = falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?;
    Results::parse(&text, &name).map_err(told)
}

/// Writes to a file, which appears under its name only when complete; or to standard output.
fn write(path: Option<&Path>, what: &impl Display) -> Result<()> {
    let Some(path) = path else {
        output::print(&what.to_string());
        return Ok(());
    };
    let place =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("cannot write {}", path.display());
    let mut file = tempfile::NamedTempFile::new_in(place).with_context(cannot)?;
    write!(file, "{what}").with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

/// Returns a value without its quotes.
fn plain(value: &str) -> &str {
    value.trim_matches('"')
}

fn print(table: &Table) {
    let mean = |name: &str| COLUMNS.iter().position(|measure| measure.name == name);
    // Only TCP connections have a goodput.
    let known = |name: &str| {
        mean(name).is_some_and(|n| table.lines.iter().any(|line| line.measures[n].is_some()))
    };
    let goodput = if known("goodput") { &[("goodput", "goodput")][..] } else { &[] };
    let rates = [("offered_rate", "offered"), ("delivered_rate", "delivered")];
    let rest = [
        ("loss", "loss"),
        ("delay_mean_ns", "mean delay"),
        ("delay_p99_ns", "p99"),
        ("delay_max_ns", "max"),
    ];
    let shown = [&rates, goodput, &rest].concat();
    let axes = table.axes.iter().map(|axis| axis.key.as_str());
    let header: Vec<&str> =
        axes.chain(["flow"]).chain(shown.iter().map(|(_, header)| *header)).collect();
    let rows = table.lines.iter().map(|line| {
        let measured = shown.iter().map(|(name, _)| {
            let estimate = mean(name).and_then(|n| line.measures[n]);
            match (*name, estimate) {
                (_, None) => text::DASH.to_owned(),
                ("delay_mean_ns", estimate) => text::delay(estimate),
                ("loss", Some(e)) => format!("{:.2} %", 100.0 * e.mean),
                (name, Some(e)) if name.ends_with("_ns") => text::nanos(e.mean),
                (_, Some(e)) => text::rate(e.mean),
            }
        });
        let values = line.values.iter().map(|value| plain(value).to_owned());
        values.chain([line.flow.clone()]).chain(measured).collect()
    });
    say!("{}", text::table(&header, rows));
    say!("p99 and max: means over the replications. All columns, with intervals: --csv FILE");
}

fn csv(table: &Table, path: &Path) -> Result<()> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(table.header())?;
    for line in &table.lines {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let who = [&line.link, &line.way, &line.flow].map(String::as_str);
        let mut fields: Vec<String> =
            line.values.iter().map(|value| plain(value)).chain(who).map(str::to_owned).collect();
        for estimate in &line.measures {
            fields.push(number(estimate.map(|e| e.mean)));
            fields.push(number(estimate.and_then(|e| e.half_width)));
        }
        out.write_record(fields)?;
    }
    let text = String::from_utf8(out.into_inner()?)?;
    write(Some(path), &text)
}
