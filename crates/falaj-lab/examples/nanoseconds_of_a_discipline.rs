//! The cost of deficit round robin for each packet, in nanoseconds: calls `falaj bench sched`.
//! `cargo run --release -p falaj-lab --example nanoseconds_of_a_discipline`

use clap::Parser;
use falaj_lab::bench::sched;
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: sched::Args,
}

pub(crate) fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse_from(["bench", "--alg", "drr", "--flows", "16", "-n", "10k"]);
    sched::main(&cli.args)
}
