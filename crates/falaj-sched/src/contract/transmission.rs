//! Transmissions: the amount charged, and the cost on a shared medium.

use crate::units::time::{Span, Time};

/// A transmission that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Length as the link accounts it.
    pub bytes: u32,
    /// Time of the first bit.
    pub start: Time,
    /// Time of the last bit.
    pub end: Time,
}

/// Use of a medium by a flow, where packets occupy it for longer than their length lasts, or
/// collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Air {
    /// Time of packets that left, with their overhead.
    pub used: Span,
    /// Time of packets that collided.
    pub lost: Span,
    /// Number of collisions; a packet may collide repeatedly.
    pub collisions: u64,
}
