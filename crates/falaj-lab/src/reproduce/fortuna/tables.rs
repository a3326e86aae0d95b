//! Fortuna and Chydzinski, Tables I-IV: fifteen rows of two or three virtual links, 1 Gbit/s,
//! packets of 500 B, phases of 30 us, queues of 20 packets, Poisson arrivals, 30 s; here with eight
//! fixed seeds.
//!
//! Table I has the packet-wise server, Table II the same server with the tail skipped. Tables III
//! and IV are the differences of I and II from the phase-wise server of an earlier paper. The
//! results of the phase-wise server itself are therefore I - III, and also II - IV.

use super::runs::{
    LinkServer, Ours, PUBLISHED, ProgressWatch, SimulationEffort, VirtualLink, run, scenario_text,
};
use crate::reproduce::predicted::{T_999, predicted};
use crate::reproduce::verdict::{self, Allowed, JudgedRow, RowVerdict, Statement, number};
use anyhow::{Context, Result, bail, ensure};
use falaj_terminal::{progress, text};
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// The paper's duration, with our number of seeds.
pub(super) const EFFORT: SimulationEffort = SimulationEffort { seconds: 30.0, seeds: 8 };

#[derive(Deserialize)]
pub(super) struct PublishedTables {
    pub(super) source: String,
    pub(super) rows: Vec<TableRow>,
}

#[derive(Deserialize)]
pub(super) struct TableRow {
    pub(super) no: usize,
    pub(super) types: String,
    pub(super) input: Vec<u64>,
    #[serde(rename = "I")]
    i: PublishedColumns,
    #[serde(rename = "II")]
    ii: PublishedColumns,
    #[serde(rename = "III")]
    iii: PublishedColumns,
    #[serde(rename = "IV")]
    iv: PublishedColumns,
}

/// Output rate in Mbit/s, mean and maximum delay in us, by link.
#[derive(Deserialize)]
struct PublishedColumns {
    out: Vec<f64>,
    avg: Vec<f64>,
    max: Vec<f64>,
}

/// A cell that cannot be reproduced, and the reason.
#[derive(Deserialize)]
struct KnownMisprint {
    table: String,
    row: usize,
    link: usize,
    quantity: String,
    why: String,
}

/// A cell of a table, judged.
pub(super) struct TableCell {
    pub(super) table: &'static str,
    pub(super) no: usize,
    pub(super) types: String,
    pub(super) link: usize,
    /// `out`, `avg` or `max`.
    pub(super) quantity: &'static str,
    pub(super) row: JudgedRow,
}

impl PublishedTables {
    pub(super) fn read() -> Result<PublishedTables> {
        Ok(serde_json::from_str(include_str!("../../../data/fortuna.json"))?)
    }
}

impl TableRow {
    pub(super) fn links(&self) -> Vec<VirtualLink> {
        self.types.chars().zip(self.input.iter().copied()).collect()
    }
}

/// The servers that the tables compare.
pub(super) const SERVERS: [LinkServer; 3] =
    [LinkServer::PhaseWise, LinkServer::PacketWise, LinkServer::PacketWiseSkip];

/// The scenario file of a row.
pub(super) fn scenario(published: &PublishedTables, no: usize) -> Result<String> {
    let row = published
        .rows
        .iter()
        .find(|r| r.no == no)
        .with_context(|| format!("there is no row {no}: 1 to 15"))?;
    let title = format!("Tables I-IV, row {}: links {}", row.no, row.types);
    Ok(scenario_text(&title, &row.links(), LinkServer::PacketWise, PUBLISHED, EFFORT))
}

/// Half of the unit to which published rates are rounded, in Mbit/s.
const ROUNDED_MBIT: f64 = 0.005;
/// Half of the unit to which published delays are rounded, in us.
const ROUNDED_US: f64 = 0.5;

/// The source of tolerances of rates and means.
const PREDICTED: &str = "99.9 % of single runs of 30 s like ours, and half of each printed unit";

const BOUND: &str = "a bound of falaj, (1''), for both values, which are not compared";
const BOUND_PHASE: &str = "a bound of falaj, (1'), for both values, which are not compared";
const BOUNDS: &str =
    "bounds of falaj, (1') and (1''), for both differences, which are not compared";

/// The cells of one link of a row, in all tables. If all links of the row are saturated, the
/// phase-wise maximum is not random.
fn cells_of(
    row: &TableRow,
    link: usize,
    ours: [&Ours; 3],
    all_saturated: bool,
    cells: &mut Vec<TableCell>,
) {
    let [phase, packet, skip] = ours;
    let mut push = |table: &'static str, quantity, allowed: Allowed, ours: f64, source: &str| {
        let (statement, unit) = match quantity {
            "out" => ("output rate", "Mbit/s"),
            "avg" => ("mean delay", "us"),
            _ => ("maximum delay", "us"),
        };
        let table_name =
            if table == "phase-wise" { "Phase-wise".into() } else { format!("Table {table}") };
        let statement = Statement {
            place: format!("{table_name} row {} link {}", row.no, link + 1),
            statement: statement.into(),
            unit,
            source: source.into(),
            experiment: "falaj reproduce fortuna --tables".into(),
        };
        cells.push(TableCell {
            table,
            no: row.no,
            types: row.types.clone(),
            link: link + 1,
            quantity,
            row: JudgedRow::judge(statement, allowed, ours, None),
        });
    };
    // If there is no bound, the comparison with NaN fails.
    let bound = |ours: &Ours| ours.bound.unwrap_or(f64::NAN);
    // Each published value is one number of the paper, or the difference of two; `printed` is
    // their count, as each of them is rounded.
    let mut means = |table, published: [f64; 2], printed: f64, runs: &[[f64; 2]]| {
        for (n, quantity) in ["out", "avg"].into_iter().enumerate() {
            let (mean, by_chance) =
                predicted(&runs.iter().map(|run| run[n]).collect::<Vec<_>>(), T_999);
            let tolerance = by_chance + printed * [ROUNDED_MBIT, ROUNDED_US][n];
            push(table, quantity, Allowed::near(published[n], tolerance), mean, PREDICTED);
        }
    };
    // The phase-wise server's own table: II - IV. I - III would be the same, but III has a
    // misprint.
    let of = |minuend: &[f64], difference: &[f64]| minuend[link] - difference[link];
    let of_both = |columns: &PublishedColumns| [columns.out[link], columns.avg[link]];
    let own = [of(&row.ii.out, &row.iv.out), of(&row.ii.avg, &row.iv.avg)];
    means("I", of_both(&row.i), 1.0, &packet.runs);
    means("II", of_both(&row.ii), 1.0, &skip.runs);
    means("phase-wise", own, 2.0, &phase.runs);
    // Both servers have the same arrivals.
    for (table, columns, ours) in [("III", &row.iii, packet), ("IV", &row.iv, skip)] {
        let both = ours.runs.iter().zip(&phase.runs);
        let less: Vec<[f64; 2]> = both.map(|(a, b)| [a[0] - b[0], a[1] - b[1]]).collect();
        means(table, of_both(columns), 1.0, &less);
    }
    for (table, columns, ours) in [("I", &row.i, packet), ("II", &row.ii, skip)] {
        let allowed = Allowed::most(bound(ours)).bound().printed(columns.max[link], ROUNDED_US);
        push(table, "max", allowed, ours.max, BOUND);
    }
    let published = of(&row.ii.max, &row.iv.max);
    if all_saturated {
        let source = "all links saturated, nothing is random: half of the printed unit";
        push("phase-wise", "max", Allowed::near(published, ROUNDED_US), phase.max, source);
    } else {
        let allowed = Allowed::most(bound(phase)).bound().printed(published, ROUNDED_US);
        push("phase-wise", "max", allowed, phase.max, BOUND_PHASE);
    }
    for (table, columns, ours) in [("III", &row.iii, packet), ("IV", &row.iv, skip)] {
        let allowed = Allowed::within(-bound(phase), bound(ours)).bound();
        let allowed = allowed.printed(columns.max[link], 2.0 * ROUNDED_US);
        push(table, "max", allowed, ours.max - phase.max, BOUNDS);
    }
}

/// Gives the cells of the closed list their reasons. A listed cell that agrees with the paper is an
/// error. Listed cells may be missing unless `whole` is true.
fn apply_known(cells: &mut [TableCell], whole: bool) -> Result<()> {
    let known: Vec<KnownMisprint> =
        serde_json::from_str(include_str!("../../../data/fortuna-known.json"))?;
    for k in known {
        let is = |c: &&mut TableCell| {
            (c.table, c.no, c.link, c.quantity)
                == (k.table.as_str(), k.row, k.link, k.quantity.as_str())
        };
        let Some(cell) = cells.iter_mut().find(is) else {
            ensure!(
                !whole,
                "the list of known cells names one that is missing: {} {}",
                k.table,
                k.row
            );
            continue;
        };
        if !cell.row.is_unexplained() {
            bail!(
                "table {} row {} link {} is on the list of known cells but comes out right",
                k.table,
                k.row,
                k.link
            );
        }
        cell.row.why = Some(k.why);
    }
    Ok(())
}

/// Runs all rows and judges all cells. If the run was stopped, returns the cells of the completed
/// rows.
pub(super) fn cells(published: &PublishedTables, stop: &AtomicBool) -> Result<Vec<TableCell>> {
    let bar =
        progress::long_bar((published.rows.len() * SERVERS.len() * EFFORT.seeds) as u64, "tables");
    let mut cells = Vec::new();
    let watch = ProgressWatch { bar: &bar, stop };
    for row in &published.rows {
        let of = |server| -> Result<Vec<Ours>> {
            run(&row.links(), server, EFFORT, watch)?
                .into_iter()
                .collect::<Option<_>>()
                .context("all links have traffic")
        };
        let [phase, packet, skip] = SERVERS.map(of);
        let (phase, packet, skip) = (phase?, packet?, skip?);
        if phase.is_empty() || packet.is_empty() || skip.is_empty() {
            break;
        }
        for link in 0..row.types.len() {
            let all_saturated = phase.iter().all(Ours::saturated);
            cells_of(
                row,
                link,
                [&phase[link], &packet[link], &skip[link]],
                all_saturated,
                &mut cells,
            );
        }
    }
    bar.finish_and_clear();
    apply_known(&mut cells, !stop.load(Ordering::Relaxed))?;
    Ok(cells)
}

/// The tables in display order, with their titles.
pub(super) const TITLES: [(&str, &str); 5] = [
    ("I", "Table I: packet-wise"),
    ("II", "Table II: packet-wise, tail skipped"),
    ("phase-wise", "Phase-wise, as II - IV gives it"),
    ("III", "Table III: packet-wise less phase-wise"),
    ("IV", "Table IV: packet-wise with the tail skipped less phase-wise"),
];

/// The columns of a table: three cells of one link stand side by side.
pub(super) const COLUMNS: [&str; 7] =
    ["no", "types", "link", "out", "avg", "max", "cells that differ"];

/// The links of a table, with the text of a row of each and its three cells.
pub(super) fn links<'c>(
    cells: &'c [TableCell],
    table: &str,
) -> impl Iterator<Item = (Vec<String>, [&'c JudgedRow; 3])> {
    let of_table: Vec<&TableCell> = cells.iter().filter(|c| c.table == table).collect();
    let links: Vec<[&TableCell; 3]> =
        of_table.chunks(3).filter_map(|link| link.try_into().ok()).collect();
    links.into_iter().map(|link| {
        let c = link[0];
        (vec![c.no.to_string(), c.types.clone(), c.link.to_string()], link.map(|c| &c.row))
    })
}

/// The quantities of a link that differ, in words.
fn exceptions(link: &[&JudgedRow; 3]) -> String {
    let other = link.iter().filter(|row| row.verdict == RowVerdict::Differs);
    other.map(|row| format!("{} differs", row.statement)).collect::<Vec<_>>().join(", ")
}

pub(super) fn print(cells: &[TableCell]) {
    let SimulationEffort { seconds, seeds } = EFFORT;
    say!(
        "{seeds} seeds of {seconds} s; rates in Mbit/s, delays in us; published / ours \
         (tolerance, or the bound of both)\n"
    );
    for (table, title) in TITLES {
        say!("{title}");
        let rows = links(cells, table).map(|(mut texts, link)| {
            texts.extend(link.map(show_cell));
            texts.push(exceptions(&link));
            texts
        });
        say!("{}\n", text::wrapped(&COLUMNS, rows, verdict::WIDTH));
    }
}

/// A cell as text, with published value, falaj's value and tolerance: `476.2 / 476.18 (± 0.48)`.
fn show_cell(row: &JudgedRow) -> String {
    let [published, ours, tolerance] = values(row);
    format!("{published} / {ours} ({tolerance})")
}

/// The published value, falaj's value, and the tolerance, without units.
pub(super) fn values(row: &JudgedRow) -> [String; 3] {
    let digits = if row.unit == "us" { 1 } else { 2 };
    let ours = row.ours.map_or(text::DASH.into(), |ours| format!("{ours:.digits$}"));
    [row.published.map_or(text::DASH.into(), number), ours, row.tolerance()]
}
