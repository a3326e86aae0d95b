//! Inputs and outputs of an engine.

use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::time::{Span, Time};

/// A pipe of the engine: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub u32);

/// The input: a handle to bytes that are stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's handle for the bytes. The engine gives it back just once, by [`Output::Emit`]
    /// or [`Output::Drop`].
    pub handle: u32,
    /// Length as the link accounts it; at least 1, below 2^31.
    pub bytes: u32,
}

/// An output of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A unit that leaves.
    Emit(Emit),
    /// A unit that is lost.
    Drop(Dropped),
    /// A copy of a unit leaves. The unit's own [`Output::Emit`] follows, and the bytes are valid
    /// until then.
    Copy(Emit),
    /// A unit that leaves with one bit flipped; its other outputs follow.
    Corrupt(Corrupt),
    /// A unit is marked as having met congestion (ECN); its further outputs follow.
    Mark(EcnMark),
    /// A unit leaves before the latest time guaranteed to it. The next pipe, if there is one, may
    /// hold it for the difference. Its other outputs follow.
    Early(Early),
    /// A unit that was on the wire at a change of the rate leaves at another instant than its
    /// [`Output::Emit`] or [`Output::Copy`] reported. There is one report for each of these
    /// outputs.
    Retimed(Retimed),
}

impl Output {
    /// The flow of the unit, for outputs that have one.
    #[inline]
    pub(crate) fn flow_mut(&mut self) -> Option<&mut FlowId> {
        match self {
            Output::Emit(emit) | Output::Copy(emit) => Some(&mut emit.flow),
            Output::Drop(dropped) => Some(&mut dropped.flow),
            Output::Mark(mark) => Some(&mut mark.flow),
            Output::Early(early) => Some(&mut early.flow),
            Output::Retimed(retimed) => Some(&mut retimed.flow),
            Output::Corrupt(_) => None,
        }
    }
}

/// A unit that leaves before the latest time guaranteed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early {
    /// The pipe it leaves.
    pub pipe: PipeId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's handle.
    pub handle: u32,
    /// The difference between the latest guaranteed time and its departure.
    pub by: Span,
}

/// A unit whose transmission was retimed. Its old times identify it, because another unit may have
/// its handle by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retimed {
    /// The pipe it leaves.
    pub pipe: PipeId,
    /// The flow that it belongs to, by the numbering after the change.
    pub flow: FlowId,
    /// The handle that it had in its earlier output.
    pub handle: u32,
    /// Arrival of its last bit.
    pub arrival: Time,
    /// The end that was reported before.
    pub old_end: Time,
    /// The due time that was reported before.
    pub old_due: Time,
    /// Departure of its last bit from the queue.
    pub end: Time,
    /// Arrival of its last bit at the far end of the link.
    pub due: Time,
}

/// A unit whose ECN bits are to report congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnMark {
    /// The pipe that marks it.
    pub pipe: PipeId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's handle.
    pub handle: u32,
    /// The new bits: [`Ecn::Ce`]. If a copy that shares the unit's bytes is marked alone, another
    /// mark restores the earlier bits after the copy.
    pub ecn: Ecn,
}

/// A unit whose bytes are corrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The driver's handle.
    pub handle: u32,
    /// The bit to flip, as a fraction of the unit's length in 2^64ths.
    pub draw: u64,
}

impl Corrupt {
    /// Flips the bit in the unit's bytes.
    pub fn flip(&self, bytes: &mut [u8]) {
        let bit = ((u128::from(self.draw) * (8 * bytes.len() as u128)) >> 64) as usize;
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// A unit that leaves. It is reported when its transmission begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emit {
    /// The pipe it leaves.
    pub pipe: PipeId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's handle.
    pub handle: u32,
    /// Length as the link accounts it.
    pub bytes: u32,
    /// Arrival of its last bit.
    pub arrival: Time,
    /// Departure of its first bit from the queue.
    pub start: Time,
    /// Departure of its last bit from the queue; the guarantee covers the delay `end - arrival`.
    pub end: Time,
    /// Arrival of its last bit at the far end of the link, at which it is to be delivered. On a
    /// device-paced link: the instant of the decision, at which it is to be handed to the device,
    /// ahead of its transmission.
    pub due: Time,
}

impl Emit {
    /// Arrival of its last bit at the far end of the link, whether falaj or the device paces the
    /// link.
    #[inline]
    pub fn arrives(&self) -> Time {
        self.due.max(self.end)
    }
}

/// A unit that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The pipe that lost it.
    pub pipe: PipeId,
    /// The flow that it belonged to.
    pub flow: FlowId,
    /// The driver's handle.
    pub handle: u32,
    /// Length as the link accounts it.
    pub bytes: u32,
    /// Arrival of its last bit at the pipe.
    pub arrival: Time,
    /// The reason for the loss.
    pub why: DropReason,
}

/// The reason why a unit is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Its queue was full.
    QueueFull,
    /// It is larger than the link's largest packet.
    TooLarge,
    /// The discipline dropped it.
    Discipline,
    /// The link lost it. It is reported when its transmission begins.
    Lost,
    /// A rule dropped it after it had left a link.
    Rule,
    /// It had left a link, and matches no flow of the next link.
    Unmatched,
    /// The active queue management (AQM) of its queue dropped it, full or not.
    Policy,
    /// It no longer fit when the pipe was changed, and the change allowed drops.
    Changed,
}
