//! Substitute arrival times for heads that replace dropped packets.
//!
//! Disciplines that see arrivals count each packet from its arrival. If a policy drops packets from
//! the front of a queue, none of the remaining ones has been there for long. Counted from its own
//! arrival, a head would always be the last among those of all flows, and its flow would get less
//! than one that rejects new packets, or nothing. But bytes of a flow are interchangeable. So a
//! packet that becomes head after a drop inherits the dropped packet's arrival time. A packet
//! behind one that was sent, while packets between them were dropped, counts from the start of that
//! transmission at the latest: by then some packet was in its place. Other flows are not affected:
//! at any instant the flow asks for the service that it would ask for if the dropped packets had
//! been those that arrived last.
//!
//! Nothing is stored unless a policy drops packets that were queued.

use crate::contract::params::Setup;
use crate::queues::aqm::any_later;
use crate::queues::queue::FlowId;
use crate::units::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// The substitute times of all flows; `T` is the discipline's time.
#[derive(Debug, Clone)]
pub(crate) struct Steads<T> {
    each: Vec<Stead<T>>,
    /// The flow whose head was dropped last, and when: a packet that arrives at that instant
    /// replaces it.
    vacated: Option<(FlowId, Time)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stead<T> {
    /// Time from which the present head counts.
    head: T,
    /// Latest time from which the packets behind it count.
    since: T,
    /// True if packets were dropped since the queue was empty.
    counts: bool,
}

impl<T: Copy + Default + Ord> Steads<T> {
    /// No flow has a substitute time.
    pub(crate) fn new(setup: &Setup) -> Steads<T> {
        let flows = if any_later(setup) { setup.flows.len() } else { 0 };
        Steads { each: vec![Stead::default(); flows], vacated: None }
    }

    /// Time from which a head of `f` with the arrival time `own` counts.
    #[inline]
    pub(crate) fn came(&self, f: FlowId, own: T) -> T {
        match self.each.get(f.index()) {
            Some(stead) if stead.counts => own.min(stead.since),
            _ => own,
        }
    }

    /// Sets the time from which the head of `f` counts.
    #[inline]
    pub(crate) fn shows(&mut self, f: FlowId, since: T) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.head = since;
        }
    }

    /// A packet has arrived at an empty queue, and is its head.
    #[inline]
    pub(crate) fn ready(&mut self, f: FlowId, now: Time) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.counts &= self.vacated == Some((f, now));
        }
    }

    /// The head is sent; `now` is the discipline's time.
    #[inline]
    pub(crate) fn taken(&mut self, f: FlowId, now: T) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.since = now;
        }
    }

    /// The head is dropped.
    pub(crate) fn head_dropped(&mut self, f: FlowId, now: Time) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            (stead.since, stead.counts) = (stead.head, true);
            self.vacated = Some((f, now));
        }
    }

    /// The packet behind the head, which is on the wire, is dropped.
    pub(crate) fn dropped_behind_head(&mut self, f: FlowId) {
        if let Some(stead) = self.each.get_mut(f.index()) {
            stead.counts = true;
        }
    }
}
