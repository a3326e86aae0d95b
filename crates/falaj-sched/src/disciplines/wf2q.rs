//! Worst-case fair weighted fair queueing, WF2Q.
//!
//! Bennett and Zhang, "WF2Q: worst-case fair weighted fair queueing" (1996). The order is that of
//! weighted fair queueing, but only among packets that the fluid server has started (start `S` not
//! after virtual time `V`). Thus no flow gets ahead of the fluid server by more than a part of a
//! packet.

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
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::gps::reference::ReferenceFluid;
use crate::mechanisms::proportion::by_fluid;
use crate::mechanisms::substitute_arrivals::SubstituteTimes;
use crate::mechanisms::timestamp::FlowTimestamps;
use crate::mechanisms::weights::{ROUNDING, Shares, Virtual, WEIGHT};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "wf2q",
    doc: "worst-case fair weighted fair queueing: as `wfq`, but only among packets that fluid \
          sharing has already started",
    source: "Bennett and Zhang 1996",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Parekh and Gallager 1993; Bennett and Zhang 1996",
    aliases: &["worst-case fair weighted fair queueing"],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "L_i + (L - L_i) phi",
        condition: Some("while the fluid server too has packets of the flow"),
        bytes: |f| f.own + (f.most - f.own) * f.phi + ROUNDED,
    }),
    ..Manifest::PLAIN
};

/// Worst-case fair weighted fair queueing.
#[derive(Debug, Clone)]
pub struct Wf2q {
    shares: Shares,
    fluid: ReferenceFluid,
    /// Heads that the fluid server has started, by virtual finish time.
    started: Tournament<Virtual>,
    /// The other heads, by virtual start time.
    early: Tournament<Virtual>,
    substitutes: SubstituteTimes<Virtual>,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct Wf2qFlow {
    /// Virtual start and finish times of the flow's packets.
    stamps: FlowTimestamps,
    /// Length of the head.
    head: u32,
}

impl Wf2q {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Wf2q, ConfigErrors> {
        let shares = Shares::new(setup, "worst-case fair weighted fair queueing")?;
        let (started, early) = (Tournament::new(shares.flows()), Tournament::new(shares.flows()));
        Ok(Wf2q {
            fluid: ReferenceFluid::new(&shares),
            started,
            early,
            substitutes: SubstituteTimes::new(setup),
            shares,
            serving: None,
        })
    }

    /// Virtual finish time of the head, which is in `started` or in `early`.
    fn finish(&self, flows: &Flows<Wf2qFlow, Virtual>, f: FlowId) -> Virtual {
        let of_early =
            |start: Virtual| start.saturating_add(self.fluid.length(f, flows.state(f).head));
        self.started.tag(f).or(self.early.tag(f).map(of_early)).unwrap_or(0)
    }

    fn follow(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, now: Time) {
        self.started.remove(f);
        self.early.remove(f);
        if let Some(bytes) = flows.head(f) {
            let (came, gps) =
                (self.substitutes.effective_arrival(f, flows.head_tag(f)), self.fluid.at(now));
            let state = flows.state_mut(f);
            state.head = bytes;
            let start = state.stamps.start(came);
            self.substitutes.set_head_time(f, start);
            if start <= gps.now() {
                self.started.set(f, state.stamps.finish(came, gps.length(f, bytes)));
            } else {
                self.early.set(f, start);
            }
        }
        if self.started.is_empty() && self.early.is_empty() {
            self.fluid.run_empty();
        }
    }
}

impl Discipline for Wf2q {
    type State = Wf2qFlow;
    /// Virtual time at the packet's arrival.
    type Tag = Virtual;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<Wf2qFlow, Virtual>) {}

    fn retag(&self, old: &mut Wf2q, f: FlowId, tag: Virtual, now: Time) -> Virtual {
        self.fluid.retag(&mut old.fluid, f, tag, now)
    }

    /// The fluid server continues with the new weights, and queued packets get the tags that they
    /// have in this fluid server.
    fn migrate_from(&mut self, mut old: Wf2q, flows: &mut Flows<Wf2qFlow, Virtual>, now: Time) {
        for f in old.shares.all() {
            flows.state_mut(f).stamps.map(|stamp| self.fluid.retag(&mut old.fluid, f, stamp, now));
        }
        self.fluid.migrate_from(old.fluid, now);
        self.serving = old.serving;
        for f in old.shares.all() {
            if flows.head(f).is_some() {
                self.follow(flows, f, now);
            }
        }
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        _: &mut Flows<Wf2qFlow, Virtual>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> Virtual {
        let gps = self.fluid.at(now);
        gps.arrive(f, bytes);
        gps.now()
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, now: Time) {
        self.substitutes.ready(f, now);
        self.follow(flows, f, now);
    }

    /// Handles the departure of a head that the previous discipline sent.
    fn head_changed(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, now: Time) {
        let finish = self.finish(flows, f);
        let state = flows.state_mut(f);
        self.fluid.gone(f, state.head);
        state.stamps.left(finish);
        self.follow(flows, f, now);
    }

    /// While packets are queued, the fluid server has started at least one of the heads, since the
    /// link has served no more bytes than the fluid server. After a change of weights, rounding may
    /// delay that start slightly. In this case the head that the fluid server starts first is next.
    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f, now);
        }
        let virtual_now = self.fluid.at(now).now();
        while let Some((_, f)) = self.early.first().filter(|&(start, _)| start <= virtual_now) {
            self.early.remove(f);
            let length = self.fluid.length(f, flows.state(f).head);
            let came = self.substitutes.effective_arrival(f, flows.head_tag(f));
            self.started.set(f, flows.state(f).stamps.finish(came, length));
        }
        match self.started.first().or(self.early.first()) {
            Some((_, f)) => Decision::Serve(f),
            None => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, sent: Sent) {
        self.fluid.take(f, sent);
        let (came, length) = (
            self.substitutes.effective_arrival(f, flows.head_tag(f)),
            self.fluid.length(f, sent.bytes),
        );
        flows.state_mut(f).stamps.sent(came, length);
        self.substitutes.taken(f, self.fluid.at(sent.start).now());
        self.serving = Some(f);
    }

    fn is_reusable(&self, _: &Flows<Wf2qFlow, Virtual>, f: FlowId, _: Time) -> bool {
        self.fluid.done(f)
    }
}

impl QueueHooks for Wf2q {
    fn head_dropped(
        &mut self,
        flows: &mut Flows<Wf2qFlow, Virtual>,
        f: FlowId,
        bytes: u32,
        because: DropCause,
        now: Time,
    ) {
        let finish = self.finish(flows, f);
        self.substitutes.head_dropped(f, now);
        flows.state_mut(f).stamps.head_dropped(finish);
        self.fluid.forget(f, bytes, because, now);
        self.follow(flows, f, now);
    }

    fn dropped_behind_head(
        &mut self,
        _: &mut Flows<Wf2qFlow, Virtual>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) {
        self.substitutes.dropped_behind_head(f);
        self.fluid.forget(f, bytes, DropCause::BehindHead, now);
    }
}

impl MediumHooks for Wf2q {
    fn retimed(&mut self, _: &mut Flows<Wf2qFlow, Virtual>, _: FlowId, end: Time, now: Time) {
        self.fluid.retimed(end, now);
    }
}

impl Guarantees for Wf2q {
    /// A packet leaves at most `L/C` after the fluid server finishes it. When a packet has left,
    /// the fluid server has at most `(1 - r/C) L` of that packet still to serve.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let queue = self.shares.full_queue(f);
        let delay = Bound {
            delay: self.shares.own_time(queue.saturating_add(self.shares.largest()), f) + ROUNDING,
            formula: "(B + L)/r",
            condition: "packets that found room",
        };
        Ok(self.shares.guarantee_by_fluid(f, delay))
    }

    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        by_fluid(&self.shares, f)
    }

    fn settling(&self) -> Settling {
        Settling::PacketOfEach
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::Queued)
    }

    /// The fluid server may have served a part of a dropped packet, which the link never sends.
    /// Then the fluid server's virtual time no longer matches the link's work.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, order_together, weights, without_instants,
    };

    /// Flows of 1/2, 1/4 and 1/4 of the link.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order_together(&weights(4, &[2, 1, 1]), Wf2q::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 C1@5 A2@7 B1@11 A3@13 A4@15 C2@18 B2@19 B3@22");
    }

    /// The example of Bennett and Zhang 1996.
    #[test]
    fn one_flow_of_half_the_link_among_ten() {
        let setup = weights(1, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let sent = order_together(&setup, Wf2q::new, &at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let expected = "A1 B1 A2 C1 A3 D1 A4 E1 A5 F1 A6 G1 A7 H1 A8 I1 A9 J1 A10 K1 A11";
        assert_eq!(without_instants(&sent), expected);
    }
}
