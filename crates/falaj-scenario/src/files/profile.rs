//! Reads profiles, which are distributions of extra air time, in dummynet's format.

use crate::files::place::{At, words_of_lines};
use crate::suggest::quoted;
use crate::units::{parse_fraction, parse_rate, parse_span};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// Description of the format, for help texts.
pub(crate) const FORM: &str = "lines of two words: `name`, `bw`, `samples`, `loss-level`, then `prob delay`, and points of probability and milliseconds; `#` begins a comment";

/// The contents of a profile file.
#[derive(Debug)]
pub(crate) struct ProfileFile {
    /// The link's rate, if the profile sets it.
    pub(crate) bw: Option<Rate>,
    /// Packets whose random number is above this probability are lost.
    pub(crate) loss_level: Probability,
    /// Corners of the cumulative distribution function, in order: neither coordinate decreases.
    pub(crate) points: Vec<(Probability, Span)>,
}

/// Parses a profile. The points must be a distribution: from probability 0 to probability 1, and
/// neither coordinate may decrease.
pub(crate) fn parse(text: &str) -> Result<ProfileFile, At> {
    let mut read = ProfileFile { bw: None, loss_level: Probability::ALWAYS, points: Vec::new() };
    // Index of the probability among the words of a point.
    let mut order: Option<usize> = None;
    let mut last = At::START;
    for line in words_of_lines(text) {
        let [(at, first), (behind, second)] = &line[..] else {
            let (at, _) = &line[0];
            return Err(
                at.says(format!("a line must have two words, and this one has {}", line.len()))
            );
        };
        last = at.clone();
        let units = |at: &At, error: crate::units::Unreadable| at.says(error.to_string());
        match (*first, *second) {
            ("name", _) => {}
            // dummynet tabulates the distribution with this number of samples. falaj interpolates
            // exactly between the points, so the number is checked but not used.
            ("samples", n) if n.parse::<u64>().is_ok_and(|n| n > 0) => {}
            ("samples", n) => {
                return Err(behind.says(format!(
                    "{} is not a number of samples; write a whole number above 0",
                    quoted(n)
                )));
            }
            ("bw", rate) => read.bw = Some(bandwidth(rate).map_err(|e| units(behind, e))?),
            ("loss-level", p) => {
                read.loss_level = parse_fraction(p).map_err(|e| units(behind, e))?;
            }
            ("prob", "delay") => order = Some(0),
            ("delay", "prob") => order = Some(1),
            _ => {
                let Some(order) = order else {
                    return Err(at.says(format!(
                        "{} is not a key of a profile; write `prob delay` before the first point",
                        quoted(first)
                    )));
                };
                let (p, delay) = if order == 0 {
                    (line[0].clone(), line[1].clone())
                } else {
                    (line[1].clone(), line[0].clone())
                };
                let probability = parse_fraction(p.1).map_err(|e| units(&p.0, e))?;
                let plain = !delay.1.contains(|c: char| c.is_ascii_alphabetic());
                let time = parse_span(&format!("{}ms", delay.1))
                    .ok()
                    .filter(|_| plain)
                    .ok_or_else(|| {
                        delay.0.says(format!(
                            "{} is not a number of milliseconds; write one without a unit, as in `1.5`",
                            quoted(delay.1)
                        ))
                    })?;
                if read.points.is_empty() && probability != Probability::NEVER {
                    return Err(p.0.says(format!(
                        "the first point must have a probability of 0, and has {}",
                        p.1
                    )));
                }
                if let Some(before) = read.points.last() {
                    let what = if probability < before.0 { "probability" } else { "delay" };
                    if probability < before.0 || time < before.1 {
                        return Err(at.says(format!("the {what} is below that of the line before")));
                    }
                }
                read.points.push((probability, time));
            }
        }
    }
    match read.points.last() {
        None => Err(last.says("the profile has no points")),
        Some(end) if end.0 != Probability::ALWAYS => Err(last.says(format!(
            "the last point must have a probability of 1, and has {}",
            end.0.as_f64()
        ))),
        Some(_) => Ok(read),
    }
}

/// Parses a rate in dummynet's notation: `1Mbit/s`, `300KByte/s`; 0 is unlimited.
fn bandwidth(text: &str) -> Result<Rate, crate::units::Unreadable> {
    if text.bytes().all(|b| b == b'0') {
        return Ok(Rate::UNLIMITED);
    }
    parse_rate(&text.replace("KByte/s", "kB/s").replace("Byte/s", "B/s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_engine::impair::profile::Profile;
    use proptest::prelude::*;

    #[test]
    fn a_profile_of_dummynet() {
        let text = "# from a talk\nname wifi\nbw 54Mbit/s\nsamples 100\nloss-level 0.9\nprob delay\n0 0.25\n0.5 0.25\n0.5 2\n1.0 12.125\n";
        let read = parse(text).unwrap();
        let p = |n| Probability::of(n, 10);
        let us = Span::from_micros;
        assert_eq!(
            read.points,
            [(p(0), us(250)), (p(5), us(250)), (p(5), us(2000)), (p(10), us(12_125))]
        );
        assert_eq!((read.bw, read.loss_level), (Some(Rate::from_mbit(54)), p(9)));
        let other = parse("delay prob\n0 0\n3 1").unwrap();
        assert_eq!((other.bw, other.loss_level, other.points.len()), (None, p(10), 2));
        assert_eq!(bandwidth("0").unwrap(), Rate::UNLIMITED);
        assert_eq!(bandwidth("300KByte/s").unwrap(), Rate(2_400_000));
        let many: String = (0..=5000).map(|n| format!("{} {n}\n", f64::from(n) / 5000.0)).collect();
        assert_eq!(parse(&format!("prob delay\n{many}")).unwrap().points.len(), 5001);
        for (text, what) in [
            ("", "1:1: the profile has no points"),
            (
                "prob delay\n0.1 5\n1 6",
                "2:1: the first point must have a probability of 0, and has 0.1",
            ),
            (
                "delay prob\n5 0\n6 0.75",
                "3:1: the last point must have a probability of 1, and has 0.75",
            ),
            ("prob delay\n0 5\n1 4", "3:1: the delay is below that of the line before"),
            (
                "prob delay\n0 5\n0.5 6\n0.4 7",
                "4:1: the probability is below that of the line before",
            ),
            ("prob delay\n0 5 6", "2:1: a line must have two words, and this one has 3"),
            (
                "0 5",
                "1:1: `0` is not a key of a profile; write `prob delay` before the first point",
            ),
            (
                "prob delay\n0 1s",
                "2:3: `1s` is not a number of milliseconds; write one without a unit, as in `1.5`",
            ),
            (
                "prob delay\n0 -1",
                "2:3: `-1` is not a number of milliseconds; write one without a unit, as in `1.5`",
            ),
            ("loss-level 2", "1:12: `2` is more than 1; write a number from 0 to 1"),
            (
                "samples none",
                "1:9: `none` is not a number of samples; write a whole number above 0",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().in_file("a"), format!("a:{what}"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_distribution_or_refused(
            text in "(prob delay\n)?([01.]{1,3} [0-9.]{1,4}\n){0,6}|\\PC{0,40}",
        ) {
            if let Ok(read) = parse(&text) {
                prop_assert!(Profile::new(read.points, read.loss_level, true).is_some());
            }
        }
    }
}
