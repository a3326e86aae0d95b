//! `falaj bench`: the cost of falaj, beside that of the alternatives. The benchmarks are in
//! `falaj-lab`; that of a service is in `falaj-serve`.

use crate::cli::virtual_time::VirtualTimeArgs;
use anyhow::Result;
use clap::Subcommand;
use falaj_lab::bench::*;
use std::process::ExitCode;

/// What `bench` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Packets simulated a second of CPU time, on one core.
    Sim(sim::Args),
    /// Nanoseconds for each packet enqueued and dequeued, by number of flows.
    Sched(sched::Args),
    /// Nanoseconds for each packet from its headers to the end of its link, by number of rules.
    Path(path::Args),
    /// Nanoseconds and memory for each packet, queue and link where masks make many of them.
    Each(each::Args),
    /// How far behind its share the worst served flow falls, by discipline.
    Wfi(sched::wfi::Args),
    /// How near the promised delays come to being reached, by discipline.
    Bounds(bounds::Args),
    /// TCP through an emulated link beside the kernel's own ways, in one run.
    Tcp(tcp::Args),
    /// How late packets are handed over, how exact a rate is, and the CPU that it takes.
    Release(release::Args),
    /// What a link adds between two sockets, beside veth interfaces with nothing between.
    Delay(delay::Args),
    /// CPU time of solving queues, by the size of their blocks, and of a dimensioning.
    #[cfg(feature = "queueing")]
    Queueing(queueing::Args),
    /// The kernel's disciplines and ours, told by one script of tc, over the same traffic.
    Kernel(KernelArgs),
    /// A service with a thousand adapters: its memory, and how long its API takes under load.
    #[cfg(feature = "serve")]
    Serve(falaj_serve::bench::Args),
    /// What adapters are promised, and what they get while all the others send more than they may.
    Isolation(isolation::Args),
    /// Small packets forwarded a second, over each kind of port, with the engine and without.
    Io(io::Args),
}

/// What `bench kernel` takes.
#[derive(clap::Args)]
struct KernelArgs {
    #[command(flatten)]
    bench: kernel::Args,
    #[command(flatten)]
    virtual_time: VirtualTimeArgs,
}

impl KernelArgs {
    fn run(&self) -> Result<ExitCode> {
        match self.virtual_time.take_over(self.bench.seed)? {
            Some(status) => Ok(status),
            None => kernel::main(&self.bench),
        }
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        BenchCommand::Sim(args) => sim::main(args),
        BenchCommand::Sched(args) => sched::main(args),
        #[cfg(feature = "serve")]
        BenchCommand::Serve(args) => falaj_serve::bench::main(args),
        BenchCommand::Path(args) => path::main(args),
        BenchCommand::Each(args) => each::main(args),
        BenchCommand::Wfi(args) => sched::wfi::main(args),
        BenchCommand::Bounds(args) => bounds::main(args),
        BenchCommand::Tcp(args) => tcp::main(args),
        BenchCommand::Release(args) => release::main(args),
        BenchCommand::Delay(args) => delay::main(args),
        #[cfg(feature = "queueing")]
        BenchCommand::Queueing(args) => queueing::main(args),
        BenchCommand::Kernel(args) => args.run(),
        BenchCommand::Isolation(args) => isolation::main(args),
        BenchCommand::Io(args) => io::main(args),
    }
}
