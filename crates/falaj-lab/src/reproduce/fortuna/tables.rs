//! Fortuna and Chydzinski, Tables I-IV: fifteen rows of two or three virtual links, 1 Gbit/s,
//! packets of 500 B, phases of 30 us, queues of 20 packets, Poisson arrivals, 30 s; here with eight
//! fixed seeds.
//!
//! Table I is the packet-wise server, II the same with the tail skipped. III and IV are I and II
//! minus the phase-wise server of an earlier paper, whose own table is therefore I - III, and also
//! II - IV.

use super::runs::{
    LinkServer, Ours, PUBLISHED, ProgressWatch, SimulationEffort, VirtualLink, run, scenario_text,
};
use anyhow::{Context, Result, bail, ensure};
use falaj_terminal::{progress, text};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// The paper's duration, with our number of seeds.
pub(super) const EFFORT: SimulationEffort = SimulationEffort { seconds: 30.0, seeds: 8 };

#[derive(Deserialize)]
pub(super) struct PublishedRow {
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

#[derive(Serialize)]
pub(super) struct TableCell {
    pub(super) table: &'static str,
    pub(super) row: usize,
    pub(super) types: String,
    pub(super) link: usize,
    pub(super) quantity: &'static str,
    pub(super) published: f64,
    pub(super) ours: f64,
    pub(super) difference: f64,
    /// `null` where maxima of single runs are compared, as each is a single draw.
    pub(super) tolerance: Option<f64>,
    /// The bound that published and reproduced maxima must both keep; `None` if the cell is not a
    /// maximum, or is a difference of maxima.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<f64>,
    pub(super) rule: &'static str,
    pub(super) verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl PublishedRow {
    pub(super) fn read() -> Result<PublishedRow> {
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
pub(super) fn scenario(published: &PublishedRow, no: usize) -> Result<String> {
    let row = published
        .rows
        .iter()
        .find(|r| r.no == no)
        .with_context(|| format!("there is no row {no}: 1 to 15"))?;
    let title = format!("Tables I-IV, row {}: links {}", row.no, row.types);
    Ok(scenario_text(&title, &row.links(), LinkServer::PacketWise, PUBLISHED, EFFORT))
}

/// Half of the unit to which published values are rounded, in us.
const ROUNDED_US: f64 = 0.5;

fn out_tolerance(ours: &Ours, published: f64) -> (f64, &'static str) {
    if ours.saturated() {
        (0.001 * published, "saturated rate: 0.1 %")
    } else {
        (0.0035 * published, "unsaturated rate: 0.35 %, the sampling error of one run of 30 s")
    }
}

fn phase_wise_tolerance(ours: &Ours) -> f64 {
    0.5 + 3.0 * ours.avg.standard_error.unwrap_or(0.0)
}

fn packet_wise_tolerance(row: &TableRow, link: usize, published: f64) -> (f64, &'static str) {
    if (row.no, link) == (7, 1) {
        return (
            2.0,
            "row 7 link 2: 2 us; no set of rules that gives the other rows gives this one",
        );
    }
    (f64::max(1.1, 0.015 * published), "mean delay packet-wise: max(1.1 us, 1.5 %)")
}

pub(super) fn verdict(within: bool) -> &'static str {
    if within { "ok" } else { "MISSED" }
}

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
    let mut push = |table,
                    quantity,
                    published: f64,
                    ours: f64,
                    tolerance: Option<f64>,
                    bound: Option<f64>,
                    rule,
                    within| {
        cells.push(TableCell {
            table,
            row: row.no,
            types: row.types.clone(),
            link: link + 1,
            quantity,
            published,
            ours,
            difference: ours - published,
            tolerance,
            bound,
            rule,
            verdict: verdict(within),
            why: None,
        });
    };
    let within = |published: f64, ours: f64, tolerance: f64| (ours - published).abs() <= tolerance;

    for (table, columns, ours) in [("I", &row.i, packet), ("II", &row.ii, skip)] {
        let (published, avg, max) = (columns.out[link], columns.avg[link], columns.max[link]);
        let (tolerance, rule) = out_tolerance(ours, published);
        push(
            table,
            "out",
            published,
            ours.out.mean,
            Some(tolerance),
            None,
            rule,
            within(published, ours.out.mean, tolerance),
        );
        let (tolerance, rule) = packet_wise_tolerance(row, link, avg);
        push(
            table,
            "avg",
            avg,
            ours.avg.mean,
            Some(tolerance),
            None,
            rule,
            within(avg, ours.avg.mean, tolerance),
        );
        let bounded = ours.within_bound() && ours.bound.is_some_and(|b| max <= b + ROUNDED_US);
        push(table, "max", max, ours.max, None, ours.bound, "maximum: both within (1'')", bounded);
    }

    // The phase-wise server's own table: II - IV. I - III would be the same, but III has a
    // misprint.
    let of = |minuend: &[f64], difference: &[f64]| minuend[link] - difference[link];
    let published = of(&row.ii.out, &row.iv.out);
    let (tolerance, rule) = out_tolerance(phase, published);
    push(
        "phase-wise",
        "out",
        published,
        phase.out.mean,
        Some(tolerance),
        None,
        rule,
        within(published, phase.out.mean, tolerance),
    );
    let published = of(&row.ii.avg, &row.iv.avg);
    let tolerance = phase_wise_tolerance(phase);
    let rule = "mean delay phase-wise: 0.5 us + 3 standard errors";
    push(
        "phase-wise",
        "avg",
        published,
        phase.avg.mean,
        Some(tolerance),
        None,
        rule,
        within(published, phase.avg.mean, tolerance),
    );
    let published = of(&row.ii.max, &row.iv.max);
    let bounded = phase.within_bound() && phase.bound.is_some_and(|b| published <= b + ROUNDED_US);
    let exact = (phase.max - published).abs() <= ROUNDED_US;
    let (tolerance, rule) = if all_saturated {
        (Some(ROUNDED_US), "maximum, all links saturated: as published, and within (1')")
    } else {
        (None, "maximum: both within (1')")
    };
    let within_both = bounded && (exact || !all_saturated);
    push("phase-wise", "max", published, phase.max, tolerance, phase.bound, rule, within_both);

    for (table, columns, minuend, ours) in
        [("III", &row.iii, &row.i, packet), ("IV", &row.iv, &row.ii, skip)]
    {
        let difference = ours.out.mean - phase.out.mean;
        let tolerance = if ours.saturated() { 0.002 } else { 0.001 } * minuend.out[link];
        let rule = "difference of rates: 0.1 % of each where saturated, of one where arrivals are \
                    the same";
        let published = columns.out[link];
        push(
            table,
            "out",
            published,
            difference,
            Some(tolerance),
            None,
            rule,
            within(published, difference, tolerance),
        );
        let difference = ours.avg.mean - phase.avg.mean;
        let tolerance =
            packet_wise_tolerance(row, link, minuend.avg[link]).0 + phase_wise_tolerance(phase);
        let rule = "difference of mean delays: both tolerances";
        let published = columns.avg[link];
        push(
            table,
            "avg",
            published,
            difference,
            Some(tolerance),
            None,
            rule,
            within(published, difference, tolerance),
        );
        let bounded = ours.within_bound() && phase.within_bound();
        let rule = "difference of maxima: both of ours within their bounds";
        push(table, "max", columns.max[link], ours.max - phase.max, None, None, rule, bounded);
    }
}

/// Marks cells on the closed list as known. A listed cell that comes out right is an error. Unless
/// `whole`, listed cells may be missing.
fn apply_known(cells: &mut [TableCell], whole: bool) -> Result<()> {
    let known: Vec<KnownMisprint> =
        serde_json::from_str(include_str!("../../../data/fortuna-known.json"))?;
    for k in known {
        let is = |c: &&mut TableCell| {
            (c.table, c.row, c.link, c.quantity)
                == (k.table.as_str(), k.row, k.link, k.quantity.as_str())
        };
        let Some(cell) = cells.iter_mut().find(is) else {
            ensure!(!whole, "the list of known cells names none: {} {}", k.table, k.row);
            continue;
        };
        if cell.verdict == "ok" {
            bail!(
                "table {} row {} link {} is on the list of known cells but comes out right",
                k.table,
                k.row,
                k.link
            );
        }
        cell.verdict = "known";
        cell.why = Some(k.why);
    }
    Ok(())
}

/// Runs all rows and judges all cells; returns those of the completed rows if it was stopped.
pub(super) fn cells(published: &PublishedRow, stop: &AtomicBool) -> Result<Vec<TableCell>> {
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

pub(super) fn print(cells: &[TableCell]) {
    let SimulationEffort { seconds, seeds } = EFFORT;
    say!(
        "{seeds} seeds of {seconds} s; rates in Mbit/s, delays in us; published / ours \
         (tolerance)\n"
    );
    for (table, title) in TITLES {
        say!("{title}");
        // Three cells belong together: rate, mean and maximum of one link.
        let of_table: Vec<&TableCell> = cells.iter().filter(|c| c.table == table).collect();
        let rows = of_table.chunks(3).map(|link| {
            let mut row =
                vec![link[0].row.to_string(), link[0].types.clone(), link[0].link.to_string()];
            row.extend(link.iter().map(|c| show_cell(c)));
            row.push(
                link.iter().map(|c| c.verdict).find(|v| *v != "ok").unwrap_or("ok").to_owned(),
            );
            row
        });
        say!("{}\n", text::table(&["no", "types", "link", "out", "avg", "max", ""], rows));
    }
    for c in cells.iter().filter(|c| c.verdict != "ok") {
        let why = c.why.as_deref().unwrap_or(c.rule);
        say!(
            "{} table {} row {} link {} {}: published {}, ours {:.2}: {why}",
            c.verdict,
            c.table,
            c.row,
            c.link,
            c.quantity,
            c.published,
            c.ours
        );
    }
    say!(
        "{} cells: {} as published, {} known misprints, {} missed\n",
        cells.len(),
        cells.iter().filter(|c| c.verdict == "ok").count(),
        cells.iter().filter(|c| c.verdict == "known").count(),
        missed(cells)
    );
}

pub(super) fn missed(cells: &[TableCell]) -> usize {
    cells.iter().filter(|c| c.verdict == "MISSED").count()
}

fn show_cell(c: &TableCell) -> String {
    let digits = if c.quantity == "out" { 2 } else { 1 };
    let limit = match (c.tolerance, c.bound) {
        (Some(tolerance), _) => format!(" (±{tolerance:.digits$})"),
        (None, Some(bound)) => format!(" (<= {bound:.0})"),
        (None, None) => String::new(),
    };
    format!("{} / {:.digits$}{limit}", (c.published * 100.0).round() / 100.0, c.ours)
}
