//! Quick fair queueing.
//!
//! Checconi, Rizzo and Valente, "QFQ: efficient packet scheduling with tight guarantees" (2013).
//! Flows whose largest packets have similar lengths in virtual time form a group. In a group, start
//! times are rounded down to a multiple of `sigma`, a power of two between that length and twice
//! that length. The finish time is two `sigma` after the rounded start time. Among the groups that
//! have started, the group with the earliest finish time is served.
//!
//! The flow in service is in no group. If it is the only flow, it stays outside of the groups, and
//! nothing is sorted.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, RateCondition, ServiceLimits, Settling, finite_rate, full_queue,
    room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::flow_tag::{Place, Share, class, inverse, shift};
use crate::mechanisms::groups::{Choice, Groups};
use crate::mechanisms::proportion::by_slots;
use crate::mechanisms::virtual_time::{
    Keeps, NONE, SOON, VirtualTime, WEIGHT, Weights, is_free, unit,
};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "qfq",
    doc: "quick fair queueing: flows share the link in proportion to their weights, evenly from \
          packet to packet, O(1)",
    source: "Checconi, Rizzo and Valente 2013",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "Checconi, Rizzo and Valente 2013; mixed sizes: own derivation",
    purposes: &[Purpose::Share],
    aliases: &["quick fair queueing"],
    example: Example { scheduler: "", calls: "weight = 3", rest: "weight = 1" },
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "3 w sigma + 2 phi L + (L_i - l_i)",
        condition: None,
        bytes: |f| {
            // A start that is at most `SOON` after virtual time counts as reached.
            let byte = unit([f.lightest as u32]);
            let sigma = 1u64 << shift(class(inverse(byte, f.weight as u32), f.link));
            let roundings = (3 * sigma + SOON as u64) as f64 * f.weight as f64 / byte as f64;
            f.spread + 2.0 * f.phi * f64::from(f.link) + ROUNDED + roundings
        },
    }),
    ..Manifest::PLAIN
};

/// Quick fair queueing.
#[derive(Debug, Clone)]
pub struct Qfq {
    time: VirtualTime,
    groups: Groups,
    /// The flow in service, or the only flow with packets, which is in no group.
    in_hand: u32,
    weights: Weights,
    /// The finest rounding of any flow.
    finest: u64,
    full_queues: Vec<u64>,
}

impl Qfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Qfq, ConfigErrors> {
        finite_rate(setup, "quick fair queueing")?;
        room_for_one(setup)?;
        let weights = Weights::new(setup)?;
        let heaviest = weights.all.iter().copied().max().unwrap_or(1);
        let finest = 1 << shift(class(inverse(weights.byte, heaviest), weights.largest));
        Ok(Qfq {
            time: VirtualTime::new(&weights),
            groups: Groups::new(),
            in_hand: NONE,
            weights,
            finest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }
}

impl Discipline for Qfq {
    type State = Share;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<Share>) {
        self.weights.start(flows);
    }

    /// Flows keep their debts. A flow whose weight does not change also keeps its claims to
    /// service.
    fn migrate_from(&mut self, old: Qfq, flows: &mut Flows<Share>, _: Time) {
        (self.time, self.in_hand) = (old.time, old.in_hand);
        self.time.reweigh(flows, &old.weights, &self.weights, Keeps::Slots);
        for f in 0..self.weights.all.len() as u32 {
            let share = flows.state_mut(FlowId(f));
            if share.place() == Place::Present && f != self.in_hand {
                self.groups.insert(f, share);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Share>, f: FlowId, _: Time) {
        if flows.state(f).place() == Place::Present {
            return;
        }
        let free = self.groups.is_empty() && is_free(self.in_hand, flows);
        if free && self.in_hand != NONE {
            flows.state_mut(FlowId(self.in_hand)).set_place(Place::Away);
            self.time.rest();
        }
        for other in self.time.due(flows.len()) {
            self.time.over(flows.state_mut(FlowId(other as u32)));
        }
        let share = flows.state_mut(f);
        self.time.join(share, self.weights.of(f));
        if free {
            self.in_hand = f.0;
        } else {
            self.groups.insert(f.0, share);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Share>, _: Time, _: &Wire) -> Decision {
        loop {
            if self.in_hand != NONE {
                let f = FlowId(self.in_hand);
                let alone = self.groups.is_empty();
                if flows.head(f).is_some() {
                    let share = flows.state_mut(f);
                    if alone {
                        self.time.leap(share.rounded_start());
                        return Decision::Serve(f);
                    }
                    self.groups.insert(f.0, share);
                } else if alone {
                    flows.state_mut(f).set_place(Place::Away);
                    self.in_hand = NONE;
                    self.time.rest();
                    return Decision::Idle;
                } else {
                    self.time.leave(flows.state_mut(f), self.weights.of(f));
                }
                self.in_hand = NONE;
            }
            if self.groups.is_empty() {
                return Decision::Idle;
            }
            let group = loop {
                match self.groups.choose(self.time.now()) {
                    Choice::Group(group) => break group,
                    Choice::After(start) => self.time.leap(start),
                }
            };
            let f = FlowId(self.groups.first(group));
            if flows.head(f).is_some() {
                return Decision::Serve(f);
            }
            // The flow's only packet was removed without being transmitted by this discipline.
            self.groups.remove_first(flows.state(f));
            self.in_hand = f.0;
        }
    }

    /// Virtual time advances by the whole packet at the start of its transmission.
    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Share>, f: FlowId, sent: Sent) {
        let share = flows.state_mut(f);
        if self.in_hand != f.0 {
            self.groups.remove_first(share);
            self.in_hand = f.0;
        }
        self.time.work(sent.bytes, share, self.weights.of(f));
        share.charge(sent.bytes);
    }

    fn is_reusable(&self, flows: &Flows<Share>, f: FlowId, _: Time) -> bool {
        !self.time.owes(flows.state(f))
    }
}

impl QueueHooks for Qfq {}
impl MediumHooks for Qfq {}

impl Guarantees for Qfq {
    /// Every packet that is served before a given packet has an earlier finish time, except a
    /// packet whose transmission began before the given packet was eligible. So the given packet
    /// ends at most one packet of work after virtual time reaches its finish time, which is at most
    /// two roundings (two `sigma`) after its start time. The latency: if the flow owed nothing at
    /// some instant, its start time is the virtual time of that instant, in which the packet on
    /// the wire is already counted (the second `L`). The delay: while the flow has packets, its
    /// head starts at most a rounding and a packet of the flow after virtual time. At the flow's
    /// own departures, the largest lag behind its share is `3 w sigma + 2 phi L` (the paper's
    /// `3 phi sigma + 2 phi L`, where weights add up to 1), plus the difference between a packet's
    /// length and that of the next packet.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Weights { rate, largest, .. } = self.weights;
        let largest = u64::from(largest);
        let after = |bytes: u64, roundings| {
            let time = self.weights.of_bytes(f, bytes)
                + roundings * self.weights.rounding(f)
                + SOON as u128;
            rate.airtime_of_many(self.weights.work(time).saturating_add(2 * largest + 1))
        };
        Ok(Guarantee {
            rate: self.weights.rate(f),
            latency: after(0, 2),
            rate_formula: "C w/sum w",
            delay: Bound {
                delay: after(self.full_queues[f.index()].saturating_add(largest), 3),
                formula: "((B + L) W/w + 3 W sigma + 2 L)/C, W = sum w, sigma: the power of two \
                          from L/w on",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// Let a backlog of flow `i` begin when virtual time is `v`. The flow has no packets, and the
    /// rounded start of its previous one had been reached. So its next start is less than
    /// `v + sigma_i + L/w_i`. The packet that ends with byte `S` of the backlog has a rounded
    /// finish before `g = v + (L + S)/w_i + 3 sigma_i`.
    ///
    /// Before that packet, a packet of flow `j` is chosen in one of two cases. Its start is less
    /// than `sigma_j` after its rounded start.
    /// - The head of flow `i` has started. The rounded finish of the packet of flow `j` is not
    ///   later than that of the head. So the next start of flow `j` is before
    ///   `g - sigma_j + L/w_j`.
    /// - The head of flow `i` has not started. The rounded start of the packet of flow `j` is
    ///   earlier. So the next start of flow `j` is before `g - 2 sigma_i + sigma_j + L/w_j`.
    ///
    /// The first packet of flow `j` that is chosen since `v` has `l` bytes. It starts at most
    /// `2 sigma_j + (L - l)/w_j` before `v`. Let its rounded finish be `f`, at most `2 sigma_j`
    /// after its start, and let it be chosen when virtual time is `u > f`. Let `u'` be virtual time
    /// at the last earlier choice of a packet whose rounded finish is after `f`. Then all rounded
    /// starts that had been reached belonged to rounded finishes after `f`. So the packets chosen
    /// since, and this one, start at `u'` or later and finish by `f`; their exact finishes are not
    /// after the rounded ones. Their flows count in between, so the link sends at least all their
    /// bytes while virtual time rises from `u'` to `f`. Of the bytes sent from `u'` to `u`, only
    /// those of the packet chosen at `u'` are not among theirs, and the `l` bytes are missing. So
    /// the link has sent at most `L - l` bytes since `f`. Flow `j` counts, so `u` is at most
    /// `f + (L - l)/w_j`. If there was no such choice since a leap of virtual time or since the
    /// link was empty, no start was before virtual time at that instant, and there is no packet
    /// that is not among theirs.
    ///
    /// If a packet of flow `j` is on the wire at `v`, virtual time has risen by at most `l/w_j`
    /// since it was chosen, because the whole packet counts at once. So flow `j` sends at most
    /// `w_j (g - v + 2 sigma_j + max(-sigma_j, sigma_j - 2 sigma_i)) + 2 L` bytes. In the maximum,
    /// the finest rounding takes the place of `sigma_i`.
    ///
    /// A start up to `SOON` after virtual time counts as reached, which is less than a byte of
    /// flow `i`. Virtual times are rounded to half a unit when a flow becomes backlogged or silent.
    /// Two bytes are for that, and one is for the rounding of `v` and `u`.
    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        let largest = u64::from(self.weights.largest);
        let (inverse, rounding) = (self.weights.inverse(f), self.weights.rounding(f) as u64);
        let late = rounding.max(3 * rounding - 2 * self.finest);
        let ahead = largest + (3 * rounding).div_ceil(inverse) + 1;
        let extra = 2 * largest + late.div_ceil(inverse) + 3;
        by_slots(inverse, 1, self.weights.largest, ahead, extra)
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(3)
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::OwesNothing)
    }
}
