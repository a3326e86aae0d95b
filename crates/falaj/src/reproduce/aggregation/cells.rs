//! What the paper states, and what we get.

use super::figures::Figure;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// A statement of the paper, judged.
#[derive(Serialize)]
pub(super) struct Cell {
    pub(super) figure: usize,
    pub(super) statement: String,
    pub(super) published: f64,
    pub(super) ours: f64,
    pub(super) tolerance: f64,
    pub(super) unit: &'static str,
    /// `ok`, `known` or `MISSED`.
    pub(super) verdict: &'static str,
    pub(super) why: Option<String>,
}

/// Figure, statement, published, tolerance, unit.
const PUBLISHED: [(usize, &str, f64, f64, &str); 10] = [
    (1, "largest forwarding rate", 80.0, 4.0, "Kp/s"),
    (1, "mean delay below saturation", 120.0, 12.0, "us"),
    (2, "largest forwarding rate", 800.0, 40.0, "Kp/s"),
    (2, "mean delay at 100 Kp/s", 280.0, 28.0, "us"),
    (2, "largest mean delay", 400.0, 40.0, "us"),
    (2, "the delay falls from", 600.0, 50.0, "Kp/s"),
    (3, "the model is above the measured up to", 600.0, 0.0, "Kp/s"),
    (3, "measured over modelled at 800 Kp/s", 1.0, 0.1, ""),
    (4, "size for 300 us", 160.0, 1.0, "packets"),
    (4, "delay of containers of 160 packets, as printed", 300.0, 3.0, "us"),
];

/// One on the closed list of what cannot be reproduced.
#[derive(Deserialize)]
struct Known {
    figure: usize,
    statement: String,
    why: String,
}

fn known() -> Result<Vec<Known>> {
    serde_json::from_str(include_str!("../../../data/aggregation-known.json")).context("the list of known deviations")
}

/// The statements of these figures.
pub(super) fn judged(figures: &[Figure]) -> Result<Vec<Cell>> {
    let known = known()?;
    for k in &known {
        let stated =
            PUBLISHED.iter().any(|&(figure, statement, ..)| (figure, statement) == (k.figure, k.statement.as_str()));
        ensure!(stated, "the list of known deviations has `{}`, which is stated nowhere", k.statement);
    }
    let mut cells = Vec::new();
    for figure in figures {
        for (no, statement, published, tolerance, unit) in PUBLISHED {
            if no != figure.no {
                continue;
            }
            let ours = figure.found.iter().find(|(name, _)| *name == statement);
            let ours = ours.with_context(|| format!("figure {no} has no `{statement}`"))?.1;
            let excuse = known.iter().find(|k| (k.figure, k.statement.as_str()) == (no, statement));
            let (verdict, why) = match excuse {
                _ if (ours - published).abs() <= tolerance => ("ok", None),
                Some(known) => ("known", Some(known.why.clone())),
                None => ("MISSED", None),
            };
            let statement = statement.to_owned();
            cells.push(Cell { figure: no, statement, published, ours, tolerance, unit, verdict, why });
        }
    }
    Ok(cells)
}
