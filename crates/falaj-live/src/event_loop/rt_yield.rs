//! Yields the CPU in short slices, so that the kernel's real-time throttling never stops the
//! forwarding thread.
//!
//! If a real-time thread never sleeps, the kernel stops it for a twentieth of each second, or for
//! the configured part, so that other threads can run. This thread yields the same time in small
//! pieces instead: it owes one [`PIECE`] in each period.
//!
//! A piece is yielded when nothing is due until its end, judging by how late the thread woke from
//! earlier pieces. If packets are too dense for that, pieces are yielded in worse moments: with two
//! pieces owed, straight after a delivery if nothing is due during the piece itself; with three
//! pieces owed, at any moment.

use super::timer::WakeLead;
use crate::priority::RtReserve;
use falaj_sched::units::time::{Span, Time};

/// Length of a piece. Waking up takes another half of a piece, but the kernel counts most of that
/// as the thread's time. With shorter pieces, waking up would take longer than the piece.
const PIECE: Span = Span::from_micros(50);

/// Minimum time between two pieces, however large the kernel's reserve is.
const LEAST: Span = Span(4 * PIECE.0);

/// The time owed to other threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct RtYield {
    /// The instant up to which nothing is owed.
    since: Time,
    /// A piece is owed in each period of this length; `None` if the kernel reserves nothing for
    /// other threads.
    every: Option<Span>,
    wake_lead: WakeLead,
}

impl RtYield {
    /// Computes from the kernel's reserve how often a piece is owed.
    pub(super) fn new(kept: Option<RtReserve>) -> RtYield {
        let every =
            |kept: RtReserve| u128::from(PIECE.0) * u128::from(kept.of.0) / u128::from(kept.part.0);
        let every =
            kept.map(|kept| Span(u64::try_from(every(kept)).unwrap_or(u64::MAX)).max(LEAST));
        RtYield { since: Time::ZERO, every, wake_lead: WakeLead::new() }
    }

    /// Returns true if a piece is owed, to be yielded at a suitable moment.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.every.is_some_and(|every| now.since(self.since) >= every)
    }

    /// Time for which to sleep now, or `None`. Nothing is due before `next`; `released` is true if
    /// a packet was delivered just now.
    pub(super) fn time_to_sleep(&self, now: Time, next: Time, released: bool) -> Option<Span> {
        let (owed, until) = (now.since(self.since).0 / self.every?.0, now + PIECE);
        let suits =
            self.wake_lead.wake(next, None) >= until || owed >= 2 && released && next >= until;
        (owed >= 1 && (suits || owed >= 3)).then_some(PIECE)
    }

    /// Notes that a piece was yielded: the thread was to wake a [`PIECE`] after `began`.
    pub(super) fn yielded(&mut self, began: Time, woke: Time) {
        self.wake_lead.woke(began + PIECE, woke);
        let Some(every) = self.every else { return };
        // The most that can be owed after a piece. If three pieces were owed, two are left, and the
        // length of this piece and of its wake-up is added. Time in which other threads stopped
        // this thread is not owed.
        let most = Span(every.0.saturating_mul(2).saturating_add(2 * PIECE.0));
        self.since = (self.since + every).max(Time(woke.0.saturating_sub(most.0)));
    }

    /// Notes that the thread slept for another reason. After at least a piece, nothing is owed.
    pub(super) fn slept(&mut self, began: Time, woke: Time) {
        if woke.since(began) >= PIECE {
            self.since = woke;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's default.
    const KEPT: RtReserve = RtReserve { part: Span::from_millis(50), of: Span::from_secs(1) };
    const AWAKE: Span = Span::from_millis(1);

    /// Simulates a loop that delivers a packet every `gap` nanoseconds; its wake-ups are late by
    /// the values of `late` in turn. Returns the number of pieces in a second, the fraction of late
    /// packets, and the longest time without a piece.
    fn simulate(gap: u64, late: &[u64]) -> (u32, f64, Span) {
        let end = Time(1_000_000_000);
        let mut owed = RtYield::new(Some(KEPT));
        let (mut now, mut next, mut pieces) = (Time::ZERO, Time(gap), 0);
        let (mut hit, mut packets, mut last, mut longest) = (0, 0, Time::ZERO, Span::ZERO);
        let mut released = false;
        while now < end {
            if let Some(piece) = owed.time_to_sleep(now, next, released) {
                longest = longest.max(now.since(last));
                let woke = now + piece + Span(late[pieces as usize % late.len()]);
                pieces += 1;
                owed.yielded(now, woke);
                (now, last) = (woke, woke);
                hit += u64::from(now > next);
            } else {
                now += Span(500);
            }
            released = next <= now;
            while next <= now {
                next += Span(gap);
                packets += 1;
            }
        }
        (pieces, hit as f64 / f64::from(packets), longest)
    }

    #[test]
    fn a_twentieth_is_given_in_small_pieces() {
        for gap in [5_000, 12_000, 60_000, 121_000, 1_000_000, 10_000_000] {
            for late in [&[0][..], &[30_000], &[10_000, 20_000, 10_000, 80_000]] {
                let (pieces, _, longest) = simulate(gap, late);
                assert!((990..=1000).contains(&pieces), "{gap} {late:?}: {pieces}");
                assert!(longest <= Span(3 * AWAKE.0 + 1000), "{gap} {late:?}: {longest}");
            }
        }
    }

    #[test]
    fn it_is_as_much_as_the_owner_has_set() {
        let of = |part| {
            RtYield::new(Some(RtReserve { part: Span::from_millis(part), of: Span::from_secs(1) }))
        };
        let first = |rt_yield: RtYield| {
            (0..)
                .map(|us| Time(us * 1_000))
                .find(|&now| rt_yield.time_to_sleep(now, Time::NEVER, false).is_some())
        };
        assert_eq!(first(of(50)), Some(Time(1_000_000)));
        assert_eq!(first(of(10)), Some(Time(5_000_000)));
        assert_eq!(first(of(200)), Some(Time(250_000)));
        assert_eq!(first(of(999)), Some(Time(LEAST.0)), "between two there is time for packets");
        let nothing = RtYield::new(None);
        assert!(
            !nothing.is_due(Time::NEVER)
                && nothing.time_to_sleep(Time::NEVER, Time::NEVER, true).is_none()
        );
    }

    #[test]
    fn no_packet_is_late_if_there_is_room_between_packets() {
        let late = [20_000, 25_000, 30_000, 25_000, 40_000];
        for gap in [121_000, 1_000_000] {
            let (_, hit, _) = simulate(gap, &late);
            assert!(hit < 0.001, "{gap}: {hit}");
        }
        assert!(simulate(12_000, &late).1 > 0.001, "there is no room");
    }

    #[test]
    fn a_thread_that_slept_or_was_stopped_owes_nothing() {
        let mut owed = RtYield::new(Some(KEPT));
        let stopped = Time::ZERO + Span::from_secs(10);
        // More than three pieces are owed, so one is yielded although a packet is due.
        assert_eq!(owed.time_to_sleep(stopped, stopped, false), Some(PIECE));
        owed.yielded(stopped, stopped + PIECE);
        let now = stopped + PIECE;
        assert_eq!(owed.time_to_sleep(now, now, false), None, "once");
        owed.slept(now, now + Span(PIECE.0 - 1));
        assert!(owed.is_due(now), "that was less");
        let now = now + PIECE;
        owed.slept(now, now + PIECE);
        let now = now + PIECE;
        assert_eq!(owed.time_to_sleep(now + Span(AWAKE.0 - 1), Time::NEVER, false), None);
        assert_eq!(owed.time_to_sleep(now + AWAKE, Time::NEVER, false), Some(PIECE));
    }
}
