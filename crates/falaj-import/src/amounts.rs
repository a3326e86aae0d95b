//! Numbers and units in the syntax of tc and ipfw, and in the syntax of a scenario.

use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::{self, quoted};
use falaj_scenario::units::{number_and_unit, parse_fraction};

/// A kind of amount, with the units that it is written in.
struct Units {
    what: &'static str,
    whole: &'static str,
    example: &'static str,
    /// Name of each unit, and its size in the smallest unit as a fraction (numerator, denominator).
    units: &'static [(&'static str, u128, u128)],
}

const TC_RATE: Units = Units {
    what: "rate",
    whole: "bits a second",
    example: "10mbit",
    units: &[
        ("", 1, 1),
        ("bit", 1, 1),
        ("kbit", 1_000, 1),
        ("mbit", 1_000_000, 1),
        ("gbit", 1_000_000_000, 1),
        ("tbit", 1_000_000_000_000, 1),
        ("kibit", 1 << 10, 1),
        ("mibit", 1 << 20, 1),
        ("gibit", 1 << 30, 1),
        ("tibit", 1 << 40, 1),
        ("bps", 8, 1),
        ("kbps", 8_000, 1),
        ("mbps", 8_000_000, 1),
        ("gbps", 8_000_000_000, 1),
        ("tbps", 8_000_000_000_000, 1),
        ("kibps", 8 << 10, 1),
        ("mibps", 8 << 20, 1),
        ("gibps", 8 << 30, 1),
        ("tibps", 8 << 40, 1),
    ],
};

const TC_SIZE: Units = Units {
    what: "size",
    whole: "bytes",
    example: "10kb",
    units: &[
        ("", 1, 1),
        ("b", 1, 1),
        ("k", 1 << 10, 1),
        ("kb", 1 << 10, 1),
        ("m", 1 << 20, 1),
        ("mb", 1 << 20, 1),
        ("g", 1 << 30, 1),
        ("gb", 1 << 30, 1),
        ("kbit", 1 << 10, 8),
        ("mbit", 1 << 20, 8),
        ("gbit", 1 << 30, 8),
    ],
};

const TC_TIME: Units = Units {
    what: "time",
    whole: "nanoseconds",
    example: "10ms",
    units: &[
        ("s", 1_000_000_000, 1),
        ("sec", 1_000_000_000, 1),
        ("secs", 1_000_000_000, 1),
        ("ms", 1_000_000, 1),
        ("msec", 1_000_000, 1),
        ("msecs", 1_000_000, 1),
        ("us", 1_000, 1),
        ("usec", 1_000, 1),
        ("usecs", 1_000, 1),
        ("ns", 1, 1),
        ("nsec", 1, 1),
        ("nsecs", 1, 1),
    ],
};

const SLEEP_TIME: Units = Units {
    what: "time",
    whole: "nanoseconds",
    example: "10s",
    units: &[
        ("", 1_000_000_000, 1),
        ("s", 1_000_000_000, 1),
        ("m", 60_000_000_000, 1),
        ("h", 3_600_000_000_000, 1),
        ("d", 86_400_000_000_000, 1),
    ],
};

fn read(word: &Word, of: &Units) -> Result<u64, Problem> {
    let wrong = |what: String, help: String| Problem::error(word.at.clone(), what).help(help);
    let (number, unit) =
        number_and_unit(&word.text, of.example).map_err(|e| wrong(e.what, e.help))?;
    let lower = unit.to_ascii_lowercase();
    let Some((_, times, over)) = of.units.iter().find(|(name, ..)| *name == lower) else {
        let names = of.units.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty());
        let list = suggest::list(names);
        return Err(match unit {
            // Only times need a unit.
            "" => wrong(
                format!("{} is a number without a unit", quoted(&word.text)),
                format!("tc's versions differ in the unit of such a time: write one of {list}"),
            ),
            _ => wrong(
                format!("{}: {} is not a unit of {}", quoted(&word.text), quoted(unit), of.what),
                format!("one of {list}"),
            ),
        });
    };
    // Fractions of the smallest unit, such as an eighth of a byte, are below the tools' precision
    // and are dropped.
    let whole = number.times(*times, &word.text, of.whole, |n| n.to_string());
    whole.map(|n| n / *over as u64).map_err(|e| wrong(e.what, e.help))
}

/// Reads a rate in the syntax of tc, where `bps` means bytes a second; returns bits a second.
pub(crate) fn tc_rate(word: &Word) -> Result<u64, Problem> {
    read(word, &TC_RATE)
}

/// Reads a size in the syntax of tc, where `k` means 1024; returns bytes.
pub(crate) fn tc_size(word: &Word) -> Result<u64, Problem> {
    read(word, &TC_SIZE)
}

/// Reads a time in the syntax of tc; returns nanoseconds. A bare number other than 0 is an error,
/// because some versions of tc read it as microseconds and others as nanoseconds.
pub(crate) fn tc_time(word: &Word) -> Result<u64, Problem> {
    if !word.text.is_empty() && word.text.bytes().all(|b| b == b'0') {
        return Ok(0);
    }
    read(word, &TC_TIME)
}

/// Reads the time of `sleep` in nanoseconds; a bare number is seconds, `infinity` the largest time.
pub(crate) fn sleep_time(word: &Word) -> Result<u64, Problem> {
    match word.text.as_str() {
        "inf" | "infinity" => Ok(u64::MAX),
        _ => read(word, &SLEEP_TIME),
    }
}

/// Reads a percentage, with or without the percent sign.
pub(crate) fn tc_percent(word: &Word) -> Result<String, Problem> {
    let text = word.text.trim_end_matches('%');
    let percent = format!("{text}%");
    falaj_scenario::parse_probability(&percent)
        .map(|_| percent)
        .map_err(|e| Problem::error(word.at.clone(), e.what).help(e.help))
}

/// Converts a fraction of 1 to percent; `None` for zero.
pub(crate) fn part_of_one(word: &Word) -> Result<Option<String>, Problem> {
    let fraction = parse_fraction(&word.text)
        .map_err(|e| Problem::error(word.at.clone(), e.what).help(e.help))?;
    let (whole, decimals) = word.text.split_once('.').unwrap_or((&word.text, ""));
    let digits = format!("{whole}{decimals:0<2}");
    let (percent, rest) = digits.split_at(whole.len() + 2);
    let percent = percent.trim_start_matches('0');
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    let zero = if percent.is_empty() { "0" } else { "" };
    Ok((fraction != falaj_sched::units::probability::Probability::NEVER)
        .then(|| format!("{zero}{percent}{point}{rest}%")))
}

/// Reads a whole number, in base 10 or, with `0x`, in base 16.
pub(crate) fn whole(word: &Word) -> Result<u64, Problem> {
    let (digits, base) = match word.text.strip_prefix("0x").or_else(|| word.text.strip_prefix("0X"))
    {
        Some(digits) => (digits, 16),
        None => (&word.text[..], 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(base));
    if !plain {
        let what = format!("{} is not a whole number", quoted(&word.text));
        return Err(Problem::error(word.at.clone(), what).help("write one, such as `10` or `0x0a`"));
    }
    u64::from_str_radix(digits, base).map_err(|_| {
        let what = format!("{} exceeds the largest number, {}", quoted(&word.text), u64::MAX);
        Problem::error(word.at.clone(), what)
    })
}

fn largest(n: u64, units: &[(&str, u64)]) -> String {
    let (name, one) = units
        .iter()
        .find(|(_, one)| n >= *one && n.is_multiple_of(*one))
        .or(units.last())
        .copied()
        .unwrap_or(("", 1));
    format!("{}{name}", n / one)
}

/// A rate in the syntax of a scenario; 0 is unlimited.
pub(crate) fn rate(bits: u64) -> String {
    match bits {
        0 => "unlimited".to_owned(),
        _ => largest(
            bits,
            &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)],
        ),
    }
}

/// A time in the syntax of a scenario.
pub(crate) fn time(nanos: u64) -> String {
    match nanos {
        0 => "0s".to_owned(),
        _ => largest(nanos, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)]),
    }
}

/// A size in the syntax of a scenario.
pub(crate) fn size(bytes: u64) -> String {
    largest(
        bytes,
        &[("MiB", 1 << 20), ("MB", 1_000_000), ("KiB", 1 << 10), ("kB", 1_000), ("B", 1)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        Word { text: text.to_owned(), at: 0..text.len() }
    }

    #[test]
    fn units_are_those_of_tc() {
        assert_eq!(tc_rate(&word("1.5mbit")), Ok(1_500_000));
        assert_eq!(tc_rate(&word("1mbps")), Ok(8_000_000), "bytes");
        assert_eq!(tc_rate(&word("500")), Ok(500));
        assert_eq!(tc_size(&word("10k")), Ok(10_240));
        assert_eq!(tc_size(&word("8kbit")), Ok(1_024));
        assert_eq!(tc_time(&word("10.5ms")), Ok(10_500_000));
        assert_eq!(tc_time(&word("0")), Ok(0));
        assert_eq!(tc_percent(&word("0.3")), Ok("0.3%".to_owned()));
        assert_eq!(whole(&word("0xff")), Ok(255));
        for bad in ["10", "10m", "x", "", "1e3ms"] {
            assert!(tc_time(&word(bad)).is_err(), "{bad}");
        }
        for bad in ["", "0x", "-1", "+1", "1.5"] {
            assert!(whole(&word(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_of_one_are_percent() {
        for (text, percent) in [
            ("0.01", "1%"),
            ("0.3", "30%"),
            ("1", "100%"),
            ("0.0005", "0.05%"),
            ("0.125", "12.5%"),
            ("1.0", "100%"),
        ] {
            assert_eq!(part_of_one(&word(text)), Ok(Some(percent.to_owned())), "{text}");
        }
        assert_eq!(part_of_one(&word("0")), Ok(None));
        assert!(part_of_one(&word("1.5")).is_err());
    }

    #[test]
    fn amounts_are_written_in_their_largest_unit() {
        assert_eq!(
            [rate(1_500_000), rate(1_000_000), rate(7), rate(0)],
            ["1500kbit", "1mbit", "7bit", "unlimited"]
        );
        assert_eq!([time(10_500_000), time(0), time(1)], ["10500us", "0s", "1ns"]);
        assert_eq!(
            [size(10_240), size(1_500), size(3_000), size(1 << 20)],
            ["10KiB", "1500B", "3kB", "1MiB"]
        );
    }
}
