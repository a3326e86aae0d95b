//! Containers whose policy follows the load. What packets, containers and the
//! other side do is counted in epochs; at the end of each, somebody who can weigh
//! that against a wish [chooses](PolicyChooser) the policy of the next one.
//!
//! Epochs end at nominal instants, whenever that is noticed, and stand still
//! while nothing comes. Only whole numbers are kept here; what they mean is the
//! chooser's matter.

use crate::batch::BatchPolicy;
use falaj_sched::units::time::{Span, Time};
use std::fmt;

/// What happened in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochStats {
    /// How long it was.
    pub span: Span,
    /// For how long nothing had come before it.
    pub idle: Span,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces of the epoch, all as long.
    pub slots: u64,
    /// The squares of the packets in each of them, together: how uneven they come.
    pub squares: u64,
    /// Containers that left.
    pub containers: u64,
    /// Packets in them.
    pub carried: u64,
    /// What these packets waited in them, together.
    pub waited: Span,
    /// How long they were open, together.
    pub open: Span,
    /// Containers of which is known how long they crossed.
    pub crossings: u64,
    /// From when they left until the other side was done with them, together.
    pub crossing: Span,
    /// The squares of that, in nanoseconds.
    pub crossing_squares: u128,
    /// Processor time that the other side spent.
    pub spent: Span,
}

/// Chooses policies.
pub trait PolicyChooser: fmt::Debug + Send {
    /// The policy of the next epoch, after one that was like this under the policy `now`.
    fn choose(&mut self, seen: &EpochStats, now: BatchPolicy) -> BatchPolicy;
}

/// What there is to count, and until when.
#[derive(Debug)]
pub(crate) struct Tuning {
    choose: Box<dyn PolicyChooser>,
    slot: Span,
    slots: u64,
    /// The end of the epoch; `Time::NEVER` while nothing comes.
    ends: Time,
    slot_ends: Time,
    slot_packets: u64,
    /// The end of the last epoch with packets.
    last: Option<Time>,
    seen: EpochStats,
}

impl Tuning {
    /// Epochs of so many slots; an empty slot or epoch is taken for the least there is.
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

    /// When the epoch ends.
    #[inline]
    pub(crate) fn ends(&self) -> Time {
        self.ends
    }

    fn begin(&mut self, now: Time) {
        self.slot_ends = now + self.slot;
        self.ends = now + self.slot * self.slots;
        self.slot_packets = 0;
    }

    /// A packet comes.
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

    /// A container leaves.
    #[inline]
    pub(crate) fn left(&mut self, packets: u32, waited: Span, open: Span) {
        self.seen.containers += 1;
        self.seen.carried += u64::from(packets);
        self.seen.waited += waited;
        self.seen.open += open;
    }

    /// The other side was done with a container so long after it had left.
    pub(crate) fn crossed(&mut self, took: Span) {
        self.seen.crossings += 1;
        self.seen.crossing += took;
        self.seen.crossing_squares += u128::from(took.0) * u128::from(took.0);
    }

    /// The other side spent more processor time.
    pub(crate) fn spent(&mut self, more: Span) {
        self.seen.spent += more;
    }

    /// Ends the epoch, and says which policy is next. Another one begins, but for who has nothing
    /// to do.
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
        if seen.packets == 0 && seen.containers == 0 {
            return now;
        }
        self.choose.choose(&EpochStats { span, ..seen }, now)
    }
}
