//! Reports on the entries of masks, as text and as JSON.

use crate::protocol::{IdReport, MaskReport};
use falaj_engine::masks::{MaskStats, SojournStats};
use falaj_sched::units::time::Span;
use falaj_terminal::text;
use serde_json::{Value as Json, json};

/// Number of the busiest entries shown.
const SHOWN: usize = 5;

/// The report on a mask called `name`: a line or two, and a table of the busiest entries.
pub fn told(name: &str, report: &MaskStats) -> String {
    let mut report = MaskReport::new(None, report);
    report.busiest.truncate(SHOWN);
    text(name, &report)
}

/// The report on a mask called `name` as text, with all its busiest entries.
pub fn text(name: &str, report: &MaskReport) -> String {
    let MaskReport {
        mask,
        most,
        active,
        made,
        gone,
        beyond_packets: beyond,
        shared,
        total,
        of_gone,
        ..
    } = report;
    let mut text =
        format!("{name}, mask {mask}: {active} active of {most}, {made} made, {gone} gone");
    if *gone > 0 {
        text += &format!(" ({} packets)", of_gone.packets);
    }
    if *beyond > 0 {
        text += &format!(
            "\nwarning: {beyond} packets had no queue or link of their own: they shared {shared}; see `max-flows`"
        );
    }
    let rows = report.busiest.iter().map(|of| row(of.id.as_deref().unwrap_or_default(), of));
    let all = [row("all", total)].into_iter().filter(|_| made + beyond > 0);
    text + "\n"
        + &text::table(
            &["busiest", "packets", "amount", "dropped", "p50 <=", "p99 <=", "max"],
            rows.chain(all),
        )
        .to_string()
}

fn row(name: &str, of: &IdReport) -> Vec<String> {
    let lost = of.dropped + of.lost;
    let span = |ns: Option<u64>| text::span(ns.map(Span));
    vec![
        name.to_owned(),
        format!("{} p", of.packets),
        text::bytes(of.bytes as f64),
        text::percent(lost, of.packets + lost),
        span(of.sojourn.p50_ns),
        span(of.sojourn.p99_ns),
        span(of.sojourn.max_ns),
    ]
}

fn stats(stats: &SojournStats) -> Json {
    json!({
        "packets": stats.packets(), "bytes": stats.bytes, "dropped": stats.dropped,
        "lost": stats.lost,
        "sojourn_max_ns": stats.longest.0, "sojourns": stats.sojourns(),
    })
}

/// The report as JSON. Sojourn times are in buckets, each of which ends at four times the end of
/// the bucket before; the first ends at 1,024 ns.
pub fn json(name: &str, report: &MaskStats) -> Json {
    let named = |all: &[(String, SojournStats)]| -> Vec<Json> {
        let one = |(id, of): &(String, SojournStats)| {
            let mut one = stats(of);
            one["id"] = json!(id);
            one
        };
        all.iter().map(one).collect()
    };
    json!({
        "of": name, "mask": report.mask, "most": report.most, "active": report.active,
        "made": report.made,
        "gone": report.gone, "beyond_packets": report.beyond, "shared": report.shared,
        "total": stats(&report.total), "of_gone": stats(&report.of_gone),
        "of_shared": stats(&report.of_shared),
        "busiest": named(&report.busiest), "last_gone": named(&report.last_gone),
    })
}
