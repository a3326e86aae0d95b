//! A greedy source: the worst case of an envelope. It sends as many bytes as the envelope allows,
//! as early as the envelope allows.

use super::bucket::{Bucket, Tokens};
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// An arrival curve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Envelope {
    /// One or more token buckets, (sigma, rho) of Cruz (1991). Packets must conform to all of them.
    Buckets(Vec<Bucket>),
    /// In each frame at most as many bytes as the rate allows in the length of a frame: (r,
    /// T)-smooth traffic of Golestani's stop-and-go (1990).
    Frames {
        /// The rate in bits per second.
        rate: u64,
        /// Length of a frame in nanoseconds.
        frame: u64,
    },
    /// Packets at least `least` apart, and at most `over / mean` packets in any interval of length
    /// `over`: (Xmin, Xave, I) of Ferrari and Verma (1990), where Smax is the packets' size. All
    /// values are in nanoseconds; `least <= mean <= over`.
    Spaced {
        /// Minimum gap, Xmin.
        least: u64,
        /// Minimum mean gap over an interval, Xave.
        mean: u64,
        /// Length of the interval, I.
        over: u64,
    },
}

impl Envelope {
    /// Maximum number of bytes in a frame, or of packets in an interval.
    fn share(&self) -> u64 {
        match *self {
            Envelope::Buckets(_) => 0,
            Envelope::Frames { rate, frame } => {
                u64::try_from(u128::from(rate) * u128::from(frame) / u128::from(BIT_NANOS))
                    .unwrap_or(u64::MAX)
            }
            Envelope::Spaced { mean, over, .. } => over / mean.max(1),
        }
    }

    /// The long-term rate. The mean packet length is given as a total of bytes and a number of
    /// packets.
    pub fn rate(&self, (bytes, times): (u64, u64)) -> Rate {
        match self {
            Envelope::Buckets(buckets) => Rate(buckets.iter().map(|b| b.rate).min().unwrap_or(0)),
            Envelope::Frames { rate, .. } => Rate(*rate),
            Envelope::Spaced { over, .. } => {
                let work = u128::from(self.share()) * u128::from(bytes) * u128::from(BIT_NANOS);
                let per = u128::from(times.max(1)) * u128::from((*over).max(1));
                Rate(u64::try_from(work / per).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns a token bucket to which the source conforms, for packets of at most `largest` bytes.
    /// Returns `None` if its burst would exceed 32 bits. If the envelope has several buckets, the
    /// result is the bucket with the lowest rate, which is the long-term limit.
    pub fn bucket(&self, largest: u32) -> Option<Bucket> {
        match self {
            Envelope::Buckets(buckets) => buckets.iter().copied().min_by_key(|b| b.rate),
            // All bytes of a frame may arrive at its end, and those of the next frame at its
            // beginning.
            Envelope::Frames { rate, .. } => Some(Bucket {
                rate: *rate,
                burst: u32::try_from(self.share().saturating_mul(2)).ok()?,
            }),
            // Packets after the first one come `least` apart, and tokens arrive at the rate in
            // between.
            Envelope::Spaced { least, .. } => {
                let rate = self.rate((largest.into(), 1)).0 + 1;
                let work = u128::from(rate)
                    * u128::from(*least)
                    * u128::from(self.share().saturating_sub(1));
                let brought = u64::try_from(work / u128::from(BIT_NANOS)).unwrap_or(u64::MAX);
                let all = self.share().saturating_mul(largest.into()).saturating_sub(brought);
                Some(Bucket { rate, burst: u32::try_from(all).ok()?.max(largest) })
            }
        }
    }
}

/// The packet times of a greedy source.
#[derive(Clone, Debug)]
pub(super) struct Greedy {
    envelope: Envelope,
    begin: Time,
    /// The state of the buckets, for [`Envelope::Buckets`].
    tokens: Vec<Tokens>,
    /// `turn`: number of the current frame or interval. `sent`: the bytes or packets that were sent
    /// in it.
    turn: u64,
    sent: u64,
}

impl Greedy {
    /// A source whose first burst is at `begin`.
    pub(super) fn new(envelope: Envelope, begin: Time) -> Greedy {
        let tokens = match &envelope {
            Envelope::Buckets(buckets) => {
                buckets.iter().map(|bucket| Tokens::new(*bucket)).collect()
            }
            _ => Vec::new(),
        };
        Greedy { envelope, begin, tokens, turn: 0, sent: 0 }
    }

    /// Returns the time of the next packet, which has `bytes` bytes.
    pub(super) fn next(&mut self, bytes: u32) -> Time {
        match self.envelope {
            Envelope::Buckets(_) => {
                let at =
                    self.tokens.iter().map(|tokens| tokens.has(bytes)).max().unwrap_or(Time::NEVER);
                let at = at.max(self.begin);
                self.tokens.iter_mut().for_each(|tokens| tokens.take(at, bytes));
                at
            }
            Envelope::Frames { frame, .. } => {
                let share = self.envelope.share().max(bytes.into());
                if self.sent + u64::from(bytes) > share {
                    (self.turn, self.sent) = (self.turn + 1, 0);
                }
                self.sent += u64::from(bytes);
                // The first frame ends at `begin`, and all its bytes are sent 1 ns before that. The
                // bytes of each later frame are sent at the start of that frame.
                match self.turn {
                    0 => Time(self.begin.0.saturating_sub(1)),
                    turn => self.begin + Span(frame) * (turn - 1),
                }
            }
            Envelope::Spaced { least, over, .. } => {
                if self.sent >= self.envelope.share().max(1) {
                    (self.turn, self.sent) = (self.turn + 1, 0);
                }
                let at = self.begin + Span(over) * self.turn + Span(least * self.sent);
                self.sent += 1;
                at
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::bucket::tests::conforms;
    use crate::source::{Model, Packet, Source, SourceSpec, size::Sizes};

    fn packets(envelope: &Envelope, sizes: Sizes, start: Time) -> Vec<Packet> {
        let spec = SourceSpec {
            model: Model::Greedy(envelope.clone()),
            rate: envelope.rate(sizes.mean()),
            sizes,
            limit: None,
            start,
            stop: Time(1_000_000_000),
        };
        Source::new(spec, 1, 0).collect()
    }

    fn at(packets: &[Packet]) -> Vec<u64> {
        packets.iter().map(|p| p.at.0).collect()
    }

    #[test]
    fn buckets_are_emptied_and_used_as_they_fill() {
        let [peak, long] =
            [Bucket { rate: 80_000_000, burst: 1000 }, Bucket { rate: 8_000_000, burst: 3000 }];
        let sent = packets(&Envelope::Buckets(vec![peak, long]), Sizes::Fixed(1000), Time(500));
        // The peak bucket allows one packet every 100 us. The other bucket has tokens for three
        // packets; then one packet follows every 1 ms.
        assert_eq!(at(&sent[..5]), [500, 100_500, 200_500, 1_000_500, 2_000_500]);
        let mixed =
            packets(&Envelope::Buckets(vec![peak, long]), Sizes::Uniform(80, 1000), Time::ZERO);
        assert!(conforms(&mixed, peak) && conforms(&mixed, long));
        // Of the allowed bytes, 3000 B and those of a second at 8 Mbit/s, the source leaves less
        // than one packet unused.
        let sum: u64 = mixed.iter().map(|p| u64::from(p.bytes)).sum();
        assert!((1_002_000..=1_003_000).contains(&sum), "{sum}");
    }

    #[test]
    fn frames_meet_at_their_border() {
        // 2500 B in each millisecond: two packets.
        let envelope = Envelope::Frames { rate: 20_000_000, frame: 1_000_000 };
        let sent = packets(&envelope, Sizes::Fixed(1000), Time(1_000_000));
        assert_eq!(at(&sent[..6]), [999_999, 999_999, 1_000_000, 1_000_000, 2_000_000, 2_000_000]);
        let bucket = envelope.bucket(1000).unwrap();
        assert!(conforms(&sent, bucket));
        assert_eq!(bucket, Bucket { rate: 20_000_000, burst: 5000 });
        let few = packets(&envelope, Sizes::Uniform(80, 1000), Time(1_000_000));
        assert!(conforms(&few, bucket));
    }

    #[test]
    fn packets_come_as_close_and_as_many_as_allowed() {
        let envelope = Envelope::Spaced { least: 100_000, mean: 250_000, over: 1_000_000 };
        let sent = packets(&envelope, Sizes::Fixed(500), Time::ZERO);
        assert_eq!(at(&sent[..5]), [0, 100_000, 200_000, 300_000, 1_000_000]);
        // At most four packets in any millisecond.
        assert!(sent.windows(5).all(|five| (five[4].at - five[0].at).0 >= 1_000_000));
        // 4 x 500 B in 1 ms: 16 Mbit/s. The bucket gains 600 B during the 300 us that four packets
        // take.
        assert_eq!(envelope.rate((500, 1)), Rate(16_000_000));
        let bucket = envelope.bucket(500).unwrap();
        assert!(conforms(&sent, bucket) && bucket.burst == 1400, "{bucket:?}");
        assert!(!conforms(&sent, Bucket { burst: 1390, ..bucket }));
    }
}
