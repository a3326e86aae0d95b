//! Flows that take turns: a linked list whose links are in the flows' states.

use crate::queues::queue::{FlowId, Flows};
use alloc::vec::Vec;

/// End of the list.
const END: u32 = u32::MAX;
/// Mark of a flow that is not in any round.
const OUT: u32 = END - 1;

/// A flow's place in a round: the number of the next flow.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    next: u32,
}

impl Default for Place {
    fn default() -> Place {
        Place { next: OUT }
    }
}

/// Flows in the order of their turns. A flow is in at most one round at a time.
///
/// An empty flow stays until the discipline examines it again, after the end of its last
/// transmission. So a flow keeps its turn if a packet arrives meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    head: u32,
    tail: u32,
    flows: u32,
}

impl Round {
    pub(crate) const EMPTY: Round = Round { head: END, tail: END, flows: 0 };

    /// The flow whose turn it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<FlowId> {
        (self.head != END).then_some(FlowId(self.head))
    }

    /// Number of flows.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.flows
    }

    /// Adds `f` behind all others, unless it is in a round already.
    #[inline]
    pub(crate) fn join<S: AsMut<Place>, T: Copy>(&mut self, flows: &mut Flows<S, T>, f: FlowId) {
        let place = flows.state_mut(f).as_mut();
        if place.next != OUT {
            return;
        }
        place.next = END;
        self.flows += 1;
        match self.tail {
            END => self.head = f.0,
            last => flows.state_mut(FlowId(last)).as_mut().next = f.0,
        }
        self.tail = f.0;
    }

    /// Adds `f` before all others, unless it is in a round already.
    pub(crate) fn lead<S: AsMut<Place>, T: Copy>(&mut self, flows: &mut Flows<S, T>, f: FlowId) {
        let place = flows.state_mut(f).as_mut();
        if place.next != OUT {
            return;
        }
        place.next = self.head;
        self.flows += 1;
        self.head = f.0;
        if self.tail == END {
            self.tail = f.0;
        }
    }

    /// Removes the first flow.
    #[inline]
    pub(crate) fn leave<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> Option<FlowId> {
        let f = self.first()?;
        self.head = core::mem::replace(&mut flows.state_mut(f).as_mut().next, OUT);
        if self.head == END {
            self.tail = END;
        }
        self.flows -= 1;
        Some(f)
    }

    /// Moves the first flow behind all others.
    #[inline]
    pub(crate) fn rotate<S: AsMut<Place>, T: Copy>(&mut self, flows: &mut Flows<S, T>) {
        if self.head == self.tail {
            return;
        }
        let f = self.head;
        self.head = core::mem::replace(&mut flows.state_mut(FlowId(f)).as_mut().next, END);
        flows.state_mut(FlowId(self.tail)).as_mut().next = f;
        self.tail = f;
    }

    /// Removes all flows, in the order of their turns.
    pub(crate) fn dissolve<S: AsMut<Place>, T: Copy>(
        &mut self,
        flows: &mut Flows<S, T>,
    ) -> Vec<FlowId> {
        core::iter::from_fn(|| self.leave(flows)).collect()
    }
}
