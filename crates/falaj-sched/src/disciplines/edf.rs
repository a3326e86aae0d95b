//! Earliest deadline first: a packet's deadline is its arrival plus the flow's `deadline`. The
//! packet with the earliest deadline is sent first.
//!
//! Liu and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time environment"
//! (1973); for packets Ferrari and Verma (1990).

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, DropImpact, Guarantee, Guarantees, Precedence, Settling, finite_rate, full_queue,
    room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "edf",
    doc: "earliest deadline first: a delay bound of its own for each flow, and no guaranteed rate",
    source: "Liu and Layland 1973; Ferrari and Verma 1990",
    cost: "O(log N)",
    guarantee: "delay",
    guarantee_source: "own derivation",
    purposes: &[Purpose::Delay],
    aliases: &["earliest deadline first", "deadline"],
    example: Example { scheduler: "", calls: "deadline = \"2ms\"", rest: "deadline = \"50ms\"" },
    flow: &[Param {
        name: "deadline",
        kind: Kind::Span,
        default: None,
        doc: "time from a packet's arrival until its last bit should have left; the packet whose \
              deadline comes first goes first",
    }],
    editable: &[("deadline", "Deadline")],
    ..Manifest::PLAIN
};

/// Earliest deadline first.
#[derive(Debug, Clone)]
pub struct Edf {
    deadlines: Vec<Span>,
    /// Flows with packets, ordered by the deadlines of their heads.
    heads: Tournament<Time>,
    serving: Option<FlowId>,
    /// Bytes of a packet of the largest size.
    packet: u32,
    /// Transmission time of a packet of the largest size. The next field is that of all queues when
    /// they are full.
    largest: Span,
    full_queues: Span,
}

impl Edf {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Edf, ConfigErrors> {
        finite_rate(setup, "earliest deadline first")?;
        room_for_one(setup)?;
        let mut deadlines = Vec::with_capacity(setup.flows.len());
        for (flow, f) in setup.flows.iter().enumerate() {
            deadlines.push(f.values.span("deadline").ok_or_else(|| ConfigError {
                flow: Some(flow),
                param: "deadline",
                what: "the flow has no deadline".into(),
                help: "give it the delay that it needs, such as `10ms`".into(),
            })?);
        }
        let full =
            setup.flows.iter().map(|f| full_queue(setup, f.limit)).fold(0, u64::saturating_add);
        Ok(Edf {
            heads: Tournament::new(deadlines.len()),
            deadlines,
            serving: None,
            packet: setup.largest,
            largest: setup.largest_airtime(),
            full_queues: setup.rate.airtime_of_many(full),
        })
    }

    fn follow(&mut self, flows: &Flows<(), Time>, f: FlowId) {
        match flows.head(f) {
            Some(_) => self.heads.set(f, flows.head_tag(f)),
            None => self.heads.remove(f),
        }
    }
}

impl Discipline for Edf {
    type State = ();
    type Tag = Time;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<(), Time>) {}

    fn retag(&self, old: &mut Edf, f: FlowId, tag: Time, _: Time) -> Time {
        Time(tag.since(Time::ZERO + old.deadlines[f.index()]).0) + self.deadlines[f.index()]
    }

    /// Queued packets get the new deadlines, counted from their arrival.
    fn migrate_from(&mut self, old: Edf, flows: &mut Flows<(), Time>, _: Time) {
        self.serving = old.serving;
        for f in (0..old.deadlines.len() as u32).map(FlowId) {
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<(), Time>, f: FlowId, _: u32, now: Time) -> Time {
        now + self.deadlines[f.index()]
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<(), Time>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    fn head_changed(&mut self, flows: &mut Flows<(), Time>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<(), Time>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<(), Time>, f: FlowId, _: Sent) {
        self.serving = Some(f);
    }
}

impl QueueHooks for Edf {}
impl MediumHooks for Edf {}

impl Guarantees for Edf {
    /// A packet's deadline does not depend on the packets before it, so drops break no guarantee.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::NoFlow
    }

    /// Let `d_i` be the deadline of flow `i`, and `min d` the shortest of all. A packet of any flow
    /// that arrives more than `d_i - min d` after a packet of flow `i` has a later deadline. So if
    /// the packet of flow `i` still waits `d_i - min d` after its arrival, all packets that go
    /// before it are in the queues by then, and the queues are limited. If the link can send all
    /// full queues within the shortest deadline, every deadline is kept. No flow is guaranteed a
    /// rate: a flow with short deadlines may take the whole link.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let own = self.deadlines[f.index()];
        let shortest = self.deadlines.iter().copied().min().unwrap_or(own);
        Ok(Guarantee {
            rate: Rate(0),
            latency: self.largest,
            rate_formula: "none: the flow with the earliest deadlines gets the most",
            delay: Bound {
                delay: own.saturating_sub(shortest) + self.full_queues,
                formula: "d - min d + sum B/C",
                condition: "packets that found room",
            },
            others: vec![Bound {
                delay: own,
                formula: "d",
                condition: "all flows' arrivals A_j meet sum A_j(t - d_j) + L <= C t for every t",
            }],
        })
    }

    /// A packet of any later deadline may be on the wire.
    fn precedence(&self, f: FlowId) -> Precedence {
        let own = self.deadlines[f.index()];
        let is_later = self.deadlines.iter().any(|&deadline| deadline > own);
        Precedence {
            once: if is_later { self.packet.into() } else { 0 },
            deadline: Some(own),
            ..Precedence::default()
        }
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{THREE_FLOWS, order_together, setup, time, values};

    #[test]
    fn three_flows_of_different_packets() {
        let setup = setup(4, [20, 12, 6].map(|us| values([("deadline", time(us))])));
        let sent = order_together(&setup, Edf::new, THREE_FLOWS);
        assert_eq!(sent, "B1@4 C1@7 C2@10 B2@11 B3@14 A1@16 A2@18 A3@20 A4@22");
    }
}
