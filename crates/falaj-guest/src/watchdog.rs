//! The watchdog, which checks that virtual time passes, by the guest's beats and the host's clock.

use crate::beat::Beat;
use std::time::{Duration, Instant};

/// Asking takes up to this much virtual time, which does not count as progress.
const LEAST: Duration = Duration::from_millis(1);
/// A live guest answers a signal within this real time.
const ANSWER: Duration = Duration::from_secs(5);
/// More virtual time than this means that the command waits for ever.
const MOST: Duration = Duration::from_secs(3 * 366 * 86_400);

/// An alarm of the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// There was no beat for long: a ping must be sent to the guest.
    Ask,
    /// Virtual time stands still.
    Stuck,
    /// More virtual time has passed than any command takes; the limit in seconds.
    Endless(u64),
    /// The guest has not received this signal.
    Deaf(i32),
}

/// The watchdog evaluates beats, and never reads a clock.
#[derive(Debug)]
pub(crate) struct Watchdog {
    patience: Duration,
    /// True if virtual time passes only while everything waits; false if it passes while programs
    /// compute, too.
    is_free: bool,
    /// The last virtual time that was clearly later than the one before, and when it was observed.
    passed: Option<(Duration, Instant)>,
    asked: bool,
    /// A signal, the number of its message, and when it was sent.
    awaited: Option<(i32, u64, Option<Instant>)>,
}

impl Watchdog {
    pub(crate) fn new(patience: Duration, is_free: bool) -> Watchdog {
        Watchdog { patience, is_free, passed: None, asked: false, awaited: None }
    }

    /// Expects an answer to this signal, which is the message of this number.
    pub(crate) fn expect_answer(&mut self, signal: i32, number: u64) {
        self.awaited.get_or_insert((signal, number, None));
    }

    /// The guest does not run now.
    pub(crate) fn pause(&mut self, now: Instant) {
        if let Some((_, seen)) = &mut self.passed {
            *seen = now;
        }
        if let Some((_, _, since)) = &mut self.awaited {
            *since = Some(now);
        }
    }

    /// Evaluates the last beat at `now`.
    pub(crate) fn look(&mut self, now: Instant, beat: Beat) -> Option<Alarm> {
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
            assert_eq!(dog.look(now, beat(second / 10 * 250_000_000, 0)), None);
        }
    }

    #[test]
    fn time_that_stands_still_is_asked_for_and_then_told() {
        let mut dog = Watchdog::new(PATIENCE, true);
        let began = Instant::now();
        let at = |second| began + Duration::from_secs(second);
        assert_eq!(dog.look(at(0), beat(5, 0)), None);
        assert_eq!(dog.look(at(14), beat(5, 0)), None);
        assert_eq!(dog.look(at(15), beat(5, 0)), Some(Alarm::Ask));
        assert_eq!(dog.look(at(16), beat(1000, 1)), None, "asking takes a little time");
        assert_eq!(dog.look(at(30), beat(1000, 1)), Some(Alarm::Stuck));
        // A later answer clears the alarm.
        let mut dog = Watchdog::new(PATIENCE, true);
        dog.look(at(0), beat(5, 0));
        assert_eq!(dog.look(at(15), beat(5, 0)), Some(Alarm::Ask));
        assert_eq!(dog.look(at(16), beat(200_000_000, 1)), None);
        assert_eq!(dog.look(at(30), beat(200_000_000, 1)), None);
        // If computing takes time, time always passes.
        let mut dog = Watchdog::new(PATIENCE, false);
        assert_eq!(dog.look(at(0), beat(5, 0)), None);
        assert_eq!(dog.look(at(1000), beat(5, 0)), None);
    }

    #[test]
    fn signals_are_answered_and_no_command_takes_for_ever() {
        let mut dog = Watchdog::new(PATIENCE, true);
        let began = Instant::now();
        let at = |second| began + Duration::from_secs(second);
        dog.expect_answer(15, 3);
        assert_eq!(dog.look(at(0), beat(0, 2)), None);
        assert_eq!(dog.look(at(5), beat(0, 2)), Some(Alarm::Deaf(15)));
        dog.expect_answer(15, 3);
        assert_eq!(dog.look(at(6), beat(0, 3)), None);
        assert_eq!(dog.look(at(12), beat(0, 3)), None);
        let late = Beat { elapsed: MOST + LEAST, heard: 3 };
        assert!(matches!(dog.look(at(12), late), Some(Alarm::Endless(_))));
    }
}
