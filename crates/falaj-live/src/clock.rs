//! The one clock: CLOCK_MONOTONIC, the same for every process of the machine.

use falaj_sched::time::{Span, Time};
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
    /// Zero is `monotonic` nanoseconds of CLOCK_MONOTONIC; before that it reads zero too.
    pub fn from_zero(monotonic: u64) -> Clock {
        Clock { zero: monotonic }
    }

    /// The instant now.
    #[inline]
    pub fn now(&self) -> Time {
        Time(monotonic().saturating_sub(self.zero))
    }

    /// An instant as CLOCK_MONOTONIC has it.
    pub fn monotonic_of(&self, t: Time) -> u64 {
        self.zero + t.0
    }

    /// How long until an instant; nothing if it has passed.
    pub fn until(&self, t: Time) -> Span {
        t.since(self.now())
    }
}

/// CPU time that this thread has used, in nanoseconds.
pub fn thread_cpu() -> u64 {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    used.tv_sec() as u64 * 1_000_000_000 + used.tv_nsec() as u64
}
