//! Numbers as people read them, and tables.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use falaj_sched::rate::Rate;
use falaj_sched::time::Span;
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
        if !$crate::show::quiet() {
            eprintln!("falaj: {}", format_args!($($words)*));
        }
    };
}
pub(crate) use note;

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

/// Three significant digits of nanoseconds: `870 ns`, `121 us`, `3.10 ms`.
pub(crate) fn nanos(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 999.5 => return format!("{ns:.0} ns"),
        _ if ns < 999.5e3 => (ns / 1e3, "us"),
        _ if ns < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A span, or a dash.
pub(crate) fn span(s: Option<Span>) -> String {
    s.map_or(DASH.into(), |s| nanos(s.0 as f64))
}

/// What stands where there is nothing to say.
pub(crate) const DASH: &str = "—";

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

/// Bits per second: `12.0 Mbit/s`.
pub(crate) fn rate(bits: f64) -> String {
    let (value, unit) = match bits {
        b if b < 999.5 => (b, "bit/s"),
        b if b < 999.5e3 => (b / 1e3, "kbit/s"),
        b if b < 999.5e6 => (b / 1e6, "Mbit/s"),
        b => (b / 1e9, "Gbit/s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// An amount of data: `500 B`, `64.3 kB`; bytes are whole below 10 kB.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        b if b < 9_999.5 => format!("{b:.0} B"),
        b if b < 999.5e3 => format!("{} kB", three_digits(b / 1e3)),
        b if b < 999.5e6 => format!("{} MB", three_digits(b / 1e6)),
        b => format!("{} GB", three_digits(b / 1e9)),
    }
}

/// A link's rate.
pub(crate) fn link_rate(r: Rate) -> String {
    if r.is_unlimited() { "unlimited".into() } else { rate(r.0 as f64) }
}

/// A share in percent: `0 %`, `1.58 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => DASH.into(),
        (0, _) => "0 %".into(),
        _ => format!("{:.2} %", part as f64 * 100.0 / whole as f64),
    }
}

/// Lines under the header only.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

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
    io::stderr().is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// A progress bar on a terminal, nothing elsewhere.
pub(crate) fn progress(steps: u64, what: &'static str) -> indicatif::ProgressBar {
    if !progress_wanted() {
        return indicatif::ProgressBar::hidden();
    }
    let style =
        indicatif::ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}, {eta} left").expect("a valid template");
    indicatif::ProgressBar::new(steps).with_style(style).with_message(what)
}

/// The same for simulated time, in steps whose number nobody wants to read.
pub(crate) fn progress_of_time(steps: u64) -> indicatif::ProgressBar {
    let style =
        indicatif::ProgressStyle::with_template("{msg} {bar:30} {percent} %, {eta} left").expect("a valid template");
    progress(steps, "simulating").with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.4, "999 ns"),
            (999.9, "1.00 us"),
            (12_345.0, "12.3 us"),
            (3.1e6, "3.10 ms"),
            (2e9, "2.00 s"),
        ] {
            assert_eq!(nanos(ns), text);
        }
        assert_eq!(rate(12e6), "12.0 Mbit/s");
        assert_eq!([500.4, 9_999.0, 64_321.0, 2e6].map(bytes), ["500 B", "9999 B", "64.3 kB", "2.00 MB"]);
        assert_eq!(rate(999_980.0), "1.00 Mbit/s");
        assert_eq!(percent(0, 10), "0 %");
        assert_eq!(percent(1, 0), DASH);
    }
}
