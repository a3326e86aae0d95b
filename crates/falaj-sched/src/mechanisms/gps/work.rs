//! Work of a link, in parts of a byte: `byte` parts are one byte.

use super::clock::Work;
use crate::units::rate::{BIT_NANOS, Rate};
use crate::units::time::Span;

/// Work of a link of this rate in a nanosecond, and the fraction of a part that rounding drops, as
/// a multiple of 1/`BIT_NANOS`.
pub(super) fn pace(rate: Rate, byte: u64) -> (Work, u64) {
    let whole = Work::from(rate.0) * Work::from(byte);
    (whole / Work::from(BIT_NANOS), (whole % Work::from(BIT_NANOS)) as u64)
}

/// Work in this time, rounded down.
pub(super) fn work_in(rate: Rate, byte: u64, time: Span) -> Work {
    pace_for(pace(rate, byte), time)
}

#[inline]
pub(super) fn pace_for((pace, lost): (Work, u64), time: Span) -> Work {
    let lost = match lost.checked_mul(time.0) {
        Some(lost) => Work::from(lost / BIT_NANOS),
        None => Work::from(lost) * Work::from(time.0) / Work::from(BIT_NANOS),
    };
    pace.saturating_mul(Work::from(time.0)).saturating_add(lost)
}

/// Time for this work, rounded up.
pub(super) fn time_of(rate: Rate, byte: u64, work: Work) -> Span {
    let nanos = match work.checked_mul(Work::from(BIT_NANOS)) {
        Some(work) => work.div_ceil(Work::from(rate.0) * Work::from(byte)),
        None => work.div_ceil(pace(rate, byte).0),
    };
    Span(u64::try_from(nanos).unwrap_or(u64::MAX))
}
