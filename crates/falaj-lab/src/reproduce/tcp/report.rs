//! The table of all cells: printed, as JSON, as a page.

use super::super::Args;
use super::super::page::{Head, command, table};
use super::super::verdict::{self, JudgedRow, VerdictCounts};
use super::judged::{Row, ratios};
use super::measured::Measured;
use anyhow::{Context, Result};
use falaj_guest::kernel::Kernel;
use falaj_terminal::text;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

const TITLE: &str = "TCP of the kernel and of the simulation";
const SETTING: &str = "\
    Each cell is a link with a queue, and two connections over it. The kernel's are real ones \
    between two network namespaces, in a guest of virtual time; the simulation's are `model = \
    \"tcp\"`. The first connection is alone at first: its goodput, the delay of its packets at the \
    link (last bit in to last bit out) and its loss there are counted then, after slow start. \
    Convergence is the time from the start of the second connection until both share fairly \
    (Jain's index of 0.95 or more in three successive intervals, each 1/24 of the time with two \
    connections). Segments leave one by one, 1,514 bytes each, without segmentation offload. A \
    cell lasts for several periods between two reductions of the window, and for at least 40 \
    round trips.";
const SEEDS: &str = "\
    The simulation's numbers are the mean of eight runs, by the seeds 1 to 8. Where packets are \
    lost at random, the kernel's are the mean of three runs, by the seeds 1 to 3, and both sides \
    differ by chance: values further apart than the tolerance are within chance if Student's t of \
    the means is within 95 %. Otherwise the kernel has one run. Of several runs, the convergence \
    is that of the run with the median convergence.";
const HEADER: [&str; 17] = [
    "control",
    "Mbit/s",
    "ms",
    "BDP",
    "packets",
    "loss %",
    "queue",
    "goodput Mbit/s: kernel",
    "ours",
    "delay ms: kernel",
    "ours",
    "p99 ms: kernel",
    "ours",
    "lost %: kernel",
    "ours",
    "converge s: kernel",
    "ours",
];

/// The columns that the terminal shows beside the judged rows.
const NOT_JUDGED: [&str; 5] = ["cell", HEADER[13], HEADER[14], HEADER[15], HEADER[16]];

/// Prints the table, or JSON, and writes the page.
pub(super) fn tell(args: &Args, kernel: &Kernel, rows: &[Row], took: Duration) -> Result<()> {
    let all = to_json(kernel, rows, took);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        say!("{}\n", text::table(&NOT_JUDGED, rows.iter().map(not_judged)));
        verdict::print(&judged(rows), |_| true);
    }
    if let Some(out) = &args.out {
        let put = |name: &str, text: &str| {
            let path = out.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        put("tcp.html", &page(kernel, rows, took))?;
        put("tcp.json", &serde_json::to_string_pretty(&all)?)?;
        note!("{}: tcp.html and tcp.json", out.display());
    }
    Ok(())
}

/// The rows of all cells.
pub(super) fn judged(rows: &[Row]) -> Vec<JudgedRow> {
    rows.iter().flat_map(Row::rows).collect()
}

fn source(kernel: &Kernel) -> String {
    format!("Linux {} in virtual time, and falaj sim", kernel.release)
}

fn to_json(kernel: &Kernel, rows: &[Row], took: Duration) -> Value {
    let row = |row: &Row| {
        let mut json = serde_json::to_value(row).unwrap_or_default();
        json["name"] = row.cell.to_string().into();
        if let (Some(kernel), Some(ours)) = (&row.kernel, &row.simulated) {
            let [goodput, mean, p99] = ratios(kernel, ours);
            json["off"] = json!({ "goodput": goodput, "mean": mean, "p99": p99 });
        }
        json
    };
    let judged = judged(rows);
    json!({
        "paper": source(kernel), "setting": SETTING, "version": env!("CARGO_PKG_VERSION"),
        "command": command(), "seeds": SEEDS, "seconds": took.as_secs_f64(),
        "cells": rows.iter().map(row).collect::<Vec<_>>(),
        "rows": judged, "summary": VerdictCounts::of(&judged),
    })
}

/// The cells of a row as text.
fn cells(row: &Row) -> Vec<String> {
    let cell = &row.cell;
    let mut texts = vec![
        cell.congestion.name().to_owned(),
        format!("{}", cell.rate as f64 / 1e6),
        cell.round_trip.to_string(),
        cell.queue.to_string(),
        row.packets.to_string(),
        cell.loss.to_string(),
        cell.management.name().to_owned(),
    ];
    let off = row.kernel.as_ref().zip(row.simulated.as_ref()).map(|(a, b)| ratios(a, b));
    let mut pair = |of: &dyn Fn(&Measured) -> String, off: Option<f64>| {
        for (n, side) in [&row.kernel, &row.simulated].into_iter().enumerate() {
            let text = side.as_ref().map_or(text::DASH.into(), of);
            texts.push(match off.filter(|_| n == 1) {
                Some(off) => format!("{text} ({:+.1} %)", 100.0 * off),
                None => text,
            });
        }
    };
    pair(&|m| format!("{:.3}", m.goodput / 1e6), off.map(|off| off[0]));
    pair(&|m| format!("{:.2}", m.mean / 1e6), off.map(|off| off[1]));
    pair(&|m| format!("{:.2}", m.p99 / 1e6), off.map(|off| off[2]));
    pair(&|m| format!("{:.2}", 100.0 * m.loss()), None);
    let seconds = |part: usize| format!("{:.1}", part as f64 * row.part);
    pair(&|m| m.converged().map_or(text::DASH.into(), seconds), None);
    texts
}

/// The name of a cell, its loss and its convergence.
fn not_judged(row: &Row) -> Vec<String> {
    [row.cell.to_string()].into_iter().chain(cells(row).split_off(13)).collect()
}

fn page(kernel: &Kernel, rows: &[Row], took: Duration) -> String {
    let head = Head {
        title: TITLE,
        source: &source(kernel),
        setting: SETTING,
        command: &command(),
        seeds: SEEDS,
    };
    let mut html = head.html();
    let judged = judged(rows);
    let _ = writeln!(
        html,
        "<p>{}: <a href=\"#rows\">all rows</a>. It took {} s.</p>\n<h2 id=\"cells\">Cells</h2>",
        VerdictCounts::of(&judged),
        took.as_secs()
    );
    let styled = |row: &Row| {
        let of_cell = row.rows();
        let class = |n: usize| match n {
            // Goodput, mean delay and 99th percentile of the delay, as falaj simulates them.
            8 | 10 | 12 => of_cell.get((n - 8) / 2).map_or("", JudgedRow::class),
            0 | 6 => "words",
            _ => "",
        };
        cells(row).into_iter().enumerate().map(|(n, text)| (class(n), text)).collect::<Vec<_>>()
    };
    html.push_str(&table(&HEADER, rows.iter().map(styled)));
    html.push_str("<h2 id=\"rows\">The kernel's and ours</h2>\n");
    html.push_str(&verdict::html(&judged, ""));
    html.push_str("</body></html>\n");
    html
}
