//! falaj divides a link into virtual links with guarantees, and emulates any
//! link: on live packets, in simulated time, and in closed form.
//!
//! The program is thin: [`cli`] has what the command line takes, [`commands`] a file for each
//! command, which reads its options, calls the libraries and prints what they say. What several
//! commands share lies in crates beneath: what is said on a terminal in `falaj-terminal`, links
//! that run in `falaj-control`, scenarios simulated and measured in `falaj-experiment`.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// All of its macros: the standard library's `eprintln!` panics where standard error is closed.
#[macro_use]
extern crate falaj_terminal;

mod cli;
mod commands;

use falaj_terminal::file::AlreadyReported;
use falaj_terminal::interrupt::{INTERRUPTED, Interrupted};
use falaj_terminal::{output, standard_error};
use std::process::ExitCode;

fn main() -> ExitCode {
    // In a guest this program is the first process.
    falaj_guest::take_over();
    let cli = cli::parse();
    if cli.quiet {
        output::be_quiet();
    }
    let status = cli.command.run().unwrap_or_else(|error| {
        // What a scenario's diagnostics have said already is not said again.
        if error.downcast_ref::<AlreadyReported>().is_none() {
            output::failure(&error);
        }
        ExitCode::from(if error.is::<Interrupted>() { INTERRUPTED } else { 2 })
    });
    standard_error::flush();
    status
}
