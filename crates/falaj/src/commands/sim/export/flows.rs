//! A table with one row for each flow and replication: for the flows that have sources or, with
//! rules, for all flows. As in the report of `falaj sim`, packets of the warm-up are not counted.

use super::table::{ColumnValues, PendingRows, TableWriter};
use super::{FileFormat, Runs};
use anyhow::Result;
use falaj_sim::rows::{COLUMNS, rows};
use falaj_sim::scenario::experiment;
use falaj_sim::simulate;
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub(super) fn write(path: &Path, form: FileFormat, runs: &Runs<'_>) -> Result<()> {
    let mut experiment = experiment(runs.scenario, runs.duration);
    experiment.warm_up = runs.warm_up;
    let text = || ColumnValues::Text(Vec::new());
    let mut columns: PendingRows = vec![
        ("replication", ColumnValues::Whole(Vec::new())),
        ("link", text()),
        ("way", text()),
        ("flow", text()),
    ];
    columns.extend(COLUMNS.iter().map(|column| (column.name, ColumnValues::Number(Vec::new()))));
    let mut table = TableWriter::new(path, form, columns)?;
    for replication in 0..runs.replications {
        let seed = runs.scenario.run.seed.wrapping_add(replication as u64);
        let run =
            simulate(&experiment, seed, &AtomicBool::new(false)).map_err(|(_, refused)| refused)?;
        for row in rows(runs.scenario, &run) {
            for (name, values) in &mut table.columns {
                match values {
                    ColumnValues::Whole(all) => all.push(i64::try_from(replication).ok()),
                    ColumnValues::Text(all) => all.push(match *name {
                        "link" => row.link.clone(),
                        "way" => row.way.clone(),
                        _ => row.flow.clone(),
                    }),
                    ColumnValues::Number(all) => {
                        let column = COLUMNS.iter().find(|column| column.name == *name);
                        all.push(column.and_then(|column| (column.of)(&row)));
                    }
                }
            }
        }
        table.flush()?;
    }
    table.finish()
}
