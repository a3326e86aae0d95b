//! Starting potential-based fair queueing, a rate-proportional server.
//!
//! Stiliadis and Varma, "Rate-proportional servers: a design methodology for fair queueing
//! algorithms" and "Efficient fair queueing algorithms for packet-switched networks" (1998). The
//! system's potential `P` grows with real time, and after each departure it is raised to the least
//! start among the heads. At its arrival, a packet gets the start
//! `S = max(F of the flow's previous packet, P)` and the finish `F = S + L/r`, where `L` is its
//! length and `r` the flow's rate. The packet with the smallest finish is sent first.
//!
//! The `P` of a packet's arrival must be stored for its start and finish. The reason: between two
//! departures, `P` may become larger than the finish of a packet that still waits. If the flow's
//! next packet arrives at that time, it starts at `P`. When all packets are sent, `P` becomes the
//! largest finish so far. This has the same effect as the papers' reset to zero, without a loop
//! over all flows.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Bound, DropImpact, Guarantee, Guarantees, RateCondition};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::substitute_arrivals::SubstituteTimes;
use crate::mechanisms::timestamp::FlowTimestamps;
use crate::mechanisms::weights::{Instant, ORIGIN, Shares, WEIGHT, duration, shifted};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "spfq",
    doc: "starting potential-based fair queueing: the delay bound of `wfq`, without the cost of \
          simulating a fluid server",
    source: "Stiliadis and Varma 1998",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Stiliadis and Varma 1998",
    aliases: &["starting potential fair queueing"],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    ..Manifest::PLAIN
};

/// Starting potential-based fair queueing.
#[derive(Debug, Clone)]
pub struct Spfq {
    shares: Shares,
    /// Potential per byte of each flow.
    paces: Vec<Instant>,
    /// Flows with packets, ordered by the finishes of their heads.
    finishes: Tournament<Instant>,
    /// Flows with packets, ordered by the starts of their heads.
    starts: Tournament<Instant>,
    substitutes: SubstituteTimes<Instant>,
    /// The system's potential at the time `at`.
    potential: Instant,
    at: Time,
    /// The largest finish so far.
    latest: Instant,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct SpfqFlow {
    /// Starts and finishes of the flow's packets.
    stamps: FlowTimestamps,
}

impl Spfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Spfq, ConfigErrors> {
        let shares = Shares::new(setup, "starting potential-based fair queueing")?;
        Ok(Spfq {
            paces: shares.all().map(|f| shares.pace(f)).collect(),
            finishes: Tournament::new(shares.flows()),
            starts: Tournament::new(shares.flows()),
            substitutes: SubstituteTimes::new(setup),
            shares,
            potential: ORIGIN,
            at: Time::ZERO,
            latest: ORIGIN,
            serving: None,
        })
    }

    fn potential(&self, now: Time) -> Instant {
        self.potential.saturating_add(duration(now.since(self.at)))
    }

    #[inline]
    fn length(&self, f: FlowId, bytes: u32) -> Instant {
        Instant::from(bytes) * self.paces[f.index()]
    }

    fn offer(&mut self, flows: &Flows<SpfqFlow, Instant>, f: FlowId) {
        match flows.head(f) {
            Some(bytes) => {
                let (stamps, came) = (
                    &flows.state(f).stamps,
                    self.substitutes.effective_arrival(f, flows.head_tag(f)),
                );
                self.finishes.set(f, stamps.finish(came, self.length(f, bytes)));
                self.starts.set(f, stamps.start(came));
                self.substitutes.set_head_time(f, stamps.start(came));
            }
            None => {
                self.finishes.remove(f);
                self.starts.remove(f);
            }
        }
    }

    /// Updates the state after a packet of `f` has left.
    fn left(&mut self, flows: &Flows<SpfqFlow, Instant>, f: FlowId, now: Time) {
        self.offer(flows, f);
        let least = self.starts.first().map_or(self.latest, |(start, _)| start);
        (self.potential, self.at) = (self.potential(now).max(least), now);
    }
}

impl Discipline for Spfq {
    type State = SpfqFlow;
    /// The potential at the packet's arrival.
    type Tag = Instant;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<SpfqFlow, Instant>) {}

    fn retag(&self, old: &mut Spfq, f: FlowId, tag: Instant, now: Time) -> Instant {
        shifted(tag, old.potential(now), old.paces[f.index()], self.paces[f.index()])
    }

    /// The potential continues; the distance by which flows are ahead of it stays the same in
    /// bytes.
    fn migrate_from(&mut self, mut old: Spfq, flows: &mut Flows<SpfqFlow, Instant>, now: Time) {
        (self.potential, self.at, self.serving) = (old.potential(now), now, old.serving);
        self.latest = self.potential;
        for f in old.shares.all() {
            flows.state_mut(f).stamps.map(|stamp| self.retag(&mut old, f, stamp, now));
            self.latest = self.latest.max(flows.state(f).stamps.start(0));
            self.offer(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        _: &mut Flows<SpfqFlow, Instant>,
        _: FlowId,
        _: u32,
        now: Time,
    ) -> Instant {
        self.potential(now)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<SpfqFlow, Instant>, f: FlowId, now: Time) {
        self.substitutes.ready(f, now);
        self.offer(flows, f);
    }

    /// The previous head left without being sent by this discipline, for example at a change of
    /// discipline.
    fn head_changed(&mut self, flows: &mut Flows<SpfqFlow, Instant>, f: FlowId, now: Time) {
        if let Some(finish) = self.finishes.tag(f) {
            flows.state_mut(f).stamps.left(finish);
            self.latest = self.latest.max(finish);
        }
        self.left(flows, f, now);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<SpfqFlow, Instant>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.left(flows, f, now);
        }
        self.finishes.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<SpfqFlow, Instant>, f: FlowId, sent: Sent) {
        let (came, length) =
            (self.substitutes.effective_arrival(f, flows.head_tag(f)), self.length(f, sent.bytes));
        self.substitutes.taken(f, self.potential(sent.start));
        self.latest = self.latest.max(flows.state_mut(f).stamps.sent(came, length));
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<SpfqFlow, Instant>, f: FlowId, now: Time) -> bool {
        flows.state(f).stamps.is_over(self.potential(now))
    }
}

impl QueueHooks for Spfq {
    fn head_dropped(
        &mut self,
        flows: &mut Flows<SpfqFlow, Instant>,
        f: FlowId,
        _: u32,
        _: DropCause,
        now: Time,
    ) {
        self.substitutes.head_dropped(f, now);
        if let Some(finish) = self.finishes.tag(f) {
            flows.state_mut(f).stamps.head_dropped(finish);
        }
        self.left(flows, f, now);
    }

    fn dropped_behind_head(
        &mut self,
        _: &mut Flows<SpfqFlow, Instant>,
        f: FlowId,
        _: u32,
        _: Time,
    ) {
        self.substitutes.dropped_behind_head(f);
    }
}

impl MediumHooks for Spfq {}

impl Guarantees for Spfq {
    /// The potential reaches the finish `F` of a packet at most `F - P` after its arrival, and the
    /// packet leaves at most `L/C` later (largest packet over the link's rate). Each packet that
    /// was served had the smallest finish. So `P` is less than such a finish by at most the longest
    /// time `L/r_j` of a packet at its flow's rate, and a flow is ahead of `P` by at most that
    /// time.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let queue = self.shares.own_time(self.shares.full_queue(f), f);
        let delay = Bound {
            delay: queue + self.shares.slowest_packet() + self.shares.behind_fluid(),
            formula: "B/r + max over all of L/r_j + L/C",
            condition: "packets that found room",
        };
        Ok(self.shares.guarantee_by_fluid(f, delay))
    }

    /// Drops break no guarantee, because a dropped packet does not count in the starts and finishes
    /// of other packets.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::NoFlow
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::Queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, order_together, weights, without_instants,
    };

    /// The flows' shares are 1/2, 1/4 and 1/4 of the link.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order_together(&weights(4, &[2, 1, 1]), Spfq::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 C1@9 A4@11 B1@15 B2@16 C2@19 B3@22");
    }

    /// The example of Bennett and Zhang 1996.
    #[test]
    fn one_flow_of_half_the_link_among_ten() {
        let setup = weights(1, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let sent = order_together(&setup, Spfq::new, &at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let expected = "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 A11";
        assert_eq!(without_instants(&sent), expected);
    }
}
