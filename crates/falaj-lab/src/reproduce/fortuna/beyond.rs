//! Results that the paper does not have. First the rows of its tables are run again with idle time
//! lent, with tails carried over, and with both. Then the first link of each row is divided into a
//! small part and the rest; the parts share one queue, or DRR serves them. No maximum delay may
//! exceed its bound.

use super::runs::{LinkServer, PARTS, ProgressWatch, SimulationEffort, run};
use super::tables::PublishedTables;
use crate::reproduce::verdict::{Allowed, JudgedRow, Statement};
use anyhow::Result;
use falaj_terminal::{progress, text};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

pub(super) const EFFORT: SimulationEffort = SimulationEffort { seconds: 10.0, seeds: 4 };

pub(super) const SERVERS: [LinkServer; 4] = [
    LinkServer::Clean { lend: false, carry: false },
    LinkServer::Clean { lend: true, carry: false },
    LinkServer::Clean { lend: false, carry: true },
    LinkServer::Clean { lend: true, carry: true },
];

pub(super) const DIVIDED: [LinkServer; 2] =
    [LinkServer::Divided { drr: false }, LinkServer::Divided { drr: true }];

/// The results of a link of a row, or of a part of this link, under one server: rates in Mbit/s,
/// delays in us.
#[derive(Serialize)]
pub(super) struct VariantResult {
    pub(super) row: usize,
    pub(super) types: String,
    /// The link's number, such as `2`; the parts of the first link are `1/small` and `1/rest`.
    pub(super) link: String,
    pub(super) input: u64,
    pub(super) server: String,
    pub(super) out: f64,
    pub(super) avg: f64,
    pub(super) max: f64,
    pub(super) bound: Option<f64>,
}

impl VariantResult {
    fn keeps_its_bound(&self) -> bool {
        self.bound.is_some_and(|bound| self.max <= bound)
    }
}

/// All results of both tables; if the run was stopped, the results of the completed rows.
pub(super) fn outcomes(
    published: &PublishedTables,
    effort: SimulationEffort,
    stop: &AtomicBool,
) -> Result<[Vec<VariantResult>; 2]> {
    let runs = published.rows.len() * (SERVERS.len() + DIVIDED.len()) * effort.seeds;
    let bar = progress::long_bar(runs as u64, "beyond");
    let both = [&SERVERS[..], &DIVIDED[..]]
        .map(|servers| under(servers, published, effort, ProgressWatch { bar: &bar, stop }));
    bar.finish_and_clear();
    let [links, parts] = both;
    Ok([links?, parts?.into_iter().filter(|o| o.link.contains('/')).collect()])
}

/// Results by row, then link or part, then server.
fn under(
    servers: &[LinkServer],
    published: &PublishedTables,
    effort: SimulationEffort,
    watch: ProgressWatch<'_>,
) -> Result<Vec<VariantResult>> {
    let mut outcomes = Vec::new();
    for row in &published.rows {
        let links = row.links();
        let runs =
            servers.iter().map(|s| run(&links, *s, effort, watch)).collect::<Result<Vec<_>>>()?;
        if runs.iter().any(Vec::is_empty) {
            break;
        }
        let mut names: Vec<(String, u64)> =
            links.iter().enumerate().map(|(n, (_, input))| ((n + 1).to_string(), *input)).collect();
        if matches!(servers[0], LinkServer::Divided { .. }) {
            let (_, input) = names.remove(0);
            names.splice(
                0..0,
                PARTS.map(|(part, share)| (format!("1/{part}"), input * share / 100)),
            );
        }
        for (n, (name, input)) in names.iter().enumerate() {
            for (server, run) in servers.iter().zip(&runs) {
                let Some(ours) = &run[n] else { continue };
                outcomes.push(VariantResult {
                    row: row.no,
                    types: row.types.clone(),
                    link: name.clone(),
                    input: *input,
                    server: server.name(),
                    out: ours.out.mean,
                    avg: ours.avg.mean,
                    max: ours.max,
                    bound: ours.bound,
                });
            }
        }
    }
    Ok(outcomes)
}

/// The maximum delays as rows: each has a bound and no published value.
pub(super) fn rows(outcomes: &[Vec<VariantResult>; 2]) -> Vec<JudgedRow> {
    let row = |o: &VariantResult| {
        let statement = Statement {
            place: format!("Beyond row {} link {}", o.row, o.link),
            statement: format!("maximum delay, {}", o.server),
            unit: "us",
            source: "a bound of falaj; nothing is compared with the paper".into(),
            experiment: "falaj reproduce fortuna --beyond".into(),
        };
        let allowed = Allowed::most(o.bound.unwrap_or(f64::NAN)).bound();
        JudgedRow::judge(statement, allowed, o.max, None)
    };
    outcomes.iter().flatten().map(row).collect()
}

/// A cell with rate, mean delay, and maximum delay with its bound: `476.2; 12.3; 190 <= 202`.
pub(super) fn show(o: &VariantResult) -> String {
    let bound = o.bound.map_or(text::DASH.into(), |b| format!("{b:.0}"));
    let relation = if o.keeps_its_bound() { "<=" } else { ">" };
    format!("{:.1}; {:.1}; {:.0} {relation} {bound}", o.out, o.avg, o.max)
}

/// Title, column names and rows of each table, as text.
pub(super) type Tables = [(&'static str, Vec<String>, Vec<Vec<String>>); 2];

/// Both tables as text: a row for each link, a column for each server.
pub(super) fn tables(outcomes: &[Vec<VariantResult>; 2]) -> Tables {
    let table = |servers: &[LinkServer], of: &[VariantResult]| {
        let header = ["no", "types", "link", "input"].map(str::to_owned).into_iter();
        let rows = of.chunks(servers.len()).map(|of| {
            let o = &of[0];
            let mut row =
                vec![o.row.to_string(), o.types.clone(), o.link.clone(), o.input.to_string()];
            row.extend(of.iter().map(show));
            row
        });
        (header.chain(servers.iter().map(|s| s.name())).collect(), rows.collect())
    };
    let (links, parts) = (table(&SERVERS, &outcomes[0]), table(&DIVIDED, &outcomes[1]));
    [
        ("lending and carrying over", links.0, links.1),
        ("the first link divided: a tenth of its load, and the rest", parts.0, parts.1),
    ]
}

pub(super) fn print(outcomes: &[Vec<VariantResult>; 2]) {
    let SimulationEffort { seconds, seeds } = EFFORT;
    say!(
        "Beyond the paper: packet-wise, preset clean\n{seeds} seeds of {seconds} s; rate in Mbit/s; mean delay; maximum and its bound, in us\n"
    );
    for (title, header, rows) in tables(outcomes) {
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        say!("{title}\n{}\n", text::table(&header, rows));
    }
}
