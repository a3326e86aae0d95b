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

/// Fill level of a queue, including the packet in service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Number of packets.
    pub packets: u32,
    /// Number of bytes.
    pub bytes: u32,
}

/// A head that may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Time since the packet's arrival.
    pub waited: Span,
    /// Number of bytes behind the packet in its queue.
    pub behind: u32,
    /// True if the packet may be marked (ECN).
    pub capable: bool,
}

/// Constants of a queue's link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Highest rate at which the queue is served.
    pub rate: Rate,
    /// Size of the largest packet in bytes.
    pub largest: u32,
}
