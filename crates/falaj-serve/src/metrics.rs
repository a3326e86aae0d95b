//! The last sample as OpenMetrics: units are in the names, and each quantity has one family.
//!
//! A series is an adapter in one direction. The flows of the adapter are summed, because a service
//! of a thousand adapters may have a hundred times as many flows. Series of single flows are
//! available on request.

use super::model::{Adapter, Flow, Quantiles, Sample, Ways, Window};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// The content type of the response.
pub(super) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NANO: f64 = 1e-9;

/// A label that distinguishes the series of one adapter and direction, and a function that returns
/// the label's values, each with the series' value.
type Several<T> = (&'static str, fn(&Flow) -> Vec<(&str, T)>);

/// The source of the values of a metric family.
enum Of {
    /// A counter of an adapter.
    Adapter(fn(&Adapter) -> u64),
    /// A counter of an adapter by direction, if the adapter has this counter.
    Ways(fn(&Adapter) -> Option<Ways>),
    Spent(fn(&Adapter) -> Option<f64>),
    /// A counter of a direction.
    Count(fn(&Flow) -> u64),
    Counts(Several<u64>),
    /// A gauge that may be unknown.
    Number(fn(&Flow) -> Option<f64>),
    Numbers(Several<Option<f64>>),
}

#[derive(Clone, Copy)]
enum Metric {
    None,
    Bytes,
    Seconds,
    BitsPerSecond,
}

impl Metric {
    fn unit(self) -> Option<Unit> {
        match self {
            Metric::None => None,
            Metric::Bytes => Some(Unit::Bytes),
            Metric::Seconds => Some(Unit::Seconds),
            Metric::BitsPerSecond => Some(Unit::Other("bits_per_second".into())),
        }
    }
}

/// Name, unit, help text, and source of the values.
const FAMILIES: [(&str, Metric, &str, Of); 23] = [
    ("offered_packets", Metric::None, "Packets that came", Of::Count(|flow| flow.total.offered)),
    (
        "offered",
        Metric::Bytes,
        "Bytes of the packets that came, as the link accounts them",
        Of::Count(|flow| flow.total.offered_bytes),
    ),
    (
        "sent_packets",
        Metric::None,
        "Packets whose last bit left",
        Of::Count(|flow| flow.total.sent),
    ),
    (
        "sent",
        Metric::Bytes,
        "Bytes of the packets whose last bit left",
        Of::Count(|flow| flow.total.sent_bytes),
    ),
    (
        "dropped_packets",
        Metric::None,
        "Packets that were dropped before the link sent them, by reason",
        Of::Counts(("reason", |flow| {
            flow.total.dropped.iter().map(|(why, count)| (why.as_str(), *count)).collect()
        })),
    ),
    (
        "beyond_packets",
        Metric::None,
        "Packets in excess of the flow's envelope",
        Of::Count(|flow| flow.total.beyond),
    ),
    (
        "breaches",
        Metric::None,
        "Violations of guarantees, by cause: packets with a delay above the guarantee, and \
         intervals below the guaranteed rate",
        Of::Counts(("cause", |Flow { breaches, .. }| {
            let of = [breaches.own_burst, breaches.host, breaches.guarantee, breaches.rate];
            ["own-burst", "host", "guarantee", "rate"].into_iter().zip(of).collect()
        })),
    ),
    (
        "foreign_units",
        Metric::None,
        "Units from another adapter's address",
        Of::Adapter(|adapter| adapter.foreign),
    ),
    (
        "malformed_units",
        Metric::None,
        "Units that were not frames",
        Of::Adapter(|adapter| adapter.malformed),
    ),
    (
        "not_taken_units",
        Metric::None,
        "Units that the adapter's port did not accept",
        Of::Adapter(|adapter| adapter.not_taken),
    ),
    (
        "no_memory_packets",
        Metric::None,
        "Packets dropped on arrival because the packet memory was full",
        Of::Ways(|adapter| Some(adapter.no_memory)),
    ),
    (
        "held_back_turns",
        Metric::None,
        "Number of times that the adapter used up its processor time while other adapters waited",
        Of::Adapter(|adapter| adapter.held_back),
    ),
    (
        "spent",
        Metric::Seconds,
        "Time that the link's thread spent on the adapter's packets",
        Of::Spent(|adapter| Some(adapter.spent_ns as f64 * NANO)),
    ),
    (
        "batches",
        Metric::None,
        "Batches in which packets crossed to and from the adapter",
        Of::Ways(|adapter| adapter.batches.map(|of| of.batches)),
    ),
    (
        "batched_packets",
        Metric::None,
        "Packets in these batches",
        Of::Ways(|adapter| adapter.batches.map(|of| of.packets)),
    ),
    (
        "batch_wait",
        Metric::Seconds,
        "Time that packets for the adapter waited in batches, in total",
        Of::Spent(|adapter| Some(adapter.batches?.waited_ns as f64 * NANO)),
    ),
    (
        "backlog_packets",
        Metric::None,
        "Packets that wait",
        Of::Number(|flow| Some(flow.backlog as f64)),
    ),
    (
        "backlog",
        Metric::Bytes,
        "Bytes of the packets that wait",
        Of::Number(|flow| Some(flow.backlog_bytes as f64)),
    ),
    (
        "guaranteed_rate",
        Metric::BitsPerSecond,
        "The rate that is guaranteed while packets wait",
        Of::Number(|flow| flow.guarantee.rate.map(|rate| rate as f64)),
    ),
    (
        "rate",
        Metric::BitsPerSecond,
        "The rate that was sent in the last window",
        Of::Number(|flow| flow.window.as_ref().map(|window| window.sent)),
    ),
    (
        "guaranteed_delay",
        Metric::Seconds,
        "The guaranteed maximum delay",
        Of::Number(|flow| seconds(flow.guarantee.delay_ns)),
    ),
    (
        "delay",
        Metric::Seconds,
        "Delays of the last window, the longest of all flows; quantile 1 is the largest",
        Of::Numbers(("quantile", |flow| {
            flow.window.as_ref().map_or(Vec::new(), |window| quantiles(&window.delay))
        })),
    ),
    (
        "release_error",
        Metric::Seconds,
        "Release errors of the last window, the largest of all flows",
        Of::Numbers(("quantile", |flow| {
            flow.window.as_ref().map_or(Vec::new(), |window| quantiles(&window.release_error))
        })),
    ),
];

fn seconds(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 * NANO)
}

fn quantiles(of: &Quantiles) -> Vec<(&'static str, Option<f64>)> {
    [("0.5", of.p50_ns), ("0.99", of.p99_ns), ("1", of.max_ns)]
        .map(|(name, ns)| (name, seconds(ns)))
        .into()
}

/// Returns the text of a scrape, with series by adapter or by flow.
pub(super) fn text(sample: &Arc<Sample>, flows: bool) -> String {
    let series = sample.adapters.iter().map(|adapter| match flows {
        true => [adapter.up.clone(), adapter.down.clone()],
        false => [together(&adapter.up), together(&adapter.down)],
    });
    let series = series.collect();
    let mut registry = Registry::with_prefix("falaj");
    let scrape = Scrape { sample: Arc::clone(sample), series, flows };
    registry.sub_registry_with_prefix("adapter").register_collector(Box::new(scrape));
    registry.register_collector(Box::new(Lost { sample: Arc::clone(sample) }));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

/// Sums the flows of an adapter in one direction. Guaranteed rates add up, and the longest
/// guaranteed delay applies.
fn together(flows: &[Flow]) -> Vec<Flow> {
    let mut flows = flows.iter();
    let Some(mut sum) = flows.next().cloned() else { return Vec::new() };
    for Flow { guarantee, window, total, backlog, backlog_bytes, breaches, .. } in flows {
        sum.guarantee.rate =
            sum.guarantee.rate.zip(guarantee.rate).map(|(a, b)| a.saturating_add(b));
        sum.guarantee.delay_ns =
            sum.guarantee.delay_ns.zip(guarantee.delay_ns).map(|(a, b)| a.max(b));
        sum.window = sum.window.zip(window.as_ref()).map(|(a, b)| Window {
            sent: a.sent + b.sent,
            delay: longest(&a.delay, &b.delay),
            release_error: longest(&a.release_error, &b.release_error),
            ..a
        });
        for (of, more) in [
            (&mut sum.total.offered, total.offered),
            (&mut sum.total.offered_bytes, total.offered_bytes),
            (&mut sum.total.sent, total.sent),
            (&mut sum.total.sent_bytes, total.sent_bytes),
            (&mut sum.total.not_taken, total.not_taken),
            (&mut sum.total.beyond, total.beyond),
            (&mut sum.backlog, *backlog),
            (&mut sum.backlog_bytes, *backlog_bytes),
            (&mut sum.breaches.own_burst, breaches.own_burst),
            (&mut sum.breaches.host, breaches.host),
            (&mut sum.breaches.guarantee, breaches.guarantee),
            (&mut sum.breaches.rate, breaches.rate),
        ] {
            *of += more;
        }
        for (why, count) in &total.dropped {
            *sum.total.dropped.entry(why.clone()).or_default() += count;
        }
    }
    vec![sum]
}

fn longest(a: &Quantiles, b: &Quantiles) -> Quantiles {
    Quantiles {
        packets: a.packets + b.packets,
        p50_ns: a.p50_ns.max(b.p50_ns),
        p99_ns: a.p99_ns.max(b.p99_ns),
        max_ns: a.max_ns.max(b.max_ns),
    }
}

/// The collector of a scrape.
struct Scrape {
    sample: Arc<Sample>,
    /// The flows of each adapter, up and down.
    series: Vec<[Vec<Flow>; 2]>,
    /// True if each flow has its own series.
    flows: bool,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").field("at_ns", &self.sample.at_ns).finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, measure, help, of) in &FAMILIES {
            let kind = match of {
                Of::Adapter(_) | Of::Ways(_) | Of::Count(_) | Of::Counts(_) => MetricType::Counter,
                Of::Spent(_) | Of::Number(_) | Of::Numbers(_) => MetricType::Gauge,
            };
            let unit = measure.unit();
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            match of {
                Of::Adapter(of) => {
                    self.each_adapter(|labels, adapter| count(&mut family, labels, of(adapter)))?;
                }
                Of::Ways(of) => self.each_adapter(|labels, adapter| {
                    let Some(Ways { up, down }) = of(adapter) else { return Ok(()) };
                    let each = [("up", up), ("down", down)].into_iter();
                    with(labels, "direction", each, |labels, value| {
                        count(&mut family, labels, value)
                    })
                })?,
                Of::Spent(of) => self.each_adapter(|labels, adapter| {
                    of(adapter).map_or(Ok(()), |value| number(&mut family, labels, value))
                })?,
                Of::Count(of) => {
                    self.each_flow(|labels, flow| count(&mut family, labels, of(flow)))?;
                }
                Of::Number(of) => self.each_flow(|labels, flow| match of(flow) {
                    Some(value) => number(&mut family, labels, value),
                    None => Ok(()),
                })?,
                Of::Counts((label, of)) => self.each_flow(|labels, flow| {
                    let each = of(flow).into_iter();
                    with(labels, label, each, |labels, value| count(&mut family, labels, value))
                })?,
                Of::Numbers((label, of)) => self.each_flow(|labels, flow| {
                    let known =
                        of(flow).into_iter().filter_map(|(name, value)| Some((name, value?)));
                    with(labels, label, known, |labels, value| number(&mut family, labels, value))
                })?,
            }
        }
        Ok(())
    }
}

/// Losses outside of the queues, which belong to no adapter.
#[derive(Debug)]
struct Lost {
    sample: Arc<Sample>,
}

impl Collector for Lost {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Packets that were lost outside of the queues, by reason";
        let mut family =
            encoder.encode_descriptor("lost_packets", help, None, MetricType::Counter)?;
        let lost = &self.sample.losses;
        lost.iter().try_for_each(|(why, n)| count(&mut family, &[("reason", why)], *n))
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Scrape {
    fn each_adapter(
        &self,
        mut write: impl FnMut(Labels<'_>, &Adapter) -> fmt::Result,
    ) -> fmt::Result {
        self.sample
            .adapters
            .iter()
            .try_for_each(|adapter| write(&[("adapter", &adapter.name)], adapter))
    }

    fn each_flow(&self, mut write: impl FnMut(Labels<'_>, &Flow) -> fmt::Result) -> fmt::Result {
        for (adapter, ways) in self.sample.adapters.iter().zip(&self.series) {
            for (way, flows) in ["up", "down"].into_iter().zip(ways) {
                for flow in flows {
                    let labels = [
                        ("adapter", &adapter.name[..]),
                        ("direction", way),
                        ("flow", &flow.flow[..]),
                    ];
                    write(if self.flows { &labels } else { &labels[..2] }, flow)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes several values with one additional label.
fn with<'a, T>(
    labels: Labels<'_>,
    label: &str,
    each: impl Iterator<Item = (&'a str, T)>,
    mut write: impl FnMut(Labels<'_>, T) -> fmt::Result,
) -> fmt::Result {
    let mut all = [("", ""); 4];
    all[..labels.len()].copy_from_slice(labels);
    for (value, of) in each {
        all[labels.len()] = (label, value);
        write(&all[..=labels.len()], of)?;
    }
    Ok(())
}

fn count(family: &mut MetricEncoder<'_>, labels: Labels<'_>, value: u64) -> fmt::Result {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

fn number(family: &mut MetricEncoder<'_>, labels: Labels<'_>, value: f64) -> fmt::Result {
    family.encode_family(&labels)?.encode_gauge(&value)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Breaches, Guarantee, Total};
    use super::*;

    fn flow(name: &str, sent: u64, delay_ns: u64) -> Flow {
        Flow {
            flow: name.into(),
            guarantee: Guarantee {
                rate: Some(3 * sent),
                delay_ns: Some(delay_ns),
                ..Guarantee::default()
            },
            window: Some(Window {
                sent: sent as f64,
                delay: Quantiles {
                    packets: 1,
                    p50_ns: Some(delay_ns / 2),
                    p99_ns: None,
                    max_ns: Some(delay_ns),
                },
                ..Window::default()
            }),
            total: Total {
                sent,
                dropped: [("policy".to_owned(), sent / 2)].into(),
                ..Total::default()
            },
            breaches: Breaches { host: 1, ..Breaches::default() },
            ..Flow::default()
        }
    }

    #[test]
    fn flows_of_an_adapter_count_together_unless_each_is_asked_for() {
        let up = vec![flow("t/web", 10, 4_000_000), flow("t/mail", 20, 6_000_000)];
        let no_memory = Ways { up: 5, down: 0 };
        let adapter = Adapter { name: "t".into(), up, foreign: 7, no_memory, ..Adapter::default() };
        let losses = [("were not read in time where they enter".to_owned(), 11)].into();
        let sample = Arc::new(Sample { adapters: vec![adapter], losses, ..Sample::default() });
        let (all, each) = (text(&sample, false), text(&sample, true));
        for line in [
            "falaj_adapter_foreign_units_total{adapter=\"t\"} 7",
            "falaj_adapter_no_memory_packets_total{adapter=\"t\",direction=\"up\"} 5",
            "falaj_adapter_no_memory_packets_total{adapter=\"t\",direction=\"down\"} 0",
            "falaj_adapter_sent_packets_total{adapter=\"t\",direction=\"up\"} 30",
            "falaj_adapter_dropped_packets_total{adapter=\"t\",direction=\"up\",reason=\"policy\"} 15",
            "falaj_adapter_breaches_total{adapter=\"t\",direction=\"up\",cause=\"host\"} 2",
            "falaj_adapter_guaranteed_rate_bits_per_second{adapter=\"t\",direction=\"up\"} 90.0",
            "falaj_adapter_guaranteed_delay_seconds{adapter=\"t\",direction=\"up\"} 0.006",
            "falaj_adapter_delay_seconds{adapter=\"t\",direction=\"up\",quantile=\"1\"} 0.006",
            "# UNIT falaj_adapter_delay_seconds seconds",
            "falaj_lost_packets_total{reason=\"were not read in time where they enter\"} 11",
        ] {
            assert!(all.lines().any(|l| l == line), "{line} is not in\n{all}");
        }
        assert!(
            !all.contains("flow=") && !all.contains("0.99") && all.ends_with("# EOF\n"),
            "{all}"
        );
        let line =
            "falaj_adapter_sent_packets_total{adapter=\"t\",direction=\"up\",flow=\"t/mail\"} 20";
        assert!(each.lines().any(|l| l == line), "{each}");
    }
}
