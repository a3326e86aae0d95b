//! Run delay: the time for which the link's thread was ready to run but waited for a processor, as
//! the kernel counts it.

use falaj_sched::units::time::{Span, Time};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Minimum time between two readings of the kernel's count, because each is a system call. During a
/// shorter stall only few packets gather.
const LOOK: Span = Span::from_millis(1);

/// Time for which the thread was ready and did not run, between two readings of the kernel's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stall {
    /// Time of the second reading.
    pub(super) seen: Time,
    pub(super) span: Span,
}

pub(super) struct RunDelay {
    /// `None` if the kernel does not count run delay, or the file cannot be read.
    schedstat: Option<File>,
    last: Stall,
    waited: Span,
}

impl RunDelay {
    /// Observes the calling thread.
    pub(super) fn new() -> RunDelay {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut delay = RunDelay { schedstat, last: Stall::default(), waited: Span::ZERO };
        delay.waited = delay.waited().unwrap_or(Span::ZERO);
        delay
    }

    /// The last observed stall; reads the count again now if that is due.
    #[inline]
    pub(super) fn stall(&mut self, now: Time) -> Stall {
        if now.since(self.last.seen) >= LOOK {
            self.look(now);
        }
        self.last
    }

    #[cold]
    fn look(&mut self, now: Time) {
        let waited = self.waited().unwrap_or(self.waited);
        self.last = Stall { seen: now, span: waited - self.waited };
        self.waited = waited;
    }

    /// Total waiting time so far: the second number of the file.
    fn waited(&self) -> Option<Span> {
        let mut line = [0; 96];
        let length = self.schedstat.as_ref()?.read_at(&mut line, 0).ok()?;
        std::str::from_utf8(&line[..length]).ok()?.split(' ').nth(1)?.parse().ok().map(Span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_each_millisecond() {
        let mut delay = RunDelay::new();
        let before = delay.waited;
        assert_eq!(delay.stall(Time(999_999)), Stall::default());
        let stall = delay.stall(Time(1_000_000));
        assert_eq!(stall, Stall { seen: Time(1_000_000), span: delay.waited - before });
        assert_eq!(delay.stall(Time(1_999_999)), stall);
    }
}
