//! Hierarchical fair service curves (H-FSC): delay and rate of a flow are set independently.
//!
//! Stoica, Zhang and Ng, "A hierarchical fair service curve algorithm for link-sharing, real-time
//! and priority services" (1997). A flow has up to three curves of two pieces each. The pieces of
//! the real-time curve are `burst-rate` for `burst-time`, then `rate`. The curves are:
//! - real-time: deadlines as in [SCED](crate::disciplines::sced), with two differences. Only
//!   packets that were sent by this criterion count. A packet is considered only when it is
//!   *eligible*, that is, when further waiting could make it impossible to keep a later deadline.
//!   The eligible packet with the earliest deadline is sent first.
//! - link-sharing: if no packet is eligible, the class with the least virtual time is served. A
//!   class's virtual time is the time at which its curve reaches all bytes that the class has sent.
//!   So a flow that uses excess capacity is not penalized later; in SCED it is penalized.
//! - an upper limit: link-sharing does not serve the flow until the curve reaches all bytes that
//!   the flow has sent. Service by the real-time criterion may exceed this limit.
//!
//! Each piece of a curve is a part of a line. A line is represented by a clock, which each byte
//! advances. `sced.rs` explains the arithmetic, and the conditions under which it is exact.
//!
//! *Trees.* A class that is itself divided by H-FSC has a link-sharing curve and an upper limit.
//! Only leaves have real-time curves, whose deadlines are compared across the whole tree. The
//! remaining capacity is shared from the link down: each node serves the class with the least
//! virtual time, among the classes that are below their limits and have a packet. A packet of a
//! leaf counts for all classes above it, whether the real-time or the link-sharing criterion sent
//! it. Virtual times are clocks as well. Each node has a virtual time of its own, which is that of
//! the last packet that it sent by link-sharing. A leaf that becomes backlogged again starts at
//! this time, and a chosen class starts no earlier. So no class accumulates a claim to service
//! while it is idle. (The paper uses the middle between the least and the largest virtual time of
//! the active classes. Here the least virtual time is used: it differs from the middle by at most a
//! packet's virtual time, and needs no second heap.)

mod class;
mod order;

use crate::collections::calendar::Calendar;
use crate::collections::quad_heap::Heap;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{Dice, Draw};
use crate::contract::guarantee::{Bound, Deadlines, Guarantee, Guarantees, behind, full_queue};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup, Values};
use crate::contract::transmission::Sent;
use crate::mechanisms::classes::{Classes, LINK, Shape};
use crate::mechanisms::curve::{Curve, fits};
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::weights::{Instant, ROUNDING, instant};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;
use class::{Class, Clocks, Pieces, Shared, Timed, clocks, curve};

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "hfsc",
    doc: "hierarchical fair service curves: each flow has up to three curves of two slopes, for \
          its guarantee, its share of the remaining capacity, and its maximum, O(log N)",
    source: "Stoica, Zhang and Ng 1997",
    cost: "O(log N), at each level of a tree",
    guarantee: "its real-time curve, and delay",
    guarantee_source: "Stoica, Zhang and Ng 1997",
    purposes: &[Purpose::Delay, Purpose::Rate],
    aliases: &["hierarchical fair service curve"],
    example: Example {
        scheduler: "",
        calls: "rate = \"10mbit\"\nburst-rate = \"40mbit\"\nburst-time = \"5ms\"",
        rest: "share = \"60mbit\"",
    },
    flow: &[
        Param {
            name: "rate",
            kind: Kind::Rate,
            default: Some("none: no guarantee, only a share of the remaining capacity"),
            doc: "rate guaranteed to the flow: the second slope of its real-time curve; a flow \
                  that is divided has none",
        },
        Param {
            name: "burst-rate",
            kind: Kind::Rate,
            default: Some("the value of `rate`"),
            doc: "guaranteed rate during the first `burst-time` of a backlog (first slope of the \
                  real-time curve); above `rate` it shortens delays",
        },
        Param {
            name: "burst-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "time from the start of a backlog for which `burst-rate` holds, up to 3600s",
        },
        Param {
            name: "share",
            kind: Kind::Rate,
            default: Some(
                "the value of `rate`; 1mbit without one; for a divided flow, the sum over its \
                 parts",
            ),
            doc: "the flow's part of the capacity that guarantees leave: flows share it in \
                  proportion to these rates (second slope of the link-sharing curve)",
        },
        Param {
            name: "share-burst",
            kind: Kind::Rate,
            default: Some("the value of `share`"),
            doc: "share during the first `share-time` of a backlog (first slope of the \
                  link-sharing curve)",
        },
        Param {
            name: "share-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "time, in the flow's virtual time, for which `share-burst` holds, up to 3600s",
        },
        Param {
            name: "limit",
            kind: Kind::Rate,
            default: Some("none"),
            doc: "maximum rate of the flow as it shares the link (second slope of its upper-limit \
                  curve); service that its guarantee needs may exceed it",
        },
        Param {
            name: "limit-burst",
            kind: Kind::Rate,
            default: Some("the value of `limit`"),
            doc: "maximum rate during the first `limit-time` of a backlog (first slope of the \
                  upper-limit curve)",
        },
        Param {
            name: "limit-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "time from the start of a backlog for which `limit-burst` holds, up to 3600s",
        },
    ],
    idles: Some(Idling { why: "a flow has a limit", only_with: Some("limit") }),
    whole_trees: true,
    cap_key: Some("limit"),
    editable: &[("rate", "Rate"), ("share", "Share"), ("limit", "Cap")],
    draw: Draw { fit, leaves_only: &["rate", "burst-rate", "burst-time"], ..Draw::INDEPENDENT },
    ..Manifest::PLAIN
};

/// Removes from a random setup the first pieces of curves that have no second piece.
fn fit(setup: &mut Setup, _: Dice<'_>) {
    for flow in &mut setup.flows {
        let has = |name: &str| flow.values.get(name).is_some();
        let whole = |name: &str| match name {
            "burst-rate" | "burst-time" => has("rate"),
            "share-burst" | "share-time" => has("share"),
            "limit-burst" | "limit-time" => has("limit"),
            _ => true,
        };
        let kept = flow.values.iter().filter(|&(name, _)| whole(name));
        flow.values = kept.fold(Values::default(), |all, (name, value)| all.with(name, value));
    }
}

/// Hierarchical fair service curves.
#[derive(Debug, Clone)]
pub struct Hfsc {
    shape: Shape,
    classes: Vec<Class>,
    /// The clocks of the classes' upper limits.
    limits: Vec<Clocks>,
    /// The leaves' real-time curves, as slopes and times.
    guaranteed: Vec<Option<Pieces>>,
    /// Leaves that are not eligible yet, ordered by the time at which they become eligible.
    held: Calendar,
    /// Leaves that are eligible, ordered by deadline.
    eligible: Calendar,
    /// The nodes of the tree: the link, and each class that is divided.
    nodes: Vec<Node>,
    /// Classes that have reached their upper limit, ordered by the time at which the limit allows a
    /// packet again.
    limited: Calendar,
    /// True if the last decision was made by link-sharing, not by the real-time criterion.
    by_sharing: bool,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// A node that shares capacity among its classes.
#[derive(Debug, Clone)]
struct Node {
    /// Classes that may be served, ordered by virtual time.
    sharing: Heap,
    /// Virtual time of the last packet that the node sent by link-sharing.
    now: Instant,
    /// The node's state as a class of the node above.
    own: Shared,
}

/// State of a leaf.
#[derive(Debug, Clone, Default)]
pub struct HfscFlow {
    real_time: Clocks,
    shared: Shared,
}

/// The clocks, each set to `least` if it is earlier.
fn no_earlier(clocks: Clocks, least: Instant) -> Clocks {
    clocks.map(|clock| clock.max(least))
}

impl Hfsc {
    /// Validates the setup: the sum of the real-time curves must not exceed the link's rate.
    pub fn new(setup: &Setup) -> Result<Hfsc, ConfigErrors> {
        let all = Classes::new("hfsc", "fair service curves", setup)?;
        let leaves = all.shape.leaves();
        let mut pieces = Vec::with_capacity(leaves);
        let (mut curves, mut shares) = (Vec::with_capacity(all.setups.len()), Vec::new());
        for (class, number, f) in all.iter() {
            let real_time = curve(number, f, ["rate", "burst-rate", "burst-time"])?;
            if all.shape.is_leaf(class) {
                pieces.push(real_time.unwrap_or((Rate(0), Span::ZERO, Rate(0))));
            } else if real_time.is_some() {
                return Err(ConfigError {
                    flow: Some(number),
                    param: "rate",
                    what: "a class that is divided has no real-time curve: its parts have".into(),
                    help: "give it a `share`, and its parts a `rate`".into(),
                }
                .into());
            }
            let sharing = curve(number, f, ["share", "share-burst", "share-time"])?;
            curves.push([
                real_time,
                sharing,
                curve(number, f, ["limit", "limit-burst", "limit-time"])?,
            ]);
            let none = if all.shape.is_leaf(class) { Rate::from_mbit(1).0 } else { 0 };
            shares.push(sharing.or(real_time).map_or(none, |(_, _, rate)| rate.0));
        }
        // The order is reversed: a divided class precedes the divided classes below it, so the sums
        // of the lower classes are complete first.
        for class in (0..all.shape.len()).rev() {
            if shares[class] == 0 && class >= leaves {
                let below = all.shape.below(all.shape.node(class as u32));
                shares[class] =
                    below.map(|below| shares[below as usize]).fold(0, u64::saturating_add);
            }
        }
        let rates = pieces.iter().zip(&all.numbers).map(|(&(_, _, rate), &number)| (number, rate));
        if let Some(excess) = Excess::of("rate", rates, setup.rate) {
            return Err(excess
                .refused("; or give some a `share` instead, which counts in proportion")
                .into());
        }
        fits(setup, &pieces).map_err(|refused| ConfigError {
            flow: refused.flow.map(|leaf| all.numbers[leaf]),
            ..refused
        })?;
        let new = |(first, time, rate): Pieces| Curve::new(first, time, rate);
        let class = |([real_time, sharing, limit], share): ([Option<Pieces>; 3], u64)| Class {
            real_time: real_time.map(new),
            sharing: new(sharing.unwrap_or((Rate(share), Span::ZERO, Rate(share)))),
            limit: limit.map(new),
        };
        let node = |node| Node {
            sharing: Heap::new(all.shape.below(node).count()),
            now: 0,
            own: Shared::default(),
        };
        let guaranteed = curves[..leaves].iter().map(|[real_time, ..]| *real_time).collect();
        Ok(Hfsc {
            limits: vec![[0; 2]; all.shape.len()],
            guaranteed,
            classes: curves.into_iter().zip(shares).map(class).collect(),
            held: Calendar::new(leaves),
            eligible: Calendar::new(leaves),
            nodes: (0..all.shape.nodes()).map(node).collect(),
            limited: Calendar::new(all.shape.len()),
            by_sharing: false,
            link: setup.rate,
            largest: setup.largest,
            full_queues: all.setups[..leaves].iter().map(|f| full_queue(setup, f.limit)).collect(),
            shape: all.shape,
        })
    }

    /// Maximum time from a packet's deadline to the departure of its last bit: the transmission
    /// time of the largest packet, and rounding.
    fn late(&self) -> Span {
        self.link.airtime_of_many(u64::from(self.largest)) + ROUNDING + Span(1)
    }
}

impl Discipline for Hfsc {
    type State = HfscFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<HfscFlow>) {}

    /// The distance of each clock from the present time stays the same in bytes; a new curve begins
    /// now. Classes above the leaves keep their state if the tree above the leaves is unchanged;
    /// otherwise they start with new state.
    fn migrate_from(&mut self, old: Hfsc, flows: &mut Flows<HfscFlow>, now: Time) {
        self.by_sharing = old.by_sharing;
        let (time, keeps) = (instant(now), self.shape.keeps(&old.shape));
        let limit = |is: &Class, was: &Class, clock| clocks(&was.limit, &is.limit, clock, time);
        for (node, was) in old.nodes.iter().enumerate().filter(|_| keeps) {
            self.nodes[node].now = was.now;
            if node != LINK {
                let (class, before) = (self.shape.class(node), old.shape.class(node));
                let above = self.nodes[self.shape.above(class)].now;
                let (is, old, old_limits) =
                    (&self.classes[class as usize], &old.classes[before as usize], &old.limits);
                self.nodes[node].own = is.inherit(old, &was.own, above);
                self.limits[class as usize] = limit(is, old, old_limits[before as usize]);
            }
        }
        for f in (0..old.shape.leaves() as u32).map(FlowId) {
            let (was, is) = (&old.classes[f.index()], &self.classes[f.index()]);
            let (before, node) = (old.shape.above(f.0), self.shape.above(f.0));
            let above = self.nodes[node].now;
            let state = flows.state_mut(f);
            let mut shared = is.inherit(was, &state.shared, old.nodes[before].now);
            self.limits[f.index()] = limit(is, was, old.limits[f.index()]);
            if !keeps || before != node {
                shared.sharing = [above; 2];
            }
            let real_time = clocks(&was.real_time, &is.real_time, state.real_time, time);
            *state = HfscFlow { real_time, shared };
            if flows.head(f).is_some() {
                // At time zero no leaf is eligible, so each leaf is entered as held. That is also
                // right if its head is on the wire, because such a head no longer has a deadline.
                self.enter(flows, f, Time::ZERO);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, now: Time) {
        let above = self.nodes[self.shape.above(f.0)].now;
        let state = flows.state_mut(f);
        state.real_time = no_earlier(state.real_time, instant(now));
        state.shared.sharing = no_earlier(state.shared.sharing, above);
        (state.shared.moved, state.shared.moved_on) = (true, true);
        if self.classes[f.index()].limit.is_some() {
            self.limits[f.index()] = no_earlier(self.limits[f.index()], instant(now));
        }
        self.enter(flows, f, now);
    }

    /// The new head may have another deadline than the old one, so an eligible leaf is removed from
    /// its calendar and entered again.
    fn head_changed(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, now: Time) {
        if flows.state(f).shared.timed == Timed::Eligible {
            self.eligible.clear(f.index());
            flows.state_mut(f).shared.timed = Timed::Nowhere;
        }
        if flows.head(f).is_some() {
            self.enter(flows, f, now);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<HfscFlow>, now: Time, _: &Wire) -> Decision {
        self.wake_held(flows, now);
        if let Some(f) = self.first_eligible(flows, now) {
            self.by_sharing = false;
            return Decision::Serve(f);
        }
        self.wake_limited(flows, now);
        if let Some(f) = self.first_sharing(flows, now) {
            self.by_sharing = true;
            return Decision::Serve(f);
        }
        // A leaf that turned out not to be eligible is in the calendar of held leaves now.
        let held = self.first_held(flows);
        match held.into_iter().chain(self.first_limited(flows)).min() {
            Some(then) => Decision::NotBefore(then),
            None => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, sent: Sent) {
        let class = &self.classes[f.index()];
        let state = flows.state_mut(f);
        if let (false, Some(curve)) = (self.by_sharing, &class.real_time) {
            state.real_time = curve.after(state.real_time, sent.bytes);
        }
        state.shared.moved_on = true;
        let (by_sharing, largest) = (self.by_sharing, self.largest);
        let mut node = self.shape.above(f.0);
        class.send(&mut state.shared, &mut self.nodes[node].now, by_sharing, sent);
        class.use_limit(&mut self.limits, f.0, largest, sent);
        while node != LINK {
            let class = self.shape.class(node);
            let above = self.shape.above(class);
            let (mut now, rules) = (self.nodes[above].now, &self.classes[class as usize]);
            rules.send(&mut self.nodes[node].own, &mut now, by_sharing, sent);
            rules.use_limit(&mut self.limits, class, largest, sent);
            self.nodes[above].now = now;
            node = above;
        }
    }

    fn is_reusable(&self, flows: &Flows<HfscFlow>, f: FlowId, now: Time) -> bool {
        let state = flows.state(f);
        let over = |clocks| Curve::is_over(clocks, instant(now));
        let shared = Curve::is_over(state.shared.sharing, self.nodes[self.shape.above(f.0)].now);
        over(state.real_time) && over(self.limits[f.index()]) && shared
    }
}

impl QueueHooks for Hfsc {}
impl MediumHooks for Hfsc {}

impl Guarantees for Hfsc {
    /// A packet leaves at most `L/C` after its deadline (theorem 2 of the paper). `L` is the
    /// largest packet, `C` the link's rate. The deadlines of a backlogged flow lie on its curve,
    /// which begins at most the time of a packet at the second slope after the present time. If the
    /// first slope is the lower one, deadlines are later by the distance of the curve behind a line
    /// of the second slope.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Some((first, time, rate)) = self.guaranteed[f.index()] else {
            return Err(NoGuarantee(
                "a flow without a real-time `rate` gets a share of the capacity that real-time curves leave, which may be none"
                    .into(),
            ));
        };
        let late = self.late() + behind(first, time, rate);
        let own = rate.airtime(self.largest);
        Ok(Guarantee {
            rate,
            latency: own + own + late,
            rate_formula: "the second slope r of the real-time curve",
            delay: Bound {
                delay: rate.airtime_of_many(
                    self.full_queues[f.index()].saturating_add(self.largest.into()),
                ) + late,
                formula: "(B + L)/r + L/C + max(0, (r - r1) T/r), r1 for T before r",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// The curve counts only the packets that the real-time criterion sent, which are some or all
    /// of the flow's packets.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        Some(Deadlines::new(self.guaranteed[f.index()]?, self.late()))
    }

    /// Returns true: service by link-sharing does not change the deadlines of a backlogged flow.
    fn serves_strictly(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{
        at_once, departures, order, packet, rate, setup, time, values,
    };
    use std::string::String;

    /// Times are in bytes of the link. A's curve has the slope of a quarter of the link for a time
    /// of 4, and then of a half. A gets the excess capacity by link-sharing, and is not penalized
    /// when B arrives 1/8 before 4. B's deadlines are 5 1/3, 6 2/3, 8 and 10, each minus 1/8. So
    /// B's last deadline is 1/8 earlier than A's deadline of 10.
    #[test]
    fn excess_is_not_punished() {
        let curve = |first| {
            let line = [("rate", rate(500)), ("share", rate(500))];
            values(line).with("burst-rate", rate(first)).with("burst-time", time(4))
        };
        let setup = setup(4, [curve(250), curve(750)]);
        let mut packets = vec![packet(Time::ZERO, 0, 1); 6];
        packets.extend([packet(Time(3_875), 1, 1); 6]);
        let sent = departures(&setup, Hfsc::new, &packets);
        let flow = |flow: FlowId| if flow.0 == 0 { 'A' } else { 'B' };
        let flows: String = sent.iter().map(|(packet, _)| flow(packet.flow)).collect();
        assert_eq!(flows, "AAAABABBBABB");
        let of_b = sent.iter().filter(|(packet, _)| packet.flow.0 == 1);
        let ends: Vec<u64> = of_b.map(|(_, sent)| sent.end.0 / 1_000).collect();
        assert_eq!(ends, [5, 7, 8, 9, 11, 12]);
    }

    /// Link-sharing without real-time curves: A and B have shares of one third and two thirds. Then
    /// A has an upper limit of a quarter of the link.
    #[test]
    fn link_sharing_is_in_proportion_and_has_a_limit() {
        let share = |thousandths| values([("share", rate(thousandths))]);
        let packets = at_once("AAAAABBBBB", 4);
        let sent = order(&setup(4, [share(10), share(20)]), Hfsc::new, &packets);
        assert_eq!(sent, "A1@4 B1@8 B2@12 A2@16 B3@20 B4@24 A3@28 B5@32 A4@36 A5@40");
        let limited = setup(4, [share(10).with("limit", rate(250)), share(10)]);
        let sent = order(&limited, Hfsc::new, &packets[..3]);
        assert_eq!(sent, "A1@4 A2@20 A3@36");
        let sent = order(&limited, Hfsc::new, &packets);
        assert_eq!(sent, "A1@4 B1@8 B2@12 B3@16 A2@20 B4@24 B5@28 A3@36 A4@52 A5@68");
    }

    /// The slow first piece of a curve counts only once: after it, shares and limits follow the
    /// second slope for the rest of the backlog.
    #[test]
    fn a_slow_first_piece_counts_once() {
        let slow = |[line, first, until]: [&'static str; 3], thousandths| {
            values([(line, rate(thousandths)), (first, rate(1)), (until, time(500))])
        };
        // A first piece of 500 us of virtual time, at a thousandth of the link, allows an eighth of
        // a packet. So the first packet of each flow passes the end of the first piece. From then
        // on B gets two packets for each packet of A.
        let sharing = ["share", "share-burst", "share-time"];
        let shared = setup(4, [slow(sharing, 10), slow(sharing, 20)]);
        let packets = [0, 1].map(|flow| vec![packet(Time::ZERO, flow, 4); 600]).concat();
        let sent = departures(&shared, Hfsc::new, &packets);
        let of_the_first = sent[..900].iter().filter(|(packet, _)| packet.flow.0 == 0).count();
        assert!((298..=302).contains(&of_the_first), "{of_the_first} of 900");

        // A packet takes 16 us at a quarter of the link. The first piece, 500 us at a thousandth,
        // allows half a byte.
        let limited = setup(4, [slow(["limit", "limit-burst", "limit-time"], 250)]);
        let sent = departures(&limited, Hfsc::new, &[packet(Time::ZERO, 0, 4); 400]);
        let starts: Vec<Time> = sent.iter().map(|(_, sent)| sent.start).collect();
        assert_eq!(starts[0], Time::ZERO);
        let gaps: Vec<Span> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[1..].iter().all(|gap| *gap == Span::from_micros(16)), "{gaps:?}");
        assert!((500_000..525_000).contains(&gaps[0].0), "{gaps:?}");
    }
}
