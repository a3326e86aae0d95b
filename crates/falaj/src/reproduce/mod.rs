//! `falaj reproduce`: a paper's numbers, published beside ours.

mod fortuna;

use anyhow::Result;
use clap::ValueEnum;
use std::process::ExitCode;

/// What `reproduce` takes.
#[derive(clap::Args)]
#[command(after_help = "\
Every cell says what was published, what we get, the difference, the tolerance and a verdict.
Exit status 1 if a cell is missed that is not on the closed list of known misprints.

Example:
  falaj reproduce fortuna --tables")]
pub(crate) struct Args {
    /// Which paper.
    paper: Paper,
    /// Its tables (all there is so far, and the default).
    #[arg(long)]
    tables: bool,
    /// Prints the scenario file of this row of the tables instead of running anything.
    #[arg(long, value_name = "ROW")]
    scenario: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// Fortuna and Chydzinski: virtual links with partial isolation, Tables I-IV.
    Fortuna,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match args.paper {
        Paper::Fortuna => fortuna::main(args.scenario, args.json),
    }
}
