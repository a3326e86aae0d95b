//! What happens to a packet with a probability: to each for itself, or in runs.

use crate::chance::Chance;
use falaj_sched::units::probability::Probability;
use std::fmt;

/// What random numbers of a pipe are drawn for; each has its own, which do not depend on others.
/// Numbers stay what they are: with them the random numbers do.
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

/// Where the draws of a pipe begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chances {
    pub(crate) seed: u64,
    pub(crate) pipe: u32,
}

/// The draws for one packet and one thing that may happen to it.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) chances: Chances,
    pub(crate) stream: u64,
    pub(crate) flow: u32,
    pub(crate) number: u64,
    pub(crate) left: u64,
}

/// The elements of sources are small numbers.
const IMPAIRMENTS: u64 = 1 << 63;

impl Draw {
    fn chance(&self, stream: u64) -> Chance {
        Chance::new(
            self.chances.seed,
            IMPAIRMENTS | u64::from(self.chances.pipe) << 8 | self.stream,
            stream,
        )
    }
    /// The packet's own, whatever happened to others.
    #[inline]
    pub(crate) fn independent(&self) -> u64 {
        self.chance(1 + u64::from(self.flow)).draw(self.number)
    }
    /// In the order in which packets leave; several for each of them.
    #[inline]
    pub(crate) fn in_turn(&self, which: u64) -> u64 {
        self.at(8 * (self.left + 1) + which)
    }
    /// What does not belong to a packet.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        self.chance(0).draw(index)
    }
}

/// What happens to packets with a probability.
///
/// With a correlation, a packet fares as the one before it with that
/// probability, and otherwise by a draw of its own. So the mean stays what it
/// is, and the correlation of neighbours is the one asked for; `k` packets
/// apart it is its `k`th power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomEvent {
    /// How often it happens.
    pub probability: Probability,
    /// How often a packet fares as the one before it.
    pub correlation: Probability,
}

impl RandomEvent {
    /// Of each packet for itself.
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

/// An event and how the last packet fared.
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
