//! Weighted round robin over virtual adapters, with an optional minimum rate.
//!
//! Adamczyk and Chydzinski (2011) replaced Xen's own scheduler
//! ([`netback`](crate::disciplines::netback)) with this discipline. Adapters take turns; the number
//! of packets in a turn is the adapter's priority, and active adapters share the link in proportion
//! to their priorities. A priority is the flow's `weight` here. Priorities may change at run time,
//! and packets sent in the current turn count against the new priority. A packet that was chosen is
//! not dropped before it has left: in falaj a packet stays in its queue until its last bit is sent.
//!
//! An adapter that becomes empty stays active for `delay`. The paper does not define the effect on
//! a turn. Here an adapter that becomes backlogged again within that time continues the rest of its
//! turn, and is next. An adapter that becomes backlogged later joins behind all others, with a
//! whole turn. In either case it sends at most one turn between two turns of another adapter.
//!
//! A minimum rate raises the priority of an adapter whose rate is below the minimum, as the paper
//! proposes: such an adapter goes before all turns. If there are several, they are ordered by the
//! instant at which the minimum rate would have sent their packet. These packets count for the
//! adapter's turn too.
//!
//! Each adapter with a minimum has an instant, from which on it is below the minimum. A packet sent
//! because of the minimum advances the instant by the packet's time at that rate. A packet sent in
//! a turn sets the instant to the packet's start plus that time, if that is later, so service in
//! turns does not reduce the minimum rate. Each instant is a release time; the packet's deadline is
//! the time at which the minimum rate would have sent it. This is earliest-deadline-first with a
//! utilization of at most the whole link, so a packet misses its deadline by one packet of another
//! adapter at most.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::{Place, Round};
use crate::mechanisms::bucket::ids;
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::weights::{Instant, ROUNDING, instant, pace, retagged};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "xen-wrr",
    doc: "weighted round robin in packets, in which a flow keeps its turn over a short pause and \
          goes first while it is below its minimum rate",
    source: "Adamczyk and Chydzinski 2011",
    cost: "O(1), O(log N) with minimum rates",
    guarantee: "minimum rate and delay; if no flow has a minimum rate, rate and delay of its turns",
    guarantee_source: "own derivation",
    aliases: &["xen"],
    scheduler: &[Param {
        name: "delay",
        kind: Kind::Span,
        default: Some("10ms"),
        doc: "time for which a flow without packets keeps the rest of its turn; after that it \
              waits behind all others for a new turn",
    }],
    flow: &[
        Param {
            name: "weight",
            kind: Kind::Count { min: 1, max: 65_536 },
            default: Some("1"),
            doc: "the number of packets that the flow may send in a turn; flows share the link in \
                  proportion, in packets",
        },
        Param {
            name: "min-rate",
            kind: Kind::Rate,
            default: Some("none: the flow is served in turns only"),
            doc: "minimum rate of the flow: while it gets less, it goes before all turns; the sum \
                  over all flows must not exceed the link's rate",
        },
    ],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight"), ("min-rate", "Minimum rate")],
    ..Manifest::PLAIN
};

const USUAL_DELAY: Span = Span::from_millis(10);

/// A minimum rate.
#[derive(Debug, Clone, Copy)]
struct Minimum {
    rate: Rate,
    pace: Instant,
}

/// The weighted round robin of Adamczyk and Chydzinski.
#[derive(Debug, Clone)]
pub struct XenWrr {
    delay: Span,
    weights: Vec<u32>,
    minima: Vec<Option<Minimum>>,
    round: Round,
    /// The adapter whose turn it is. It is not in `round`.
    turn: Option<FlowId>,
    serving: Option<FlowId>,
    /// Adapters that are not below their minimum, by the time from which on they will be below the
    /// minimum.
    above: Tournament<Instant>,
    /// Adapters below their minimum, by the time at which the minimum rate would have sent their
    /// packet.
    below: Tournament<Instant>,
    rate: Rate,
    largest: u64,
    limits: Vec<Limit>,
    full_queues: Vec<u64>,
}

/// State of an adapter.
#[derive(Debug, Clone, Default)]
pub struct XenFlow {
    /// The instant from which on the adapter is below its minimum.
    due: Instant,
    /// The time at which the adapter became empty.
    emptied: Time,
    /// Number of packets that the adapter may still send in its turn.
    left: u32,
    place: Place,
}

impl AsMut<Place> for XenFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl XenWrr {
    /// Validates the setup; flows without a weight get weight 1.
    pub fn new(setup: &Setup) -> Result<XenWrr, ConfigErrors> {
        finite_rate(setup, "round robin")?;
        room_for_one(setup)?;
        let (mut weights, mut minima) = (Vec::new(), Vec::new());
        for (flow, f) in setup.flows.iter().enumerate() {
            let weight = f.values.count("weight").unwrap_or(1);
            if !(1..=65_536).contains(&weight) {
                let (what, help) =
                    (format!("a weight of {weight} is out of range"), "1 to 65536 packets".into());
                return Err(ConfigError { flow: Some(flow), param: "weight", what, help }.into());
            }
            weights.push(weight as u32);
            let rate = f.values.rate("min-rate");
            if rate == Some(Rate(0)) {
                let (what, help) = (
                    "the minimum rate must be above 0".into(),
                    "any rate above 0, or leave it \
                      out"
                    .into(),
                );
                return Err(ConfigError { flow: Some(flow), param: "min-rate", what, help }.into());
            }
            minima.push(rate.map(|rate| Minimum { rate, pace: pace(rate) }));
        }
        let given = minima
            .iter()
            .enumerate()
            .filter_map(|(flow, minimum)| Some((flow, minimum.as_ref()?.rate)));
        if let Some(excess) = Excess::of("min-rate", given, setup.rate) {
            return Err(excess.refused(", or leave it out").into());
        }
        let flows = weights.len();
        Ok(XenWrr {
            delay: setup.scheduler.span("delay").unwrap_or(USUAL_DELAY),
            weights,
            minima,
            round: Round::EMPTY,
            turn: None,
            serving: None,
            above: Tournament::new(flows),
            below: Tournament::new(flows),
            rate: setup.rate,
            largest: u64::from(setup.largest).max(1),
            limits: setup.flows.iter().map(|f| f.limit).collect(),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Updates the place of `f`, above or below its minimum, for its new head or for an empty
    /// queue.
    fn follow(&mut self, flows: &Flows<XenFlow>, f: FlowId, now: Time) {
        let Some(minimum) = self.minima[f.index()] else { return };
        self.above.remove(f);
        self.below.remove(f);
        let Some(bytes) = flows.head(f) else { return };
        let due = flows.state(f).due;
        match due <= instant(now) {
            true => {
                self.below.set(f, due.saturating_add(minimum.pace.saturating_mul(bytes.into())));
            }
            false => self.above.set(f, due),
        }
    }

    /// Updates `f` after a packet of it, perhaps the last one, has left.
    fn settle(&mut self, flows: &mut Flows<XenFlow>, f: FlowId, now: Time) {
        if flows.head(f).is_none() {
            flows.state_mut(f).emptied = now;
        }
        self.follow(flows, f, now);
    }

    fn by_turns(&self, f: FlowId) -> Guarantee {
        let (full, weight) = (self.full_queues[f.index()], u64::from(self.weights[f.index()]));
        let frame: u64 = self.weights.iter().map(|&w| u64::from(w)).sum();
        let between = (frame - weight) * self.largest;
        let (packets, formula) = match self.limits[f.index()] {
            Limit::Packets(b) => (u64::from(b), "(B + m (F-w) L)/C, m = 1 + ceil((b-1)/w)"),
            Limit::Bytes(b) => {
                (b, "(B + m (F-w) L)/C, m = 1 + ceil((B-1)/w), as a packet may have 1 B")
            }
        };
        // The rest of a turn is at least one packet.
        let turns = 1 + packets.saturating_sub(1).div_ceil(weight);
        let delay = self.rate.airtime_of_many(turns.saturating_mul(between).saturating_add(full));
        let share = u128::from(self.rate.0) * u128::from(weight) / u128::from(weight + between);
        Guarantee {
            rate: Rate(share as u64),
            latency: self.rate.airtime_of_many(2 * between + self.largest),
            rate_formula: "C w/(w + (F-w) L) if its packets have 1 B, C w/F if all have one size",
            delay: Bound { delay, formula, condition: "packets that found room" },
            others: Vec::new(),
        }
    }

    fn by_minimum(&self, f: FlowId, rate: Rate) -> Guarantee {
        let (own, other) =
            (rate.airtime_of_many(self.largest), self.rate.airtime_of_many(self.largest));
        let late = other + ROUNDING + Span(1);
        Guarantee {
            rate,
            latency: own + own + late,
            rate_formula: "the minimum rate",
            delay: Bound {
                delay: rate.airtime_of_many(self.full_queues[f.index()]) + own + late,
                formula: "(B + L)/r + L/C",
                condition: "packets that found room",
            },
            others: Vec::new(),
        }
    }

    /// Returns true if a flow other than `f` has a minimum.
    fn others_go_first(&self, f: FlowId) -> bool {
        self.minima
            .iter()
            .enumerate()
            .any(|(other, minimum)| other != f.index() && minimum.is_some())
    }
}

impl Discipline for XenWrr {
    type State = XenFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<XenFlow>) {}

    /// Turns continue; packets sent in the current turn count against the new weight. An adapter
    /// that had a minimum keeps its state: its instant stays ahead of now by the same number of
    /// bytes.
    fn migrate_from(&mut self, old: XenWrr, flows: &mut Flows<XenFlow>, now: Time) {
        (self.round, self.turn, self.serving) = (old.round, old.turn, old.serving);
        for f in ids(old.weights.len()) {
            let (was, is) = (old.weights[f.index()], self.weights[f.index()]);
            let state = flows.state_mut(f);
            state.left = is.saturating_sub(was - state.left.min(was));
            state.due = match (old.minima[f.index()], self.minima[f.index()]) {
                (Some(old), Some(new)) => {
                    retagged(state.due.max(instant(now)), instant(now), old.pace, new.pace)
                }
                _ => instant(now),
            };
            if self.serving != Some(f) {
                self.follow(flows, f, now);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<XenFlow>, f: FlowId, now: Time) {
        let weight = self.weights[f.index()];
        let state = flows.state_mut(f);
        state.due = state.due.max(instant(now));
        if self.turn != Some(f) {
            let goes_on = state.left > 0 && now.since(state.emptied) < self.delay;
            if goes_on {
                self.round.lead(flows, f);
            } else {
                state.left = weight;
                self.round.join(flows, f);
            }
        }
        self.follow(flows, f, now);
    }

    fn head_changed(&mut self, flows: &mut Flows<XenFlow>, f: FlowId, now: Time) {
        if self.serving != Some(f) {
            self.settle(flows, f, now);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<XenFlow>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.settle(flows, f, now);
        }
        while let Some((due, f)) = self.above.first()
            && due <= instant(now)
        {
            self.follow(flows, f, now);
        }
        if let Some((_, f)) = self.below.first() {
            return Decision::Serve(f);
        }
        while let Some(f) = self.turn.or_else(|| self.round.leave(flows)) {
            self.turn = None;
            if flows.head(f).is_none() {
                continue;
            }
            if flows.state(f).left > 0 {
                self.turn = Some(f);
                return Decision::Serve(f);
            }
            flows.state_mut(f).left = self.weights[f.index()];
            self.round.join(flows, f);
        }
        Decision::Idle
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<XenFlow>, f: FlowId, sent: Sent) {
        let state = flows.state_mut(f);
        state.left = state.left.saturating_sub(1);
        if let Some(minimum) = self.minima[f.index()] {
            let (start, time) =
                (instant(sent.start), minimum.pace.saturating_mul(sent.bytes.into()));
            state.due = match state.due <= start {
                true => state.due.saturating_add(time),
                false => state.due.max(start.saturating_add(time)),
            };
        }
        self.above.remove(f);
        self.below.remove(f);
        self.serving = Some(f);
    }

    /// The rest of a turn counts until the delay is over. If the adapter's instant is ahead of now,
    /// the flow was served in advance, so its state counts until that instant.
    fn is_reusable(&self, flows: &Flows<XenFlow>, f: FlowId, now: Time) -> bool {
        let state = flows.state(f);
        let pauses = state.left > 0 && now.since(state.emptied) < self.delay;
        !pauses && (self.minima[f.index()].is_none() || state.due <= instant(now))
    }
}

impl QueueHooks for XenWrr {}
impl MediumHooks for XenWrr {}

impl Guarantees for XenWrr {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        match self.minima[f.index()] {
            Some(minimum) => Ok(self.by_minimum(f, minimum.rate)),
            None if self.others_go_first(f) => Err(NoGuarantee(
                "flows below their minimum rates go first, and this flow has none; give it a \
                 `min-rate`"
                    .into(),
            )),
            None => Ok(self.by_turns(f)),
        }
    }

    fn serves_strictly(&self) -> bool {
        true
    }

    /// Turns depend on work alone; minimum rates depend on the clock.
    fn service_behind(&self, f: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        if self.minima.iter().any(Option::is_some) {
            return Err(NoGuarantee(
                "minimum rates are guaranteed only directly on a link, but this scheduler divides \
                 a flow of another discipline"
                    .into(),
            ));
        }
        Ok(self.service(f)?.after(server.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{at_once, order, rate, time, values, weights};

    /// Weights 3 and 1, and a pause of A. If the pause is shorter than the delay, A continues its
    /// turn, of which two packets are left; otherwise A has a whole turn.
    #[test]
    fn an_adapter_that_comes_back_soon_goes_on_with_its_turn() {
        let sent = |delay| {
            let scheduler = values([("delay", time(delay))]);
            // A1 is alone; B's packets arrive while it is sent, A's others at byte 6.
            let packets = [[(0, 'A', 4)].as_slice(), &[(1, 'B', 4); 3], &[(6, 'A', 4); 3]].concat();
            order(&Setup { scheduler, ..weights(4, &[3, 1]) }, XenWrr::new, &packets)
        };
        assert_eq!(sent(125), "A1@4 B1@8 A2@12 A3@16 B2@20 A4@24 B3@28");
        assert_eq!(sent(0), "A1@4 B1@8 A2@12 A3@16 A4@20 B2@24 B3@28");
    }

    /// B gets at least a quarter of the link, although its turn is only one packet of six.
    #[test]
    fn an_adapter_below_its_minimum_goes_first() {
        let mut setup = weights(4, &[5, 1]);
        setup.flows[1].values.set("min-rate", rate(250));
        // B is below its minimum from 0, 16, 32 and so on, until its packet is sent.
        let sent = order(&setup, XenWrr::new, &at_once("AAAAAAABBBBBBB", 4));
        let expected =
            "A1@4 B1@8 A2@12 A3@16 B2@20 A4@24 A5@28 A6@32 B3@36 A7@40 B4@44 B5@48 B6@52 B7@56";
        assert_eq!(sent, expected);
    }
}
