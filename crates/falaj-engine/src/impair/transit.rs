//! A packet on its way over a link, and what an impairment is.

use super::event::{Chances, Draw, RngStream};
use crate::message::Emit;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::units::time::{Span, Time};

/// One thing that a link does to packets, as it was configured.
pub trait Impairment {
    /// The same at work: what it remembers from packet to packet.
    fn state(&self, link: &LinkDelays) -> Box<dyn ImpairmentState>;
    /// The impairment in a few words: `loses 1%`.
    fn words(&self) -> String;
    /// By how much it makes the time longer or shorter that packets are on their way.
    fn widen(&self, delays: &mut LinkDelays) {
        let _ = delays;
    }
    /// Why no discipline promises anything on a link that does this.
    fn no_promise(&self) -> Option<NoPromise> {
        None
    }
    /// Returns true if some packets are lost.
    fn loses(&self) -> bool {
        false
    }
    /// Returns true if a stream of bytes would not arrive as it was sent: pieces of it are lost,
    /// doubled, corrupted, or overtake.
    fn breaks_streams(&self) -> bool {
        false
    }
    /// How packets arrive otherwise than they left, apart from those that do not.
    fn irregularity(&self) -> Option<Irregularity> {
        None
    }
}

/// How packets arrive otherwise than they left; the first of several counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Irregularity {
    /// Some are longer on their way than others.
    Delay,
    /// They arrive at instants that the link chooses.
    Instants,
    /// Some arrive twice.
    Copies,
}

/// For how long packets are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDelays {
    /// The delay of the link, without what it does to packets.
    pub delay: Span,
    /// The shortest time that a packet is on its way.
    pub least: Span,
    /// The longest, but for packets that wait for one before them or for a slot.
    pub most: Span,
    /// Some packets skip the delay.
    pub may_skip: bool,
    /// What comes to the longest time.
    pub beyond: Span,
}

impl LinkDelays {
    /// Those of a link that does nothing else to packets.
    pub fn of(delay: Span) -> LinkDelays {
        LinkDelays { delay, least: delay, most: delay, may_skip: false, beyond: Span::ZERO }
    }

    /// The least and the greatest time that a packet is on its way.
    pub fn range(&self) -> (Span, Span) {
        (if self.may_skip { Span::ZERO } else { self.least }, self.most + self.beyond)
    }
}

/// An impairment at work on the packets of a pipe. Its three moments are those of each packet; what
/// happens in one does not depend on the order of impairments.
pub trait ImpairmentState: Send {
    /// The packet goes on the wire: for how long it occupies that, and whether it is lost.
    fn on_wire(&mut self, packet: &mut Transit) {
        let _ = packet;
    }
    /// It is not lost: what becomes of it on its way.
    fn on_the_way(&mut self, packet: &mut Transit) {
        let _ = packet;
    }
    /// Its time of delivery is known, and may be put off.
    fn at_delivery(&mut self, packet: &mut Transit) {
        let _ = packet;
    }
    /// The last packet has another time of delivery: it is as if it had not left, and its delivery
    /// follows anew.
    fn withdraw(&mut self) {}
}

/// A packet on the link, and what has become of it so far.
#[derive(Debug)]
pub struct Transit {
    /// Length as the link accounts it.
    pub(super) bytes: u32,
    /// Until when it occupies the wire.
    pub(super) end: Time,
    /// It does not arrive.
    pub(super) lost: bool,
    /// A bit of it is turned: see [`Corrupt::draw`](crate::message::Corrupt::draw).
    pub(super) turned_bit: Option<u64>,
    /// It arrives twice.
    pub(super) twice: bool,
    /// It skips the delay of the link.
    pub(super) overtakes: bool,
    /// It does not arrive before those that left before it.
    pub(super) keeps_order: bool,
    /// For how long it is on its way.
    pub(super) delay: Span,
    /// What comes to that.
    pub(super) beyond: Span,
    /// When it is delivered, once that is known.
    pub(super) due: Time,
    /// When the next packet may go on the wire.
    pub(super) free: Time,
    chances: Chances,
    flow: u32,
    /// Its number among the packets that arrived for its flow.
    number: u64,
    /// Packets that left the pipe before it.
    left: u64,
}

impl Transit {
    /// Of a packet that leaves its queue as `number` of its flow, on a link of this delay.
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
            turned_bit: None,
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
