//! `falaj bench`: the cost of falaj, compared with the cost of alternatives. The benchmarks are in
//! `falaj-lab`; the benchmark of a service is in `falaj-serve`.

use crate::cli::virtual_time::VirtualTimeArgs;
use anyhow::Result;
use clap::Subcommand;
use falaj_lab::bench::*;
use std::process::ExitCode;

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Packets simulated per second of CPU time, on one core.
    Sim(sim::Args),
    /// Nanoseconds for each packet enqueued and dequeued, by number of flows.
    Sched(sched::Args),
    /// Nanoseconds for each packet from its headers to the end of its link, by number of rules.
    Path(path::Args),
    /// Nanoseconds and memory for each packet, queue and link if masks create many queues and
    /// links.
    Masks(masks::Args),
    /// Largest lag of a flow behind its fair share (worst-case fairness), by discipline.
    Wfi(sched::wfi::Args),
    /// Ratio of the largest delay found to the guaranteed bound, by discipline.
    Bounds(bounds::Args),
    /// TCP through an emulated link, compared with the kernel's own emulation, in one run.
    Tcp(tcp::Args),
    /// Release error (lateness of packets), accuracy of rates, and CPU time.
    Release(release::Args),
    /// Delay added by a link between two sockets, compared with veth interfaces without one.
    Delay(delay::Args),
    /// CPU time to solve queues, by block size, and to dimension batches.
    #[cfg(feature = "queueing")]
    Queueing(queueing::Args),
    /// The kernel's disciplines and falaj's, configured by one tc script, with the same traffic.
    Kernel(KernelArgs),
    /// A service with a thousand adapters: memory, and API latency under load.
    #[cfg(feature = "serve")]
    Serve(falaj_serve::bench::Args),
    /// Guarantees of adapters, and their service while all but one send more than their share.
    Isolation(isolation::Args),
    /// Small packets forwarded per second, by kind of port, with and without the engine.
    Io(io::Args),
}

/// Arguments of `bench kernel`.
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
        BenchCommand::Masks(args) => masks::main(args),
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
