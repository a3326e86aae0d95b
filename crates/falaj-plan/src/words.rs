//! Numbers formatted for people.

use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// A time in nanoseconds, formatted with three significant digits, below 1 us in whole nanoseconds:
/// `5 ns`, `121 us`, `3.10 ms`.
pub fn nanos(ns: f64) -> String {
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

/// A span, or a dash if there is none.
pub fn span(s: Option<Span>) -> String {
    s.map_or(DASH.into(), |s| nanos(s.0 as f64))
}

/// Stands in place of a value that does not exist.
pub const DASH: &str = "—";

/// A rate in bits per second: `12.0 Mbit/s`.
pub fn rate(bits: f64) -> String {
    let (value, unit) = match bits {
        b if b < 999.5 => (b, "bit/s"),
        b if b < 999.5e3 => (b / 1e3, "kbit/s"),
        b if b < 999.5e6 => (b / 1e6, "Mbit/s"),
        b => (b / 1e9, "Gbit/s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// An amount of data: `500 B`, `64.3 kB`. Below 10 kB it is in whole bytes.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        b if b < 9_999.5 => format!("{b:.0} B"),
        b if b < 999.5e3 => format!("{} kB", three_digits(b / 1e3)),
        b if b < 999.5e6 => format!("{} MB", three_digits(b / 1e6)),
        b => format!("{} GB", three_digits(b / 1e9)),
    }
}

/// The rate of a link, or `unlimited`.
pub fn link_rate(r: Rate) -> String {
    if r.is_unlimited() { "unlimited".into() } else { rate(r.0 as f64) }
}

/// A share in percent: `0 %`, `1.58 %`; a dash if the whole is zero.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => DASH.into(),
        (0, _) => "0 %".into(),
        _ => format!("{:.2} %", part as f64 * 100.0 / whole as f64),
    }
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
        assert_eq!(
            [500.4, 9_999.0, 64_321.0, 2e6].map(bytes),
            ["500 B", "9999 B", "64.3 kB", "2.00 MB"]
        );
        assert_eq!(rate(999_980.0), "1.00 Mbit/s");
        assert_eq!(percent(0, 10), "0 %");
        assert_eq!(percent(1, 0), DASH);
    }
}
