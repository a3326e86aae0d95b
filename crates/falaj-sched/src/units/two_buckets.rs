//! Two token buckets in series: one that fills at the rate of a link, and one that fills at a
//! higher peak rate, which limits the speed of bursts. A packet leaves when both have tokens for
//! its bytes, as in the token bucket filter (`tbf`) of Linux with `peakrate`.
//!
//! Tokens are counted exactly: one byte is [`BIT_NANOS`] units, and a bucket gains `rate` units in
//! each nanosecond. A packet leaves in the first whole nanosecond in which both buckets have
//! enough.

use crate::units::rate::{BIT_NANOS, Rate};
use crate::units::time::{Span, Time};

/// Units of a number of bytes.
fn units(bytes: u64) -> i128 {
    i128::from(bytes) * i128::from(BIT_NANOS)
}

/// A token bucket.
#[derive(Clone, Debug)]
struct Bucket {
    rate: Rate,
    /// Units of a full bucket.
    size: i128,
    /// The units in the bucket at `at`. Above `size` only while a packet waits that is larger than
    /// the bucket; below zero while the tokens of a packet are missing that has left.
    tokens: i128,
    at: Time,
}

impl Bucket {
    fn full(rate: Rate, bytes: u64) -> Bucket {
        Bucket { rate, size: units(bytes), tokens: units(bytes), at: Time::ZERO }
    }

    /// Units gained within `span`.
    fn gained(&self, span: Span) -> i128 {
        i128::from(span.0).saturating_mul(self.rate.0.into())
    }

    /// Adds the tokens gained until `now`, up to `most`.
    fn fill(&mut self, now: Time, most: i128) {
        let gained = self.gained(now.since(self.at));
        self.tokens = self.tokens.saturating_add(gained).min(most);
        self.at = self.at.max(now);
    }

    /// Time at which the bucket has these tokens, if nothing is sent before.
    fn has(&self, tokens: i128) -> Time {
        let missing = u128::try_from(tokens.saturating_sub(self.tokens)).unwrap_or(0);
        let nanos = missing.div_ceil(u128::from(self.rate.0));
        self.at + Span(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A packet whose tokens are not taken from the buckets yet.
#[derive(Clone, Copy, Debug)]
struct Last {
    units: i128,
    /// The time at which it leaves.
    end: Time,
    /// Time after `end` in which the buckets do not fill.
    held: Span,
}

/// The bucket of the rate, and that of the peak rate.
#[derive(Clone, Debug)]
pub(crate) struct TwoBuckets {
    both: [Bucket; 2],
    /// The last packet. It is taken from the buckets before the next one is sent, so that a change
    /// of the rates finds the tokens from before it.
    last: Option<Last>,
}

impl TwoBuckets {
    /// Full buckets of `burst` bytes that fills at `rate`, and of `peak_burst` bytes that fills at
    /// `peak`.
    pub(crate) fn new(rate: Rate, burst: u64, peak: Rate, peak_burst: u64) -> TwoBuckets {
        TwoBuckets { both: [Bucket::full(rate, burst), Bucket::full(peak, peak_burst)], last: None }
    }

    /// Returns true if rates and sizes are the same.
    pub(crate) fn carry_like(&self, other: &TwoBuckets) -> bool {
        self.both.iter().zip(&other.both).all(|(a, b)| (a.rate, a.size) == (b.rate, b.size))
    }

    /// Takes the tokens of the last packet.
    fn settle(&mut self) {
        let Some(Last { units, end, held }) = self.last.take() else { return };
        for bucket in &mut self.both {
            bucket.fill(end, bucket.size.max(units));
            bucket.tokens -= units;
            bucket.at += held;
        }
    }

    /// Sends `bytes` at `start` or later; returns the time at which they leave. A packet larger
    /// than a bucket waits, from `start` on, until the full bucket has gained the rest.
    pub(crate) fn send(&mut self, bytes: u32, start: Time) -> Time {
        self.settle();
        self.both.iter_mut().for_each(|bucket| bucket.fill(start, bucket.size));
        self.leave(units(bytes.into()), start)
    }

    /// Sends `units`, with the tokens that there are.
    fn leave(&mut self, units: i128, start: Time) -> Time {
        let end = self.both.iter().map(|bucket| bucket.has(units)).fold(start, Time::max);
        self.last = Some(Last { units, end, held: Span::ZERO });
        end
    }

    /// Time from which both buckets have tokens for `bytes`, or are full.
    pub(crate) fn ready(&self, bytes: u32) -> Time {
        let mut after = self.clone();
        after.settle();
        let enough = |bucket: &Bucket| bucket.has(units(bytes.into()).min(bucket.size));
        after.both.iter().map(enough).fold(Time::ZERO, Time::max)
    }

    /// The times at which the buckets are full: that of the rate, and that of the peak rate.
    pub(crate) fn full_at(&self) -> [Time; 2] {
        let mut after = self.clone();
        after.settle();
        after.both.map(|bucket| bucket.has(bucket.size))
    }

    /// Continues with buckets that are full at these times.
    pub(crate) fn resume(&mut self, full_at: [Time; 2]) {
        self.last = None;
        for (bucket, full_at) in self.both.iter_mut().zip(full_at) {
            let gained = bucket.gained(full_at - Time::ZERO);
            (bucket.tokens, bucket.at) = (bucket.size.saturating_sub(gained), Time::ZERO);
        }
    }

    /// Keeps the buckets from filling for the time `longer` after the last packet.
    pub(crate) fn hold(&mut self, longer: Span) {
        if let Some(last) = &mut self.last {
            last.held += longer;
        }
    }

    /// The units that the bucket of the rate lacks at `now` for the packet that waits, and those
    /// that it has beyond that packet; one of the two is zero.
    pub(crate) fn balance(&self, now: Time) -> (u128, u128) {
        let Some(last) = self.last else { return (0, 0) };
        let [mut own, _] = self.both.clone();
        own.fill(now, own.size.max(last.units));
        let lacks = last.units - own.tokens;
        let above_zero = |units: i128| u128::try_from(units).unwrap_or(0);
        (above_zero(lacks), above_zero(-lacks))
    }

    /// The tokens of the bucket of the rate at `now`, in units; none if they are missing.
    pub(crate) fn tokens(&self, now: Time) -> u128 {
        let mut after = self.clone();
        after.settle();
        let [own, _] = &mut after.both;
        own.fill(now, own.size);
        u128::try_from(own.tokens).unwrap_or(0)
    }

    /// Takes over the tokens of `old` at `now`, each bucket up to its size. Returns the time at
    /// which the packet leaves that waits for tokens, if `waits` is true.
    pub(crate) fn migrate_from(&mut self, mut old: TwoBuckets, waits: bool, now: Time) -> Time {
        let waiting = old.last.take_if(|_| waits).map_or(0, |last| last.units);
        old.settle();
        for (new, mut old) in self.both.iter_mut().zip(old.both) {
            old.fill(now, old.size.max(waiting));
            (new.tokens, new.at) = (old.tokens.min(new.size.max(waiting)), old.at);
        }
        if waits { self.leave(waiting, now) } else { now }
    }

    /// Takes over the tokens of a bucket of the rate alone, which has `tokens` at `now`; the other
    /// one is full.
    pub(crate) fn start(&mut self, tokens: u128, now: Time) {
        let tokens = i128::try_from(tokens).unwrap_or(i128::MAX);
        self.both[0].tokens = tokens.min(self.both[0].size);
        self.both.iter_mut().for_each(|bucket| bucket.at = now);
    }

    /// Sends the rest of a packet, without tokens of the bucket of the rate. Returns the time at
    /// which it leaves.
    pub(crate) fn transmit(&mut self, work: u64, now: Time) -> Time {
        self.start(0, now);
        self.leave(work.into(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::capacity::Capacity;
    use crate::units::rate::{OnTheWire, Wire};
    use alloc::vec::Vec;

    /// The numbers of Marsaglia's xorshift generator.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    /// The algorithm of `sch_tbf.c` of Linux: tokens of both buckets are nanoseconds at their
    /// rates, and a packet leaves when neither is below zero after the packet's time is subtracted.
    /// `nanos` is a byte's time at the rate, and at the peak rate.
    struct Tbf {
        nanos: [u64; 2],
        buffer: i64,
        mtu: i64,
        tokens: i64,
        ptokens: i64,
        t_c: u64,
    }

    impl Tbf {
        /// Returns the time at which a packet leaves that may leave from `now` on.
        fn dequeue(&mut self, len: u64, mut now: u64) -> u64 {
            loop {
                let passed = ((now - self.t_c) as i64).min(self.buffer);
                let ptoks = (self.ptokens + passed).min(self.mtu) - (len * self.nanos[1]) as i64;
                let toks = (self.tokens + passed).min(self.buffer) - (len * self.nanos[0]) as i64;
                if toks | ptoks >= 0 {
                    (self.t_c, self.tokens, self.ptokens) = (now, toks, ptoks);
                    return now;
                }
                // The watchdog's time.
                now += (-toks).max(-ptoks) as u64;
            }
        }
    }

    fn wire(rate: Rate, burst: u64, peak: Rate, peak_burst: u64) -> Wire {
        Wire::of(rate, &Capacity::TwoBuckets { burst, peak, peak_burst })
    }

    /// 10,000 packets of random lengths at random times, for random rates and sizes, leave at the
    /// nanosecond at which they leave in Linux. The rates are those at which Linux does not round:
    /// a byte takes a whole number of nanoseconds.
    #[test]
    fn packets_leave_as_from_tbf_of_linux() {
        let mut dice = Dice(0x2545_f491_4f6c_dd1d);
        let mut waited = [0; 2];
        for _ in 0..20 {
            let mut one_of = |all: &[u64]| all[dice.below(all.len() as u64) as usize];
            let of_peak = one_of(&[1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 40, 50, 64, 80]);
            let of_rate = of_peak * one_of(&[2, 4, 5, 8, 10, 20]);
            let (burst, mtu) = (3_514 + dice.below(30_000), 1_514 + dice.below(2_000));
            let rate = |nanos: u64| Rate(BIT_NANOS / nanos);
            assert!(BIT_NANOS.is_multiple_of(of_peak) && BIT_NANOS.is_multiple_of(of_rate));
            let mut wire = wire(rate(of_rate), burst, rate(of_peak), mtu);
            let (buffer, full) = ((burst * of_rate) as i64, (mtu * of_peak) as i64);
            let nanos = [of_rate, of_peak];
            let mut linux = Tbf { nanos, buffer, mtu: full, tokens: buffer, ptokens: full, t_c: 0 };
            let (mut arrival, mut free) = (0, 0);
            for n in 0..10_000 {
                let len = 40 + dice.below(1_475);
                // Packets come in bursts, on the average slightly below the rate.
                let pause = [1_500, 1_500, 1_500, 1_500, 10_000][dice.below(5) as usize];
                arrival += dice.below(of_rate * pause / 2);
                let start = free.max(arrival);
                let ready = wire.waits_for_tokens(len as u32, Time(start));
                let left = wire.send(len as u32, Time(start)).0;
                free = linux.dequeue(len, start);
                assert_eq!(left, free, "packet {n} of {len} B at {rate:?}", rate = rate(of_rate));
                assert_eq!(ready.map_or(start, |then| then.0), free, "tokens of packet {n}");
                waited[usize::from(free > start)] += 1;
            }
        }
        assert!(waited.iter().all(|&packets| packets > 20_000), "{waited:?}");
    }

    /// At any rates, each packet leaves in the first nanosecond in which both buckets have enough.
    #[test]
    fn no_packet_leaves_early_or_late() {
        let mut dice = Dice(88_172_645_463_325_252);
        for _ in 0..20 {
            let rate = Rate(1_000 + dice.below(1_000_000_000));
            let peak = Rate(rate.0 + 1 + dice.below(rate.0 * 5));
            let sizes = [1_514 + dice.below(30_000), 1_514 + dice.below(2_000)];
            let mut wire = wire(rate, sizes[0], peak, sizes[1]);
            let (mut tokens, mut last, mut now) = (sizes.map(units), 0, 0);
            let gained = |tokens: [i128; 2], passed: u64| {
                let gain = |n: usize, rate: Rate| {
                    (tokens[n] + i128::from(passed) * i128::from(rate.0)).min(units(sizes[n]))
                };
                [gain(0, rate), gain(1, peak)]
            };
            for _ in 0..500 {
                let len = 40 + dice.below(1_475);
                let start = now + dice.below(2) * dice.below(20_000_000_000_000 / rate.0);
                now = wire.send(len as u32, Time(start)).0;
                let has = |at: u64| gained(tokens, at - last).iter().all(|&t| t >= units(len));
                assert!(has(now) && (now == start || !has(now - 1)), "{len} B at {now} ns");
                tokens = gained(tokens, now - last).map(|tokens| tokens - units(len));
                last = now;
            }
        }
    }

    /// One byte takes 1 us at the rate, and 0.5 us at the peak rate.
    const SLOW: Rate = Rate::from_mbit(8);
    const PEAK: Rate = Rate::from_mbit(16);

    #[test]
    fn a_burst_leaves_at_the_peak_rate() {
        let mut wire = wire(SLOW, 4_500, PEAK, 1_500);
        let mut now = Time::ZERO;
        let mut left = Vec::new();
        for _ in 0..8 {
            now = wire.send(1_500, now);
            left.push(now.0 / 1_000);
        }
        assert_eq!(left, [0, 750, 1_500, 2_250, 3_000, 4_500, 6_000, 7_500]);
        assert_eq!((wire.ended(), wire.peak_ended()), (Time(12_000_000), Time(8_250_000)));
        assert!(!wire.is_rested(Time(11_999_999)) && wire.is_rested(Time(12_000_000)));
        // A packet larger than a bucket waits for the rest after the bucket is full.
        let start = Time(20_000_000);
        assert_eq!(wire.waits_for_tokens(2_000, start), None);
        assert_eq!(wire.send(2_000, start), start + Span::from_micros(250));
        assert_eq!(wire.send(1_500, Time(20_250_000)), Time(21_000_000));
    }

    /// After a change, the buckets have the tokens that they had, up to their new sizes, and a
    /// packet that waits leaves when it has enough at the new rates.
    #[test]
    fn a_change_keeps_the_tokens_of_both() {
        let mut old = wire(SLOW, 4_500, PEAK, 1_500);
        assert_eq!(old.send(1_500, Time::ZERO), Time::ZERO);
        let end = old.send(1_500, Time::ZERO);
        assert_eq!(end, Time(750_000));
        let now = Time(250_000);
        let sending = Some(OnTheWire { bytes: 1_500, end });
        let change = |new: Wire| new.migrate_from(old.clone(), sending, now);
        // 500 B are there. At twice the peak rate, the rest takes half of the time.
        let (mut faster, end) = change(wire(SLOW, 4_500, Rate::from_mbit(32), 1_500));
        assert_eq!(end, Some(Time(500_000)));
        assert_eq!(faster.send(1_500, Time(500_000)), Time(875_000));
        // Without a peak rate the packet leaves at once, and the bucket keeps the tokens beyond it:
        // 4,500 B less two packets, and 250 B gained.
        let (mut one, end) = change(Wire::of(SLOW, &Capacity::TokenBucket(4_500)));
        assert_eq!(end, Some(now));
        assert_eq!(one.send(1_750, now), now);
        assert_eq!(one.send(1_000, now), now + Span::from_micros(1_000));
        // The same buckets: nothing changes.
        assert_eq!(change(wire(SLOW, 4_500, PEAK, 1_500)).1, Some(Time(750_000)));
        // From one bucket with 1,000 B to two.
        let mut one = Wire::of(SLOW, &Capacity::TokenBucket(3_000));
        assert_eq!(one.send(2_000, Time::ZERO), Time::ZERO);
        let (mut two, _) = wire(SLOW, 3_000, PEAK, 1_500).migrate_from(one, None, Time::ZERO);
        assert_eq!(two.send(1_500, Time::ZERO), Time(500_000));
        // A wire that has been idle for 1 ms has gained 1,000 B.
        let mut plain = Wire::new(SLOW);
        assert_eq!(plain.send(1_000, Time::ZERO), Time(1_000_000));
        let idle = Time(2_000_000);
        let (mut two_of_idle, _) = wire(SLOW, 3_000, PEAK, 1_500).migrate_from(plain, None, idle);
        assert_eq!(two_of_idle.send(1_500, idle), Time(2_500_000));
        // And back, with an empty bucket of the rate.
        let (mut one, _) =
            Wire::of(SLOW, &Capacity::TokenBucket(3_000)).migrate_from(two, None, Time(500_000));
        assert_eq!(one.send(1_000, Time(500_000)), Time(1_500_000));
    }

    #[test]
    fn a_state_resumes() {
        let mut wire = wire(SLOW, 4_500, PEAK, 1_500);
        let now = wire.send(1_500, Time::ZERO);
        let mut other = self::wire(SLOW, 4_500, PEAK, 1_500);
        other.resume(wire.ended(), wire.peak_ended());
        assert_eq!(other.send(1_500, now), wire.send(1_500, now));
        wire.hold(Span(1_000));
        let held = wire.send(1_500, Time(751_000));
        assert_eq!(held, Time(1_501_000), "the buckets do not fill while the link is held");
    }
}
