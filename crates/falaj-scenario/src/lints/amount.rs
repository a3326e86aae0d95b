//! Amounts with few digits, for messages.

use falaj_sched::units::rate::Rate;

/// A rate for messages. It is rounded only if it has too many digits.
pub(super) fn rate(rate: Rate) -> String {
    readable(&rate.to_string()).unwrap_or_else(|| {
        let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
        rounded(rate.0, &units, "bit/s")
    })
}

/// A number of bytes for messages. It is rounded only if it has too many digits.
pub(super) fn bytes(bytes: u64) -> String {
    let text = format!("{bytes}B");
    readable(&text).unwrap_or_else(|| {
        rounded(bytes, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")], "B")
    })
}

/// Returns the text if it has at most four significant digits, and at most six digits in all.
fn readable(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let count = digits.trim_matches('0').len();
    let short = digits.len() <= 6;
    (count <= 4 && short).then(|| text.to_owned())
}

/// The value with one decimal in the largest fitting unit, as in `about 311.1 Mbit/s`; without
/// `about` if that is exact, as in `5 MB`.
fn rounded(value: u64, units: &[(u64, &str)], least: &str) -> String {
    match units.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => {
            let tenths = (u128::from(value) * 10 + u128::from(unit / 2)) / u128::from(*unit);
            let about =
                if tenths * u128::from(*unit) == u128::from(value) * 10 { "" } else { "about " };
            match tenths % 10 {
                0 => format!("{about}{} {name}", tenths / 10),
                rest => format!("{about}{}.{rest} {name}", tenths / 10),
            }
        }
        None => format!("{value} {least}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_read() {
        for (bits, text) in [
            (100_000_000, "100mbit"),
            (1_250_000_000, "1.25gbit"),
            (311_111_111, "about 311.1 Mbit/s"),
            (37_888_000, "about 37.9 Mbit/s"),
            (999_960_001, "about 1000 Mbit/s"),
            (12_345, "about 12.3 kbit/s"),
        ] {
            assert_eq!(rate(Rate(bits)), text);
        }
        assert_eq!((bytes(5000).as_str(), bytes(500_000).as_str()), ("5000B", "500000B"));
        assert_eq!(
            (bytes(777_777).as_str(), bytes(25_000_000).as_str()),
            ("about 777.8 kB", "25 MB")
        );
    }
}
