//! Measures of a flow, by name, and their required precision.

use std::fmt;
use std::str::FromStr;

/// A measure of a flow. Each replication yields one value of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// The mean delay, in nanoseconds.
    DelayMean,
    /// A quantile of the delay, in nanoseconds: the delay that this share of packets does not
    /// exceed.
    DelayQuantile(f64),
    /// The share of packets that were rejected by a full queue or dropped.
    Loss,
    /// The rate of packets that left and were not lost on the link, in bits per second.
    Rate,
}

/// Names of measures, as users write them; quantiles are `delay.p99`, `delay.p99.9`.
const NAMED: [(&str, Measure); 3] =
    [("delay.mean", Measure::DelayMean), ("loss", Measure::Loss), ("rate", Measure::Rate)];

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::DelayQuantile(share) => write!(f, "delay.p{}", (share * 1e8).round() / 1e6),
            other => {
                f.write_str(NAMED.iter().find(|(_, m)| m == other).map_or("", |(name, _)| name))
            }
        }
    }
}

/// The required width of the 95 % interval of a measure: `delay.mean ±1%`, `voice.delay.p99 ±2%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    /// The flow; `None` for each flow.
    pub flow: Option<String>,
    /// The measure.
    pub measure: Measure,
    /// Half the width of the interval, as a fraction of the estimate.
    pub within: f64,
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flow) = &self.flow {
            write!(f, "{flow}.")?;
        }
        write!(f, "{} ±{}%", self.measure, (self.within * 1e8).round() / 1e6)
    }
}

const EXAMPLE: &str =
    "write `delay.mean ±1%`, `loss ±5%`, `rate ±1%` or `FLOW.delay.p99 ±2%`; `+-` may replace `±`";

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        let wrong = |why: String| format!("{why}; {EXAMPLE}");
        let (what, width) = ["±", "+-"]
            .iter()
            .find_map(|sign| text.split_once(sign))
            .ok_or_else(|| wrong("there is no `±`".into()))?;
        let (what, width) = (what.trim(), width.trim());
        let percent =
            width.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
        let within = percent.filter(|p| part(*p) > 0.0 && *p < 100.0).ok_or_else(|| {
            wrong(format!(
                "`{width}` is not a width: write more than 0% and less than 100% of the estimate"
            ))
        })?;
        let (flow, measure) = measure(what).map_err(wrong)?;
        Ok(Until { flow, measure, within: part(within) })
    }
}

/// Converts a percentage to a fraction, rounded so that it is as close as possible to the decimal
/// number that the user wrote.
fn part(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e8
}

/// Parses a measure, and the name of the flow before it.
fn measure(text: &str) -> Result<(Option<String>, Measure), String> {
    let flow = |before: &str| match before.strip_suffix('.') {
        Some(flow) if !flow.is_empty() => Some(Some(flow.to_owned())),
        None if before.is_empty() => Some(None),
        _ => None,
    };
    let named =
        NAMED.iter().find_map(|(name, measure)| Some((flow(text.strip_suffix(name)?)?, *measure)));
    if let Some(named) = named {
        return Ok(named);
    }
    let quantile = text
        .rfind("delay.p")
        .and_then(|at| Some((flow(&text[..at])?, &text[at + "delay.p".len()..])));
    let Some((flow, percent)) = quantile else {
        return Err(format!("`{text}` is not a measure"));
    };
    match percent.parse::<f64>() {
        Ok(p) if part(p) > 0.0 && part(p) < 1.0 => Ok((flow, Measure::DelayQuantile(part(p)))),
        _ => Err(format!(
            "`p{percent}` is not a quantile: write `p50`, `p99`, `p99.9`, or another number \
             between 0 and 100 after `p`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_said() {
        for (text, flow, measure, within) in [
            ("delay.mean ±1%", None, Measure::DelayMean, 0.01),
            ("loss +-5 %", None, Measure::Loss, 0.05),
            ("voice.delay.p99±2%", Some("voice"), Measure::DelayQuantile(0.99), 0.02),
            (
                "dsl.voice up.delay.p99.9 ± 0.5%",
                Some("dsl.voice up"),
                Measure::DelayQuantile(0.999),
                0.005,
            ),
            ("a.loss.rate ±1%", Some("a.loss"), Measure::Rate, 0.01),
        ] {
            let until: Until = text.parse().unwrap();
            assert_eq!((until.flow.as_deref(), until.measure), (flow, measure), "{text}");
            assert!((until.within - within).abs() < 1e-12, "{text}");
            assert_eq!(until.to_string().parse::<Until>().unwrap(), until, "{until}");
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        for (text, why) in [
            ("delay.mean 1%", "there is no `±`"),
            ("delay.mean ±1", "`1` is not a width"),
            ("delay.mean ±NaN%", "`NaN%` is not a width"),
            ("loss ±0%", "`0%` is not a width"),
            ("speed ±1%", "`speed` is not a measure"),
            ("xloss ±1%", "`xloss` is not a measure"),
            (".loss ±1%", "`.loss` is not a measure"),
            ("delay.p101 ±1%", "`p101` is not a quantile"),
            ("delay.pinf ±1%", "`pinf` is not a quantile"),
        ] {
            let said = text.parse::<Until>().unwrap_err();
            assert!(
                said.starts_with(why) && said.ends_with("`+-` may replace `±`"),
                "{text}: {said}"
            );
        }
    }
}
