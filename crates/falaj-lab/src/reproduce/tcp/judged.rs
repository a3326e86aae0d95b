//! Comparison of both sides of a cell: differences, verdicts, reason.

use super::grid::{Cell, Times};
use super::measured::Measured;
use super::reasons;
use crate::reproduce::verdict::{Allowed, JudgedRow, Statement};
use serde::Serialize;

/// Goodput agrees within this fraction of the kernel's.
const GOODPUT: f64 = 0.05;
/// Mean and 99th percentile of the delay agree within this fraction.
const DELAY: f64 = 0.10;

/// Student's t for 9 degrees of freedom (3 and 8 runs), at 95 %.
const T_975_OF_9: f64 = 2.262;

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
    /// Maximum difference by chance between the means of both sides, in 95 % of such sets of runs:
    /// goodput, mean delay, 99th percentile of the delay, as fractions of the kernel's values.
    /// `None` without random losses.
    pub(super) chance: Option<[f64; 3]>,
    /// The reason if the sides differ, or if the cell is not judged.
    pub(super) why: Option<String>,
}

impl Row {
    /// Judges the runs of both sides. With random losses, a difference beyond the tolerance still
    /// counts as chance if Student's t of the means is within its 95 % range.
    pub(super) fn judged(cell: Cell, times: Times, kernel: &[Measured], ours: &[Measured]) -> Row {
        let (means, chance) = ([kernel, ours].map(Measured::mean), chance(kernel, ours));
        let [kernel, ours] = means;
        let ratios = ratios(&kernel, &ours).map(f64::abs);
        let tolerances = tolerances(chance);
        let is_close = |n: usize| ratios[n] <= tolerances[n];
        let why = if (0..3).all(is_close) {
            None
        } else {
            reasons::of(&cell, &kernel, &ours, is_close(0))
        };
        Row {
            kernel: Some(kernel),
            simulated: Some(ours),
            chance,
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
            why: Some(why),
        }
    }

    /// A row for each judged quantity; one for a cell that is not judged.
    pub(super) fn rows(&self) -> Vec<JudgedRow> {
        let judge = |(statement, unit): (&str, &'static str), source: &str, allowed, ours| {
            let statement = Statement {
                place: format!("Cell {}", self.cell),
                statement: statement.into(),
                unit,
                source: source.into(),
                experiment: format!("falaj reproduce tcp --only {}", self.cell),
            };
            JudgedRow::judge(statement, allowed, ours, self.why.as_deref())
        };
        let Some((kernel, ours)) = self.kernel.as_ref().zip(self.simulated.as_ref()) else {
            let nothing = Allowed::least(f64::NAN);
            return vec![judge(("goodput and delay", ""), "", nothing, f64::NAN)];
        };
        let tolerances = tolerances(self.chance);
        let row = |n: usize| {
            let (published, ours) = (JUDGED[n](kernel) / UNITS[n], JUDGED[n](ours) / UNITS[n]);
            let source = if tolerances[n] > CHOSEN[n] {
                "Student's t of the runs' means at 95 %"
            } else {
                "5 % of the kernel's goodput and 10 % of its delays, the goals of the comparison"
            };
            let allowed = Allowed::near(published, tolerances[n] * published.max(1e-9));
            judge(STATEMENTS[n], source, allowed, ours)
        };
        (0..3).map(row).collect()
    }
}

/// Names and units of the judged quantities. To be in this unit, a measured value is divided by its
/// entry of `UNITS`.
const STATEMENTS: [(&str, &str); 3] =
    [("goodput", "Mbit/s"), ("mean delay", "ms"), ("99th percentile of the delay", "ms")];
const UNITS: [f64; 3] = [1e6; 3];

/// The tolerances without random losses, as fractions of the kernel's values.
const CHOSEN: [f64; 3] = [GOODPUT, DELAY, DELAY];

/// The tolerances, as fractions of the kernel's values: no less than the difference by chance.
fn tolerances(chance: Option<[f64; 3]>) -> [f64; 3] {
    std::array::from_fn(|n| chance.map_or(CHOSEN[n], |most| CHOSEN[n].max(most[n])))
}

/// Relative differences of the simulation from the kernel: goodput, mean delay, 99th percentile of
/// the delay.
pub(super) fn ratios(kernel: &Measured, simulated: &Measured) -> [f64; 3] {
    JUDGED.map(|of| of(simulated) / of(kernel).max(1e-9) - 1.0)
}

/// The judged quantities.
const JUDGED: [fn(&Measured) -> f64; 3] = [|m| m.goodput, |m| m.mean, |m| m.p99];

/// Maximum difference by chance between the means of the runs, as fractions of the kernel's values.
fn chance(kernel: &[Measured], ours: &[Measured]) -> Option<[f64; 3]> {
    // The quantile is valid only for this number of degrees of freedom.
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
    use crate::reproduce::verdict::RowVerdict;

    fn runs(goodputs: &[f64]) -> Vec<Measured> {
        let one = |goodput: &f64| Measured {
            goodput: *goodput,
            mean: 1.0,
            p99: 1.0,
            ..Measured::default()
        };
        goodputs.iter().map(one).collect()
    }

    /// The row of the goodput.
    fn judged(kernel: &[f64], ours: &[f64]) -> JudgedRow {
        // A cell that is not on the list of reasons.
        let at_40_ms = |cell: &Cell| cell.round_trip == 40;
        let cell = Size::Quick.cells().into_iter().find(at_40_ms).expect("there is one");
        let row = Row::judged(cell, cell.times(6), &runs(kernel), &runs(ours));
        let rows = row.rows();
        assert_eq!(rows.len(), 3);
        rows[0].clone()
    }

    fn is_reproduced(kernel: &[f64], ours: &[f64]) -> bool {
        let row = judged(kernel, ours);
        assert!(row.verdict == RowVerdict::Reproduced || row.is_unexplained(), "{row:?}");
        row.verdict == RowVerdict::Reproduced
    }

    /// By hand: 90, 100, 110 have a sum of squares of 200 about their mean, and four pairs of 95
    /// and 105 have 200 too; sqrt(400 / 9 * (1/3 + 1/8)) * 2.262 = 10.2.
    #[test]
    fn runs_differ_by_chance_as_students_t_says() {
        let ours = [95.0, 105.0].repeat(4);
        let most = chance(&runs(&[90.0, 100.0, 110.0]), &runs(&ours)).unwrap()[0];
        assert!((most - 0.1021).abs() < 1e-3, "{most}");
        assert!(is_reproduced(&[81.0, 91.0, 101.0], &ours));
        assert!(judged(&[81.0, 91.0, 101.0], &ours).source.contains("Student"));
        assert!(!is_reproduced(&[75.0, 85.0, 95.0], &ours));
    }

    /// A single run of the kernel gives no estimate of chance.
    #[test]
    fn without_chance_only_the_tolerance_counts() {
        assert!(is_reproduced(&[100.0], &[95.5, 105.5]));
        assert!(judged(&[100.0], &[95.5, 105.5]).source.contains("goals"));
        assert!(!is_reproduced(&[100.0], &[80.0, 108.0]));
    }

    #[test]
    fn a_cell_that_takes_too_long_has_one_row_with_the_reason() {
        let cell = Size::Quick.cells()[0];
        let rows = Row::unjudged(cell, cell.times(6), "takes too long".into()).rows();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].verdict, RowVerdict::NotJudged);
        assert_eq!(rows[0].why.as_deref(), Some("takes too long"));
    }
}
