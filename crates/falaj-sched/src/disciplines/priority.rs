//! Strict priority: a flow is served if no flow of a higher priority has a packet.
//!
//! There may be any number of priorities, and each flow has its own queue and counters. Flows of
//! the same priority take turns, packet by packet; a flow moves behind the others at the end of its
//! transmission. The highest priority with a packet is found in a few steps, because the flags of
//! 64 priorities share a word.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Guarantee, Guarantees, Precedence, finite_rate, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::Place;
use crate::mechanisms::levels::{Levels, TopLevel};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "priority",
    doc: "strict priority: a flow is served only while no flow of a higher priority has a packet",
    source: "folklore; dummynet's PRIO without its limits",
    cost: "O(1)",
    guarantee: "rate and delay, to the highest priority",
    guarantee_source: "own derivation",
    purposes: &[Purpose::Precedence],
    aliases: &["strict priority", "priority queueing", "static priority"],
    example: Example { scheduler: "", calls: "priority = 0", rest: "priority = 1" },
    flow: &[Param {
        name: "priority",
        kind: Kind::Count { min: 0, max: 65_535 },
        default: None,
        doc: "the strict priority of the flow: 0 is served first; flows of one priority take \
              turns, one packet each",
    }],
    editable: &[("priority", "Priority")],
    ..Manifest::PLAIN
};

/// Strict priority.
#[derive(Debug, Clone)]
pub struct Priority {
    levels: Levels,
    /// The priority of each flow, as set.
    priorities: Vec<u64>,
    /// The lowest priority in use: the largest number.
    lowest: Option<u64>,
    guaranteed: TopLevel,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct PriorityFlow {
    level: u32,
    place: Place,
}

impl AsMut<Place> for PriorityFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Priority {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Priority, ConfigErrors> {
        finite_rate(setup, "strict priority")?;
        room_for_one(setup)?;
        let mut priorities = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            priorities.push(f.values.count("priority").ok_or_else(|| ConfigError {
                flow: Some(flow),
                param: "priority",
                what: "is missing".into(),
                help: "0 for the flow that is served first, up to 65535".into(),
            })?);
        }
        let levels = Levels::new(priorities.iter().copied());
        let lowest = priorities.iter().copied().max();
        Ok(Priority { levels, priorities, lowest, guaranteed: TopLevel::new(setup) })
    }
}

impl Discipline for Priority {
    type State = PriorityFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<PriorityFlow>) {
        for (f, &priority) in self.priorities.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) =
                PriorityFlow { level: self.levels.rank(priority), place: Place::default() };
        }
    }

    /// Flows keep their order within a level, and the flow in service is still the first of its
    /// level.
    fn migrate_from(&mut self, mut old: Priority, flows: &mut Flows<PriorityFlow>, _: Time) {
        let (order, sending) = old.levels.dissolve(flows);
        self.start(flows);
        for f in order {
            self.levels.join(flows, flows.state(f).level, f);
        }
        if let Some(f) = sending {
            self.levels.take(flows.state(f).level, f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<PriorityFlow>, f: FlowId, _: Time) {
        self.levels.join(flows, flows.state(f).level, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<PriorityFlow>, _: Time, _: &Wire) -> Decision {
        match self.levels.next(flows) {
            Some(f) => Decision::Serve(f),
            None => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<PriorityFlow>, f: FlowId, _: Sent) {
        self.levels.take(flows.state(f).level, f);
    }
}

impl QueueHooks for Priority {}

impl MediumHooks for Priority {
    /// Returns true, as for Linux's `prio` below `tbf`: while the link waits for tokens, a packet
    /// of a higher priority may still be sent first.
    fn peeks(&self) -> bool {
        true
    }
}

impl Guarantees for Priority {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let own = self.priorities[f.index()];
        match self.priorities.iter().min() {
            Some(&top) if top < own => Err(NoGuarantee(format!(
                "flows of priority {top} may fill the link: the rate left for priority {own} \
                 depends on how much they send; give the flow `priority = {top}`, divide the link \
                 by `drr` or `virtual-links`, or declare the `envelope` of each flow: that bounds \
                 its delay"
            ))),
            _ => {
                let equals = self.priorities.iter().filter(|&&p| p == own).count() as u64;
                Ok(self.guaranteed.service(f, equals, self.priorities.iter().any(|&p| p > own)))
            }
        }
    }

    /// A transmission of a lower priority is not interrupted, so one packet of a lower priority
    /// counts.
    fn precedence(&self, f: FlowId) -> Precedence {
        let own = self.priorities[f.index()];
        let below = self.lowest.is_some_and(|lowest| lowest > own);
        Precedence {
            rank: self.levels.rank(own),
            once: if below { self.guaranteed.largest() } else { 0 },
            ..Precedence::default()
        }
    }

    /// Returns true: while a flow of the highest priority has packets, each other flow of that
    /// priority sends one packet between two packets of the flow. Flows of lower priorities send
    /// none, and have no guarantee.
    fn serves_strictly(&self) -> bool {
        true
    }

    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        Ok(self.service(f)?.after(server.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Value;
    use crate::queues::queue::Limit;
    use crate::scheduler::worked_example::{THREE_FLOWS, guarantee, order, setup, values};
    use crate::units::time::Span;

    fn priorities(largest: u32, priorities: [u64; 3]) -> Setup {
        setup(largest, priorities.map(|n| values([("priority", Value::Count(n))])))
    }

    #[test]
    fn the_best_priority_that_is_there_goes_first() {
        let setup = priorities(4, [9, 5, 0]);
        // A's first packet finds the link free, so it is sent first. If A's packets arrive 1 us
        // later, B's first packet finds the link free.
        let sent = order(&setup, Priority::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 C1@5 C2@8 B1@12 B2@13 B3@16 A2@18 A3@20 A4@22");
        let later = THREE_FLOWS.iter().map(|&(at, f, bytes)| (at + u64::from(f == 'A'), f, bytes));
        let b_first: Vec<_> = later.collect();
        let sent = order(&setup, Priority::new, &b_first);
        assert_eq!(sent, "B1@4 C1@7 C2@10 B2@11 B3@14 A1@16 A2@18 A3@20 A4@22");
    }

    #[test]
    fn flows_of_one_priority_take_turns_and_the_one_that_waited_comes_first() {
        let packets =
            [(0, 'A', 2), (0, 'A', 2), (0, 'A', 2), (1, 'B', 3), (1, 'B', 3), (3, 'C', 1)];
        let sent = order(&priorities(4, [1, 1, 0]), Priority::new, &packets);
        assert_eq!(sent, "A1@2 B1@5 C1@6 A2@8 B2@11 A3@13");
    }

    #[test]
    fn only_the_first_priority_has_a_guarantee() {
        let mut setup = priorities(1_000, [3, 3, 7]);
        setup.flows.iter_mut().for_each(|flow| flow.limit = Limit::Packets(40));
        // The bound is 40 packets of the flow itself, 40 of the flow with the same priority, and
        // one of the third flow.
        let first = guarantee(&setup, Priority::new, 0);
        assert_eq!(first.delay.delay, Span::from_millis(81));
        let third = Priority::new(&setup).unwrap().service(FlowId(2)).unwrap_err();
        assert!(third.0.contains("flows of priority 3 may fill the link"), "{third:?}");
    }
}
