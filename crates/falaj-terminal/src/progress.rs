//! Progress bars, drawn on a terminal alone.

use crate::output::quiet;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

/// Returns true if progress may be drawn: on a terminal, without `--quiet`.
pub fn wanted() -> bool {
    io::stderr().is_terminal() && !quiet()
}

/// A progress bar of so many steps on a terminal; elsewhere a hidden one.
pub fn bar(steps: u64, what: &'static str) -> ProgressBar {
    if !wanted() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}, {eta} left")
        .expect("a valid template");
    ProgressBar::new(steps).with_style(style).with_message(what)
}

/// The same for simulated time: shows a percentage instead of the number of steps.
pub fn bar_of_time(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent} %, {eta} left")
        .expect("a valid template");
    bar(steps, "simulating").with_style(style)
}
