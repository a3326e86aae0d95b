//! Notifications to a service manager by the protocol of `sd_notify`. Without a service manager
//! they have no effect.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

fn tell(state: &[NotifyState<'_>]) {
    // Errors are ignored: a manager that does not listen is treated like no manager.
    let _ = sd_notify::notify(state);
}

/// Reports that the service is ready: everything is open, and packets are forwarded.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the service reads its file again. A call of [`ready`] must follow.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Reports that from now on the process `pid` is the service and sends further notifications.
pub(super) fn followed_by(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
}

/// Reports that the service ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Schedule of the keep-alive notifications: half the timeout of the service manager's watchdog,
/// and the time of the next notification.
pub(super) struct Watchdog {
    every: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    pub(super) fn new() -> Watchdog {
        // Notifications are sent at half the watchdog's timeout.
        Watchdog {
            every: sd_notify::watchdog_enabled().map(|within| within / 2),
            next: Instant::now(),
        }
    }

    /// Sends a notification if it is due. While a link runs, call it only after the link's thread
    /// has answered, so that no notification is sent if the link hangs. The supervisor calls it
    /// while no link runs.
    pub(super) fn is_alive(&mut self) {
        let Some(every) = self.every.filter(|_| Instant::now() >= self.next) else { return };
        tell(&[NotifyState::Watchdog]);
        self.next = Instant::now() + every;
    }

    /// The maximum interval between notifications.
    pub(super) fn at_most(&self) -> Option<Duration> {
        self.every
    }
}
