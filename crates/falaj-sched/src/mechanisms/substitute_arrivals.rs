//! Substitute arrival times for heads that replace dropped packets.
//!
//! Disciplines that see arrivals order each packet by its arrival time. If a policy drops packets
//! from the front of a queue, all remaining packets have arrived recently. With its own arrival
//! time, the head of such a queue would always be last among the heads of all flows. Its flow would
//! get less service than a flow that rejects new packets, or no service at all. But bytes of a flow
//! are interchangeable. So a packet that becomes head after a drop inherits the dropped packet's
//! arrival time. If a packet was sent and the packets behind it were dropped, the next packet
//! counts at the latest from the start of that transmission: a packet was waiting in its place by
//! then. Other flows are not affected: at any instant the flow asks for the same service as if the
//! packets that arrived last had been dropped.
//!
//! Nothing is stored unless a policy drops packets that were queued.

use crate::contract::params::Setup;
use crate::queues::aqm::any_later;
use crate::queues::queue::FlowId;
use crate::units::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// The substitute times of all flows. `T` is the type of the discipline's time.
#[derive(Debug, Clone)]
pub(crate) struct SubstituteTimes<T> {
    each: Vec<SubstituteTime<T>>,
    /// The flow whose head was dropped last, and the time of that drop. A packet that arrives at
    /// this instant replaces the dropped head.
    vacated: Option<(FlowId, Time)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SubstituteTime<T> {
    /// Time from which the present head counts.
    head: T,
    /// Latest time from which the packets behind the head count.
    since: T,
    /// True if packets were dropped since the queue was last empty, so that `since` is valid.
    counts: bool,
}

impl<T: Copy + Default + Ord> SubstituteTimes<T> {
    /// The initial state, in which no flow has a substitute time.
    pub(crate) fn new(setup: &Setup) -> SubstituteTimes<T> {
        let flows = if any_later(setup) { setup.flows.len() } else { 0 };
        SubstituteTimes { each: vec![SubstituteTime::default(); flows], vacated: None }
    }

    /// Time from which a head of `f` with the arrival time `own` counts.
    #[inline]
    pub(crate) fn effective_arrival(&self, f: FlowId, own: T) -> T {
        match self.each.get(f.index()) {
            Some(substitute) if substitute.counts => own.min(substitute.since),
            _ => own,
        }
    }

    /// Sets the time from which the head of `f` counts.
    #[inline]
    pub(crate) fn set_head_time(&mut self, f: FlowId, since: T) {
        if let Some(substitute) = self.each.get_mut(f.index()) {
            substitute.head = since;
        }
    }

    /// Records that a packet has arrived at an empty queue and is its head.
    #[inline]
    pub(crate) fn ready(&mut self, f: FlowId, now: Time) {
        if let Some(substitute) = self.each.get_mut(f.index()) {
            substitute.counts &= self.vacated == Some((f, now));
        }
    }

    /// Records that the head is sent. `now` is the discipline's time.
    #[inline]
    pub(crate) fn taken(&mut self, f: FlowId, now: T) {
        if let Some(substitute) = self.each.get_mut(f.index()) {
            substitute.since = now;
        }
    }

    /// Records that the head is dropped.
    pub(crate) fn head_dropped(&mut self, f: FlowId, now: Time) {
        if let Some(substitute) = self.each.get_mut(f.index()) {
            (substitute.since, substitute.counts) = (substitute.head, true);
            self.vacated = Some((f, now));
        }
    }

    /// Records that the packet behind the head is dropped while the head is on the wire.
    pub(crate) fn dropped_behind_head(&mut self, f: FlowId) {
        if let Some(substitute) = self.each.get_mut(f.index()) {
            substitute.counts = true;
        }
    }
}
