//! Timestamps of a flow's packets: start `S = max(F of the previous packet, time of arrival)`,
//! finish `F = S + L/r`, where `L` is the packet's length and `r` the flow's rate.
//!
//! A packet carries the time of its arrival, and gets its timestamps when it becomes the head of
//! its queue. The timestamps are the same as if they were computed at arrival, because all earlier
//! packets have left by then. But packets that were dropped in between do not count. If timestamps
//! were final at arrival, packets behind a dropped one would wait as if it had been sent. Then a
//! flow with a short queue and head drop, whose packets arrive faster than they leave, would never
//! be served again.
//!
//! A packet that replaces a dropped head takes the dropped packet's finish, if its own finish is
//! earlier. Without this rule, dropping a long head could reveal a short packet whose finish has
//! already passed, which the bounds of other flows do not account for. With this rule the finishes
//! of successive heads never decrease, and in any interval the flow demands no more bytes than its
//! rate allows, as if the dropped packet had never arrived.

/// Timestamps of one flow, in the unit of the discipline's time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlowTimestamps {
    /// Finish of the last packet that was sent, computed without `floor`.
    end: u128,
    /// Largest finish of a head that was dropped.
    floor: u128,
}

impl FlowTimestamps {
    /// Start of the head that arrived at `came`.
    #[inline]
    pub(crate) fn start(&self, came: u128) -> u128 {
        self.end.max(came)
    }

    /// Finish of the head that arrived at `came`, with this length.
    #[inline]
    pub(crate) fn finish(&self, came: u128, length: u128) -> u128 {
        self.start(came).saturating_add(length).max(self.floor)
    }

    /// Records that the head is sent; returns its finish, computed without the floor that earlier
    /// drops set.
    #[inline]
    pub(crate) fn sent(&mut self, came: u128, length: u128) -> u128 {
        self.end = self.start(came).saturating_add(length);
        self.end
    }

    /// Records that the head with this finish was sent by the previous discipline, before a change.
    pub(crate) fn left(&mut self, finish: u128) {
        self.end = self.end.max(finish);
    }

    /// Records that the head with this finish is dropped.
    pub(crate) fn head_dropped(&mut self, finish: u128) {
        self.floor = self.floor.max(finish);
    }

    /// Converts the timestamps to another time scale.
    pub(crate) fn map(&mut self, mut of: impl FnMut(u128) -> u128) {
        (self.end, self.floor) = (of(self.end), of(self.floor));
    }

    /// Returns true if no finish is later than `now`.
    pub(crate) fn is_over(&self, now: u128) -> bool {
        self.end.max(self.floor) <= now
    }
}
