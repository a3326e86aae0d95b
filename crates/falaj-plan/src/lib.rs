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
//! | module | what it does |
//! |---|---|
//! | [`bounds`] | guarantee and envelope of each flow, its delay and backlog, and what limits them |
//! | [`solve`] | needs that are not guaranteed, and settings that would guarantee them |
//! | [`standing`] | guarantees that hold for any traffic, for admission and for monitoring |
//! | [`network`] | delay bounds over all links that a packet passes |
//! | [`saihu`] | reads and writes the networks of other tools for bounds |
//! | [`stations`] | throughput of the stations of a channel if all always have packets |
//! | [`mod@json`] | all of that as JSON |
//! | [`words`] | numbers formatted for people |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

pub mod bounds;
pub mod json;
pub mod network;
pub mod saihu;
pub mod solve;
pub mod standing;
pub mod stations;
pub mod words;

use bounds::Outlook;
use falaj_scenario::{Direction, Scenario, Towards};
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
    /// The flows whose guarantees are below their needs.
    pub unmet: Vec<Unmet>,
    /// True if this direction is configured like the one before it and no traffic enters it.
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
    for (l, link) in scenario.links.iter().enumerate() {
        for towards in [Towards::Up, Towards::Down] {
            let direction = link.direction(towards);
            let flows = bounds::outlooks(direction, &bounds::sources(scenario, l, towards))?;
            let unmet = solve::unmet(direction, &flows);
            let same = towards == Towards::Down && same_as_up(scenario, l);
            ways.push(Way { link: &link.name, towards, direction, flows, unmet, same });
        }
    }
    Ok(ways)
}

/// Returns true if both directions of the link are configured alike and no traffic enters `Down`.
fn same_as_up(scenario: &Scenario, link: usize) -> bool {
    let l = &scenario.links[link];
    let idle = scenario.traffic.iter().all(|s| s.link != link || s.towards == Towards::Up);
    idle && format!("{:?}", l.up) == format!("{:?}", l.down)
}

/// The plan of the same direction before the change, if there is one.
pub fn counterpart<'a, 'b>(way: &Way<'_>, before: Option<&'b Vec<Way<'a>>>) -> Option<&'b Way<'a>> {
    before?.iter().find(|b| (b.link, b.towards) == (way.link, way.towards))
}
