//! The results of a link at the end of a run: a table, JSON, and conditions under which the run has
//! failed.

mod condition;

pub use condition::FailIf;

use crate::masks;
use anyhow::{Context, Result};
use falaj_engine::PipeId;
use falaj_engine::masks::{MaskStats, SojournStats};
use falaj_engine::pipe::Counters;
use falaj_engine::rules::RuleCounters;
use falaj_live::adapters::{AdapterCounts, LostBothWays};
use falaj_live::event_loop::{Forwarder, LiveFlow, LiveLosses, NotTaken};
use falaj_scenario::{Direction, Link, Scenario};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::transmission::Air;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::text;
use falaj_traffic::meter::Meter;
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The measurements of a flow.
#[derive(Clone, Default)]
pub struct FlowSummary {
    counters: Counters,
    /// Packets that left the link, and that the far end did not accept.
    not_taken: NotTaken,
    delay: Meter,
    release: Meter,
    /// Planned delay of delivery after the due time, so that a packet leaves together with others.
    held: Meter,
}

impl From<LiveFlow> for FlowSummary {
    fn from(flow: LiveFlow) -> FlowSummary {
        FlowSummary {
            counters: flow.counters,
            not_taken: flow.not_taken,
            delay: flow.delay,
            release: flow.release_error,
            held: flow.held,
        }
    }
}

impl FlowSummary {
    /// The summary of a flow whose packets were delivered one by one: its counters, its delays in
    /// the queue, and its release errors.
    pub fn handed_over_singly(counters: Counters, delay: Meter, release: Meter) -> FlowSummary {
        FlowSummary { counters, delay, release, ..FlowSummary::default() }
    }
}

/// The share of `time` for which a station had the air, as text; `None` if packets have no air
/// times, or the station had none.
pub fn air_told(name: &str, air: &Air, time: Span) -> Option<String> {
    let of = |part: Span| text::percent(part.0, time.0);
    let had = format!("{name} had the air for {} of the time", of(air.used));
    let collided = format!("{had}, and in {} collisions for {}", air.collisions, of(air.lost));
    match air {
        Air { used: Span::ZERO, collisions: 0, .. } => None,
        Air { collisions: 0, .. } => Some(had),
        _ => Some(collided),
    }
}

/// The air time as JSON; zeros if packets have no air times.
pub fn air_json(air: &Air) -> Json {
    json!({ "used_ns": air.used.0, "lost_ns": air.lost.0, "collisions": air.collisions })
}

/// The results of a forwarder's links until now; `unread` is the number of packets lost before they
/// reached a link, if known.
pub fn of_forwarder(scenario: &Scenario, forwarder: &Forwarder, unread: Option<u64>) -> Summary {
    let losses = LiveLosses { unread: unread.unwrap_or(0), ..forwarder.losses() };
    let elapsed = forwarder.clock().now().since(Time::ZERO);
    let losses = losses.by_reason().map(|(n, why)| (n, format!("packets {why}")));
    let links = &scenario.links;
    let took =
        forwarder.taken().iter().copied().zip(forwarder.active().iter().map(|active| active.stats));
    let breaches = (0..2 * links.len() as u32).map(|pipe| forwarder.breaches(PipeId(pipe)));
    let summary =
        Summary::new(links, elapsed, forwarder.flows(), losses.into()).ruled(scenario, took);
    Summary {
        mask_stats: mask_stats(links, forwarder),
        rested: forwarder.awake().rested,
        ..summary.with_breaches(links, breaches)
    }
}

/// Maximum number of entries of a mask that are reported one by one.
const BUSIEST: usize = 10;

/// The entries of the masks of a forwarder's links.
fn mask_stats(links: &[Link], forwarder: &Forwarder) -> Vec<(String, MaskStats)> {
    let mut out = Vec::new();
    for (pipe, (way, direction)) in ways(links).enumerate() {
        let pipe = PipeId(pipe as u32);
        let report = |flow| forwarder.report(pipe, flow, BUSIEST);
        out.extend(report(None).map(|report| (way.clone(), report)));
        for (f, flow) in direction.flows.iter().enumerate() {
            out.extend(
                report(Some(FlowId(f as u32)))
                    .map(|report| (format!("{way} {}", flow.name), report)),
            );
        }
    }
    out
}

/// Both directions of each link, with their names.
fn ways(links: &[Link]) -> impl Iterator<Item = (String, &Direction)> {
    let several = links.len() > 1;
    links.iter().flat_map(move |link| {
        let name =
            |way: &str| if several { format!("{} {way}", link.name) } else { way.to_owned() };
        [(name("up"), &link.up), (name("down"), &link.down)]
    })
}

impl FlowSummary {
    fn add(&mut self, other: &FlowSummary) {
        self.counters.add(&other.counters);
        self.not_taken.add(&other.not_taken);
        self.delay.add(&other.delay);
        self.release.add(&other.release);
        self.held.add(&other.held);
    }

    /// Packets that arrived at the link and did not reach the far end: dropped, lost, or not
    /// accepted there. If a packet was duplicated, either copy may be the one that was not
    /// accepted.
    fn missing(&self) -> u64 {
        let missing = self.counters.dropped() + self.counters.lost + self.not_taken.packets;
        missing.min(self.counters.offered)
    }

    fn loss(&self) -> f64 {
        self.missing() as f64 / self.counters.offered.max(1) as f64
    }

    fn rate(&self, elapsed: Span) -> f64 {
        let taken = self.counters.delivered_bytes().saturating_sub(self.not_taken.bytes);
        taken as f64 * 8e9 / elapsed.0.max(1) as f64
    }
}

/// A direction of a link, with its configuration.
struct DirectionSummary {
    /// Its name: `up`, or `dsl up` if there are several links.
    name: String,
    rate: Rate,
    delay: Span,
    /// True if a mask makes several links of this direction, each with this rate.
    has_mask: bool,
}

struct Named {
    way: usize,
    name: String,
    flow: FlowSummary,
}

impl Named {
    fn full_name(&self, ways: &[DirectionSummary]) -> String {
        format!("{} {}", ways[self.way].name, self.name)
    }

    /// The text about this flow as the worst flow.
    fn told(&self, ways: &[DirectionSummary]) -> String {
        let FlowSummary { counters, not_taken, delay, .. } = &self.flow;
        let name = self.full_name(ways);
        let lost = text::percent(self.flow.missing(), counters.offered);
        let at_the_end = match not_taken.packets {
            0 => String::new(),
            packets => format!(" ({packets} packets were not accepted by the far end)"),
        };
        let max = text::span(delay.max());
        format!("worst flow: {name}: {lost} lost{at_the_end}, queueing max {max}")
    }
}

/// The reason for losses by lack of memory, in the words of [`LiveLosses`].
const NO_MEMORY: &str = "packets were dropped for lack of memory";

/// The results of one or several links.
pub struct Summary {
    elapsed: Span,
    /// Both directions of each link, up first.
    ways: Vec<DirectionSummary>,
    flows: Vec<Named>,
    /// Counters of each rule, and of its packets in the links of the rule.
    rules: Vec<(String, RuleCounters, SojournStats)>,
    losses: Vec<(u64, String)>,
    /// The entries of masks, by name.
    mask_stats: Vec<(String, MaskStats)>,
    /// Contract violations of plug-ins, with the direction.
    breaches: Vec<(String, Breach)>,
    /// Time for which the timer slept instead of spinning, because other threads waited for a
    /// processor.
    rested: Span,
}

impl Summary {
    /// The results of links that ran for this time, each up and down; `losses` are the losses
    /// outside of the queues.
    pub fn new<F: Into<FlowSummary>>(
        links: &[Link],
        elapsed: Span,
        measured: impl IntoIterator<Item = Vec<F>>,
        losses: Vec<(u64, String)>,
    ) -> Summary {
        let (mut known, mut flows) = (Vec::new(), Vec::new());
        let mut measured = measured.into_iter();
        for (way, (name, direction)) in ways(links).enumerate() {
            let has_mask = direction.pipe.masks.link.is_some();
            known.push(DirectionSummary {
                name,
                rate: direction.pipe.setup.rate,
                delay: direction.pipe.delay,
                has_mask,
            });
            let mut measured = measured.next().into_iter().flatten();
            for flow in &direction.flows {
                let flow_measured = measured.next().map_or_else(FlowSummary::default, Into::into);
                flows.push(Named { way, name: flow.name.clone(), flow: flow_measured });
            }
        }
        let losses = losses.into_iter().filter(|(n, _)| *n > 0).collect();
        let (rules, mask_stats, breaches, rested) =
            (Vec::new(), Vec::new(), Vec::new(), Span::ZERO);
        Summary { elapsed, ways: known, flows, rules, losses, mask_stats, breaches, rested }
    }

    /// Adds the contract violations of plug-ins, by direction.
    pub fn with_breaches(
        self,
        links: &[Link],
        breaches: impl IntoIterator<Item = Vec<Breach>>,
    ) -> Summary {
        let named = ways(links).zip(breaches);
        let breaches = named
            .flat_map(|((way, _), all)| all.into_iter().map(move |breach| (way.clone(), breach)));
        Summary { breaches: breaches.collect(), ..self }
    }

    /// Adds the counters of each rule, and of its packets.
    pub fn ruled(
        self,
        scenario: &Scenario,
        took: impl IntoIterator<Item = (RuleCounters, SojournStats)>,
    ) -> Summary {
        let names = scenario.rules.iter().map(|rule| rule.name.clone());
        let rules = names.zip(took).map(|(name, (taken, stats))| (name, taken, stats)).collect();
        Summary { rules, ..self }
    }

    fn of_way(&self, way: usize) -> FlowSummary {
        let mut sum = FlowSummary::default();
        self.flows.iter().filter(|f| f.way == way).for_each(|f| sum.add(&f.flow));
        sum
    }

    /// The flow with the largest fraction of lost packets; without losses, the flow with the
    /// longest delay; without delays, no flow.
    fn worst(&self) -> Option<&Named> {
        let key = |f: &&Named| (f.flow.loss(), f.flow.delay.max().unwrap_or(Span::ZERO));
        let larger = |a: &&Named, b: &&Named| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        };
        self.flows.iter().max_by(larger).filter(|f| key(f) > (0.0, Span::ZERO))
    }

    /// Prints the results on standard error: standard output belongs to the command.
    pub fn tell(&self) {
        let header = [
            "flow",
            "offered",
            "sent",
            "dropped",
            "lost",
            "not taken",
            "rate",
            "queueing p50",
            "max",
            "release error p50",
            "p99",
            "max",
        ];
        let rows = self.flows.iter().map(|named| {
            let FlowSummary { counters, not_taken, delay, release, .. } = &named.flow;
            vec![
                named.full_name(&self.ways),
                counters.offered.to_string(),
                counters.sent.to_string(),
                counters.dropped().to_string(),
                counters.lost.to_string(),
                not_taken.packets.to_string(),
                text::rate(named.flow.rate(self.elapsed)),
                text::span(delay.quantile(0.5)),
                text::span(delay.max()),
                text::span(release.quantile(0.5)),
                text::span(release.quantile(0.99)),
                text::span(release.max()),
            ]
        });
        eprintln!("{}", text::table(&header, rows));
        for (n, way) in self.ways.iter().enumerate() {
            let sum = self.of_way(n);
            let given = |error: Option<Span>| text::span(error.map(|error| way.delay + error));
            let release = &sum.release;
            eprintln!(
                "{}: configured {}{} and {}; delivered {} in {}, with a delay of {} (p50), {} (p99), {} (max)",
                way.name,
                text::link_rate(way.rate),
                if way.has_mask { " each" } else { "" },
                text::nanos(way.delay.0 as f64),
                text::rate(sum.rate(self.elapsed)),
                text::nanos(self.elapsed.0 as f64),
                given(release.quantile(0.5)),
                given(release.quantile(0.99)),
                given(release.max()),
            );
            let held = &sum.held;
            if held.max() > Some(Span::ZERO) {
                let [p50, p99, max] =
                    [held.quantile(0.5), held.quantile(0.99), held.max()].map(text::span);
                eprintln!(
                    "{}: in addition held for other packets of their unit: {p50} (p50), {p99} (p99), {max} (max)",
                    way.name
                );
            }
        }
        if !self.rules.is_empty() {
            let header =
                [&RULE_HEADER[..], &["dropped", "lost", "queueing p50 <=", "p99 <=", "max"]]
                    .concat();
            let rows = self.rules.iter().map(|(name, taken, stats)| {
                let quantiles = [0.5, 0.99, 1.0].map(|share| text::span(stats.quantile(share)));
                let counts = [stats.dropped, stats.lost].map(|count| count.to_string());
                [&rule_row(name, taken)[..], &counts[..], &quantiles[..]].concat()
            });
            eprintln!("{}", text::table(&header, rows));
        }
        for (name, report) in self.mask_stats.iter().filter(|(_, report)| report.made > 0) {
            eprintln!("{}", masks::told(name, report));
        }
        for named in &self.flows {
            let told =
                air_told(&named.full_name(&self.ways), &named.flow.counters.air, self.elapsed);
            told.iter().for_each(|told| eprintln!("{told}"));
        }
        if let Some(worst) = self.worst() {
            eprintln!("{}", worst.told(&self.ways));
        }
        for (n, why) in &self.losses {
            eprintln!("{n} {why}");
        }
        if self.rested > Span::ZERO {
            let share = text::percent(self.rested.0, self.elapsed.0);
            eprintln!(
                "the timer slept instead of spinning for {share} of the time, because other threads waited for a processor"
            );
        }
        self.warn();
    }

    /// Prints contract violations of plug-ins, which every user of a plug-in must see.
    pub fn warn(&self) {
        for (way, breach) in &self.breaches {
            eprintln!("{way}: {breach}");
        }
    }

    /// Names the adapters of the packets that were dropped for lack of memory.
    pub fn of_adapters(mut self, counts: &[(String, AdapterCounts)]) -> Summary {
        let of = |(name, counts): &(String, AdapterCounts)| {
            let LostBothWays { up, down } = counts.no_memory;
            [(up, format!("{up} that {name} sent")), (down, format!("{down} for {name}"))]
        };
        let known: Vec<String> =
            counts.iter().flat_map(of).filter(|(n, _)| *n > 0).map(|(_, words)| words).collect();
        if let Some((_, why)) =
            self.losses.iter_mut().find(|(_, why)| why == NO_MEMORY && !known.is_empty())
        {
            *why = format!("{why}: {}", known.join(", "));
        }
        self
    }

    fn json(&self) -> Json {
        let nanos = |span: Option<Span>| span.map(|span| span.0);
        let meter = |meter: &Meter| {
            json!({
                "packets": meter.count(), "p50_ns": nanos(meter.quantile(0.5)),
                "p99_ns": nanos(meter.quantile(0.99)), "max_ns": nanos(meter.max()),
            })
        };
        let flow = |named: &Named| {
            let c = &named.flow.counters;
            json!({
                "flow": named.full_name(&self.ways), "offered": c.offered, "sent": c.sent,
                "dropped": c.dropped(), "dropped_by_policy": c.dropped_by_policy,
                "marked": c.marked, "lost": c.lost, "not_taken": named.flow.not_taken.packets,
                "air": air_json(&c.air),
                "rate": named.flow.rate(self.elapsed),
                "queueing": meter(&named.flow.delay), "release_error": meter(&named.flow.release),
                "held": meter(&named.flow.held),
            })
        };
        let way = |(n, way): (usize, &DirectionSummary)| {
            let sum = self.of_way(n);
            let given = |error: Option<Span>| nanos(error.map(|error| way.delay + error));
            json!({
                "way": way.name,
                "asked": {
                    "rate": (!way.rate.is_unlimited()).then_some(way.rate.0),
                    "delay_ns": way.delay.0,
                },
                "given": {
                    "rate": sum.rate(self.elapsed),
                    "delay_p50_ns": given(sum.release.quantile(0.5)),
                    "delay_p99_ns": given(sum.release.quantile(0.99)),
                    "delay_max_ns": given(sum.release.max()),
                },
            })
        };
        let rule = |(name, taken, stats): &(String, RuleCounters, SojournStats)| {
            let mut json = rule_json(name, taken);
            let quantile = |share| nanos(stats.quantile(share));
            json["dropped"] = stats.dropped.into();
            json["lost"] = stats.lost.into();
            json["queueing"] = json!({
                "packets": stats.packets(), "p50_ns": quantile(0.5), "p99_ns": quantile(0.99),
                "max_ns": quantile(1.0),
            });
            json
        };
        json!({
            "elapsed_ns": self.elapsed.0,
            "rested_ns": self.rested.0,
            "directions": self.ways.iter().enumerate().map(way).collect::<Vec<_>>(),
            "flows": self.flows.iter().map(flow).collect::<Vec<_>>(),
            "rules": self.rules.iter().map(rule).collect::<Vec<_>>(),
            "masks": self.mask_stats.iter().map(|(name, report)| masks::json(name, report))
                .collect::<Vec<_>>(),
            "worst": self.worst().map(|worst| worst.full_name(&self.ways)),
            "breaches": self.breaches.iter().map(|(way, breach)| breach_json(way, breach))
                .collect::<Vec<_>>(),
            "lost_elsewhere": self.losses.iter().map(|(n, why)| json!({
                "count": n, "what": why,
            })).collect::<Vec<_>>(),
        })
    }

    /// Writes JSON to a file, or to standard output if that is `-`.
    fn write(&self, to: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.json())?;
        if to == Path::new("-") {
            say!("{text}");
            return Ok(());
        }
        fs::write(to, text + "\n").with_context(|| format!("cannot write {}", to.display()))
    }
}

/// A contract violation of a plug-in, as JSON.
pub fn breach_json(way: &str, breach: &Breach) -> Json {
    let Breach { library, what, at, times, instead } = breach;
    json!({
        "way": way, "library": library, "what": what, "at_ns": at.0, "times": times,
        "packets_by_turns": instead,
    })
}

/// The columns of a table of rules.
pub const RULE_HEADER: [&str; 3] = ["rule", "packets", "bytes (IP)"];

/// A rule as a row of a table.
pub fn rule_row(name: &str, taken: &RuleCounters) -> Vec<String> {
    vec![name.to_owned(), taken.packets.to_string(), taken.bytes.to_string()]
}

/// A rule as JSON.
pub fn rule_json(name: &str, taken: &RuleCounters) -> Json {
    json!({ "rule": name, "packets": taken.packets, "bytes": taken.bytes })
}

/// `--json FILE` of commands whose standard output belongs to another program.
#[derive(clap::Args)]
#[command(next_help_heading = "Results and control")]
pub struct JsonFile {
    /// At the end, write the link's statistics as JSON to this file; `-`: to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonFile {
    /// Writes the file, if requested.
    pub fn write(&self, summary: &Summary) -> Result<()> {
        self.json.as_deref().map_or(Ok(()), |file| summary.write(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::queues::queue::Limit;

    pub(super) fn summary() -> Summary {
        let scenario = falaj_scenario::Scenario::simple(
            Rate::from_mbit(10),
            Span::from_millis(4),
            Limit::Packets(9),
            1500,
        );
        let flow = |late: u64, dropped: u64| {
            let mut flow = FlowSummary::default();
            flow.release.record(Span(late));
            flow.delay.record(Span(1000 * late));
            flow.counters = Counters {
                offered: 10,
                sent: 10 - dropped,
                dropped_full: dropped,
                ..Counters::default()
            };
            flow.counters.sent_bytes = 1000;
            flow
        };
        let lost = vec![(3, "packets matched no rule".to_owned()), (0, NO_MEMORY.to_owned())];
        Summary::new(
            &scenario.links,
            Span::from_secs(1),
            [vec![flow(100, 0)], vec![flow(900, 2)]],
            lost,
        )
    }

    #[test]
    fn memory_that_there_was_not_is_told_of_each_adapter() {
        let why =
            falaj_live::event_loop::LiveLosses { no_memory: 9, ..Default::default() }.by_reason();
        let losses = why.map(|(n, why)| (n, format!("packets {why}"))).into();
        let lost = |up, down| AdapterCounts {
            no_memory: LostBothWays { up, down },
            ..AdapterCounts::default()
        };
        let counts = [("calm", lost(0, 0)), ("wild", lost(7, 2))]
            .map(|(name, counts)| (name.to_owned(), counts));
        let summary = Summary { losses, ..summary() }.of_adapters(&counts);
        let told = summary.losses.iter().find(|(n, _)| *n > 0);
        assert_eq!(
            told.unwrap().1,
            "packets were dropped for lack of memory: 7 that wild sent, 2 for wild"
        );
    }

    /// A packet that the far end does not accept is a loss like any other, whatever else is
    /// reported.
    #[test]
    fn packets_that_the_far_end_did_not_take_are_lost() {
        let mut summary = summary();
        let NotTaken { packets, bytes } = &mut summary.flows[0].flow.not_taken;
        (*packets, *bytes) = (4, 400);
        let worst = summary.worst().unwrap().told(&summary.ways);
        assert_eq!(
            worst,
            "worst flow: up all: 40.00 % lost (4 packets were not accepted by the far end), \
             queueing max 100 us"
        );
        let flow = &summary.json()["flows"][0];
        assert_eq!((&flow["not_taken"], &flow["rate"]), (&json!(4), &json!(4800.0)));
        // Either copy of a packet may be the one that was not accepted.
        summary.flows[0].flow.not_taken.packets = 15;
        assert!(summary.flows[0].flow.loss() <= 1.0);
    }

    #[test]
    fn the_worst_flow_lost_most() {
        let summary = summary();
        assert_eq!(summary.worst().unwrap().full_name(&summary.ways), "down all");
        let json = summary.json();
        assert_eq!(
            json["lost_elsewhere"],
            json!([{ "count": 3, "what": "packets matched no rule" }])
        );
        assert_eq!(json["directions"][1]["given"]["delay_max_ns"], 4_000_900);
    }
}
