//! Quick fair queueing of aggregates.
//!
//! Valente, "Reducing the execution time of fair-queueing packet schedulers" (2014), as in Linux.
//! Up to eight flows of the same weight form an aggregate. Aggregates share the link like flows in
//! QFQ; the weight of an aggregate is the sum of its flows' weights. The budget of an aggregate is
//! one packet of the largest size for each of its flows. An aggregate in service continues until
//! the rest of its budget is less than the next packet. Within an aggregate, deficit round robin
//! chooses the flow. So sorting is needed once for about eight packets, not for each packet. The
//! disadvantage is that a flow may be delayed by an additional budget, and by the other flows of
//! its aggregate. These flows also get the capacity that the flow leaves unused.
//!
//! Aggregates are sorted by their budgets and not by their packets, so no sorting is needed when a
//! head changes.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, RateCondition, ServiceLimits, Settling, finite_rate, full_queue,
    room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound};
use crate::mechanisms::flow_tag::{HEAVIEST, LARGEST, Place, Share, ahead, shift};
use crate::mechanisms::groups::{Choice, Groups};
use crate::mechanisms::proportion::by_slots;
use crate::mechanisms::virtual_time::{NONE, SOON, VirtualTime, WEIGHT, Weights};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::Time;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "qfq+",
    doc: "quick fair queueing of aggregates of up to 8 flows of one weight, which are sorted once \
          for several packets: cheaper than `qfq`, less even",
    source: "Valente 2014",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "own derivation",
    aliases: &["quick fair queueing plus"],
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    ..Manifest::PLAIN
};

/// Maximum number of flows in an aggregate.
const FLOWS: u32 = 8;

/// Quick fair queueing of aggregates.
#[derive(Debug, Clone)]
pub struct QfqPlus {
    time: VirtualTime,
    groups: Groups,
    aggregates: Vec<Aggregate>,
    /// The aggregate in service, or the only aggregate with packets, which is in no group; [`NONE`]
    /// if there is no such aggregate.
    in_hand: u32,
    /// The index of each flow's aggregate.
    of: Vec<u32>,
    weights: Weights,
    /// The finest rounding and the largest budget of any aggregate.
    finest: u64,
    largest_budget: u64,
    full_queues: Vec<u64>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct Member {
    drr: DeficitFlow,
    aggregate: u32,
}

impl AsMut<DeficitFlow> for Member {
    fn as_mut(&mut self) -> &mut DeficitFlow {
        &mut self.drr
    }
}

impl AsMut<active_list::Place> for Member {
    fn as_mut(&mut self) -> &mut active_list::Place {
        self.drr.as_mut()
    }
}

/// Flows of the same weight that are sorted together.
#[derive(Debug, Clone)]
struct Aggregate {
    /// Virtual start, and place among the groups.
    share: Share,
    /// Sum of its flows' weights.
    weight: u32,
    /// The round of the aggregate's flows that have packets.
    round: DeficitRound,
    /// Bytes that the aggregate may still send before it is sorted again.
    budget: u32,
    /// The budget at the start of its service: a largest packet for each flow.
    full: u32,
    /// Number of the aggregate's flows.
    flows: u32,
}

impl Aggregate {
    /// The rounding of the aggregate's starts.
    fn rounding(&self) -> u64 {
        1 << shift(self.share.class())
    }

    /// The flow that sends next, and the length of its head in bytes.
    #[inline]
    fn head(&mut self, flows: &mut Flows<Member>) -> Option<(FlowId, u32)> {
        while self.round.first().is_some() {
            if let Some(f) = self.round.visit(flows) {
                return flows.head(f).map(|bytes| (f, bytes));
            }
        }
        None
    }
}

impl QfqPlus {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<QfqPlus, ConfigErrors> {
        finite_rate(setup, "quick fair queueing")?;
        room_for_one(setup)?;
        let weights = Weights::new(setup)?;
        let (of, aggregates) = divide(&weights);
        let finest = aggregates.iter().map(Aggregate::rounding).min().unwrap_or(1);
        let largest_budget = aggregates.iter().map(|a| u64::from(a.full)).max().unwrap_or(0);
        Ok(QfqPlus {
            time: VirtualTime::new(&weights),
            groups: Groups::new(),
            aggregates,
            in_hand: NONE,
            of,
            weights,
            finest,
            largest_budget,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    fn aggregate(&self, f: FlowId) -> &Aggregate {
        &self.aggregates[self.of[f.index()] as usize]
    }

    fn member(&self, f: FlowId) -> Member {
        Member { drr: DeficitFlow::new(self.weights.largest), aggregate: self.of[f.index()] }
    }
}

/// Divides flows into aggregates; returns the index of each flow's aggregate, and the aggregates.
/// An aggregate takes flows of the same weight in their order: [`FLOWS`] at most, or fewer if their
/// weights or packets together would exceed the range of virtual time.
fn divide(weights: &Weights) -> (Vec<u32>, Vec<Aggregate>) {
    let largest = weights.largest.max(1);
    let (mut of, mut sizes, mut open) = (Vec::new(), Vec::new(), BTreeMap::new());
    for &weight in &weights.all {
        let most = FLOWS.min(HEAVIEST / weight).min(LARGEST / largest);
        let a = match open.get(&weight) {
            Some(&a) if sizes[a as usize] < (weight, most) => a,
            _ => {
                sizes.push((weight, 0));
                sizes.len() as u32 - 1
            }
        };
        open.insert(weight, a);
        sizes[a as usize].1 += 1;
        of.push(a);
    }
    let aggregate = |(weight, flows)| Aggregate {
        share: Share::new(weights.byte, flows * weight, flows * largest),
        weight: flows * weight,
        round: DeficitRound::EMPTY,
        budget: 0,
        full: flows * largest,
        flows,
    };
    (of, sizes.into_iter().map(aggregate).collect())
}

impl Discipline for QfqPlus {
    type State = Member;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<Member>) {
        for f in (0..self.of.len() as u32).map(FlowId) {
            *flows.state_mut(f) = self.member(f);
        }
    }

    /// Flows keep their turns, and their deficits up to a quantum. An aggregate with the same
    /// weight and flows keeps its virtual start time. A new aggregate starts later than the present
    /// virtual time by the largest debt of its flows' old aggregates, but by two roundings at most.
    fn migrate_from(&mut self, mut old: QfqPlus, flows: &mut Flows<Member>, _: Time) {
        self.time = old.time.clone();
        self.time.rescale(&old.weights, &self.weights);
        let instants = [old.time.now(), self.time.now()];
        let [was, now] = self.weights.whole_instants(instants, &old.weights);
        for (f, &a) in old.of.iter().enumerate() {
            let (before, after) =
                (&old.aggregates[a as usize], &mut self.aggregates[self.of[f] as usize]);
            let same = (self.of[f], before.flows, before.weight, before.full)
                == (a, after.flows, after.weight, after.full);
            let start = if same {
                let mut kept = before.share;
                kept.weigh_from([was, now], self.weights.byte, after.weight, after.full, false);
                kept.start
            } else {
                let owed = ahead(before.share.start, was).max(0) as u128;
                let owed = self.weights.in_unit(owed, &old.weights);
                now.wrapping_add(owed.min(2 << shift(after.share.class())) as u64)
            };
            let counts = before.share.place() == Place::Present || old.time.owes(&before.share);
            if counts && (after.share.place() == Place::Away || ahead(start, after.share.start) > 0)
            {
                after.share.start = start;
                after.share.set_place(Place::Silent);
            }
        }
        for aggregate in &mut old.aggregates {
            let (members, visited) = aggregate.round.dissolve(flows);
            for f in members {
                let after = &mut self.aggregates[self.of[f.index()] as usize];
                after.share.set_place(Place::Present);
                after.round.join(flows, f);
            }
            if let Some(f) = visited {
                self.aggregates[self.of[f.index()] as usize].round.resume(f);
            }
        }
        for f in (0..self.of.len() as u32).map(FlowId) {
            if f.index() < old.of.len() {
                flows.state_mut(f).drr.set_quantum(self.weights.largest);
                flows.state_mut(f).aggregate = self.of[f.index()];
            } else {
                *flows.state_mut(f) = self.member(f);
            }
        }
        self.time.rest();
        for (a, aggregate) in self.aggregates.iter_mut().enumerate() {
            self.time.count(&mut aggregate.share, aggregate.weight);
            if aggregate.share.place() == Place::Present {
                self.groups.insert(a as u32, &mut aggregate.share);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Member>, f: FlowId, _: Time) {
        let a = flows.state(f).aggregate;
        for other in self.time.due(self.aggregates.len()) {
            self.time.over(&mut self.aggregates[other].share);
        }
        let aggregate = &mut self.aggregates[a as usize];
        aggregate.round.join(flows, f);
        if aggregate.share.place() == Place::Present {
            return;
        }
        self.time.join(&mut aggregate.share, aggregate.weight);
        if self.in_hand == NONE && self.groups.is_empty() {
            aggregate.budget = 0;
            self.in_hand = a;
        } else {
            self.groups.insert(a, &mut aggregate.share);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Member>, _: Time, _: &Wire) -> Decision {
        loop {
            if self.in_hand != NONE {
                let aggregate = &mut self.aggregates[self.in_hand as usize];
                let alone = self.groups.is_empty();
                match aggregate.head(flows) {
                    Some((f, bytes)) if bytes <= aggregate.budget => return Decision::Serve(f),
                    Some((f, _)) if alone => {
                        self.time.leap(aggregate.share.rounded_start());
                        return Decision::Serve(f);
                    }
                    Some(_) => self.groups.insert(self.in_hand, &mut aggregate.share),
                    None if alone => {
                        aggregate.share.set_place(Place::Away);
                        self.in_hand = NONE;
                        self.time.rest();
                        return Decision::Idle;
                    }
                    None => self.time.leave(&mut aggregate.share, aggregate.weight),
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
            let a = self.groups.first(group);
            let aggregate = &mut self.aggregates[a as usize];
            if let Some((f, _)) = aggregate.head(flows) {
                return Decision::Serve(f);
            }
            // All packets of the aggregate's flows were removed without being transmitted.
            self.groups.remove_first(&aggregate.share);
            self.in_hand = a;
        }
    }

    /// Virtual time advances by the whole packet at the start of its transmission.
    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Member>, f: FlowId, sent: Sent) {
        let member = flows.state_mut(f);
        member.drr.pay(sent.bytes);
        let a = member.aggregate;
        let aggregate = &mut self.aggregates[a as usize];
        if self.in_hand != a {
            self.groups.remove_first(&aggregate.share);
            self.in_hand = a;
            aggregate.budget = aggregate.full;
        } else if aggregate.budget < sent.bytes {
            aggregate.budget = aggregate.full;
        }
        aggregate.budget = aggregate.budget.saturating_sub(sent.bytes);
        self.time.work(sent.bytes, &aggregate.share, aggregate.weight);
        aggregate.share.charge(sent.bytes);
    }
}

impl QueueHooks for QfqPlus {}
impl MediumHooks for QfqPlus {}

impl Guarantees for QfqPlus {
    /// The proof for QFQ's flows holds for aggregates, with budgets in place of packets. If an
    /// aggregate's service of one budget has the virtual start time `S`, this service ends at most
    /// a budget of other work after virtual time has reached `S` plus two roundings (two `sigma`).
    /// The packet on the wire is already counted in virtual time (`L`). While an aggregate of `n`
    /// flows has packets, its service is at most two roundings ahead of virtual time; an aggregate
    /// of one flow is not ahead if that flow owes nothing.
    ///
    /// Within the aggregate, until `X` bytes of a flow have left, each of the other flows sends at
    /// most `ceil(X/L) L + L` bytes (see DRR). `X` consists of the bytes of the flow that have left
    /// and its packet that leaves next. Before that packet starts, the aggregate sends at most
    /// these bytes of the others and `X` without that packet. That is `n` times the bytes that have
    /// left, plus `3 (n - 1) L`, which is part of the latency.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Aggregate { share, flows, .. } = self.aggregate(f);
        let (largest, neighbours) = (u64::from(self.weights.largest), u64::from(flows - 1));
        let after = |bytes: u64, roundings: u128| {
            let time = u128::from(bytes) * u128::from(share.inverse())
                + (roundings << shift(share.class()));
            let work = self.weights.work(time + 2 * SOON as u128);
            let once = self.largest_budget + largest + 1;
            self.weights.rate.airtime_of_many(work.saturating_add(once))
        };
        let full = self.full_queues[f.index()];
        let turns = full.div_ceil(largest.max(1)).saturating_add(1);
        let whole = self.weights.rate_of(share.inverse());
        Ok(Guarantee {
            rate: Rate(whole.0 / u64::from(*flows)),
            latency: after(3 * neighbours * largest, if neighbours == 0 { 2 } else { 4 }),
            rate_formula: "C w/sum w",
            delay: Bound {
                delay: after(full.saturating_add((neighbours * largest).saturating_mul(turns)), 4),
                formula: "((B + (n - 1)(ceil(B/L) + 1) L) W/(n w) + 4 W sigma + F + L)/C, W = sum w, n: flows of the aggregate, F: the largest budget, sigma: the lowest power of two >= L/w",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// The proof for QFQ's flows holds for the services of aggregates, each of at most a budget.
    /// Let a backlog of a flow begin when virtual time is `v`. Its aggregate `a`, of weight `w_a`
    /// and budget `F_a`, then starts before `v + sigma_a + F_a/w_a`, also in the middle of a
    /// service. Until a packet of the flow leaves, let the aggregate send `A` bytes. That service
    /// has a rounded finish before `g = v + (F_a + A)/w_a + 3 sigma_a`. So another aggregate `b`
    /// starts before `g + max(-sigma_b, sigma_b - 2 sigma_a) + F_b/w_b` after its last service
    /// before that.
    ///
    /// The first service of aggregate `b` that is chosen since `v` starts at most
    /// `2 sigma_b + F/w_b` before `v`, where `F` is the largest budget. If the aggregate is being
    /// served at `v`, virtual time has risen since its choice by at most the bytes that it was
    /// charged, divided by `w_b`. All of them but the packet on the wire have left. So aggregate
    /// `b` sends at most `w_b z + F_b + F` bytes, where `z` is `g - v` plus the maximum of
    /// `sigma_b` and `3 sigma_b - 2 sigma_a`. Any flow of it may send them all.
    ///
    /// Until `S` bytes of the flow have left, each of the other flows of its aggregate sends at
    /// most `ceil(S/L) L + L` bytes (see DRR). With `n` flows, `A` is at most `n S + 2 (n - 1) L`.
    /// These `S + 2 L` bytes of each of the others are below the limit for rivals too, if `b` is
    /// `a`. Rounding adds as much as in QFQ.
    fn limits(&self, f: FlowId) -> Option<ServiceLimits> {
        let aggregate = self.aggregate(f);
        let (inverse, rounding) = (aggregate.share.inverse(), aggregate.rounding());
        let (flows, full) = (u64::from(aggregate.flows), u64::from(aggregate.full));
        let others = 2 * (flows - 1) * u64::from(self.weights.largest);
        let ahead = full + others + (3 * rounding).div_ceil(inverse) + 1;
        let late = rounding.max(3 * rounding - 2 * self.finest);
        let extra = full + self.largest_budget + late.div_ceil(inverse) + 3;
        by_slots(inverse, aggregate.flows, self.weights.largest, ahead.div_ceil(flows), extra)
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(3)
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::OwesNothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{at_once, order, weights};

    /// A and B, each of weight 1, form an aggregate of weight 2 and budget 8, with roundings of 4.
    /// C alone is an aggregate of weight 2, with roundings of 2. A arrives first, so virtual time
    /// is 2 when C arrives. A and B use up their budget and then start at 4, while virtual time is
    /// 3. So C is served, and then again, because its finish time is 8 and that of A and B is 12.
    /// At virtual time 5, C's start time is 6.
    #[test]
    fn a_budget_is_used_up_before_another_aggregate_is_chosen() {
        let sent = order(&weights(4, &[1, 1, 2]), QfqPlus::new, &at_once("AAABBBCCC", 4));
        assert_eq!(sent, "A1@4 B1@8 C1@12 C2@16 A2@20 B2@24 C3@28 A3@32 B3@36");
    }
}
