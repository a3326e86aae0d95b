//! Priorities and other settings for threads that must be on time.
#![allow(unsafe_code)]

use falaj_sched::units::time::Span;
use nix::libc;
use nix::sched::CpuSet;
use nix::unistd::Pid;

/// The rank of a thread that must be on time. The link has the highest rank: a late receiver only
/// records its own packets too late, but a late link delays the packets of all flows. A late sender
/// sends bursts that its source did not intend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Sends datagrams, or changes a link, at planned instants.
    Sender,
    /// Records the arrival times of packets.
    Receiver,
    /// Delivers packets that others wait for.
    Link,
}

/// Returns true if this thread has the real-time policy SCHED_FIFO, and so runs before ordinary
/// threads.
pub(crate) fn is_before_others() -> bool {
    // SAFETY: the call has no preconditions and concerns this thread alone.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO
}

/// Processor time that is reserved for other threads: a part of each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtReserve {
    /// The part.
    pub part: Span,
    /// The period.
    pub of: Span,
}

/// The time that the kernel reserves for other threads on a processor whose SCHED_FIFO threads
/// never sleep: it throttles those threads. `None` if the configuration reserves nothing. Linux
/// 6.12 or later, built without groups of real-time threads, throttles SCHED_FIFO threads only
/// while other threads wait. The settings in `/sys/kernel/debug/sched/fair_server` then apply; by
/// default they reserve the same time.
pub fn kept_for_others() -> Option<RtReserve> {
    let read = |name| {
        std::fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    kept(read("runtime"), read("period"))
}

/// The reserve that follows from the configured time `runtime`, in microseconds, for which
/// SCHED_FIFO threads may run in each `period`. Unknown values count as the kernel's defaults; with
/// a `runtime` of 0 or -1 no thread is throttled.
fn kept(runtime: Option<i64>, period: Option<i64>) -> Option<RtReserve> {
    let micros = |us: i64| Span::from_micros(us.max(0).unsigned_abs());
    let (runtime, period) = (runtime.unwrap_or(950_000), period.unwrap_or(1_000_000));
    (1..period)
        .contains(&runtime)
        .then(|| RtReserve { part: micros(period - runtime), of: micros(period) })
}

/// Locks the pages of this process's memory once they are used, because a page fault delays all
/// packets behind it. If that is not allowed, nothing happens.
fn stay_in_memory() {
    use nix::sys::mman::{MlockAllFlags, mlockall};
    use nix::sys::resource::{Resource, setrlimit};
    // With a finite limit, the process would get no memory beyond it.
    if setrlimit(Resource::RLIMIT_MEMLOCK, nix::libc::RLIM_INFINITY, nix::libc::RLIM_INFINITY)
        .is_ok()
    {
        let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
        let _ = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault);
    }
}

/// Processors that this thread may use.
pub fn processors() -> Vec<usize> {
    let may = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|&cpu| may.is_set(cpu).unwrap_or(false)).collect()
}

/// Number of processors of this machine; zero if unknown.
pub(crate) fn online() -> usize {
    let ranges = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    // A list such as 0-3,6.
    let of = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.trim().parse::<usize>().ok()?.checked_sub(first.trim().parse().ok()?)? + 1)
    };
    ranges.split(',').filter_map(of).sum()
}

/// Pins this thread to a processor. If that fails, the kernel places it.
pub fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        let _ = nix::sched::sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Makes this thread wake up as close to its instants as the kernel can; by default it may be 50 us
/// late. If allowed, the thread also runs before ordinary threads (SCHED_FIFO, not inherited by
/// children), and a link's memory is locked. Returns true if SCHED_FIFO was set.
pub fn be_punctual(rank: Rank) -> bool {
    if rank == Rank::Link {
        stay_in_memory();
    }
    // A thread may always set its own timer slack; if that fails, the slack stays as it was.
    let _ = nix::sys::prctl::set_timerslack(1);
    let sched_priority = match rank {
        Rank::Sender => 4,
        Rank::Receiver => 5,
        Rank::Link => 6,
    };
    let param = libc::sched_param { sched_priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads `param`, which outlives it, and concerns this thread alone.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy and the priority of this thread, as the kernel writes them.
    fn class() -> (i32, i32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The third field begins after the name, which may hold anything; the priority is the
        // fortieth.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[41 - 3].parse().unwrap(), fields[40 - 3].parse().unwrap())
    }

    #[test]
    fn what_is_kept_for_others_is_what_the_owner_has_set() {
        let share =
            |part, of| Some(RtReserve { part: Span::from_micros(part), of: Span::from_micros(of) });
        for (runtime, period, expected) in [
            (Some(950_000), Some(1_000_000), share(50_000, 1_000_000)),
            (Some(990_000), Some(1_000_000), share(10_000, 1_000_000)),
            (Some(1), Some(100), share(99, 100)),
            (Some(0), Some(1_000_000), None),
            (Some(-1), Some(1_000_000), None),
            (Some(1_000_000), Some(1_000_000), None),
            (None, None, share(50_000, 1_000_000)),
        ] {
            assert_eq!(kept(runtime, period), expected, "{runtime:?} {period:?}");
        }
    }

    #[test]
    fn a_thread_has_the_class_that_it_is_said_to_have() {
        assert!(!is_before_others());
        for (rank, number) in [(Rank::Sender, 4), (Rank::Receiver, 5)] {
            let (allowed, before, class) = std::thread::spawn(move || {
                let allowed = be_punctual(rank);
                (allowed, is_before_others(), class())
            })
            .join()
            .unwrap();
            assert_eq!(before, allowed);
            assert_eq!(
                class,
                if allowed { (libc::SCHED_FIFO, number) } else { (libc::SCHED_OTHER, 0) }
            );
        }
        // Other threads do not have it.
        assert_eq!(class(), (libc::SCHED_OTHER, 0));
    }
}
