//! The watchdog, which checks by the guest's beats and the host's clock that virtual time passes.

use crate::beat::Beat;
use std::time::{Duration, Instant};

/// The most virtual time that the answer to a ping takes; it does not count as progress.
const LEAST: Duration = Duration::from_millis(1);
/// If a message has no answer for this real time, a ping follows: a sleeping kernel may miss the
/// signal that its line has data, and the next data wake it.
const REPEAT: Duration = Duration::from_secs(1);
/// The real time within which a live guest answers a signal.
const ANSWER: Duration = Duration::from_secs(5);
/// Limit of virtual time: beyond it, the command is assumed to wait for ever.
const MOST: Duration = Duration::from_secs(3 * 366 * 86_400);

/// An alarm of the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// For a long time there was no beat, or no answer to a message: a ping must be sent to the
    /// guest.
    Ask,
    /// Virtual time stands still.
    Stuck,
    /// More virtual time has passed than any command takes; the limit in seconds.
    Endless(u64),
    /// The guest has not received this signal.
    Deaf(i32),
}

/// Evaluates beats at times that the caller passes; it never reads a clock.
#[derive(Debug)]
pub(crate) struct Watchdog {
    patience: Duration,
    /// True if virtual time passes only while everything waits; false if it passes while programs
    /// compute, too.
    is_free: bool,
    /// The last virtual time that was later than the previous one by at least [`LEAST`], and the
    /// time at which it was observed.
    passed: Option<(Duration, Instant)>,
    asked: bool,
    /// A signal, the number of its message, and the time since which its answer is awaited.
    awaited: Option<(i32, u64, Option<Instant>)>,
    /// The time since which messages have had no answer, or of the last ping that was sent for that
    /// reason.
    unanswered: Option<Instant>,
}

impl Watchdog {
    pub(crate) fn new(patience: Duration, is_free: bool) -> Watchdog {
        Watchdog { patience, is_free, passed: None, asked: false, awaited: None, unanswered: None }
    }

    /// Expects an answer to this signal, which is the message of this number.
    pub(crate) fn expect_answer(&mut self, signal: i32, number: u64) {
        self.awaited.get_or_insert((signal, number, None));
    }

    /// Notes that the guest is paused at `now`: the pause counts neither as a standstill nor as a
    /// missing answer.
    pub(crate) fn pause(&mut self, now: Instant) {
        if let Some((_, seen)) = &mut self.passed {
            *seen = now;
        }
        if let Some((_, _, since)) = &mut self.awaited {
            *since = Some(now);
        }
        self.unanswered = None;
    }

    /// Evaluates the last beat at `now`, when `sent` messages have been sent to the guest.
    pub(crate) fn look(&mut self, now: Instant, beat: Beat, sent: u64) -> Option<Alarm> {
        if let Some((signal, number, since)) = &mut self.awaited {
            let since = *since.get_or_insert(now);
            if beat.heard >= *number {
                self.awaited = None;
            } else if now.duration_since(since) >= ANSWER {
                return Some(Alarm::Deaf(*signal));
            }
        }
        if beat.elapsed > MOST {
            return Some(Alarm::Endless(MOST.as_secs()));
        }
        if beat.heard >= sent || beat == Beat::default() {
            self.unanswered = None;
        } else {
            let since = self.unanswered.get_or_insert(now);
            if now.duration_since(*since) >= REPEAT {
                *since = now;
                return Some(Alarm::Ask);
            }
        }
        if !self.is_free {
            return None;
        }
        let &mut (passed, seen) = self.passed.get_or_insert((beat.elapsed, now));
        if beat.elapsed >= passed + LEAST {
            (self.passed, self.asked) = (Some((beat.elapsed, now)), false);
            return None;
        }
        let still = now.duration_since(seen);
        if still >= self.patience {
            return Some(Alarm::Stuck);
        }
        if still >= self.patience / 2 && !self.asked {
            self.asked = true;
            return Some(Alarm::Ask);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn beat(nanos: u64, heard: u64) -> Beat {
        Beat { elapsed: Duration::from_nanos(nanos), heard }
    }

    #[test]
    fn a_guest_whose_time_passes_is_left_alone() {
        let mut dog = Watchdog::new(PATIENCE, true);
        let began = Instant::now();
        for second in 0..1000 {
            let now = began + Duration::from_secs(second);
            // A beat every ten seconds.
            assert_eq!(dog.look(now, beat(second / 10 * 250_000_000, 0), 0), None);
        }
    }

    #[test]
    fn time_that_stands_still_is_asked_for_and_then_told() {
        let mut dog = Watchdog::new(PATIENCE, true);
        let began = Instant::now();
        let at = |second| began + Duration::from_secs(second);
        assert_eq!(dog.look(at(0), beat(5, 0), 0), None);
        assert_eq!(dog.look(at(14), beat(5, 0), 0), None);
        assert_eq!(dog.look(at(15), beat(5, 0), 0), Some(Alarm::Ask));
        assert_eq!(dog.look(at(16), beat(1000, 1), 0), None, "asking takes a little time");
        assert_eq!(dog.look(at(30), beat(1000, 1), 0), Some(Alarm::Stuck));
        // A later answer clears the alarm.
        let mut dog = Watchdog::new(PATIENCE, true);
        dog.look(at(0), beat(5, 0), 0);
        assert_eq!(dog.look(at(15), beat(5, 0), 0), Some(Alarm::Ask));
        assert_eq!(dog.look(at(16), beat(200_000_000, 1), 0), None);
        assert_eq!(dog.look(at(30), beat(200_000_000, 1), 0), None);
        // If computing takes virtual time, time always passes.
        let mut dog = Watchdog::new(PATIENCE, false);
        assert_eq!(dog.look(at(0), beat(5, 0), 0), None);
        assert_eq!(dog.look(at(1000), beat(5, 0), 0), None);
    }

    #[test]
    fn signals_are_answered_and_no_command_takes_for_ever() {
        let mut dog = Watchdog::new(PATIENCE, true);
        let began = Instant::now();
        let at = |second| began + Duration::from_secs(second);
        dog.expect_answer(15, 3);
        assert_eq!(dog.look(at(0), beat(0, 2), 0), None);
        assert_eq!(dog.look(at(5), beat(0, 2), 0), Some(Alarm::Deaf(15)));
        dog.expect_answer(15, 3);
        assert_eq!(dog.look(at(6), beat(0, 3), 0), None);
        assert_eq!(dog.look(at(12), beat(0, 3), 0), None);
        let late = Beat { elapsed: MOST + LEAST, heard: 3 };
        assert!(matches!(dog.look(at(12), late, 3), Some(Alarm::Endless(_))));
    }

    #[test]
    fn a_message_without_an_answer_is_followed_by_questions() {
        let mut dog = Watchdog::new(PATIENCE, true);
        let began = Instant::now();
        let mut look = |millis: u64, heard, sent| {
            let now = began + Duration::from_millis(millis);
            dog.look(now, beat((millis + 1) * 1_000_000_000, heard), sent)
        };
        assert_eq!([0, 999].map(|millis| look(millis, 1, 2)), [None; 2]);
        assert_eq!(look(1000, 1, 2), Some(Alarm::Ask));
        assert_eq!(look(1999, 1, 3), None);
        assert_eq!(look(2000, 1, 3), Some(Alarm::Ask));
        assert_eq!([2100, 4000, 4900].map(|millis| look(millis, 4, 4)), [None; 3]);
        assert_eq!([5000, 5900].map(|millis| look(millis, 4, 5)), [None; 2], "from its own time");
        // A guest that has not sent a beat yet gets no ping.
        let mut dog = Watchdog::new(PATIENCE, true);
        let at = |second| began + Duration::from_secs(second);
        assert_eq!([0, 2, 4].map(|second| dog.look(at(second), Beat::default(), 1)), [None; 3]);
    }
}
