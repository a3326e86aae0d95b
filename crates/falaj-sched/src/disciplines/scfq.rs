//! Self-clocked fair queueing.
//!
//! Golestani, "A self-clocked fair queueing scheme for broadband applications" (1994). Virtual time
//! is the finish tag of the packet in service; a packet's finish tag is
//! `F = max(F of the flow's previous packet, v) + L/w`, where `v` is virtual time, `L` the packet's
//! length, and `w` the flow's weight. The packet with the smallest tag is sent first.
//!
//! Packets get their tags when they become heads. The tags are the same as if they were assigned at
//! arrival. The reason: while a packet of the flow waits or is in service, `v` is not larger than
//! its tag, so the flow's next packet starts from that tag. Tags need not be reset to zero when all
//! packets are sent: the last `v` is then the largest of all tags, and every flow starts from it.
//!
//! This holds if every packet is sent. If an AQM drops a head, the next packet starts at the same
//! tag, and may have a finish tag below `v`. Virtual time never goes back: `v` is the largest tag
//! of the packets that were in service. So a newly backlogged flow gets no service for a time that
//! is over.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Bound, Guarantee, Guarantees, ServiceLimits, Settling};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::proportion::by_tags;
use crate::mechanisms::weights::{ROUNDING, Shares, Virtual, WEIGHT, retagged, shifted};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "scfq",
    doc: "self-clocked fair queueing: the smallest finish tag goes first, and virtual time is the \
          tag of the packet in service",
    source: "Golestani 1994",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Golestani 1994",
    aliases: &["self-clocked fair queueing"],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "phi sum of the others' L_j",
        condition: None,
        // While virtual time rises by `v`, another flow `j` sends at most `r_j v + L_j`. The flow
        // itself sends `r_i v` up to one of its own departures.
        bytes: |f| f.phi * (f.all - f.own) + ROUNDED,
    }),
    ..Manifest::PLAIN
};

/// Self-clocked fair queueing.
#[derive(Debug, Clone)]
pub struct Scfq {
    shares: Shares,
    /// Flows with packets, ordered by the finish tags of their heads.
    heads: Tournament<Virtual>,
    /// The largest finish tag of the packets that were in service.
    now: Virtual,
    /// The flow of the packet in service or sent last, until the flow's next head is examined.
    serving: Option<FlowId>,
    /// The finish tag of that packet.
    finish: Virtual,
}

/// State of a flow: 12 bytes, so that it fits in one cache line with its queue and first packet.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub struct ScfqFlow {
    slope: u64,
    /// Length of the head, in bytes.
    head: u32,
}

impl ScfqFlow {
    /// Virtual time from the start to the finish of the head.
    fn lasts(self) -> Virtual {
        Virtual::from(self.head) * Virtual::from(self.slope)
    }
}

impl Scfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Scfq, ConfigErrors> {
        let shares = Shares::new(setup, "self-clocked fair queueing")?;
        Ok(Scfq {
            heads: Tournament::new(shares.flows()),
            shares,
            now: 0,
            serving: None,
            finish: 0,
        })
    }

    /// Updates the order when the flow's head has changed: the new head, if any, starts at the tag
    /// `start`.
    #[inline(always)]
    fn follow(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, start: Virtual) {
        let Some(bytes) = flows.head(f) else { return self.heads.remove(f) };
        let state = flows.state_mut(f);
        state.head = bytes;
        self.heads.set(f, start + state.lasts());
    }
}

impl Discipline for Scfq {
    type State = ScfqFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<ScfqFlow>) {
        for f in self.shares.all() {
            flows.state_mut(f).slope = self.shares.slope(f);
        }
    }

    /// Virtual time continues. The distance from virtual time to a head's tag is scaled to the new
    /// weight, so that it stays the same in bytes. Without this, a head with a tag for a very small
    /// weight would have to wait for an unlimited number of packets of other flows.
    fn migrate_from(&mut self, old: Scfq, flows: &mut Flows<ScfqFlow>, _: Time) {
        (self.now, self.serving, self.finish) = (old.now, old.serving, old.finish);
        for f in old.shares.all() {
            let (from, to) = (flows.state(f).slope.into(), self.shares.slope(f).into());
            if let Some(finish) = old.heads.tag(f) {
                self.heads.set(f, retagged(finish, self.now, from, to));
            }
            if self.serving == Some(f) {
                self.finish = shifted(self.finish, self.now, from, to);
            }
        }
        self.start(flows);
    }

    /// The flow starts at `v`, which is not below the tag of any packet that was sent.
    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Time) {
        self.follow(flows, f, self.now);
    }

    /// A packet that was removed without transmission is not charged.
    fn head_changed(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Time) {
        let start = self
            .heads
            .tag(f)
            .map_or(self.now, |finish| finish.saturating_sub(flows.state(f).lasts()));
        self.follow(flows, f, start);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ScfqFlow>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f, self.finish);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<ScfqFlow>, f: FlowId, _: Sent) {
        self.finish = self.heads.tag(f).unwrap_or(self.now);
        self.now = self.now.max(self.finish);
        self.serving = Some(f);
    }
}

impl QueueHooks for Scfq {}
impl MediumHooks for Scfq {}

impl Guarantees for Scfq {
    /// A head starts at `v` at the latest, so a packet that fills its queue to `B` bytes has a tag
    /// of at most `v + B/w`. Between `v` and that tag, each other flow `j` sends at most `w_j B/w`
    /// bytes and a packet. Golestani's bound for a flow that keeps to its rate is the same.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let others = self.shares.link().airtime_of_many(self.shares.one_of_each_other()) + ROUNDING;
        let delay = Bound {
            delay: self.shares.own_time(self.shares.full_queue(f), f) + others,
            formula: "B/r + (N - 1) L/C",
            condition: "packets that found room",
        };
        Ok(self.shares.guarantee(f, others, delay, Vec::new()))
    }

    /// Let a backlog begin when virtual time is `v`. The packet that ends with its byte `S` has the
    /// tag `v + S/w`. Packets are sent in the order of their tags, so those of flow `j` that are
    /// sent from then on before this packet, or are on the wire, have tags from `v` to `v + S/w`.
    /// A packet of `L` bytes has a tag `L/w_j` after that of the previous one. So all but the first
    /// have at most `w_j S/w` bytes together. A drop does not change the start of the next packet.
    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        by_tags(&self.shares, f, 0)
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disciplines::wfq::Wfq;
    use crate::queues::queue::Limit;
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, departures_together, guarantee, longest_delay, order_together,
        packet, weights, without_instants,
    };
    use crate::units::time::Span;

    /// The flows' shares are 1/2, 1/4 and 1/4 of the link.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order_together(&weights(4, &[2, 1, 1]), Scfq::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 A2@4 A3@6 A4@8 B1@12 C1@15 B2@16 C2@19 B3@22");
    }

    /// The example of Bennett and Zhang 1996.
    #[test]
    fn one_flow_of_half_the_link_among_ten() {
        let setup = weights(1, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let sent = order_together(&setup, Scfq::new, &at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let expected = "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 A11";
        assert_eq!(without_instants(&sent), expected);
    }

    /// Reaches the bound: a packet that arrives just after virtual time has advanced waits for two
    /// packets of each other flow; in WFQ it would wait for one.
    #[test]
    fn scfq_lags_as_far_as_its_bound() {
        let (last, packet_time) = (9, Span::from_micros(4));
        let mut setup = weights(4, &[1; 10]);
        setup.flows[last as usize].limit = Limit::Packets(1);
        let others = (0..2 * last).map(|k| packet(Time::ZERO, k / 2, 4));
        let packets: Vec<_> = others.chain([packet(Time(1), last, 4)]).collect();
        // The delay is that of two packets of each of the nine other flows and the flow's own
        // packet, minus a nanosecond. The bound includes two nanoseconds for rounding.
        let delay = longest_delay(&departures_together(&setup, Scfq::new, &packets), last);
        assert_eq!(delay, packet_time * 19 - Span(1));
        assert_eq!(guarantee(&setup, Scfq::new, last).delay.delay, packet_time * 19 + ROUNDING);
        let delay = longest_delay(&departures_together(&setup, Wfq::new, &packets), last);
        assert_eq!(delay, packet_time * 10 - Span(1));
    }
}
