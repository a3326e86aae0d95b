//! A table with one row for each packet of all replications.

use super::table::{ColumnValues, TableWriter};
use super::{FileFormat, PacketRecord, RecordOutcome, Runs};
use anyhow::Result;
use falaj_sched::units::time::Time;
use std::path::Path;

pub(super) fn write(path: &Path, form: FileFormat, runs: &Runs<'_>) -> Result<()> {
    let whole = || ColumnValues::Whole(Vec::new());
    let text = || ColumnValues::Text(Vec::new());
    let columns = vec![
        ("replication", whole()),
        ("link", text()),
        ("way", text()),
        ("flow", text()),
        ("bytes", whole()),
        ("arrival_ns", whole()),
        ("start_ns", whole()),
        ("end_ns", whole()),
        ("due_ns", whole()),
        ("delay_ns", whole()),
        ("fate", text()),
    ];
    let mut table = TableWriter::new(path, form, columns)?;
    let names = runs.names();
    let mut failed = Ok(());
    for replication in 0..runs.replications {
        runs.each(replication, |packet| {
            if failed.is_ok() {
                let name = &names[packet.pipe.0 as usize][packet.flow.index()];
                let words = [name.link.as_str(), name.way, &name.own];
                line(&mut table, replication, words, &packet);
                failed = table.flush();
            }
        })?;
    }
    failed?;
    table.finish()
}

fn line(
    table: &mut TableWriter,
    replication: usize,
    [link, way, flow]: [&str; 3],
    packet: &PacketRecord,
) {
    let ns = |at: Time| i64::try_from(at.0).ok();
    let (start, end, due) = match packet.fate {
        RecordOutcome::Sent { start, end, due } => (ns(start), ns(end), ns(due)),
        RecordOutcome::Lost { .. } => (None, None, None),
    };
    let arrival = ns(packet.arrival);
    let delay = end.zip(arrival).map(|(end, arrival)| end - arrival);
    for (name, values) in &mut table.columns {
        match values {
            ColumnValues::Text(all) => all.push(
                match *name {
                    "link" => link,
                    "way" => way,
                    "flow" => flow,
                    _ => packet.fate(),
                }
                .to_owned(),
            ),
            ColumnValues::Whole(all) => all.push(match *name {
                "replication" => i64::try_from(replication).ok(),
                "bytes" => Some(packet.bytes.into()),
                "arrival_ns" => arrival,
                "start_ns" => start,
                "end_ns" => end,
                "due_ns" => due,
                _ => delay,
            }),
            ColumnValues::Number(_) => {}
        }
    }
}
