//! Memory of the queues and links that masks create. While the process is at its limit, no more are
//! created, and further ids share queues or links.
//!
//! The memory of a queue or a link differs by discipline and by its backlog. A table of sizes could
//! be wrong, so the kernel's count for the whole process is used.

use falaj_sched::units::time::{Span, Time};
use nix::unistd::{SysconfVar, sysconf};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Time between two checks; the links created in that time take less than a megabyte.
const LOOK: Span = Span::from_micros(250);

pub(super) struct MaskMemory {
    /// The process's memory in pages, as the kernel counts it. If it cannot be read (`None`), there
    /// is no limit.
    statm: Option<File>,
    /// Limit of the process in pages.
    most: u64,
    next: Time,
}

impl MaskMemory {
    /// A limit of `most` bytes for the process.
    pub(super) fn new(most: usize) -> MaskMemory {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4_096).unsigned_abs();
        let statm = File::open("/proc/self/statm").ok();
        MaskMemory { statm, most: most as u64 / page, next: Time::ZERO }
    }

    /// Returns true if a check is due, and schedules the next one.
    #[inline]
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + LOOK;
        }
        due
    }

    /// Returns true if the process has reached its limit.
    pub(super) fn is_short(&self) -> bool {
        self.resident().is_some_and(|pages| pages >= self.most)
    }

    /// Resident memory of the process, in pages: the second number of the file.
    fn resident(&self) -> Option<u64> {
        let mut line = [0; 128];
        let length = self.statm.as_ref()?.read_at(&mut line, 0).ok()?;
        std::str::from_utf8(&line[..length]).ok()?.split(' ').nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_now_and_then() {
        let mut memory = MaskMemory::new(1 << 40);
        assert!(memory.resident().is_some_and(|pages| pages > 100));
        assert!(!memory.is_short() && MaskMemory::new(1 << 16).is_short());
        let due = [0, 1, 249_999, 250_000, 260_000, 500_000].map(|at| memory.is_due(Time(at)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
