//! Link occupancy and backlogs in the first replication, as Chrome trace events, which Perfetto and
//! `chrome://tracing` open.

use super::{RecordOutcome, Runs};
use anyhow::Result;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Converts nanoseconds to the format's unit: microseconds, with fractions.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

pub(super) fn write(path: &Path, runs: &Runs<'_>) -> Result<()> {
    let names = runs.names();
    let mut out = BufWriter::new(File::create(path)?);
    // Changes of each flow's backlog: time in ns, and bytes.
    let mut steps: Vec<Vec<Vec<(u64, i64)>>> =
        names.iter().map(|flows| vec![Vec::new(); flows.len()]).collect();
    let mut lines: Vec<serde_json::Value> = Vec::new();
    let mut failed: Result<()> = Ok(());
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut first = true;
    let mut put = |out: &mut BufWriter<File>, event: &serde_json::Value| -> Result<()> {
        writeln!(out, "{}", if first { "" } else { "," })?;
        first = false;
        Ok(serde_json::to_writer(out, event)?)
    };
    for (pipe, flows) in names.iter().enumerate() {
        let Some(name) = flows.first() else { continue };
        let process = json!({ "name": format!("{} {}", name.link, name.way) });
        lines.push(json!({ "ph": "M", "name": "process_name", "pid": pipe + 1, "args": process }));
        lines.push(json!({
            "ph": "M", "name": "thread_name", "pid": pipe + 1, "tid": 1,
            "args": { "name": "the link" },
        }));
    }
    for line in &lines {
        put(&mut out, line)?;
    }
    runs.each(0, |packet| {
        let (pipe, flow) = (packet.pipe.0 as usize, packet.flow.index());
        let name = names[pipe][flow].own.as_str();
        let (pid, bytes) = (pipe + 1, i64::from(packet.bytes));
        let event = match packet.fate {
            RecordOutcome::Sent { start, end, .. } => {
                steps[pipe][flow].push((packet.arrival.0, bytes));
                steps[pipe][flow].push((end.0, -bytes));
                let delay = micros(end.0 - packet.arrival.0);
                json!({
                    "ph": "X", "name": name, "pid": pid, "tid": 1, "ts": micros(start.0),
                    "dur": micros(end.0 - start.0),
                    "args": { "bytes": bytes, "delay_us": delay },
                })
            }
            RecordOutcome::Lost { .. } => json!({
                "ph": "i", "s": "p", "name": format!("{name}: {}", packet.fate()), "pid": pid,
                "tid": 1,
                "ts": micros(packet.arrival.0), "args": { "bytes": bytes },
            }),
        };
        if failed.is_ok() {
            failed = put(&mut out, &event);
        }
    })?;
    failed?;
    for (pipe, flows) in steps.iter_mut().enumerate() {
        for (flow, steps) in flows.iter_mut().enumerate() {
            // Departures come before arrivals at the same instant.
            steps.sort_unstable();
            let mut bytes = 0;
            for (n, &(at, change)) in steps.iter().enumerate() {
                bytes += change;
                // One counter value for each instant.
                if steps.get(n + 1).is_some_and(|next| next.0 == at) {
                    continue;
                }
                let counter = format!("queue of {}", names[pipe][flow].own);
                let event = json!({
                    "ph": "C", "name": counter, "pid": pipe + 1, "ts": micros(at),
                    "args": { "bytes": bytes },
                });
                put(&mut out, &event)?;
            }
        }
    }
    write!(out, "\n]}}\n")?;
    out.flush()?;
    Ok(())
}
