//! A service with ten adapters in memory, which is under load and is queried over its API. The
//! example runs the same code as `falaj bench serve`.
//! `cargo run --release -p falaj-serve --example a_service_in_memory`

use clap::Parser;
use falaj_serve::bench;
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: bench::Args,
}

pub(crate) fn main() -> anyhow::Result<ExitCode> {
    let few = ["bench", "--adapters", "10", "--conversations", "5"];
    let cli = Cli::parse_from(few.into_iter().chain(["--packets", "1000", "--duration", "1s"]));
    bench::main(&cli.args)
}
