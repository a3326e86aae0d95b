//! The order of service: by deadline among eligible leaves, otherwise by virtual time from node to
//! node.
//!
//! Link-sharing cannot serve a class that is at its limit, or of which no leaf has a packet. Such a
//! class stays in the order of the node above it until it comes first there; then it is removed.
//! When link-sharing can serve it again, the class and the classes above it are entered again.

use super::class::{Place, Shared, Timed};
use super::{Hfsc, HfscFlow};
use crate::mechanisms::bucket::begun;
use crate::mechanisms::classes::LINK;
use crate::queues::queue::{FlowId, Flows};
use crate::units::time::Time;

impl Hfsc {
    /// The deadline of the head of `f`.
    #[inline]
    pub(super) fn deadline(&self, flows: &Flows<HfscFlow>, f: FlowId) -> Time {
        let clocks = flows.state(f).real_time;
        let curve = self.classes[f.index()].real_time.as_ref();
        let bytes = flows.head(f).unwrap_or(0);
        curve.map_or(Time::NEVER, |curve| begun(curve.deadline(curve.after(clocks, bytes))))
    }

    /// Time from which `f` may send for its real-time curve.
    #[inline]
    pub(super) fn eligible(&self, state: &HfscFlow, f: FlowId) -> Time {
        let curve = self.classes[f.index()].real_time.as_ref();
        curve.map_or(Time::NEVER, |curve| begun(curve.eligible(state.real_time)))
    }

    #[inline]
    pub(super) fn shared<'a>(&'a self, flows: &'a Flows<HfscFlow>, class: u32) -> &'a Shared {
        match self.shape.is_leaf(class) {
            true => &flows.state(FlowId(class)).shared,
            false => &self.nodes[self.shape.node(class)].own,
        }
    }

    #[inline]
    fn shared_mut<'a>(&'a mut self, flows: &'a mut Flows<HfscFlow>, class: u32) -> &'a mut Shared {
        match self.shape.is_leaf(class) {
            true => &mut flows.state_mut(FlowId(class)).shared,
            false => &mut self.nodes[self.shape.node(class)].own,
        }
    }

    #[inline]
    pub(super) fn put(&mut self, flows: &mut Flows<HfscFlow>, class: u32, place: Place) {
        self.shared_mut(flows, class).place = place;
    }

    /// Time from which this class is below its limit.
    #[inline]
    pub(super) fn limit(&self, class: u32) -> Time {
        self.classes[class as usize].limit(|| self.limits[class as usize])
    }

    /// Enters a backlogged flow, and the classes above it, in all orders in which they are missing.
    #[inline]
    pub(super) fn enter(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, now: Time) {
        let state = flows.state(f);
        if state.shared.timed == Timed::Nowhere && self.classes[f.index()].real_time.is_some() {
            let is = self.eligible(state, f);
            match is <= now {
                true => self.becomes_eligible(flows, f),
                false => self.is_held(flows, f, is),
            }
        }
        self.enter_sharing(flows, f.0);
    }

    /// Enters `f` in the calendar of eligible leaves, with its deadline.
    #[inline]
    fn becomes_eligible(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId) {
        self.eligible.set(f.index(), self.deadline(flows, f));
        let shared = &mut flows.state_mut(f).shared;
        (shared.timed, shared.moved_on) = (Timed::Eligible, false);
    }

    /// Enters `f` in the calendar of held leaves: until `then` it may not send for its real-time
    /// curve.
    #[inline]
    fn is_held(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId, then: Time) {
        self.held.set(f.index(), then);
        let shared = &mut flows.state_mut(f).shared;
        (shared.timed, shared.moved_on) = (Timed::Held, false);
    }

    pub(super) fn enter_sharing(&mut self, flows: &mut Flows<HfscFlow>, mut class: u32) {
        loop {
            let (shared, node) = (self.shared(flows, class), self.shape.above(class));
            if shared.place == Place::Nowhere {
                let key = self.classes[class as usize].key(shared);
                self.nodes[node].sharing.push(key, class);
                self.shared_mut(flows, class).moved = false;
                self.put(flows, class, Place::Sharing);
            }
            if node == LINK {
                return;
            }
            class = self.shape.class(node);
        }
    }

    /// Moves held leaves whose time has come to the eligible leaves. Times in the calendar only
    /// rise, so leaves with a later time are not examined.
    #[inline]
    pub(super) fn wake_held(&mut self, flows: &mut Flows<HfscFlow>, now: Time) {
        while let Some((f, _)) = self.held.first().filter(|&(_, at)| at <= now) {
            let f = FlowId(f as u32);
            if flows.head(f).is_none() {
                self.held.clear(f.index());
                flows.state_mut(f).shared.timed = Timed::Nowhere;
                continue;
            }
            let state = flows.state(f);
            let is = if state.shared.moved_on { self.eligible(state, f) } else { now };
            if is <= now {
                self.held.clear(f.index());
                self.becomes_eligible(flows, f);
            } else {
                self.is_held(flows, f, is);
            }
        }
    }

    /// Time at which the next leaf becomes eligible.
    pub(super) fn first_held(&mut self, flows: &mut Flows<HfscFlow>) -> Option<Time> {
        while let Some((f, at)) = self.held.first() {
            let f = FlowId(f as u32);
            if flows.head(f).is_none() {
                self.held.clear(f.index());
                flows.state_mut(f).shared.timed = Timed::Nowhere;
            } else if flows.state(f).shared.moved_on {
                let is = self.eligible(flows.state(f), f);
                self.is_held(flows, f, is);
            } else {
                return Some(at);
            }
        }
        None
    }

    /// The eligible leaf with the earliest deadline.
    #[inline]
    pub(super) fn first_eligible(
        &mut self,
        flows: &mut Flows<HfscFlow>,
        now: Time,
    ) -> Option<FlowId> {
        while let Some((f, _)) = self.eligible.first() {
            let f = FlowId(f as u32);
            if flows.head(f).is_none() {
                self.eligible.clear(f.index());
                flows.state_mut(f).shared.timed = Timed::Nowhere;
                continue;
            }
            let state = flows.state(f);
            if !state.shared.moved_on {
                return Some(f);
            }
            let is = self.eligible(state, f);
            if is > now {
                self.eligible.clear(f.index());
                self.is_held(flows, f, is);
            } else {
                self.becomes_eligible(flows, f);
            }
        }
        None
    }

    /// Returns true if this leaf has no packet. For a divided class it returns false, because only
    /// a search of the classes below it shows whether they have packets.
    #[inline]
    pub(super) fn is_idle(&self, flows: &Flows<HfscFlow>, class: u32) -> bool {
        self.shape.is_leaf(class) && flows.head(FlowId(class)).is_none()
    }

    /// Moves classes that are now below their limits back to link-sharing.
    #[inline]
    pub(super) fn wake_limited(&mut self, flows: &mut Flows<HfscFlow>, now: Time) {
        while let Some((class, _)) = self.limited.first().filter(|&(_, at)| at <= now) {
            let class = class as u32;
            let is = self.limit(class);
            if is > now {
                self.limited.set(class as usize, is);
                continue;
            }
            self.limited.clear(class as usize);
            self.put(flows, class, Place::Nowhere);
            if !self.is_idle(flows, class) {
                self.enter_sharing(flows, class);
            }
        }
    }

    /// Time at which the next class is again below its limit.
    pub(super) fn first_limited(&mut self, flows: &mut Flows<HfscFlow>) -> Option<Time> {
        while let Some((class, at)) = self.limited.first() {
            let class = class as u32;
            let is = self.limit(class);
            if self.is_idle(flows, class) {
                self.limited.clear(class as usize);
                self.put(flows, class, Place::Nowhere);
            } else if is != at {
                self.limited.set(class as usize, is);
            } else {
                return Some(is);
            }
        }
        None
    }

    /// The leaf that link-sharing serves. From the link down, each node selects the class with the
    /// least virtual time among those with a packet.
    #[inline]
    pub(super) fn first_sharing(
        &mut self,
        flows: &mut Flows<HfscFlow>,
        now: Time,
    ) -> Option<FlowId> {
        let mut node = LINK;
        loop {
            let Some((_, class)) = self.nodes[node].sharing.first() else {
                if node == LINK {
                    return None;
                }
                // No class below this node has a packet. The search goes back to the node above,
                // whose first class is this node.
                let class = self.shape.class(node);
                self.put(flows, class, Place::Nowhere);
                node = self.shape.above(class);
                self.nodes[node].sharing.pop();
                continue;
            };
            let limit = self.limit(class);
            if self.is_idle(flows, class) {
                self.nodes[node].sharing.pop();
                self.put(flows, class, Place::Nowhere);
            } else if limit > now {
                self.nodes[node].sharing.pop();
                self.limited.set(class as usize, limit);
                self.put(flows, class, Place::Limited);
            } else {
                let shared = self.shared(flows, class);
                if shared.moved {
                    let is = self.classes[class as usize].key(shared);
                    self.nodes[node].sharing.postpone_first(is);
                    self.shared_mut(flows, class).moved = false;
                } else if self.shape.is_leaf(class) {
                    return Some(FlowId(class));
                } else {
                    node = self.shape.node(class);
                }
            }
        }
    }
}
