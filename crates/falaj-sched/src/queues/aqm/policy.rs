//! The policies of queues as they are set: each with its parameters.

use crate::units::probability::Probability;
use crate::units::time::Span;

/// A policy and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Where there is no room, the packet that waits longest goes.
    Head,
    /// Random early detection.
    Red(RedParameters),
    /// Controlled delay.
    CoDel(CoDelParameters),
    /// Proportional integral controller enhanced.
    Pie(PieParameters),
}

impl Policy {
    /// Does it throw out packets that had found room?
    pub(crate) fn drops_later(&self) -> bool {
        matches!(self, Policy::Head | Policy::CoDel(_))
    }

    /// How it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::Head => "head",
            Policy::Red(red) if red.gentle => "gred",
            Policy::Red(_) => "red",
            Policy::CoDel(_) => "codel",
            Policy::Pie(_) => "pie",
        }
    }
}

/// Thresholds, probability and weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedParameters {
    /// Below it nothing happens.
    pub min: u32,
    /// Where the probability is reached.
    pub max: u32,
    /// Are the thresholds, and the average, bytes?
    pub bytes: bool,
    /// Just below `max`.
    pub probability: Probability,
    /// Of the length at an arrival.
    pub weight: Probability,
    /// Not everything is dropped beyond `max`, but beyond twice as much.
    pub gentle: bool,
    /// Marks instead of drops, where they are at random.
    pub ecn: bool,
}

/// Target and interval, and whether packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelParameters {
    /// Below this a queue is good.
    pub target: Span,
    /// It has to get below once in this time.
    pub interval: Span,
    /// Marks instead of drops.
    pub ecn: bool,
}

impl Default for CoDelParameters {
    fn default() -> CoDelParameters {
        CoDelParameters {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: false,
        }
    }
}

/// Reference, period and burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieParameters {
    /// QDELAY_REF.
    pub target: Span,
    /// T_UPDATE.
    pub update: Span,
    /// MAX_BURST.
    pub burst: Span,
    /// Marks instead of drops, as long as the probability is below a tenth.
    pub ecn: bool,
}

impl Default for PieParameters {
    fn default() -> PieParameters {
        let (target, burst) = (Span::from_millis(15), Span::from_millis(150));
        PieParameters { target, update: target, burst, ecn: false }
    }
}
