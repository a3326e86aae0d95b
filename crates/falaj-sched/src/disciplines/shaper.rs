//! A token bucket for each flow: in any time `t` the flow sends at most `burst + rate t`.
//!
//! Packets are held until their tokens are available, even on a free link. Then they are sent in
//! the order in which they became eligible. Eligibility times are nominal: a head is eligible when
//! its bucket has tokens for its length, and no earlier than the previous packet. So a delay by
//! other flows costs no tokens. (If the bucket were charged at the actual departure, it would
//! overflow while the packet waits for other flows, and the flow would get less than its rate.)
//!
//! The token bucket is Turner's leaky bucket as a meter (1986); the order is that of Linux's `fq`.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Bound, Guarantee, Guarantees, full_queue, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::bucket::{BURST, Bucket, RATE, begun, buckets, ids, sums};
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::weights::{Instant, ROUNDING, instant};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "shaper",
    doc: "a token bucket for each flow: packets are held until the bucket has their tokens, even \
          on an idle link",
    source: "Turner 1986; order as in Linux's fq",
    cost: "O(log N)",
    guarantee: "rate and delay, if the sum of the rates fits on the link",
    guarantee_source: "own derivation",
    purposes: &[Purpose::Cap],
    aliases: &[
        "tbf",
        "token bucket filter",
        "traffic shaper",
        "shaping",
        "rate limit",
        "rate limiter",
    ],
    example: Example { scheduler: "", calls: "rate = \"20mbit\"", rest: "rate = \"70mbit\"" },
    flow: &[RATE, BURST],
    idles: Idling::because("packets wait for the tokens of their flow"),
    oversubscribed_by: Some("rate"),
    cap_key: Some("rate"),
    editable: &[("rate", "Rate"), ("burst", "Burst")],
    ..Manifest::PLAIN
};

/// A token bucket for each flow.
#[derive(Debug, Clone)]
pub struct Shaper {
    buckets: Vec<Bucket>,
    /// Flows with packets, ordered by the eligibility times of their heads.
    heads: Tournament<Instant>,
    serving: Option<FlowId>,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct ShaperFlow {
    /// Time at which the flow's bucket will be full.
    full: Instant,
    /// Eligibility time of the previous packet; the next packet is not eligible earlier.
    floor: Instant,
}

impl Shaper {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Shaper, ConfigErrors> {
        room_for_one(setup)?;
        Ok(Shaper {
            buckets: buckets(setup)?,
            heads: Tournament::new(setup.flows.len()),
            serving: None,
            link: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Sets the eligibility time of the head of `f`, if there is one.
    fn follow(&mut self, flows: &Flows<ShaperFlow>, f: FlowId) {
        let Some(bytes) = flows.head(f) else { return self.heads.remove(f) };
        let state = flows.state(f);
        self.heads.set(f, state.floor.max(self.buckets[f.index()].has(bytes, state.full)));
    }
}

impl Discipline for Shaper {
    type State = ShaperFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<ShaperFlow>) {}

    /// The number of missing tokens stays the same.
    fn migrate_from(&mut self, old: Shaper, flows: &mut Flows<ShaperFlow>, now: Time) {
        self.serving = old.serving;
        for f in ids(old.buckets.len()) {
            let state = flows.state_mut(f);
            state.full =
                self.buckets[f.index()].inherit(&old.buckets[f.index()], state.full, instant(now));
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ShaperFlow>, f: FlowId, now: Time) {
        flows.state_mut(f).floor = instant(now);
        self.follow(flows, f);
    }

    /// A packet that was removed without transmission costs no tokens.
    fn head_changed(&mut self, flows: &mut Flows<ShaperFlow>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ShaperFlow>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        match self.heads.first() {
            Some((eligible, f)) if eligible <= instant(now) => Decision::Serve(f),
            Some((eligible, _)) => Decision::NotBefore(begun(eligible)),
            None => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<ShaperFlow>, f: FlowId, sent: Sent) {
        let state = flows.state_mut(f);
        state.floor = self.heads.tag(f).unwrap_or(state.floor);
        state.full = self.buckets[f.index()].spend(state.full, state.floor, sent.bytes);
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<ShaperFlow>, f: FlowId, now: Time) -> bool {
        flows.state(f).full <= instant(now)
    }
}

impl QueueHooks for Shaper {}
impl MediumHooks for Shaper {}

impl Guarantees for Shaper {
    /// The eligibility times of a flow conform to its bucket. So in a busy period, the work before
    /// an eligible packet is at most the flows' bursts, what their rates allow from the start of
    /// the period to the packet's eligibility, and one packet whose transmission had already begun.
    /// A packet becomes eligible when its bucket has refilled for all packets before it.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let rates = self.buckets.iter().enumerate().map(|(n, bucket)| (n, bucket.rate));
        if let Some(excess) = Excess::of("rate", rates, self.link) {
            return Err(NoGuarantee(format!(
                "{}: a late packet waits for all others' bursts, and its wait has no limit; lower \
                 the \
                 rates, or divide the link by `mclock`, whose rates are minima and limits",
                excess.words("the flows'")
            )));
        }
        let (bursts, _) = sums(self.buckets.iter());
        let rate = self.buckets[f.index()].rate;
        let others =
            self.link.airtime_of_many(bursts.saturating_add(self.largest.into())) + ROUNDING;
        Ok(Guarantee {
            rate,
            latency: rate.airtime(self.largest) + others,
            rate_formula: "the bucket's rate r",
            delay: Bound {
                delay: rate.airtime_of_many(self.full_queues[f.index()]) + others,
                formula: "B/r + (sum b + L)/C",
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
    use crate::scheduler::worked_example::{at_once, order, rate, setup, values};

    fn buckets_of(buckets: [(u64, u64); 2]) -> Setup {
        setup(4, buckets.map(|(n, b)| values([("rate", rate(n)), ("burst", Value::Bytes(b))])))
    }

    /// A's bucket of 4 B refills by one byte in the time of two bytes, so the 2 B for its third
    /// packet are available at 4. B has a rate of an eighth of the link, and is held until 16 on a
    /// free link.
    #[test]
    fn a_shaper_holds_packets_on_a_free_link() {
        let setup = buckets_of([(500, 4), (125, 4)]);
        let sent = order(&setup, Shaper::new, &at_once("AAAABBB", 2));
        assert_eq!(sent, "A1@2 A2@4 B1@6 B2@8 A3@10 A4@12 B3@18");
    }

    /// A packet that waits for other flows spends its tokens when it becomes eligible, not when it
    /// leaves: A2 is eligible at 4, although B's packets are sent until 12, and A3 is eligible at
    /// 8.
    #[test]
    fn what_others_take_costs_no_tokens() {
        let setup = buckets_of([(500, 4), (1000, 8)]);
        let packets = [(0, 'A', 4), (0, 'A', 2), (0, 'A', 2), (1, 'B', 4), (1, 'B', 4)];
        let sent = order(&setup, Shaper::new, &packets);
        assert_eq!(sent, "A1@4 B1@8 B2@12 A2@14 A3@16");
    }
}
