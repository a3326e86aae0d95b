//! Video as groups of pictures (MPEG): frames at equal gaps, whose lengths depend on their kind.
//!
//! The source of Zhang's thesis (section 4.4): `I` frames are uniform from 15,000 to 17,000 B. `P`
//! frames have 512 B and an exponential part, with a mean of 2100 B in all. `B` frames have 256 B
//! and an exponential part, with a mean of 550 B in all. Both have at most 17,000 B. The 615 kbit/s
//! of the thesis result only if these are the means of the frames that are sent. Krunz and others
//! found lognormal lengths; [`Law::Lognormal`] has the same means and deviations.

use super::{exponential, unit};
use falaj_engine::chance::Chance;
use rand_distr::{Distribution, LogNormal};
use serde::{Deserialize, Serialize};

/// A group of pictures, and the packets that carry its frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// The kinds of frames of a group, in order; not empty.
    pub pattern: Vec<Frame>,
    /// The distribution of their lengths.
    pub law: Law,
    /// Maximum packet size in bytes. A longer frame is sent as several packets at one instant, of
    /// sizes as equal as possible.
    pub largest: u32,
}

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// A frame with a whole picture.
    I,
    /// A frame predicted from the picture before it.
    P,
    /// A frame predicted from the pictures before and after it.
    B,
}

/// Distributions of frame lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Law {
    /// As in the thesis: uniform, and exponential above a minimum length.
    Exponential,
    /// Lognormal with the same means and deviations.
    Lognormal,
}

/// Minimum length of a frame in bytes, for its headers.
pub(super) const SHORTEST: u32 = 100;

impl Law {
    /// Maximum length of a frame in bytes.
    pub fn longest(self) -> u32 {
        match self {
            Law::Exponential => 17_000,
            // The capacity of a datagram. With these means, longer frames are very rare.
            Law::Lognormal => 60_000,
        }
    }
}

impl Frame {
    /// The kind with this letter.
    pub fn of(letter: char) -> Option<Frame> {
        match letter {
            'I' => Some(Frame::I),
            'P' => Some(Frame::P),
            'B' => Some(Frame::B),
            _ => None,
        }
    }

    /// Mean length in bytes.
    pub fn mean(self) -> u32 {
        match self {
            Frame::I => 16_000,
            Frame::P => 2_100,
            Frame::B => 550,
        }
    }

    /// Minimum length and standard deviation in bytes; the deviation is also the mean of the
    /// exponential part.
    fn spread(self) -> (f64, f64) {
        match self {
            Frame::I => (15_000.0, 2_000.0 / f64::sqrt(12.0)),
            Frame::P => (512.0, 2_100.0 - 512.0),
            Frame::B => (256.0, 550.0 - 256.0),
        }
    }

    /// Draws the next length in bytes.
    fn draw(self, law: Law, chance: &mut Chance) -> u32 {
        let (least, spread) = self.spread();
        loop {
            let bytes = match (law, self) {
                (Law::Exponential, Frame::I) => least + 2_000.0 * unit(chance),
                (Law::Exponential, _) => least + spread * exponential(chance),
                (Law::Lognormal, _) => {
                    let mean = f64::from(self.mean());
                    let law = LogNormal::from_mean_cv(mean, spread / mean)
                        .expect("mean and deviation are above zero");
                    law.sample(chance)
                }
            };
            // At most one in thirty thousand is longer, and is drawn again.
            if bytes <= f64::from(law.longest()) {
                return (bytes.round() as u32).max(SHORTEST);
            }
        }
    }
}

impl Frames {
    /// The exact mean length of a frame: total bytes of a group, and its number of frames.
    pub fn mean(&self) -> (u64, u64) {
        (self.pattern.iter().map(|f| u64::from(f.mean())).sum(), self.pattern.len() as u64)
    }

    /// Draws the length of the frame of this number.
    pub(super) fn draw(&self, number: u64, chance: &mut Chance) -> u32 {
        let frame = self.pattern[(number % self.pattern.len() as u64) as usize];
        frame.draw(self.law, chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws 40,000 frames of each kind. The means are within four standard errors, and the other
    /// properties are as documented.
    #[test]
    fn frames_are_as_long_as_the_thesis_says() {
        const N: u32 = 40_000;
        for law in [Law::Exponential, Law::Lognormal] {
            for frame in [Frame::I, Frame::P, Frame::B] {
                let mut chance = Chance::new(1, 2, 3);
                let drawn: Vec<u32> = (0..N).map(|_| frame.draw(law, &mut chance)).collect();
                let mean = drawn.iter().map(|&b| f64::from(b)).sum::<f64>() / f64::from(N);
                let (least, spread) = frame.spread();
                let error = spread / f64::from(N).sqrt();
                assert!(
                    (mean - f64::from(frame.mean())).abs() < 4.0 * error,
                    "{law:?} {frame:?}: {mean}"
                );
                assert!(drawn.iter().all(|&b| b <= law.longest()));
                if law == Law::Exponential {
                    assert!(drawn.iter().all(|&b| f64::from(b) >= least));
                }
            }
        }
    }
}
