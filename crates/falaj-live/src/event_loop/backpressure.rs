//! Backpressure of ports whose devices pace a link: packets without room are kept in order, and the
//! engine decides on no further packet for such a port until the port has room.

use super::{Attached, Forwarder};
use falaj_engine::{ChangeError, PipeId};
use falaj_sched::units::time::{Span, Time};
use nix::libc::{EAGAIN, ENOBUFS, ENOMEM};
use std::collections::VecDeque;
use std::io;

/// Retry interval for a port that does not report when it has room: about the transmission time of
/// several packets on a fast link.
const AGAIN: Span = Span::from_micros(100);

/// Bursts for which a port had no room.
#[derive(Default)]
pub(super) struct RefusedBursts {
    /// Bursts that were decided before the port reported that it had no room: at most about as many
    /// as the device gets ahead of time.
    kept: VecDeque<u32>,
    /// Time of the next try; `None`: the port reports when it has room.
    again: Option<Time>,
}

/// Returns true if the error means that there is no room for a unit now, but may be later.
pub(super) fn is_wanting(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EAGAIN | ENOBUFS | ENOMEM))
}

impl Forwarder {
    /// Informs the ports whose devices begin or cease to pace a link.
    ///
    /// # Errors
    /// A device is to pace a link, but its port does not report when it has room; or the kernel's
    /// error.
    pub fn pace(&mut self) -> io::Result<()> {
        for to in 0..self.ports.len() {
            let from = self.ports.iter().filter(|port| port.leaves_at == to);
            let backlog = from.filter_map(|port| self.network.backlog(port.pipe)).max();
            let port = &mut self.ports[to].port;
            if backlog.is_some() && !port.says_room() {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("{}: {}", port.name(), ChangeError::Unpaced),
                ));
            }
            if backlog != self.backlogs[to] {
                port.pace(backlog)?;
                self.backlogs[to] = backlog;
            }
        }
        Ok(())
    }

    /// Checks that devices may pace these pipes.
    pub(super) fn may_be_paced(
        &self,
        mut pipes: impl Iterator<Item = PipeId>,
    ) -> Result<(), ChangeError> {
        let ruled = self.network.has_rules();
        let may = |pipe: PipeId| {
            let leads = |from: PipeId| if ruled { from.0 % 2 == pipe.0 % 2 } else { from == pipe };
            let mut ports = self.ports.iter().filter(|port| leads(port.pipe));
            ports.all(|port| self.ports[port.leaves_at].port.says_room())
        };
        if pipes.all(may) { Ok(()) } else { Err(ChangeError::Unpaced) }
    }

    /// Returns true if bursts are kept for this port.
    pub(super) fn is_full(&self, to: usize) -> bool {
        !self.full[to].kept.is_empty()
    }

    /// Returns true if bursts are kept for any port.
    pub(super) fn any_is_full(&self) -> bool {
        (0..self.full.len()).any(|to| self.is_full(to))
    }

    /// Returns true if bursts are kept for this port, and the port reports when it has room.
    pub(super) fn room_is_awaited(&self, to: usize) -> bool {
        self.is_full(to) && self.full[to].again.is_none()
    }

    /// Earliest time of the next try at a port that does not report when it has room.
    pub(super) fn next_try(&self) -> Time {
        self.full.iter().filter_map(|full| full.again).min().unwrap_or(Time::NEVER)
    }

    /// Keeps the bursts in `together`, which the port has refused, until the port has room.
    pub(super) fn keep(&mut self, to: usize) {
        let now = self.clock.now();
        for index in self.together.drain(..) {
            self.releases.refused(index, now);
            self.full[to].kept.push_back(index);
        }
    }

    /// Notes that a port had no room, for this reason, and reports it to the engine.
    pub(super) fn has_no_room(&mut self, to: usize, wanting: &io::Error) {
        let now = self.clock.now();
        self.awake.refused += 1;
        self.full[to].again = (wanting.raw_os_error() != Some(EAGAIN)).then(|| now + AGAIN);
        self.tell_room(to, 0, now);
    }

    fn tell_room(&mut self, to: usize, room: u32, now: Time) {
        for i in 0..self.ports.len() {
            let Attached { pipe, leaves_at, .. } = self.ports[i];
            if leaves_at == to {
                self.network.port_room(pipe, room, now, &mut self.out);
                if let Some(recorder) = &mut self.recorder {
                    recorder.room(pipe, room, now, self.arrived);
                }
            }
        }
        self.note();
    }

    /// Hands over the kept bursts to ports that may have room now.
    pub(super) fn try_again(&mut self) -> io::Result<()> {
        /// The port has room, but the amount is unknown. This value stands for enough room, until
        /// the port refuses again.
        const ROOM: u32 = u32::MAX;
        for to in 0..self.full.len() {
            let now = self.clock.now();
            let may =
                self.full[to].again.map_or_else(|| self.watch.has_room(to), |again| again <= now);
            if !self.is_full(to) || !may {
                continue;
            }
            self.full[to].again = None;
            while let Some(index) = self.full[to].kept.pop_front() {
                self.together.push(index);
                if let Some(wanting) = self.transmit()? {
                    self.together.clear();
                    self.full[to].kept.push_front(index);
                    self.full[to].again =
                        (wanting.raw_os_error() != Some(EAGAIN)).then(|| now + AGAIN);
                    break;
                }
            }
            if !self.is_full(to) {
                self.tell_room(to, ROOM, self.clock.now());
            }
        }
        Ok(())
    }
}
