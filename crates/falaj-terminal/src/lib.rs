//! Output and input of falaj's commands: the layer between the libraries, which print nothing by
//! themselves, and the user at the terminal.
//!
//! **Output.** A result goes to standard output by [`say!`], an error or a report to standard error
//! by [`eprintln!`], and a remark by [`note!`], which `--quiet` suppresses. A closed pipe ends the
//! program quietly instead of panicking. [`output`] holds the functions behind these macros, and
//! the hook by which a service sends its remarks to a journal. [`standard_error`] makes sure that a
//! link never waits for the reader of standard error.
//!
//! **Words.** [`text`] formats delays, rates and shares, and lays out tables; [`impairments`]
//! describes a link's effects on packets; [`effective_config`] prints the effective configuration
//! of a scenario before a run.
//!
//! **Files.** [`place`] checks, before long work begins, that its results can be written.
//!
//! **Input.** [`mod@file`] reads scenario files and prints their errors; [`arguments`] parses
//! values that several commands take; [`interrupt`] turns Ctrl-C into a flag that long work checks;
//! [`progress`] shows the progress of that work.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[macro_use]
mod macros;

pub mod arguments;
pub mod effective_config;
pub mod file;
pub mod impairments;
pub mod interrupt;
pub mod output;
pub mod place;
pub mod progress;
pub mod standard_error;
pub mod text;

/// The heading of `--help` for the options that every command, or most of them, has.
pub const COMMON_OPTIONS: &str = "Common options";
