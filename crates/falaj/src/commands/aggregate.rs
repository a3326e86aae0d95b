//! `falaj aggregate`: packets in batches from one process to another. Its measurements are in
//! `falaj-lab`.

use anyhow::Result;
use clap::Subcommand;
use falaj_control::batching::Batching;
#[cfg(feature = "lab")]
use falaj_lab::aggregate::{bench, consumer, tune};
use falaj_live::backend::batch::serve;
use falaj_live::priority::{self, Rank};
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// Arguments of `aggregate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: AggregateCommand,
}

#[derive(Subcommand)]
enum AggregateCommand {
    /// Packets per second, CPU time and delay: of single packets, of batches, and of batches that
    /// leave when the reader is idle.
    #[cfg(feature = "lab")]
    Bench(bench::Args),
    /// Batches tuned for a delay, compared with the best fixed batches: delay, CPU time, and
    /// reaction to a step of the load.
    #[cfg(feature = "lab")]
    Tune(tune::Args),
    /// The other process: inherits its side of the rings by standard input.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Consumer(consumer::Args),
    /// The far end of `run --aggregate`, or the guest of an adapter: inherits its side of the rings
    /// and its interface by standard input.
    #[command(hide = true)]
    Guest { asked: Batching },
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        #[cfg(feature = "lab")]
        AggregateCommand::Bench(args) => bench::main(args),
        #[cfg(feature = "lab")]
        AggregateCommand::Consumer(args) => consumer::main(args),
        #[cfg(feature = "lab")]
        AggregateCommand::Tune(args) => tune::main(args),
        AggregateCommand::Guest { asked } => {
            priority::be_punctual(Rank::Receiver);
            let packer = |asked: &Batching| asked.packer("back from the far end");
            serve(io::stdin().as_fd().try_clone_to_owned()?, packer(asked)?, |message| {
                packer(&message.parse().ok()?).ok()
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
