//! `falaj reproduce`: a paper's numbers and figures, published beside ours.

mod fortuna;
#[cfg(feature = "png")]
mod png;

use anyhow::Result;
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `reproduce` takes.
#[derive(clap::Args)]
#[command(after_help = "\
Every cell says what was published, what we get, the difference, the tolerance and a verdict;
every figure what it claims, what we get, the threshold and a verdict.
Exit status 1 if a claim fails, or a cell is missed that is not on the closed list of known misprints.

Examples:
  falaj reproduce fortuna --out report
  falaj reproduce fortuna --figure 12 --out report")]
pub(crate) struct Args {
    /// Which paper.
    paper: Paper,
    /// Its tables. Without --tables, --figures, --figure or --beyond: tables and figures.
    #[arg(long)]
    tables: bool,
    /// Its figures.
    #[arg(long)]
    figures: bool,
    /// One of its figures.
    #[arg(long, value_name = "NUMBER")]
    figure: Option<usize>,
    /// What the paper does not have: its rows with idle time lent and tails carried over.
    #[arg(long)]
    beyond: bool,
    /// Write a page with all of it, the figures as SVG (and as PNG, where falaj was built with the feature `png`)
    /// and the numbers as JSON into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Prints the scenario file of this row of the tables instead of running anything.
    #[arg(long, value_name = "ROW", conflicts_with_all = ["tables", "figures", "figure", "beyond", "out", "json"])]
    scenario: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// Fortuna and Chydzinski: virtual links with partial isolation, Tables I-IV and Figures 5-13.
    Fortuna,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match args.paper {
        Paper::Fortuna => fortuna::main(args),
    }
}
