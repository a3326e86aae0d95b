//! Stamps that follow each other: `S = max(F of the packet before, what it was when it came)`, `F =
//! S + L/r`.
//!
//! A packet carries what the time was when it came, and is stamped when it has become the head of
//! its queue. That gives the stamps of its arrival, as all that was before it has gone by then; and
//! who was thrown out meanwhile is in none of them. Stamped once and for all, packets behind one
//! that was thrown out would wait for it as if it had been sent: a flow with a short queue and head
//! drop, whose packets come faster than they leave, would never be served again.
//!
//! Who stands in for a head that was thrown out takes that one's finish, if his own is earlier.
//! Else what was hidden behind a long packet would come to the front at a time when others no
//! longer reckon with it. So finishes of heads only rise, and in any time the flow asks for no more
//! than its rate, as if the packet thrown out had never come.

/// The chain of one flow, in the discipline's own time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chain {
    /// Finish of the last packet that was sent.
    end: u128,
    /// Finish of the last head that was thrown out.
    floor: u128,
}

impl Chain {
    /// Start of the head that came then.
    #[inline]
    pub(crate) fn start(&self, came: u128) -> u128 {
        self.end.max(came)
    }

    /// Its finish, if it is so long.
    #[inline]
    pub(crate) fn finish(&self, came: u128, length: u128) -> u128 {
        self.start(came).saturating_add(length).max(self.floor)
    }

    /// It is sent; the finish that it has without those thrown out before it.
    #[inline]
    pub(crate) fn sent(&mut self, came: u128, length: u128) -> u128 {
        self.end = self.start(came).saturating_add(length);
        self.end
    }

    /// The head with this finish is sent by somebody else.
    pub(crate) fn left(&mut self, finish: u128) {
        self.end = self.end.max(finish);
    }

    /// The head with this finish is thrown out.
    pub(crate) fn thrown_out(&mut self, finish: u128) {
        self.floor = self.floor.max(finish);
    }

    /// The same in another time.
    pub(crate) fn map(&mut self, mut of: impl FnMut(u128) -> u128) {
        (self.end, self.floor) = (of(self.end), of(self.floor));
    }

    /// Is all of it over by `now`?
    pub(crate) fn is_over(&self, now: u128) -> bool {
        self.end.max(self.floor) <= now
    }
}
