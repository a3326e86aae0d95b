//! The guarantee terms of flows of a running link, and their weights, by pipe and flow.

use falaj_live::event_loop::GuaranteeTerms;
use falaj_plan::standing::Standing;
use falaj_scenario::difference::WAYS;
use falaj_scenario::{Direction, Link, Scenario, Towards};
use falaj_sched::contract::params::FlowSetup;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::collections::BTreeMap;

/// The weight of an adapter's share of the link's processor: the weight of its flow in the
/// direction up.
pub fn weight(flow: &FlowSetup) -> u32 {
    u32::try_from(flow.values.count("weight").unwrap_or(1)).unwrap_or(u32::MAX)
}

/// The weights by adapter.
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

/// A direction of a link, with its name.
pub struct NamedDirection<'a> {
    link: &'a Link,
    name: &'static str,
    direction: &'a Direction,
}

/// All directions, by pipe.
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

/// The guarantees against which a flow is checked.
#[derive(PartialEq, Eq)]
pub(crate) struct Holds<'a> {
    rate: Option<(Rate, Span)>,
    settling: Option<Span>,
    delay: Option<Span>,
    /// The envelope of the guarantee.
    envelope: &'a [(Rate, u64)],
    /// True if the guarantee holds only for arrivals within the envelope.
    on_condition: bool,
}

impl NamedDirection<'_> {
    /// The guarantees against which a flow is checked. A flow that a mask divides into several
    /// queues is not checked: guarantee and envelope apply to each queue, but the counters are for
    /// all of them together.
    pub(crate) fn holds<'a>(&self, flow: usize, standing: &'a Standing) -> Option<Holds<'a>> {
        let is_many = self.direction.pipe.masks.flows.get(flow).is_some_and(Option::is_some);
        let pipe = &self.direction.pipe;
        // If packets cost more than is accounted, or are lost on the link, the bytes that left
        // understate the service. A rate that holds only while a certain number of bytes is queued
        // is not checked either, because the guaranteed rate clock does not know the number of
        // queued bytes.
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

    /// Returns true if the flow's guaranteed rate, and its guaranteed delay, are checked for each
    /// packet.
    pub fn judged(&self, flow: usize, standing: &Standing) -> [bool; 2] {
        let holds = self.holds(flow, standing);
        holds.map_or([false; 2], |holds| [holds.rate.is_some(), holds.delay.is_some()])
    }

    /// The guarantee terms of a flow in the forwarder's form.
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

/// The guarantee terms of flows, by pipe and flow.
pub fn terms(scenario: &Scenario, standings: &[Vec<Standing>]) -> Vec<Vec<GuaranteeTerms>> {
    let of = |(way, flows): (NamedDirection<'_>, &Vec<Standing>)| {
        flows.iter().enumerate().map(|(f, standing)| way.terms(f, standing)).collect()
    };
    ways(scenario).zip(standings).map(of).collect()
}
