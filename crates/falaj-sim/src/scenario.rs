//! Converts a scenario to a simulated experiment.

pub use falaj_scenario::pipe_of;

use crate::headers;
use crate::simulate::{Experiment, Feed};
use falaj_scenario::{Link, Scenario, Source, Towards};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use std::sync::Arc;

/// Distance between the random streams of the instances of one source.
const MORE: u64 = 1 << 32;

/// Creates an experiment of all links and sources of a scenario. Feeds are in the order of flows,
/// so that packets of the same instant arrive in this order.
pub fn experiment(scenario: &Scenario, duration: Span) -> Experiment {
    let feeds = |(i, s): (usize, &Source)| {
        let feed = |n: u32| Feed {
            pipe: pipe_of(s.link, s.towards),
            flow: FlowId(s.flow as u32),
            routed: s.key.is_some(),
            key: headers::key(s, i, n),
            source: s.spec(),
            stream: i as u64 + u64::from(n) * MORE,
            ecn: s.ecn,
            traffic: i,
        };
        (0..s.sources).map(feed).collect::<Vec<_>>()
    };
    let mut feeds: Vec<Feed> = scenario.traffic.iter().enumerate().flat_map(feeds).collect();
    feeds.sort_by_key(|feed| (feed.pipe, feed.flow));
    let changes = scenario.changes.before(duration).next().map(|_| Arc::new(scenario.clone()));
    Experiment { network: scenario.network(), feeds, changes, duration, warm_up: Span::ZERO }
}

/// All flows of a scenario, in order: link, direction, flow.
pub fn all_flows(scenario: &Scenario) -> Vec<(usize, Towards, usize)> {
    let of = |(l, link): (usize, &Link)| {
        let towards =
            |towards| (0..link.direction(towards).flows.len()).map(move |f| (l, towards, f));
        [towards(Towards::Up).collect::<Vec<_>>(), towards(Towards::Down).collect()].concat()
    };
    scenario.links.iter().enumerate().flat_map(of).collect()
}

/// The flows of a scenario that sources feed, in order: link, direction, flow.
pub fn fed_flows(scenario: &Scenario) -> Vec<(usize, Towards, usize)> {
    let fed = |&(l, towards, f): &(usize, Towards, usize)| {
        scenario.traffic.iter().any(|s| (s.link, s.towards, s.flow) == (l, towards, f))
    };
    all_flows(scenario).into_iter().filter(fed).collect()
}

/// The name of a flow, unique in the scenario: `flow`, preceded by the link if there are several,
/// and followed by `up` or `down` if there is traffic in the other direction.
pub fn name_of(scenario: &Scenario, (link, towards, flow): (usize, Towards, usize)) -> String {
    let l = &scenario.links[link];
    let flow = &l.direction(towards).flows[flow].name;
    let both_ways = scenario.traffic.iter().any(|s| s.towards != towards);
    let several = scenario.links.len() > 1;
    let way = match towards {
        Towards::Up => "up",
        Towards::Down => "down",
    };
    match (several, both_ways) {
        (false, false) => flow.clone(),
        (false, true) => format!("{flow} {way}"),
        (true, false) => format!("{}.{flow}", l.name),
        (true, true) => format!("{}.{flow} {way}", l.name),
    }
}
