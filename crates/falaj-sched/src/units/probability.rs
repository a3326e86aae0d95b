//! Probabilities as integers, compared with a random number of 64 bits.

use core::fmt;

/// A probability: a multiple of 2^-64, or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Probability(u64);

impl Probability {
    /// Probability zero.
    pub const NEVER: Probability = Probability(0);
    /// Probability 1.
    pub const ALWAYS: Probability = Probability(u64::MAX);

    /// `numerator / denominator`, at most 1.
    pub const fn of(numerator: u64, denominator: u64) -> Probability {
        if numerator >= denominator {
            return Probability::ALWAYS;
        }
        Probability((((numerator as u128) << 64) / denominator as u128) as u64)
    }

    /// Returns true if the event happens. `draw` is a random number.
    #[inline]
    pub fn hits(self, draw: u64) -> bool {
        draw < self.0 || self == Probability::ALWAYS
    }

    /// Probability of either of two mutually exclusive events.
    #[inline]
    pub fn or(self, other: Probability) -> Probability {
        Probability(self.0.saturating_add(other.0))
    }

    /// The probability in units of 2^-64; for probability 1, the largest `u64`.
    #[inline]
    pub fn of_all(self) -> u64 {
        self.0
    }

    /// The probability as a number from 0 to 1, for display and setups.
    pub fn as_f64(self) -> f64 {
        if self == Probability::ALWAYS { 1.0 } else { self.0 as f64 / 18_446_744_073_709_551_616.0 }
    }

    /// A number from 0 to 1, rounded down to a multiple of 2^-64.
    pub fn from_f64(p: f64) -> Probability {
        if p >= 1.0 {
            Probability::ALWAYS
        } else {
            Probability((p * 18_446_744_073_709_551_616.0) as u64)
        }
    }
}

impl fmt::Display for Probability {
    /// Writes the probability in percent, in the form that users write.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = alloc::format!("{:.9}", self.as_f64() * 100.0);
        f.pad(&alloc::format!("{}%", text.trim_end_matches('0').trim_end_matches('.')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn never_always_and_a_half() {
        let half = Probability::of(1, 2);
        for draw in [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX] {
            assert!(Probability::ALWAYS.hits(draw) && !Probability::NEVER.hits(draw));
            assert_eq!(half.hits(draw), draw <= u64::MAX / 2);
        }
        assert_eq!(half.or(half), Probability::ALWAYS);
        assert_eq!(Probability::of(1, 4).or(Probability::of(1, 4)), half);
    }

    #[test]
    fn a_probability_is_written_as_people_write_it() {
        for (n, of, text) in [
            (0, 1, "0%"),
            (1, 1, "100%"),
            (1, 100, "1%"),
            (1, 1000, "0.1%"),
            (1, 8, "12.5%"),
            (99, 100, "99%"),
        ] {
            assert_eq!(Probability::of(n, of).to_string(), text);
            assert_eq!(Probability::from_f64(n as f64 / of as f64).to_string(), text);
        }
    }
}
