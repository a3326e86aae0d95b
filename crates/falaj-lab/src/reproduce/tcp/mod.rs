//! The kernel's TCP in virtual time, compared with the simulation's, over a grid of links.
//!
//! | module | content |
//! |---|---|
//! | [`grid`] | cells: links, queues, congestion controls; their durations |
//! | [`kernel`] | a cell in a guest: real connections over the link |
//! | [`simulated`] | the same cell simulated |
//! | [`measured`] | the results of a cell on one side |
//! | [`judged`] | the comparison of both sides |
//! | [`reasons`] | reasons for differences, a closed list |
//! | [`report`] | the table, printed, as JSON and as a page |

mod grid;
mod judged;
mod kernel;
mod measured;
mod reasons;
mod report;
mod simulated;

use super::Args;
use super::cell_progress::CellProgress;
use super::verdict;
use anyhow::{Context, Result, bail};
use falaj_guest::kernel::Kernel;
use falaj_sim::cores;
use falaj_terminal::interrupt::{INTERRUPTED, Interrupted, interruptible};
use grid::{Cell, Size};
use judged::Row;
use measured::Measured;
use simulated::simulate_cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use kernel::{TcpCellArgs, main as cell};

/// The first seed of the kernel's runs and of the model's.
const SEED: u64 = 1;
/// Number of runs of the model.
const RUNS: u64 = 8;
/// Number of runs of the kernel with random losses; without loss its runs are identical.
const KERNEL_RUNS: u64 = 3;

/// Runs `falaj reproduce tcp`.
pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if args.tables || args.figures || args.figure.is_some() || args.beyond || args.live {
        bail!(
            "tcp is one table, measured in virtual time: leave out --tables, --figures, --figure, --beyond and --live"
        );
    }
    if args.scenario.is_some() || args.guests.is_some() {
        bail!("--scenario and --guests are not for tcp: leave them out");
    }
    let size = match (args.quick, args.full) {
        (true, _) => Size::Quick,
        (_, true) => Size::Full,
        _ => Size::Usual,
    };
    let mut cells = size.cells();
    let only = &args.only;
    cells.retain(|cell| only.is_empty() || only.iter().any(|o| cell.to_string().starts_with(o)));
    if cells.is_empty() {
        bail!(
            "no cell of this grid has a name that begins with {}: names are as in {}",
            only.join(" or "),
            Size::Quick.cells()[0]
        );
    }
    let kernel = falaj_guest::kernel::find(args.kernel.as_deref())?;
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .with_context(|| format!("cannot make the directory {}", out.display()))?;
    }
    let began = Instant::now();
    let (rows, interrupted) = interruptible(|stop| rows(&cells, size, &kernel, stop))?;
    if rows.is_empty() && interrupted {
        return Err(Interrupted("before the first cell was done").into());
    }
    report::tell(args, &kernel, &rows, began.elapsed())?;
    if interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(verdict::exit_code(&report::judged(&rows)))
}

/// Runs all cells on all processors. If the run is stopped, returns the rows of the cells that are
/// done.
fn rows(cells: &[Cell], size: Size, kernel: &Kernel, stop: &AtomicBool) -> Result<Vec<Row>> {
    let progress = CellProgress::new(cells.len(), "cells");
    let mut done = Vec::new();
    let task = |number: usize| match row(&cells[number], size, kernel, stop) {
        // A cell ended by Ctrl-C is neither a row nor a failure.
        _ if stop.load(Ordering::Relaxed) => Ok(None),
        row => row.map(Some),
    };
    progress.while_told(|progress| {
        cores::on_all(0..cells.len(), stop, task, |number, row: Option<Row>| {
            progress.one_more();
            done.extend(row.map(|row| (number, row)));
        })
    })?;
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, row)| row).collect())
}

fn row(cell: &Cell, size: Size, kernel: &Kernel, stop: &AtomicBool) -> Result<Row> {
    let times = cell.times(size.periods());
    let segments = cell.segments(times);
    if segments > size.segments() {
        let why = format!(
            "takes {} segments for {} periods of the window, and a cell has at most {}",
            segments,
            size.periods(),
            size.segments()
        );
        return Ok(Row::unjudged(*cell, times, why));
    }
    let runs = if cell.loss > 0.0 { KERNEL_RUNS } else { 1 };
    let measured: Vec<Measured> = (SEED..SEED + runs)
        .map(|seed| kernel::measure(cell, kernel, size.periods(), seed))
        .collect::<Result<_>>()?;
    let simulated: Vec<Measured> = (SEED..SEED + RUNS)
        .map(|seed| simulate_cell(cell, times, seed, stop))
        .collect::<Result<_>>()?;
    Ok(Row::judged(*cell, times, &measured, &simulated))
}
