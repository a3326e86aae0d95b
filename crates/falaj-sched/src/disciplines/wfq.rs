//! Weighted fair queueing, also called PGPS. Packets leave in the order in which the fluid server
//! would finish them.
//!
//! Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm" (1989);
//! Parekh and Gallager (1993). Packets are stamped at their arrival, because the finish depends on
//! the fluid server's virtual time at that instant. Virtual time is the exact one of
//! [`gps`](crate::mechanisms::gps).

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, DropImpact, Guarantee, Guarantees, RateCondition, ServiceLimits, Settling,
};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::gps::reference::ReferenceFluid;
use crate::mechanisms::proportion::by_fluid;
use crate::mechanisms::substitute_arrivals::SubstituteTimes;
use crate::mechanisms::timestamp::FlowTimestamps;
use crate::mechanisms::weights::{Shares, Virtual, WEIGHT};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "wfq",
    doc: "weighted fair queueing (PGPS): packets go in the order in which fluid sharing by weight \
          would finish them",
    source: "Demers, Keshav and Shenker 1989; Parekh and Gallager 1993",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Parekh and Gallager 1993",
    aliases: &["weighted fair queueing", "pgps", "packetized gps"],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    ..Manifest::PLAIN
};

/// Weighted fair queueing.
#[derive(Debug, Clone)]
pub struct Wfq {
    shares: Shares,
    fluid: ReferenceFluid,
    /// Finish tags of the heads.
    heads: Tournament<Virtual>,
    substitutes: SubstituteTimes<Virtual>,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct WfqFlow {
    /// Virtual start and finish times of the flow's packets.
    stamps: FlowTimestamps,
    /// Length of the head.
    head: u32,
}

impl Wfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Wfq, ConfigErrors> {
        let shares = Shares::new(setup, "weighted fair queueing")?;
        Ok(Wfq {
            fluid: ReferenceFluid::new(&shares),
            heads: Tournament::new(shares.flows()),
            substitutes: SubstituteTimes::new(setup),
            shares,
            serving: None,
        })
    }

    fn follow(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId) {
        match flows.head(f) {
            Some(bytes) => {
                let (came, length) = (
                    self.substitutes.effective_arrival(f, flows.head_tag(f)),
                    self.fluid.length(f, bytes),
                );
                let state = flows.state_mut(f);
                state.head = bytes;
                self.substitutes.set_head_time(f, state.stamps.start(came));
                self.heads.set(f, state.stamps.finish(came, length));
            }
            None => self.heads.remove(f),
        }
        if self.heads.is_empty() {
            self.fluid.run_empty();
        }
    }
}

impl Discipline for Wfq {
    type State = WfqFlow;
    /// Virtual time at the packet's arrival.
    type Tag = Virtual;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<WfqFlow, Virtual>) {}

    fn retag(&self, old: &mut Wfq, f: FlowId, tag: Virtual, now: Time) -> Virtual {
        self.fluid.retag(&mut old.fluid, f, tag, now)
    }

    /// The fluid server continues with the new weights, and queued packets get the tags that they
    /// have in this fluid server.
    fn migrate_from(&mut self, mut old: Wfq, flows: &mut Flows<WfqFlow, Virtual>, now: Time) {
        for f in old.shares.all() {
            flows.state_mut(f).stamps.map(|stamp| self.fluid.retag(&mut old.fluid, f, stamp, now));
        }
        self.fluid.migrate_from(old.fluid, now);
        self.serving = old.serving;
        for f in old.shares.all() {
            if flows.head(f).is_some() {
                self.follow(flows, f);
            }
        }
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        _: &mut Flows<WfqFlow, Virtual>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> Virtual {
        let gps = self.fluid.at(now);
        gps.arrive(f, bytes);
        gps.now()
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId, now: Time) {
        self.substitutes.ready(f, now);
        self.follow(flows, f);
    }

    /// Handles the departure of a head that the previous discipline sent.
    fn head_changed(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId, _: Time) {
        let state = flows.state_mut(f);
        self.fluid.gone(f, state.head);
        state.stamps.left(self.heads.tag(f).unwrap_or(0));
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<WfqFlow, Virtual>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.fluid.at(now);
            self.follow(flows, f);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId, sent: Sent) {
        self.fluid.take(f, sent);
        let (came, length) = (
            self.substitutes.effective_arrival(f, flows.head_tag(f)),
            self.fluid.length(f, sent.bytes),
        );
        flows.state_mut(f).stamps.sent(came, length);
        self.substitutes.taken(f, self.fluid.at(sent.start).now());
        self.serving = Some(f);
    }

    fn is_reusable(&self, _: &Flows<WfqFlow, Virtual>, f: FlowId, _: Time) -> bool {
        self.fluid.done(f)
    }
}

impl QueueHooks for Wfq {
    fn head_dropped(
        &mut self,
        flows: &mut Flows<WfqFlow, Virtual>,
        f: FlowId,
        bytes: u32,
        because: DropCause,
        now: Time,
    ) {
        self.substitutes.head_dropped(f, now);
        flows.state_mut(f).stamps.head_dropped(self.heads.tag(f).unwrap_or(0));
        self.fluid.forget(f, bytes, because, now);
        self.follow(flows, f);
    }

    fn dropped_behind_head(
        &mut self,
        _: &mut Flows<WfqFlow, Virtual>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) {
        self.substitutes.dropped_behind_head(f);
        self.fluid.forget(f, bytes, DropCause::BehindHead, now);
    }
}

impl MediumHooks for Wfq {
    fn retimed(&mut self, _: &mut Flows<WfqFlow, Virtual>, _: FlowId, end: Time, now: Time) {
        self.fluid.retimed(end, now);
    }
}

impl Guarantees for Wfq {
    /// A packet leaves at most `L/C` after the fluid server finishes it (Parekh and Gallager). The
    /// fluid server may still have bytes of the flow that the link has already sent; their number
    /// is the lag of the other flows, at most one packet for each. A packet that arrives then also
    /// waits for these bytes in the fluid server: this adds their service time to `B/r`.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let queue = self.shares.full_queue(f);
        let delay = Bound {
            delay: self.shares.own_time(queue.saturating_add(self.shares.one_of_each_other()), f)
                + self.shares.behind_fluid(),
            formula: "(B + (N - 1) L)/r + L/C",
            condition: "packets that found room",
        };
        Ok(self.shares.guarantee_by_fluid(f, delay))
    }

    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        by_fluid(&self.shares, f)
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(1)
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::Queued)
    }

    /// The fluid server may have served a part of a dropped packet, which the link never sends.
    /// Then the virtual time of the fluid server no longer matches the link's work.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanisms::gps::fluid::Fluid;
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, departures_together, order_together, packets, weights,
        without_instants,
    };

    /// Flows of 1/2, 1/4 and 1/4 of the link.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order_together(&weights(4, &[2, 1, 1]), Wfq::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 C1@9 A4@11 B1@15 B2@16 C2@19 B3@22");
    }

    /// The example of Bennett and Zhang 1996.
    #[test]
    fn one_flow_of_half_the_link_among_ten() {
        let setup = weights(1, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let sent = order_together(&setup, Wfq::new, &at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let expected = "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 A11";
        assert_eq!(without_instants(&sent), expected);
    }

    /// A behavior that WF2Q avoids: one flow sends the first ten of its eleven packets before the
    /// ten other flows send any.
    #[test]
    fn wfq_gets_ahead_of_the_fluid() {
        let setup = weights(1, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let packets = packets(&at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let mut fluid = Fluid::new(&setup).unwrap();
        for packet in &packets {
            fluid.arrive(packet.flow, packet.bytes, packet.arrival);
        }
        fluid.advance(Time(21_000));
        let (packet, sent) = departures_together(&setup, Wfq::new, &packets)[9];
        let number = packet.handle as usize;
        assert_eq!(sent.end, Time(10_000));
        assert_eq!(fluid.start(number), Some(Time(18_000)));
        assert_eq!(fluid.finish(number), Some(Time(20_000)));
    }
}
