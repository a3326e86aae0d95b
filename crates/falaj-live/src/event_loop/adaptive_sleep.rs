//! The rule by which the hybrid timer stops spinning.
//!
//! Spinning occupies a processor. If other threads wait for a processor, they often belong to the
//! processes that send and receive through the link. Delivery to the microsecond is then useless,
//! because these processes cannot run. In that case the loop sleeps instead, and delivers at each
//! wake-up all packets that are due. They are late by at most [`SLACK`], or the configured slack if
//! that is longer, plus the wake-up time, and never early. The rule, in windows of [`WINDOW`]:
//!
//! | state | condition |
//! |---|---|
//! | sleeps | in at least [`CROWDED`] of the last [`LAST`] windows the loop was awake for more than half of the time, and other threads waited |
//! | spins again | other threads waited in none of the last [`QUIET`] windows |
//!
//! Other threads wait if more threads are runnable than there are processors, or if the kernel
//! preempted this thread for them at least [`TAKEN`] times in a window.

use crate::clock::{self, Usage};
use crate::priority;
use falaj_sched::units::time::{Span, Time};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Longest lateness of packets while the timer sleeps, not counting the wake-up time; the
/// configured slack, if that is longer.
pub(crate) const SLACK: Span = Span::from_micros(50);
/// Length of a window. A window is longer if the loop sleeps at its end.
const WINDOW: Span = Span::from_millis(10);
const LAST: u32 = 4;
const CROWDED: u32 = 2;
const QUIET: u32 = 32;
const TAKEN: u64 = 2;

/// Observations of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WindowLoad {
    /// True if other threads waited for a processor.
    waiting: bool,
    /// True if the loop was awake for more than half of the window.
    awake: bool,
}

/// The rule, without measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CrowdingRule {
    rests: bool,
    /// One bit for each of the last windows, the newest in the lowest bit: 1 if other threads
    /// waited, and the loop was awake or `rests` was true.
    crowded: u64,
}

impl CrowdingRule {
    fn window(&mut self, WindowLoad { waiting, awake }: WindowLoad) {
        let crowded = waiting && (awake || self.rests);
        self.crowded = self.crowded << 1 | u64::from(crowded);
        let of_last = |windows: u32| (self.crowded & ((1 << windows) - 1)).count_ones();
        self.rests = if self.rests { of_last(QUIET) > 0 } else { of_last(LAST) >= CROWDED };
    }
}

/// Measures the load of other threads, and decides if the loop sleeps.
#[derive(Debug)]
pub(crate) struct AdaptiveSleep {
    rule: CrowdingRule,
    /// End of the present window.
    next: Time,
    /// End of the previous window.
    since: Time,
    usage: Usage,
    /// The file with the kernel's count of runnable threads.
    load: Option<File>,
    processors: u64,
    rested: Span,
}

impl AdaptiveSleep {
    pub(crate) fn new() -> AdaptiveSleep {
        // If a thread may use only some of the processors, the kernel's count does not show how
        // many threads wait for these; so it is not used then.
        let processors = priority::processors().len();
        let load =
            (processors == priority::online()).then(|| File::open("/proc/loadavg").ok()).flatten();
        let (rule, usage) = (CrowdingRule::default(), Usage::default());
        let (next, since) = (Time::ZERO, Time::ZERO);
        AdaptiveSleep {
            rule,
            next,
            since,
            usage,
            load,
            processors: processors as u64,
            rested: Span::ZERO,
        }
    }

    /// Returns true if the loop sleeps instead of spinning.
    #[inline]
    pub(crate) fn rests(&self) -> bool {
        self.rule.rests
    }

    /// Total time in which the loop slept instead of spinning, in whole windows.
    pub(crate) fn rested(&self) -> Span {
        self.rested
    }

    /// Returns true if a window is over, so that [`look`](AdaptiveSleep::look) is due.
    #[inline]
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.next
    }

    /// Evaluates the window that has ended.
    #[cold]
    pub(crate) fn look(&mut self, now: Time) {
        let usage = clock::thread_usage();
        let (lasted, cpu) = (now.since(self.since), usage.cpu - self.usage.cpu);
        let taken = usage.preempted - self.usage.preempted;
        if self.rule.rests {
            self.rested += lasted;
        }
        // The start of the first window is unknown.
        if self.since > Time::ZERO {
            let waiting = taken >= TAKEN || self.to_run() > self.processors;
            self.rule.window(WindowLoad { waiting, awake: cpu.0 > lasted.0 / 2 });
        }
        (self.since, self.next, self.usage) = (now, now + WINDOW, usage);
    }

    /// Number of runnable threads of the machine, this one included; zero if it is unavailable.
    fn to_run(&self) -> u64 {
        let mut text = [0; 64];
        let read = self.load.as_ref().and_then(|load| load.read_at(&mut text, 0).ok()).unwrap_or(0);
        running(&text[..read])
    }
}

/// Parses the number of runnable threads: the fourth field, after three averages, in the form
/// `runnable/all`.
fn running(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.split_ascii_whitespace()
        .nth(3)
        .and_then(|of| of.split_once('/')?.0.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_count_is_read() {
        assert_eq!(running(b"1.36 1.19 1.41 3/90 24622\n"), 3);
        for other in [&b""[..], b"1 2 3", b"1 2 3 4 5", b"1 2 3 x/9 5", b"\xff"] {
            assert_eq!(running(other), 0, "{other:?}");
        }
        // The thread itself runs.
        let rest = AdaptiveSleep::new();
        assert!(rest.load.is_none() || rest.to_run() >= 1);
    }

    const NO_OTHERS: WindowLoad = WindowLoad { waiting: false, awake: true };
    const CROWD: WindowLoad = WindowLoad { waiting: true, awake: true };

    #[test]
    fn it_rests_while_others_wait_and_then_spins_again() {
        let mut rule = CrowdingRule::default();
        rule.window(CROWD);
        assert!(!rule.rests, "once is nothing");
        rule.window(NO_OTHERS);
        rule.window(NO_OTHERS);
        rule.window(CROWD);
        assert!(rule.rests, "twice in four windows");
        for _ in 0..1000 {
            // While the loop sleeps by the rule, it is awake for a small part of the time, and
            // other threads wait only now and then.
            (0..QUIET - 1).for_each(|_| rule.window(WindowLoad { waiting: false, awake: false }));
            rule.window(WindowLoad { waiting: true, awake: false });
            assert!(rule.rests);
        }
        (0..QUIET - 1).for_each(|_| rule.window(NO_OTHERS));
        assert!(rule.rests);
        rule.window(NO_OTHERS);
        assert!(!rule.rests);
    }

    #[test]
    fn a_sleeping_thread_takes_nothing_from_others() {
        let mut rule = CrowdingRule::default();
        (0..100).for_each(|_| rule.window(WindowLoad { waiting: true, awake: false }));
        assert!(!rule.rests);
    }

    proptest! {
        /// For any observations, the loop begins to sleep if other threads waited in two of the
        /// last four windows while it was awake. It spins again after [`QUIET`] windows in a row in
        /// which none waited. Nothing else changes its state.
        #[test]
        fn the_rule_as_it_is_said(
            seen in prop::collection::vec((any::<bool>(), any::<bool>()), 0..400),
        ) {
            let mut rule = CrowdingRule::default();
            let (mut rests, mut history) = (false, Vec::new());
            for (waiting, awake) in seen {
                history.push(waiting && (awake || rests));
                let last =
                    |n: usize| history.iter().rev().take(n).filter(|crowded| **crowded).count();
                rests = if rests { last(32) > 0 } else { last(4) >= 2 };
                rule.window(WindowLoad { waiting, awake });
                prop_assert_eq!(rule.rests, rests);
            }
        }
    }
}
