//! Wake-ups of a side: by the peer, by a timer, or by the end of the line (the socket to the peer).

use falaj_sched::units::time::Span;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sources of wake-ups.
const BY_PEER: u64 = 0;
const BY_LINE: u64 = 1;
const BY_ALARM: u64 = 2;

/// The waker of one side.
pub(crate) struct Waker {
    /// Readable when this side was woken, until the next wait.
    woken: OwnedFd,
    alarm: Alarm,
    /// Kept open, as `woken` polls it.
    _bell: OwnedFd,
    line: Option<OwnedFd>,
}

impl Waker {
    /// A waker for `bell`, an eventfd that is never read, and for the end of the line.
    pub(crate) fn new(bell: OwnedFd, line: Option<OwnedFd>) -> io::Result<Waker> {
        let woken = epoll::create(CreateFlags::CLOEXEC)?;
        // Edge-triggered: each wake-up counts once without being read, and costs one call.
        epoll::add(&woken, &bell, EventData::new_u64(BY_PEER), EventFlags::IN | EventFlags::ET)?;
        if let Some(line) = &line {
            // Reported once: when the end is known, no further wake-up for it is needed.
            epoll::add(
                &woken,
                line,
                EventData::new_u64(BY_LINE),
                EventFlags::IN | EventFlags::RDHUP | EventFlags::ET,
            )?;
        }
        let alarm = Alarm::new()?;
        epoll::add(&woken, &alarm, EventData::new_u64(BY_ALARM), EventFlags::IN | EventFlags::ET)?;
        Ok(Waker { woken, alarm, _bell: bell, line })
    }

    /// The line to the peer, if there is one.
    pub(crate) fn line(&self) -> Option<&OwnedFd> {
        self.line.as_ref()
    }

    /// Sets an additional wake-up at this instant, in nanoseconds of CLOCK_MONOTONIC, in place of
    /// an earlier one; `None`: no such wake-up.
    pub(crate) fn alarm(&mut self, at: Option<u64>) -> io::Result<()> {
        self.alarm.set(at)
    }

    /// Waits for a wake-up, for `timeout` at most; returns true if the line has ended.
    pub(crate) fn wait(&mut self, timeout: Option<Span>) -> io::Result<bool> {
        let timeout = timeout.map(|t| timespec(t.0));
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 3];
        match epoll::wait(&self.woken, &mut events, timeout.as_ref()) {
            Ok(n) => Ok(events[..n].iter().any(|event| {
                let ended = EventFlags::RDHUP | EventFlags::HUP;
                event.data.u64() == BY_LINE && { event.flags }.intersects(ended)
            })),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

/// A timer that is readable from an instant on.
pub(crate) struct Alarm {
    timer: OwnedFd,
    at: Option<u64>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        Ok(Alarm { timer, at: None })
    }

    /// Sets the instant, in nanoseconds of CLOCK_MONOTONIC; `None` stops the timer.
    pub(crate) fn set(&mut self, at: Option<u64>) -> io::Result<()> {
        if at == self.at {
            return Ok(());
        }
        self.at = at;
        // Zero would disarm the timer.
        let it_value = timespec(at.map_or(0, |at| at.max(1)));
        let new = Itimerspec { it_interval: timespec(0), it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &new)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// The time of a clock, in nanoseconds.
pub(crate) fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn timespec(nanos: u64) -> Timespec {
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
