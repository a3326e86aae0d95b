//! The configured policies of queues, each with its parameters.

use crate::units::probability::Probability;
use crate::units::time::Span;

/// A policy and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Head drop: if the queue is full, the packet that has waited longest is dropped.
    Head,
    /// Random early detection.
    Red(RedParameters),
    /// Controlled delay.
    CoDel(CoDelParameters),
    /// Proportional integral controller enhanced.
    Pie(PieParameters),
}

impl Policy {
    /// Returns true if the policy drops packets after they were queued.
    pub(crate) fn drops_later(&self) -> bool {
        matches!(self, Policy::Head | Policy::CoDel(_))
    }

    /// Returns the policy's name.
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
    /// Lower threshold of the average queue length; below it no packet is dropped.
    pub min: u32,
    /// Upper threshold of the average, at which `probability` is reached.
    pub max: u32,
    /// True if the thresholds, and the average, are in bytes.
    pub bytes: bool,
    /// Probability just below `max`.
    pub probability: Probability,
    /// Weight of the queue's current length in the average, for each arrival.
    pub weight: Probability,
    /// True if all packets are dropped only at twice `max`, not at `max`.
    pub gentle: bool,
    /// True if packets are marked instead of dropped at random.
    pub ecn: bool,
}

/// Target and interval, and marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelParameters {
    /// Target: the delay up to which a queue counts as good.
    pub target: Span,
    /// Time within which the delay has to be below the target once.
    pub interval: Span,
    /// True if packets are marked instead of dropped.
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

/// Reference, period, burst and gains, and marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieParameters {
    /// Reference delay, QDELAY_REF.
    pub target: Span,
    /// Update period, T_UPDATE.
    pub update: Span,
    /// Burst allowance, MAX_BURST.
    pub burst: Span,
    /// Gain on the delay beyond the reference, in sixteenths per second.
    pub alpha: u32,
    /// Gain on the growth of the delay, in sixteenths per second.
    pub beta: u32,
    /// True if packets are marked instead of dropped.
    pub ecn: bool,
    /// The highest drop probability at which packets are marked, mark_ecnth.
    pub ecn_ceiling: Probability,
}

impl Default for PieParameters {
    fn default() -> PieParameters {
        let (target, burst) = (Span::from_millis(15), Span::from_millis(150));
        PieParameters {
            target,
            update: target,
            burst,
            alpha: 2,
            beta: 20,
            ecn: false,
            ecn_ceiling: Probability::of(1, 10),
        }
    }
}
