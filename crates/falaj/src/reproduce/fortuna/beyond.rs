//! Beyond the paper: its rows with idle time lent, with tails carried over,
//! and with both; no maximum may exceed its bound.

use super::runs::{Effort, Server, run};
use super::tables::{Published, verdict};
use crate::show;
use crate::show::say;
use anyhow::Result;
use serde::Serialize;

pub(super) const EFFORT: Effort = Effort { seconds: 10.0, seeds: 4 };

pub(super) const SERVERS: [Server; 4] = [
    Server::Clean { lend: false, carry: false },
    Server::Clean { lend: true, carry: false },
    Server::Clean { lend: false, carry: true },
    Server::Clean { lend: true, carry: true },
];

/// One link of a row under one server: Mbit/s and us.
#[derive(Serialize)]
pub(super) struct Outcome {
    pub(super) row: usize,
    pub(super) types: String,
    pub(super) link: usize,
    pub(super) input: u64,
    pub(super) server: String,
    pub(super) out: f64,
    pub(super) avg: f64,
    pub(super) max: f64,
    pub(super) bound: Option<f64>,
    pub(super) verdict: &'static str,
}

/// By row, then link, then server.
pub(super) fn outcomes(published: &Published, effort: Effort) -> Result<Vec<Outcome>> {
    let bar = show::progress((published.rows.len() * SERVERS.len() * effort.seeds) as u64, "beyond");
    let mut outcomes = Vec::new();
    for row in &published.rows {
        let links = row.links();
        let runs = SERVERS.iter().map(|s| run(&links, *s, effort, &bar)).collect::<Result<Vec<_>>>()?;
        for link in 0..links.len() {
            for (server, run) in SERVERS.iter().zip(&runs) {
                let Some(ours) = &run[link] else { continue };
                outcomes.push(Outcome {
                    row: row.no,
                    types: row.types.clone(),
                    link: link + 1,
                    input: links[link].1,
                    server: server.name(),
                    out: ours.out.mean,
                    avg: ours.avg.mean,
                    max: ours.max,
                    bound: ours.bound,
                    verdict: verdict(ours.within_bound()),
                });
            }
        }
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

pub(super) fn broken(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|o| o.verdict != "ok").count()
}

/// `476.2; 12.3; 190 <= 202`.
pub(super) fn show(o: &Outcome) -> String {
    let bound = o.bound.map_or(show::DASH.into(), |b| format!("{b:.0}"));
    let relation = if o.verdict == "ok" { "<=" } else { ">" };
    format!("{:.1}; {:.1}; {:.0} {relation} {bound}", o.out, o.avg, o.max)
}

pub(super) fn print(outcomes: &[Outcome]) {
    let Effort { seconds, seeds } = EFFORT;
    say!(
        "Beyond the paper: packet-wise, preset clean\n{seeds} seeds of {seconds} s; rate in Mbit/s; mean delay; maximum and its bound, in us"
    );
    let rows = outcomes.chunks(SERVERS.len()).map(|of| {
        let mut row = vec![of[0].row.to_string(), of[0].types.clone(), of[0].link.to_string(), of[0].input.to_string()];
        row.extend(of.iter().map(show));
        row
    });
    let names = SERVERS.map(Server::name);
    let mut header = vec!["no", "types", "link", "input"];
    header.extend(names.iter().map(String::as_str));
    say!("{}\n", show::table(&header, rows));
    say!("{} maxima: {} beyond their bound\n", outcomes.len(), broken(outcomes));
}
