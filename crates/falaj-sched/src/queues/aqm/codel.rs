//! Controlled delay (CoDel): Nichols and Jacobson, RFC 8289.
//!
//! A queue is a standing queue if all packets of an interval waited longer than the target. Then
//! packets are dropped at the instant at which they would be sent. The next drop comes after the
//! interval divided by the square root of the number of drops. This continues until a packet waits
//! for a shorter time than the target. Names and steps are those of the RFC's pseudo-code; a drop
//! and the test of the head behind it are two steps here, at one instant.

use super::policy::CoDelParameters;
use super::settings::{ECN, in_range, marks};
use super::verdict::{Head, Verdict};
use crate::contract::params::{ConfigError, Kind, Param, Values};
use crate::units::time::{Span, Time};
use alloc::format;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "target",
        kind: Kind::Span,
        default: Some("5ms"),
        doc: "acceptable queueing delay: once every packet of an `interval` has waited longer than \
              this, packets are dropped; below `interval`, typically a twentieth to a tenth of it",
    },
    Param {
        name: "interval",
        kind: Kind::Span,
        default: Some("100ms"),
        doc: "time over which the delay is judged: about the longest round-trip time of the \
              connections, up to 4s",
    },
    ECN,
];

impl CoDelParameters {
    pub(crate) fn new(values: &Values) -> Result<CoDelParameters, ConfigError> {
        let default = CoDelParameters::default();
        let target = in_range("target", values.span("target").unwrap_or(default.target))?;
        let interval = in_range("interval", values.span("interval").unwrap_or(default.interval))?;
        if target >= interval {
            return Err(ConfigError {
                flow: None,
                param: "target",
                what: format!("a target of {target} is not below the interval of {interval}"),
                help: "the target is to be a twentieth to a tenth of the interval".into(),
            });
        }
        Ok(CoDelParameters { target, interval, ecn: marks(values) })
    }
}

/// CoDel of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    parameters: CoDelParameters,
    maxpacket: u32,
    state: State,
}

/// The variable state, by the RFC's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Time at which the delay will have been above the target for a whole interval. 0: the delay
    /// is below the target.
    first_above_time: Time,
    drop_next: Time,
    count: u64,
    lastcount: u64,
    dropping: bool,
    /// True if a packet was just dropped; the head behind it determines the next drop.
    again: bool,
}

/// Time of the next drop after `count` drops: `t` plus interval / sqrt(count), rounded down to a
/// nanosecond.
#[inline]
pub fn control_law(t: Time, interval: Span, count: u64) -> Time {
    t + Span((interval.0 * interval.0 / count.max(1)).isqrt())
}

impl CoDel {
    /// CoDel for packets up to this length.
    pub fn new(parameters: CoDelParameters, maxpacket: u32) -> CoDel {
        CoDel { parameters, maxpacket, state: State::default() }
    }

    /// Returns the new state and the verdict on a head that is to be sent.
    #[inline]
    pub fn step(&self, head: Head, now: Time) -> (CoDel, Verdict) {
        let (state, verdict) = self.state.step(&self.parameters, self.maxpacket, head, now);
        (CoDel { state, ..*self }, verdict)
    }

    pub(crate) fn migrate_from(&mut self, old: CoDel) {
        self.state = old.state;
    }
}

impl State {
    /// Returns the new state and the verdict on a head that is to be sent. The parameters are
    /// stored elsewhere.
    #[inline]
    pub(crate) fn step(
        &self,
        of: &CoDelParameters,
        maxpacket: u32,
        head: Head,
        now: Time,
    ) -> (State, Verdict) {
        let mut to = *self;
        let ok_to_drop = if head.waited < of.target || head.behind <= maxpacket {
            to.first_above_time = Time::ZERO;
            false
        } else if to.first_above_time == Time::ZERO {
            to.first_above_time = now + of.interval;
            false
        } else {
            now >= to.first_above_time
        };
        if to.dropping {
            if !ok_to_drop {
                (to.dropping, to.again) = (false, false);
                return (to, Verdict::Pass);
            }
            if to.again {
                to.again = false;
                to.drop_next = control_law(to.drop_next, of.interval, to.count);
            }
            if now < to.drop_next {
                return (to, Verdict::Pass);
            }
            to.count += 1;
            if of.ecn && head.capable {
                to.drop_next = control_law(to.drop_next, of.interval, to.count);
                return (to, Verdict::Mark);
            }
            to.again = true;
            return (to, Verdict::Drop);
        }
        if !ok_to_drop {
            return (to, Verdict::Pass);
        }
        to.dropping = true;
        // If the queue was in the dropping state recently, the drop rate of that time is a good
        // start.
        let delta = to.count.saturating_sub(to.lastcount);
        let lately = now < to.drop_next + of.interval * 16;
        to.count = if delta > 1 && lately { delta } else { 1 };
        to.drop_next = control_law(now, of.interval, to.count);
        to.lastcount = to.count;
        (to, if of.ecn && head.capable { Verdict::Mark } else { Verdict::Drop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const LARGE: Head = Head { waited: Span::from_millis(6), behind: 3000, capable: false };

    /// The intervals of the RFC's law: 100 ms divided by the square roots of 1, 2, 3 and so on.
    #[test]
    fn the_control_law_divides_by_square_roots() {
        let next = |count| control_law(Time::ZERO, Span::from_millis(100), count).0;
        let law: Vec<u64> = (1..=6).map(next).collect();
        assert_eq!(law, [100_000_000, 70_710_678, 57_735_026, 50_000_000, 44_721_359, 40_824_829]);
        assert_eq!((next(100), next(10_000)), (10_000_000, 1_000_000));
        assert_eq!(control_law(Time(7), super::super::settings::LONGEST, 1), Time(4_000_000_007));
    }

    /// The delay is always above the target and is tested each millisecond. The first drop comes an
    /// interval after the first test; the others follow the control law from there.
    #[test]
    fn drops_come_as_the_rfc_has_them() {
        let mut codel = CoDel::new(CoDelParameters::default(), 1500);
        let mut drops = Vec::new();
        for now in (1..600).map(|ms| Time(ms * 1_000_000)) {
            loop {
                let (then, verdict) = codel.step(LARGE, now);
                codel = then;
                if verdict == Verdict::Pass {
                    break;
                }
                drops.push(now.0 / 1_000_000);
            }
        }
        // From 101 on: 100, then 70.7, 57.7, 50, 44.7, 40.8, 37.8, 35.4 ms more, each seen at the
        // next millisecond.
        assert_eq!(drops, [101, 201, 272, 330, 380, 425, 465, 503, 539, 572]);
    }

    #[test]
    fn a_short_stay_ends_it_and_a_soon_return_goes_on_where_it_was() {
        let mut codel = CoDel::new(CoDelParameters::default(), 1500);
        let mut see = |head, ms: u64| {
            let (then, verdict) = codel.step(head, Time(ms * 1_000_000));
            codel = then;
            (verdict, codel.state.count)
        };
        assert_eq!(see(LARGE, 1), (Verdict::Pass, 0));
        assert_eq!(see(LARGE, 101), (Verdict::Drop, 1));
        assert_eq!(see(LARGE, 101), (Verdict::Pass, 1));
        for (ms, count) in [(201, 2), (272, 3), (330, 4)] {
            assert_eq!(see(LARGE, ms), (Verdict::Drop, count));
            assert_eq!(see(LARGE, ms), (Verdict::Pass, count));
        }
        assert_eq!(see(Head { waited: Span::from_millis(4), ..LARGE }, 340), (Verdict::Pass, 4));
        // The delay is above the target again for an interval: count continues at 4 - 1.
        assert_eq!(see(LARGE, 341), (Verdict::Pass, 4));
        assert_eq!(see(LARGE, 441), (Verdict::Drop, 3));
        // With at most one packet behind the head, there is no standing queue.
        assert_eq!(see(Head { behind: 1500, ..LARGE }, 442).0, Verdict::Pass);
        // Much later the count starts again at 1.
        assert_eq!(see(LARGE, 9_000).0, Verdict::Pass);
        assert_eq!(see(LARGE, 9_100), (Verdict::Drop, 1));
    }

    #[test]
    fn marks_are_as_frequent_as_drops() {
        let of = CoDelParameters { ecn: true, ..CoDelParameters::default() };
        let mut marking = CoDel::new(of, 1500);
        let mut marks = Vec::new();
        for now in (1..600).map(|ms| Time(ms * 1_000_000)) {
            let (then, verdict) = marking.step(Head { capable: true, ..LARGE }, now);
            marking = then;
            assert_ne!(verdict, Verdict::Drop);
            if verdict == Verdict::Mark {
                marks.push(now.0 / 1_000_000);
            }
        }
        assert_eq!(marks, [101, 201, 272, 330, 380, 425, 465, 503, 539, 572]);
        assert_eq!(
            marking.step(LARGE, Time(1 << 40)).1,
            Verdict::Drop,
            "a packet that is not ECN-capable is dropped"
        );
    }
}
