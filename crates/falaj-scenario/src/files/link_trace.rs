//! A trace of a link's rate, delay and loss, as keys of the link and scheduled changes. The option
//! `--trace` makes a scenario of it.

use crate::files::place::{At, bytes_of, decoded};
use crate::files::trace::{self, TraceColumn, TraceLine};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::fmt::Write;
use std::path::Path;
use toml_edit::Value;

/// Maximum number of instants at which the delay or the loss of a trace changes.
const CHANGES_MAX: usize = 10_000;

/// A trace of a link in one direction, or in both.
#[derive(Clone, Debug)]
pub struct LinkTrace {
    /// The file's path as a TOML value.
    file: String,
    columns: Vec<TraceColumn>,
    /// Time after which the trace starts again; `None` if the last line stays, or for a trace of
    /// mahimahi.
    repeat: Option<Span>,
    /// The delays and losses, each with the instant from which they hold. The first ones hold from
    /// the start. A line that changes neither of them is left out.
    steps: Vec<TracedValues>,
}

#[derive(Clone, Debug, Default)]
struct TracedValues {
    at: Span,
    delay: Option<Span>,
    loss: Option<String>,
}

impl LinkTrace {
    /// Reads the trace file at `path`. It starts again after the time `repeat`.
    ///
    /// # Errors
    /// The file cannot be read, its format is wrong, or its contents do not fit `repeat`. The error
    /// names the file, the line and the column.
    pub fn read(path: &Path, repeat: Option<Span>) -> Result<LinkTrace, String> {
        let name = path.display().to_string();
        let cannot = |error: std::io::Error| format!("{name} cannot be read: {error}");
        let metadata = std::fs::metadata(path).map_err(cannot)?;
        if !metadata.is_file() {
            return Err(format!(
                "{name} is not a regular file: a trace is read again at each change of the link"
            ));
        }
        let bytes = bytes_of(path).map_err(cannot)?;
        let whole = std::path::absolute(path).map_err(cannot)?;
        let Some(whole) = whole.to_str() else {
            return Err(format!("the name of {name} is not UTF-8: rename the file"));
        };
        let read = decoded(bytes).and_then(|text| LinkTrace::parse(&text, whole, repeat));
        read.map_err(|at| at.in_file(&name))
    }

    fn parse(text: &str, file: &str, repeat: Option<Span>) -> Result<LinkTrace, At> {
        let file = Value::from(file).to_string();
        if !trace::is_csv(text)? {
            if repeat.is_some() {
                return Err(At::START.says("a trace of mahimahi repeats at its end"));
            }
            trace::parse(text)?;
            return Ok(LinkTrace {
                file,
                columns: vec![TraceColumn::Rate],
                repeat: None,
                steps: Vec::new(),
            });
        }
        let mut steps: Vec<TracedValues> = Vec::new();
        let (mut losses, mut rates, mut last) = (None, false, None);
        trace::rows(
            text,
            |_, _| Ok(()),
            |at, row| {
                last = Some((at.clone(), TraceLine { loss: None, ..row }));
                rates |= row.rate.is_some_and(|rate| rate.0 > 0);
                let (probability, loss) = row.loss.unzip();
                let step = TracedValues { at: Span(row.time.0), delay: row.delay, loss };
                let is_new =
                    steps.last().is_none_or(|s| s.delay != step.delay || losses != probability);
                if is_new {
                    if steps.len() > CHANGES_MAX {
                        return Err(at.says(format!(
                            "more than {CHANGES_MAX} changes of delay and loss: write fewer lines"
                        )));
                    }
                    steps.push(step);
                    losses = probability;
                }
                Ok(())
            },
        )?;
        let Some((at, row)) = last else {
            return Err(At::START.says("the trace has no line of values"));
        };
        if let Some(repeat) = repeat.filter(|repeat| row.time.0 >= repeat.0) {
            return Err(at.says(format!(
                "the trace starts again after {repeat}, and this line is not before: write a \
                 longer time of repetition"
            )));
        }
        match repeat {
            None if row.rate == Some(Rate(0)) => {
                return Err(at.says(
                    "the last rate is zero, and would stay: add a line, or repeat the trace",
                ));
            }
            Some(_) if row.rate.is_some() && !rates => {
                return Err(at.says("the rate is always zero: add a line with a rate above zero"));
            }
            _ => {}
        }
        let has = |column: &TraceColumn| match column {
            TraceColumn::Time => false,
            TraceColumn::Rate => row.rate.is_some(),
            TraceColumn::Delay => row.delay.is_some(),
            TraceColumn::Loss => losses.is_some(),
        };
        let columns = TraceColumn::ALL.into_iter().filter(has).collect();
        Ok(LinkTrace { file, columns, repeat, steps })
    }

    /// The keys of a link that the trace sets: some of `rate`, `delay` and `loss`.
    pub fn sets(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.columns.iter().map(|column| column.name())
    }

    /// The longest delay; `None` if the trace has no delays.
    pub fn longest_delay(&self) -> Option<Span> {
        self.steps.iter().filter_map(|step| step.delay).max()
    }

    /// The keys of the link's table, or of a direction's table, with their values at the start.
    pub fn keys(&self) -> String {
        let mut text = String::new();
        if self.columns.contains(&TraceColumn::Rate) {
            let file = &self.file;
            let columns = match self.columns.len() {
                1 => "",
                _ => ", columns = \"rate\"",
            };
            let repeat =
                self.repeat.map_or(String::new(), |repeat| format!(", repeat = \"{repeat}\""));
            let _ = writeln!(text, "trace = {{ file = {file}{columns}{repeat} }}");
        }
        if let Some(first) = self.steps.first() {
            first.settings().for_each(|(key, value)| {
                let _ = writeln!(text, "{key} = \"{value}\"");
            });
        }
        text
    }

    /// The scheduled changes of the delay and the loss in the table with this name, such as
    /// `link.radio.up`.
    pub fn changes(&self, table: &str) -> String {
        let mut text = String::new();
        let Some((first, later)) = self.steps.split_first() else { return text };
        if later.is_empty() {
            return text;
        }
        let again = self.repeat.map(|repeat| TracedValues { at: repeat, ..first.clone() });
        for step in later.iter().chain(&again) {
            let every = self.repeat.map_or(String::new(), |every| format!("every = \"{every}\"\n"));
            let set: Vec<String> = step
                .settings()
                .map(|(key, value)| format!("\"{table}.{key}\" = \"{value}\""))
                .collect();
            let (at, set) = (step.at, set.join(", "));
            let _ = writeln!(text, "[[change]]\nat = \"{at}\"\n{every}set = {{ {set} }}");
        }
        text
    }
}

impl TracedValues {
    fn settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let delay = self.delay.map(|delay| ("delay", delay.to_string()));
        delay.into_iter().chain(self.loss.clone().map(|loss| ("loss", loss)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, repeat: Option<Span>) -> Result<LinkTrace, String> {
        LinkTrace::parse(text, "/a \"b\".csv", repeat).map_err(|at| at.in_file("a"))
    }

    const ALL: &str = "time,rate (mbit),delay (ms),loss (%)\n\
                       0,10,30,0\n5,8,30,0\n10,0,80,0\n12.5,20,80,1.5\n";

    #[test]
    fn keys_and_changes() {
        let trace = parse(ALL, None).unwrap();
        assert_eq!(trace.sets().collect::<Vec<_>>(), ["rate", "delay", "loss"]);
        assert_eq!(trace.longest_delay(), Some(Span::from_millis(80)));
        assert_eq!(
            trace.keys(),
            "trace = { file = '/a \"b\".csv', columns = \"rate\" }\ndelay = \"30ms\"\n\
             loss = \"0%\"\n"
        );
        assert_eq!(
            trace.changes("link.a"),
            "[[change]]\nat = \"10s\"\n\
             set = { \"link.a.delay\" = \"80ms\", \"link.a.loss\" = \"0%\" }\n\
             [[change]]\nat = \"12.5s\"\n\
             set = { \"link.a.delay\" = \"80ms\", \"link.a.loss\" = \"1.5%\" }\n"
        );
        let again = parse("time,delay\n1,5ms\n2,6ms", Some(Span::from_secs(4))).unwrap();
        assert_eq!(again.keys(), "delay = \"5ms\"\n");
        assert_eq!(
            again.changes("link.a.up"),
            "[[change]]\nat = \"2s\"\nevery = \"4s\"\nset = { \"link.a.up.delay\" = \"6ms\" }\n\
             [[change]]\nat = \"4s\"\nevery = \"4s\"\nset = { \"link.a.up.delay\" = \"5ms\" }\n"
        );
        for (text, repeat) in [("1\n5\n", ""), ("0s,1mbit\n1s,2mbit", ", repeat = \"4s\"")] {
            let repeats = Some(Span::from_secs(4)).filter(|_| !repeat.is_empty());
            let trace = parse(text, repeats).unwrap();
            assert_eq!(trace.keys(), format!("trace = {{ file = '/a \"b\".csv'{repeat} }}\n"));
            assert_eq!(trace.changes("link.a"), "");
        }
    }

    /// The key of the loss is valid TOML for any blank before the percent sign.
    #[test]
    fn control_characters_in_a_loss() {
        for blank in ["", " ", "\t", "\u{b}", "\u{c}", "\r", "\u{85}", "\u{2028}"] {
            for header in ["loss", "loss (%)"] {
                let trace = parse(&format!("time,{header}\n0,1.5{blank}%\n1,2%\n"), None).unwrap();
                assert_eq!(trace.keys(), "loss = \"1.5%\"\n", "{blank:?}");
            }
        }
    }

    #[test]
    fn contents_that_do_not_fit() {
        let mut many = "time,delay_ms\n".to_owned();
        for n in 0..=CHANGES_MAX + 1 {
            let _ = writeln!(many, "{n},{}", n % 2);
        }
        let (line, second) = (CHANGES_MAX + 3, Some(Span::from_secs(1)));
        for (text, repeat, what) in [
            ("", None, "1:1: the trace is empty"),
            ("1\n2\n", second, "1:1: a trace of mahimahi repeats at its end"),
            ("time,delay\n", None, "1:1: the trace has no line of values"),
            ("time\n", None, "1:1: `time` is not a whole number of milliseconds up to a day"),
            (
                "time,delay\n0,5ms\n1,6ms",
                second,
                "3:1: the trace starts again after 1s, and this line is not before: write a longer \
                 time of repetition",
            ),
            (
                "time,rate\n0,5mbit\n1,0bit",
                None,
                "3:1: the last rate is zero, and would stay: add a line, or repeat the trace",
            ),
            (
                "time,rate\n0,0bit",
                second,
                "2:1: the rate is always zero: add a line with a rate above zero",
            ),
            (
                &many[..],
                None,
                &format!(
                    "{line}:1: more than {CHANGES_MAX} changes of delay and loss: write fewer lines"
                )[..],
            ),
        ] {
            assert_eq!(parse(text, repeat).unwrap_err(), format!("a:{what}"));
        }
    }
}
