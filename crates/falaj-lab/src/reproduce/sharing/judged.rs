//! The rows of a table: each published value beside the values of falaj's runs.

use super::cell::{SharedCell, SharedQuantity};
use super::{KnownDifference, SharingPaper};
use crate::reproduce::predicted::{T_99, predicted};
use crate::reproduce::verdict::{Allowed, JudgedRow, Statement};
use anyhow::{Context, Result};

/// The source of a tolerance that is larger because of chance.
const BY_CHANCE: &str = "99 % of single runs of ours are within it, and half a digit";

/// The tolerance of a quantity without an allowance for chance, and its source. Jain's index of
/// rates in the ratio x changes with x by `(1 - x^2) / (1 + x^2)^2`, so that a tenth of x changes
/// it by 0.025 at most.
fn chosen(quantity: SharedQuantity, value: f64) -> (f64, &'static str) {
    match quantity {
        SharedQuantity::Fairness => (0.025, "its change by 5 % of both rates, and half a digit"),
        SharedQuantity::Wait(_) => {
            (0.10 * value, "10 %, as with the kernel's TCP, and half a digit")
        }
        SharedQuantity::Goodput(_) | SharedQuantity::AllGoodput | SharedQuantity::Throughput => {
            (0.05 * value, "5 %, as with the kernel's TCP, and half a digit")
        }
    }
}

/// The rows of these cells, each with the values of its runs.
pub(super) fn rows(
    paper: &SharingPaper,
    cells: &[(&SharedCell, Vec<Vec<f64>>)],
) -> Result<Vec<JudgedRow>> {
    let known: Vec<KnownDifference> =
        serde_json::from_str(paper.known).context("the list of known differences")?;
    let mut rows = Vec::new();
    for (cell, runs) in cells {
        let statement = |statement: &str, unit, source: String| Statement {
            place: format!("Cell {}", cell.name),
            statement: statement.into(),
            unit,
            source,
            experiment: format!("falaj reproduce {} --only {}", paper.name, cell.name),
        };
        if let Some(why) = &cell.why {
            let words = cell.published.iter().map(|value| value.statement.as_str());
            let words = words.collect::<Vec<_>>().join(", ");
            let nothing = Allowed::least(f64::NAN);
            rows.push(JudgedRow::judge(
                statement(&words, "", String::new()),
                nothing,
                f64::NAN,
                Some(why),
            ));
            continue;
        }
        for (index, value) in cell.published.iter().enumerate() {
            let ours: Vec<f64> = runs.iter().map(|run| run[index]).collect();
            let of_cell = known.iter().find(|known| known.is_for(&cell.name, &value.statement));
            let (mean, by_chance) = predicted(&ours, T_99);
            let (chosen, source) = chosen(value.quantity, value.value);
            let source = if by_chance > chosen { BY_CHANCE } else { source };
            let mut statement =
                statement(&value.statement, value.quantity.unit(), source.to_owned());
            if let Some(shown) = of_cell.and_then(|known| known.experiment.clone()) {
                statement.experiment = shown;
            }
            let allowed = Allowed::near(value.value, chosen.max(by_chance) + value.rounded);
            let why = of_cell.map(|known| known.why.as_str());
            rows.push(JudgedRow::judge(statement, allowed, mean, why));
        }
    }
    Ok(rows)
}

impl KnownDifference {
    fn is_for(&self, cell: &str, statement: &str) -> bool {
        let begins = |begin: &String| statement.starts_with(begin.as_str());
        cell.starts_with(&self.cell)
            && (self.statements.is_empty() || self.statements.iter().any(begins))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CEBINAE, DUALQ, L4S};
    use super::*;
    use crate::reproduce::verdict::RowVerdict;

    /// Two rates in a ratio of x to 1, each off by 5 %: Jain's index moves by about 0.025 at most.
    #[test]
    fn jains_index_moves_no_further_than_its_tolerance() {
        let jain = |x: f64| (1.0 + x).powi(2) / 2.0 / (1.0 + x * x);
        let moved = |x: f64| (jain(x * 1.05 / 0.95) - jain(x)).max(jain(x) - jain(x * 0.95 / 1.05));
        let most = (1..=1000).map(|n| moved(f64::from(n) / 1e3)).fold(0.0, f64::max);
        assert!((0.024..0.027).contains(&most), "{most}");
    }

    #[test]
    fn every_known_difference_is_of_a_judged_cell() {
        for paper in [&L4S, &DUALQ, &CEBINAE] {
            let known: Vec<KnownDifference> = serde_json::from_str(paper.known).unwrap();
            let cells = (paper.cells)().unwrap();
            for known in &known {
                let is_of = |cell: &&SharedCell| {
                    let mut values = cell.published.iter();
                    cell.why.is_none() && values.any(|v| known.is_for(&cell.name, &v.statement))
                };
                assert!(cells.iter().any(|cell| is_of(&cell)), "{}: {}", paper.name, known.cell);
            }
            assert!(paper.quick.iter().all(|n| cells.iter().any(|c| c.name.starts_with(n))));
        }
    }

    #[test]
    fn a_published_value_is_compared_with_the_mean_of_runs() {
        let cells = (L4S.cells)().unwrap();
        let name = "10mbit-dualpi2-cubic10-cubic10";
        let cell = cells.iter().find(|cell| cell.name == name).expect("a row of the table");
        let verdicts = |runs: [[f64; 3]; 4]| {
            let runs = runs.map(Vec::from).to_vec();
            let rows = rows(&L4S, &[(cell, runs)]).unwrap();
            rows.iter().map(|row| row.verdict).collect::<Vec<_>>()
        };
        use RowVerdict::{Differs, Reproduced};
        // The published values are 4.82, 4.47 and 0.999; 5 % of the rates are 0.241 and 0.2235.
        let alike = [[5.05, 4.25, 0.99]; 4];
        assert_eq!(verdicts(alike), [Reproduced; 3]);
        assert_eq!(verdicts([[5.07, 4.24, 0.97]; 4]), [Differs; 3]);
        // Runs that differ by 1 allow a larger difference by chance.
        let apart = [-0.5, 0.5, -0.5, 0.5].map(|off| [5.07 + off, 4.24, 0.97]);
        assert_eq!(verdicts(apart), [Reproduced, Differs, Differs]);
    }
}
