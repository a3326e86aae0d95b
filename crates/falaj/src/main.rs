//! falaj divides a link into virtual links with guarantees, and emulates any
//! link: on live packets, in simulated time, and in closed form.
//!
//! | module | command |
//! |---|---|
//! | [`sim`], [`mod@sweep`], [`plan`], [`run`], [`bridge`], [`relay`], [`traffic`], [`compare`] | of the same name |
//! | `serve` (feature `serve`) | of the same name: virtual adapters with promises, their API and dashboard; `top` |
//! | [`hosts`] | `run` with more than two ends |
//! | [`check`], [`mod@fmt`], [`import`], [`explain`] | of the same name; `explain` has `schema` too |
//! | [`doctor`] | of the same name: this host, asked and measured |
//! | [`pages`] | `completions`, `man` |
//! | [`aggregate`] | of the same name: packets in containers |
//! | [`demo`] | `make demo`: the signature table, with and without isolation |
//! | [`reproduce`] | the papers' tables and figures, published beside ours |
//! | [`mod@bench`] | what it costs, beside what it is compared with |
//! | [`measure`] | a scenario on real packets; what `traffic`, `compare` and `demo` share |
//! | [`among`] | the same from virtual adapters, in windows, of a link that becomes another |
//! | [`show`], [`mod@file`] | numbers as people read them, tables, notes; scenario files |
//! | [`control`] | `show`, `set`, `netconfig`: a link that is running, asked and changed |
//! | [`link`], [`flags`], [`asked`] | a link as the command line tells it; what was asked for, said before a run |
//! | [`pace`], [`honest`] | how the live loop waits, as it was asked for; what this host can honestly emulate |
//! | [`recording`], [`replay`] | what passes a live link, written down; the same once more in simulated time |
//! | [`live`], [`summary`], [`each`] | what a link does, while it runs and told at the end, and judged; what its masks made |
//! | [`practice`], [`pairs`], [`connections`] | a simulation as it was asked for, of two scenarios, and what TCP did in it |
//! | [`impairments`] | what a link does to packets, in words |
//! | [`export`] | what was simulated, in files for other programs |
//! | `pictures` (feature `plots`) | what was simulated, drawn; what all pictures share |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

/// The standard library's own panics where standard error was read by somebody who has gone (`falaj
/// bridge … 2>&1 | head -1`), and a link would end by what was only to be said.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod aggregate;
mod among;
mod asked;
mod bench;
mod bridge;
mod check;
mod compare;
mod connections;
mod control;
mod demo;
mod doctor;
mod each;
mod explain;
mod export;
mod file;
mod fit;
mod flags;
mod fmt;
mod honest;
mod hosts;
mod impairments;
mod import;
mod link;
mod live;
mod measure;
mod pace;
mod pages;
mod pairs;
#[cfg(feature = "plots")]
mod pictures;
mod plan;
mod practice;
mod recording;
mod relay;
mod replay;
mod reproduce;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod sim;
mod summary;
mod sweep;
mod traffic;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Virtual links with guarantees, and any link emulated: simulated, promised, measured.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true, after_help = EXIT)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say results and errors alone: no notes, warnings or progress.
    #[arg(short, long, global = true)]
    quiet: bool,
}

const EXIT: &str = "\
Exit status:
  0    all is well
  1    the answer is no: a promise broken, a plan refused, a number missed, a file to be formatted
  2    no answer: the input is wrong, or this machine cannot do it
  3    inconclusive: this machine was too busy to tell (compare), replications ended before --until (sim, compare)
  4    a condition of --fail-if holds (run, bridge, relay, traffic)
  130  interrupted by Ctrl-C; what was known until then is printed
  141  whoever read the output went away
`falaj run` has its command's. Results are on standard output, all else on standard error;
colours and progress are for terminals, and NO_COLOR is heeded.

Try:
  falaj demo
  falaj run --rate 10mbit --delay 40ms -- ping -c 3 10.77.0.2
  falaj compare examples/tenants.toml";

#[derive(Subcommand)]
enum Command {
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
    Serve(Box<serve::Args>),
    /// Watch adapters and their promises on the terminal, and change weights and caps.
    #[cfg(feature = "serve")]
    Top(serve::top::Args),
    /// Put an emulated link between whoever connects and where to; by sockets alone, without
    /// privilege.
    Relay(Box<relay::Args>),
    /// Show what a link that is running does: rates, delays, drops, backlog.
    Show(control::show::Args),
    /// Change a link that is running: any key of its scenario, all at one instant.
    Set(control::set::Args),
    /// Give what an application sends and receives a link of its own: PlanetLab's one command for
    /// both directions.
    Netconfig(control::netconfig::Args),
    /// Send a scenario's traffic through its link as real datagrams and measure it.
    Traffic(traffic::Args),
    /// Bound, simulated and measured, side by side: the signature table; or two scenarios simulated
    /// in pairs.
    Compare(compare::Args),
    /// See what isolation is worth, in a minute.
    Demo(demo::Args),
    /// A paper's tables and figures, published beside ours.
    Reproduce(reproduce::Args),
    /// Packets in containers from one process to another: what it saves, and what it delays.
    Aggregate(aggregate::Args),
    /// What falaj costs, beside what it is compared with.
    Bench(bench::Args),
    /// What works on this host and why the rest doesn't, what it costs, and what can honestly be
    /// emulated.
    Doctor(doctor::Args),
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
    /// What writes to the disk in a figure of `reproduce`, told by standard input.
    #[command(hide = true)]
    DiskLoad,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.quiet {
        show::be_quiet();
    }
    let outcome = match cli.command {
        Command::Sim(args) => sim::main(&args),
        Command::Sweep(args) => sweep::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Run(args) => run::main(*args),
        Command::Bridge(args) => bridge::main(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::main(&args),
        #[cfg(feature = "serve")]
        Command::Top(args) => serve::top::main(&args),
        Command::Relay(args) => relay::main(&args),
        Command::Show(args) => control::show::main(&args),
        Command::Set(args) => control::set::main(&args),
        Command::Netconfig(args) => control::netconfig::main(&args),
        Command::Traffic(args) => traffic::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Reproduce(args) => reproduce::main(&args),
        Command::Aggregate(args) => aggregate::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Fmt(args) => fmt::main(&args),
        Command::Import(args) => import::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Presets => {
            show::say!("{}", falaj_scenario::presets().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        Command::Schema(args) => explain::schema(&args),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::Man(args) => pages::man(&args, Cli::command()),
        Command::TrafficEnd => measure::end(),
        Command::DiskLoad => reproduce::disk_load(),
    };
    outcome.unwrap_or_else(|error| {
        // What a scenario's diagnostics have said already is not said again.
        if error.downcast_ref::<file::Told>().is_none() {
            show::failure(&error);
        }
        ExitCode::from(if error.is::<sim::Interrupted>() { sim::INTERRUPTED } else { 2 })
    })
}
