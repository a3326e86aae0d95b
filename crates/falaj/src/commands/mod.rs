//! The commands: a file for each, or a folder.
//!
//! A command is its file and four lines here: its module, its variant with the line that `--help`
//! shows, and the arm that runs it. `serve`, `top` and `reproduce` are in crates of their own.

mod aggregate;
#[cfg(feature = "lab")]
mod bench;
mod bridge;
mod check;
mod compare;
mod demo;
mod doctor;
mod explain;
mod fmt;
mod import;
mod kernel;
mod netconfig;
mod pages;
mod plan;
mod relay;
mod run;
mod set;
mod show;
mod sim;
mod sweep;
mod traffic;

use crate::cli::Cli;
use anyhow::Result;
use clap::{CommandFactory, Subcommand};
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Simulate a scenario: delay, loss and backlog of each flow, with confidence intervals.
    Sim(sim::Args),
    /// Simulate a scenario with other values, each combination of them: plan, run in shards, merge.
    Sweep(sweep::Args),
    /// What a scenario promises each flow: rate and delay, by which formula.
    Plan(plan::Args),
    /// Run a command behind an emulated link.
    Run(Box<run::Args>),
    /// Forward between two interfaces through an emulated link.
    Bridge(Box<bridge::Args>),
    /// Divide a link among virtual adapters, promise each a rate and a delay, and keep watch over
    /// it.
    #[cfg(feature = "serve")]
    Serve(Box<falaj_serve::service::Args>),
    /// Watch adapters and their promises on the terminal, and change weights and caps.
    #[cfg(feature = "serve")]
    Top(falaj_serve::top::Args),
    /// Put an emulated link between whoever connects and where to; by sockets alone, without
    /// privilege.
    Relay(Box<relay::Args>),
    /// Show what a link that is running does: rates, delays, drops, backlog.
    Show(show::Args),
    /// Change a link that is running: any key of its scenario, all at one instant.
    Set(set::Args),
    /// Give what an application sends and receives a link of its own: PlanetLab's one command for
    /// both directions.
    Netconfig(netconfig::Args),
    /// Send a scenario's traffic through its link as real datagrams and measure it.
    Traffic(traffic::Args),
    /// Bound, simulated and measured, side by side: the signature table; or two scenarios simulated
    /// in pairs.
    Compare(compare::Args),
    /// See what isolation is worth, in a minute.
    Demo(demo::Args),
    /// A paper's tables and figures, published beside ours.
    #[cfg(feature = "lab")]
    Reproduce(falaj_lab::reproduce::Args),
    /// Packets in containers from one process to another: what it saves, and what it delays.
    Aggregate(aggregate::Args),
    /// What falaj costs, beside what it is compared with.
    #[cfg(feature = "lab")]
    Bench(bench::Args),
    /// What works on this host and why the rest doesn't, what it costs, and what can honestly be
    /// emulated.
    Doctor(doctor::Args),
    /// The kernel that virtual time uses: where it is, and whether it will do.
    Kernel(kernel::Args),
    /// Check scenario files: what is wrong with them, where, and what to write instead.
    Check(check::Args),
    /// Lay scenario files out in one way; comments and the order of keys stay.
    Fmt(fmt::Args),
    /// Make a scenario of another tool's configuration: tc, ipfw.
    Import(import::Args),
    /// Explain a key of the scenario file, or a discipline.
    Explain(explain::Args),
    /// Links that many know by a name: their numbers, and where these are from.
    Presets,
    /// Print the JSON Schema of the scenario file, for editors.
    Schema(explain::SchemaArgs),
    /// Print what a shell needs to complete falaj's commands.
    Completions(pages::CompletionsArgs),
    /// Print the manual page, or write one for each command.
    Man(pages::ManArgs),
    /// One end of `traffic`: reads what to send and receive from standard input.
    #[command(hide = true)]
    TrafficEnd,
    /// One end of a TCP stream of `bench tcp` or `doctor`.
    #[command(hide = true)]
    TcpEnd(falaj_experiment::tcp::EndArgs),
    /// What writes to the disk in a figure of `reproduce`, told by standard input.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    DiskLoad,
    /// A cell of `reproduce tcp` in its guest, or one of its ends.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    TcpCell(falaj_lab::reproduce::TcpCellArgs),
}

impl Command {
    /// Runs it.
    ///
    /// # Errors
    /// Why it ends without its result.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Command::Sim(args) => sim::main(&args),
            Command::Sweep(args) => sweep::main(&args),
            Command::Plan(args) => plan::main(&args),
            Command::Run(args) => run::main(*args),
            Command::Bridge(args) => bridge::main(&args),
            #[cfg(feature = "serve")]
            Command::Serve(args) => falaj_serve::service::main(&args),
            #[cfg(feature = "serve")]
            Command::Top(args) => falaj_serve::top::main(&args),
            Command::Relay(args) => relay::main(&args),
            Command::Show(args) => show::main(&args),
            Command::Set(args) => set::main(&args),
            Command::Netconfig(args) => netconfig::main(&args),
            Command::Traffic(args) => traffic::main(&args),
            Command::Compare(args) => compare::main(&args),
            Command::Demo(args) => demo::main(&args),
            #[cfg(feature = "lab")]
            Command::Reproduce(args) => falaj_lab::reproduce::main(&args),
            Command::Aggregate(args) => aggregate::main(&args),
            #[cfg(feature = "lab")]
            Command::Bench(args) => bench::main(&args),
            Command::Doctor(args) => doctor::main(&args),
            Command::Kernel(args) => kernel::main(&args),
            Command::Check(args) => check::main(&args),
            Command::Fmt(args) => fmt::main(&args),
            Command::Import(args) => import::main(&args),
            Command::Explain(args) => explain::main(&args),
            Command::Presets => {
                say!("{}", falaj_scenario::presets().trim_end());
                Ok(ExitCode::SUCCESS)
            }
            Command::Schema(args) => explain::schema(&args),
            Command::Completions(args) => pages::completions(&args, Cli::command()),
            Command::Man(args) => pages::man(&args, Cli::command()),
            Command::TrafficEnd => falaj_experiment::measure::end(),
            Command::TcpEnd(args) => falaj_experiment::tcp::end(&args),
            #[cfg(feature = "lab")]
            Command::DiskLoad => falaj_lab::reproduce::disk_load(),
            #[cfg(feature = "lab")]
            Command::TcpCell(args) => falaj_lab::reproduce::tcp_cell(&args),
        }
    }
}
