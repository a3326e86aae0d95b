//! From a scenario to an experiment.

use crate::simulate::{Experiment, Feed};
use falaj_engine::PipeId;
use falaj_scenario::{Scenario, Source, Towards};
use falaj_sched::queue::FlowId;
use falaj_sched::time::Span;

/// The pipe that carries a link's traffic in one direction: two for each link,
/// up before down.
pub fn pipe_of(link: usize, towards: Towards) -> PipeId {
    PipeId(2 * link as u32 + u32::from(towards == Towards::Down))
}

/// All links and sources of a scenario. Feeds stand in flow order, so that
/// packets of one instant arrive in that order.
pub fn experiment(scenario: &Scenario, duration: Span) -> Experiment {
    let feed = |(i, s): (usize, &Source)| Feed {
        pipe: pipe_of(s.link, s.towards),
        flow: FlowId(s.flow as u32),
        source: s.spec(),
        stream: i as u64,
        ecn: s.ecn,
    };
    let mut feeds: Vec<Feed> = scenario.traffic.iter().enumerate().map(feed).collect();
    feeds.sort_by_key(|feed| (feed.pipe, feed.flow));
    Experiment { pipes: scenario.links.iter().flat_map(|l| [l.up.pipe(), l.down.pipe()]).collect(), feeds, duration }
}
