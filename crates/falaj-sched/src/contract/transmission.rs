//! Transmissions: the length and times of a packet on the wire, and the time that a flow has used
//! on a shared medium.

use crate::units::time::{Span, Time};

/// A transmission that begins: length and times of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Length of the packet, in bytes as the link accounts it.
    pub bytes: u32,
    /// Time of the first bit.
    pub start: Time,
    /// Time of the last bit.
    pub end: Time,
}

/// The time that a flow has used on a shared medium. There packets need more time than their bytes
/// take, and may collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Air {
    /// Time of packets that were received, with their overhead (preamble, acknowledgement).
    pub used: Span,
    /// Time of packets that collided.
    pub lost: Span,
    /// Number of collisions; a packet may collide repeatedly.
    pub collisions: u64,
}
