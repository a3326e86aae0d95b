//! `falaj aggregate`: packets in containers from one process to another.

mod bench;
mod consumer;
mod formula;
mod producer;

use anyhow::Result;
use clap::Subcommand;
use falaj_scenario::parse_span;
use falaj_sched::time::Span;
use std::process::ExitCode;

/// What `aggregate` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Packets a second, processor time and delay: one by one, in containers, with containers that leave when the
    /// reader is idle.
    Bench(bench::Args),
    /// The other process: takes its side of the rings from standard input.
    #[command(hide = true)]
    Consumer(consumer::Args),
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Bench(args) => bench::main(args),
        What::Consumer(args) => consumer::main(args),
    }
}

/// What a crossing is declared to cost on the reader's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of each container.
    pub(crate) container: Span,
    /// Of each packet in it.
    pub(crate) packet: Span,
}

impl Cost {
    /// Of a container with so many packets.
    fn of(self, packets: u32) -> Span {
        self.container + self.packet * u64::from(packets)
    }
}

/// `11.4us,1.07us`.
fn cost(text: &str) -> Result<Cost, String> {
    let both =
        text.split_once(',').ok_or("two times with a comma between: of a container, of a packet: 11.4us,1.07us")?;
    let span = |text: &str| parse_span(text).map_err(|error| error.to_string());
    Ok(Cost { container: span(both.0)?, packet: span(both.1)? })
}
