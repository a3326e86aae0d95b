//! mClock: a minimum rate, a maximum rate and a weight for each flow.
//!
//! Gulati, Merchant and Varman, "mClock: handling throughput variability for hypervisor IO
//! scheduling" (2010). A flow has three clocks, which its packets advance; a clock *has come* when
//! real time reaches it:
//! - `R`, by bytes divided by the reservation. In the constraint phase, the flow with the earliest
//!   `R` among those whose `R` has come is served.
//! - `L`, by bytes divided by the limit. In the weight phase a flow waits until its `L` has come.
//! - `P`, by bytes divided by the weight. In the weight phase, when no `R` has come, the flow with
//!   the least `P` is served. Its packets do not count for its reservation, so `R` does not change.
//!
//! When a flow becomes backlogged again after a pause, `R` and `L` are set to the present time if
//! they are in the past. `P` is set to the `P` of the last packet chosen by weight if it is below
//! that.
//!
//! The paper assigns time stamps to requests at their arrival, and clocks follow real time. Here
//! the clocks of heads are compared, which gives the same order. A flow that could not use its
//! limit because of other flows catches up by one packet of the largest size, not by its whole
//! wait, so that the limit holds.
//!
//! A tree of classes is [hClock](crate::disciplines::mclock::hclock).
//!
//! Clocks only rise, and so do the keys in the heaps: an outdated entry is corrected when it
//! reaches the top. So for each packet only the tops of two heaps change, and no heap is searched.

pub mod hclock;

use self::hclock::HClock;
use crate::collections::quad_heap::Heap;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{Dice, Draw};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, FlowSetup, Kind, Param, Setup, Value};
use crate::contract::transmission::Sent;
use crate::contract::visitor::Visitor;
use crate::mechanisms::bucket::begun;
use crate::mechanisms::flow_tag::{HEAVIEST, ahead, inverse};
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::virtual_time::unit;
use crate::mechanisms::weights::{Instant, ROUNDING, WEIGHT, instant, pace, retagged};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "mclock",
    doc: "a reservation, a limit and a weight for each flow: reservations are served first, the \
          rest of the link by weight up to the limits, O(log N)",
    source: "Gulati, Merchant and Varman 2010; trees: Billaud and Gulati 2013",
    cost: "O(log N), at each level of a tree",
    guarantee: "reservation and delay",
    guarantee_source: "own derivation",
    purposes: &[Purpose::Rate, Purpose::Share],
    aliases: &["dmclock", "reservation"],
    example: Example {
        scheduler: "",
        calls: "reservation = \"20mbit\"\nweight = 3",
        rest: "weight = 1\nlimit = \"90mbit\"",
    },
    flow: &[
        Param {
            name: "reservation",
            kind: Kind::Rate,
            default: Some("none: weight only; for a divided flow, the sum over its parts"),
            doc: "minimum rate of the flow; the sum over all flows must fit on the link, or in the \
                  reservation of the flow above",
        },
        Param {
            name: "limit",
            kind: Kind::Rate,
            default: Some("no limit"),
            doc: "maximum rate of the flow, even on an idle link; at least its `reservation`",
        },
        Param {
            doc: "the flow's weight: flows share the capacity beyond the reservations in \
                  proportion to their weights",
            ..WEIGHT
        },
    ],
    idles: Some(Idling { why: "a flow has a limit", only_with: Some("limit") }),
    whole_trees: true,
    weight_key: Some("weight"),
    cap_key: Some("limit"),
    editable: &[("weight", "Weight"), ("reservation", "Minimum rate"), ("limit", "Cap")],
    draw: Draw { fit, ..Draw::INDEPENDENT },
    ..Manifest::PLAIN
};

/// Adjusts a random setup so that no reservation is above its flow's limit.
fn fit(setup: &mut Setup, _: Dice<'_>) {
    for flow in &mut setup.flows {
        if let (Some(reservation), Some(limit)) =
            (flow.values.rate("reservation"), flow.values.rate("limit"))
        {
            flow.values.set("reservation", Value::Rate(reservation.min(limit)));
            flow.values.set("limit", Value::Rate(reservation.max(limit)));
        }
    }
}

/// Builds the discipline and passes it to the visitor. It is
/// [hClock](crate::disciplines::mclock::hclock) if a flow is divided by `mclock` again.
pub(super) fn construct<V: Visitor>(setup: &Setup, visitor: V) -> Result<V::Output, ConfigErrors> {
    let divided =
        |flow: &FlowSetup| flow.inner.as_ref().is_some_and(|inner| inner.kind == MANIFEST.kind);
    Ok(match setup.flows.iter().any(divided) {
        true => visitor.visit(HClock::new(setup)?),
        false => visitor.visit(MClock::new(setup)?),
    })
}

/// Maximum distance of `P` ahead of the last `P`, so that keys can be compared although they wrap
/// around: at least 16 MB of the lightest flow.
pub(crate) const FAR: u128 = 1 << 62;

/// mClock.
#[derive(Debug, Clone)]
pub struct MClock {
    rules: Vec<Rule>,
    /// Flows with a reservation, ordered by `R`.
    reserved: Heap,
    /// Flows that may be served by weight, ordered by `P`.
    weighed: Heap,
    /// Flows that have reached their limit, ordered by `L`.
    limited: Heap,
    /// `P` of the last packet chosen by weight.
    now: u128,
    /// True if the last decision was by weight, not by reservation.
    by_weight: bool,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// The setup of a flow, or of a class of a [tree](crate::disciplines::mclock::hclock).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rule {
    pub(crate) reservation: Option<Rate>,
    /// Advance of `R` per byte; 0 without a reservation. The next field is the same for `L`.
    pub(crate) reserved: Instant,
    pub(crate) limited: Instant,
    /// Advance of `P` per byte: 2^37 to 2^38 for the lightest class of a node.
    pub(crate) weighed: u64,
}

/// The weight of a flow or class, limited to the range of weights.
pub(crate) fn weight(f: &FlowSetup) -> u32 {
    f.values.count("weight").unwrap_or(1).clamp(1, HEAVIEST.into()) as u32
}

impl Rule {
    /// The rule of `f`, whose number in errors is `flow`. `byte` is the advance of `P` per byte at
    /// weight 1.
    pub(crate) fn of(flow: usize, f: &FlowSetup, byte: u128) -> Result<Rule, ConfigError> {
        let refused = |param, what, help| ConfigError { flow: Some(flow), param, what, help };
        let (reservation, limit) = (f.values.rate("reservation"), f.values.rate("limit"));
        for (param, rate) in [("reservation", reservation), ("limit", limit)] {
            if rate == Some(Rate(0)) {
                let help = "a rate above 0, or leave it out for none".into();
                return Err(refused(param, "a rate of 0 never sends".into(), help));
            }
        }
        let weight = f.values.count("weight").unwrap_or(1);
        if weight == 0 || weight > u64::from(HEAVIEST) {
            let what = format!("a weight of {weight} is out of range");
            return Err(refused("weight", what, format!("from 1 to {HEAVIEST}")));
        }
        let weighed = inverse(byte, weight as u32);
        let mut rule = Rule { limited: limit.map_or(0, pace), weighed, ..Rule::default() };
        if let Some(rate) = reservation {
            rule.reserve(rate);
        }
        Ok(rule)
    }

    /// Sets the reservation.
    pub(crate) fn reserve(&mut self, rate: Rate) {
        (self.reservation, self.reserved) = (Some(rate), pace(rate));
    }

    /// Refuses a limit below the reservation, which would violate the reservation.
    pub(crate) fn fits(&self, flow: usize, f: &FlowSetup) -> Result<(), ConfigError> {
        match (self.reservation, f.values.rate("limit")) {
            (Some(least), Some(most)) if least > most => Err(ConfigError {
                flow: Some(flow),
                param: "limit",
                what: format!("a limit of {most} is below the reservation of {least}"),
                help: format!("at least {least}"),
            }),
            _ => Ok(()),
        }
    }
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct MClockFlow {
    reserved: Instant,
    limited: Instant,
    weighed: u128,
    /// True if the flow has an entry in the heap of reservations.
    in_reserved: bool,
    place: Place,
}

/// The heap with a flow's other entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Weighed,
    Limited,
}

impl MClock {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<MClock, ConfigErrors> {
        finite_rate(setup, "mClock")?;
        room_for_one(setup)?;
        let byte = unit(setup.flows.iter().map(weight));
        let mut rules = Vec::with_capacity(setup.flows.len());
        for (flow, f) in setup.flows.iter().enumerate() {
            let rule = Rule::of(flow, f, byte)?;
            rule.fits(flow, f)?;
            rules.push(rule);
        }
        let reserved =
            rules.iter().enumerate().filter_map(|(flow, rule)| Some((flow, rule.reservation?)));
        if let Some(excess) = Excess::of("reservation", reserved, setup.rate) {
            return Err(excess.refused("; the rest is shared by `weight`").into());
        }
        Ok(MClock {
            reserved: Heap::new(rules.len()),
            weighed: Heap::new(rules.len()),
            limited: Heap::new(rules.len()),
            rules,
            now: 0,
            by_weight: false,
            link: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Enters a backlogged flow in all heaps in which its entries are missing.
    #[inline]
    fn enter(&mut self, state: &mut MClockFlow, f: FlowId) {
        if !state.in_reserved && self.rules[f.index()].reserved > 0 {
            state.in_reserved = true;
            self.reserved.push(begun(state.reserved).0, f.0);
        }
        if state.place == Place::Nowhere {
            state.place = Place::Weighed;
            self.weighed.push(state.weighed as u64, f.0);
        }
    }

    /// The earliest `R`, and its flow.
    #[inline]
    fn first_reserved(&mut self, flows: &mut Flows<MClockFlow>) -> Option<(Time, FlowId)> {
        while let Some((key, f)) = self.reserved.first() {
            let f = FlowId(f);
            let is = begun(flows.state(f).reserved);
            if flows.head(f).is_none() {
                self.reserved.pop();
                flows.state_mut(f).in_reserved = false;
            } else if is.0 != key {
                self.reserved.postpone_first(is.0);
            } else {
                return Some((is, f));
            }
        }
        None
    }

    /// Time at which the next `L` comes. Flows whose `L` has come are moved to the heap of weights.
    #[inline]
    fn first_limited(&mut self, flows: &mut Flows<MClockFlow>, now: Time) -> Option<Time> {
        while let Some((key, f)) = self.limited.first() {
            let (f, waits) = (FlowId(f), flows.head(FlowId(f)).is_some());
            let state = flows.state_mut(f);
            let is = begun(state.limited);
            if !waits {
                self.limited.pop();
                state.place = Place::Nowhere;
            } else if is <= now {
                self.limited.pop();
                state.place = Place::Weighed;
                self.weighed.push(state.weighed as u64, f.0);
            } else if is.0 != key {
                self.limited.postpone_first(is.0);
            } else {
                return Some(is);
            }
        }
        None
    }

    /// The flow with the least `P` among those below their limits.
    #[inline]
    fn first_weighed(&mut self, flows: &mut Flows<MClockFlow>, now: Time) -> Option<FlowId> {
        while let Some((key, f)) = self.weighed.first() {
            let (f, waits) = (FlowId(f), flows.head(FlowId(f)).is_some());
            let state = flows.state_mut(f);
            let limited = begun(state.limited);
            if !waits {
                self.weighed.pop();
                state.place = Place::Nowhere;
            } else if limited > now {
                self.weighed.pop();
                state.place = Place::Limited;
                self.limited.push(limited.0, f.0);
            } else if ahead(state.weighed as u64, key) > 0 {
                self.weighed.postpone_first(state.weighed as u64);
            } else {
                return Some(f);
            }
        }
        None
    }
}

impl Discipline for MClock {
    type State = MClockFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<MClockFlow>) {}

    /// The distance of clocks ahead of the present time stays the same in bytes; a new clock begins
    /// now.
    fn migrate_from(&mut self, old: MClock, flows: &mut Flows<MClockFlow>, now: Time) {
        (self.now, self.by_weight) = (old.now, old.by_weight);
        let now = instant(now);
        for f in (0..old.rules.len() as u32).map(FlowId) {
            let (was, is) = (old.rules[f.index()], self.rules[f.index()]);
            let clock = |clock, was, is| match (was, is) {
                (_, 0) => 0,
                (0, _) => now,
                (was, is) => retagged(clock, now, was, is),
            };
            let waits = flows.head(f).is_some();
            let state = flows.state_mut(f);
            *state = MClockFlow {
                reserved: clock(state.reserved, was.reserved, is.reserved),
                limited: clock(state.limited, was.limited, is.limited),
                weighed: retagged(state.weighed, self.now, was.weighed.into(), is.weighed.into())
                    .min(self.now + FAR),
                ..MClockFlow::default()
            };
            if waits {
                self.enter(state, f);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<MClockFlow>, f: FlowId, now: Time) {
        let (now, rule) = (instant(now), self.rules[f.index()]);
        let state = flows.state_mut(f);
        if rule.reserved > 0 {
            state.reserved = state.reserved.max(now);
        }
        if rule.limited > 0 {
            state.limited = state.limited.max(now);
        }
        state.weighed = state.weighed.max(self.now);
        self.enter(state, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<MClockFlow>, now: Time, _: &Wire) -> Decision {
        let reserved = self.first_reserved(flows);
        if let Some((then, f)) = reserved
            && then <= now
        {
            self.by_weight = false;
            return Decision::Serve(f);
        }
        // The heap of limits is read a second time, because a flow that has just moved there from
        // the heap of weights may be the next whose `L` comes.
        self.first_limited(flows, now);
        if let Some(f) = self.first_weighed(flows, now) {
            self.by_weight = true;
            return Decision::Serve(f);
        }
        let limited = self.first_limited(flows, now);
        match reserved.map(|(then, _)| then).into_iter().chain(limited).min() {
            Some(then) => Decision::NotBefore(then),
            None => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<MClockFlow>, f: FlowId, sent: Sent) {
        let (state, rule) = (flows.state_mut(f), &self.rules[f.index()]);
        let bytes = Instant::from(sent.bytes);
        if self.by_weight {
            // A flow does not accumulate the service that its limit withheld.
            state.weighed = state.weighed.max(self.now);
            self.now = state.weighed;
        } else {
            state.reserved = state.reserved.saturating_add(bytes * rule.reserved);
        }
        if rule.limited > 0 {
            let behind =
                instant(sent.start).saturating_sub(Instant::from(self.largest) * rule.limited);
            state.limited = state.limited.max(behind).saturating_add(bytes * rule.limited);
        }
        state.weighed = (state.weighed + bytes * u128::from(rule.weighed)).min(self.now + FAR);
    }

    fn is_reusable(&self, flows: &Flows<MClockFlow>, f: FlowId, now: Time) -> bool {
        let state = flows.state(f);
        state.reserved.max(state.limited) <= instant(now) && state.weighed <= self.now
    }
}

impl QueueHooks for MClock {}
impl MediumHooks for MClock {}

impl Guarantees for MClock {
    /// The `R` of a backlogged flow is at most a packet ahead of the present time. When it has
    /// come, only packets with an earlier `R` are sent before the flow's packet. Since the last
    /// instant without such packets, each flow with a reservation has had at most the bytes of its
    /// reservation and one packet with an earlier `R`; one other packet may have been on the wire
    /// at that instant. As the reservations fit on the link, this work ends at most `(n L + L)/C`
    /// after the `R`, for `n` flows with reservations, the largest packet `L` and the link's rate
    /// `C`.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Some(rate) = self.rules[f.index()].reservation else {
            return Err(NoGuarantee(
                "a flow without a `reservation` gets by its weight what reservations leave, which may be nothing"
                    .into(),
            ));
        };
        let reserved = self.rules.iter().filter(|rule| rule.reservation.is_some()).count() as u64;
        let others = self.link.airtime_of_many((reserved + 1) * u64::from(self.largest))
            + ROUNDING
            + Span(1);
        Ok(Guarantee {
            rate,
            latency: rate.airtime(self.largest) + others,
            rate_formula: "the reservation r",
            delay: Bound {
                delay: rate.airtime_of_many(
                    self.full_queues[f.index()].saturating_add(self.largest.into()),
                ) + others,
                formula: "(B + L)/r + (n + 1) L/C, n flows with reservations",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// Returns true: in a backlog, an `R` in the past is not set to the present, so no reservation
    /// is lost.
    fn serves_strictly(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Values;
    use crate::scheduler::worked_example::{at_once, order, rate, setup, values};

    fn weight(n: u64) -> Values {
        values([("weight", Value::Count(n))])
    }

    /// Half of the link is reserved for A, so its `R` comes every 8 B. By weight A would get a
    /// quarter.
    #[test]
    fn a_reservation_comes_before_weights() {
        let packets = at_once("AAAAABBBBB", 4);
        let reserved = setup(4, [values([("reservation", rate(500))]), weight(3)]);
        let sent = order(&reserved, MClock::new, &packets);
        assert_eq!(sent, "A1@4 B1@8 A2@12 B2@16 A3@20 B3@24 A4@28 B4@32 A5@36 B5@40");
        let by_weight = setup(4, [Values::default(), weight(2)]);
        let sent = order(&by_weight, MClock::new, &packets);
        assert_eq!(sent, "A1@4 B1@8 B2@12 A2@16 B3@20 B4@24 A3@28 B5@32 A4@36 A5@40");
    }

    /// A gets at most a quarter of the link, 4 B every 16 B, even if no other flow has packets.
    #[test]
    fn a_limit_holds_on_a_free_link() {
        let limited = setup(4, [values([("limit", rate(250))]), Values::default()]);
        let sent = order(&limited, MClock::new, &at_once("AAA", 4));
        assert_eq!(sent, "A1@4 A2@20 A3@36");
        let sent = order(&limited, MClock::new, &at_once("AAAAABBBBB", 4));
        assert_eq!(sent, "A1@4 B1@8 B2@12 B3@16 A2@20 B4@24 B5@28 A3@36 A4@52 A5@68");
    }

    /// Packets chosen by weight do not use up the reservation: B arrives at 11, and A is served
    /// when its `R` of 16 has come.
    #[test]
    fn weights_leave_reservations_as_they_are() {
        let both = setup(4, [values([("reservation", rate(250))]), weight(16)]);
        let packets = [at_once("AAAAA", 4), Vec::from([(11, 'B', 4); 3])].concat();
        let sent = order(&both, MClock::new, &packets);
        assert_eq!(sent, "A1@4 A2@8 A3@12 B1@16 A4@20 B2@24 B3@28 A5@32");
    }
}
