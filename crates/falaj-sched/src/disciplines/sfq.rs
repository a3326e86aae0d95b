//! Start-time fair queueing.
//!
//! Goyal, Vin and Cheng, "Start-time fair queueing: a scheduling algorithm for integrated services
//! packet switching networks" (1996). A packet has the start tag
//! `S = max(F of the flow's previous packet, v)` and the finish tag `F = S + L/w`, where `v` is
//! virtual time, `L` the packet's length, and `w` the flow's weight. The packet with the smallest
//! start tag is sent first, and virtual time is the start tag of the packet in service. When all
//! packets are sent, virtual time becomes the largest finish tag so far.
//!
//! Packets get their tags when they become heads. The tags are the same as if they were assigned at
//! arrival. The reason: while a packet of the flow waits or is in service, `v` is not larger than
//! its start tag, and the flow's next packet starts at its finish tag.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, RateCondition, ServiceLimits, Settling,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::proportion::by_tags;
use crate::mechanisms::weights::{ROUNDING, Shares, Virtual, WEIGHT, retagged};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "sfq",
    doc: "start-time fair queueing: the smallest start tag goes first; fair on links whose rate \
          varies, too",
    source: "Goyal, Vin and Cheng 1996",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Goyal, Vin and Cheng 1996",
    aliases: &["start-time fair queueing"],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "phi sum of the others' L_j + (1 - phi)(L_i - l_i)",
        condition: None,
        // While virtual time rises by `v`, another flow `j` sends at most `r_j v + L_j`. The flow
        // itself sends `r_i v` up to one of its own departures, minus the amount by which its
        // previous packet is longer than the next packet.
        bytes: |f| f.phi * (f.all - f.own) + (1.0 - f.phi) * f.spread + ROUNDED,
    }),
    ..Manifest::PLAIN
};

/// Start-time fair queueing.
#[derive(Debug, Clone)]
pub struct Sfq {
    shares: Shares,
    /// For each flow, the maximum number of bytes that can be before a packet in the queue.
    ahead: Vec<u64>,
    /// Flows with packets, ordered by the start tags of their heads.
    heads: Tournament<Virtual>,
    /// Virtual time: the start tag of the packet in service; the largest finish tag when all
    /// packets are sent.
    now: Virtual,
    /// The largest finish tag so far.
    latest: Virtual,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(8))]
pub struct SfqFlow {
    /// Finish tag of the flow's last packet whose transmission has begun.
    finish: Virtual,
    slope: u64,
}

impl Sfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Sfq, ConfigErrors> {
        let shares = Shares::new(setup, "start-time fair queueing")?;
        let ahead = setup.flows.iter().map(|f| match f.limit {
            Limit::Packets(n) => u64::from(n - 1) * shares.largest(),
            Limit::Bytes(n) => n - 1,
        });
        Ok(Sfq {
            ahead: ahead.collect(),
            heads: Tournament::new(shares.flows()),
            shares,
            now: 0,
            latest: 0,
            serving: None,
        })
    }

    fn follow(&mut self, flows: &mut Flows<SfqFlow>, f: FlowId) {
        match flows.head(f) {
            Some(_) => self.heads.set(f, flows.state(f).finish),
            None => self.heads.remove(f),
        }
        if self.heads.is_empty() {
            self.now = self.latest;
        }
    }
}

impl Discipline for Sfq {
    type State = SfqFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<SfqFlow>) {
        for f in self.shares.all() {
            flows.state_mut(f).slope = self.shares.slope(f);
        }
    }

    /// Virtual time continues, and the distance by which a flow is ahead of it stays the same in
    /// bytes. If the distance stayed the same in virtual time, a flow might have to wait for an
    /// unlimited number of packets of other flows.
    fn migrate_from(&mut self, old: Sfq, flows: &mut Flows<SfqFlow>, _: Time) {
        (self.now, self.latest, self.serving) = (old.now, old.now, old.serving);
        for f in old.shares.all() {
            let state = flows.state_mut(f);
            let (from, to) = (state.slope.into(), self.shares.slope(f).into());
            let by_weight = |tag| retagged(tag, old.now, from, to);
            state.finish = by_weight(state.finish);
            self.latest = self.latest.max(state.finish);
            if let Some(start) = old.heads.tag(f) {
                self.heads.set(f, by_weight(start));
            }
        }
        self.start(flows);
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<SfqFlow>, f: FlowId, _: Time) {
        self.heads.set(f, flows.state(f).finish.max(self.now));
    }

    /// A packet that was removed without transmission is not charged.
    fn head_changed(&mut self, flows: &mut Flows<SfqFlow>, f: FlowId, _: Time) {
        let state = flows.state_mut(f);
        state.finish = state.finish.max(self.heads.tag(f).unwrap_or(self.now));
        self.latest = self.latest.max(state.finish);
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<SfqFlow>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<SfqFlow>, f: FlowId, sent: Sent) {
        self.now = self.heads.tag(f).unwrap_or(self.now);
        let state = flows.state_mut(f);
        state.finish = self.now + Virtual::from(sent.bytes) * Virtual::from(state.slope);
        self.latest = self.latest.max(state.finish);
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<SfqFlow>, f: FlowId, _: Time) -> bool {
        flows.state(f).finish <= self.now
    }
}

impl QueueHooks for Sfq {}
impl MediumHooks for Sfq {}

impl Guarantees for Sfq {
    /// A head starts at most one packet of its flow after `v`. So a packet with `A` bytes before it
    /// starts at `v + (L + A)/w` at the latest. Each other flow `j` has at most `w_j (L + A)/w`
    /// bytes and a packet that start no later. For a flow that keeps to its rate, this is Goyal's
    /// bound, counted from the expected arrival time.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let others = self.shares.link().airtime_of_many(self.shares.one_of_each_other()) + ROUNDING;
        let delay = Bound {
            delay: self
                .shares
                .own_time(self.ahead[f.index()].saturating_add(self.shares.largest()), f)
                + others,
            formula: "(A + L)/r + (N - 1) L/C, A = the queue without its last packet",
            condition: "packets that found room",
        };
        Ok(self.shares.guarantee(f, others, delay, Vec::new()))
    }

    /// Let a backlog begin when virtual time is `v`. The previous packet of the flow has started by
    /// `v`, so the first packet starts at `v + L/w` at the latest, and the packet that ends with
    /// byte `S` at `v + (L + S)/w`. Packets are sent in the order of their starts, so those of flow
    /// `j` that are sent from then on before this packet, or are on the wire, start from `v` to
    /// that time. A packet of `l` bytes is `l/w_j` long, and the next one starts at its end or
    /// later. So all but the last have at most `w_j (L + S)/w` bytes together.
    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        by_tags(&self.shares, f, self.shares.largest())
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::OwesNothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{
        THREE_FLOWS, at_once, departures, guarantee, longest_delay, order_together, packet,
        weights, without_instants,
    };
    use crate::units::time::Span;

    /// The flows' shares are 1/2, 1/4 and 1/4 of the link.
    #[test]
    fn three_flows_of_different_packets() {
        let sent = order_together(&weights(4, &[2, 1, 1]), Sfq::new, THREE_FLOWS);
        assert_eq!(sent, "A1@2 B1@6 C1@9 A2@11 A3@13 A4@15 C2@18 B2@19 B3@22");
    }

    /// The example of Bennett and Zhang 1996.
    #[test]
    fn one_flow_of_half_the_link_among_ten() {
        let setup = weights(1, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let sent = order_together(&setup, Sfq::new, &at_once("AAAAAAAAAAABCDEFGHIJK", 1));
        let expected = "A1 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11";
        assert_eq!(without_instants(&sent), expected);
    }

    /// The worst case is a packet that arrives when the previous packet of its flow has left, while
    /// each other flow has two packets that start no later.
    #[test]
    fn sfq_reaches_its_bound() {
        let (last, packet_time) = (9, Span::from_micros(4));
        let mut setup = weights(4, &[1; 10]);
        setup.flows[last as usize].limit = Limit::Packets(1);
        let mut packets = Vec::from([packet(Time::ZERO, last, 4)]);
        packets.extend((0..2 * last).map(|k| packet(Time(1), k / 2, 4)));
        packets.push(packet(Time::ZERO + packet_time, last, 4));
        let sent = departures(&setup, Sfq::new, &packets);
        let longest = sent.iter().map(|(packet, sent)| sent.end - packet.arrival).max();
        assert_eq!(longest, Some(packet_time * 19));
        assert_eq!(longest_delay(&sent, last), packet_time * 19);
        assert_eq!(guarantee(&setup, Sfq::new, last).delay.delay, packet_time * 19 + ROUNDING);
    }
}
