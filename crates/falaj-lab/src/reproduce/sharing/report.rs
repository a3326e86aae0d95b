//! The table of a paper: printed, as JSON, as a page.

use super::cell::SharedCell;
use super::{SEED, SharingPaper};
use crate::reproduce::Args;
use crate::reproduce::page::{Head, command, escape};
use crate::reproduce::verdict::{self, JudgedRow, RowVerdict, VerdictCounts};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

const SEEDS: &str = "Our values are means of runs with the seeds 1 to 8, or 1 to 4 with --quick. A \
                     published value is that of one run. Where single runs differ by more than the \
                     tolerance, it agrees if it lies in the interval that contains 99 % of our \
                     single runs (Student's t).";

/// Prints the rows, or JSON, and writes the page.
pub(super) fn tell(
    paper: &SharingPaper,
    args: &Args,
    cells: &[(&SharedCell, Vec<Vec<f64>>)],
    rows: &[JudgedRow],
    took: Duration,
) -> Result<()> {
    let all = to_json(paper, cells, rows, took);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        say!("{}\n{}\n", paper.source, paper.setting);
        print(rows);
    }
    if let Some(out) = &args.out {
        let put = |name: &str, text: &str| {
            let path = out.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        put(&format!("{}.html", paper.name), &page(paper, cells, rows, took))?;
        put(&format!("{}.json", paper.name), &serde_json::to_string_pretty(&all)?)?;
        note!("{}: {name}.html and {name}.json", out.display(), name = paper.name);
    }
    Ok(())
}

/// Prints the rows and the count. Cells that are not judged share a few reasons: each reason is
/// printed once.
fn print(rows: &[JudgedRow]) {
    let (others, judged): (Vec<JudgedRow>, Vec<JudgedRow>) =
        rows.iter().cloned().partition(|row| row.verdict == RowVerdict::NotJudged);
    verdict::print_rows(&judged, |_| true);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &others {
        *reasons.entry(row.why.as_deref().unwrap_or_default()).or_default() += 1;
    }
    for (why, count) in reasons {
        say!("not judged, cells: {count}\n    {why}");
    }
    say!("{}", VerdictCounts::of(rows));
}

fn to_json(
    paper: &SharingPaper,
    cells: &[(&SharedCell, Vec<Vec<f64>>)],
    rows: &[JudgedRow],
    took: Duration,
) -> Value {
    let cell = |(cell, runs): &(&SharedCell, Vec<Vec<f64>>)| {
        let mut json = serde_json::to_value(cell).unwrap_or_default();
        json["runs"] = json!(runs);
        json
    };
    json!({
        "paper": paper.source, "setting": paper.setting, "version": env!("CARGO_PKG_VERSION"),
        "command": command(), "seeds": SEEDS, "seconds": took.as_secs_f64(),
        "cells": cells.iter().map(cell).collect::<Vec<_>>(),
        "rows": rows, "summary": VerdictCounts::of(rows),
    })
}

fn page(
    paper: &SharingPaper,
    cells: &[(&SharedCell, Vec<Vec<f64>>)],
    rows: &[JudgedRow],
    took: Duration,
) -> String {
    let head = Head {
        title: paper.title,
        source: paper.source,
        setting: paper.setting,
        command: &command(),
        seeds: SEEDS,
    };
    let mut html = head.html();
    let _ = writeln!(
        html,
        "<p>{}. It took {} s.</p>\n<h2 id=\"cells\">Published and ours</h2>",
        VerdictCounts::of(rows),
        took.as_secs()
    );
    html.push_str(&verdict::html(rows, ""));
    let _ = writeln!(
        html,
        "<h2 id=\"scenarios\">Scenarios</h2>\n<p>Each cell as a file for <code>falaj sim</code>; \
         the values count what comes after a warm-up of {} s.</p>",
        paper.counted.from.as_secs_f64()
    );
    for (cell, _) in cells.iter().filter(|(cell, _)| cell.why.is_none()) {
        let _ = writeln!(
            html,
            "<details><summary>{}</summary>\n<pre>{}</pre></details>",
            escape(&cell.name),
            escape(&cell.scenario(paper.counted.to, SEED))
        );
    }
    html.push_str("</body></html>\n");
    html
}
