//! Reads traces of a link's rate: lines of time and rate, or traces of mahimahi.

use crate::files::place::{At, lines};
use crate::suggest::quoted;
use crate::units::{parse_rate, parse_span};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// Description of the two formats, for help texts.
pub(crate) const FORM: &str = "lines of `time,rate`, as in `1.5s,10mbit` (`0bit`: no packet passes), or lines of whole milliseconds, as in mahimahi; `#` begins a comment";

/// The contents of a trace file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// Rates, each with the instant at which it begins.
    Steps(Vec<(Time, Rate)>),
    /// Instants at which a packet may be sent, and the period after which they repeat.
    Packets { at: Vec<Time>, period: Span },
}

/// Recognizes the format by the first line.
pub(crate) fn parse(text: &str) -> Result<Trace, At> {
    match lines(text).next() {
        None => Err(At::START.says("the trace is empty")),
        Some((_, line)) if line.contains(',') => steps(text).map(Trace::Steps),
        Some(_) => packets(text),
    }
}

fn steps(text: &str) -> Result<Vec<(Time, Rate)>, At> {
    let mut steps: Vec<(Time, Rate)> = Vec::new();
    let mut units = [String::new(), String::new()];
    for (n, (at, line)) in lines(text).enumerate() {
        let (time, rate) = line
            .split_once(',')
            .ok_or_else(|| at.says(format!("{} has no comma", quoted(line))))?;
        let behind = at.later(
            time.chars().count() + 1 + rate.chars().take_while(|c| c.is_whitespace()).count(),
        );
        let (time, rate) = (time.trim(), rate.trim());
        if n == 0 && time.starts_with("time") && rate.starts_with("rate") {
            // A header line may have the units: `time_s,rate_mbit`.
            units = [time, rate].map(|word| {
                word.split_once('_').map_or(String::new(), |(_, unit)| unit.to_owned())
            });
            continue;
        }
        // If the header has the unit, an error means a wrong number, or a unit that is given twice.
        let bad = |at: &At, word: &str, unit: &str, error: crate::units::Unreadable| {
            let what =
                format!("{} is not a number of `{unit}`, the unit in the first line", quoted(word));
            at.says(if unit.is_empty() { error.to_string() } else { what })
        };
        let time =
            parse_span(&format!("{time}{}", units[0])).map_err(|e| bad(&at, time, &units[0], e))?;
        let rate = match format!("{rate}{}", units[1]) {
            zero if is_zero(&zero) => Rate(0),
            text => parse_rate(&text).map_err(|e| bad(&behind, rate, &units[1], e))?,
        };
        if rate.is_unlimited() {
            return Err(behind.says("a trace cannot have the rate `unlimited`"));
        }
        if steps.last().is_some_and(|last| last.0.0 >= time.0) {
            return Err(at.says(format!("{time} is not after the line before")));
        }
        steps.push((Time(time.0), rate));
    }
    if steps.is_empty() {
        Err(At::START.says("the trace has no line of `time,rate`"))
    } else {
        Ok(steps)
    }
}

/// Returns true for zero in any unit.
fn is_zero(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/').trim();
    !digits.is_empty()
        && digits.bytes().all(|b| matches!(b, b'0' | b'.'))
        && parse_rate(&text.replacen('0', "1", 1)).is_ok()
}

fn packets(text: &str) -> Result<Trace, At> {
    const MILLI: u64 = 1_000_000;
    /// The longest time in a trace: a day, in milliseconds.
    const LONGEST: u64 = 86_400_000;
    let mut all: Vec<Time> = Vec::new();
    for (at, line) in lines(text) {
        let digits = line.bytes().all(|b| b.is_ascii_digit());
        let milli = line.parse::<u64>().ok().filter(|n| digits && *n <= LONGEST);
        let milli = milli.ok_or_else(|| {
            at.says(format!("{} is not a whole number of milliseconds up to a day", quoted(line)))
        })?;
        if all.last().is_some_and(|last| last.0 > milli * MILLI) {
            return Err(at.says(format!("{milli} ms is earlier than the line before")));
        }
        all.push(Time(milli * MILLI));
    }
    match all.last() {
        Some(last) if last.0 > 0 => Ok(Trace::Packets { period: Span(last.0), at: all }),
        _ => Err(At::START.says("the trace ends at 0 ms, so it lasts no time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_and_rates() {
        let steps = |all: &[(u64, u64)]| {
            Trace::Steps(
                all.iter().map(|&(ms, kbit)| (Time(ms * 1_000_000), Rate(kbit * 1000))).collect(),
            )
        };
        let three = steps(&[(0, 10_000), (1500, 0), (2000, 2_500)]);
        assert_eq!(parse("0s,10mbit\n1.5s, 0bit # a tunnel\n\n2s,2.5mbit\n").unwrap(), three);
        assert_eq!(parse("# made by hand\ntime_s,rate_mbit\n0,10\n1.5,0\n2,2.5").unwrap(), three);
        assert_eq!(parse("time,rate\n0s,10mbit\n1500ms,0kbit\n2s,2500kbit").unwrap(), three);
        for (text, what) in [
            ("", "1:1: the trace is empty"),
            ("0s,10mbit\n1s", "2:1: `1s` has no comma"),
            (
                "0s,10mbit\n1s, 10",
                "2:5: `10` is a number without a unit; write `10mbit` or `10kbit`; units of rate: bit, kbit, mbit, gbit, tbit; B/s, kB/s, MB/s, GB/s",
            ),
            (
                "0s,10mbit\n  1,10mbit",
                "2:3: `1` is a number without a unit; write `1ms` or `1s`; units of time: ns, us, ms, s, min, h",
            ),
            (
                "time_s,rate_mbit\n0,10\n2s,3",
                "3:1: `2s` is not a number of `s`, the unit in the first line",
            ),
            (
                "time_s,rate_mbit\n0,x",
                "2:3: `x` is not a number of `mbit`, the unit in the first line",
            ),
            ("1s,10mbit\n1s,20mbit", "2:1: 1s is not after the line before"),
            ("0s,unlimited", "1:4: a trace cannot have the rate `unlimited`"),
            ("time,rate", "1:1: the trace has no line of `time,rate`"),
        ] {
            assert_eq!(
                parse(text).unwrap_err().in_file("a.csv"),
                format!("a.csv:{what}"),
                "{text}"
            );
        }
    }

    #[test]
    fn traces_of_mahimahi() {
        let packets = |ms: &[u64]| Trace::Packets {
            at: ms.iter().map(|n| Time(n * 1_000_000)).collect(),
            period: Span::from_millis(*ms.last().unwrap()),
        };
        assert_eq!(parse("1\n").unwrap(), packets(&[1]));
        assert_eq!(parse("0\n0\n3\n3\n10").unwrap(), packets(&[0, 0, 3, 3, 10]));
        for (text, what) in [
            ("0\n0\n", "1:1: the trace ends at 0 ms, so it lasts no time"),
            ("5\n 4", "2:2: 4 ms is earlier than the line before"),
            ("5\n6.5", "2:1: `6.5` is not a whole number of milliseconds up to a day"),
            ("99999999999", "1:1: `99999999999` is not a whole number of milliseconds up to a day"),
        ] {
            assert_eq!(parse(text).unwrap_err().in_file("a"), format!("a:{what}"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_at_a_place_in_it(
            text in "[0-9.,smbitk# \n_-]{0,60}|\\PC{0,30}",
        ) {
            if let Err(at) = parse(&text) {
                let said = at.in_file("a");
                let line: usize = said.split(':').nth(1).unwrap().parse().unwrap();
                prop_assert!((1..=text.lines().count().max(1)).contains(&line), "{said}");
            }
        }
    }
}
