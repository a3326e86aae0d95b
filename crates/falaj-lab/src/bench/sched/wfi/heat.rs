//! `bench wfi --plot`: disciplines over loads; the darker a cell, the greater the lag of its
//! worst flow.

use super::{FairnessFigures, FairnessOutcome};
use anyhow::Result;
use falaj_pictures::heat::{Heat, svg as drawn};

pub(super) fn svg(rows: &[FairnessFigures]) -> Result<String> {
    let (mut kinds, mut loads): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for row in rows {
        if !kinds.iter().any(|kind| kind == row.kind) {
            kinds.push(row.kind.to_owned());
        }
        if !loads.contains(&row.flowsets) {
            loads.push(row.flowsets.clone());
        }
    }
    let cell = |kind: &String, load: &String| {
        let row = rows.iter().find(|row| row.kind == kind && row.flowsets == *load)?;
        match &row.outcome {
            FairnessOutcome::Refused(_) => None,
            FairnessOutcome::Measured { lag, .. } => {
                let bytes = lag.fairness.b_wfi.amount;
                Some((bytes.max(1.0), format!("{bytes:.0}")))
            }
        }
    };
    drawn(&Heat {
        title: "B-WFI: bytes behind the fluid share, by discipline and flows (weight:bytes:flows)"
            .into(),
        cells: kinds
            .iter()
            .map(|kind| loads.iter().map(|load| cell(kind, load)).collect())
            .collect(),
        rows: kinds,
        columns: loads,
    })
}
