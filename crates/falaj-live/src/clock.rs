//! The clock: CLOCK_MONOTONIC, the same for every process of the machine.

use falaj_sched::units::time::{Span, Time};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// A clock that reads zero at a given instant.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: u64,
}

impl Clock {
    /// A clock whose zero is at `monotonic` nanoseconds of CLOCK_MONOTONIC; earlier instants read
    /// as zero too.
    pub fn from_zero(monotonic: u64) -> Clock {
        Clock { zero: monotonic }
    }

    /// The present instant.
    #[inline]
    pub fn now(&self) -> Time {
        Time(monotonic().saturating_sub(self.zero))
    }

    /// Converts an instant of this clock to nanoseconds of CLOCK_MONOTONIC.
    pub fn monotonic_of(&self, t: Time) -> u64 {
        self.zero + t.0
    }

    /// Time until an instant; zero if it has passed.
    pub fn until(&self, t: Time) -> Span {
        t.since(self.now())
    }
}

/// Returns true if the kernel runs in time-travel mode. Its clock then skips all waiting, and may
/// stand still during computation.
pub fn is_virtual() -> bool {
    std::fs::read_to_string("/proc/cmdline").is_ok_and(|line| {
        let mut words = line.split_whitespace();
        words.any(|word| word == "time-travel" || word.starts_with("time-travel="))
    })
}

/// Resource usage of the calling thread so far, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu: Span,
    /// Number of voluntary context switches: the thread went to sleep.
    pub slept: u64,
    /// Number of involuntary context switches: the thread was preempted.
    pub preempted: u64,
}

/// Resource usage of the calling thread so far.
pub fn thread_usage() -> Usage {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("every Linux has it");
    Usage {
        cpu: Span(thread_cpu()),
        slept: usage.voluntary_context_switches() as u64,
        preempted: usage.involuntary_context_switches() as u64,
    }
}

/// CPU time that this thread has used, in nanoseconds.
pub fn thread_cpu() -> u64 {
    used(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that all threads of this process have used together, in nanoseconds.
pub fn process_cpu() -> u64 {
    used(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

fn used(clock: ClockId) -> u64 {
    let used = clock_gettime(clock).expect("every Linux has it");
    used.tv_sec() as u64 * 1_000_000_000 + used.tv_nsec() as u64
}
