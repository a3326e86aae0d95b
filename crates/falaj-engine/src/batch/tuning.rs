//! Batches whose policy follows the load. Statistics of packets, batches and the other side are
//! collected in epochs; at the end of each, a [chooser](PolicyChooser) weighs them and chooses the
//! policy of the next epoch.
//!
//! Epochs end at nominal instants, even if the end is noticed later, and pause while nothing
//! arrives. Only whole numbers are kept here; the chooser interprets them.

use crate::batch::BatchPolicy;
use falaj_sched::units::time::{Span, Time};
use std::fmt;

/// Statistics of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochStats {
    /// Length of the epoch.
    pub span: Span,
    /// Time without arrivals before the epoch.
    pub idle: Span,
    /// Packets that arrived.
    pub packets: u64,
    /// Bytes of the packets that arrived.
    pub bytes: u64,
    /// Slots of the epoch, all of the same length.
    pub slots: u64,
    /// Sum of the squares of packets per slot, a measure of how unevenly they arrive.
    pub squares: u64,
    /// Batches that left.
    pub batches: u64,
    /// Packets in the batches that left.
    pub carried: u64,
    /// Total time that these packets waited in their batches.
    pub waited: Span,
    /// Total time for which these batches were open.
    pub open: Span,
    /// Number of batches whose crossing time is known.
    pub crossings: u64,
    /// Total time from the departure of these batches until the other side was done with them.
    pub crossing: Span,
    /// Sum of the squares of these times, in square nanoseconds.
    pub crossing_squares: u128,
    /// Processor time that the other side spent.
    pub spent: Span,
}

/// Chooses policies.
pub trait PolicyChooser: fmt::Debug + Send {
    /// Chooses the policy of the next epoch. `seen` has the statistics of the epoch that ends, and
    /// `now` is its policy.
    fn choose(&mut self, seen: &EpochStats, now: BatchPolicy) -> BatchPolicy;
}

/// The statistics of the current epoch, and its end.
#[derive(Debug)]
pub(crate) struct Tuning {
    choose: Box<dyn PolicyChooser>,
    slot: Span,
    slots: u64,
    /// The end of the epoch; `Time::NEVER` while nothing arrives.
    ends: Time,
    slot_ends: Time,
    slot_packets: u64,
    /// The end of the last epoch with packets.
    last: Option<Time>,
    seen: EpochStats,
}

impl Tuning {
    /// Epochs of `slots` slots of length `slot`. A zero counts as one slot, or as a length of 1 ns.
    pub(crate) fn new(choose: Box<dyn PolicyChooser>, slot: Span, slots: u64) -> Tuning {
        let (slot, slots) = (slot.max(Span(1)), slots.max(1));
        let (ends, slot_ends) = (Time::NEVER, Time::NEVER);
        Tuning {
            choose,
            slot,
            slots,
            ends,
            slot_ends,
            slot_packets: 0,
            last: None,
            seen: EpochStats::default(),
        }
    }

    /// End of the epoch.
    #[inline]
    pub(crate) fn ends(&self) -> Time {
        self.ends
    }

    fn begin(&mut self, now: Time) {
        self.slot_ends = now + self.slot;
        self.ends = now + self.slot * self.slots;
        self.slot_packets = 0;
    }

    /// Counts an arriving packet.
    #[inline]
    pub(crate) fn packet(&mut self, bytes: usize, now: Time) {
        if self.ends == Time::NEVER {
            self.begin(now);
            self.seen.idle = self.last.map_or(Span::ZERO, |last| now.since(last));
        }
        self.slots_until(now);
        self.slot_packets += 1;
        self.seen.packets += 1;
        self.seen.bytes += bytes as u64;
    }

    fn slots_until(&mut self, now: Time) {
        while self.slot_ends <= now {
            self.seen.slots += 1;
            self.seen.squares = self
                .seen
                .squares
                .saturating_add(self.slot_packets.saturating_mul(self.slot_packets));
            self.slot_packets = 0;
            self.slot_ends += self.slot;
        }
    }

    /// Counts a batch that leaves.
    #[inline]
    pub(crate) fn left(&mut self, packets: u32, waited: Span, open: Span) {
        self.seen.batches += 1;
        self.seen.carried += u64::from(packets);
        self.seen.waited += waited;
        self.seen.open += open;
    }

    /// Counts a batch whose crossing took the time `took`, from its departure until the other side
    /// was done with it.
    pub(crate) fn crossed(&mut self, took: Span) {
        self.seen.crossings += 1;
        self.seen.crossing += took;
        self.seen.crossing_squares += u128::from(took.0) * u128::from(took.0);
    }

    /// Adds processor time that the other side spent.
    pub(crate) fn spent(&mut self, more: Span) {
        self.seen.spent += more;
    }

    /// Ends the epoch, and returns the next policy. Another epoch begins unless no packet arrived
    /// in this one and the packer is `empty`.
    pub(crate) fn end(&mut self, now: BatchPolicy, empty: bool) -> BatchPolicy {
        let at = self.ends;
        self.slots_until(at);
        let quiet = self.seen.packets == 0 && empty;
        let span = self.slot * self.slots;
        let seen = std::mem::take(&mut self.seen);
        if seen.packets > 0 {
            self.last = Some(at);
        }
        if quiet {
            (self.ends, self.slot_ends) = (Time::NEVER, Time::NEVER);
        } else {
            self.begin(at);
        }
        if seen.packets == 0 && seen.batches == 0 {
            return now;
        }
        self.choose.choose(&EpochStats { span, ..seen }, now)
    }
}
