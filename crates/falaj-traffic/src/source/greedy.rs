//! The worst that an envelope allows: a source that sends as much as it may, as early as it may.

use super::bucket::{Bucket, Tokens};
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// What is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Envelope {
    /// Token buckets, which all hold: (sigma, rho) of Cruz (1991), and several of them. One at
    /// least.
    Buckets(Vec<Bucket>),
    /// At most what the rate brings in a frame's time, in each frame: (r, T)-smooth, of Golestani's
    /// stop-and-go (1990).
    Frames {
        /// Bits in a second.
        rate: u64,
        /// Nanoseconds that a frame lasts.
        frame: u64,
    },
    /// No two packets nearer than `least`, and in any time `over` no more than one for each `mean`
    /// of it: (Xmin, Xave, I) of Ferrari and Verma (1990); Smax is the packets' size. In
    /// nanoseconds; `least <= mean <= over`.
    Spaced {
        /// Xmin.
        least: u64,
        /// Xave.
        mean: u64,
        /// I.
        over: u64,
    },
}

impl Envelope {
    /// Bytes in a frame, or packets in an interval: what there may be before the next one begins.
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

    /// The rate in the long run, of packets of this mean length: so many bytes in so many.
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

    /// A bucket that all it sends keeps to, where packets have so many bytes at most; `None` if
    /// there is none of ordinary size. Of several buckets the lowest rate, as that decides in
    /// the long run.
    pub fn bucket(&self, largest: u32) -> Option<Bucket> {
        match self {
            Envelope::Buckets(buckets) => buckets.iter().copied().min_by_key(|b| b.rate),
            // A frame may end with all of its bytes, and the next begin with all of its own.
            Envelope::Frames { rate, .. } => Some(Bucket {
                rate: *rate,
                burst: u32::try_from(self.share().saturating_mul(2)).ok()?,
            }),
            // After the first, each comes `least` later, in which the rate has brought something.
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

/// When the next packet may come.
#[derive(Clone, Debug)]
pub(super) struct Greedy {
    envelope: Envelope,
    begin: Time,
    /// Those of [`Envelope::Buckets`].
    tokens: Vec<Tokens>,
    /// The frame, or the interval, and what was sent in it.
    turn: u64,
    sent: u64,
}

impl Greedy {
    /// Its first burst is at `begin`.
    pub(super) fn new(envelope: Envelope, begin: Time) -> Greedy {
        let tokens = match &envelope {
            Envelope::Buckets(buckets) => {
                buckets.iter().map(|bucket| Tokens::new(*bucket)).collect()
            }
            _ => Vec::new(),
        };
        Greedy { envelope, begin, tokens, turn: 0, sent: 0 }
    }

    /// The instant of the next packet, of so many bytes.
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
                // The first frame ends at `begin`, and its bytes come with those of the next.
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
        // The peak lets one through each 100 us; the other has three, less what it fills meanwhile,
        // and then one each 1 ms.
        assert_eq!(at(&sent[..5]), [500, 100_500, 200_500, 1_000_500, 2_000_500]);
        let mixed =
            packets(&Envelope::Buckets(vec![peak, long]), Sizes::Uniform(80, 1000), Time::ZERO);
        assert!(conforms(&mixed, peak) && conforms(&mixed, long));
        // All that may be sent is sent: 3000 B and a second of 8 Mbit/s, less a packet.
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
    fn packets_come_as_near_and_as_many_as_they_may() {
        let envelope = Envelope::Spaced { least: 100_000, mean: 250_000, over: 1_000_000 };
        let sent = packets(&envelope, Sizes::Fixed(500), Time::ZERO);
        assert_eq!(at(&sent[..5]), [0, 100_000, 200_000, 300_000, 1_000_000]);
        // No more than four in any millisecond.
        assert!(sent.windows(5).all(|five| (five[4].at - five[0].at).0 >= 1_000_000));
        // 4 x 500 B in 1 ms: 16 Mbit/s, of which 600 B are brought while the others come.
        assert_eq!(envelope.rate((500, 1)), Rate(16_000_000));
        let bucket = envelope.bucket(500).unwrap();
        assert!(conforms(&sent, bucket) && bucket.burst == 1400, "{bucket:?}");
        assert!(!conforms(&sent, Bucket { burst: 1390, ..bucket }));
    }
}
