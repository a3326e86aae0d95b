//! Traffic sources. The same source drives the simulator and, as real datagrams, the live
//! generator.
//!
//! | module | content |
//! |---|---|
//! | [`spec`] | the specification of a source: model, rate, lengths, limit |
//! | [`size`] | packet lengths: fixed, uniform, a mix |
//! | [`chain`] | Markovian arrivals, and Poisson processes with a changing rate |
//! | [`frames`] | video: groups of pictures |
//! | [`greedy`] | the worst case of an envelope |
//! | [`recorded`] | replay of a capture's packets |
//! | [`bucket`] | token buckets behind a source: shapers and policers |
//!
//! TCP is not among these models, because its packets depend on acknowledgements; see
//! [`crate::tcp`].

pub mod bucket;
pub mod chain;
pub mod frames;
pub mod greedy;
pub mod recorded;
pub mod size;
pub mod spec;

pub use spec::{Model, PeriodLaw, SourceSpec};

use bucket::{Limit, Tokens};
use falaj_engine::chance::Chance;
use falaj_sched::units::rate::BIT_NANOS;
use falaj_sched::units::time::{Span, Time};
use greedy::Greedy;
use rand_core::Rng;
use rand_distr::{Distribution, Exp1, StandardUniform};

/// A packet that a source sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time at which it is sent.
    pub at: Time,
    /// Its length in bytes, as the link accounts it.
    pub bytes: u32,
}

/// A source, which is an iterator over its packets, in order.
#[derive(Clone, Debug)]
pub struct Source {
    spec: SourceSpec,
    /// Random stream of the packets' times.
    chance: Chance,
    /// Random stream of the packets' lengths. It is separate, so that other lengths leave the times
    /// unchanged.
    lengths: Chance,
    /// Nanoseconds between packets at the rate: the whole part, and the remainder in units of
    /// `1 / divisor`.
    gap: u64,
    gap_rest: u64,
    divisor: u64,
    mean_gap: f64,
    /// Remainder that is carried over, so that rounding errors do not accumulate.
    rest: u64,
    /// Fraction of a nanosecond that is carried over from random times.
    carry: f64,
    next: Time,
    /// End of the present on period.
    on_until: Time,
    /// State of the Markov chain.
    state: usize,
    /// Number of frames so far, or of packets of a recording.
    count: u64,
    /// Bytes of the last frame that are still to be sent, and the number of packets for them.
    left: (u32, u32),
    // Few sources have the following fields, which are boxed so that more sources fit into a
    // processor's caches.
    greedy: Option<Box<Greedy>>,
    /// The token bucket of the source's limit, and the time of the last departure from the bucket.
    limited: Option<Box<(Tokens, Time)>>,
}

impl Source {
    /// Creates the source number `index` under `seed`. Each source has its own random streams.
    pub fn new(spec: SourceSpec, seed: u64, index: u64) -> Source {
        /// Separates the streams of sources from those of other elements.
        const SOURCES: u64 = 0x736f_7572_6365;
        const LENGTHS: u64 = 0x6c65_6e67_7468;
        let (bytes, times) = spec.mean_size();
        let work = u128::from(bytes) * u128::from(BIT_NANOS);
        // The allowed rates are far below the rates for which this would overflow.
        let divisor = u128::from(spec.rate.0.max(1)) * u128::from(times.max(1));
        let divisor = u64::try_from(divisor).unwrap_or(u64::MAX);
        let mut source = Source {
            chance: Chance::new(seed, SOURCES, index),
            lengths: Chance::new(seed, LENGTHS, index),
            gap: u64::try_from(work / u128::from(divisor)).unwrap_or(u64::MAX),
            gap_rest: (work % u128::from(divisor)) as u64,
            divisor,
            mean_gap: work as f64 / divisor as f64,
            rest: 0,
            carry: 0.0,
            next: spec.start,
            on_until: Time::NEVER,
            state: 0,
            count: 0,
            left: (0, 0),
            greedy: None,
            limited: spec.limit.map(|limit| Box::new((Tokens::new(*limit.bucket()), Time::ZERO))),
            spec,
        };
        match &source.spec.model {
            Model::Cbr | Model::Video(_) | Model::Recorded(_) | Model::Tcp(_) => {}
            Model::Greedy(envelope) => {
                source.greedy = Some(Box::new(Greedy::new(envelope.clone(), source.spec.start)));
            }
            Model::Poisson => source.next = source.spec.start + source.random(source.mean_gap),
            &Model::OnOff { on, law, .. } => {
                source.on_until = source.next + source.lasting(law, on);
            }
            Model::Markovian(chain) => {
                source.state = chain.begin(&mut source.chance);
                source.next = source.spec.start + source.until_packet();
            }
        }
        source
    }

    /// Returns the whole nanoseconds of a random time. The fraction is carried over.
    #[inline]
    fn whole(&mut self, nanos: f64) -> Span {
        // The longest times of the Pareto distribution exceed any run; they are limited to thirty
        // years.
        let exact = nanos.min(1e18) + self.carry;
        // Signed, because processors convert between signed integers and floats fastest.
        let whole = exact as i64;
        self.carry = exact - whole as f64;
        Span(whole.unsigned_abs())
    }

    #[inline]
    fn random(&mut self, mean: f64) -> Span {
        let nanos = exponential(&mut self.chance) * mean;
        self.whole(nanos)
    }

    fn lasting(&mut self, law: PeriodLaw, mean: Span) -> Span {
        match law {
            PeriodLaw::Exponential => self.random(mean.0 as f64),
            PeriodLaw::Pareto(shape) => {
                // The minimum is chosen so that the mean is the required one.
                let least = mean.0 as f64 * (shape - 1.0) / shape;
                let nanos = least * (1.0 - unit(&mut self.chance)).powf(-shape.recip());
                self.whole(nanos)
            }
        }
    }

    fn until_packet(&mut self) -> Span {
        let Model::Markovian(chain) = &self.spec.model else { return Span::ZERO };
        let nanos = chain.wait(&mut self.state, &mut self.chance);
        self.whole(nanos)
    }

    fn equal_gap(&mut self) -> Span {
        self.rest += self.gap_rest;
        let more = u64::from(self.rest >= self.divisor);
        self.rest -= more * self.divisor;
        Span(self.gap + more)
    }

    /// The next packet of a frame; all packets of a frame have the frame's time.
    fn of_frame(&mut self) -> Packet {
        let at = self.next;
        if let (0, Model::Video(frames)) = (self.left.1, &self.spec.model) {
            let bytes = frames.draw(self.count, &mut self.lengths);
            self.left = (bytes, bytes.div_ceil(frames.largest));
            self.count += 1;
        }
        let bytes = self.left.0.div_ceil(self.left.1);
        self.left = (self.left.0 - bytes, self.left.1 - 1);
        if self.left.1 == 0 {
            self.next = at + self.equal_gap();
        }
        Packet { at, bytes }
    }
}

impl Source {
    /// Returns the next packet before the limit is applied.
    #[inline(always)]
    fn unlimited(&mut self) -> Option<Packet> {
        let at = self.next;
        if at >= self.spec.stop {
            return None;
        }
        self.next = match self.spec.model {
            Model::Poisson => at + self.random(self.mean_gap),
            Model::Cbr => at + self.equal_gap(),
            Model::OnOff { on, off, law } => {
                let mut next = at + self.equal_gap();
                // The gap continues in the next on period. If each burst began with a packet, it
                // would send half a packet more than its share.
                while next >= self.on_until {
                    let over = next - self.on_until;
                    let on_again = self.on_until + self.lasting(law, off);
                    self.on_until = on_again + self.lasting(law, on);
                    next = on_again + over;
                }
                next
            }
            Model::Markovian(_) => at + self.until_packet(),
            Model::Tcp(_) => return None,
            Model::Video(_) => return Some(self.of_frame()),
            Model::Greedy(_) => {
                let bytes = self.spec.sizes.draw(&mut self.lengths);
                let at = self.greedy.as_mut()?.next(bytes);
                return (at < self.spec.stop).then_some(Packet { at, bytes });
            }
            Model::Recorded(ref all) => {
                let (at, bytes) = all.packet(self.count)?;
                self.count += 1;
                let at = self.spec.start + Span(at);
                return (at < self.spec.stop).then_some(Packet { at, bytes });
            }
        };
        Some(Packet { at, bytes: self.spec.sizes.draw(&mut self.lengths) })
    }

    /// Returns the next packet after the limit is applied.
    fn limited(&mut self) -> Option<Packet> {
        loop {
            let Packet { at, bytes } = self.unlimited()?;
            let (Some(limit), Some((tokens, last))) =
                (self.spec.limit, self.limited.as_deref_mut())
            else {
                return None;
            };
            let there = tokens.has(bytes);
            let at = match limit {
                Limit::Policed(_) if there > at => continue,
                Limit::Policed(_) => at,
                Limit::Shaped(_) => at.max(there).max(*last),
            };
            tokens.take(at, bytes);
            *last = at;
            return (at < self.spec.stop).then_some(Packet { at, bytes });
        }
    }
}

impl Iterator for Source {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.limited.is_none() { self.unlimited() } else { self.limited() }
    }
}

/// An exponential number of mean 1.
#[inline]
pub(crate) fn exponential(chance: &mut Chance) -> f64 {
    Exp1.sample(chance)
}

/// A number from 0 to below 1.
#[inline]
fn unit(chance: &mut Chance) -> f64 {
    StandardUniform.sample(chance)
}

/// A uniform whole number below `n`: exact to one part in 2^64 / `n`.
#[inline]
pub(crate) fn below(chance: &mut Chance, n: u64) -> u64 {
    ((u128::from(chance.next_u64()) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::bucket::tests::conforms;
    use super::bucket::{Bucket, Limit};
    use super::chain::Chain;
    use super::frames::Frames;
    use super::recorded::Recording;
    use super::size::Sizes;
    use super::*;
    use falaj_sched::units::rate::Rate;

    fn spec(model: Model) -> SourceSpec {
        SourceSpec {
            model,
            rate: Rate::from_mbit(100),
            sizes: Sizes::Fixed(500),
            limit: None,
            start: Time::ZERO,
            stop: Time(10_000_000_000),
        }
    }

    /// Bursts of 200 Mbit/s, which are on for a quarter of the time, limited by a bucket of 60
    /// Mbit/s.
    fn behind(limit: Option<Limit>) -> Vec<Packet> {
        let law = PeriodLaw::Exponential;
        let model = Model::OnOff { on: Span::from_millis(1), off: Span::from_millis(3), law };
        let sizes = Sizes::Uniform(80, 1500);
        Source::new(SourceSpec { rate: Rate::from_mbit(200), sizes, limit, ..spec(model) }, 3, 0)
            .collect()
    }

    #[test]
    fn a_shaper_delays_and_a_policer_drops() {
        let bucket = Bucket { rate: 60_000_000, burst: 5_000 };
        let plain = behind(None);
        assert!(!conforms(&plain, bucket));
        let shaped = behind(Some(Limit::Shaped(bucket)));
        assert!(conforms(&shaped, bucket));
        // The shaper sends the same packets in the same order, except the last few. No packet is
        // earlier, and some are at the same time.
        assert!(plain.iter().zip(&shaped).all(|(a, b)| a.bytes == b.bytes && a.at <= b.at));
        assert!(
            plain.iter().zip(&shaped).any(|(a, b)| a.at < b.at)
                && plain.iter().zip(&shaped).any(|(a, b)| a.at == b.at)
        );
        assert!(shaped.len() + 200 > plain.len(), "{} {}", shaped.len(), plain.len());
        assert!(shaped.windows(2).all(|w| w[0].at <= w[1].at));
        // Packets leave as early as possible: a delayed packet could not have left two nanoseconds
        // earlier.
        let waited =
            |i: &usize| shaped[*i].at > plain[*i].at && shaped[*i].at > shaped[*i - 1].at + Span(2);
        for i in (1..shaped.len()).filter(waited).step_by(100) {
            let mut early = shaped[..=i].to_vec();
            early[i].at = Time(early[i].at.0 - 2);
            assert!(!conforms(&early, bucket), "{i}");
        }
        let policed = behind(Some(Limit::Policed(bucket)));
        assert!(conforms(&policed, bucket));
        assert!(policed.len() * 10 > plain.len() && policed.len() * 10 < plain.len() * 9);
        let mut all = plain.iter();
        assert!(
            policed.iter().all(|packet| all.any(|other| other == packet)),
            "at their own instants"
        );
    }

    #[test]
    fn what_was_recorded_is_sent_again() {
        let packets = vec![(0, 100), (1_000, 200), (1_000, 300), (5_000, 400)];
        let sent = |again| {
            let all = Recording { packets: packets.clone(), again };
            let rate = all.rate();
            let recorded = SourceSpec {
                rate,
                start: Time(7),
                stop: Time(20_000),
                ..spec(Model::Recorded(all.into()))
            };
            Source::new(recorded, 1, 0).map(|p| (p.at.0, p.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(sent(None), [(7, 100), (1007, 200), (1007, 300), (5007, 400)]);
        let again = sent(Some(6_000));
        assert_eq!((again.len(), again[4], again[12]), (15, (6007, 100), (18_007, 100)));
        let all = Recording { packets, again: None };
        // Three gaps with a mean of 5/3 us, and a fourth gap of this length.
        assert_eq!((all.period(), all.rate()), (6_666, Rate(1000 * 8_000_000_000 / 6_666)));
    }

    #[test]
    fn what_a_limited_source_sends_at_most_is_its_bucket() {
        let limit = Some(Limit::Shaped(Bucket { rate: 60_000_000, burst: 5_000 }));
        let poisson = SourceSpec { limit, ..spec(Model::Poisson) };
        assert_eq!(poisson.at_most(|bytes| bytes), Some((Rate(60_000_000), 5_000)));
        assert_eq!(poisson.mean_rate(), Rate(60_000_000));
        // Each packet counts 20 B more. The relative increase is largest for the smallest packet: a
        // quarter.
        let mixed = SourceSpec { sizes: Sizes::Uniform(80, 1500), ..poisson };
        assert_eq!(mixed.at_most(|bytes| bytes + 20), Some((Rate(75_000_000), 6_250)));
        // For a slow source the limit does not matter.
        let slow = SourceSpec { rate: Rate::from_mbit(10), limit, ..spec(Model::Cbr) };
        assert_eq!(slow.at_most(|bytes| bytes), Some((Rate::from_mbit(10), 500)));
    }

    #[test]
    fn cbr_keeps_its_rate_exactly() {
        let odd = SourceSpec { rate: Rate::from_bits(33_333_333), ..spec(Model::Cbr) };
        let times: Vec<Time> = Source::new(odd, 1, 0).map(|p| p.at).collect();
        for (n, t) in times.iter().enumerate() {
            assert_eq!(u128::from(t.0), n as u128 * 4_000_000_000_000 / 33_333_333);
        }
        assert_eq!(times.len(), 83_334);
    }

    /// 250,000 packets are expected. The variance of a Poisson process's count equals this mean,
    /// and the standard deviation of its gaps equals their mean.
    #[test]
    fn poisson_has_the_mean_and_the_spread_of_poisson() {
        for seed in 0..5 {
            let times: Vec<Time> =
                Source::new(spec(Model::Poisson), seed, 3).map(|p| p.at).collect();
            let n = times.len() as f64;
            assert!((n - 250_000.0).abs() < 4.0 * 500.0, "{n}");
            let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).0 as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.01, "{}", variance.sqrt() / mean);
        }
    }

    #[test]
    fn on_off_has_its_share_of_the_rate() {
        // Bursts of 125 packets, and bursts of one packet. The gap between packets is 40 us.
        for (on, seconds) in [(Span::from_millis(5), 200), (Span::from_micros(40), 4)] {
            let long = SourceSpec {
                stop: Time(seconds * 1_000_000_000),
                ..spec(Model::OnOff { on, off: Span(on.0 * 3), law: PeriodLaw::Exponential })
            };
            assert_eq!(long.mean_rate(), Rate::from_mbit(25));
            // 10,000 cycles or more: the relative standard error of the share is about 1 %.
            let sent = Source::new(long, 4, 0).count() as f64 * 4_000.0 / seconds as f64;
            assert!((sent / 25e6 - 1.0).abs() < 0.04, "{on}: {sent}");
        }
    }

    #[test]
    fn streams_differ_by_seed_and_index_and_repeat() {
        let first = |seed, index| {
            Source::new(spec(Model::Poisson), seed, index).take(50).collect::<Vec<_>>()
        };
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }

    fn mean_bytes(spec: &SourceSpec, seed: u64) -> f64 {
        Source::new(spec.clone(), seed, 0).map(|p| f64::from(p.bytes)).sum()
    }

    /// A separate random stream of lengths leaves the instants unchanged, and the mean rate too.
    #[test]
    fn mixed_lengths_keep_the_rate() {
        for model in [Model::Poisson, Model::Cbr] {
            let sizes = Sizes::Mix(vec![(64, 7), (594, 4), (1518, 1)]);
            let mixed = SourceSpec { sizes, ..spec(model.clone()) };
            let sent = mean_bytes(&mixed, 2) * 8.0 / 10.0;
            // 345,000 packets of 362 B: a standard error of 0.3 %.
            assert!((sent / 1e8 - 1.0).abs() < 0.01, "{sent}");
            let plain = SourceSpec { sizes: Sizes::Uniform(100, 900), ..spec(model.clone()) };
            let fixed = Source::new(spec(model), 2, 0).take(1000).map(|p| p.at);
            assert!(Source::new(plain, 2, 0).take(1000).map(|p| p.at).eq(fixed));
        }
    }

    /// Counts in windows of a second: the ratio of variance and mean is 1 for a Poisson process;
    /// for a process with two states it follows the formula of Heffes and Lucantoni (1986).
    #[test]
    fn a_modulated_process_is_as_bursty_as_its_formula() {
        let (rates, stays) = ([2_000.0, 200.0], [0.02, 0.06]);
        let chain = Chain::modulated(&[(rates[0], stays[0]), (rates[1], stays[1])]).unwrap();
        let mean = chain.rate();
        let rate = Rate((mean * 4000.0) as u64);
        let long =
            SourceSpec { rate, stop: Time(2_000_000_000_000), ..spec(Model::Markovian(chain)) };
        let mut counts = vec![0.0f64; 2000];
        for packet in Source::new(long, 5, 0) {
            counts[(packet.at.0 / 1_000_000_000) as usize] += 1.0;
        }
        let n = counts.len() as f64;
        let found = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|c| (c - found).powi(2)).sum::<f64>() / (n - 1.0);
        let (a, b) = (1.0 / stays[0], 1.0 / stays[1]);
        let away = 2.0 * (rates[0] - rates[1]).powi(2) * a * b
            / ((a + b).powi(2) * (rates[0] * b + rates[1] * a));
        let dispersion = 1.0 + away * (1.0 - (1.0 - f64::exp(-(a + b))) / (a + b));
        // The standard error of a variance over 2000 windows is 3.2 %.
        assert!(
            (found / mean - 1.0).abs() < 4.0 * (dispersion / mean / n).sqrt(),
            "{found} {mean}"
        );
        assert!(
            (variance / found / dispersion - 1.0).abs() < 0.13,
            "{} {dispersion}",
            variance / found
        );
    }

    /// Erlang gaps of two stages: the standard deviation is the mean divided by the root of two.
    #[test]
    fn a_chain_may_count_its_moves() {
        let rows = [vec![-1000.0, 1000.0], vec![0.0, -1000.0]];
        let chain = Chain::new(&rows, &[vec![0.0, 0.0], vec![1000.0, 0.0]]).unwrap();
        let erlang = SourceSpec { stop: Time(200_000_000_000), ..spec(Model::Markovian(chain)) };
        let times: Vec<f64> = Source::new(erlang, 1, 0).map(|p| p.at.0 as f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 2e6 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean * f64::sqrt(2.0) - 1.0).abs() < 0.02, "{variance}");
    }

    /// On periods with the shape 1.5 and a mean of 10 ms. The fraction of on periods longer than
    /// 100 ms is known. The fraction of time in on periods is known too, but is not tested: even
    /// over 200,000 cycles its statistical error is some percent.
    #[test]
    fn long_bursts_are_paretos() {
        let law = PeriodLaw::Pareto(1.5);
        let (on, off) = (Span::from_millis(10), Span::from_millis(30));
        let mut source = Source::new(spec(Model::OnOff { on, off, law }), 1, 0);
        let n = 200_000;
        let long =
            (0..n).filter(|_| source.lasting(law, on) > Span::from_millis(100)).count() as f64;
        // The minimum is 3.33 ms, so one period in 30^1.5 is longer than 100 ms.
        let share = 30f64.powf(-1.5);
        assert!(
            (long / f64::from(n) - share).abs() < 4.0 * (share / f64::from(n)).sqrt(),
            "{long}"
        );
    }

    #[test]
    fn video_sends_frames_at_equal_gaps() {
        let frames = |largest| Frames {
            pattern: "IPBBPBBPBB".chars().filter_map(frames::Frame::of).collect(),
            law: frames::Law::Exponential,
            largest,
        };
        let video = |largest| SourceSpec {
            rate: Rate::from_bits(614_400),
            ..spec(Model::Video(frames(largest)))
        };
        let whole: Vec<Packet> = Source::new(video(17_000), 1, 0).collect();
        // 30 frames a second.
        assert_eq!(whole.len(), 300);
        assert!(whole.iter().enumerate().all(|(n, p)| p.at.0 == n as u64 * 1_000_000_000 / 30));
        let pieces: Vec<Packet> = Source::new(video(1500), 1, 0).collect();
        assert!(pieces.iter().all(|p| p.bytes <= 1500));
        for frame in &whole {
            let of: Vec<u32> =
                pieces.iter().filter(|p| p.at == frame.at).map(|p| p.bytes).collect();
            assert_eq!(
                (of.iter().sum::<u32>(), of.len() as u32),
                (frame.bytes, frame.bytes.div_ceil(1500))
            );
            assert!(of.iter().max().unwrap() - of.iter().min().unwrap() <= 1);
        }
        assert_eq!(
            video(17_000).at_most(|bytes| bytes),
            Some((Rate::from_bits(4_080_000), 17_000))
        );
    }
}
