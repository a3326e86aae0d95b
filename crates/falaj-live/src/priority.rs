//! What the operating system may give a thread that must be on time.

use nix::libc;

/// Who is to be on time. The link comes first: a receiver that is late makes
/// its own stamps late, a link that is late makes everybody's. A sender that is
/// late sends bursts that its source never meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Sends at instants of its own.
    Sender,
    /// Stamps what arrives.
    Receiver,
    /// Hands over what others wait for.
    Link,
}

/// Wakes this thread as close to its instants as the kernel can (it may be 50
/// us late by default), and, where that is allowed, before ordinary threads
/// (SCHED_FIFO, not inherited by children). Says whether it was allowed.
pub fn be_punctual(rank: Rank) -> bool {
    // Nobody refuses a thread's own timer slack; where it fails, it stays as it was.
    let _ = nix::sys::prctl::set_timerslack(1);
    let sched_priority = match rank {
        Rank::Sender => 4,
        Rank::Receiver => 5,
        Rank::Link => 6,
    };
    let param = libc::sched_param { sched_priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call reads `param`, which outlives it, and concerns this thread alone.
    unsafe { libc::sched_setscheduler(0, policy, &param) == 0 }
}
