//! Integer time. An instant is a number of nanoseconds since the engine's start, a span is a number
//! of nanoseconds. There is no floating point and no clock here.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// An instant: nanoseconds since the engine's start. Its range is 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The engine's start.
    pub const ZERO: Time = Time(0);
    /// An instant later than any event.
    pub const NEVER: Time = Time(u64::MAX);

    /// Time passed since `earlier`, or zero if `earlier` is in the future.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The instant earlier by `span`, but not before [`Time::ZERO`].
    pub fn before(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// Zero length.
    pub const ZERO: Span = Span(0);
    /// Longer than any interval that occurs.
    pub const MAX: Span = Span(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Span {
        Span(n)
    }
    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Span {
        Span(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Span {
        Span(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Span {
        Span(n * 1_000_000_000)
    }
    /// The length in seconds, for display and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The length in microseconds, for display and statistics only.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// Difference, or zero if it would be negative.
    pub fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, s: Span) -> Time {
        Time(self.0.saturating_add(s.0))
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, s: Span) {
        *self = *self + s;
    }
}
impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        Span(self.0 - earlier.0)
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, s: Span) -> Span {
        Span(self.0.saturating_add(s.0))
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, s: Span) {
        *self = *self + s;
    }
}
impl Sub for Span {
    type Output = Span;
    fn sub(self, s: Span) -> Span {
        Span(self.0 - s.0)
    }
}
impl SubAssign for Span {
    fn sub_assign(&mut self, s: Span) {
        self.0 -= s.0;
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}
impl Div<Span> for Span {
    type Output = u64;
    fn div(self, s: Span) -> u64 {
        self.0 / s.0
    }
}
impl Rem for Span {
    type Output = Span;
    fn rem(self, s: Span) -> Span {
        Span(self.0 % s.0)
    }
}
impl core::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, |a, b| a + b)
    }
}

impl fmt::Display for Span {
    /// Writes the time in the form that users write: `0s`, `870ns`, `121.12us`, `3.1ms`, `2s`;
    /// never rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name, digits) = match self.0 {
            0 => (1, "s", 0),
            1..1_000 => (1, "ns", 0),
            1_000..1_000_000 => (1_000, "us", 3),
            1_000_000..1_000_000_000 => (1_000_000, "ms", 6),
            _ => (1_000_000_000, "s", 9),
        };
        let (whole, mut rest, mut digits) = (self.0 / unit, self.0 % unit, digits);
        while digits > 0 && rest % 10 == 0 {
            rest /= 10;
            digits -= 1;
        }
        if rest == 0 {
            f.pad(&alloc::format!("{whole}{name}"))
        } else {
            f.pad(&alloc::format!("{whole}.{rest:0digits$}{name}"))
        }
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Span(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_span_is_written_as_people_write_it() {
        for (ns, text) in [
            (0, "0s"),
            (870, "870ns"),
            (30_000, "30us"),
            (121_120, "121.12us"),
            (3_100_000, "3.1ms"),
            (1_000_000_001, "1.000000001s"),
        ] {
            assert_eq!(Span(ns).to_string(), text);
        }
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::NEVER + Span::from_secs(1), Time::NEVER);
    }
}
