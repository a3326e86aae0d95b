//! The report on links for `falaj show`.

use crate::protocol::{
    BreachReport, BucketDelays, Delays, DirectionReport, Drops, Elsewhere, FlowReport, GoneReport,
    LinkReport, LinksReport, MaskReport, RequestedLink, RuleReport,
};
use falaj_engine::rules::{RuleCounters, RuleStats};
use falaj_live::event_loop::{FlowSnapshot, Snapshot, Sojourns};
use falaj_scenario::difference::WAYS;
use falaj_scenario::{Direction, Link, Rule, Scenario, Towards};
use falaj_sched::contract::breach::Breach;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::impairments;
use falaj_traffic::meter::Meter;

/// The report, from counters and measurements taken a little later.
pub(super) fn report(
    scenario: &Scenario,
    snapshot: &Snapshot,
    measured: Vec<Sojourns>,
    made: Vec<Vec<MaskReport>>,
    histograms: bool,
) -> LinksReport {
    let (mut measured, mut made) = (measured.into_iter(), made.into_iter());
    let mut direction = |(n, link, way, towards): (usize, &Link, &str, _)| {
        let pipe = 2 * n + usize::from(towards == Towards::Down);
        let direction: &Direction = link.direction(towards);
        let counted = snapshot.flows.get(pipe).map_or(&[][..], Vec::as_slice);
        let mut all = (FlowSnapshot::default(), Sojourns::default());
        all.0.counters = snapshot.gone.get(pipe).copied().unwrap_or_default();
        let flows = counted.iter().enumerate().map(|(f, counted)| {
            let measured = measured.next().unwrap_or_default();
            let name = direction.flows.get(f).map_or("", |flow| &flow.name);
            sum(&mut all, counted, &measured);
            flow(format!("{way} {name}"), counted, &measured, snapshot.at, histograms)
        });
        let flows: Vec<FlowReport> = flows.collect();
        DirectionReport {
            way: way.into(),
            asked: RequestedLink {
                rate: (!direction.pipe.setup.rate.is_unlimited())
                    .then_some(direction.pipe.setup.rate.0),
                delay_ns: direction.pipe.delay.0,
                scheduler: direction.scheduler().kind.into(),
                impairments: impairments::words(direction),
            },
            total: flow(way.into(), &all.0, &all.1, snapshot.at, histograms),
            flows,
            breaches: snapshot
                .breaches
                .get(pipe)
                .into_iter()
                .flatten()
                .map(breach_report)
                .collect(),
            masks: made.next().unwrap_or_default(),
        }
    };
    let link = |(n, link): (usize, &Link)| LinkReport {
        link: link.name.clone(),
        directions: WAYS.iter().map(|(towards, way)| direction((n, link, way, *towards))).collect(),
    };
    let rule = |((rule, taken), active): ((&Rule, &RuleCounters), &RuleStats)| {
        let RuleCounters { packets, bytes } = *taken;
        let RuleStats { stats, last } = active;
        RuleReport {
            rule: rule.name.clone(),
            packets,
            bytes,
            dropped: stats.dropped,
            lost: stats.lost,
            sojourn: BucketDelays::from(stats),
            idle_ns: last.map(|then| snapshot.at.since(then).0),
            rate: None,
        }
    };
    let ended = &snapshot.ended;
    let lost = snapshot.losses.by_reason().into_iter().filter(|(count, _)| *count > 0);
    LinksReport {
        elapsed_ns: snapshot.at.since(Time::ZERO).0,
        links: scenario.links.iter().enumerate().map(link).collect(),
        rules: scenario
            .rules
            .iter()
            .zip(&snapshot.taken)
            .zip(&snapshot.of_rules)
            .map(rule)
            .collect(),
        gone: GoneReport {
            offered: ended.offered,
            sent: ended.sent,
            lost: ended.lost,
            dropped: Drops::from(ended),
            backlog: ended.backlog,
            taken: snapshot.taken_by_the_gone.packets,
        },
        lost_elsewhere: lost
            .map(|(count, why)| Elsewhere { count, what: format!("packets {why}") })
            .collect(),
    }
}

fn breach_report(breach: &Breach) -> BreachReport {
    let Breach { library, what, at, times, instead } = breach.clone();
    BreachReport { library, what, at_ns: at.0, times, packets_by_turns: instead }
}

fn sum(
    (all, measured_all): &mut (FlowSnapshot, Sojourns),
    counted: &FlowSnapshot,
    measured: &Sojourns,
) {
    all.counters.add(&counted.counters);
    all.not_taken.add(&counted.not_taken);
    all.active = all.active.max(counted.active);
    measured_all.delay.add(&measured.delay);
    measured_all.release_error.add(&measured.release_error);
}

fn flow(
    name: String,
    counted: &FlowSnapshot,
    measured: &Sojourns,
    now: Time,
    histograms: bool,
) -> FlowReport {
    let c = &counted.counters;
    FlowReport {
        flow: name,
        offered: c.offered,
        offered_bytes: c.offered_bytes,
        sent: c.sent,
        sent_bytes: c.sent_bytes,
        lost: c.lost,
        lost_bytes: c.lost_bytes,
        not_taken: counted.not_taken.packets,
        not_taken_bytes: counted.not_taken.bytes,
        duplicated: c.duplicated,
        corrupted: c.corrupted,
        reordered: c.reordered,
        dropped: Drops::from(c),
        marked: c.marked,
        backlog: c.backlog,
        backlog_bytes: c.backlog_bytes,
        max_backlog: c.max_backlog,
        idle_ns: counted.active.map(|then| now.since(then).0),
        sojourn: delays(&measured.delay, histograms),
        release_error: delays(&measured.release_error, false),
        rate: None,
    }
}

fn delays(meter: &Meter, histogram: bool) -> Delays {
    let nanos = |span: Option<Span>| span.map(|span| span.0);
    Delays {
        packets: meter.count(),
        mean_ns: meter.mean_nanos(),
        p50_ns: nanos(meter.quantile(0.5)),
        p99_ns: nanos(meter.quantile(0.99)),
        max_ns: nanos(meter.max()),
        histogram: if histogram {
            meter.counts().map(|(delay, times)| (delay.0, times)).collect()
        } else {
            Vec::new()
        },
    }
}
