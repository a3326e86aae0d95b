//! From a scenario to an experiment.

use crate::headers;
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

/// Where the random streams of the second of several sources alike begin, and so on.
const MORE: u64 = 1 << 32;

/// All links and sources of a scenario. Feeds stand in flow order, so that
/// packets of one instant arrive in that order.
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
        };
        (0..s.sources).map(feed).collect::<Vec<_>>()
    };
    let mut feeds: Vec<Feed> = scenario.traffic.iter().enumerate().flat_map(feeds).collect();
    feeds.sort_by_key(|feed| (feed.pipe, feed.flow));
    Experiment { network: scenario.network(), feeds, duration, warm_up: Span::ZERO }
}
