//! The command line: what stands before the command, and what several commands take.
//!
//! | module | what it has |
//! |---|---|
//! | [`link`], [`flags`] | a link: in a file, or by flags |
//! | [`separator`] | `--` that was forgotten before a command |
//! | [`virtual_time`] | `--virtual-time` |

pub(crate) mod flags;
pub(crate) mod link;
mod separator;
pub(crate) mod virtual_time;

use crate::commands::Command;
use clap::Parser;
use std::ffi::OsString;
use std::process::exit;

/// Virtual links with guarantees, and any link emulated: simulated, promised, measured.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true, after_help = EXIT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say results and errors alone: no notes, warnings or progress.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// Reads this program's command line; ends the program where it is wrong, or asks for help.
pub(crate) fn parse() -> Cli {
    let words: Vec<OsString> = std::env::args_os().collect();
    Cli::try_parse_from(&words).unwrap_or_else(|error| {
        if let Some(line) = separator::corrected(&words, &error) {
            eprintln!("error: put `--` before the command: {line}");
            falaj_terminal::standard_error::flush();
            exit(2)
        }
        error.exit()
    })
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
