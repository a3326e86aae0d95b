//! What flows of a running link are held to, and their weights, by pipe and flow.

use crate::difference::WAYS;
use falaj_live::event_loop::GuaranteeTerms;
use falaj_plan::standing::Standing;
use falaj_scenario::{Direction, Link, Scenario, Towards};
use falaj_sched::contract::params::FlowSetup;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::collections::BTreeMap;

/// How much of the link's processor an adapter may take beside the others: as much as its flow's
/// weight upwards says.
pub fn weight(flow: &FlowSetup) -> u32 {
    u32::try_from(flow.values.count("weight").unwrap_or(1)).unwrap_or(u32::MAX)
}

/// The same by adapter.
pub fn weights(scenario: &Scenario) -> BTreeMap<&str, u32> {
    let mut weights = BTreeMap::new();
    for direction in scenario.links.iter().map(|link| link.direction(Towards::Up)) {
        for (flow, setup) in direction.flows.iter().zip(direction.pipe.setup.leaves()) {
            if let Some(adapter) = &flow.adapter {
                weights.insert(&adapter.name[..], weight(setup));
            }
        }
    }
    weights
}

/// A direction of a link, and what people call it.
pub struct NamedDirection<'a> {
    link: &'a Link,
    name: &'static str,
    direction: &'a Direction,
}

/// All of them: by pipe.
pub fn ways(scenario: &Scenario) -> impl Iterator<Item = NamedDirection<'_>> {
    let of = |link| {
        WAYS.map(|(towards, name)| NamedDirection {
            link,
            name,
            direction: Link::direction(link, towards),
        })
    };
    scenario.links.iter().flat_map(of)
}

/// To what a flow is held.
#[derive(PartialEq, Eq)]
pub(crate) struct Holds<'a> {
    rate: Option<(Rate, Span)>,
    settling: Option<Span>,
    delay: Option<Span>,
    /// What it may send for that, and whether it gets that only then.
    envelope: &'a [(Rate, u64)],
    on_condition: bool,
}

impl NamedDirection<'_> {
    /// What a flow is held to. Where a mask makes many of one, promise and envelope are of each of
    /// them, and what is counted is of all: these are held to nothing.
    pub(crate) fn holds<'a>(&self, flow: usize, standing: &'a Standing) -> Option<Holds<'a>> {
        let is_many = self.direction.pipe.masks.flows.get(flow).is_some_and(Option::is_some);
        let pipe = &self.direction.pipe;
        // Where packets cost more than is counted, or are lost on the link, what has left says
        // less; and nobody counts how many bytes waited.
        let is_counted = pipe.framing.is_none() && pipe.impairments.loss.is_none();
        let is_counted = is_counted && !standing.needs_queue;
        let airtime = pipe.setup.largest_airtime();
        (!is_many).then(|| Holds {
            rate: standing.rate.filter(|_| is_counted),
            settling: standing.settling.map(|settling| settling + airtime),
            delay: standing.delay.as_ref().map(|(delay, _)| *delay),
            envelope: &standing.envelope,
            on_condition: standing.on_condition,
        })
    }

    /// Whether a flow's promised rate, and its promised delay, are held against its packets.
    pub fn judged(&self, flow: usize, standing: &Standing) -> [bool; 2] {
        let holds = self.holds(flow, standing);
        holds.map_or([false; 2], |holds| [holds.rate.is_some(), holds.delay.is_some()])
    }

    /// The same as the forwarder has it.
    pub(crate) fn terms(&self, flow: usize, standing: &Standing) -> GuaranteeTerms {
        let name = format!("{} {} {}", self.link.name, self.name, standing.flow);
        match self.holds(flow, standing) {
            None => GuaranteeTerms { name, many: true, ..GuaranteeTerms::default() },
            Some(Holds { rate, settling, delay, envelope, on_condition }) => GuaranteeTerms {
                name,
                rate,
                settling,
                delay,
                envelope: envelope.to_vec(),
                on_condition,
                many: false,
            },
        }
    }
}

/// What flows are held to, by pipe and flow.
pub fn terms(scenario: &Scenario, standings: &[Vec<Standing>]) -> Vec<Vec<GuaranteeTerms>> {
    let of = |(way, flows): (NamedDirection<'_>, &Vec<Standing>)| {
        flows.iter().enumerate().map(|(f, standing)| way.terms(f, standing)).collect()
    };
    ways(scenario).zip(standings).map(of).collect()
}
