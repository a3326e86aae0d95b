//! Reads traces of a link: CSV files of its rate, delay and loss over time, or traces of mahimahi.

use crate::files::place::{At, lines};
use crate::suggest::{self, every, quoted};
use crate::units::{Unreadable, parse_probability, parse_rate, parse_span};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

/// Description of the formats that the key `trace` reads, for help texts.
pub(crate) const FORM: &str = "lines of `time,rate`, as in `1.5s,10mbit` (`0bit`: no packet passes), or lines of whole milliseconds, as in mahimahi; `#` begins a comment";

/// The rates in a trace file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// Rates, each with the instant at which it begins.
    Steps(Vec<(Time, Rate)>),
    /// Instants at which a packet may be sent, and the period after which they repeat.
    Packets { at: Vec<Time>, period: Span },
}

/// The columns of a trace that have values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceColumn {
    Time,
    Rate,
    Delay,
    Loss,
}

impl TraceColumn {
    pub(crate) const ALL: [TraceColumn; 4] =
        [TraceColumn::Time, TraceColumn::Rate, TraceColumn::Delay, TraceColumn::Loss];

    /// The name in the header of the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TraceColumn::Time => "time",
            TraceColumn::Rate => "rate",
            TraceColumn::Delay => "delay",
            TraceColumn::Loss => "loss",
        }
    }
}

/// The unit of the values in a column.
#[derive(Clone, Debug)]
enum TraceUnit {
    /// Each value has its own unit.
    Own,
    /// The unit in the first line. A value may still have its own.
    Named(String),
    /// The unit of times if the first line names none. A value may still have its own.
    Seconds,
    /// The first line names the column, but no unit: each value must have its own. For a value
    /// without a unit, this error is reported; it is that of the first line.
    Unread(At),
}

/// A line of a CSV trace. Columns that the file does not have are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceLine {
    pub(crate) time: Time,
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Span>,
    /// The probability and its text.
    pub(crate) loss: Option<(Probability, String)>,
}

/// Returns true if the file is a CSV, and false if it is a trace of mahimahi, as its first line
/// shows.
pub(crate) fn is_csv(text: &str) -> Result<bool, At> {
    match lines(without_mark(text)).next() {
        None => Err(At::START.says("the trace is empty")),
        Some((_, line)) => Ok(line.contains(',')),
    }
}

/// Reads the rates of a trace. A column of delays or losses is an error.
pub(crate) fn parse(text: &str) -> Result<Trace, At> {
    read(text, false)
}

/// Reads the rates of a trace, and skips columns of delays and losses.
pub(crate) fn rates_alone(text: &str) -> Result<Trace, At> {
    read(text, true)
}

fn read(text: &str, others: bool) -> Result<Trace, At> {
    if !is_csv(text)? {
        return packets(without_mark(text));
    }
    let mut steps: Vec<(Time, Rate)> = Vec::new();
    let is_fit = |at: &At, column: TraceColumn| match column {
        TraceColumn::Delay | TraceColumn::Loss if !others => Err(at.says(format!(
            "a link's `trace` reads `time` and `rate`, and the file also has {}",
            quoted(column.name())
        ))),
        _ => Ok(()),
    };
    rows(text, is_fit, |_, row| {
        steps.extend(row.rate.map(|rate| (row.time, rate)));
        Ok(())
    })?;
    if steps.is_empty() {
        Err(At::START.says("the trace has no line of `time,rate`"))
    } else {
        Ok(Trace::Steps(steps))
    }
}

/// The text without the byte order mark with which some programs begin a CSV.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Calls `each` with the place and the contents of each line of a CSV trace. The first line may
/// name the columns, which `is_fit` may refuse; otherwise the columns are `time,rate`.
pub(crate) fn rows(
    text: &str,
    is_fit: impl Fn(&At, TraceColumn) -> Result<(), At>,
    mut each: impl FnMut(&At, TraceLine) -> Result<(), At>,
) -> Result<(), At> {
    let mut columns =
        vec![(TraceColumn::Time, TraceUnit::Own), (TraceColumn::Rate, TraceUnit::Own)];
    let (mut has_header, mut last) = (false, None);
    for (n, (at, line)) in lines(without_mark(text)).enumerate() {
        if n == 0 && line.starts_with(|c: char| c.is_alphabetic()) {
            let named = header(&at, line, &is_fit);
            columns = named.or_else(|error| loose_header(&at, line, &error).ok_or(error))?;
            has_header = true;
            continue;
        }
        let values = 1 + line.matches(',').count();
        if values != columns.len() {
            return Err(at.says(match values {
                1 => format!("{} has no comma", quoted(line)),
                _ if has_header => {
                    format!("the line has {values} values, and the first line {}", columns.len())
                }
                _ => format!(
                    "the line has {values} values instead of `time,rate`; a first line may name \
                     other columns, as in `time,rate,delay,loss`"
                ),
            }));
        }
        let mut row = TraceLine::default();
        for ((at, word), (column, unit)) in cells(&at, line).zip(&columns) {
            match column {
                TraceColumn::Time => row.time = Time(value(&at, word, unit, parse_span)?.0),
                TraceColumn::Rate => row.rate = Some(value(&at, word, unit, rate)?),
                TraceColumn::Delay => row.delay = Some(value(&at, word, unit, parse_span)?),
                TraceColumn::Loss => {
                    let probability = value(&at, word, unit, parse_probability)?;
                    // Any blank before the percent sign is left out: it may be a control character.
                    let number = word.split(|c: char| !is_of_number(c)).next().unwrap_or_default();
                    row.loss = Some((probability, format!("{number}%")));
                }
            }
            if row.rate.is_some_and(Rate::is_unlimited) {
                return Err(at.says("a trace cannot have the rate `unlimited`"));
            }
        }
        if last.is_some_and(|last| last >= row.time) {
            return Err(at.says(format!("{} is not after the line before", Span(row.time.0))));
        }
        last = Some(row.time);
        each(&at, row)?;
    }
    Ok(())
}

/// The values of a line, each with its place.
fn cells<'t>(at: &At, line: &'t str) -> impl Iterator<Item = (At, &'t str)> {
    let (at, mut column) = (at.clone(), 0);
    line.split(',').map(move |cell| {
        let blanks = cell.chars().take_while(|c| c.is_whitespace()).count();
        let place = at.later(column + blanks);
        column += cell.chars().count() + 1;
        (place, cell.trim())
    })
}

/// Reads a line that names columns, with their units: `time_s,rate_mbit`, `time, rate (mbit)`.
fn header(
    at: &At,
    line: &str,
    is_fit: impl Fn(&At, TraceColumn) -> Result<(), At>,
) -> Result<Vec<(TraceColumn, TraceUnit)>, At> {
    let mut columns: Vec<(TraceColumn, TraceUnit)> = Vec::new();
    for (at, cell) in cells(at, line) {
        let end = cell.find(|c: char| !c.is_alphabetic()).unwrap_or(cell.len());
        let (name, unit) = cell.split_at(end);
        let Some(column) =
            TraceColumn::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(name))
        else {
            let names = TraceColumn::ALL.map(TraceColumn::name);
            let near = suggest::nearest(name, names)
                .map_or(String::new(), |near| format!("; did you mean {}?", quoted(near)));
            return Err(at.says(format!(
                "{} is not a column of a trace{near}; columns: {}, each with or without a unit, as \
                 in `rate (mbit)`",
                quoted(cell),
                every(names)
            )));
        };
        is_fit(&at, column)?;
        if columns.iter().any(|(other, _)| *other == column) {
            return Err(at.says(format!("the column {} is there twice", quoted(column.name()))));
        }
        let unit = unit.trim_matches(|c: char| c.is_whitespace() || "_()[]".contains(c));
        let unit = match (column, unit) {
            (TraceColumn::Loss, "percent" | "pct") => "%",
            (_, unit) => unit,
        };
        let unit = match (column, unit) {
            (TraceColumn::Time, "") => TraceUnit::Seconds,
            (_, "") => TraceUnit::Own,
            (_, unit) => {
                check_unit(column, unit).map_err(|error| {
                    let help = Some(error.help).filter(|help| !help.starts_with("write"));
                    let help = help.map_or(String::new(), |help| format!("; {help}"));
                    let (unit, name) = (quoted(unit), quoted(column.name()));
                    at.says(format!("{unit} is not a unit of {name}{help}"))
                })?;
                TraceUnit::Named(unit.to_owned())
            }
        };
        columns.push((column, unit));
    }
    let has = |column| columns.iter().any(|(other, _)| *other == column);
    if !has(TraceColumn::Time) {
        return Err(at.says("the first line has no column `time`"));
    }
    if columns.len() == 1 {
        return Err(at.says("the first line has no column besides `time`"));
    }
    Ok(columns)
}

/// Checks the unit of a column.
fn check_unit(column: TraceColumn, unit: &str) -> Result<(), Unreadable> {
    // After a blank, a digit or a point in the unit is not a part of the number.
    let one = format!("1 {unit}");
    match column {
        TraceColumn::Time | TraceColumn::Delay => parse_span(&one).map(drop),
        TraceColumn::Rate => parse_rate(&one).map(drop),
        TraceColumn::Loss => parse_probability(&one).map(drop),
    }
}

/// Reads a first line of two words that begin with `time` and `rate`, such as `timestamp,rates`.
/// Units follow `_`; without them, each value has its own unit. `error` says why the line does not
/// name columns.
fn loose_header(at: &At, line: &str, error: &At) -> Option<Vec<(TraceColumn, TraceUnit)>> {
    let words: Vec<&str> = cells(at, line).map(|(_, cell)| cell).collect();
    let [time, rate] = words[..] else { return None };
    let column = |column: TraceColumn, word: &str| {
        let rest = word.strip_prefix(column.name())?;
        let unit = match rest.split_once('_') {
            None | Some((_, "")) => TraceUnit::Unread(error.clone()),
            Some((_, unit)) => {
                check_unit(column, unit).ok()?;
                TraceUnit::Named(unit.to_owned())
            }
        };
        Some((column, unit))
    };
    Some(vec![column(TraceColumn::Time, time)?, column(TraceColumn::Rate, rate)?])
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// Returns true for digits with at most one point.
fn is_number(word: &str) -> bool {
    word.chars().all(is_of_number)
        && word.contains(|c: char| c.is_ascii_digit())
        && word.matches('.').count() <= 1
}

/// Reads a value in a column with this unit.
fn value<T>(
    at: &At,
    word: &str,
    unit: &TraceUnit,
    parse: impl Fn(&str) -> Result<T, Unreadable>,
) -> Result<T, At> {
    let reason = |error: Unreadable| at.says(error.to_string());
    match unit {
        TraceUnit::Seconds if is_number(word) => parse(&format!("{word}s"))
            .map_err(|error| at.says(format!("{error}; a time without a unit is in seconds"))),
        TraceUnit::Named(unit) if is_number(word) => {
            parse(&format!("{word}{unit}")).map_err(reason)
        }
        TraceUnit::Unread(error) if is_number(word) => Err(error.clone()),
        TraceUnit::Own | TraceUnit::Seconds | TraceUnit::Unread(_) => parse(word).map_err(reason),
        TraceUnit::Named(unit) => parse(word).map_err(|error| {
            let own = word.trim_start_matches(is_of_number);
            if own.len() < word.len() && parse(&format!("1{own}")).is_ok() {
                reason(error)
            } else {
                let word = quoted(word);
                at.says(format!("{word} is not a number of `{unit}`, the unit in the first line"))
            }
        }),
    }
}

/// Reads a rate, which may be zero.
fn rate(text: &str) -> Result<Rate, Unreadable> {
    if is_zero(text) { Ok(Rate(0)) } else { parse_rate(text) }
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
                "time_s,rate_mbit\n0,10\n2m,3",
                "3:1: `2m` is not a number of `s`, the unit in the first line",
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
    fn columns_by_name() {
        let read = |text: &str| {
            let mut all = Vec::new();
            rows(
                text,
                |_, _| Ok(()),
                |_, row| {
                    all.push(row);
                    Ok(())
                },
            )
            .map(|()| all)
        };
        let row = |ms: u64, kbit: u64, us: u64, percent: u64, loss: &str| TraceLine {
            time: Time(ms * 1_000_000),
            rate: Some(Rate(kbit * 1000)),
            delay: Some(Span::from_micros(us)),
            loss: Some((Probability::of(percent, 100), loss.to_owned())),
        };
        let two = [row(0, 10_000, 30_000, 0, "0%"), row(1500, 0, 5500, 2, "2%")];
        for text in [
            "time,rate,delay,loss\n0,10mbit,30ms,0%\n1.5,0mbit,5.5ms,2%",
            "time,rate,delay,loss\n0s,10mbit,30ms,0%\n1500ms,0mbit,5500us,2%",
            "time_s,rate_mbit,delay_ms,loss_percent\n0,10,30,0\n1.5,0,5.5,2\n",
            "\u{feff}Time (s), Rate (Mbit/s), Delay (ms), Loss (%)\r\n0, 10, 30, 0\r\n1.5, 0, 5.5, 2\r\n",
            "# a train\ntime [ms],rate[kbps],delay us,loss %\n0,10000,30000,0\n\n1500,0,5500,2 # end",
        ] {
            assert_eq!(read(text).unwrap(), two, "{text}");
        }
        let shuffled = read("loss (%),time,delay (ms)\n2,1,3").unwrap();
        let expected = TraceLine { rate: None, ..row(1000, 0, 3000, 2, "2%") };
        assert_eq!(shuffled, [expected]);
        for (text, what) in [
            (
                "time,rate,dealy\n",
                "1:11: `dealy` is not a column of a trace; did you mean `delay`?; columns: \
                 `time`, `rate`, `delay`, `loss`, each with or without a unit, as in `rate (mbit)`",
            ),
            ("time,rate,rate_mbit\n", "1:11: the column `rate` is there twice"),
            ("rate,delay\n", "1:1: the first line has no column `time`"),
            (
                "time,rate (mbitz)\n0s,1",
                "1:6: `mbitz` is not a unit of `rate`; units of rate: bit, kbit, mbit, gbit, tbit; \
                 B/s, kB/s, MB/s, GB/s",
            ),
            ("time,delay (m)", "1:6: `m` is not a unit of `delay`"),
            ("time,delay\n1,2ms,3%", "2:1: the line has 3 values, and the first line 2"),
            (
                "1s,2mbit,3%",
                "1:1: the line has 3 values instead of `time,rate`; a first line may name other \
                 columns, as in `time,rate,delay,loss`",
            ),
            (
                "time,delay_ms\n1,2\n 2, x",
                "3:5: `x` is not a number of `ms`, the unit in the first line",
            ),
            (
                "time,loss\n1,2",
                "2:3: `2` could be a fraction or a percentage; write `2%` for 2 percent",
            ),
            ("delay_ms,time\n2,2\n3,1.5", "3:1: 1.5s is not after the line before"),
            ("time,loss_%\n1,101", "2:3: `101%` is above 100%; write at most `100%`"),
        ] {
            assert_eq!(read(text).unwrap_err().in_file("a"), format!("a:{what}"), "{text}");
        }
    }

    #[test]
    fn values_with_units_of_their_own() {
        let steps = Trace::Steps(vec![
            (Time(0), Rate(5_000_000)),
            (Time(1_500_000_000), Rate(0)),
            (Time(2_000_000_000), Rate(6_000_000)),
        ]);
        for first in [
            "time (s),rate (mbit)",
            "time (s),rate",
            "time,rate",
            "time_ms,rate_kbit",
            "timestamp,rate",
            "time,rates",
            "time,rate (mbitz)",
            "time of day,rate of the link",
            "timestamp_s,rates_mbit",
            "time (of the test),rate [measured]",
        ] {
            let text = format!("{first}\n0s,5mbit\n1500ms,0bit\n2s,6000 kbit\n");
            assert_eq!(parse(&text).as_ref(), Ok(&steps), "{first}");
        }
        let text = "timestamp_ms,rates_kbit\n0,5000\n1500,0\n2s,6000";
        assert_eq!(parse(text).as_ref(), Ok(&steps));
        let columns = "columns: `time`, `rate`, `delay`, `loss`, each with or without a unit, as \
                       in `rate (mbit)`";
        for (text, what) in [
            (
                "timestamp,rate\n0s,5mbit\n1,6mbit",
                &format!("1:1: `timestamp` is not a column of a trace; {columns}")[..],
            ),
            ("time of day,rate\n0,5mbit", "1:1: `of day` is not a unit of `time`"),
            ("time_of_day,rate\n0s,5mbit", "1:1: `of_day` is not a unit of `time`"),
        ] {
            let error = parse(text).unwrap_err().in_file("a");
            assert!(error.starts_with(&format!("a:{what}")), "{text}: {error}");
        }
    }

    #[test]
    fn a_part_of_a_unit_is_not_completed_by_the_first_line() {
        for (text, what) in [
            ("time (s),rate (bit)\n5m,1", "2:1: `5m` is not a number of `s`"),
            ("time (s),rate (bit)\n5u,1", "2:1: `5u` is not a number of `s`"),
            ("time (s),rate (bit)\n5n,1", "2:1: `5n` is not a number of `s`"),
            ("time (s),rate (bit)\n5,1k", "2:3: `1k` is not a number of `bit`"),
            ("time (s),rate (bit)\n1.2.3,1", "2:1: `1.2.3` is not a number of `s`"),
            ("time (s),rate (bit)\n,1", "2:1: `` is not a number of `s`"),
            ("time,rate_0mbit\n0,5", "1:6: `0mbit` is not a unit of `rate`"),
            ("time,rate_0mbit\n0s,5mbit", "1:6: `0mbit` is not a unit of `rate`"),
            ("time,rate (.5mbit)\n0,5", "1:6: `.5mbit` is not a unit of `rate`"),
            ("time_0s,rate\n0,5", "1:1: `0s` is not a unit of `time`"),
        ] {
            let error = parse(text).unwrap_err().in_file("a");
            assert!(error.starts_with(&format!("a:{what}")), "{text}: {error}");
        }
    }

    #[test]
    fn numbers_out_of_range() {
        for (text, what) in [
            ("time (s),rate (tbit)\n0,1001", "2:3: `1001tbit` is above the highest rate"),
            ("time (h),rate (bit)\n9999999999,1", "2:1: `9999999999h` is "),
            ("time (s),rate (bit)\n0.30000000000000004,1", "2:1: `0.30000000000000004s` is "),
            ("time,rate (bit)\n0.30000000000000004,1", "2:1: `0.30000000000000004s` is "),
            ("time (s),rate (bit)\n0,1001tbit", "2:3: `1001tbit` is above the highest rate"),
            ("time,rate (bit)\nx,1", "2:1: `x` does not begin with a number"),
        ] {
            let error = parse(text).unwrap_err().in_file("a");
            assert!(error.starts_with(&format!("a:{what}")), "{text}: {error}");
            let seconds = text.starts_with("time,") && !text.contains('x');
            assert_eq!(
                error.ends_with("; a time without a unit is in seconds"),
                seconds,
                "{error}"
            );
        }
    }

    #[test]
    fn the_key_reads_rates_alone_if_asked() {
        let text = "time,delay_ms,rate_mbit\n0,5,10\n1,6,20\n";
        let steps = vec![(Time(0), Rate(10_000_000)), (Time(1_000_000_000), Rate(20_000_000))];
        assert_eq!(rates_alone(text).unwrap(), Trace::Steps(steps));
        assert_eq!(
            parse(text).unwrap_err().in_file("a"),
            "a:1:6: a link's `trace` reads `time` and `rate`, and the file also has `delay`"
        );
        assert_eq!(
            rates_alone("time,loss\n1,2%").unwrap_err().in_file("a"),
            "a:1:1: the trace has no line of `time,rate`"
        );
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
