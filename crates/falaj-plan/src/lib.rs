//! What a scenario promises, before anything runs.
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
//! | [`bounds`] | promise, envelope, and what follows: delay, backlog, what limits them |
//! | [`solve`] | what a flow needs and is not promised, and what would do |
//! | [`standing`] | what each flow is promised whatever is sent, for admission and for the watch over promises |
//! | [`network`] | what packets wait at most over all links that they pass |
//! | [`saihu`] | networks of other tools for bounds, read and written |
//! | [`stations`] | what stations of a channel get that always have packets |
//! | [`mod@json`] | all of that as JSON |
//! | [`words`] | numbers as people read them |
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
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::contract::params::ConfigErrors;
use solve::Unmet;

/// What one direction of a link promises to each of its flows.
///
/// # Errors
/// Its discipline refuses its setup.
pub fn promises(direction: &Direction) -> Result<Vec<Result<Promise, NoPromise>>, ConfigErrors> {
    Ok(bounds::served(direction, &direction.pipe.setup)?.promises)
}

/// One direction of a link, planned.
pub struct Way<'a> {
    /// The link's name.
    pub link: &'a str,
    /// Which direction.
    pub towards: Towards,
    /// What the scenario says of it.
    pub direction: &'a Direction,
    /// Its flows, in order.
    pub flows: Vec<Outlook>,
    /// Those that are promised less than they need.
    pub unmet: Vec<Unmet>,
    /// The same as the direction before it, and nothing to carry.
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

/// Is the other direction the same in everything, and has nothing to carry?
fn same_as_up(scenario: &Scenario, link: usize) -> bool {
    let l = &scenario.links[link];
    let idle = scenario.traffic.iter().all(|s| s.link != link || s.towards == Towards::Up);
    idle && format!("{:?}", l.up) == format!("{:?}", l.down)
}

/// The same direction before anything was changed.
pub fn counterpart<'a, 'b>(way: &Way<'_>, before: Option<&'b Vec<Way<'a>>>) -> Option<&'b Way<'a>> {
    before?.iter().find(|b| (b.link, b.towards) == (way.link, way.towards))
}
