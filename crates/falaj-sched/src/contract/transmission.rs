//! Transmissions: what is charged for, and what a shared medium costs.

use crate::units::time::{Span, Time};

/// A transmission that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Length as the link accounts it.
    pub bytes: u32,
    /// First bit out.
    pub start: Time,
    /// Last bit out.
    pub end: Time,
}

/// What a flow had of a medium that packets occupy for longer than their length lasts, or in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Air {
    /// Of packets that left, with all that belongs to them.
    pub used: Span,
    /// Of those that collided.
    pub lost: Span,
    /// How many did; a packet may again and again.
    pub collisions: u64,
}
