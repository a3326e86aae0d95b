//! Numbers as people read them, and tables.

pub(crate) use falaj_plan::words::{DASH, bytes, link_rate, nanos, percent, rate, span};

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use falaj_traffic::interval::Estimate;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is said but results and errors.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Was `--quiet` given?
pub(crate) fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Says what is no result and no error, on standard error, unless `--quiet` was given.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::show::remark(format_args!($($words)*))
    };
}
pub(crate) use note;

/// Says why the command ends.
pub(crate) fn failure(error: &anyhow::Error) {
    #[cfg(feature = "serve")]
    if crate::serve::log::takes_failure(error) {
        return;
    }
    eprintln!("falaj: {error:#}");
}

pub(crate) fn remark(words: fmt::Arguments<'_>) {
    if quiet() {
        return;
    }
    #[cfg(feature = "serve")]
    if crate::serve::log::takes(words) {
        return;
    }
    eprintln!("falaj: {words}");
}

/// `println!`, except that a reader who has seen enough (`falaj plan … | head -1`)
/// ends the program quietly, with the status of one that SIGPIPE killed.
macro_rules! say {
    ($($words:tt)*) => { $crate::show::line(format_args!($($words)*)) };
}
pub(crate) use say;

/// What [`say!`] calls.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(128 + 13);
        }
        eprintln!("falaj: cannot write the result: {error}");
        std::process::exit(2);
    }
}

/// A text of several lines, its last newline included.
pub(crate) fn print(text: &str) {
    line(format_args!("{}", text.strip_suffix('\n').unwrap_or(text)));
}

/// A mean delay with its interval: `4.97 us ± 0.02`.
pub(crate) fn delay(e: Option<Estimate>) -> String {
    let Some(e) = e else { return DASH.into() };
    let text = nanos(e.mean);
    match e.half_width {
        Some(half) if half > 0.0 => {
            let unit = if e.mean < 999.5 {
                1.0
            } else if e.mean < 999.5e3 {
                1e3
            } else if e.mean < 999.5e6 {
                1e6
            } else {
                1e9
            };
            format!("{text} ± {}", two_digits(half / unit))
        }
        _ => text,
    }
}

/// A share of packets with the interval of that: `1.58 % ± 0.03`.
pub(crate) fn share(part: u64, whole: u64, e: Option<Estimate>) -> String {
    let text = percent(part, whole);
    match e.and_then(|e| e.half_width).filter(|half| *half > 0.0) {
        Some(half) => format!("{text} ± {}", two_digits(half * 100.0)),
        None => text,
    }
}

fn two_digits(value: f64) -> String {
    match value {
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 0.995 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// Lines under the header only.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table: the first column to the left, numbers to the right.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// May we draw progress? Only where somebody looks, and wants it.
pub(crate) fn progress_wanted() -> bool {
    io::stderr().is_terminal() && !quiet()
}

/// May we use colours on standard error? Not where NO_COLOR (<https://no-color.org>) or the terminal says no.
pub(crate) fn colour_wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stderr().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}

/// A progress bar on a terminal, nothing elsewhere.
pub(crate) fn progress(steps: u64, what: &'static str) -> indicatif::ProgressBar {
    if !progress_wanted() {
        return indicatif::ProgressBar::hidden();
    }
    let style = indicatif::ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}, {eta} left")
        .expect("a valid template");
    indicatif::ProgressBar::new(steps).with_style(style).with_message(what)
}

/// The same for simulated time, in steps whose number nobody wants to read.
pub(crate) fn progress_of_time(steps: u64) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{msg} {bar:30} {percent} %, {eta} left")
        .expect("a valid template");
    progress(steps, "simulating").with_style(style)
}
