//! What a policy looks at, and the verdicts that it gives.

use crate::units::rate::Rate;
use crate::units::time::Span;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Pass,
    /// It is marked and goes its way.
    Mark,
    /// It is thrown away.
    Drop,
}

/// How full a queue is, the packet in service included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Packets.
    pub packets: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A head that may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// How long it has been in the queue.
    pub waited: Span,
    /// Bytes behind it.
    pub behind: u32,
    /// May it be marked?
    pub capable: bool,
}

/// What does not change while a queue is kept.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// How fast it is served at most.
    pub rate: Rate,
    /// The largest packet.
    pub largest: u32,
}
