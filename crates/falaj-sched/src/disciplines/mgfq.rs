//! Multilayer gated frame queueing: packets wait behind gates until their due dates are near.
//!
//! Tsou, Chiou and Tsai (2000), as in C. Zhang's thesis. A packet is due at its arrival plus the
//! flow's `deadline`. All gates open once in a `period`: the group behind the first gate joins the
//! end of the queue that is sent, and each other group moves up by one gate. A packet joins the
//! group that reaches the sent queue at the last opening before the packet is due. So each packet
//! becomes eligible at most one period before its due date, which bounds the remaining jitter. A
//! packet may become eligible earlier if its `deadline` exceeds `gates` times `period`, or with
//! `idle = "release"`. Within a group, packets are not sorted by due dates; this is the
//! disadvantage of using few queues.
//!
//! The implementation sorts packets by the opening at which they join the queue, and by their
//! number among all arrivals. This gives the same order, and no packets need to be moved at a gate.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{
    Bound, DropImpact, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Idling, Manifest};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, FlowSetup, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::bucket::ids;
use crate::mechanisms::weights::ROUNDING;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "mgfq",
    doc: "multilayer gated frame queueing: packets wait behind gates, which open once a period, \
          until they are nearly due, and then go first in first out",
    source: "Tsou, Chiou and Tsai 2000, as in C. Zhang's thesis",
    cost: "O(log N)",
    guarantee: "delay, with packets held until within a period of their due time",
    guarantee_source: "own derivation",
    scheduler: &[
        Param {
            name: "period",
            kind: Kind::Span,
            default: None,
            doc: "time between two openings of the gates: a packet joins the sent queue at most \
                  one period before it is due, which bounds the remaining jitter",
        },
        Param {
            name: "gates",
            kind: Kind::Count { min: 1, max: 4_096 },
            default: Some("16"),
            doc: "the number of gates in series: a packet is held for at most this number of \
                  periods, even if its deadline is longer",
        },
        Param {
            name: "idle",
            kind: Kind::Choice(&["hold", "release"]),
            default: Some("hold"),
            doc: "use of the link while all packets are behind gates: `hold` leaves it idle, \
                  `release` sends the packet that would join the sent queue first",
        },
    ],
    flow: &[Param {
        name: "deadline",
        kind: Kind::Span,
        default: None,
        doc: "time from a packet's arrival until it is due; the packet is held until within one \
              period of that",
    }],
    idles: Idling::because("packets wait behind gates"),
    editable: &[("deadline", "Deadline")],
    draw: Draw::by(&[("period", draw::period)]),
    ..Manifest::PLAIN
};

/// Position of a packet: the number of the gate opening, counted from time zero, at which it joins
/// the queue that is sent; and the packet's number among all arrivals.
type Place = (u64, u64);

/// Multilayer gated frame queueing.
#[derive(Debug, Clone)]
pub struct Mgfq {
    period: Span,
    gates: u64,
    releases: bool,
    deadlines: Vec<Span>,
    heads: Tournament<Place>,
    /// Number of arrivals so far, of all flows.
    arrivals: u64,
    serving: Option<FlowId>,
    /// Transmission time of a packet of the largest size. The next field is that of all queues when
    /// they are full.
    largest: Span,
    full_queues: Span,
}

impl Mgfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Mgfq, ConfigErrors> {
        finite_rate(setup, "multilayer gated frame queueing")?;
        room_for_one(setup)?;
        let period = setup.scheduler.span("period").filter(|&period| period > Span::ZERO);
        let period = period.ok_or_else(|| ConfigError {
            flow: None,
            param: "period",
            what: "the gates open once a period, and `period` is missing".into(),
            help: "give it the jitter that flows may have, such as `5ms`".into(),
        })?;
        let deadline = |(flow, f): (usize, &FlowSetup)| {
            f.values.span("deadline").ok_or_else(|| ConfigError {
                flow: Some(flow),
                param: "deadline",
                what: "the flow has no deadline".into(),
                help: "give it the delay that it needs, such as `20ms`".into(),
            })
        };
        let full =
            setup.flows.iter().map(|f| full_queue(setup, f.limit)).fold(0, u64::saturating_add);
        Ok(Mgfq {
            period,
            gates: setup.scheduler.count("gates").unwrap_or(16),
            releases: setup.scheduler.choice("idle") == Some("release"),
            deadlines: setup.flows.iter().enumerate().map(deadline).collect::<Result<_, _>>()?,
            heads: Tournament::new(setup.flows.len()),
            arrivals: 0,
            serving: None,
            largest: setup.largest_airtime(),
            full_queues: setup.rate.airtime_of_many(full),
        })
    }

    fn follow(&mut self, flows: &Flows<(), Place>, f: FlowId) {
        match flows.head(f) {
            Some(_) => self.heads.set(f, flows.head_tag(f)),
            None => self.heads.remove(f),
        }
    }
}

impl Discipline for Mgfq {
    type State = ();
    type Tag = Place;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<(), Place>) {}

    /// A packet behind a gate stays there until the first opening of the new gates that is not
    /// earlier than its opening under the old setup.
    fn retag(&self, old: &mut Mgfq, _: FlowId, (gate, number): Place, _: Time) -> Place {
        let opens = u128::from(gate) * u128::from(old.period.0);
        (u64::try_from(opens.div_ceil(self.period.0.into())).unwrap_or(u64::MAX), number)
    }

    fn migrate_from(&mut self, old: Mgfq, flows: &mut Flows<(), Place>, _: Time) {
        (self.serving, self.arrivals) = (old.serving, old.arrivals);
        ids(old.deadlines.len()).for_each(|f| self.follow(flows, f));
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<(), Place>, f: FlowId, _: u32, now: Time) -> Place {
        let opened = now.0 / self.period.0;
        let due = now + self.deadlines[f.index()];
        // The last opening before the packet is due.
        let last = due.0.div_ceil(self.period.0).saturating_sub(1);
        self.arrivals += 1;
        (last.clamp(opened, opened + self.gates), self.arrivals)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<(), Place>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    fn head_changed(&mut self, flows: &mut Flows<(), Place>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<(), Place>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        let Some(((gate, _), f)) = self.heads.first() else { return Decision::Idle };
        let opens = Time::ZERO + self.period * gate;
        if opens <= now || self.releases { Decision::Serve(f) } else { Decision::NotBefore(opens) }
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<(), Place>, f: FlowId, _: Sent) {
        self.serving = Some(f);
    }
}

impl QueueHooks for Mgfq {}
impl MediumHooks for Mgfq {}

impl Guarantees for Mgfq {
    /// A packet's position does not depend on the packets before it, so drops break no guarantee.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::NoFlow
    }

    /// At its due date at the latest, a packet is in the queue that is sent. Later packets join
    /// behind it. So from then on it waits only for the packets that are queued at that time,
    /// itself included, and the queues are limited.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let deadline = self.deadlines[f.index()];
        Ok(Guarantee {
            rate: Rate(0),
            latency: self.largest,
            rate_formula: "none: packets go as they are due",
            delay: Bound {
                delay: deadline + self.full_queues + ROUNDING,
                formula: "d + sum B/C",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Value;
    use crate::scheduler::worked_example::{at_once, order, setup, time, values};

    /// Gates open every 4; packets of A, B and C are due 12, 8 and 4 after arrival. C is late,
    /// because gates open only every 4.
    #[test]
    fn packets_pass_a_gate_each_period() {
        let mut setup = setup(4, [12, 8, 4].map(|due| values([("deadline", time(due))])));
        setup.scheduler = values([("period", time(4)), ("gates", Value::Count(3))]);
        let late = Vec::from([(1, 'C', 1), (1, 'C', 1), (5, 'C', 1)]);
        let packets = [at_once("AAABB", 1), late].concat();
        let held = "B1@5 B2@6 C1@7 C2@8 A1@9 A2@10 A3@11 C3@12";
        assert_eq!(order(&setup, Mgfq::new, &packets), held);
        // With `idle = "release"`, the first packet at a free link is sent at once.
        setup.scheduler.set("idle", Value::Choice("release"));
        let released = "A1@1 B1@2 B2@3 C1@4 C2@5 A2@6 A3@7 C3@8";
        assert_eq!(order(&setup, Mgfq::new, &packets), released);
    }
}
