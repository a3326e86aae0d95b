//! Results on standard output, errors and remarks on standard error.

use crate::{standard_error, text};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);
static WARNED: AtomicBool = AtomicBool::new(false);

/// A log that receives remarks and errors instead of standard error.
pub trait Log: Send + Sync {
    /// Writes a remark, which may begin with `warning: ` or `error: `. Returns false if the log
    /// does not accept the remark, which is then written to standard error.
    fn remark(&self, words: fmt::Arguments<'_>) -> bool;

    /// Writes the reason why the program ends. Returns false if the log does not accept it.
    fn failure(&self, error: &anyhow::Error) -> bool;
}

static LOG: OnceLock<Box<dyn Log>> = OnceLock::new();

/// Sends remarks and errors to this log from now on. A second call has no effect.
pub fn log_to(log: Box<dyn Log>) {
    let _ = LOG.set(log);
}

/// From now on, writes only results and errors.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// From now on, prints no warnings about scenarios, because another process has printed them.
pub fn warnings_are_told() {
    WARNED.store(true, Ordering::Relaxed);
}

/// Returns true if warnings about scenarios are to be printed.
pub fn warnings_wanted() -> bool {
    !quiet() && !WARNED.load(Ordering::Relaxed)
}

/// Returns true if `--quiet` was given.
pub fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes the reason why the command ends.
pub fn failure(error: &anyhow::Error) {
    if LOG.get().is_some_and(|log| log.failure(error)) {
        return;
    }
    eprintln!("falaj: {}", text::printable(&format!("{error:#}")));
}

/// Writes a remark; [`note!`](crate::note) calls it.
pub fn remark(words: fmt::Arguments<'_>) {
    if quiet() || LOG.get().is_some_and(|log| log.remark(words)) {
        return;
    }
    eprintln!("falaj: {}", text::printable(&words.to_string()));
}

/// Writes a line of the result; [`say!`](crate::say) calls it.
pub fn line(text: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        let broken = error.kind() == io::ErrorKind::BrokenPipe;
        if !broken {
            eprintln!("falaj: cannot write the result: {error}");
        }
        standard_error::flush();
        std::process::exit(if broken { 128 + 13 } else { 2 });
    }
}

/// Writes a text of several lines, including its last newline.
pub fn print(text: &str) {
    line(format_args!("{}", text.strip_suffix('\n').unwrap_or(text)));
}

/// Returns true if colours may be used on standard error: on a terminal, unless NO_COLOR
/// (<https://no-color.org>) or TERM forbids it.
pub fn colour_wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stderr().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
