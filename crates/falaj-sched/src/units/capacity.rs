//! Capacity of a link, if it is not a single rate: a token bucket, a rate that changes, or
//! opportunities at given instants.
//!
//! A link that *serialises* is occupied by a packet for the time of its bits. A *token bucket* lets
//! packets pass at once while it has tokens for them. The computation is the same for both: a
//! bucket of `n` bytes is a wire that may have begun earlier by the transmission time of `n` bytes.

use crate::contract::no_guarantee::NoGuarantee;
use crate::units::rate::{BIT_NANOS, Rate};
use crate::units::time::{Span, Time};
use crate::units::two_buckets::TwoBuckets;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The way a link turns bytes into time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// A packet occupies the link for the transmission time of its bytes.
    #[default]
    Serialise,
    /// Packets pass at once while tokens last: at most this number of bytes, which are available at
    /// the start.
    TokenBucket(u64),
    /// Packets pass at once while two token buckets have tokens, which are both full at the start.
    TwoBuckets {
        /// Size in bytes of the bucket that fills at the link's rate.
        burst: u64,
        /// Rate at which the other bucket fills; above the link's rate.
        peak: Rate,
        /// Size in bytes of that bucket.
        peak_burst: u64,
    },
    /// The rate of the link changes over time.
    Steps(Arc<Steps>),
    /// The link carries a number of bytes at certain instants, and nothing in between.
    Opportunities(Arc<Opportunities>),
}

impl Capacity {
    /// The reason why no discipline gives a guarantee on such a link; `None` for links that
    /// serialise at one rate.
    pub fn no_guarantee(&self) -> Option<NoGuarantee> {
        let why = match self {
            Capacity::Serialise => return None,
            Capacity::TokenBucket(_) | Capacity::TwoBuckets { .. } => {
                "the link is a token bucket, and bounds are known for links that serialise"
            }
            Capacity::Steps(_) | Capacity::Opportunities(_) => {
                "the rate follows a trace, and bounds are known for one rate"
            }
        };
        Some(NoGuarantee(why.into()))
    }
}

/// A rate that changes at certain instants. It may be zero for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Rates, each with the instant from which it holds; the first holds from the beginning.
    steps: Vec<(Time, Rate)>,
    /// Time after which the sequence repeats; `None` if the last rate stays.
    period: Option<Span>,
}

impl Steps {
    /// Creates a sequence of rates, each with the instant from which it holds, in order. The first
    /// rate also holds before its instant. Returns `None` if there are no rates, if two have the
    /// same instant, if one is not before the end of the `period`, or if the rate would be zero for
    /// ever from some instant on.
    pub fn new(mut steps: Vec<(Time, Rate)>, period: Option<Span>) -> Option<Steps> {
        let ordered = steps.windows(2).all(|w| w[0].0 < w[1].0);
        let first = steps.first_mut()?;
        first.0 = Time::ZERO;
        let last = *steps.last()?;
        let good = match period {
            Some(period) => last.0.0 < period.0 && steps.iter().any(|s| s.1.0 > 0),
            None => last.1.0 > 0,
        };
        (ordered && good).then_some(Steps { steps, period })
    }

    /// The lowest and the highest rate.
    pub fn range(&self) -> (Rate, Rate) {
        let rates = || self.steps.iter().map(|s| s.1);
        (rates().min().unwrap_or(Rate(0)), rates().max().unwrap_or(Rate(0)))
    }

    /// The mean rate over a period. Without a period, it is the mean over the time until the last
    /// change, and an equal time at the last rate.
    pub fn mean(&self) -> Rate {
        let last = self.steps.last().map_or(0, |s| s.0.0);
        let whole = self.period.map_or(last.max(1).saturating_mul(2), |p| p.0);
        Rate(u64::try_from(self.work(whole) / u128::from(whole)).unwrap_or(u64::MAX).max(1))
    }

    /// Work from the beginning until `whole`, which is after the last change. In bytes times
    /// [`BIT_NANOS`].
    fn work(&self, whole: u64) -> u128 {
        let ends = self.steps.iter().skip(1).map(|s| s.0.0).chain([whole]);
        self.steps
            .iter()
            .zip(ends)
            .map(|(s, end)| u128::from(s.1.0) * u128::from(end - s.0.0))
            .sum()
    }

    /// Work between two instants, in bytes times [`BIT_NANOS`].
    pub(crate) fn work_between(&self, from: Time, to: Time) -> u128 {
        let until = |time: Time| {
            let (rounds, within) = match self.period {
                Some(period) => (time.0 / period.0, time.0 % period.0),
                None => (0, time.0),
            };
            let whole = match self.period {
                Some(period) if rounds > 0 => self.work(period.0) * u128::from(rounds),
                _ => 0,
            };
            let ends = self.steps.iter().skip(1).map(|s| s.0.0).chain([u64::MAX]);
            let part = |(step, end): (&(Time, Rate), u64)| {
                u128::from(step.1.0) * u128::from(end.min(within).saturating_sub(step.0.0))
            };
            whole + self.steps.iter().zip(ends).map(part).sum::<u128>()
        };
        until(to).saturating_sub(until(from))
    }

    /// The rate at `now`, and the end of its validity.
    fn at(&self, now: Time) -> (Rate, Time) {
        let (round, within) = match self.period {
            Some(period) => (now.0 / period.0 * period.0, now.0 % period.0),
            None => (0, now.0),
        };
        let next = self.steps.partition_point(|s| s.0.0 <= within);
        let until = match self.steps.get(next) {
            Some(step) => Time(round.saturating_add(step.0.0)),
            None => self.period.map_or(Time::NEVER, |period| Time(round.saturating_add(period.0))),
        };
        (self.steps[next - 1].1, until)
    }

    /// Returns the time at which `work` (bytes times [`BIT_NANOS`]) that begins at `start` is done,
    /// rounded down, and the rest of the work at that time, less than a nanosecond.
    pub(crate) fn send(&self, work: u64, start: Time) -> (Time, u64) {
        let (mut work, mut now) = (u128::from(work), start);
        if let Some(period) = self.period
            && work > 0
        {
            // Whole periods are skipped at once. A rest above zero remains, so that the end is the
            // instant at which the work is done.
            let rounds = (work - 1) / self.work(period.0);
            work -= rounds * self.work(period.0);
            now += period * u64::try_from(rounds).unwrap_or(u64::MAX);
        }
        loop {
            if now == Time::NEVER {
                return (Time::NEVER, 0);
            }
            let (rate, until) = self.at(now);
            let rate = u128::from(rate.0);
            let done = rate * u128::from(until.0 - now.0);
            if work < done {
                // The quotient is less than the time until the next change, and the remainder is
                // less than the rate.
                return (now + Span((work / rate) as u64), (work % rate) as u64);
            }
            (work, now) = (work - done, until);
            if work == 0 {
                return (now, 0);
            }
        }
    }
}

/// Instants at each of which a link carries up to `bytes` bytes. Unused bytes are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// Instants within a period, in order; none is later than the end of the period.
    at: Vec<Time>,
    period: Span,
    bytes: u32,
}

impl Opportunities {
    /// Creates opportunities at these instants of each period. Returns `None` if there are no
    /// instants, if they are not in order, if the last one is after the period, or if `period` or
    /// `bytes` is zero.
    pub fn new(at: Vec<Time>, period: Span, bytes: u32) -> Option<Opportunities> {
        let good = at.is_sorted() && at.last()?.0 <= period.0 && period.0 > 0 && bytes > 0;
        good.then_some(Opportunities { at, period, bytes })
    }

    /// The mean rate.
    pub fn mean(&self) -> Rate {
        let work = self.at.len() as u128 * u128::from(self.bytes) * u128::from(BIT_NANOS);
        Rate(u64::try_from(work / u128::from(self.period.0)).unwrap_or(u64::MAX).max(1))
    }

    fn time(&self, number: u64) -> Time {
        let n = self.at.len() as u64;
        Time(
            (number / n)
                .saturating_mul(self.period.0)
                .saturating_add(self.at[(number % n) as usize].0),
        )
    }

    /// Number of the first opportunity that is not before `start`.
    fn first(&self, start: Time) -> u64 {
        // The last opportunity of a period may coincide with the start of the next period.
        let round = start.0.saturating_sub(1) / self.period.0;
        let within = start.0 - round * self.period.0;
        round * self.at.len() as u64 + self.at.partition_point(|t| t.0 < within) as u64
    }
}

/// State of a capacity.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Time by which the wire may have begun earlier.
    TokenBucket(Span),
    TwoBuckets(TwoBuckets),
    Steps(Arc<Steps>),
    /// The opportunity in use, and the bytes that it has carried.
    Opportunities {
        all: Arc<Opportunities>,
        number: u64,
        used: u32,
    },
}

impl Shape {
    pub(crate) fn new(capacity: &Capacity, rate: Rate) -> Option<Shape> {
        Some(match capacity {
            Capacity::Serialise => return None,
            Capacity::TokenBucket(bytes) => Shape::TokenBucket(rate.airtime_of_many(*bytes)),
            Capacity::TwoBuckets { burst, peak, peak_burst } => {
                Shape::TwoBuckets(TwoBuckets::new(rate, *burst, *peak, *peak_burst))
            }
            Capacity::Steps(steps) => Shape::Steps(Arc::clone(steps)),
            Capacity::Opportunities(all) => {
                Shape::Opportunities { all: Arc::clone(all), number: 0, used: 0 }
            }
        })
    }
}

/// Carries `bytes` from `start` on; returns the time of the last byte.
pub(crate) fn carry(
    all: &Opportunities,
    number: &mut u64,
    used: &mut u32,
    bytes: u32,
    start: Time,
) -> Time {
    if all.time(*number) < start {
        (*number, *used) = (all.first(start).max(*number + 1), 0);
    }
    let mut left = bytes;
    while left > all.bytes - *used {
        left -= all.bytes - *used;
        (*number, *used) = (*number + 1, 0);
    }
    *used += left;
    all.time(*number)
}

/// Returns how many of `bytes` are carried by opportunities after `now`. The last bytes are carried
/// by the opportunity `number`, of which `used` bytes are used.
pub(crate) fn left(all: &Opportunities, number: u64, used: u32, bytes: u32, now: Time) -> u32 {
    let (mut left, mut number, mut carried) = (0, number, used);
    while left < bytes && all.time(number) > now {
        left += carried.min(bytes - left);
        carried = all.bytes;
        match number.checked_sub(1) {
            Some(before) => number = before,
            None => break,
        }
    }
    left
}

/// Returns true if the opportunity `number` is before `now`.
pub(crate) fn is_over(all: &Opportunities, number: u64, now: Time) -> bool {
    all.time(number) < now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::rate::{OnTheWire, Wire};
    use alloc::vec;

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn a_bucket_differs_from_a_wire_by_what_it_holds() {
        let rate = Rate::from_mbit(8); // 1 byte takes a microsecond
        let mut wire = Wire::new(rate);
        let mut bucket = Wire::of(rate, &Capacity::TokenBucket(3000));
        let (mut on_the_wire, mut of_the_bucket) = (Time::ZERO, Time::ZERO);
        // Two packets pass at once. From then on each packet is earlier by the contents of the
        // bucket.
        for n in 0..100 {
            on_the_wire = wire.send(1500, on_the_wire);
            of_the_bucket = bucket.send(1500, of_the_bucket);
            let earlier = Span::from_micros(3000);
            assert_eq!(of_the_bucket, Time(on_the_wire.0.saturating_sub(earlier.0)), "{n}");
        }
        // After 1 ms of rest there is 1 kB of tokens, after a long rest the bucket is full.
        let now = of_the_bucket + Span::from_millis(1);
        assert_eq!(bucket.send(1000, now), now);
        assert_eq!(bucket.send(1500, now), now + Span::from_micros(1500));
        let later = now + Span::from_secs(5);
        assert_eq!(
            (bucket.send(3000, later), bucket.send(1, later)),
            (later, later + Span::from_micros(1))
        );
    }

    #[test]
    fn a_packet_across_a_step_ends_at_the_right_nanosecond() {
        // 8 Mbit/s for 1 ms, nothing for 2 ms, 4 Mbit/s for 3 ms, and so on.
        let steps =
            vec![(ms(0), Rate::from_mbit(8)), (ms(1), Rate(0)), (ms(3), Rate::from_mbit(4))];
        let steps = Steps::new(steps, Some(Span::from_millis(6))).unwrap();
        assert_eq!(steps.range(), (Rate(0), Rate::from_mbit(8)));
        assert_eq!(steps.mean(), Rate(20_000_000 / 6));
        let mut wire = Wire::of(steps.mean(), &Capacity::Steps(Arc::new(steps)));
        // 500 B take the first half of a millisecond. Of 600 B more, 500 B leave until 1 ms, and
        // 100 B from 3 ms on at half the rate.
        let first = wire.send(500, Time::ZERO);
        assert_eq!(first, Time(500_000));
        let second = wire.send(600, first);
        assert_eq!(second, ms(3) + Span::from_micros(200));
        // 1400 B take until 6 ms; at this nanosecond the wire becomes free.
        let third = wire.send(1400, second);
        assert_eq!(third, ms(6));
        assert_eq!(wire.send(250, third), ms(6) + Span::from_micros(250));
        // A transmission that begins at a rate of zero waits.
        assert_eq!(wire.send(2, ms(8)), ms(9) + Span::from_micros(4));
        // A packet that takes several periods of 2500 B each.
        assert_eq!(wire.send(25_000, ms(12)), ms(72));
    }

    #[test]
    fn steps_do_not_drift() {
        // Packets back to back, with odd rates and lengths: the end of the last one is the exact
        // time, rounded down.
        let (a, b) = (Rate::from_bits(3_333_333), Rate::from_bits(7_777_777));
        let steps =
            Steps::new(vec![(Time(0), a), (Time(1_234_567), b)], Some(Span(3_456_789))).unwrap();
        let mut wire = Wire::of(a, &Capacity::Steps(Arc::new(steps.clone())));
        let (mut now, mut work) = (Time::ZERO, 0u128);
        for n in 0..100_000u32 {
            let bytes = 40 + n * 37 % 1461;
            now = wire.send(bytes, now);
            work += u128::from(bytes) * u128::from(BIT_NANOS);
            let done = |t: u64| {
                let (rounds, within) = (t / 3_456_789, t % 3_456_789);
                let of = |t: u64| {
                    u128::from(a.0) * u128::from(t.min(1_234_567))
                        + u128::from(b.0) * u128::from(t.saturating_sub(1_234_567))
                };
                u128::from(rounds) * of(3_456_789) + of(within)
            };
            assert!(done(now.0) <= work && work < done(now.0 + 1), "{n}");
        }
    }

    #[test]
    fn a_trickle_takes_long_to_send_and_not_to_compute() {
        // One bit per second during every second nanosecond.
        let steps =
            Steps::new(vec![(Time(0), Rate(1)), (Time(1), Rate(0))], Some(Span(2))).unwrap();
        let mut wire = Wire::of(steps.mean(), &Capacity::Steps(Arc::new(steps)));
        // After the last nanosecond of the transmission there is a nanosecond without capacity.
        assert_eq!(wire.send(1, Time::ZERO), Time(16_000_000_000 - 1));
        assert_eq!(wire.send(1, Time(u64::MAX - 5)), Time::NEVER);
    }

    /// For any old and new capacity, the new capacity sends the remaining bytes of a packet.
    #[test]
    fn the_rest_of_a_packet_goes_by_the_new_capacity() {
        // One byte in a microsecond, or two bytes.
        let (slow, fast) = (Rate::from_mbit(8), Rate::from_mbit(16));
        let steps = Capacity::Steps(Arc::new(
            Steps::new(
                vec![(ms(0), slow), (ms(1), Rate(0)), (ms(3), Rate::from_mbit(4))],
                Some(Span::from_millis(6)),
            )
            .unwrap(),
        ));
        let instants = vec![ms(1), ms(2), ms(40)];
        let all = Opportunities::new(instants, Span::from_millis(40), 1_000).unwrap();
        let opportunities = Capacity::Opportunities(Arc::new(all));
        let wire = |rate, capacity: &Capacity| Wire::of(rate, capacity);
        let change = |old: &Wire, new: Wire, bytes, end, now| {
            new.migrate_from(old.clone(), Some(OnTheWire { bytes, end }), now)
        };
        let serialise = || wire(fast, &Capacity::Serialise);

        // 500 of 1,500 B have left by 500 us; the rest is 500 B until 1 ms, and 500 B from 3 ms on.
        let mut old = wire(slow, &steps);
        let end = old.send(1_500, Time::ZERO);
        assert_eq!(end, ms(4));
        let (_, end) = change(&old, serialise(), 1_500, end, Time(500_000));
        assert_eq!(end, Some(ms(1)));
        let (_, end) = change(&old, serialise(), 1_500, ms(4), ms(2));
        assert_eq!(end, Some(Time(2_250_000)), "500 B are left while nothing goes");

        // The change in the other direction: from 500 us on, the last 1,000 of 2,000 B follow the
        // steps.
        let mut old = serialise();
        let end = old.send(2_000, Time::ZERO);
        let (new, end) = change(&old, wire(slow, &steps), 2_000, end, Time(500_000));
        assert_eq!(end, Some(ms(4)));
        let (_, end) = change(&new, serialise(), 2_000, ms(4), Time(3_500_000));
        assert_eq!(end, Some(Time(3_625_000)), "a second change");

        // 2,500 B take three opportunities, the last of them at 40 ms.
        let mut old = wire(slow, &opportunities);
        let end = old.send(2_500, Time::ZERO);
        assert_eq!(end, ms(40));
        for (now, left) in [(Time(500_000), 2_500), (ms(1), 1_500), (ms(2), 500), (ms(39), 500)] {
            let (_, end) = change(&old, serialise(), 2_500, ms(40), now);
            assert_eq!(end, Some(now + Span(left * 500)), "{left} B at {now:?}");
        }
        // 1,500 of 2,000 B are left, and are sent at 1 and 2 ms.
        let mut old = serialise();
        let end = old.send(2_000, Time::ZERO);
        let (_, end) = change(&old, wire(slow, &opportunities), 2_000, end, Time(250_000));
        assert_eq!(end, Some(ms(2)));

        // With an equal capacity the transmission ends as planned, to the fraction of a nanosecond.
        let mut old = wire(Rate(3_000_000), &Capacity::Serialise);
        let end = old.send(500, Time::ZERO);
        let same = wire(Rate(3_000_000), &Capacity::Serialise);
        let (mut same, told) = change(&old, same, 500, end, Time(7));
        assert_eq!((told, same.send(500, end)), (Some(end), old.send(500, end)));
    }

    /// After a change, a bucket keeps its tokens, and fills at the new rate.
    #[test]
    fn tokens_are_those_that_there_were() {
        let bucket = |rate, bytes| Wire::of(rate, &Capacity::TokenBucket(bytes));
        let fast = Rate::from_mbit(8); // 1 byte takes a microsecond
        let mut old = bucket(fast, 3_000);
        assert_eq!(old.send(2_000, Time::ZERO), Time::ZERO, "1,000 are left");
        // One bit per second: the tokens stay the same, and more tokens take hours.
        let (mut new, _) = bucket(Rate(1), 3_000).migrate_from(old, None, Time::ZERO);
        assert_eq!(new.waits_for_tokens(1_000, Time::ZERO), None);
        let end = new.send(1_500, Time::ZERO);
        assert_eq!(end, Time::ZERO + Span::from_secs(4_000));
        // Back to the fast rate after a second, in which the tokens of one bit were added.
        let sending = OnTheWire { bytes: 1_500, end };
        let now = Time::ZERO + Span::from_secs(1);
        let (mut back, end) = bucket(fast, 3_000).migrate_from(new, Some(sending), now);
        assert_eq!(end, Some(now + Span(499_875)));
        assert_eq!(back.send(1_000, now + Span::from_millis(1)), now + Span(1_499_875));
        // A smaller bucket keeps at most its size; a larger bucket keeps the tokens and fills.
        let (mut small, _) = bucket(fast, 100).migrate_from(bucket(fast, 3_000), None, now);
        assert_eq!((small.send(100, now), small.send(1, now)), (now, now + Span(1_000)));
        let (mut large, _) = bucket(fast, 5_000).migrate_from(bucket(fast, 3_000), None, now);
        assert_eq!((large.send(3_000, now), large.send(1, now)), (now, now + Span(1_000)));
    }

    #[test]
    fn unused_opportunities_are_lost() {
        let all =
            Opportunities::new(vec![ms(1), ms(1), ms(4)], Span::from_millis(4), 1500).unwrap();
        assert_eq!(all.mean(), Rate(9_000_000));
        let mut wire = Wire::of(all.mean(), &Capacity::Opportunities(Arc::new(all)));
        // The first packet uses the first opportunity at 1 ms, and the second packet a part of the
        // other one. The rest of it is available to the next packet, at that instant only.
        assert_eq!(wire.send(1500, Time::ZERO), ms(1));
        assert_eq!(wire.send(1000, ms(1)), ms(1));
        assert_eq!(wire.send(500, ms(1)), ms(1));
        assert_eq!(wire.send(100, ms(1)), ms(4));
        // The packet crosses the end of a period: the last opportunity of that period is at the
        // start of the next period.
        assert_eq!(wire.send(3000, ms(4)), ms(5));
        assert_eq!(wire.send(1, ms(6)), ms(8));
        assert_eq!(wire.send(1, ms(8)), ms(8));
        assert_eq!(wire.send(1, ms(4004)), ms(4004));
        assert_eq!(wire.send(1, Time(ms(4004).0 + 1)), ms(4005));
    }

    #[test]
    fn what_would_carry_nothing_is_refused() {
        let zero = (ms(5), Rate(0));
        assert_eq!(Steps::new(vec![], None), None);
        assert_eq!(Steps::new(vec![(ms(0), Rate(1)), zero], None), None, "nothing any more");
        assert_eq!(Steps::new(vec![zero], Some(Span::from_millis(9))), None, "nothing ever");
        assert_eq!(
            Steps::new(vec![(ms(0), Rate(1)), (ms(9), Rate(1))], Some(Span::from_millis(9))),
            None
        );
        assert!(Steps::new(vec![(ms(0), Rate(1)), zero], Some(Span::from_millis(9))).is_some());
        assert_eq!(Opportunities::new(vec![], Span(1), 1), None);
    }
}
