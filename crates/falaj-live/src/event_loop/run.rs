//! The loop itself: it delivers due packets, reads arrived units, and waits for either.

use super::adaptive_sleep;
use super::recorder::Recorder;
use super::rx::ReadOutcome;
use super::timer::Timer;
use super::{Forwarder, Overflow};
use crate::priority;
use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use std::io;
use std::os::fd::BorrowedFd;

/// Longest time under load between two polls of the descriptors that are not ports.
const LOOK: Span = Span::from_millis(1);

/// Lead of the exact timer: it wakes this long before an instant, and then reads the clock until
/// the instant. On a clock that advances when it is read, these are a few reads.
const EXACT_LEAD: Span = Span(1_536);

/// The reason why the loop returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The deadline was reached.
    Deadline,
    /// The descriptor of this index among the others is readable.
    Readable(usize),
    /// A queue of this pipe and flow was full for the first time, and a packet was lost; see
    /// [`Forwarder::tell_of_overflow`].
    Overflow(PipeId, FlowId),
    /// Ids have to share queues or links for the first time: the mask has reached its maximum, or
    /// memory is short; see [`Forwarder::tell_of_overflow`].
    Shared {
        /// The pipe with the mask.
        pipe: PipeId,
        /// The flow; `None` for the link's mask.
        flow: Option<FlowId>,
        /// True if memory is short.
        short: bool,
    },
}

/// State from the last poll of the ports and the other descriptors, for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopState {
    /// The ports had no more units: the loop may sleep until one of them has.
    Idle,
    /// The ports may have more units: they are read without asking the kernel first.
    Busy,
    /// The descriptor of this index among the others is readable. Before the loop returns, it
    /// delivers all that is due by then, so that everything is counted.
    Ending(usize),
}

/// The next action, when everything due is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopAction {
    /// Yield the processor to other threads, from this instant on for this time.
    Yield(Time, Span),
    /// Read the clock again: a packet is due so soon that reading a port would make it late.
    Spin,
    /// Return: the deadline is reached.
    Return,
    /// Sleep while packets gather, then read all of them.
    Gather,
    /// Ask the kernel which ports and other descriptors are ready, sleeping if there is time, then
    /// read.
    Poll,
    /// Read the ports.
    Read,
}

/// One call of [`Forwarder::run`].
struct LoopRun<'a> {
    forwarder: &'a mut Forwarder,
    deadline: Time,
    /// Number of the other descriptors.
    others: usize,
    /// True if the timer never sleeps.
    spins: bool,
    /// True if the clock is a guest's virtual clock: waking up takes no time, and no time is owed
    /// to other threads.
    is_exact: bool,
    /// True if the timer may sleep to let other threads run. With a slack of zero it does not.
    may_rest: bool,
    /// True if this thread has real-time priority, and owes time to other threads.
    before_others: bool,
    /// True if masks may run out of queues and the caller wants to be notified. It does not change
    /// while the loop runs, because no change of the link is made in that time.
    has_masks: bool,
    state: LoopState,
    /// Time at which the kernel was last asked for ready descriptors.
    polled: Time,
    /// True if the ports were read since the last hand-over.
    read_since_release: bool,
    /// True if the ports were read since the processor was last yielded. If not, the processor is
    /// not yielded again: the loop reads after each yield, however late the thread wakes.
    read_since_yield: bool,
    /// Instant since which there has been nothing to do; `None` if there is something to do.
    idle_since: Option<Time>,
}

impl Forwarder {
    /// Forwards until `deadline`, or until one of `others` is readable.
    ///
    /// # Errors
    /// A port is gone, or the kernel refuses to wait. An error of a single unit is counted and does
    /// not end the loop.
    pub fn run(&mut self, deadline: Time, others: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.watch.set(self.ports.iter().map(|p| p.port.readable()).chain(others.iter().copied()));
        self.watch_others.set(others.iter().copied());
        let mut run = LoopRun::new(self, deadline, others.len());
        loop {
            if let Some(woken) = run.round()? {
                return Ok(woken);
            }
        }
    }
}

impl LoopRun<'_> {
    fn new(forwarder: &mut Forwarder, deadline: Time, others: usize) -> LoopRun<'_> {
        let options = forwarder.options;
        LoopRun {
            spins: options.timer == Timer::Spin,
            may_rest: options.timer == Timer::Hybrid && options.slack > Span::ZERO,
            is_exact: options.timer == Timer::Exact,
            before_others: options.timer != Timer::Exact && priority::is_before_others(),
            has_masks: forwarder.tells_of_sharing && forwarder.network.has_masks(),
            forwarder,
            deadline,
            others,
            state: LoopState::Idle,
            polled: Time::ZERO,
            read_since_release: false,
            read_since_yield: true,
            idle_since: None,
        }
    }

    /// Delivers what is due and does one [`LoopAction`]; returns the reason to return, if there is
    /// one.
    #[inline]
    fn round(&mut self) -> io::Result<Option<Woken>> {
        let now = self.begin();
        let sleeps = self.forwarder.sleeps();
        if let Some(news) = self.decide(now) {
            return Ok(Some(news));
        }
        let released = self.forwarder.release(now)?;
        if let LoopState::Ending(readable) = self.state {
            return Ok(Some(Woken::Readable(readable)));
        }
        self.read_since_release &= !released;
        if !released {
            self.idle_since = Some(now);
        }
        let is_full = self.forwarder.any_is_full();
        match self.next_action(now, released, sleeps, is_full) {
            LoopAction::Yield(began, piece) => self.yield_processor(began, piece)?,
            LoopAction::Spin => std::hint::spin_loop(),
            LoopAction::Return => return Ok(Some(Woken::Deadline)),
            LoopAction::Gather => self.gather(now)?,
            LoopAction::Poll => {
                self.poll(now, sleeps, is_full)?;
                if !matches!(self.state, LoopState::Ending(_)) {
                    self.read(sleeps)?;
                }
            }
            LoopAction::Read => self.read(sleeps)?,
        }
        Ok(None)
    }

    /// Returns the instant of this round. Counts the idle time of the previous round, and decides
    /// if the hybrid timer sleeps from now on.
    fn begin(&mut self) -> Time {
        let forwarder = &mut *self.forwarder;
        let now = forwarder.clock.now();
        if let Some(since) = self.idle_since.take() {
            forwarder.awake.spun += now.since(since);
        }
        if let Some(recorder) = &mut forwarder.recorder {
            recorder.flush(now);
        }
        if self.may_rest && forwarder.adaptive_sleep.is_over(now) {
            forwarder.adaptive_sleep.look(now);
            forwarder.releases.allow(forwarder.slack());
        }
        now
    }

    /// Lets the engine make all decisions due by now. Returns the news for the caller, if any.
    fn decide(&mut self, now: Time) -> Option<Woken> {
        let forwarder = &mut *self.forwarder;
        forwarder.network.poll(now, &mut forwarder.out);
        forwarder.note();
        if let Overflow::Happened(pipe, flow) = forwarder.overflow {
            forwarder.overflow = Overflow::No;
            return Some(Woken::Overflow(pipe, flow));
        }
        if self.has_masks
            && let Some((pipe, flow)) = forwarder.sharing()
        {
            forwarder.tells_of_sharing = false;
            let short = forwarder.network.is_short_of_memory();
            return Some(Woken::Shared { pipe, flow, short });
        }
        None
    }

    fn next_action(&self, now: Time, released: bool, sleeps: bool, is_full: bool) -> LoopAction {
        let forwarder = &*self.forwarder;
        if self.before_others && self.read_since_yield && !sleeps && forwarder.rt_yield.is_due(now)
        {
            let began = if released { forwarder.clock.now() } else { now };
            let next = forwarder.releases.next().min(forwarder.network.next_due());
            if let Some(piece) = forwarder.rt_yield.time_to_sleep(began, next, released) {
                return LoopAction::Yield(began, piece);
            }
        }
        let next = forwarder.releases.next();
        let quiet = if self.is_exact { EXACT_LEAD } else { forwarder.quiet_window.span() };
        if self.read_since_release && !sleeps && next.since(now) < quiet {
            return LoopAction::Spin;
        }
        if now >= self.deadline {
            return LoopAction::Return;
        }
        // Under load, reading a port at once is cheaper than asking the kernel first if it is
        // readable.
        if now.since(self.polled) <= LOOK && self.reads_at_once() && !is_full {
            return LoopAction::Read;
        }
        let gathers =
            sleeps && self.state == LoopState::Idle && !is_full && forwarder.is_dense(now);
        if gathers { LoopAction::Gather } else { LoopAction::Poll }
    }

    /// Returns true if the ports are read without asking the kernel first.
    fn reads_at_once(&self) -> bool {
        self.spins || self.state == LoopState::Busy
    }

    /// Sleeps to let other threads run.
    fn yield_processor(&mut self, began: Time, piece: Span) -> io::Result<()> {
        let forwarder = &mut *self.forwarder;
        forwarder.watch_others.wait(piece)?;
        (self.idle_since, self.read_since_yield) = (None, false);
        match forwarder.watch_others.first_readable(0..self.others) {
            Some(readable) => {
                self.state = LoopState::Ending(readable);
                forwarder.awake.by_caller += 1;
            }
            None => {
                forwarder.rt_yield.yielded(began, forwarder.clock.now());
                forwarder.awake.for_others += 1;
            }
        }
        Ok(())
    }

    /// Sleeps while packets gather, then reads all of them.
    fn gather(&mut self, now: Time) -> io::Result<()> {
        self.polled = now;
        if let Some(readable) = self.forwarder.gather(self.deadline)? {
            self.state = LoopState::Ending(readable);
            return Ok(());
        }
        self.idle_since = None;
        let found = self.forwarder.receive(true)?;
        self.state = if found == ReadOutcome::Part { LoopState::Busy } else { LoopState::Idle };
        Ok(())
    }

    /// Asks the kernel which descriptors are ready, and sleeps until one is or a packet is due, if
    /// there is time.
    fn poll(&mut self, now: Time, sleeps: bool, is_full: bool) -> io::Result<()> {
        self.polled = now;
        let at_once = self.reads_at_once();
        let forwarder = &mut *self.forwarder;
        let wake = if at_once { now } else { forwarder.wake() };
        // A sleeping loop gains nothing by reading early for a device that has no room.
        let reads = !(sleeps && is_full && forwarder.is_dense(now));
        let wake = if reads { wake } else { wake.min(now + LOOK) };
        for i in 0..forwarder.ports.len() {
            let reading = reads && forwarder.waiting[i].is_none();
            forwarder.watch.set_interest(i, reading, forwarder.room_is_awaited(i));
        }
        let flush = forwarder.recorder.as_mut().map_or(Time::NEVER, Recorder::next_flush);
        let until = wake.min(self.deadline);
        forwarder.watch.wait(until.min(flush).since(now))?;
        let all = forwarder.watch.len();
        if flush < until && forwarder.watch.first_readable(0..all).is_none() {
            // The loop was awake for the capture only.
            self.idle_since = None;
        } else if wake > now {
            if self.before_others {
                forwarder.rt_yield.slept(now, forwarder.clock.now());
            }
            self.idle_since = None;
            forwarder.note_what_woke(wake, self.deadline);
        }
        if is_full {
            forwarder.try_again()?;
        }
        let ports = forwarder.ports.len();
        if let Some(readable) = forwarder.watch.first_readable(ports..ports + self.others) {
            self.state = LoopState::Ending(readable - ports);
        }
        Ok(())
    }

    /// Reads the ports.
    fn read(&mut self, sleeps: bool) -> io::Result<()> {
        let found = self.forwarder.receive(self.reads_at_once())?;
        // A sleeping loop reads later arrivals after its next sleep.
        let enough = if sleeps { ReadOutcome::All } else { ReadOutcome::Nothing };
        (self.read_since_release, self.read_since_yield) = (true, true);
        self.state = if found > enough { LoopState::Busy } else { LoopState::Idle };
        if self.state == LoopState::Busy {
            self.idle_since = None;
        }
        Ok(())
    }
}

impl Forwarder {
    /// Returns true if the loop sleeps until due packets are late by the slack.
    pub(super) fn sleeps(&self) -> bool {
        self.options.timer == Timer::Sleep || self.adaptive_sleep.rests()
    }

    /// Longest time by which packets may be delivered later than due.
    pub(super) fn slack(&self) -> Span {
        if self.adaptive_sleep.rests() {
            self.options.slack.max(adaptive_sleep::SLACK)
        } else {
            self.options.slack
        }
    }

    /// Returns true if packets arrive so close together that waking for each does not pay.
    fn is_dense(&self, now: Time) -> bool {
        let close = self.slack() + self.slack();
        self.gap < close && now.since(self.read) < close
    }

    /// Sleeps, while packets gather, until the slack has passed since the end of the last such
    /// sleep, or longer if devices have enough packets. Returns the other descriptor that ended the
    /// sleep, if one did.
    fn gather(&mut self, deadline: Time) -> io::Result<Option<usize>> {
        let until = (self.woke + self.slack()).max(self.nothing_until());
        let began = self.clock.now();
        let left = until.min(deadline).since(began);
        let mut heard = None;
        if left > Span::ZERO {
            self.watch_others.wait(left)?;
            heard = self.watch_others.first_readable(0..self.watch_others.len());
            let by_caller = heard.is_some() || deadline < until;
            *(if by_caller { &mut self.awake.by_caller } else { &mut self.awake.by_timer }) += 1;
        }
        self.woke = self.clock.now();
        self.rt_yield.slept(began, self.woke);
        Ok(heard)
    }

    /// Instant before which arriving packets cause no delivery, because devices pace all links and
    /// have enough packets.
    fn nothing_until(&self) -> Time {
        let supplied = self.network.supplied_until();
        if supplied == Time::NEVER
            || self.ports.iter().any(|port| self.network.backlog(port.pipe).is_none())
        {
            return Time::ZERO;
        }
        supplied.min(self.network.next_event()).min(self.releases.next())
    }

    /// Counts a sleep by the cause that ended it; without another cause it ended at `wake` or at
    /// the caller's `deadline`, whichever is first.
    fn note_what_woke(&mut self, wake: Time, deadline: Time) {
        let readable = self.watch.first_readable(0..self.watch.len());
        let count = match readable {
            Some(i) if i < self.ports.len() => &mut self.awake.by_packet,
            None if (0..self.ports.len()).any(|i| self.watch.has_room(i)) => {
                &mut self.awake.by_room
            }
            None if wake <= deadline => {
                if self.options.timer != Timer::Exact {
                    self.wake_lead.woke(wake, self.clock.now());
                }
                &mut self.awake.by_timer
            }
            _ => &mut self.awake.by_caller,
        };
        *count += 1;
    }

    /// Instant at which to wake if nothing arrives. Scheduling decisions need not be made at once,
    /// but before the first packet that they could choose is due.
    fn wake(&self) -> Time {
        if self.waiting.iter().any(Option::is_some) {
            // At these instants a queue may have room again.
            return self.network.next_event().min(self.releases.next()).min(self.next_try());
        }
        let due = self.releases.next().min(self.network.next_due());
        let wake = match self.options.timer {
            Timer::Exact => Time(due.0.saturating_sub(EXACT_LEAD.0)),
            _ => self.wake_lead.wake(due, self.sleeps().then(|| self.slack())),
        };
        // A device that needs more packets still has half of its backlog, so a late wake-up does no
        // harm and needs no spinning.
        wake.min(self.network.next_refill()).min(self.next_try())
    }
}
