//! Both sides of a cell, beside each other: differences, verdict, reason.

use super::grid::{Cell, Times};
use super::measured::Measured;
use super::reasons;
use serde::Serialize;

/// Goodput agrees within this part of the kernel's.
const GOODPUT: f64 = 0.05;
/// Mean and 99th percentile of the delay agree within this part.
const DELAY: f64 = 0.10;

/// CellVerdict on a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CellVerdict {
    /// Goodput within 5 %, mean and 99th percentile of the delay within 10 %.
    Agrees,
    /// Not so, and the reason is known.
    Differs,
    /// Not so, and the reason is not known.
    Missed,
    /// Not measured.
    NotJudged,
}

impl CellVerdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            CellVerdict::Agrees => "agrees",
            CellVerdict::Differs => "differs",
            CellVerdict::Missed => "MISSED",
            CellVerdict::NotJudged => "not judged",
        }
    }

    /// Its class on the page.
    pub(super) fn class(self) -> &'static str {
        match self {
            CellVerdict::Agrees => "ok",
            CellVerdict::Missed => "MISSED",
            CellVerdict::Differs | CellVerdict::NotJudged => "known",
        }
    }
}

/// A cell, judged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) cell: Cell,
    /// The queue's limit.
    pub(super) packets: u64,
    /// Seconds in which the first connection is alone and counted.
    pub(super) seconds: f64,
    /// A part of the time with two connections, in seconds.
    pub(super) part: f64,
    pub(super) kernel: Option<Measured>,
    pub(super) simulated: Option<Measured>,
    pub(super) verdict: CellVerdict,
    pub(super) why: Option<String>,
}

impl Row {
    pub(super) fn judged(cell: Cell, times: Times, kernel: Measured, simulated: Measured) -> Row {
        let ratios = ratios(&kernel, &simulated);
        let agrees = ratios[0].abs() <= GOODPUT && ratios[1..].iter().all(|d| d.abs() <= DELAY);
        let why = if agrees { None } else { reasons::of(&cell, &kernel, &simulated) };
        let verdict = match (agrees, &why) {
            (true, _) => CellVerdict::Agrees,
            (false, Some(_)) => CellVerdict::Differs,
            (false, None) => CellVerdict::Missed,
        };
        Row {
            kernel: Some(kernel),
            simulated: Some(simulated),
            verdict,
            why,
            ..Row::unjudged(cell, times, String::new())
        }
    }

    pub(super) fn unjudged(cell: Cell, times: Times, why: String) -> Row {
        Row {
            cell,
            packets: cell.limit(),
            seconds: (times.second - times.counted).as_secs_f64(),
            part: times.part().as_secs_f64(),
            kernel: None,
            simulated: None,
            verdict: CellVerdict::NotJudged,
            why: Some(why),
        }
    }
}

/// How far the simulation is from the kernel, as parts of the kernel's: goodput, mean delay, 99th
/// percentile of the delay.
pub(super) fn ratios(kernel: &Measured, simulated: &Measured) -> [f64; 3] {
    let off = |of: fn(&Measured) -> f64| of(simulated) / of(kernel).max(1e-9) - 1.0;
    [off(|m| m.goodput), off(|m| m.mean), off(|m| m.p99)]
}
