//! The statements of a paper, and falaj's values for them.

use super::super::verdict::{Allowed, JudgedRow, Statement};
use super::{PaperFigure, Work};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A statement of a paper: figure or table (`Figure 3`), statement, the values that agree with it,
/// unit, source of the tolerance.
pub(crate) type PublishedStatement =
    (&'static str, &'static str, Allowed, &'static str, &'static str);

/// An entry of the closed list of statements that are known to differ, or are not judged.
#[derive(Deserialize)]
struct KnownDeviation {
    label: String,
    statement: String,
    why: String,
    /// The arguments of an experiment that shows the reason; `None`: those of the figure itself.
    experiment: Option<String>,
}

impl KnownDeviation {
    /// Returns true if the entry is for this statement. An entry that ends with `*` is for all
    /// statements that begin with the text before it.
    fn is_for(&self, label: &str, statement: &str) -> bool {
        let stated = match self.statement.strip_suffix('*') {
            Some(begin) => statement.starts_with(begin),
            None => self.statement == statement,
        };
        stated && self.label == label
    }
}

/// Judges the statements about these figures.
pub(super) fn judged(work: &Work, figures: &[PaperFigure]) -> Result<Vec<JudgedRow>> {
    let known: Vec<KnownDeviation> =
        serde_json::from_str(work.known).context("the list of known deviations")?;
    let mut rows = Vec::new();
    for figure in figures {
        let label = &figure.label;
        let mut row = |statement: &str, allowed, unit, source: &str, ours: f64| {
            let excuse = known.iter().find(|k| k.is_for(label, statement));
            let shown = excuse.and_then(|k| k.experiment.clone());
            let arguments = shown.unwrap_or_else(|| (work.experiment)(label));
            let statement = Statement {
                place: label.clone(),
                statement: statement.to_owned(),
                unit,
                source: source.to_owned(),
                experiment: format!("falaj reproduce {} {arguments}", work.name),
            };
            let unmeasured = figure.unmeasured.as_deref().filter(|_| ours.is_nan());
            let why = unmeasured.or(excuse.map(|k| k.why.as_str()));
            rows.push(JudgedRow::judge(statement, allowed, ours, why));
        };
        for &(_, statement, allowed, unit, source) in
            work.published.iter().filter(|p| p.0 == *label)
        {
            let ours = figure.found.iter().find(|(name, _)| *name == statement);
            let ours = ours.with_context(|| format!("{label} has no `{statement}`"))?.1;
            row(statement, allowed, unit, source, ours);
        }
        for cell in &figure.cells {
            row(&cell.statement, cell.allowed, cell.unit, cell.source, cell.ours);
        }
        for k in known.iter().filter(|k| k.label == *label) {
            let is_stated = rows.iter().any(|r| k.is_for(&r.place, &r.statement));
            ensure!(
                is_stated,
                "the list of known deviations has `{}`, stated nowhere",
                k.statement
            );
        }
    }
    Ok(rows)
}
