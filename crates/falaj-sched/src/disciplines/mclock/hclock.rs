//! hClock: a minimum rate, a maximum rate and a weight for each class of a tree.
//!
//! Billaud and Gulati, "hClock: hierarchical QoS for packet scheduling in a hypervisor" (2013).
//! Each class has the three clocks of [mClock](crate::disciplines::mclock): `R` for its
//! reservation, `L` for its limit, `P` for its weight. From the link down, each node chooses among
//! its own classes with packets. If the `R` of any class has come, the class with the earliest `R`
//! is chosen; otherwise one of the classes whose `L` has come is chosen by weight. So the service
//! that a class gets by its reservation is given first to the reservations below it, and the rest
//! by weight.
//!
//! - A reservation is served out of the reservation of the class above. Therefore a divided class's
//!   reservation must be at least the sum of the reservations below it; the default is this sum.
//! - At each node, a packet advances the clock by which the node has chosen: `R` or `P`. Every
//!   packet advances `L`.
//! - A class chosen by weight starts no earlier than the class that its node chose by weight
//!   before, so that no class accumulates service.
//!
//! - When a class becomes backlogged again after a pause, its clocks that are in the past are set
//!   to the present time, as in mClock. The same happens to a class whose `R` came while all
//!   classes below it were at their limits: the service that it did not use then is lost.
//!
//! A class with a reservation has an entry in `due` if its `R` has come, otherwise in `coming`.
//! Each class also has an entry in `weighed` if its `L` has come, otherwise in `limited`. A class
//! of which no packet may be served has no entry until a packet arrives, or an `R` or `L` below it
//! comes. Outdated entries are corrected when they reach the top.

use crate::collections::quad_heap::Heap;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Bound, Guarantee, Guarantees, full_queue};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::disciplines::mclock::{FAR, Rule, weight};
use crate::mechanisms::bucket::begun;
use crate::mechanisms::classes::{Classes, LINK, Shape};
use crate::mechanisms::flow_tag::ahead;
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::virtual_time::unit;
use crate::mechanisms::weights::{Instant, ROUNDING, instant, retagged};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Hierarchical mClock.
#[derive(Debug, Clone)]
pub struct HClock {
    shape: Shape,
    rules: Vec<Rule>,
    clocks: Vec<Clocks>,
    /// The nodes of the tree: the link, and each class that is divided.
    nodes: Vec<Node>,
    /// Classes with reservations whose `R` is still to come, ordered by `R`.
    coming: Heap,
    /// Classes that have reached their limits, ordered by `L`.
    limited: Heap,
    /// For each leaf, true if it had packets when it was last examined.
    backlogged: Vec<bool>,
    serving: Option<FlowId>,
    /// The levels at which the last decision was made by reservation, one bit each; bit 0 is the
    /// first level below the link.
    by_reservation: u32,
    link: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// A node that chooses among classes.
#[derive(Debug, Clone)]
struct Node {
    /// Classes whose `R` has come, ordered by `R`.
    due: Heap,
    /// Classes that may be served by weight, ordered by `P`.
    weighed: Heap,
    /// `P` of the last packet chosen by weight.
    now: u128,
    /// Number of classes directly below the node that have packets.
    backlogged: u32,
}

#[derive(Debug, Clone, Default)]
struct Clocks {
    reserved: Instant,
    limited: Instant,
    weighed: u128,
    reservation: Reservation,
    place: Place,
}

/// The heap with a class's entry for its reservation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Reservation {
    #[default]
    Nowhere,
    Coming,
    Due,
}

/// The heap with a class's other entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Weighed,
    Limited,
}

impl HClock {
    /// Validates the setup: the sum of the reservations below a class must fit into the reservation
    /// of that class.
    pub fn new(setup: &Setup) -> Result<HClock, ConfigErrors> {
        let all = Classes::new("mclock", "mClock", setup)?;
        let (shape, leaves) = (&all.shape, all.shape.leaves());
        let mut below = alloc::vec![0u128; shape.nodes()];
        let mut rules = alloc::vec![Rule::default(); shape.len()];
        let bytes: Vec<u128> = (0..shape.nodes())
            .map(|node| unit(shape.below(node).map(|class| weight(all.setups[class as usize]))))
            .collect();
        // The leaves come first, then the divided classes from the deepest up, so that the classes
        // below each class are known.
        let order = (0..leaves).chain((leaves..shape.len()).rev());
        for class in order {
            let (number, f) = (all.numbers[class], all.setups[class]);
            let refused = |param, what, help| ConfigError { flow: Some(number), param, what, help };
            let mut rule = Rule::of(number, f, bytes[shape.above(class as u32)])?;
            if class >= leaves {
                let sum = below[shape.node(class as u32)];
                let sum = Rate(u64::try_from(sum).unwrap_or(u64::MAX));
                match rule.reservation {
                    Some(own) if own < sum => {
                        let what = format!(
                            "its parts have reservations of {sum} together, and it has one of {own}"
                        );
                        return Err(refused(
                            "reservation",
                            what,
                            format!("at least {sum}, or leave it out, which means {sum}"),
                        )
                        .into());
                    }
                    None if sum.0 > 0 => rule.reserve(sum),
                    _ => {}
                }
                rule.fits(number, f)?;
            }
            below[shape.above(class as u32)] +=
                u128::from(rule.reservation.map_or(0, |rate| rate.0));
            rules[class] = rule;
        }
        let at_the_link = (0..shape.len()).filter(|&class| shape.above(class as u32) == LINK);
        let reserved =
            at_the_link.filter_map(|class| Some((all.numbers[class], rules[class].reservation?)));
        if let Some(excess) = Excess::of("reservation", reserved, setup.rate) {
            return Err(excess.refused("; the rest is shared by `weight`").into());
        }
        let node = |node| {
            let heap = || Heap::new(shape.below(node).count());
            Node { due: heap(), weighed: heap(), now: 0, backlogged: 0 }
        };
        Ok(HClock {
            clocks: alloc::vec![Clocks::default(); rules.len()],
            rules,
            nodes: (0..shape.nodes()).map(node).collect(),
            coming: Heap::new(shape.len()),
            limited: Heap::new(shape.len()),
            backlogged: alloc::vec![false; leaves],
            serving: None,
            by_reservation: 0,
            link: setup.rate,
            largest: setup.largest,
            full_queues: all.setups[..leaves].iter().map(|f| full_queue(setup, f.limit)).collect(),
            shape: all.shape,
        })
    }

    #[inline]
    fn is_idle(&self, flows: &Flows<()>, class: u32) -> bool {
        match self.shape.is_leaf(class) {
            true => flows.head(FlowId(class)).is_none(),
            false => self.nodes[self.shape.node(class)].backlogged == 0,
        }
    }

    /// Marks a leaf, and the classes above it, as backlogged. If a class was not backlogged, its
    /// `R` and `L` are set to now if they are in the past. Its `P` is then at least that of the
    /// last packet that the node above chose by weight.
    fn comes(&mut self, f: FlowId, now: Time) {
        if core::mem::replace(&mut self.backlogged[f.index()], true) {
            return;
        }
        let mut class = f.0;
        loop {
            let node = self.shape.above(class);
            let (clocks, rule) = (&mut self.clocks[class as usize], &self.rules[class as usize]);
            if rule.reserved > 0 {
                clocks.reserved = clocks.reserved.max(instant(now));
            }
            if rule.limited > 0 {
                clocks.limited = clocks.limited.max(instant(now));
            }
            clocks.weighed = clocks.weighed.max(self.nodes[node].now);
            self.nodes[node].backlogged += 1;
            if node == LINK || self.nodes[node].backlogged > 1 {
                return;
            }
            class = self.shape.class(node);
        }
    }

    /// Marks a leaf as empty, and also the classes above it that have no other packets.
    fn goes(&mut self, f: FlowId) {
        if !core::mem::take(&mut self.backlogged[f.index()]) {
            return;
        }
        for class in self.shape.path(f.0) {
            let above = &mut self.nodes[self.shape.above(class)].backlogged;
            *above -= 1;
            if *above > 0 {
                break;
            }
        }
    }

    /// Enters a class, and the classes above it, in all heaps in which their entries are missing.
    fn enter(&mut self, class: u32, now: Time) {
        let mut next = Some(class);
        while let Some(class) = next {
            let node = self.shape.above(class);
            let clocks = &mut self.clocks[class as usize];
            if clocks.reservation == Reservation::Nowhere && self.rules[class as usize].reserved > 0
            {
                clocks.reserved = clocks.reserved.max(instant(now));
                clocks.reservation = Reservation::Coming;
                self.coming.push(begun(clocks.reserved).0, class);
            }
            if clocks.place == Place::Nowhere {
                clocks.place = Place::Weighed;
                self.nodes[node].weighed.push(clocks.weighed as u64, class);
            }
            next = (node != LINK).then(|| self.shape.class(node));
        }
    }

    /// Moves the entries of classes whose `R` or `L` has come. Returns the instant at which the
    /// next `R` or `L` comes.
    fn wake(&mut self, flows: &Flows<()>, now: Time) -> Option<Time> {
        let mut next = None;
        // Limits come first, because a class that is entered by them may have an `R` that has come.
        while let Some((at, class)) = self.limited.first() {
            let is = begun(self.clocks[class as usize].limited);
            if self.is_idle(flows, class) {
                self.limited.pop();
                self.clocks[class as usize].place = Place::Nowhere;
            } else if is <= now {
                self.limited.pop();
                self.clocks[class as usize].place = Place::Nowhere;
                self.enter(class, now);
            } else if is.0 != at {
                self.limited.postpone_first(is.0);
            } else {
                next = Some(is);
                break;
            }
        }
        while let Some((at, class)) = self.coming.first() {
            let clocks = &mut self.clocks[class as usize];
            let is = begun(clocks.reserved);
            if self.is_idle(flows, class) {
                self.coming.pop();
                self.clocks[class as usize].reservation = Reservation::Nowhere;
            } else if is <= now {
                self.coming.pop();
                self.clocks[class as usize].reservation = Reservation::Due;
                self.nodes[self.shape.above(class)].due.push(is.0, class);
                self.enter(class, now);
            } else if is.0 != at {
                self.coming.postpone_first(is.0);
            } else {
                return next.into_iter().chain([is]).min();
            }
        }
        next
    }

    /// The leaf that a node would serve, and the levels at which the choice is made by reservation.
    fn first(
        &mut self,
        flows: &Flows<()>,
        node: usize,
        level: u32,
        now: Time,
    ) -> Option<(FlowId, u32)> {
        while let Some((at, class)) = self.nodes[node].due.first() {
            let is = begun(self.clocks[class as usize].reserved);
            if is > now {
                self.nodes[node].due.pop();
                self.clocks[class as usize].reservation = Reservation::Coming;
                self.coming.push(is.0, class);
            } else if is.0 != at {
                self.nodes[node].due.postpone_first(is.0);
            } else if let Some((f, below)) = self.within(flows, class, level, now) {
                return Some((f, below | 1 << level));
            } else {
                self.nodes[node].due.pop();
                self.clocks[class as usize].reservation = Reservation::Nowhere;
            }
        }
        while let Some((at, class)) = self.nodes[node].weighed.first() {
            let clocks = &self.clocks[class as usize];
            let limited = begun(clocks.limited);
            if limited > now && !self.is_idle(flows, class) {
                self.nodes[node].weighed.pop();
                self.clocks[class as usize].place = Place::Limited;
                self.limited.push(limited.0, class);
            } else if ahead(clocks.weighed as u64, at) > 0 {
                let is = clocks.weighed as u64;
                self.nodes[node].weighed.postpone_first(is);
            } else if let Some(found) = self.within(flows, class, level, now) {
                return Some(found);
            } else {
                self.nodes[node].weighed.pop();
                self.clocks[class as usize].place = Place::Nowhere;
            }
        }
        None
    }

    /// The leaf that would be served if this class at this level is chosen: the class itself, or a
    /// leaf below it.
    fn within(
        &mut self,
        flows: &Flows<()>,
        class: u32,
        level: u32,
        now: Time,
    ) -> Option<(FlowId, u32)> {
        match self.shape.is_leaf(class) {
            true => flows.head(FlowId(class)).map(|_| (FlowId(class), 0)),
            false => self.first(flows, self.shape.node(class), level + 1, now),
        }
    }

    /// The guaranteed rate and the latency of a class, computed from those of the class above.
    fn guaranteed(&self, class: u32) -> Result<(Rate, Span), NoGuarantee> {
        let Some(rate) = self.rules[class as usize].reservation else {
            return Err(NoGuarantee(
                "a flow without a `reservation` gets by its weight what reservations leave, which may be nothing"
                    .into(),
            ));
        };
        let node = self.shape.above(class);
        let (link, later) = match node {
            LINK => (self.link, Span::ZERO),
            node => {
                let above = self.shape.class(node);
                let (rate, later) = self.guaranteed(above)?;
                (rate, later + rate.airtime(self.largest))
            }
        };
        let reserved = self
            .shape
            .below(node)
            .filter(|&class| self.rules[class as usize].reservation.is_some());
        let others = link.airtime_of_many((reserved.count() as u64 + 1) * u64::from(self.largest));
        Ok((rate, later + others + ROUNDING + Span(1)))
    }
}

impl Discipline for HClock {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    /// The distance of clocks ahead of the present time stays the same in bytes; a new clock begins
    /// now. Classes above the leaves keep their state if the tree above the leaves is unchanged;
    /// otherwise they start with new state.
    fn migrate_from(&mut self, old: HClock, flows: &mut Flows<()>, now: Time) {
        self.by_reservation = old.by_reservation;
        let (now, keeps) = (instant(now), self.shape.keeps(&old.shape));
        if keeps {
            self.nodes.iter_mut().zip(&old.nodes).for_each(|(node, was)| node.now = was.now);
        }
        let leaves = (0..old.shape.leaves() as u32).map(|f| (f, f));
        let nodes = (1..old.nodes.len())
            .filter(|_| keeps)
            .map(|node| (old.shape.class(node), self.shape.class(node)));
        for (before, class) in leaves.chain(nodes) {
            let (was, is) = (&old.rules[before as usize], &self.rules[class as usize]);
            let clock = |clock, was, is| match (was, is) {
                (_, 0) => 0,
                (0, _) => now,
                (was, is) => retagged(clock, now, was, is),
            };
            let clocks = &old.clocks[before as usize];
            let (from, to) = (old.shape.above(before), self.shape.above(class));
            let above = self.nodes[to].now;
            self.clocks[class as usize] = Clocks {
                reserved: clock(clocks.reserved, was.reserved, is.reserved),
                limited: clock(clocks.limited, was.limited, is.limited),
                weighed: match keeps && from == to {
                    true => retagged(clocks.weighed, above, was.weighed.into(), is.weighed.into())
                        .min(above + FAR),
                    false => above,
                },
                ..Clocks::default()
            };
        }
        self.serving = old.serving;
        for f in (0..old.shape.leaves() as u32).map(FlowId).filter(|&f| flows.head(f).is_some()) {
            // `comes` is not called, so that the clocks are kept: a leaf that was backlogged before
            // does not count as backlogged again after a pause.
            self.backlogged[f.index()] = true;
            for class in self.shape.path(f.0) {
                let above = &mut self.nodes[self.shape.above(class)].backlogged;
                *above += 1;
                if *above > 1 {
                    break;
                }
            }
            self.enter(f.0, Time::ZERO);
        }
    }

    fn ready(&mut self, _: &mut Flows<()>, f: FlowId, now: Time) {
        if self.serving.take_if(|served| *served == f).is_some() {
            // The flow became empty with its last packet, and no decision has been made since then.
            self.goes(f);
        }
        self.comes(f, now);
        self.enter(f.0, now);
    }

    fn head_changed(&mut self, flows: &mut Flows<()>, f: FlowId, now: Time) {
        match flows.head(f) {
            Some(_) => self.enter(f.0, now),
            None => self.goes(f),
        }
    }

    fn next(&mut self, flows: &mut Flows<()>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take()
            && flows.head(f).is_none()
        {
            self.goes(f);
        }
        self.wake(flows, now);
        if let Some((f, by_reservation)) = self.first(flows, LINK, 0, now) {
            self.by_reservation = by_reservation;
            return Decision::Serve(f);
        }
        // A second call is needed, because `first` may have found a class at its limit whose `L`
        // comes next.
        self.wake(flows, now).map_or(Decision::Idle, Decision::NotBefore)
    }

    fn on_transmit(&mut self, _: &mut Flows<()>, f: FlowId, sent: Sent) {
        let depth = self.shape.path(f.0).count() as u32;
        let bytes = Instant::from(sent.bytes);
        let mut class = f.0;
        for level in (0..depth).rev() {
            let node = self.shape.above(class);
            let (clocks, rule) = (&mut self.clocks[class as usize], &self.rules[class as usize]);
            let now = &mut self.nodes[node].now;
            if self.by_reservation >> level & 1 == 0 {
                // A class does not accumulate the service that its limit withheld.
                clocks.weighed = clocks.weighed.max(*now);
                *now = clocks.weighed;
            } else {
                clocks.reserved = clocks.reserved.saturating_add(bytes * rule.reserved);
            }
            if rule.limited > 0 {
                let behind =
                    instant(sent.start).saturating_sub(Instant::from(self.largest) * rule.limited);
                clocks.limited = clocks.limited.max(behind).saturating_add(bytes * rule.limited);
            }
            clocks.weighed = (clocks.weighed + bytes * u128::from(rule.weighed)).min(*now + FAR);
            if node != LINK {
                class = self.shape.class(node);
            }
        }
        self.serving = Some(f);
    }

    fn is_reusable(&self, _: &Flows<()>, f: FlowId, now: Time) -> bool {
        let clocks = &self.clocks[f.index()];
        let above = self.nodes[self.shape.above(f.0)].now;
        clocks.reserved.max(clocks.limited) <= instant(now) && clocks.weighed <= above
    }
}

impl QueueHooks for HClock {}
impl MediumHooks for HClock {}

impl Guarantees for HClock {
    /// The guarantee is that of mClock, with the class above instead of the link. That class gets
    /// at least its guaranteed rate after its own latency, and serves first a class below it whose
    /// `R` has come.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let (rate, others) = self.guaranteed(f.0)?;
        Ok(Guarantee {
            rate,
            latency: rate.airtime(self.largest) + others,
            rate_formula: "the reservation r",
            delay: Bound {
                delay: rate.airtime_of_many(
                    self.full_queues[f.index()].saturating_add(self.largest.into()),
                ) + others,
                formula: "(B + L)/r + sum of (n + 1) L/R + L/R, n reservations at each node of \
                          reservation R",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }
}
