//! Lengths of packets.

use super::below;
use falaj_engine::chance::Chance;
use serde::{Deserialize, Serialize};

/// The lengths of a source's packets, drawn independently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sizes {
    /// All packets have this length.
    Fixed(u32),
    /// Uniform from the first length to the second.
    Uniform(u32, u32),
    /// Lengths and their relative frequencies; none of these numbers is zero.
    Mix(Vec<(u32, u32)>),
}

impl Sizes {
    /// The minimum length in bytes.
    pub fn least(&self) -> u32 {
        match self {
            Sizes::Fixed(bytes) | Sizes::Uniform(bytes, _) => *bytes,
            Sizes::Mix(parts) => parts.iter().map(|&(bytes, _)| bytes).min().unwrap_or(0),
        }
    }

    /// The maximum length in bytes.
    pub fn most(&self) -> u32 {
        match self {
            Sizes::Fixed(bytes) | Sizes::Uniform(_, bytes) => *bytes,
            Sizes::Mix(parts) => parts.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0),
        }
    }

    /// The exact mean length as a fraction: a total of bytes, and the number of packets with that
    /// total.
    pub fn mean(&self) -> (u64, u64) {
        match self {
            Sizes::Fixed(bytes) => (u64::from(*bytes), 1),
            Sizes::Uniform(least, most) => (u64::from(*least) + u64::from(*most), 2),
            Sizes::Mix(parts) => parts.iter().fold((0, 0), |(bytes, times), &(each, often)| {
                (bytes + u64::from(each) * u64::from(often), times + u64::from(often))
            }),
        }
    }

    /// Each length with its probability.
    pub fn probabilities(&self) -> Vec<(u32, f64)> {
        match self {
            Sizes::Fixed(bytes) => vec![(*bytes, 1.0)],
            Sizes::Uniform(least, most) => {
                let each = (f64::from(most - least) + 1.0).recip();
                (*least..=*most).map(|bytes| (bytes, each)).collect()
            }
            Sizes::Mix(parts) => {
                let all = self.mean().1 as f64;
                parts.iter().map(|&(bytes, often)| (bytes, f64::from(often) / all)).collect()
            }
        }
    }

    /// Draws the next length.
    #[inline]
    pub(super) fn draw(&self, chance: &mut Chance) -> u32 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            _ => self.at_random(chance),
        }
    }

    fn at_random(&self, chance: &mut Chance) -> u32 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Uniform(least, most) => {
                least + below(chance, u64::from(most - least) + 1) as u32
            }
            Sizes::Mix(parts) => {
                let mut at = below(chance, self.mean().1);
                for &(bytes, often) in parts {
                    match at.checked_sub(often.into()) {
                        Some(rest) => at = rest,
                        None => return bytes,
                    }
                }
                self.most()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In 100,000 draws, each frequency is within four standard errors of the specified frequency.
    #[test]
    fn lengths_come_as_often_as_asked() {
        const N: u32 = 100_000;
        let mix = Sizes::Mix(vec![(64, 7), (594, 4), (1518, 1)]);
        assert_eq!(mix.mean(), (64 * 7 + 594 * 4 + 1518, 12));
        assert_eq!((mix.least(), mix.most()), (64, 1518));
        let of_mix = vec![(64, 7.0 / 12.0), (594, 4.0 / 12.0), (1518, 1.0 / 12.0)];
        assert_eq!(mix.probabilities(), of_mix);
        assert_eq!(Sizes::Uniform(7, 8).probabilities(), vec![(7, 0.5), (8, 0.5)]);
        let mut chance = Chance::new(3, 0, 0);
        let drawn: Vec<u32> = (0..N).map(|_| mix.draw(&mut chance)).collect();
        for (bytes, share) in [(64, 7.0 / 12.0), (594, 4.0 / 12.0), (1518, 1.0 / 12.0)] {
            let n = drawn.iter().filter(|&&b| b == bytes).count() as f64 / f64::from(N);
            let error = f64::sqrt(share * (1.0 - share) / f64::from(N));
            assert!((n - share).abs() < 4.0 * error, "{bytes}: {n}");
        }
        let uniform = Sizes::Uniform(80, 740);
        let drawn: Vec<u32> = (0..N).map(|_| uniform.draw(&mut chance)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&80), Some(&740)));
        let mean = drawn.iter().map(|&b| f64::from(b)).sum::<f64>() / f64::from(N);
        let error = f64::sqrt((661.0 * 661.0 - 1.0) / 12.0 / f64::from(N));
        assert!((mean - 410.0).abs() < 4.0 * error, "{mean}");
    }
}
