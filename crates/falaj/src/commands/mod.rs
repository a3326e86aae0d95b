//! The commands: one file or directory for each.
//!
//! A command needs its own file, and entries in two others. In this file: its module, its variant
//! with the line that `--help` shows, and the match arm that runs it. In `cli/help.rs`: its name in
//! a group. `serve`, `top` and `reproduce` are in other crates.

mod aggregate;
mod attach;
#[cfg(feature = "lab")]
mod bench;
mod bridge;
mod check;
mod choose;
mod compare;
mod demo;
mod doctor;
mod explain;
mod fmt;
mod forwarding;
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

use crate::cli;
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Simulate a scenario: delay, loss, backlog, with intervals.
    Sim(sim::Args),
    /// Simulate each combination of values of some keys, in shards.
    Sweep(sweep::Args),
    /// Print the guarantees of each flow: rate and delay.
    Plan(plan::Args),
    /// Run a command behind an emulated link.
    Run(Box<run::Args>),
    /// Forward between two interfaces through an emulated link.
    Bridge(Box<bridge::Args>),
    /// Put a link at an interface or container that is in use.
    ///
    /// In place: addresses, routes and connections stay.
    Attach(Box<attach::Args>),
    /// End an `attach`.
    Detach(attach::DetachArgs),
    /// Divide a link among virtual adapters with guarantees.
    ///
    /// Each adapter has a guaranteed rate and delay, which the service monitors.
    #[cfg(feature = "serve")]
    Serve(Box<falaj_serve::service::Args>),
    /// Monitor adapters on the terminal; change weights and caps.
    #[cfg(feature = "serve")]
    Top(falaj_serve::top::Args),
    /// Put a link between clients and a server, using sockets only.
    ///
    /// It needs no privileges.
    Relay(Box<relay::Args>),
    /// Show a running link: rates, delays, drops, backlog.
    Show(show::Args),
    /// Change keys of a running link, all at one instant.
    Set(set::Args),
    /// Give an application a link of its own, in the syntax of PlanetLab.
    Netconfig(netconfig::Args),
    /// Send a scenario's traffic as real datagrams, and measure it.
    Traffic(traffic::Args),
    /// Compare guaranteed, simulated and measured delays.
    ///
    /// With other scenarios, or --what-if, each is simulated in pairs with the first.
    Compare(compare::Args),
    /// See the effect of isolation, in a minute.
    Demo(demo::Args),
    /// Reproduce a paper's tables and figures, beside the published ones.
    #[cfg(feature = "lab")]
    Reproduce(falaj_lab::reproduce::Args),
    /// Packets in batches: savings and added delay.
    Aggregate(aggregate::Args),
    /// Measure the cost of falaj, compared with alternatives.
    #[cfg(feature = "lab")]
    Bench(bench::Args),
    /// Show which features work on this host, and why others do not.
    ///
    /// Also measure their cost, and the rates and delays that can be emulated.
    Doctor(doctor::Args),
    /// Show the kernel for virtual time, and whether it is suitable.
    Kernel(kernel::Args),
    /// Check scenario files: errors, positions, cures.
    Check(check::Args),
    /// Format scenario files; comments and order stay.
    Fmt(fmt::Args),
    /// Convert a configuration of tc or ipfw into a scenario.
    Import(import::Args),
    /// Choose a scheduling discipline by four questions.
    Choose(choose::Args),
    /// Explain a key, a discipline, or a networking term.
    Explain(explain::Args),
    /// List link presets, such as lte, and their values.
    Presets,
    /// Print the JSON Schema of the scenario file, for editors.
    Schema(explain::SchemaArgs),
    /// Print completions for a shell.
    Completions(pages::CompletionsArgs),
    /// Print the manual page, or write one for each command.
    Man(pages::ManArgs),
    /// One end of `traffic`: reads what to send and receive from standard input.
    #[command(hide = true)]
    TrafficEnd,
    /// One end of a TCP stream of `bench tcp` or `doctor`.
    #[command(hide = true)]
    TcpEnd(falaj_experiment::tcp::EndArgs),
    /// Disk load of a figure of `reproduce`; parameters on standard input.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    DiskLoad,
    /// A cell of `reproduce tcp` in its guest, or one of its ends.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    TcpCell(falaj_lab::reproduce::TcpCellArgs),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// The command failed; the error says why.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Command::Sim(args) => sim::main(&args),
            Command::Sweep(args) => sweep::main(&args),
            Command::Plan(args) => plan::main(&args),
            Command::Run(args) => run::main(*args),
            Command::Bridge(args) => bridge::main(&args),
            Command::Attach(args) => attach::main(&args),
            Command::Detach(args) => attach::detach(&args),
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
            Command::Choose(args) => choose::main(&args),
            Command::Explain(args) => explain::main(&args),
            Command::Presets => {
                say!("{}", falaj_scenario::presets().trim_end());
                Ok(ExitCode::SUCCESS)
            }
            Command::Schema(args) => explain::schema(&args),
            Command::Completions(args) => pages::completions(&args, cli::command()),
            Command::Man(args) => pages::man(&args, cli::command()),
            Command::TrafficEnd => falaj_experiment::measure::end(),
            Command::TcpEnd(args) => falaj_experiment::tcp::end(&args),
            #[cfg(feature = "lab")]
            Command::DiskLoad => falaj_lab::reproduce::disk_load(),
            #[cfg(feature = "lab")]
            Command::TcpCell(args) => falaj_lab::reproduce::tcp_cell(&args),
        }
    }
}
