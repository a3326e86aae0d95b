//! Chained stamps: `S = max(F of the packet before, the time at its arrival)`, `F = S + L/r`.
//!
//! A packet carries the time of its arrival, and is stamped when it becomes the head of its queue.
//! That yields the stamps of its arrival, since all packets before it have left by then; and
//! packets dropped meanwhile are in none of them. With final stamps at arrival, packets behind a
//! dropped one would wait for it as if it had been sent. Then a flow with a short queue and head
//! drop, whose packets arrive faster than they leave, would never be served again.
//!
//! A packet that replaces a dropped head takes the dropped packet's finish, if its own is earlier.
//! Otherwise a packet hidden behind a long one would come to the front at a time when others no
//! longer expect it. So finishes of heads only rise, and in any time the flow asks for no more than
//! its rate, as if the dropped packet had never arrived.

/// The stamps of one flow, in the discipline's own time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chain {
    /// Finish of the last packet that was sent.
    end: u128,
    /// Finish of the last head that was dropped.
    floor: u128,
}

impl Chain {
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

    /// The head is sent; returns its finish without those dropped before it.
    #[inline]
    pub(crate) fn sent(&mut self, came: u128, length: u128) -> u128 {
        self.end = self.start(came).saturating_add(length);
        self.end
    }

    /// The head with this finish was sent by another discipline.
    pub(crate) fn left(&mut self, finish: u128) {
        self.end = self.end.max(finish);
    }

    /// The head with this finish is dropped.
    pub(crate) fn thrown_out(&mut self, finish: u128) {
        self.floor = self.floor.max(finish);
    }

    /// Converts the stamps to another time.
    pub(crate) fn map(&mut self, mut of: impl FnMut(u128) -> u128) {
        (self.end, self.floor) = (of(self.end), of(self.floor));
    }

    /// Returns true if all stamps are over by `now`.
    pub(crate) fn is_over(&self, now: u128) -> bool {
        self.end.max(self.floor) <= now
    }
}
