//! Curves of two slopes by definition: the minimum of all their copies.

use super::fraction::Fraction;
use falaj_sched::contract::params::Values;

/// A curve's first slope, its duration, and the second slope; and all the points at which it began
/// anew, in (time, bytes): the curve is the minimum of all copies from these points. Slopes are in
/// nanoseconds per byte.
#[derive(Clone)]
pub struct Copies {
    pub slopes: (u64, u64, u64),
    pub begins: Vec<(Fraction, u64)>,
}

impl Copies {
    pub fn of(values: &Values, [rate, first, time]: [&str; 3]) -> Option<Copies> {
        let second = nanos_of_a_byte(values, rate)?;
        let slopes = (
            nanos_of_a_byte(values, first).unwrap_or(second),
            values.span(time).map_or(0, |s| s.0),
            second,
        );
        Some(Copies { slopes, begins: Vec::new() })
    }
    /// Time at which it reaches `bytes` bytes.
    pub fn reaches(&self, bytes: u64) -> Fraction {
        let (first, time, second) = self.slopes;
        let one = |&(from, at): &(Fraction, u64)| {
            let more = Fraction::of(bytes).minus(Fraction::of(at));
            let steep = more.times(first, 1u64);
            let then =
                Fraction::of(time).plus(more.minus(Fraction::new(time, first)).times(second, 1u64));
            from.plus(steep.max(then))
        };
        self.begins.iter().map(one).max().unwrap_or(Fraction::ZERO)
    }
}

pub fn whole(time: Fraction) -> Fraction {
    Fraction::ZERO.minus(Fraction::ZERO.minus(time).floor(Fraction::of(1)))
}

pub fn nanos_of_a_byte(values: &Values, name: &str) -> Option<u64> {
    Some(8_000_000_000 / values.rate(name)?.0)
}
