//! Prints the results of TCP connections in a simulation.

use falaj_experiment::replications::Replications;
use falaj_scenario::{Scenario, Source};
use falaj_sim::Connections;
use falaj_terminal::text;
use falaj_traffic::meter::Meter;
use falaj_traffic::source::Model;
use serde_json::{Value as Json, json};

/// Prints the goodput of each TCP source, and the duration of its transfers.
pub(crate) fn tell(scenario: &Scenario, runs: &Replications) {
    let all: Vec<(&Source, &Connections)> =
        runs.connections().map(|(source, of)| (&scenario.traffic[source], of)).collect();
    if all.is_empty() {
        return;
    }
    let rows = all.iter().map(|(source, of)| {
        let t = &of.all;
        let goodput = of.goodput();
        let half = goodput
            .and_then(|e| e.half_width)
            .map_or(String::new(), |half| format!(" ± {}", text::rate(half)));
        vec![
            name(source),
            format!("{}{half}", text::rate(goodput.map_or(0.0, |e| e.mean))),
            text::percent(t.retransmitted, t.segments),
            t.timeouts.to_string(),
            text::span(t.round_trip.min()),
            text::span(t.round_trip.quantile(0.5)),
            text::span(t.round_trip.quantile(0.99)),
        ]
    });
    let header =
        ["connections", "goodput", "retransmitted", "timeouts", "round trip min", "p50", "p99"];
    say!("{}", text::table(&header, rows));
    let finite: Vec<_> = all.iter().filter(|(source, _)| is_finite(source)).collect();
    if finite.is_empty() {
        return;
    }
    let rows = finite.iter().map(|(source, of)| {
        let done = &of.all.completion;
        vec![
            name(source),
            done.count().to_string(),
            of.all.unfinished.to_string(),
            done.mean_nanos().map_or(text::DASH.into(), text::nanos),
            text::span(done.quantile(0.5)),
            text::span(done.quantile(0.99)),
            text::span(done.max()),
        ]
    });
    say!(
        "{}",
        text::table(&["transfers", "complete", "not complete", "mean", "p50", "p99", "max"], rows)
    );
}

/// Returns the results of a source's connections as JSON.
pub(crate) fn json(source: &Source, of: &Connections) -> Json {
    let (t, goodput) = (&of.all, of.goodput());
    let completion = is_finite(source).then(|| {
        let mut times = times(&t.completion);
        times["complete"] = json!(t.completion.count());
        times["not_complete"] = json!(t.unfinished);
        times
    });
    json!({
        "traffic": source.name,
        "congestion": congestion(source),
        "connections": t.connections,
        "goodput": goodput.map_or(0.0, |e| e.mean),
        "goodput_half_width": goodput.and_then(|e| e.half_width),
        "bytes": t.bytes,
        "segments": t.segments,
        "retransmitted": t.retransmitted,
        "timeouts": t.timeouts,
        "reductions": t.reductions,
        "round_trip": times(&t.round_trip),
        "completion": completion,
    })
}

fn times(of: &Meter) -> Json {
    json!({
        "mean_ns": of.mean_nanos(),
        "min_ns": of.min().map(|s| s.0),
        "p50_ns": of.quantile(0.5).map(|s| s.0),
        "p99_ns": of.quantile(0.99).map(|s| s.0),
        "max_ns": of.max().map(|s| s.0),
    })
}

fn congestion(source: &Source) -> Option<&'static str> {
    match &source.model {
        Model::Tcp(tcp) => Some(tcp.congestion.name()),
        _ => None,
    }
}

fn is_finite(source: &Source) -> bool {
    matches!(&source.model, Model::Tcp(tcp) if tcp.bytes.is_some())
}

/// Returns the source's name, congestion control and number of connections.
fn name(source: &Source) -> String {
    let congestion = congestion(source).unwrap_or_default();
    match source.sources {
        1 => format!("{} ({congestion})", source.name),
        n => format!("{} ({n} x {congestion})", source.name),
    }
}
