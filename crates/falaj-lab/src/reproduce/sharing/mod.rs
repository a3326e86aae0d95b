//! Recent papers on TCP connections that share a link: their tables beside simulations of the same
//! links.
//!
//! | module | content |
//! |---|---|
//! | [`cebinae`] | Yu, Sonchack and Liu 2022: many connections through FIFO and FQ-CoDel, in ns-3 |
//! | [`cell`] | a cell of a table: the link, the connections, the published values; its simulation |
//! | [`judged`] | the rows: published values beside the values of falaj's runs |
//! | [`report`] | the rows printed, as JSON and as a page |
//! | [`dualq`] | Albisser 2022: PIE and FQ-CoDel with ECN beside drops, on Linux |
//! | [`l4s`] | Heist and Morton 2021: fairness by round trip, on Linux |

mod cebinae;
mod cell;
mod dualq;
mod judged;
mod l4s;
mod report;

use super::Args;
use super::cell_progress::CellProgress;
use super::verdict;
use anyhow::{Context, Result, bail};
use cell::SharedCell;
use falaj_sched::units::time::Span;
use falaj_sim::cores;
use falaj_terminal::interrupt::{INTERRUPTED, Interrupted, interruptible};
use serde::Deserialize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) use cebinae::CEBINAE;
pub(super) use dualq::DUALQ;
pub(super) use l4s::L4S;

/// The first seed of the runs.
const SEED: u64 = 1;

/// A paper with one table.
pub(super) struct SharingPaper {
    /// The paper's name in `falaj reproduce`, which is also the name of its files.
    name: &'static str,
    title: &'static str,
    source: &'static str,
    /// The assumptions for all cells.
    setting: &'static str,
    /// The cells with their published values, in the order of the table.
    cells: fn() -> Result<Vec<SharedCell>>,
    /// Cells of `--quick`: the cells whose names begin with one of these texts.
    quick: &'static [&'static str],
    /// The time that each run counts.
    counted: CountedTime,
    /// Bytes of each full segment that the paper's goodput counts.
    payload: f64,
    /// The closed list of reasons for differences, as JSON.
    known: &'static str,
}

/// The part of a run that is counted, from the start of the connections.
#[derive(Clone, Copy)]
struct CountedTime {
    from: Span,
    to: Span,
    /// The time by which the paper divides the counted bytes.
    divisor: Span,
}

/// The reason for differences of the cells whose names begin with `cell`.
#[derive(Deserialize)]
struct KnownDifference {
    cell: String,
    /// Beginnings of the statements concerned; empty: all statements of the cell.
    #[serde(default)]
    statements: Vec<String>,
    why: String,
    /// The command that shows the reason; `None`: the cell's own command.
    experiment: Option<String>,
}

/// The number of runs of each cell.
fn runs(is_quick: bool) -> u64 {
    if is_quick { 4 } else { 8 }
}

/// Runs `falaj reproduce` for one of these papers.
pub(super) fn main(paper: &SharingPaper, args: &Args) -> Result<ExitCode> {
    if args.tables || args.figures || args.figure.is_some() || args.beyond || args.live {
        bail!(
            "{} is one table, simulated: leave out --tables, --figures, --figure, --beyond and --live",
            paper.name
        );
    }
    let mut cells = (paper.cells)()?;
    if let Some(number) = args.scenario {
        let cell = number.checked_sub(1).and_then(|index| cells.get(index));
        let Some(cell) = cell else { bail!("there is no row {number}: 1 to {}", cells.len()) };
        if let Some(why) = &cell.why {
            bail!("row {number}, {}, is not judged: {why}", cell.name);
        }
        say!("{}", cell.scenario(paper.counted.to, SEED));
        return Ok(ExitCode::SUCCESS);
    }
    let quick = paper.quick.iter().map(|&name| name.to_owned()).collect();
    let wanted = if args.quick && args.only.is_empty() { &quick } else { &args.only };
    let is_wanted = |cell: &SharedCell| wanted.iter().any(|name| cell.name.starts_with(name));
    cells.retain(|cell| wanted.is_empty() || is_wanted(cell));
    if cells.is_empty() {
        let names = paper.quick.join(" or ");
        bail!(
            "no cell has a name that begins with {}: names begin as {names}",
            args.only.join(" or ")
        );
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .with_context(|| format!("cannot make the directory {}", out.display()))?;
    }
    let began = Instant::now();
    let runs = runs(args.quick);
    let (results, interrupted) = interruptible(|stop| results(paper, &cells, runs, stop))?;
    if interrupted && results.iter().all(Vec::is_empty) {
        return Err(Interrupted("before the first cell was done").into());
    }
    // A cell is left out if some of its runs are missing.
    let is_done = |cell: &SharedCell, runs_of: &Vec<Vec<f64>>| {
        cell.why.is_some() || runs_of.len() as u64 == runs
    };
    let done: Vec<(&SharedCell, Vec<Vec<f64>>)> =
        cells.iter().zip(results).filter(|(cell, of)| is_done(cell, of)).collect();
    let rows = judged::rows(paper, &done)?;
    report::tell(paper, args, &done, &rows, began.elapsed())?;
    if interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(verdict::exit_code(&rows))
}

/// Runs all cells on all processors. Returns, for each cell, the values of each complete run.
fn results(
    paper: &SharingPaper,
    cells: &[SharedCell],
    runs: u64,
    stop: &AtomicBool,
) -> Result<Vec<Vec<Vec<f64>>>> {
    let tasks: Vec<(usize, u64)> = (0..cells.len())
        .filter(|&index| cells[index].why.is_none())
        .flat_map(|index| (SEED..SEED + runs).map(move |seed| (index, seed)))
        .collect();
    let progress = CellProgress::new(tasks.len(), "runs");
    let task = |number: usize| {
        let (index, seed) = tasks[number];
        let run = cells[index].simulate(paper, seed, stop);
        // A run ended by Ctrl-C has no values.
        if stop.load(Ordering::Relaxed) { Ok(None) } else { run.map(Some) }
    };
    let mut done = Vec::new();
    progress.while_told(|progress| {
        cores::on_all(0..tasks.len(), stop, task, |number, values: Option<Vec<f64>>| {
            progress.one_more();
            done.extend(values.map(|values| (number, values)));
        })
    })?;
    // Sorted by seed, because a sum of floating-point numbers depends on their order.
    done.sort_by_key(|(number, _)| *number);
    let mut results = vec![Vec::new(); cells.len()];
    for (number, values) in done {
        results[tasks[number].0].push(values);
    }
    Ok(results)
}
