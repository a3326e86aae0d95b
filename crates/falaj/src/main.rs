//! falaj divides a link into virtual links with guarantees, and emulates any link: on live packets,
//! in simulated time, and in closed form.
//!
//! The program is thin. [`cli`] has the arguments that commands share. [`commands`] has, for most
//! commands, a file or directory that reads the options, calls the libraries and prints the
//! results; `serve`, `top` and `reproduce` are in other crates. Code that several commands share is
//! in the crates beneath: terminal output in `falaj-terminal`, running links in `falaj-control`,
//! simulation and measurement of scenarios in `falaj-experiment`.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// Imports all macros of the crate: the standard library's `eprintln!` panics if standard error is
// closed.
#[macro_use]
extern crate falaj_terminal;

mod cli;
mod commands;

use falaj_terminal::file::AlreadyReported;
use falaj_terminal::interrupt::{INTERRUPTED, Interrupted};
use falaj_terminal::{output, standard_error};
use std::process::ExitCode;

fn main() -> ExitCode {
    // In a guest, this program is the first process.
    falaj_guest::take_over();
    let cli = cli::parse();
    if cli.quiet {
        output::be_quiet();
    }
    let status = cli.command.run().unwrap_or_else(|error| {
        // Errors that the scenario's diagnostics already reported are not printed again.
        if error.downcast_ref::<AlreadyReported>().is_none() {
            output::failure(&error);
        }
        ExitCode::from(if error.is::<Interrupted>() { INTERRUPTED } else { 2 })
    });
    standard_error::flush();
    status
}
