//! The guarantees of a scenario, computed without running it.
//!
//! ```
//! let text = "[link.a]\nrate = \"8mbit\"\n\
//!     [traffic.x]\nmodel = \"cbr\"\nrate = \"1mbit\"\nsize = \"1000B\"";
//! let (scenario, _) = falaj_scenario::parse(text, "a.toml")?;
//! let ways = falaj_plan::plan(&scenario)?;
//! // A packet of 1000 B at 8 Mbit/s.
//! assert_eq!(ways[0].flows[0].best().unwrap().delay.0, 1_000_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | task |
//! |---|---|
//! | [`bounds`] | guarantee and envelope of each flow, its delay and backlog, and what limits them |
//! | [`expected`] | mean delay, quantiles and loss to expect from Poisson sources |
//! | [`solve`] | requirements that are not met, and settings that would meet them |
//! | [`standing`] | admission of flows, and guarantees that hold whatever other flows send, for monitoring |
//! | [`network`] | delay bounds over all links that a packet passes |
//! | [`saihu`] | reads and writes the networks of other tools for bounds |
//! | [`stations`] | throughput of the stations of a channel if all always have packets |
//! | [`mod@json`] | all of that as JSON |
//! | [`words`] | numbers formatted for people |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

pub mod bounds;
pub mod expected;
pub mod json;
pub mod network;
pub mod saihu;
pub mod solve;
pub mod standing;
pub mod stations;
pub mod words;

use bounds::Outlook;
use expected::Expected;
use falaj_scenario::{Direction, Link, Scenario, Towards};
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::ConfigErrors;
use solve::Unmet;

/// The guarantee of one direction of a link to each of its flows.
///
/// # Errors
/// The discipline refuses its setup.
pub fn guarantees(
    direction: &Direction,
) -> Result<Vec<Result<Guarantee, NoGuarantee>>, ConfigErrors> {
    Ok(bounds::served(direction, &direction.pipe.setup)?.guarantees)
}

/// The plan of one direction of a link.
pub struct Way<'a> {
    /// The link's name.
    pub link: &'a str,
    /// The direction.
    pub towards: Towards,
    /// Its configuration in the scenario.
    pub direction: &'a Direction,
    /// Its flows, in the order of the scenario.
    pub flows: Vec<Outlook>,
    /// The delay and the loss to expect of each flow, or the reason why they are not known.
    pub expected: Vec<Result<Expected, String>>,
    /// The flows whose guarantees do not meet their requirements.
    pub unmet: Vec<Unmet>,
    /// True for the direction down if it is configured like up and no source sends on it.
    pub same: bool,
}

impl Way<'_> {
    /// `up` or `down`.
    pub fn name(&self) -> &'static str {
        if self.towards == Towards::Up { "up" } else { "down" }
    }
}

/// Plans both directions of all links, in order.
///
/// # Errors
/// A discipline refuses its setup.
pub fn plan(scenario: &Scenario) -> Result<Vec<Way<'_>>, ConfigErrors> {
    let mut ways = Vec::new();
    let sources = bounds::sources(scenario);
    for (l, link) in scenario.links.iter().enumerate() {
        for towards in [Towards::Up, Towards::Down] {
            let direction = link.direction(towards);
            let sent = &sources[2 * l..][usize::from(towards == Towards::Down)];
            let flows = bounds::outlooks(direction, sent)?;
            let unmet = solve::unmet(direction, &flows);
            let same = towards == Towards::Down && sent.is_empty() && alike(link);
            let expected = expected::expected(scenario, direction, sent, &flows);
            ways.push(Way { link: &link.name, towards, direction, flows, expected, unmet, same });
        }
    }
    Ok(ways)
}

/// Returns true if both directions of the link are configured alike.
fn alike(link: &Link) -> bool {
    format!("{:?}", link.up) == format!("{:?}", link.down)
}

/// The plan of the same direction before the change, if there is one.
pub fn counterpart<'a, 'b>(way: &Way<'_>, before: Option<&'b Vec<Way<'a>>>) -> Option<&'b Way<'a>> {
    before?.iter().find(|b| (b.link, b.towards) == (way.link, way.towards))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the second link, bursts may be larger than at the sources, so no envelope follows from
    /// the sources. A quarter of `part` goes directly to that link. The two sources of `pair` are
    /// different flows there.
    #[test]
    fn traffic_counts_on_all_links_of_its_route() {
        let text = r#"
            link.a.rate = "10mbit"
            link.b.rate = "10mbit"
            link.b.scheduler = { kind = "drr" }
            link.b.flow.marked.match = "mark 7"
            link.b.flow.one.match = "src 10.1.0.1"
            link.b.flow.two.match = "src 10.1.0.2"
            link.b.flow.rest.match = "any"
            [[rule]]
            match = "src 10.9.0.0/16"
            to = ["a", "b"]
            [[rule]]
            match = "src 10.8.0.0/16"
            mark = 7
            to = "b"
            probability = "25%"
            [[rule]]
            match = "src 10.8.0.0/16"
            to = "a"
            [[rule]]
            to = "b"
            [traffic.far]
            headers = "udp src 10.9.0.1"
            model = "cbr"
            rate = "1mbit"
            size = "1000B"
            [traffic.part]
            headers = "udp src 10.8.0.1"
            model = "cbr"
            rate = "2mbit"
            size = "1000B"
            [traffic.pair]
            headers = "udp src 10.1.0.1"
            model = "cbr"
            rate = "3mbit"
            size = "1000B"
            sources = 2
        "#;
        let (scenario, _) =
            falaj_scenario::parse(text, "x").unwrap_or_else(|why| panic!("{}", why.render(false)));
        let ways = plan(&scenario).unwrap();
        let flow = |way: usize, flow: usize| {
            let flow = &ways[way].flows[flow];
            let envelope = flow.envelope.as_ref().map(|e| e.sources.join(" "));
            (&*flow.name, flow.offered, envelope.map_err(String::as_str))
        };
        assert_eq!(flow(0, 0), ("all", 2_500_000, Ok("far part".to_owned())));
        assert_eq!(flow(2, 0), ("marked", 500_000, Ok("part".to_owned())));
        assert_eq!(flow(2, 1), ("one", 3_000_000, Ok("pair".to_owned())));
        assert_eq!(flow(2, 2), ("two", 3_000_000, Ok("pair".to_owned())));
        let later = "none: traffic far passes other links first, which may make its bursts larger";
        assert_eq!(flow(2, 3), ("rest", 1_000_000, Err(later)));
    }
}
