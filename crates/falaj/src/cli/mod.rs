//! The command line: global options, and arguments that several commands share.
//!
//! | module | content |
//! |---|---|
//! | [`errors`] | messages for a wrong command line |
//! | [`help`] | `--help` in groups, and `--help-all` |
//! | [`link`], [`flags`] | a link: in a file, or by flags |
//! | [`separator`] | detection of a forgotten `--` before a command |
//! | [`virtual_time`] | `--virtual-time` |

mod errors;
pub(crate) mod flags;
mod help;
pub(crate) mod link;
mod separator;
pub(crate) mod virtual_time;

use crate::commands::Command;
use anyhow::anyhow;
use clap::{CommandFactory, FromArgMatches, Parser};
use falaj_terminal::{COMMON_OPTIONS, output, standard_error};
use std::ffi::OsString;
use std::process::exit;

/// Virtual links with guarantees, and emulation of any link: simulated, bounded, measured.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true, after_help = EXIT)]
#[command(disable_help_flag = true, args = help::flags())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print only results and errors: no notes, warnings or progress.
    #[arg(short, long, global = true, help_heading = COMMON_OPTIONS, display_order = 999)]
    pub(crate) quiet: bool,
}

/// Returns the description of the command line, used to parse it and to generate its pages.
pub(crate) fn command() -> clap::Command {
    help::grouped(taking_negative_numbers(Cli::command()))
}

/// Makes `-1` after an option that takes a value parse as that value, so that the value's parser
/// rejects it.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let takes = |argument: &clap::Arg| {
        argument.get_long().is_some() && argument.get_action().takes_values()
    };
    command
        .mut_args(|argument| {
            let takes = takes(&argument);
            argument.allow_negative_numbers(takes)
        })
        .mut_subcommands(taking_negative_numbers)
}

/// Parses a command line.
fn try_parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let mut found = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut found).map_err(|error| error.format(&mut command))
}

/// Parses this program's command line. Exits the program if the command line is wrong or asks for
/// help.
pub(crate) fn parse() -> Cli {
    let words: Vec<OsString> = std::env::args_os().collect();
    try_parse(&words).unwrap_or_else(|error| {
        let line = separator::corrected(&words, &error);
        let why = line.map(|line| format!("put `--` before the command: {line}"));
        let Some(why) = why.or_else(|| errors::sentence(&words, &error, command())) else {
            error.exit()
        };
        output::failure(&anyhow!(why));
        standard_error::flush();
        exit(2)
    })
}

const EXIT: &str = "\
Exit status:
  0    all is well
  1    the answer is no: a guarantee violated, a plan refused, a published value that differs for
       no known reason, a file to format, packets missing in a capture
  2    no answer: the input is invalid, or this machine cannot do it
  3    inconclusive: this machine was too busy to tell (compare), or replications ended before
       --until was reached (sim, compare)
  4    a condition of --fail-if holds (run, bridge, attach, relay, traffic)
  130  interrupted by Ctrl-C; the results until then are printed
  141  the reader of the output went away
`falaj run` has that of its command. Results are on standard output, all else on standard error;
colours and progress are for terminals only, and NO_COLOR is respected.

`falaj COMMAND --help` has examples of the command, and `--help-all` all its options.";
