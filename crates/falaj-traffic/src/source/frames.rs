//! Video as groups of pictures (MPEG): frames at equal gaps, whose lengths depend on their kind.
//!
//! The source of Zhang's thesis (section 4.4): `I` frames of 15,000 to 17,000 B, each length as
//! often; `P` frames of 512 B and an exponential part with which their mean is 2100 B, `B` frames
//! of 256 B and one with which it is 550 B, both of 17,000 B at most. The thesis' 615 kbit/s come
//! out only where these are the means of what is sent. Krunz and others found lognormal lengths;
//! [`Law::Lognormal`] has the same means and deviations.

use super::{exponential, unit};
use falaj_engine::chance::Chance;
use rand_distr::{Distribution, LogNormal};
use serde::{Deserialize, Serialize};

/// A group of pictures, and how its frames are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// The kinds of frames of a group, in order; not empty.
    pub pattern: Vec<Frame>,
    /// How their lengths are drawn.
    pub law: Law,
    /// A frame that is longer is sent as several packets, at one instant and as equal as may be.
    pub largest: u32,
}

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// A whole picture.
    I,
    /// Predicted from the one before.
    P,
    /// Predicted from both sides.
    B,
}

/// How the lengths of frames are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Law {
    /// As in the thesis: uniform, and exponential above a least length.
    Exponential,
    /// Lognormal with the same means and deviations.
    Lognormal,
}

/// No frame is shorter: it has headers.
pub(super) const SHORTEST: u32 = 100;

impl Law {
    /// No frame is longer.
    pub fn longest(self) -> u32 {
        match self {
            Law::Exponential => 17_000,
            // What a datagram can carry; at these means longer ones hardly ever come.
            Law::Lognormal => 60_000,
        }
    }
}

impl Frame {
    /// By its letter.
    pub fn of(letter: char) -> Option<Frame> {
        match letter {
            'I' => Some(Frame::I),
            'P' => Some(Frame::P),
            'B' => Some(Frame::B),
            _ => None,
        }
    }

    /// Mean length.
    pub fn mean(self) -> u32 {
        match self {
            Frame::I => 16_000,
            Frame::P => 2_100,
            Frame::B => 550,
        }
    }

    /// Least length, and standard deviation, which is the mean of the exponential part.
    fn spread(self) -> (f64, f64) {
        match self {
            Frame::I => (15_000.0, 2_000.0 / f64::sqrt(12.0)),
            Frame::P => (512.0, 2_100.0 - 512.0),
            Frame::B => (256.0, 550.0 - 256.0),
        }
    }

    /// The next length.
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
            // One in thirty thousand, and less.
            if bytes <= f64::from(law.longest()) {
                return (bytes.round() as u32).max(SHORTEST);
            }
        }
    }
}

impl Frames {
    /// The mean length of a frame, exactly: so many bytes in so many frames.
    pub fn mean(&self) -> (u64, u64) {
        (self.pattern.iter().map(|f| u64::from(f.mean())).sum(), self.pattern.len() as u64)
    }

    /// Length of the frame of this number.
    pub(super) fn draw(&self, number: u64, chance: &mut Chance) -> u32 {
        let frame = self.pattern[(number % self.pattern.len() as u64) as usize];
        frame.draw(self.law, chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40,000 frames of each kind: means within four standard errors, and the rest as the source
    /// says.
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
