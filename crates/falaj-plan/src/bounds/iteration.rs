//! The common parts of bounds that use the envelopes of some rivals. A lower bound for one flow
//! lowers the bounds of its rivals, so all bounds are computed several times, at most `ROUNDS`
//! times.

use super::envelope::Envelope;
use super::left_over::Given;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Span;
use falaj_theory::{exact, slope, whole};

/// Number of flows above which these bounds are not computed.
pub(super) const MOST_FLOWS: usize = 200;
/// Maximum number of times that the bounds of all flows are computed.
pub(super) const ROUNDS: usize = 5;

/// A flow's envelope, and the known bounds on its delay.
pub(super) struct KnownBounds<'a> {
    pub(super) envelope: Option<&'a Envelope>,
    /// Bound on its delay if flows keep to the envelopes that they declare.
    pub(super) declared: Option<Span>,
    /// Bound on its delay if flows send no more than their sources.
    pub(super) sources: Option<Span>,
}

impl<'a> KnownBounds<'a> {
    /// The flow's envelope, if it is known under these conditions.
    pub(super) fn envelope(&self, given: Given) -> Option<&'a Envelope> {
        self.envelope.filter(|envelope| given == Given::Sources || envelope.is_declared())
    }

    /// Bound on the flow's delay under these conditions.
    pub(super) fn delay(&self, given: Given) -> Option<Span> {
        if given == Given::Sources { self.sources } else { self.declared }
    }
}

/// A bound on the bytes that a rival sends within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Slope in bits per second.
    pub(super) rate: u64,
    /// Bytes at once.
    pub(super) bytes: u64,
}

impl Line {
    pub(super) const NONE: Line = Line { rate: 0, bytes: 0 };

    /// Bytes within a time in nanoseconds.
    pub(super) fn after(self, time: f64) -> f64 {
        self.bytes as f64 + self.rate as f64 * time / BIT_NANOS as f64
    }

    pub(super) fn sum(self, other: Line) -> Line {
        Line {
            rate: self.rate.saturating_add(other.rate),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    pub(super) fn lower(self, other: Line, time: f64) -> Line {
        if other.after(time) < self.after(time) { other } else { self }
    }
}

/// For each token bucket of a flow, the bound on the bytes that it sends within a time. These bytes
/// arrived within that time, or at most the flow's delay before it began. Empty if envelope or
/// delay is unknown.
pub(super) fn lines_by_delay(envelope: Option<&Envelope>, delay: Option<Span>) -> Vec<Line> {
    let line = |delay: Span| {
        move |&(rate, burst): &(Rate, u64)| {
            let before = whole(&(slope(rate) * exact(delay.0)));
            Line { rate: rate.0, bytes: burst.saturating_add(before) }
        }
    };
    let buckets = envelope.map_or(&[][..], |envelope| &envelope.buckets);
    delay.map_or_else(Vec::new, |delay| buckets.iter().map(line(delay)).collect())
}
