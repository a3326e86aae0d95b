//! Comparison of both sides of a cell: differences, verdict, reason.

use super::grid::{Cell, Times};
use super::measured::Measured;
use super::reasons;
use serde::Serialize;

/// Goodput agrees within this fraction of the kernel's.
const GOODPUT: f64 = 0.05;
/// Mean and 99th percentile of the delay agree within this fraction.
const DELAY: f64 = 0.10;

/// Student's t for the degrees of freedom of 3 and 8 runs, at 95 %.
const T_975_OF_9: f64 = 2.262;

/// The verdict on a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CellVerdict {
    /// Goodput within 5 %, mean and 99th percentile of the delay within 10 %.
    Agrees,
    /// Some quantities differ more, but by no more than such runs differ by chance.
    WithinChance,
    /// They differ, and the reason is known.
    Differs,
    /// They differ, and the reason is not known.
    Missed,
    /// Not measured.
    NotJudged,
}

impl CellVerdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            CellVerdict::Agrees => "agrees",
            CellVerdict::WithinChance => "within chance",
            CellVerdict::Differs => "differs",
            CellVerdict::Missed => "MISSED",
            CellVerdict::NotJudged => "not judged",
        }
    }

    /// The CSS class on the page.
    pub(super) fn class(self) -> &'static str {
        match self {
            CellVerdict::Agrees | CellVerdict::WithinChance => "ok",
            CellVerdict::Missed => "MISSED",
            CellVerdict::Differs | CellVerdict::NotJudged => "known",
        }
    }
}

/// A judged cell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) cell: Cell,
    /// The queue's limit in packets.
    pub(super) packets: u64,
    /// Seconds in which the first connection is alone and counted.
    pub(super) seconds: f64,
    /// Length of a part of the time with two connections, in seconds.
    pub(super) part: f64,
    pub(super) kernel: Option<Measured>,
    pub(super) simulated: Option<Measured>,
    /// Maximum difference of the means of both sides by chance, in 95 % of such sets of runs, as
    /// fractions of the kernel's: goodput, mean delay, 99th percentile of the delay. `None` without
    /// random losses.
    pub(super) chance: Option<[f64; 3]>,
    pub(super) verdict: CellVerdict,
    pub(super) why: Option<String>,
}

impl Row {
    /// Judges the runs of both sides. With random losses, quantities that differ by more than the
    /// tolerance are within chance if Student's t of their means is within 95 %.
    pub(super) fn judged(cell: Cell, times: Times, kernel: &[Measured], ours: &[Measured]) -> Row {
        let (means, chance) = ([kernel, ours].map(Measured::mean), chance(kernel, ours));
        let [kernel, ours] = means;
        let ratios = ratios(&kernel, &ours).map(f64::abs);
        let tolerance = [GOODPUT, DELAY, DELAY];
        let all = |test: &dyn Fn(usize) -> bool| (0..3).all(test);
        let is_close = |n: usize| ratios[n] <= tolerance[n];
        let is_chance = |n: usize| is_close(n) || chance.is_some_and(|most| ratios[n] <= most[n]);
        let agrees_in_goodput = is_chance(0);
        let (verdict, why) = if all(&is_close) {
            (CellVerdict::Agrees, None)
        } else if all(&is_chance) {
            (CellVerdict::WithinChance, None)
        } else {
            let why = reasons::of(&cell, &kernel, &ours, agrees_in_goodput);
            (why.as_ref().map_or(CellVerdict::Missed, |_| CellVerdict::Differs), why)
        };
        Row {
            kernel: Some(kernel),
            simulated: Some(ours),
            chance,
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
            chance: None,
            verdict: CellVerdict::NotJudged,
            why: Some(why),
        }
    }
}

/// Relative differences of the simulation from the kernel: goodput, mean delay, 99th percentile of
/// the delay.
pub(super) fn ratios(kernel: &Measured, simulated: &Measured) -> [f64; 3] {
    JUDGED.map(|of| of(simulated) / of(kernel).max(1e-9) - 1.0)
}

/// The judged quantities.
const JUDGED: [fn(&Measured) -> f64; 3] = [|m| m.goodput, |m| m.mean, |m| m.p99];

/// Maximum difference of the means of the runs by chance, as fractions of the kernel's.
fn chance(kernel: &[Measured], ours: &[Measured]) -> Option<[f64; 3]> {
    // The quantile applies to this number of runs.
    let degrees = (kernel.len() + ours.len()).checked_sub(2).filter(|n| *n == 9)?;
    Some(JUDGED.map(|of| {
        let squares = |runs: &[Measured]| {
            let mean = of(&Measured::mean(runs));
            runs.iter().map(|run| (of(run) - mean).powi(2)).sum::<f64>()
        };
        let variance = (squares(kernel) + squares(ours)) / degrees as f64;
        let of_means = variance * (1.0 / kernel.len() as f64 + 1.0 / ours.len() as f64);
        T_975_OF_9 * of_means.sqrt() / of(&Measured::mean(kernel)).max(1e-9)
    }))
}

#[cfg(test)]
mod tests {
    use super::super::grid::Size;
    use super::*;

    fn runs(goodputs: &[f64]) -> Vec<Measured> {
        let one = |goodput: &f64| Measured {
            goodput: *goodput,
            mean: 1.0,
            p99: 1.0,
            ..Measured::default()
        };
        goodputs.iter().map(one).collect()
    }

    fn verdict(kernel: &[f64], ours: &[f64]) -> CellVerdict {
        // A cell that is not on the list of reasons.
        let at_40_ms = |cell: &Cell| cell.round_trip == 40;
        let cell = Size::Quick.cells().into_iter().find(at_40_ms).expect("there is one");
        Row::judged(cell, cell.times(6), &runs(kernel), &runs(ours)).verdict
    }

    /// By hand: 90, 100, 110 have a sum of squares of 200 about their mean, and four pairs of 95
    /// and 105 have 200 too; sqrt(400 / 9 * (1/3 + 1/8)) * 2.262 = 10.2.
    #[test]
    fn runs_differ_by_chance_as_students_t_says() {
        let ours = [95.0, 105.0].repeat(4);
        let most = chance(&runs(&[90.0, 100.0, 110.0]), &runs(&ours)).unwrap()[0];
        assert!((most - 0.1021).abs() < 1e-3, "{most}");
        assert_eq!(verdict(&[88.0, 98.0, 108.0], &ours), CellVerdict::Agrees);
        assert_eq!(verdict(&[81.0, 91.0, 101.0], &ours), CellVerdict::WithinChance);
        assert_eq!(verdict(&[75.0, 85.0, 95.0], &ours), CellVerdict::Missed);
    }

    /// A single run of the kernel gives no estimate of chance.
    #[test]
    fn without_chance_only_the_tolerance_counts() {
        assert_eq!(verdict(&[100.0], &[95.5, 105.5]), CellVerdict::Agrees);
        assert_eq!(verdict(&[100.0], &[80.0, 108.0]), CellVerdict::Missed);
    }
}
