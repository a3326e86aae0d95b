//! COBALT: CoDel, and BLUE for connections that do not slow down. Høiland-Jørgensen, Täht and
//! Morton, "Piece of CAKE" (2018).
//!
//! While the delay is below the target, CoDel's count of drops falls step by step at the same
//! intervals at which it rises. It does not restart from zero. BLUE drops packets at random; its
//! probability rises when the queue overflows (at most once in a target time), and falls while the
//! queue is empty. CoDel marks packets of connections that support ECN; BLUE drops them too.

use super::codel::control_law;
use super::policy::CoDelParameters;
use super::verdict::{Head, Verdict};
use crate::units::rate::Rate;
use crate::units::time::{Span, Time};

/// Steps by which BLUE's probability rises and falls, in units of 2^-32.
const RISE: u32 = 1 << 24;
const FALL: u32 = 1 << 20;

/// The parameters, adapted to the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CobaltParameters {
    target: Span,
    interval: Span,
    /// Time of the largest packet.
    packet: Span,
}

impl CobaltParameters {
    /// Adapts the parameters. The target is at least the transmission time of one and a half
    /// largest packets, and the interval at least twice the target.
    pub(crate) fn new(of: CoDelParameters, rate: Rate, largest: u32) -> CobaltParameters {
        let packet = rate.airtime(largest);
        let target = of.target.max(Span(packet.0.saturating_mul(3) / 2));
        let shorter = (of.interval + of.target).saturating_sub(target);
        let interval = shorter.max(target * 2).min(super::settings::LONGEST);
        CobaltParameters { target, interval, packet }
    }
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cobalt {
    /// Time of CoDel's next drop. While the count is zero: an interval after the last head, or
    /// after the count fell to zero.
    drop_next: Time,
    /// Time of the last change of BLUE's probability.
    blue_changed: Time,
    count: u32,
    /// BLUE's probability, in units of 2^-32.
    probability: u32,
    dropping: bool,
}

impl Cobalt {
    /// Returns the new state and the verdict on a head that is to be sent. `draw` is uniform over
    /// all of `u32`.
    #[inline]
    pub(crate) fn step(
        &self,
        of: &CobaltParameters,
        head: Head,
        draw: u32,
        now: Time,
    ) -> (Cobalt, Verdict) {
        let mut to = *self;
        let due = to.count > 0 && now >= to.drop_next;
        let mut late = now > to.drop_next;
        let over = head.waited > of.target && head.waited > of.packet * 4;
        if over {
            if !to.dropping {
                to.drop_next = control_law(now, of.interval, to.count.into());
            }
            to.count = to.count.max(1);
        }
        to.dropping = over;
        let mut verdict = Verdict::Pass;
        if due && over {
            verdict = if head.capable { Verdict::Mark } else { Verdict::Drop };
            to.count = to.count.saturating_add(1);
            to.drop_next = control_law(to.drop_next, of.interval, to.count.into());
            late = now > to.drop_next;
        } else if due {
            to.decay(of, now);
            late = now > to.drop_next;
        }
        if draw < to.probability {
            verdict = Verdict::Drop;
        }
        if to.count == 0 {
            to.drop_next = now + of.interval;
        } else if late && verdict != Verdict::Drop {
            to.drop_next = now;
        }
        (to, verdict)
    }

    /// Reduces the count by one for each instant of the control law up to now.
    fn decay(&mut self, of: &CobaltParameters, now: Time) {
        while self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next = control_law(self.drop_next, of.interval, self.count.into());
        }
    }

    /// Records that a packet of the queue was dropped because there was no room.
    pub(crate) fn overflowed(&mut self, of: &CobaltParameters, now: Time) {
        if now.since(self.blue_changed) > of.target {
            self.probability = self.probability.saturating_add(RISE);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Records that the queue was empty until now: reduces the count and the probability
    /// accordingly.
    #[inline]
    pub(crate) fn was_empty(&mut self, of: &CobaltParameters, now: Time) {
        self.dropping = false;
        if self.count > 0 {
            self.decay(of, now);
        }
        if self.probability > 0 {
            let steps = now.since(self.blue_changed).0 / of.target.0.max(1);
            let fall = u32::try_from(steps).unwrap_or(u32::MAX).saturating_mul(FALL);
            self.probability = self.probability.saturating_sub(fall);
            self.blue_changed += Span(steps * of.target.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const OF: CobaltParameters = CobaltParameters {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        packet: Span::from_millis(1),
    };
    const LATE: Head = Head { waited: Span::from_millis(6), behind: 3000, capable: false };
    const NEVER: u32 = u32::MAX;

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// Returns the milliseconds at which a head is dropped or marked. `head` is judged once in each
    /// millisecond of the range.
    fn drops(cobalt: &mut Cobalt, ms_range: core::ops::Range<u64>, head: Head) -> Vec<u64> {
        let mut drops = Vec::new();
        for n in ms_range {
            let (to, verdict) = cobalt.step(&OF, head, NEVER, ms(n));
            *cobalt = to;
            if verdict != Verdict::Pass {
                drops.push(n);
            }
        }
        drops
    }

    /// The first drop is an interval after the first late head; the next drops come after the
    /// interval divided by the square roots of 2, 3, 4 and so on: 70.7, 57.7, 50, 44.7 ms.
    #[test]
    fn drops_come_closer_by_the_control_law() {
        let mut cobalt = Cobalt::default();
        // The first packet has a short delay, as at the start of a connection.
        let early = Head { waited: Span::from_millis(1), ..LATE };
        assert_eq!(drops(&mut cobalt, 0..1, early), []);
        assert_eq!(drops(&mut cobalt, 1..330, LATE), [101, 172, 230, 280, 325]);
        assert_eq!(cobalt.count, 6);
    }

    #[test]
    fn packets_that_support_ecn_are_marked() {
        let mut cobalt =
            Cobalt { count: 4, drop_next: ms(10), dropping: true, ..Cobalt::default() };
        let (to, verdict) = cobalt.step(&OF, Head { capable: true, ..LATE }, NEVER, ms(10));
        assert_eq!((to.count, verdict), (5, Verdict::Mark));
        // BLUE drops them.
        cobalt.probability = 1 << 24;
        let step = |draw| cobalt.step(&OF, Head { capable: true, ..LATE }, draw, ms(10)).1;
        assert_eq!((step(1 << 24), step((1 << 24) - 1)), (Verdict::Mark, Verdict::Drop));
    }

    /// The count starts at 4. It falls at 10 ms, and then after further 57.7, 70.7 and 100 ms.
    #[test]
    fn the_count_falls_as_it_rose() {
        let cobalt = Cobalt { count: 4, drop_next: ms(10), dropping: true, ..Cobalt::default() };
        let count = |n| {
            let mut cobalt = cobalt;
            cobalt.was_empty(&OF, ms(n));
            cobalt.count
        };
        assert_eq!([9, 10, 67, 68, 138, 139, 238, 239].map(count), [4, 3, 3, 2, 2, 1, 1, 0]);
        // The same happens with packets whose delay is below the target.
        let early = Head { waited: Span::from_millis(4), ..LATE };
        let (to, verdict) = cobalt.step(&OF, early, NEVER, ms(139));
        assert_eq!((to.count, verdict), (1, Verdict::Pass));
    }

    /// The probability rises by 1/256 at an overflow, at most once in a target time. It falls by
    /// 1/4096 for each target time during which the queue is empty.
    #[test]
    fn blue_rises_with_overflows_and_falls_while_empty() {
        let mut cobalt = Cobalt::default();
        for n in [10, 12, 14, 16, 22] {
            cobalt.overflowed(&OF, ms(n));
        }
        assert_eq!(cobalt.probability, 3 * RISE);
        cobalt.was_empty(&OF, ms(22 + 4 * 5));
        assert_eq!(cobalt.probability, 3 * RISE - 4 * FALL);
        cobalt.was_empty(&OF, ms(60_000));
        assert_eq!((cobalt.probability, cobalt.count), (0, 0));
    }

    /// At 1 Mbit/s a packet of 1500 B takes 12 ms: the target is 18 ms; the sum of interval and
    /// target, 105 ms, stays the same. At 100 kbit/s the interval is twice the target.
    #[test]
    fn slow_links_have_a_longer_target() {
        let of = |rate| CobaltParameters::new(CoDelParameters::default(), rate, 1500);
        let spans = |of: CobaltParameters| (of.target.0 / 1_000_000, of.interval.0 / 1_000_000);
        assert_eq!(spans(of(Rate::from_mbit(100))), (5, 100));
        assert_eq!(spans(of(Rate::from_mbit(1))), (18, 87));
        assert_eq!(spans(of(Rate::from_bits(100_000))), (180, 360));
    }
}
