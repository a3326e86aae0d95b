//! The statements of a paper, and our values.

use super::{PaperFigure, Work};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Figure or table (`Figure 3`), statement, published value, tolerance, unit.
pub(crate) type PublishedStatement = (&'static str, &'static str, f64, f64, &'static str);

/// A statement of the paper, judged.
#[derive(Serialize)]
pub(crate) struct JudgedStatement {
    pub(crate) label: String,
    pub(crate) statement: String,
    pub(crate) published: f64,
    /// Our value; NaN if there is none to compare.
    pub(crate) ours: f64,
    pub(crate) tolerance: f64,
    pub(crate) unit: &'static str,
    /// `ok`, `known` or `MISSED`.
    pub(crate) verdict: &'static str,
    pub(crate) why: Option<String>,
}

/// An entry of the closed list of statements that cannot be reproduced.
#[derive(Deserialize)]
struct KnownDeviation {
    label: String,
    statement: String,
    why: String,
}

/// The statements of these figures.
pub(super) fn judged(work: &Work, figures: &[PaperFigure]) -> Result<Vec<JudgedStatement>> {
    let known: Vec<KnownDeviation> =
        serde_json::from_str(work.known).context("the list of known deviations")?;
    for k in &known {
        let stated = work
            .published
            .iter()
            .any(|&(label, statement, ..)| (label, statement) == (&k.label, &k.statement));
        ensure!(
            stated,
            "the list of known deviations has `{}`, which is stated nowhere",
            k.statement
        );
    }
    let mut cells = Vec::new();
    for figure in figures {
        for &(label, statement, published, tolerance, unit) in
            work.published.iter().filter(|p| p.0 == figure.label)
        {
            let ours = figure.found.iter().find(|(name, _)| *name == statement);
            let ours = ours.with_context(|| format!("{label} has no `{statement}`"))?.1;
            let excuse = known
                .iter()
                .find(|k| (k.label.as_str(), k.statement.as_str()) == (label, statement));
            let (verdict, why) = match excuse {
                _ if (ours - published).abs() <= tolerance => ("ok", None),
                Some(known) => ("known", Some(known.why.clone())),
                None => ("MISSED", None),
            };
            let (label, statement) = (label.to_owned(), statement.to_owned());
            cells.push(JudgedStatement {
                label,
                statement,
                published,
                ours,
                tolerance,
                unit,
                verdict,
                why,
            });
        }
    }
    Ok(cells)
}
