//! Rates, and the wire, which turns a packet's length into a transmission time.

use crate::units::capacity::{self, Capacity, Shape};
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use core::fmt;

/// Bits per second. `Rate::UNLIMITED` sends any packet in zero time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// Rate of a link whose transmissions take zero time.
    pub const UNLIMITED: Rate = Rate(u64::MAX);

    /// `n` bits per second.
    pub const fn from_bits(n: u64) -> Rate {
        Rate(n)
    }
    /// `n` megabits per second.
    pub const fn from_mbit(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }
    /// Returns true if there is no limit.
    pub fn is_unlimited(self) -> bool {
        self == Rate::UNLIMITED
    }
    /// Transmission time of `bytes`, rounded up to a whole nanosecond.
    pub fn airtime(self, bytes: u32) -> Span {
        if self.is_unlimited() {
            return Span::ZERO;
        }
        Span((u64::from(bytes) * BIT_NANOS).div_ceil(self.0))
    }
    /// Transmission time of any number of bytes sent without a gap.
    pub fn airtime_of_many(self, bytes: u64) -> Span {
        if self.is_unlimited() {
            return Span::ZERO;
        }
        let nanos = (u128::from(bytes) * u128::from(BIT_NANOS)).div_ceil(u128::from(self.0));
        Span(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
    /// Number of whole bytes that a transmission without a gap sends within `span`.
    pub fn bytes_within(self, span: Span) -> u64 {
        let bytes = u128::from(span.0) * u128::from(self.0) / u128::from(BIT_NANOS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
    /// Number of packets of `bytes` that fit in `span` one after the other. Virtual links send at
    /// least this number of packets in a phase, whatever fraction of a nanosecond is left from
    /// earlier packets.
    pub fn packets_within(self, bytes: u64, span: Span) -> u64 {
        self.bytes_within(span) / bytes.max(1)
    }
}

impl fmt::Display for Rate {
    /// In the form that users write: `100mbit`, `1.5gbit`, `unlimited`; never rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.pad("unlimited");
        }
        let (unit, name, mut digits) = match self.0 {
            0..1_000 => (1, "bit", 0),
            1_000..1_000_000 => (1_000, "kbit", 3),
            1_000_000..1_000_000_000 => (1_000_000, "mbit", 6),
            _ => (1_000_000_000, "gbit", 9),
        };
        let (whole, mut rest) = (self.0 / unit, self.0 % unit);
        while digits > 0 && rest % 10 == 0 {
            rest /= 10;
            digits -= 1;
        }
        if rest == 0 {
            f.pad(&alloc::format!("{whole}{name}"))
        } else {
            f.pad(&alloc::format!("{whole}.{rest:0digits$}{name}"))
        }
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bits of a byte times nanoseconds of a second: one byte takes `BIT_NANOS / rate` nanoseconds.
pub const BIT_NANOS: u64 = 8_000_000_000;

/// The wire of a link: its rate, and the fraction of a nanosecond by which the exact end of the
/// last transmission is later than its integer end. So rounding errors of transmissions without
/// gaps do not accumulate: after any number of transmissions, the end is the exact time, rounded
/// down.
#[derive(Clone, Debug)]
pub struct Wire {
    rate: Rate,
    /// End of the last transmission.
    end: Time,
    /// The fraction of a nanosecond after `end`, in units of `1 / rate` nanoseconds; less than
    /// `rate`.
    rest: u64,
    /// `(2^64 - 1) / rate`, rounded down: it replaces a division by a multiplication for each
    /// packet.
    inverse: u64,
    /// True if the rate is unlimited, or the capacity is not [`Capacity::Serialise`]. The
    /// transmission time then does not follow from the rate.
    apart: bool,
    shape: Option<Box<Shape>>,
    /// The last part of a transmission, if the length of this part does not follow from the rate:
    /// its end and its length. The part belongs to the last transmission if both end at the same
    /// time.
    fixed: (Time, Span),
}

/// The packet on the wire when the wire's rate or capacity changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnTheWire {
    /// Length of the packet in bytes, as the link accounts it.
    pub bytes: u32,
    /// Planned time of its last bit.
    pub end: Time,
}

impl Wire {
    /// An idle wire.
    pub fn new(rate: Rate) -> Wire {
        assert!(rate.0 > 0, "a rate of zero sends nothing");
        let (inverse, apart) = (u64::MAX / rate.0, rate.is_unlimited());
        let fixed = (Time::ZERO, Span::ZERO);
        Wire { rate, end: Time::ZERO, rest: 0, inverse, apart, shape: None, fixed }
    }

    /// An idle wire of this capacity; if the capacity varies, `rate` is its mean.
    pub fn of(rate: Rate, capacity: &Capacity) -> Wire {
        let shape = Shape::new(capacity, rate).map(Box::new);
        Wire { apart: rate.is_unlimited() || shape.is_some(), shape, ..Wire::new(rate) }
    }

    /// Continues from the wire `old` with this rate and capacity. Returns the wire, and the new
    /// time of the last bit of the packet on the wire: the bits that are left at `now` are sent at
    /// the new rate. Tokens are taken over.
    pub fn migrate_from(
        mut self,
        old: Wire,
        sending: Option<OnTheWire>,
        now: Time,
    ) -> (Wire, Option<Time>) {
        if self.carries_like(&old) {
            return (old, sending.map(|on_the_wire| on_the_wire.end));
        }
        let mut fixed = old.fixed_part();
        let Some(OnTheWire { bytes, end }) = sending.filter(|sending| sending.end > now) else {
            self.take_tokens(&old, now);
            return (self, sending.map(|sending| sending.end));
        };
        let last_bit = Time(end.0.saturating_sub(fixed.0));
        let end = if let (Some(Shape::TwoBuckets(own)), Some(Shape::TwoBuckets(buckets))) =
            (self.shape.as_deref_mut(), old.shape.as_deref())
        {
            self.end = own.migrate_from(buckets.clone(), last_bit > now, now);
            fixed = fixed.min(end - now);
            self.end + fixed
        } else if last_bit > now {
            let work = old.work_left(bytes, last_bit, now);
            let end = self.transmit(work, now);
            if let (Some(Shape::TokenBucket(_)), Some(Shape::TwoBuckets(buckets))) =
                (self.shape.as_deref(), old.shape.as_deref())
            {
                let (lacks, beyond) = buckets.balance(now);
                if lacks == 0 {
                    self.keep_tokens(beyond, end);
                }
            }
            end + fixed
        } else {
            fixed = end - now;
            self.transmit(0, now) + fixed
        };
        self.hold(fixed);
        (self, Some(end))
    }

    /// Returns true if bytes take the same time on both wires, at any instant.
    fn carries_like(&self, other: &Wire) -> bool {
        let alike = match (self.shape.as_deref(), other.shape.as_deref()) {
            (None, None) => true,
            (Some(Shape::TokenBucket(a)), Some(Shape::TokenBucket(b))) => a == b,
            (Some(Shape::Steps(a)), Some(Shape::Steps(b))) => a == b,
            (
                Some(Shape::Opportunities { all: a, .. }),
                Some(Shape::Opportunities { all: b, .. }),
            ) => a == b,
            (Some(Shape::TwoBuckets(a)), Some(Shape::TwoBuckets(b))) => a.carry_like(b),
            _ => false,
        };
        alike && self.rate == other.rate
    }

    /// Returns the work that is left at `now` of a transmission of `bytes` whose last bit would
    /// leave at `end`. In bytes times [`BIT_NANOS`].
    fn work_left(&self, bytes: u32, end: Time, now: Time) -> u64 {
        let whole = u128::from(bytes) * u128::from(BIT_NANOS);
        let left = match self.shape.as_deref() {
            _ if self.rate.is_unlimited() => 0,
            Some(Shape::Steps(steps)) => steps.work_between(now, end) + u128::from(self.rest),
            Some(Shape::Opportunities { all, number, used }) => {
                u128::from(capacity::left(all, *number, *used, bytes, now)) * u128::from(BIT_NANOS)
            }
            Some(Shape::TwoBuckets(buckets)) => buckets.balance(now).0,
            Some(Shape::TokenBucket(_)) | None => {
                u128::from(end.since(now).0) * u128::from(self.rate.0) + u128::from(self.rest)
            }
        };
        u64::try_from(left.min(whole)).unwrap_or(u64::MAX)
    }

    /// Continues with `work` from `now` on, without tokens. Returns the time at which it is done.
    fn transmit(&mut self, work: u64, now: Time) -> Time {
        (self.end, self.rest) = (now, 0);
        match self.shape.as_deref_mut() {
            Some(Shape::Steps(steps)) => {
                (self.end, self.rest) = steps.send(work, now);
                self.end
            }
            Some(Shape::Opportunities { all, number, used }) if work > 0 => {
                let bytes = u32::try_from(work.div_ceil(BIT_NANOS)).unwrap_or(u32::MAX);
                self.end = capacity::carry(all, number, used, bytes, now);
                self.end
            }
            Some(Shape::Opportunities { .. }) => now,
            Some(Shape::TwoBuckets(buckets)) => {
                self.end = buckets.transmit(work, now);
                self.end
            }
            _ if self.rate.is_unlimited() => now,
            Some(Shape::TokenBucket(credit)) => {
                let credit = *credit;
                let (nanos, rest) = self.divide(work);
                let done = now + Span(nanos);
                (self.end, self.rest) = (done + credit, rest);
                done
            }
            None => {
                let (nanos, rest) = self.divide(work);
                (self.end, self.rest) = (now + Span(nanos), rest);
                self.end
            }
        }
    }

    /// Takes over the tokens of `old`, up to the size of the bucket. The wire must be empty.
    fn take_tokens(&mut self, old: &Wire, now: Time) {
        let work = |span: Span, rate: Rate| u128::from(span.0) * u128::from(rate.0);
        let there = match old.shape.as_deref() {
            Some(Shape::TokenBucket(credit)) => {
                let missing = work(old.end.since(now), old.rate) + u128::from(old.rest);
                work(*credit, old.rate).saturating_sub(missing)
            }
            Some(Shape::TwoBuckets(buckets)) => buckets.tokens(now),
            _ => work(now.since(old.end), self.rate),
        };
        self.end = match (self.shape.as_deref_mut(), old.shape.as_deref()) {
            (Some(Shape::TwoBuckets(new)), Some(Shape::TwoBuckets(old))) => {
                new.migrate_from(old.clone(), false, now)
            }
            (Some(Shape::TwoBuckets(new)), _) => {
                new.start(there, now);
                now
            }
            (Some(Shape::TokenBucket(_)), Some(Shape::TokenBucket(_) | Shape::TwoBuckets(_))) => {
                return self.keep_tokens(there, now);
            }
            (Some(Shape::TokenBucket(new)), _) => old.end.min(now) + *new,
            _ => old.end.min(now),
        };
    }

    /// Sets the tokens of the bucket, up to its size, to `there` at `now`. In bytes times
    /// [`BIT_NANOS`].
    fn keep_tokens(&mut self, there: u128, now: Time) {
        let Some(Shape::TokenBucket(size)) = self.shape.as_deref() else { return };
        let full = u128::from(size.0) * u128::from(self.rate.0);
        let nanos = full.saturating_sub(there).div_ceil(u128::from(self.rate.0));
        self.end = now + Span(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.rest = 0;
    }

    /// Length of the last part of the last transmission, if its length does not follow from the
    /// rate; otherwise zero.
    pub fn fixed_part(&self) -> Span {
        if self.fixed.0 == self.end { self.fixed.1 } else { Span::ZERO }
    }

    /// The current rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Lower bound on the time of a transmission of `bytes`.
    pub fn least_airtime(&self, bytes: u32) -> Span {
        if self.shape.is_some() {
            Span::ZERO
        } else {
            Span(self.airtime(bytes).0.saturating_sub(1))
        }
    }

    /// Upper bound on the time of a transmission of `bytes`: rounded up, so that a packet that
    /// passes a check for enough time always has enough, whatever its start. If the capacity
    /// varies, the result is the time at the mean rate.
    #[inline]
    pub fn airtime(&self, bytes: u32) -> Span {
        if self.rate.is_unlimited() {
            return Span::ZERO;
        }
        let (nanos, rest) = self.divide(u64::from(bytes) * BIT_NANOS);
        Span(nanos + u64::from(rest > 0))
    }

    /// Transmission time of `bytes` plus a fraction of a nanosecond, `rest / rate`; the sum is
    /// rounded down.
    #[inline]
    pub fn airtime_after(&self, rest: u64, bytes: u32) -> Span {
        Span(self.divide(u64::from(bytes) * BIT_NANOS + rest).0)
    }

    /// End of a transmission of `bytes` that starts at `start`, as [`send`](Wire::send) would
    /// return it. If the rate is unlimited, or the capacity is not [`Capacity::Serialise`], the
    /// result is [`Wire::airtime`] after `start`.
    #[inline]
    pub fn end_of(&self, bytes: u32, start: Time) -> Time {
        if self.apart {
            return start + self.airtime(bytes);
        }
        start + self.airtime_after(self.carried(start), bytes)
    }

    /// Fraction of a nanosecond by which a transmission that starts at `start` begins later, in
    /// units of `1 / rate`.
    #[inline]
    fn carried(&self, start: Time) -> u64 {
        if start == self.end { self.rest } else { 0 }
    }

    /// Quotient and remainder of `work` by the rate. `inverse` is at least `2^64 / rate - 1`, so
    /// the product is too small by less than 1, and the rounded product by at most 1.
    #[inline]
    fn divide(&self, work: u64) -> (u64, u64) {
        let quotient = ((u128::from(work) * u128::from(self.inverse)) >> 64) as u64;
        let rest = work - quotient * self.rate.0;
        if rest >= self.rate.0 { (quotient + 1, rest - self.rate.0) } else { (quotient, rest) }
    }

    /// Sends `bytes` from `start` on; returns the end. If the wire serialises, the end is at most
    /// [`Wire::airtime`] after `start`.
    #[inline]
    pub fn send(&mut self, bytes: u32, start: Time) -> Time {
        if self.apart {
            return self.send_apart(bytes, start);
        }
        self.serialise(bytes, start)
    }

    #[inline]
    fn serialise(&mut self, bytes: u32, start: Time) -> Time {
        let work = u64::from(bytes) * BIT_NANOS + self.carried(start);
        let (nanos, rest) = self.divide(work);
        (self.end, self.rest) = (start + Span(nanos), rest);
        self.end
    }

    /// With token buckets, returns the time at which each has the tokens for `bytes`, if that is
    /// later than `now` and nothing is sent before. A packet larger than a bucket may begin when
    /// the bucket is full.
    pub fn waits_for_tokens(&self, bytes: u32, now: Time) -> Option<Time> {
        let credit = match self.shape.as_deref() {
            Some(Shape::TokenBucket(credit)) => credit,
            Some(Shape::TwoBuckets(buckets)) => {
                return Some(buckets.ready(bytes)).filter(|&then| then > now);
            }
            _ => return None,
        };
        // `end` is ahead of the last transmission by at most the credit, because `end` is the time
        // at which the bucket is full.
        let (nanos, _) = self.divide(u64::from(bytes) * BIT_NANOS + self.rest);
        let there = Time((self.end + Span(nanos)).0.saturating_sub(credit.0));
        Some(there.min(self.end)).filter(|&then| then > now)
    }

    /// Returns true if an idle wire would send in the same way from `now` on: its transmissions are
    /// over, and its token buckets, if it has any, are full.
    pub fn is_rested(&self, now: Time) -> bool {
        match self.shape.as_deref() {
            Some(Shape::Opportunities { all, number, .. }) => capacity::is_over(all, *number, now),
            Some(Shape::TwoBuckets(buckets)) => {
                self.end <= now && buckets.full_at().iter().all(|&then| then <= now)
            }
            _ => self.end <= now,
        }
    }

    /// Time at which the wire's transmissions are over; for token buckets, the time at which that
    /// of the rate is full.
    pub fn ended(&self) -> Time {
        match self.shape.as_deref() {
            Some(Shape::TwoBuckets(buckets)) => buckets.full_at()[0],
            _ => self.end,
        }
    }

    /// Time at which the token bucket of the peak rate is full; without one, zero.
    pub fn peak_ended(&self) -> Time {
        match self.shape.as_deref() {
            Some(Shape::TwoBuckets(buckets)) => buckets.full_at()[1],
            _ => Time::ZERO,
        }
    }

    /// Continues from a wire whose transmissions are over at [`end`](Wire::ended), and whose bucket
    /// of the peak rate is full at [`peak_end`](Wire::peak_ended).
    pub fn resume(&mut self, end: Time, peak_end: Time) {
        match self.shape.as_deref_mut() {
            Some(Shape::TwoBuckets(buckets)) => buckets.resume([end, peak_end]),
            _ => (self.end, self.rest) = (end, 0),
        }
    }

    /// Occupies the wire for `span` from `start` on, whatever the rate; returns the end.
    #[inline]
    pub fn occupy(&mut self, span: Span, start: Time) -> Time {
        (self.end, self.rest) = (start + span, 0);
        self.fixed = (self.end, span);
        self.end
    }

    /// Extends the last transmission by the time `longer`, whatever the rate.
    pub fn hold(&mut self, longer: Span) {
        let before = self.fixed_part();
        self.end += longer;
        if let Some(Shape::TwoBuckets(buckets)) = self.shape.as_deref_mut() {
            buckets.hold(longer);
        }
        if longer > Span::ZERO {
            self.fixed = (self.end, before + longer);
        }
    }

    #[cold]
    fn send_apart(&mut self, bytes: u32, start: Time) -> Time {
        if let Some(Shape::TokenBucket(credit)) = self.shape.as_deref() {
            // `end` is the time at which the bucket is full: the credit is subtracted, so that the
            // tokens in the bucket are sent at once.
            let credit = *credit;
            let end = self.serialise(bytes, start.max(self.end));
            return start.max(Time(end.0.saturating_sub(credit.0)));
        }
        match self.shape.as_deref_mut() {
            Some(Shape::Steps(steps)) => {
                let carried = if start == self.end { self.rest } else { 0 };
                (self.end, self.rest) = steps.send(u64::from(bytes) * BIT_NANOS + carried, start);
            }
            Some(Shape::Opportunities { all, number, used }) => {
                self.end = capacity::carry(all, number, used, bytes, start);
            }
            Some(Shape::TwoBuckets(buckets)) => self.end = buckets.send(bytes, start),
            Some(Shape::TokenBucket(_)) | None => self.end = start,
        }
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::capacity::Opportunities;
    use alloc::string::ToString;
    use alloc::sync::Arc;

    #[test]
    fn back_to_back_transmissions_do_not_drift() {
        // At 3 Mbit/s a packet of 500 B takes 4000/3 us. The total time of ten million packets is
        // exact.
        let mut wire = Wire::new(Rate::from_mbit(3));
        let mut t = Time::ZERO;
        for n in 1..=10_000_000u64 {
            t = wire.send(500, t);
            assert_eq!(u128::from(t.0), u128::from(n) * 500 * u128::from(BIT_NANOS) / 3_000_000);
        }
    }

    /// Each packet holds the wire for 10 ns after its end, which does not add up over packets.
    #[test]
    fn only_the_last_packet_holds_the_wire() {
        let all = Opportunities::new(alloc::vec![Time(1_000)], Span(1_000), 1_500);
        let each_microsecond = Capacity::Opportunities(Arc::new(all.expect("in order")));
        for mut wire in
            [Wire::new(Rate::UNLIMITED), Wire::of(Rate::from_mbit(12_000), &each_microsecond)]
        {
            for n in 1..4 {
                let end = wire.send(1_500, Time(1_000 * n));
                wire.hold(Span(10));
                assert_eq!((wire.ended(), wire.fixed_part()), (end + Span(10), Span(10)));
            }
        }
    }

    #[test]
    fn packets_fit_exactly() {
        // A packet of 200 B takes 1,777,777.8 ns.
        let rate = Rate::from_bits(900_000);
        assert_eq!(rate.packets_within(200, Span(8_888_889)), 5);
        assert_eq!(rate.packets_within(200, Span(8_888_888)), 4);
        assert_eq!(Rate::from_mbit(100_000).packets_within(64, Span(1_000_000)), 195_312);
    }

    #[test]
    fn an_end_is_told_before_it_is_sent() {
        for rate in [900_000, 7_777_777, 1_000_000_000, 99_999_999_999] {
            let mut wire = Wire::new(Rate::from_bits(rate));
            let mut t = Time::ZERO;
            for bytes in 1..2_000 {
                let start = if bytes % 7 == 0 { t + Span(1) } else { t };
                let end = wire.end_of(bytes, start);
                t = wire.send(bytes, start);
                assert_eq!(t, end, "{rate} bit/s, {bytes} B");
            }
        }
    }

    #[test]
    fn a_transmission_never_outlasts_its_airtime() {
        let mut wire = Wire::new(Rate::from_bits(7_777_777));
        let mut t = Time::ZERO;
        for bytes in 1..5_000 {
            let end = wire.send(bytes, t);
            assert!(end - t <= wire.airtime(bytes));
            assert!(wire.airtime(bytes) <= end - t + Span(1));
            t = end;
        }
    }

    #[test]
    fn multiplying_by_the_inverse_divides_exactly() {
        let edges = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
        let rates = [
            1,
            2,
            3,
            7,
            999_999_937,
            1_000_000_000,
            10_000_000_000,
            1 << 32,
            1 << 63,
            u64::MAX - 1,
        ];
        for rate in rates.into_iter().flat_map(edges).filter(|&rate| rate > 0) {
            let wire = Wire::new(Rate(rate));
            for times in [0, 1, 2, 3, 1_000, u64::MAX / rate - 1, u64::MAX / rate] {
                for work in edges(rate.wrapping_mul(times)).into_iter().chain([
                    u64::MAX,
                    BIT_NANOS,
                    1500 * BIT_NANOS,
                ]) {
                    assert_eq!(wire.divide(work), (work / rate, work % rate), "{work} / {rate}");
                }
            }
        }
    }

    #[test]
    fn a_terabit_and_a_giant_unit_do_not_overflow() {
        let mut wire = Wire::new(Rate::from_mbit(1_000_000));
        assert_eq!(wire.send(u32::MAX / 2, Time::ZERO), Time(u64::from(u32::MAX / 2) * 8 / 1000));
        assert_eq!(Rate::from_bits(1).airtime(1_000_000), Span(8_000_000_000_000_000));
    }

    #[test]
    fn a_rate_is_written_as_people_write_it() {
        for (bits, text) in
            [(5, "5bit"), (64_000, "64kbit"), (1_500_000_000, "1.5gbit"), (100_000_000, "100mbit")]
        {
            assert_eq!(Rate(bits).to_string(), text);
        }
        assert_eq!(Rate::UNLIMITED.to_string(), "unlimited");
    }
}
