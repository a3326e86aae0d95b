//! The last sample as OpenMetrics: units in the names, one family for each number.

use super::model::{Flow, Sample};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// What a scraper is told that it gets.
pub(super) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Count = Family<Labels, Counter>;
type Number = Family<Labels, Gauge<f64, AtomicU64>>;

const NANO: f64 = 1e-9;

/// The families of one scrape.
struct Families {
    registry: Registry,
    counts: Vec<(&'static str, Count)>,
    numbers: Vec<(&'static str, Number)>,
}

impl Families {
    fn count(&mut self, name: &'static str, unit: Option<Unit>, help: &str) {
        let family = Count::default();
        match unit {
            Some(unit) => self.registry.register_with_unit(name, help, unit, family.clone()),
            None => self.registry.register(name, help, family.clone()),
        }
        self.counts.push((name, family));
    }

    fn number(&mut self, name: &'static str, unit: Option<Unit>, help: &str) {
        let family = Number::default();
        match unit {
            Some(unit) => self.registry.register_with_unit(name, help, unit, family.clone()),
            None => self.registry.register(name, help, family.clone()),
        }
        self.numbers.push((name, family));
    }

    fn add(&self, name: &str, labels: &Labels, value: u64) {
        if let Some((_, family)) = self.counts.iter().find(|(known, _)| *known == name) {
            family.get_or_create(labels).inc_by(value);
        }
    }

    fn set(&self, name: &str, labels: &Labels, value: Option<f64>) {
        if let (Some((_, family)), Some(value)) = (self.numbers.iter().find(|(known, _)| *known == name), value) {
            family.get_or_create(labels).set(value);
        }
    }
}

fn per_second() -> Unit {
    Unit::Other("bits_per_second".into())
}

fn families() -> Families {
    let mut all =
        Families { registry: Registry::with_prefix("falaj_adapter"), counts: Vec::new(), numbers: Vec::new() };
    all.count("offered_packets", None, "Packets that came");
    all.count("offered", Some(Unit::Bytes), "Their bytes, as the link accounts them");
    all.count("sent_packets", None, "Packets whose last bit left");
    all.count("sent", Some(Unit::Bytes), "Their bytes");
    all.count("dropped_packets", None, "Packets that did not get as far as the link, by reason");
    all.count("beyond_packets", None, "Packets beyond the envelope");
    all.count(
        "breaches",
        None,
        "Packets that stayed longer than promised, and windows below the promised rate, by cause",
    );
    all.count("foreign_units", None, "Units from another adapter's address");
    all.count("malformed_units", None, "Units that were no frames");
    all.count("not_taken_units", None, "Units that the adapter did not take");
    all.count("held_back_turns", None, "Turns whose processor time was used up while others waited too");
    all.number("spent", Some(Unit::Seconds), "Time of the link's thread that went into the adapter");
    all.number("backlog_packets", None, "Packets that wait");
    all.number("backlog", Some(Unit::Bytes), "Their bytes");
    all.number("promised_rate", Some(per_second()), "The rate that it is promised while packets wait");
    all.number("rate", Some(per_second()), "What it sent in the last window");
    all.number("promised_delay", Some(Unit::Seconds), "The delay that no packet is to exceed");
    all.number("delay", Some(Unit::Seconds), "Delays of the last window; quantile 1 is the largest");
    all.number("release_error", Some(Unit::Seconds), "How late packets of the last window were handed over");
    all
}

/// The text of a scrape.
pub(super) fn text(sample: &Sample) -> String {
    let all = families();
    for adapter in &sample.adapters {
        let own: Labels = vec![("adapter", adapter.name.clone())];
        all.add("foreign_units", &own, adapter.foreign);
        all.add("malformed_units", &own, adapter.malformed);
        all.add("not_taken_units", &own, adapter.not_taken);
        all.add("held_back_turns", &own, adapter.held_back);
        all.set("spent", &own, Some(adapter.spent_ns as f64 * NANO));
        for (way, flows) in [("up", &adapter.up), ("down", &adapter.down)] {
            flows.iter().for_each(|flow| of_flow(&all, &adapter.name, way, flow));
        }
    }
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = encode(&mut text, &all.registry);
    text
}

fn of_flow(all: &Families, adapter: &str, way: &str, flow: &Flow) {
    let labels: Labels =
        vec![("adapter", adapter.to_owned()), ("direction", way.to_owned()), ("flow", flow.flow.clone())];
    let with = |name: &'static str, value: &str| {
        let mut labels = labels.clone();
        labels.push((name, value.to_owned()));
        labels
    };
    let total = &flow.total;
    all.add("offered_packets", &labels, total.offered);
    all.add("offered", &labels, total.offered_bytes);
    all.add("sent_packets", &labels, total.sent);
    all.add("sent", &labels, total.sent_bytes);
    all.add("beyond_packets", &labels, total.beyond);
    for (reason, count) in &total.dropped {
        all.add("dropped_packets", &with("reason", reason), *count);
    }
    let breaches = &flow.breaches;
    let causes = [
        ("own-burst", breaches.own_burst),
        ("host", breaches.host),
        ("promise", breaches.promise),
        ("rate", breaches.rate),
    ];
    causes.iter().for_each(|(cause, count)| all.add("breaches", &with("cause", cause), *count));
    let nanos = |ns: Option<u64>| ns.map(|ns| ns as f64 * NANO);
    all.set("backlog_packets", &labels, Some(flow.backlog as f64));
    all.set("backlog", &labels, Some(flow.backlog_bytes as f64));
    all.set("promised_rate", &labels, flow.promise.rate.map(|rate| rate as f64));
    all.set("promised_delay", &labels, nanos(flow.promise.delay_ns));
    let Some(window) = &flow.window else { return };
    all.set("rate", &labels, Some(window.sent));
    for (name, of) in [("delay", &window.delay), ("release_error", &window.release_error)] {
        for (quantile, ns) in [("0.5", of.p50_ns), ("0.99", of.p99_ns), ("1", of.max_ns)] {
            all.set(name, &with("quantile", quantile), nanos(ns));
        }
    }
}
