//! The loop itself: what is due, what came, and how to wait for the next of either.

use super::adaptive_sleep;
use super::rx::Found;
use super::timer::Timer;
use super::{Forwarder, Overflow};
use crate::priority;
use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use std::io;
use std::os::fd::BorrowedFd;

/// How long `others` may have to wait under load.
const LOOK: Span = Span::from_millis(1);

/// Why the loop came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The instant was reached.
    Deadline,
    /// This one of the other descriptors is readable.
    Readable(usize),
    /// For the first time a queue was full, of this pipe and flow, and a packet was lost; see
    /// [`Forwarder::tell_of_overflow`].
    Overflow(PipeId, FlowId),
    /// For the first time there were more ids than a mask makes queues or links for, of this flow
    /// or of the link of this pipe; see [`Forwarder::tell_of_overflow`].
    Shared(PipeId, Option<FlowId>),
}

impl Forwarder {
    /// Forwards until `deadline`, or until one of `others` is readable.
    ///
    /// # Errors
    /// A port is gone, or the kernel refuses to wait. What goes wrong with one
    /// unit is counted and ends nothing.
    pub fn run(&mut self, deadline: Time, others: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.watch.set(self.ports.iter().map(|p| p.port.readable()).chain(others.iter().copied()));
        self.watch_others.set(others.iter().copied());
        let spins = self.options.timer == Timer::Spin;
        // Who allows no slack is never late for others' sake.
        let may_rest = self.options.timer == Timer::Hybrid && self.options.slack > Span::ZERO;
        let before_others = priority::is_before_others();
        // Nothing changes that before it comes back.
        let has_masks = self.tells_of_sharing && self.network.has_masks();
        let mut looked = Time::ZERO;
        let mut busy = false;
        // Had the ports their turn since the last hand-over?
        let mut had_turn = false;
        // Were they looked at since others were paid last? However late it wakes, that comes in
        // between.
        let mut may_pay = true;
        // Since when there has been nothing to do.
        let mut spinning: Option<Time> = None;
        // Which other descriptor is readable: told when what was due meanwhile is done, so that all
        // is counted.
        let mut heard = None;
        loop {
            let now = self.clock.now();
            if let Some(since) = spinning.take() {
                self.awake.spun += now.since(since);
            }
            if may_rest && self.rest.is_over(now) {
                self.rest.look(now);
                self.releases.allow(self.slack());
            }
            let sleeps = self.sleeps();
            self.network.poll(now, &mut self.out);
            self.note();
            if let Overflow::Happened(pipe, flow) = self.overflow {
                self.overflow = Overflow::No;
                return Ok(Woken::Overflow(pipe, flow));
            }
            if has_masks && let Some((pipe, of)) = self.sharing() {
                self.tells_of_sharing = false;
                return Ok(Woken::Shared(pipe, of));
            }
            let released = self.release(now)?;
            if let Some(i) = heard {
                return Ok(Woken::Readable(i));
            }
            let is_full = self.any_is_full();
            had_turn &= !released;
            if !released {
                spinning = Some(now);
            }
            if before_others && may_pay && !sleeps && self.owed.is_due(now) {
                let began = if released { self.clock.now() } else { now };
                let next = self.releases.next().min(self.network.next_due());
                if let Some(piece) = self.owed.pays(began, next, released) {
                    self.watch_others.wait(piece)?;
                    (spinning, may_pay) = (None, false);
                    heard = (0..others.len()).find(|&i| self.watch_others.is_readable(i));
                    if heard.is_none() {
                        self.owed.paid(began, self.clock.now());
                        self.awake.for_others += 1;
                    } else {
                        self.awake.by_caller += 1;
                    }
                    continue;
                }
            }
            if had_turn && !sleeps && self.releases.next().since(now) < self.near.span() {
                std::hint::spin_loop();
                continue;
            }
            if now >= deadline {
                return Ok(Woken::Deadline);
            }
            // Under load reading tells what is there, and is cheaper than asking first.
            if now.since(looked) > LOOK || !(busy || spins) || is_full {
                looked = now;
                if sleeps && !busy && !is_full && self.is_dense(now) {
                    if let Some(i) = self.gather(deadline)? {
                        heard = Some(i);
                        continue;
                    }
                    spinning = None;
                    busy = self.receive(true)? == Found::Part;
                    continue;
                }
                let wake = if busy || spins { now } else { self.wake() };
                // Who sleeps reads nothing sooner for a device that has no room.
                let reads = !(sleeps && is_full && self.is_dense(now));
                let wake = if reads { wake } else { wake.min(now + LOOK) };
                for i in 0..self.ports.len() {
                    self.watch.heed(i, reads && self.waiting[i].is_none(), self.room_is_awaited(i));
                }
                self.watch.wait(wake.min(deadline).since(now))?;
                if wake > now {
                    self.owed.slept(now, self.clock.now());
                    spinning = None;
                    self.note_what_woke(wake, deadline);
                }
                if is_full {
                    self.try_again()?;
                }
                let ports = self.ports.len();
                if let Some(i) = (0..others.len()).find(|i| self.watch.is_readable(ports + i)) {
                    heard = Some(i);
                    continue;
                }
            }
            let found = self.receive(busy || spins)?;
            // Who sleeps leaves what comes meanwhile for the next time.
            busy = found > if sleeps { Found::All } else { Found::Nothing };
            (had_turn, may_pay) = (true, true);
            if busy {
                spinning = None;
            }
        }
    }

    /// Does it sleep until what is due is late by the slack?
    pub(super) fn sleeps(&self) -> bool {
        self.options.timer == Timer::Sleep || self.rest.rests()
    }

    /// How much later than due packets may be handed over.
    pub(super) fn slack(&self) -> Span {
        if self.rest.rests() {
            self.options.slack.max(adaptive_sleep::SLACK)
        } else {
            self.options.slack
        }
    }

    /// Do packets come so close that waking for each does not pay?
    fn is_dense(&self, now: Time) -> bool {
        let close = self.slack() + self.slack();
        self.gap < close && now.since(self.read) < close
    }

    /// Lets what comes gather until the slack since it did so last is over.
    /// Says which other descriptor ended that, if one did.
    fn gather(&mut self, deadline: Time) -> io::Result<Option<usize>> {
        let until = (self.woke + self.slack()).max(self.nothing_until());
        let began = self.clock.now();
        let left = until.min(deadline).since(began);
        let mut heard = None;
        if left > Span::ZERO {
            self.watch_others.wait(left)?;
            heard = (0..self.watch_others.len()).find(|&i| self.watch_others.is_readable(i));
            let by_caller = heard.is_some() || deadline < until;
            *(if by_caller { &mut self.awake.by_caller } else { &mut self.awake.by_timer }) += 1;
        }
        self.woke = self.clock.now();
        self.owed.slept(began, self.woke);
        Ok(heard)
    }

    /// Before this nothing comes of what may have come, as devices pace all links, and have enough
    /// to send.
    fn nothing_until(&self) -> Time {
        let supplied = self.network.supplied_until();
        if supplied == Time::NEVER
            || self.ports.iter().any(|port| self.network.backlog(port.pipe).is_none())
        {
            return Time::ZERO;
        }
        supplied.min(self.network.next_event()).min(self.releases.next())
    }

    /// Counts what ended a sleep that was to end at `wake`, or at the caller's deadline.
    fn note_what_woke(&mut self, wake: Time, deadline: Time) {
        let readable = (0..self.watch.len()).find(|&i| self.watch.is_readable(i));
        let count = match readable {
            Some(i) if i < self.ports.len() => &mut self.awake.by_packet,
            None if (0..self.ports.len()).any(|i| self.watch.has_room(i)) => {
                &mut self.awake.by_room
            }
            None if wake <= deadline => {
                self.lead.woke(wake, self.clock.now());
                &mut self.awake.by_timer
            }
            _ => &mut self.awake.by_caller,
        };
        *count += 1;
    }

    /// When to be awake again if nothing arrives. Decisions wait until what they
    /// may decide is due.
    fn wake(&self) -> Time {
        if self.waiting.iter().any(Option::is_some) {
            // There may be room then.
            return self.network.next_event().min(self.releases.next()).min(self.next_try());
        }
        let due = self.releases.next().min(self.network.next_due());
        let wake = self.lead.wake(due, self.sleeps().then(|| self.slack()));
        // A device that is to be handed more has half of what it holds left: nobody spins for that.
        wake.min(self.network.next_refill()).min(self.next_try())
    }
}
