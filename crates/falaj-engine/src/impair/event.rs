//! Random events: they happen to each packet independently, or in runs.

use crate::chance::Chance;
use falaj_sched::units::probability::Probability;
use std::fmt;

/// The streams of random numbers of a pipe, which are independent of each other. The discriminants
/// are fixed: the random numbers depend on them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RngStream {
    Loss = 0,
    Duplicate = 1,
    Corrupt = 2,
    Bit = 3,
    Reorder = 4,
    Jitter = 5,
    Slots = 6,
    Profile = 7,
    JitterPath = 8,
}

/// The seed of the draws of a pipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chances {
    pub(crate) seed: u64,
    pub(crate) pipe: u32,
}

/// The draws for one packet and one kind of event.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) chances: Chances,
    pub(crate) stream: u64,
    pub(crate) flow: u32,
    pub(crate) number: u64,
    pub(crate) left: u64,
}

/// A bit that is set in the element of these draws. It keeps them apart from the draws of sources,
/// whose elements are small numbers.
const IMPAIRMENTS: u64 = 1 << 63;

impl Draw {
    fn chance(&self, stream: u64) -> Chance {
        Chance::new(
            self.chances.seed,
            IMPAIRMENTS | u64::from(self.chances.pipe) << 8 | self.stream,
            stream,
        )
    }
    /// The packet's own draw, independent of other packets.
    #[inline]
    pub(crate) fn independent(&self) -> u64 {
        self.chance(1 + u64::from(self.flow)).draw(self.number)
    }
    /// Draw number `which` (0 to 7) of the packet, by its number among the packets that left.
    #[inline]
    pub(crate) fn in_turn(&self, which: u64) -> u64 {
        self.at(8 * (self.left + 1) + which)
    }
    /// A draw that does not belong to a packet.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        self.chance(0).draw(index)
    }
}

/// An event that happens to packets with a probability.
///
/// With probability `correlation`, a packet has the same outcome as the packet before it, and
/// otherwise an independent outcome. So the mean stays the same. The correlation of neighboring
/// packets is `correlation`, and the correlation of packets `k` apart is its `k`th power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomEvent {
    /// The probability of the event.
    pub probability: Probability,
    /// The probability that a packet has the outcome of the packet before it.
    pub correlation: Probability,
}

impl RandomEvent {
    /// An event that happens to each packet independently.
    pub fn independent(probability: Probability) -> RandomEvent {
        RandomEvent { probability, correlation: Probability::NEVER }
    }
}

impl fmt::Display for RandomEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.correlation {
            Probability::NEVER => self.probability.fmt(f),
            correlation => write!(f, "{} (correlation {correlation})", self.probability),
        }
    }
}

/// An event, and the outcome of the last packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventState {
    event: RandomEvent,
    last: Option<bool>,
}

impl EventState {
    pub(crate) fn new(event: RandomEvent) -> EventState {
        EventState { event, last: None }
    }

    #[inline]
    pub(crate) fn happens(&mut self, draw: Draw) -> bool {
        let RandomEvent { probability, correlation } = self.event;
        if correlation == Probability::NEVER {
            return probability.hits(draw.independent());
        }
        let happens = match self.last {
            Some(last) if correlation.hits(draw.in_turn(0)) => last,
            _ => probability.hits(draw.in_turn(1)),
        };
        self.last = Some(happens);
        happens
    }
}
