//! From when on heads count that stand in for others.
//!
//! Disciplines that look at packets when they arrive count each from then on. Where a policy throws
//! packets out from the front of a queue, none that is left has been there for long: counted from
//! its own arrival, it would always be the last among those of all flows, and its flow would
//! get less than one that turns new packets away, or nothing. But bytes of a flow stand in for each
//! other. So who stands in for a head that was thrown out counts from when that one did; and who
//! follows a packet that was sent while some behind it were thrown out, from when that one's
//! transmission began at the latest: by then there was somebody in its place. Others notice
//! nothing: at any instant the flow asks for what it would ask for if the packets thrown out had
//! been those that came last.
//!
//! Nothing is kept where no policy throws packets out later.

use crate::contract::params::Setup;
use crate::queues::aqm::any_later;
use crate::queues::queue::FlowId;
use crate::units::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Those of all flows; `T` is the time by which the discipline counts.
#[derive(Debug, Clone)]
pub(crate) struct Steads<T> {
    each: Vec<Stead<T>>,
    /// Whose head was thrown out last, and when: a packet that comes at that instant stands in for
    /// it.
    vacated: Option<(FlowId, Time)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stead<T> {
    /// From when the head counts that is there.
    head: T,
    /// From when on those behind it count at the latest.
    since: T,
    /// Have packets been thrown out since the queue was empty?
    counts: bool,
}

impl<T: Copy + Default + Ord> Steads<T> {
    /// None yet.
    pub(crate) fn new(setup: &Setup) -> Steads<T> {
        let flows = if any_later(setup) { setup.flows.len() } else { 0 };
        Steads { each: vec![Stead::default(); flows], vacated: None }
    }

    /// From when on a head of `f` counts that came then.
    #[inline]
    pub(crate) fn came(&self, f: FlowId, own: T) -> T {
        match self.each.get(f.index()) {
            Some(stead) if stead.counts => own.min(stead.since),
            _ => own,
        }
    }

    /// The head of `f` counts from then on.
    #[inline]
    pub(crate) fn shows(&mut self, f: FlowId, since: T) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.head = since;
        }
    }

    /// A packet has come to the head of an empty queue.
    #[inline]
    pub(crate) fn ready(&mut self, f: FlowId, now: Time) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.counts &= self.vacated == Some((f, now));
        }
    }

    /// The head is sent; what the time is now.
    #[inline]
    pub(crate) fn taken(&mut self, f: FlowId, now: T) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.since = now;
        }
    }

    /// The head is thrown out.
    pub(crate) fn thrown_out(&mut self, f: FlowId, now: Time) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            (stead.since, stead.counts) = (stead.head, true);
            self.vacated = Some((f, now));
        }
    }

    /// The packet behind the head that is on the wire is thrown out.
    pub(crate) fn dropped_behind_head(&mut self, f: FlowId) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.counts = true;
        }
    }
}
