//! Asynchronous traffic shaping, IEEE 802.1Qcr (802.1Q-2022, 8.6.11).
//!
//! Each flow has a token bucket, which assigns an eligibility time to each packet: the time at
//! which the bucket has tokens for the packet's length, after all earlier packets of the flow. It
//! is computed when the packet becomes the head, with the same result as at arrival. From its
//! eligibility time on, the packet is in the queue of its traffic class. This queue is ordered by
//! eligibility time. The highest class that has eligible packets sends.
//!
//! In the standard, several flows may form a group that shares one queue in front of the buckets,
//! to save queues; all packets in that queue wait for the first packet. Here each flow has its own
//! queue, so there are no groups. A packet that would wait too long is not dropped, unlike in the
//! standard; the queue's limit bounds the wait.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, DropImpact, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::bucket::{BURST, Bucket, RATE, begun, buckets, ids, sums};
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::substitute_arrivals::SubstituteTimes;
use crate::mechanisms::weights::{Instant, ROUNDING, instant};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::Time;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "ats",
    doc: "asynchronous traffic shaping of 802.1Qcr: a token bucket gives each packet an \
          eligibility time at its arrival; eligible packets go by class, then by that time",
    source: "IEEE 802.1Qcr 2020; Specht and Samii 2016",
    cost: "O(log N)",
    guarantee: "rate and delay, if the sum of the rates fits on the link",
    guarantee_source: "Specht and Samii 2016",
    purposes: &[Purpose::Delay],
    aliases: &["asynchronous traffic shaping", "802.1qcr", "urgency-based scheduler"],
    example: Example {
        scheduler: "",
        calls: "rate = \"20mbit\"",
        rest: "rate = \"70mbit\"\nclass = 1",
    },
    flow: &[
        RATE,
        BURST,
        Param {
            name: "class",
            kind: Kind::Count { min: 0, max: 65_535 },
            default: Some("0"),
            doc: "the traffic class of the flow: 0 is served first; flows of one class go in order \
                  of eligibility time",
        },
    ],
    idles: Idling::because("a packet waits until it is eligible"),
    oversubscribed_by: Some("rate"),
    cap_key: Some("rate"),
    editable: &[("rate", "Rate"), ("burst", "Burst")],
    ..Manifest::PLAIN
};

/// Asynchronous traffic shaping.
#[derive(Debug, Clone)]
pub struct Ats {
    buckets: Vec<Bucket>,
    classes: Vec<u64>,
    /// Heads that are not eligible yet, by eligibility time.
    held: Tournament<Time>,
    /// Eligible heads, by class and eligibility time.
    eligible: Tournament<(u64, Time)>,
    substitutes: SubstituteTimes<Time>,
    serving: Option<FlowId>,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct AtsFlow {
    /// Time at which the flow's bucket will be full.
    full: Instant,
    /// Eligibility time of the last packet that was sent, or of the last head that was dropped,
    /// whichever is later. For a head that was dropped before it was eligible, the time of the drop
    /// counts instead.
    last: Instant,
}

impl Ats {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Ats, ConfigErrors> {
        finite_rate(setup, "asynchronous traffic shaping")?;
        room_for_one(setup)?;
        Ok(Ats {
            buckets: buckets(setup)?,
            classes: setup.flows.iter().map(|f| f.values.count("class").unwrap_or(0)).collect(),
            held: Tournament::new(setup.flows.len()),
            eligible: Tournament::new(setup.flows.len()),
            substitutes: SubstituteTimes::new(setup),
            serving: None,
            link: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Eligibility time of a head of `bytes`.
    #[inline]
    fn eligibility(&self, flows: &Flows<AtsFlow, Time>, f: FlowId, bytes: u32) -> Instant {
        let state = flows.state(f);
        state
            .last
            .max(instant(self.substitutes.effective_arrival(f, flows.head_tag(f))))
            .max(self.buckets[f.index()].has(bytes, state.full))
    }

    fn follow(&mut self, flows: &Flows<AtsFlow, Time>, f: FlowId) {
        self.eligible.remove(f);
        match flows.head(f) {
            Some(bytes) => self.held.set(f, begun(self.eligibility(flows, f, bytes))),
            None => self.held.remove(f),
        }
    }
}

impl Discipline for Ats {
    type State = AtsFlow;
    /// Arrival time of the packet.
    type Tag = Time;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<AtsFlow, Time>) {}

    /// The number of missing tokens stays the same.
    fn migrate_from(&mut self, old: Ats, flows: &mut Flows<AtsFlow, Time>, now: Time) {
        self.serving = old.serving;
        for f in ids(old.buckets.len()) {
            let state = flows.state_mut(f);
            state.full =
                self.buckets[f.index()].inherit(&old.buckets[f.index()], state.full, instant(now));
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<AtsFlow, Time>, _: FlowId, _: u32, now: Time) -> Time {
        now
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<AtsFlow, Time>, f: FlowId, now: Time) {
        self.substitutes.ready(f, now);
        self.follow(flows, f);
    }

    fn head_changed(&mut self, flows: &mut Flows<AtsFlow, Time>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<AtsFlow, Time>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        while let Some((then, f)) = self.held.first() {
            if then > now {
                break;
            }
            self.held.remove(f);
            self.eligible.set(f, (self.classes[f.index()], then));
        }
        match (self.eligible.first(), self.held.first()) {
            (Some((_, f)), _) => Decision::Serve(f),
            (None, Some((then, _))) => Decision::NotBefore(then),
            (None, None) => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<AtsFlow, Time>, f: FlowId, sent: Sent) {
        let eligible = self.eligibility(flows, f, sent.bytes);
        self.substitutes.taken(f, sent.start);
        let state = flows.state_mut(f);
        (state.last, state.full) =
            (eligible, self.buckets[f.index()].spend(state.full, eligible, sent.bytes));
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<AtsFlow, Time>, f: FlowId, now: Time) -> bool {
        flows.state(f).full <= instant(now)
    }
}

impl QueueHooks for Ats {
    /// A dropped packet costs no tokens. The next packet is not eligible earlier than the dropped
    /// packet; if the dropped packet was not eligible yet, the next one is not eligible earlier
    /// than now.
    fn head_dropped(
        &mut self,
        flows: &mut Flows<AtsFlow, Time>,
        f: FlowId,
        _: u32,
        _: DropCause,
        now: Time,
    ) {
        let was = self.eligible.tag(f).map(|(_, then)| then).or(self.held.tag(f));
        let since = was.map_or(now, |then| then.min(now));
        self.substitutes.set_head_time(f, since);
        self.substitutes.head_dropped(f, now);
        let state = flows.state_mut(f);
        state.last = state.last.max(instant(since));
        self.follow(flows, f);
    }

    fn dropped_behind_head(&mut self, _: &mut Flows<AtsFlow, Time>, f: FlowId, _: u32, _: Time) {
        self.substitutes.dropped_behind_head(f);
    }
}

impl MediumHooks for Ats {}

impl Guarantees for Ats {
    /// Drops break no guarantee, because a dropped packet has spent no tokens.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::NoFlow
    }

    /// Eligible packets of a flow conform to its bucket. An eligible packet waits for the bursts of
    /// its own class and the higher classes, and for one packet of a lower class. All of these
    /// packets are served at the rate that the higher classes leave (Specht and Samii 2016). Before
    /// that, a packet waits until the bucket has refilled for the full queue in front of it.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let own = self.classes[f.index()];
        let of = |which: fn(&u64, &u64) -> bool| {
            sums(
                self.buckets
                    .iter()
                    .zip(&self.classes)
                    .filter(|(_, class)| which(class, &own))
                    .map(|(b, _)| b),
            )
        };
        let (bursts, _) = of(u64::le);
        let (_, above) = of(u64::lt);
        let up_to_it = self
            .buckets
            .iter()
            .zip(&self.classes)
            .enumerate()
            .filter(|(_, (_, class))| **class <= own);
        if let Some(excess) =
            Excess::of("rate", up_to_it.map(|(n, (bucket, _))| (n, bucket.rate)), self.link)
        {
            let up_to = format!("up to class {own} the flows'");
            return Err(NoGuarantee(format!(
                "{}: packets become eligible faster than they are sent",
                excess.words(&up_to)
            )));
        }
        let left = Rate(self.link.0 - above as u64);
        let rate = self.buckets[f.index()].rate;
        let others = left.airtime_of_many(bursts.saturating_add(self.largest.into())) + ROUNDING;
        Ok(Guarantee {
            rate,
            latency: rate.airtime(self.largest) + others,
            rate_formula: "the bucket's rate r",
            delay: Bound {
                delay: rate.airtime_of_many(self.full_queues[f.index()]) + others,
                formula: "B/r + (sum b + L)/(C - R), b of this class and those above, R the rates \
                          above",
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

    /// Eligibility times are as if assigned at arrival: A's packets are eligible at 0, 0, 4 and 8,
    /// B's at 0 and 16. C's class is higher.
    #[test]
    fn eligibility_times_are_given_at_arrival() {
        let flow = |thousandths, burst, class| {
            let (burst, class) = (Value::Bytes(burst), Value::Count(class));
            values([("rate", rate(thousandths)), ("burst", burst), ("class", class)])
        };
        let setup = setup(4, [flow(500, 4, 1), flow(125, 4, 1), flow(500, 8, 0)]);
        let all = [at_once("AAAA", 2), Vec::from([(0, 'B', 4), (0, 'B', 2)])].concat();
        assert_eq!(order(&setup, Ats::new, &all), "A1@2 A2@4 B1@8 A3@10 A4@12 B2@18");
        // The third packet of C is eligible at 13; the last two of A have been eligible since 4 and
        // 8.
        let with_c = [all, Vec::from([(5, 'C', 4); 3])].concat();
        let sent = order(&setup, Ats::new, &with_c);
        assert_eq!(sent, "A1@2 A2@4 B1@8 C1@12 C2@16 C3@20 A3@22 A4@24 B2@26");
    }
}
