//! Checks packet by packet that a flow gets its guaranteed rate.
//!
//! A guarantee of a rate `r` after a latency `T` says that a packet leaves by `T` after its
//! guaranteed rate clock, `GRC(i) = max(arrival(i), GRC(i-1)) + length(i)/r` (P. Goyal, S. S. Lam
//! and H. M. Vin, "Determining end-to-end delay bounds in heterogeneous networks", 1995; the same
//! as a rate-latency service curve, J.-Y. Le Boudec and P. Thiran, "Network Calculus", 2001,
//! theorem 2.1.3). A packet that leaves later therefore proves that the guarantee was broken. A
//! flow that sends less than its rate gives no such proof. Neither does a flow that is served late
//! after it was served in advance by as much. The bytes sent in a whole second prove nothing: in a
//! part of that second the flow may have been idle, or had another guarantee.

use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::{Span, Time};

/// A shortfall of guaranteed service, with the interval that proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateShortfall {
    /// Start of the interval: since then the flow has been backlogged, or ahead of its rate.
    pub from: Time,
    /// The instant at which less was served than guaranteed: the end of the packet that was late.
    pub to: Time,
    /// Bytes whose last bit left within the interval, without the late packet.
    pub served: u64,
    /// Bytes that were guaranteed to have left by the end of the interval.
    pub guaranteed: u64,
}

/// The guaranteed rate clock of a flow.
///
/// All values are in bits times 10^9. In this unit the bits of a whole number of nanoseconds at a
/// whole rate are a whole number, so that a packet that is late by one nanosecond is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuaranteedRateClock {
    rate: Rate,
    latency: Span,
    /// Clock value of the last packet.
    clock: u128,
    /// Start of the guarantee: packets queued at a change count as if they arrived then.
    began: Time,
    /// Start of the current busy interval of the clock; `served` has the bytes that have left
    /// since.
    from: Time,
    served: u64,
}

impl GuaranteedRateClock {
    /// A clock for this guarantee, which holds from `now` on. The rate is above zero.
    pub fn new(rate: Rate, latency: Span, now: Time) -> GuaranteedRateClock {
        let clock = u128::from(now.0) * u128::from(rate.0);
        GuaranteedRateClock { rate, latency, clock, began: now, from: now, served: 0 }
    }

    /// The clock from `now` on, when the guarantee changes. The service that the flow has got in
    /// advance is kept: as bytes, or as the time until the flow would be late by the old guarantee
    /// and its latency, whichever is more. A fair queue keeps the bytes, and a regulator the time.
    /// A lag of the flow behind its guarantee is forgotten, since no guarantee bounds the time
    /// until that service is made up.
    #[must_use]
    pub fn changed(self, rate: Rate, latency: Span, now: Time) -> GuaranteedRateClock {
        let ahead = self.clock.saturating_sub(self.at(now));
        let lasts = self.after(self.clock, Span::ZERO).since(now);
        let next = GuaranteedRateClock::new(rate, latency, now);
        GuaranteedRateClock { clock: next.clock + ahead.max(next.of(lasts)), ..next }
    }

    /// Records that a packet of the flow has left. Returns the proof if that was later than the
    /// guarantee plus `allowance`, and then begins anew.
    pub fn departed(
        &mut self,
        arrival: Time,
        end: Time,
        bytes: u32,
        allowance: Span,
    ) -> Option<RateShortfall> {
        let arrival = arrival.max(self.began);
        if self.at(arrival) >= self.clock {
            (self.clock, self.from, self.served) = (self.at(arrival), arrival, 0);
        }
        self.clock += u128::from(bytes) * u128::from(BIT_NANOS);
        let late = self.latency + allowance;
        let shortfall = (self.at(end) > self.clock + self.of(late)).then(|| RateShortfall {
            from: self.from,
            to: end,
            served: self.served,
            guaranteed: self.bytes_in(Span(end.since(self.from).0.saturating_sub(late.0))),
        });
        self.served += u64::from(bytes);
        if shortfall.is_some() {
            (self.clock, self.from, self.served) = (self.at(end), end, 0);
        }
        shortfall
    }

    /// The latest instant by which the `bytes` that are queued now must have left.
    pub fn deadline(&self, now: Time, bytes: u64, allowance: Span) -> Time {
        let clock = self.clock.max(self.at(now)) + u128::from(bytes) * u128::from(BIT_NANOS);
        self.after(clock, allowance)
    }

    /// The latest departure of a packet at this clock value.
    fn after(&self, clock: u128, allowance: Span) -> Time {
        let until = clock.div_ceil(u128::from(self.rate.0));
        let late = u128::from(self.latency.0) + u128::from(allowance.0);
        Time(u64::try_from(until + late).unwrap_or(u64::MAX))
    }

    fn at(&self, time: Time) -> u128 {
        self.of(time.since(Time::ZERO))
    }

    fn of(&self, span: Span) -> u128 {
        u128::from(span.0) * u128::from(self.rate.0)
    }

    fn bytes_in(&self, span: Span) -> u64 {
        u64::try_from(self.of(span) / u128::from(BIT_NANOS)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of one byte per microsecond, after a latency of one millisecond.
    fn clock() -> GuaranteedRateClock {
        GuaranteedRateClock::new(Rate::from_mbit(8), Span::from_millis(1), Time::ZERO)
    }

    const MICRO: u64 = 1_000;

    #[test]
    fn a_packet_is_late_by_a_nanosecond_or_not_at_all() {
        let (arrival, allowance) = (Time(7), Span(50));
        let end = 7 + (1_000 + 500) * MICRO;
        let depart = |end, allowance| clock().departed(arrival, Time(end), 500, allowance);
        assert_eq!(depart(end, Span::ZERO), None);
        assert_eq!(depart(end + 50, allowance), None);
        let proof = depart(end + 1, Span::ZERO).expect("late");
        assert_eq!((proof.from, proof.to.0, proof.served), (arrival, end + 1, 0));
        assert_eq!(proof.guaranteed, 500, "and not one has left");
        assert_eq!(
            depart(end + 51, allowance),
            Some(RateShortfall { to: Time(end + 51), ..proof })
        );
    }

    /// The latency is allowed once for two packets that arrive together, and again for a later
    /// packet.
    #[test]
    fn a_backlog_has_the_latency_once() {
        let mut of = clock();
        assert_eq!(of.departed(Time(0), Time(1_500 * MICRO), 500, Span::ZERO), None);
        assert_eq!(of.departed(Time(0), Time(2_000 * MICRO), 500, Span::ZERO), None);
        let proof = of.departed(Time(0), Time(2_501 * MICRO), 500, Span::ZERO).expect("late");
        assert_eq!((proof.from, proof.served, proof.guaranteed), (Time(0), 1_000, 1_501));
        let anew = Time(9_000 * MICRO);
        assert_eq!(of.departed(anew, anew + Span(1_500 * MICRO), 500, Span::ZERO), None);
    }

    /// Service in advance counts: no packet is due as long as this service lasts at the guaranteed
    /// rate.
    #[test]
    fn service_in_advance_counts() {
        let mut of = clock();
        for n in 0..10 {
            assert_eq!(of.departed(Time(n), Time(n + 1), 1_000, Span::ZERO), None);
        }
        let end = Time((11_000 + 1_000) * MICRO);
        assert_eq!(of.departed(Time(20), end, 1_000, Span::ZERO), None);
        let mut of = GuaranteedRateClock::new(Rate::from_mbit(16), Span::ZERO, Time(0));
        assert_eq!(of.departed(Time(0), Time(1), 1_000, Span::ZERO), None);
        // 1000 bytes in advance, then a quarter of the rate: at that rate they last 2 ms.
        let mut slow = of.changed(Rate::from_mbit(4), Span::ZERO, Time(0));
        assert_eq!(slow.deadline(Time(0), 0, Span::ZERO), Time(2_000 * MICRO));
        assert_eq!(slow.departed(Time(0), Time(4_000 * MICRO), 1_000, Span::ZERO), None);
        assert!(slow.departed(Time(0), Time(6_000 * MICRO + 1), 1_000, Span::ZERO).is_some());
        // Four times the rate: the advance still lasts half a millisecond, as at the old rate.
        let fast = of.changed(Rate::from_mbit(64), Span::ZERO, Time(0));
        assert_eq!(fast.deadline(Time(0), 0, Span::ZERO), Time(500 * MICRO));
    }

    #[test]
    fn what_waits_at_a_change_counts_from_then() {
        let mut of = clock();
        assert_eq!(of.departed(Time(0), Time(1), 1, Span::ZERO), None);
        let now = Time(50_000 * MICRO);
        let mut of = of.changed(Rate::from_mbit(8), Span::ZERO, now);
        assert_eq!(of.departed(Time(2), now + Span(500 * MICRO), 500, Span::ZERO), None);
        assert!(of.departed(Time(3), now + Span(1_000 * MICRO + 1), 500, Span::ZERO).is_some());
    }
}
