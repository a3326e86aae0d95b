//! A packet on its way over a link, and the traits of impairments.

use super::event::{Chances, Draw, RngStream};
use crate::message::Emit;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::units::time::{Span, Time};

/// The configuration of an impairment.
pub trait Impairment {
    /// Creates the state of the impairment, which is kept from packet to packet.
    fn state(&self, link: &LinkDelays) -> Box<dyn ImpairmentState>;
    /// The impairment in a few words: `loses 1%`.
    fn words(&self) -> String;
    /// Widens `delays`, the range of times that packets are on the link.
    fn widen(&self, delays: &mut LinkDelays) {
        let _ = delays;
    }
    /// The reason why no discipline has a guarantee on a link with this impairment.
    fn no_guarantee(&self) -> Option<NoGuarantee> {
        None
    }
    /// Returns true if some packets are lost.
    fn loses(&self) -> bool {
        false
    }
    /// Returns true if a byte stream would not arrive as it was sent: parts of it are lost,
    /// duplicated, corrupted or reordered.
    fn breaks_streams(&self) -> bool {
        false
    }
    /// The irregularity of packets that arrive.
    fn irregularity(&self) -> Option<Irregularity> {
        None
    }
}

/// An irregularity of arriving packets. If a link has several, the one listed first here counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Irregularity {
    /// Some packets are on the link for longer than others.
    Delay,
    /// Packets arrive at instants that the link chooses.
    Instants,
    /// Some packets arrive twice.
    Copies,
}

/// The range of times that packets are on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDelays {
    /// The delay of the link, without impairments.
    pub delay: Span,
    /// The shortest time of a packet on the link.
    pub least: Span,
    /// The longest time, except for packets that wait for a packet before them or for a slot.
    pub most: Span,
    /// True if some packets skip the delay.
    pub may_skip: bool,
    /// An addition to the longest time.
    pub beyond: Span,
}

impl LinkDelays {
    /// The range of a link without impairments.
    pub fn of(delay: Span) -> LinkDelays {
        LinkDelays { delay, least: delay, most: delay, may_skip: false, beyond: Span::ZERO }
    }

    /// The shortest and the longest time of a packet on the link.
    pub fn range(&self) -> (Span, Span) {
        (if self.may_skip { Span::ZERO } else { self.least }, self.most + self.beyond)
    }
}

/// The state of an impairment of a pipe. Its three steps apply to each packet; within a step the
/// order of impairments makes no difference.
pub trait ImpairmentState: Send {
    /// The packet goes on the wire: determines how long it occupies the wire, and whether it is
    /// lost.
    fn on_wire(&mut self, packet: &mut Transit) {
        let _ = packet;
    }
    /// The packet is not lost: determines when and how it arrives.
    fn on_the_way(&mut self, packet: &mut Transit) {
        let _ = packet;
    }
    /// The packet's time of delivery is known; the impairment may postpone it.
    fn at_delivery(&mut self, packet: &mut Transit) {
        let _ = packet;
    }
    /// The time of delivery of the last packet changes: restores the state from before that packet,
    /// so that its delivery can be computed anew.
    fn withdraw(&mut self) {}
}

/// A packet on the link, and the effects of impairments so far.
#[derive(Debug)]
pub struct Transit {
    /// Length as the link accounts it.
    pub(super) bytes: u32,
    /// End of its occupation of the wire.
    pub(super) end: Time,
    /// True if it does not arrive.
    pub(super) lost: bool,
    /// The bit to flip: see [`Corrupt::draw`](crate::message::Corrupt::draw).
    pub(super) flipped_bit: Option<u64>,
    /// True if it arrives twice.
    pub(super) twice: bool,
    /// True if it skips the delay of the link.
    pub(super) overtakes: bool,
    /// True if it does not arrive before packets that left before it.
    pub(super) keeps_order: bool,
    /// Its time on the link.
    pub(super) delay: Span,
    /// An addition to its time on the link.
    pub(super) beyond: Span,
    /// Time of delivery, once determined.
    pub(super) due: Time,
    /// Earliest time at which the next packet may go on the wire.
    pub(super) free: Time,
    chances: Chances,
    flow: u32,
    /// Its number among the packets that arrived for its flow.
    number: u64,
    /// Number of packets that left the pipe before it.
    left: u64,
}

impl Transit {
    /// A packet that leaves its queue as `number` of its flow, on a link of this delay.
    pub(super) fn new(
        emit: &Emit,
        delay: Span,
        chances: Chances,
        (number, left): (u64, u64),
    ) -> Transit {
        Transit {
            bytes: emit.bytes,
            end: emit.end,
            lost: false,
            flipped_bit: None,
            twice: false,
            overtakes: false,
            keeps_order: true,
            delay,
            beyond: Span::ZERO,
            due: emit.due,
            free: emit.end,
            chances,
            flow: emit.flow.0,
            number,
            left,
        }
    }

    /// The random numbers of the packet for one purpose.
    #[inline]
    pub(super) fn draw(&self, stream: RngStream) -> Draw {
        let Transit { chances, number, left, .. } = *self;
        Draw { chances, stream: stream as u64, flow: self.flow, number, left }
    }
}
