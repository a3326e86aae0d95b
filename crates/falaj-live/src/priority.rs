//! What the operating system may give a thread that must be on time.

use nix::libc;

/// Wakes this thread as close to its instants as the kernel can (it may be 50
/// us late by default), and, where that is allowed, before ordinary threads
/// (SCHED_FIFO, not inherited by children). Says whether it was allowed.
pub fn be_punctual() -> bool {
    // Nobody refuses a thread's own timer slack; where it fails, it stays as it was.
    let _ = nix::sys::prctl::set_timerslack(1);
    let param = libc::sched_param { sched_priority: 5 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads `param`, which outlives it, and concerns this thread alone.
    unsafe { libc::sched_setscheduler(0, policy, &param) == 0 }
}
