//! What enters an engine and what comes out of it.

use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::time::{Span, Time};

/// A pipe of the engine: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub u32);

/// What enters: a handle to bytes that live elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// Whatever the driver knows the bytes by; it comes out again just once.
    pub handle: u32,
    /// Length as the link accounts it; at least 1, below 2^31.
    pub bytes: u32,
}

/// What comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A unit that leaves.
    Emit(Emit),
    /// A unit that is lost.
    Drop(Dropped),
    /// A unit that leaves once more; its own [`Output::Emit`] follows, and its bytes are there
    /// until then.
    Copy(Emit),
    /// A unit that leaves with a bit turned; its other outputs follow.
    Corrupt(Corrupt),
    /// A unit is marked as having met congestion (ECN); what becomes of it follows.
    Mark(EcnMark),
    /// A unit leaves sooner than at the latest that was promised, of use where another pipe
    /// follows; its other outputs do.
    Early(Early),
    /// A unit that was on the wire at a change of the rate leaves at another instant than its
    /// [`Output::Emit`] or [`Output::Copy`] said. There is one for each of these.
    Retimed(Retimed),
}

impl Output {
    /// The flow of the unit, where it is named.
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

/// A unit that leaves before the latest that was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early {
    /// The pipe it leaves.
    pub pipe: PipeId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's own.
    pub handle: u32,
    /// By so much.
    pub by: Span,
}

/// A unit whose transmission was retimed. Its old instants tell which one it is; its handle may be
/// another unit's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retimed {
    /// The pipe it leaves.
    pub pipe: PipeId,
    /// The flow that it belongs to, as flows are after the change.
    pub flow: FlowId,
    /// The handle that it had when it was told.
    pub handle: u32,
    /// Last bit in.
    pub arrival: Time,
    /// The end that was told before.
    pub old_end: Time,
    /// The time of delivery that was told before.
    pub old_due: Time,
    /// Last bit out of the queue.
    pub end: Time,
    /// Last bit at the far end of the link.
    pub due: Time,
}

/// A unit whose ECN bits are to say that it met congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnMark {
    /// The pipe that marks it.
    pub pipe: PipeId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's own.
    pub handle: u32,
    /// What they are to be: [`Ecn::Ce`]. Where a copy that shares its bytes is marked alone, what
    /// they were before follows the copy.
    pub ecn: Ecn,
}

/// A unit whose bytes do not arrive as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The driver's own.
    pub handle: u32,
    /// Which bit, of all that it has: as far along as this is in 2^64.
    pub draw: u64,
}

impl Corrupt {
    /// Turns that bit.
    pub fn turn(&self, bytes: &mut [u8]) {
        let bit = ((u128::from(self.draw) * (8 * bytes.len() as u128)) >> 64) as usize;
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// A unit that leaves. It is told when its transmission begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emit {
    /// The pipe it leaves.
    pub pipe: PipeId,
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// The driver's own.
    pub handle: u32,
    /// Length as the link accounts it.
    pub bytes: u32,
    /// Last bit in.
    pub arrival: Time,
    /// First bit out of the queue.
    pub start: Time,
    /// Last bit out of the queue; `end - arrival` is the delay that is promised.
    pub end: Time,
    /// Last bit at the far end of the link: when it shall be handed over. Of a link that its
    /// device paces, when that was decided: then it shall be handed over, ahead of time.
    pub due: Time,
}

impl Emit {
    /// Last bit at the far end of the link, whoever paces it.
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
    /// The driver's own.
    pub handle: u32,
    /// Length as the link accounts it.
    pub bytes: u32,
    /// When its last bit came to the pipe.
    pub arrival: Time,
    /// Why.
    pub why: DropReason,
}

/// Why a unit is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Its queue was full.
    QueueFull,
    /// It is larger than the link's largest packet.
    TooLarge,
    /// The discipline threw it away.
    Discipline,
    /// The link lost it. It is told when its transmission begins.
    Lost,
    /// Behind a link, a rule drops it.
    Rule,
    /// Behind a link, no flow of the next one takes it.
    Unmatched,
    /// The policy of its queue dropped it, full or not.
    Policy,
    /// It did not fit any more when the pipe was changed, and was allowed to go.
    Changed,
}
