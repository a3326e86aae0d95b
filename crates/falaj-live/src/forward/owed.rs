//! What a thread before all others owes those.
//!
//! One that never sleeps is stopped by the kernel for the twentieth part of a second in each second, so that the others get
//! something too. It leaves them as much in small pieces instead: a [`REST`] in each [`AWAKE`], in a moment in which nothing is
//! due until it is over, judging by how late the thread woke from rests lately. If there is none, packets are too dense for that:
//! then, after [`PATIENCE`], it rests straight after a hand-over if nothing is due during the rest itself, and at last in any
//! moment. What is owed by then is made up for.

use crate::timer::Lead;
use falaj_sched::time::{Span, Time};

const AWAKE: Span = Span::from_millis(1);
/// The twentieth part. Waking up takes half as long again, but most of that the kernel counts as the thread's. In shorter rests it
/// would be more than the rest itself.
const REST: Span = Span::from_micros(50);
const PATIENCE: Span = Span::from_millis(2);
/// When any moment will do.
const AT_LAST: Span = Span::from_millis(3);
/// What is owed at most after a rest, as time awake, which the next rest at last leaves: whoever was stopped by others owes
/// them nothing for that.
const DEBT: Span = Span(AT_LAST.0 - AWAKE.0 + 2 * REST.0);

/// What is owed, as the time since which nothing has been given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    since: Time,
    lead: Lead,
}

impl Owed {
    pub(super) fn new() -> Owed {
        Owed { since: Time::ZERO, lead: Lead::new() }
    }

    /// Is it to rest, if the moment suits?
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        now.since(self.since) >= AWAKE
    }

    /// For how long to rest now, with nothing due before `next`, and something handed over just now or not.
    pub(super) fn rest(&self, now: Time, next: Time, released: bool) -> Option<Span> {
        let (awake, until) = (now.since(self.since), now + REST);
        let suits = self.lead.wake(next, None) >= until || awake >= PATIENCE && released && next >= until;
        (awake >= AWAKE && (suits || awake >= AT_LAST)).then_some(REST)
    }

    /// It rested, and wanted to wake a [`REST`] after `began`.
    pub(super) fn rested(&mut self, began: Time, woke: Time) {
        self.lead.woke(began + REST, woke);
        self.since = (self.since + AWAKE).max(Time(woke.0.saturating_sub(DEBT.0)));
    }

    /// It slept, for whatever reason: if that was a rest, nothing is owed.
    pub(super) fn slept(&mut self, began: Time, woke: Time) {
        if woke.since(began) >= REST {
            self.since = woke;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rests of a loop that hands over a packet each `gap`, where waking takes `late` in turns: how many there are in a second,
    /// the share of packets that it was late for, and the longest time without a rest.
    fn rests(gap: u64, late: &[u64]) -> (u32, f64, Span) {
        let end = Time(1_000_000_000);
        let mut owed = Owed::new();
        let (mut now, mut next, mut rests) = (Time::ZERO, Time(gap), 0);
        let (mut hit, mut packets, mut last, mut longest) = (0, 0, Time::ZERO, Span::ZERO);
        let mut released = false;
        while now < end {
            if let Some(rest) = owed.rest(now, next, released) {
                longest = longest.max(now.since(last));
                let woke = now + rest + Span(late[rests as usize % late.len()]);
                rests += 1;
                owed.rested(now, woke);
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
        (rests, hit as f64 / f64::from(packets), longest)
    }

    #[test]
    fn a_twentieth_is_given_in_small_pieces() {
        for gap in [5_000, 12_000, 60_000, 121_000, 1_000_000, 10_000_000] {
            for late in [&[0][..], &[30_000], &[10_000, 20_000, 10_000, 80_000]] {
                let (rests, _, longest) = rests(gap, late);
                assert!((990..=1000).contains(&rests), "{gap} {late:?}: {rests}");
                assert!(longest <= AT_LAST + Span(1000), "{gap} {late:?}: {longest}");
            }
        }
    }

    #[test]
    fn nobody_is_late_for_it_where_there_is_room_between_packets() {
        let late = [20_000, 25_000, 30_000, 25_000, 40_000];
        for gap in [121_000, 1_000_000] {
            let (_, hit, _) = rests(gap, &late);
            assert!(hit < 0.001, "{gap}: {hit}");
        }
        assert!(rests(12_000, &late).1 > 0.001, "there is no room");
    }

    #[test]
    fn who_slept_or_was_stopped_owes_nothing_for_that() {
        let mut owed = Owed::new();
        let stopped = Time::ZERO + Span::from_secs(10);
        // With something due at any time.
        assert_eq!(owed.rest(stopped, stopped, false), Some(REST));
        owed.rested(stopped, stopped + REST);
        let now = stopped + REST;
        assert_eq!(owed.rest(now, now, false), None, "once");
        owed.slept(now, now + Span(REST.0 - 1));
        assert!(owed.is_due(now), "that was no rest");
        let now = now + REST;
        owed.slept(now, now + REST);
        let now = now + REST;
        assert_eq!(owed.rest(now + Span(AWAKE.0 - 1), Time::NEVER, false), None);
        assert_eq!(owed.rest(now + AWAKE, Time::NEVER, false), Some(REST));
    }
}
