//! Who is next: by deadline of those that are eligible, else by virtual time from node to node.
//!
//! Who cannot be served by sharing, at his limit or with nobody below to serve, is in no order of his node; whatever changes
//! that puts him and those above him back.

use super::class::{Place, Shared};
use super::{Hfsc, HfscFlow};
use crate::bucket::begun;
use crate::classes::LINK;
use crate::queue::{FlowId, Flows};
use crate::time::Time;
use crate::virtual_time::ahead;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Timed {
    #[default]
    Nowhere,
    Held,
    Eligible,
}

impl Hfsc {
    /// When the head of `f` has its deadline.
    pub(super) fn deadline(&self, flows: &Flows<HfscFlow>, f: FlowId) -> Time {
        let clocks = flows.state(f).real_time;
        let curve = self.classes[f.index()].real_time.as_ref();
        let bytes = flows.head(f).unwrap_or(0);
        curve.map_or(Time::NEVER, |curve| begun(curve.deadline(curve.after(clocks, bytes))))
    }

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
    pub(super) fn put(&mut self, flows: &mut Flows<HfscFlow>, class: u32, place: Place) {
        match self.shape.is_leaf(class) {
            true => flows.state_mut(FlowId(class)).shared.place = place,
            false => self.nodes[self.shape.node(class)].own.place = place,
        }
    }

    /// Gives a flow that has packets the entries that it lacks, and the classes above it.
    pub(super) fn enter(&mut self, flows: &mut Flows<HfscFlow>, f: FlowId) {
        let state = flows.state(f);
        if state.timed == Timed::Nowhere && self.classes[f.index()].real_time.is_some() {
            self.held.push(self.eligible(state, f).0, f.0);
            flows.state_mut(f).timed = Timed::Held;
        }
        self.enter_sharing(flows, f.0);
    }

    pub(super) fn enter_sharing(&mut self, flows: &mut Flows<HfscFlow>, mut class: u32) {
        loop {
            let (shared, node) = (self.shared(flows, class), self.shape.above(class));
            if shared.place == Place::Nowhere {
                let key = self.classes[class as usize].key(shared);
                self.nodes[node].sharing.push(key, class);
                self.put(flows, class, Place::Sharing);
            }
            if node == LINK {
                return;
            }
            class = self.shape.class(node);
        }
    }

    /// When the next one becomes eligible that is not; those that have are, from now on.
    #[inline]
    pub(super) fn first_held(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<Time> {
        while let Some((at, f)) = self.held.first() {
            let f = FlowId(f);
            let is = self.eligible(flows.state(f), f);
            if flows.head(f).is_none() {
                self.held.pop();
                flows.state_mut(f).timed = Timed::Nowhere;
            } else if is <= now {
                self.held.pop();
                self.eligible.push(self.deadline(flows, f).0, f.0);
                flows.state_mut(f).timed = Timed::Eligible;
            } else if is.0 != at {
                self.held.postpone_first(is.0);
            } else {
                return Some(is);
            }
        }
        None
    }

    /// Who is eligible and has the earliest deadline.
    #[inline]
    pub(super) fn first_eligible(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<FlowId> {
        while let Some((at, f)) = self.eligible.first() {
            let f = FlowId(f);
            let eligible = self.eligible(flows.state(f), f);
            if flows.head(f).is_none() {
                self.eligible.pop();
                flows.state_mut(f).timed = Timed::Nowhere;
            } else if eligible > now {
                self.eligible.pop();
                self.held.push(eligible.0, f.0);
                flows.state_mut(f).timed = Timed::Held;
            } else {
                let is = self.deadline(flows, f);
                if is.0 == at {
                    return Some(f);
                }
                self.eligible.postpone_first(is.0);
            }
        }
        None
    }

    /// Has this class nothing to send? Of one that is divided only looking below tells.
    #[inline]
    pub(super) fn is_idle(&self, flows: &Flows<HfscFlow>, class: u32) -> bool {
        self.shape.is_leaf(class) && flows.head(FlowId(class)).is_none()
    }

    /// When the next one is below its limit; those that are share from now on.
    #[inline]
    pub(super) fn first_limited(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<Time> {
        while let Some((at, class)) = self.limited.first() {
            let is = self.classes[class as usize].limit(self.shared(flows, class));
            if self.is_idle(flows, class) {
                self.limited.pop();
                self.put(flows, class, Place::Nowhere);
            } else if is <= now {
                self.limited.pop();
                self.put(flows, class, Place::Nowhere);
                self.enter_sharing(flows, class);
            } else if is.0 != at {
                self.limited.postpone_first(is.0);
            } else {
                return Some(is);
            }
        }
        None
    }

    /// Who may share the link: from node to node the one with the least virtual time that has somebody to send.
    #[inline]
    pub(super) fn first_sharing(&mut self, flows: &mut Flows<HfscFlow>, now: Time) -> Option<FlowId> {
        let mut node = LINK;
        loop {
            let Some((at, class)) = self.nodes[node].sharing.first() else {
                if node == LINK {
                    return None;
                }
                // Nobody below: it is the first of the node above, where this came from.
                let class = self.shape.class(node);
                self.put(flows, class, Place::Nowhere);
                node = self.shape.above(class);
                self.nodes[node].sharing.pop();
                continue;
            };
            let (rules, shared) = (&self.classes[class as usize], self.shared(flows, class));
            let limit = rules.limit(shared);
            if self.is_idle(flows, class) {
                self.nodes[node].sharing.pop();
                self.put(flows, class, Place::Nowhere);
            } else if limit > now {
                self.nodes[node].sharing.pop();
                self.limited.push(limit.0, class);
                self.put(flows, class, Place::Limited);
            } else {
                let is = rules.key(shared);
                if ahead(is, at) > 0 {
                    self.nodes[node].sharing.postpone_first(is);
                } else if self.shape.is_leaf(class) {
                    return Some(FlowId(class));
                } else {
                    node = self.shape.node(class);
                }
            }
        }
    }
}
