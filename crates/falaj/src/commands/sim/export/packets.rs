//! A table with one row for each packet of all replications, or of a replay, and for each link that
//! it passes.

use super::table::{ColumnValues, TableWriter};
use super::{FileFormat, PacketRecord, RecordOutcome, ReplayedPacket, Runs};
use anyhow::Result;
use falaj_sched::units::time::Time;
use std::path::Path;

/// Creates the file. The first column is called `number`.
fn table(path: &Path, form: FileFormat, number: &'static str) -> Result<TableWriter> {
    let whole = || ColumnValues::Whole(Vec::new());
    let text = || ColumnValues::Text(Vec::new());
    let columns = vec![
        (number, whole()),
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
    TableWriter::new(path, form, columns)
}

/// Writes the packets of a replay. The first column is the packet's number in the capture, from 0.
pub(super) fn write_replayed(
    path: &Path,
    form: FileFormat,
    packets: &[ReplayedPacket],
) -> Result<()> {
    let mut table = table(path, form, "packet")?;
    for ReplayedPacket { number, link, way, flow, record } in packets {
        line(&mut table, *number, [link, way, flow], record);
        table.flush()?;
    }
    table.finish()
}

pub(super) fn write(path: &Path, form: FileFormat, runs: &Runs<'_>) -> Result<()> {
    let mut table = table(path, form, "replication")?;
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
    number: usize,
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
                "replication" | "packet" => i64::try_from(number).ok(),
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
