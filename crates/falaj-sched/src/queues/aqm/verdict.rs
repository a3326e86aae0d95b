//! The inputs of a policy, and its verdicts.

use crate::units::rate::Rate;
use crate::units::time::Span;

/// Verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet passes.
    Pass,
    /// The packet is marked and passes.
    Mark,
    /// The packet is dropped.
    Drop,
}

/// Fill level of a queue, the packet in service included.
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
    /// Time since its arrival.
    pub waited: Span,
    /// Bytes behind it.
    pub behind: u32,
    /// True if it may be marked.
    pub capable: bool,
}

/// Constants of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Highest rate at which it is served.
    pub rate: Rate,
    /// The largest packet.
    pub largest: u32,
}
