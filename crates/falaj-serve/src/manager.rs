//! What a service manager is told, by the protocol of `sd_notify`; without one, nobody.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

fn tell(state: &[NotifyState<'_>]) {
    // A manager that does not listen is none.
    let _ = sd_notify::notify(state);
}

/// All is open, and packets pass.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The file is being read again; [`ready`] follows.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// From now on the service is that process, which tells the rest.
pub(super) fn followed_by(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// It ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells that it is alive, as often as the manager wants to hear that.
pub(super) struct Watchdog {
    every: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    pub(super) fn new() -> Watchdog {
        // In half of the time after which it would be held to hang.
        Watchdog {
            every: sd_notify::watchdog_enabled().map(|within| within / 2),
            next: Instant::now(),
        }
    }

    /// To be said after the link's thread has answered: a link that hangs says nothing.
    pub(super) fn is_alive(&mut self) {
        let Some(every) = self.every.filter(|_| Instant::now() >= self.next) else { return };
        tell(&[NotifyState::Watchdog]);
        self.next = Instant::now() + every;
    }

    /// How long it may be silent.
    pub(super) fn at_most(&self) -> Option<Duration> {
        self.every
    }
}
