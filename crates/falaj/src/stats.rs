//! `--stats`: what a link of others' packets did.

use crate::show;
use falaj_live::forward::{Forwarder, Losses};
use falaj_scenario::Scenario;

/// What the scenario's only link did. `unread` is what was lost before it: `None` if nobody knows.
pub(crate) fn tell(scenario: &Scenario, forwarder: &Forwarder, unread: Option<u64>) {
    let link = &scenario.links[0];
    let mut rows = Vec::new();
    for (pipe, (way, direction)) in [("up", &link.up), ("down", &link.down)].into_iter().enumerate() {
        for (flow, measured) in direction.flows.iter().zip(&forwarder.flows()[pipe]) {
            let c = &measured.counters;
            rows.push(vec![
                format!("{way} {}", flow.name),
                c.offered.to_string(),
                c.sent.to_string(),
                c.dropped().to_string(),
                show::span(measured.delay.quantile(0.5)),
                show::span(measured.delay.max()),
                show::span(measured.release_error.quantile(0.99)),
            ]);
        }
    }
    let header = ["flow", "offered", "sent", "dropped", "queueing p50", "max", "release error p99"];
    eprintln!("{}", show::table(&header, rows));
    let losses = Losses { unread: unread.unwrap_or(0), ..forwarder.losses() };
    for (n, why) in losses.by_reason().into_iter().filter(|&(n, _)| n > 0) {
        eprintln!("{n} packets {why}");
    }
    if unread.is_none() {
        eprintln!("what was not read in time at the entrance is not known: /proc does not say");
    }
}
