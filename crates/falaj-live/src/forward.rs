//! The live loop: ports, the engine between them, and the release timer.
//!
//! Arrivals are stamped when they have been read; all decisions are the
//! engine's, at nominal instants. What is due is handed over at its nominal
//! instant or a little later, never earlier. That lateness is the release
//! error: the instant at which the port is called, less the nominal one. It is
//! recorded for each packet and never part of a decision. How long the port
//! then takes (the kernel delivers within the call) is part of the delay that
//! the receiver sees.
//!
//! The timer is a hybrid. It sleeps until `SPIN` before an instant, looks at
//! the ports without sleeping until `NEAR` before it, and from there on looks
//! at nothing but the clock, because a packet read then would make the one that
//! is due late. In between hand-overs each port gets a turn all the same, or a
//! link with a packet always near would never read.

use crate::clock::Clock;
use crate::poll::Watch;
use crate::pool::Pool;
use crate::port::Port;
use falaj_engine::engine::Unit;
use falaj_engine::pipe::Counters;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::queue::FlowId;
use falaj_sched::time::{Span, Time};
use falaj_traffic::meter::Meter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::BorrowedFd;

/// Waking up takes up to about this long; the timer spins for it.
const SPIN: Span = Span::from_micros(60);
/// Looking at the ports and reading one unit takes up to about this long.
const NEAR: Span = Span::from_micros(4);
/// How long `others` may have to wait under load.
const LOOK: Span = Span::from_millis(1);
/// Memory for units on their way.
const MEMORY: usize = 1 << 30;

/// What the engine takes as a unit's length.
const LONGEST: u32 = (1 << 31) - 1;

/// Is this the end of a port, and not of one unit?
fn is_gone(error: &io::Error) -> bool {
    use nix::libc::{EBADF, EBADFD, ENODEV};
    matches!(error.raw_os_error(), Some(EBADF | EBADFD | ENODEV))
}

fn gone(port: &dyn Port, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{} is gone ({error})", port.name()))
}

/// A port, the pipe that its units enter and the port at which they leave.
pub struct Attached {
    /// The port.
    pub port: Box<dyn Port>,
    /// Where its units go in.
    pub pipe: PipeId,
    /// The port, by its index, where they come out.
    pub leaves_at: usize,
}

/// What was measured of a flow.
#[derive(Clone, Debug, Default)]
pub struct LiveFlow {
    /// What the engine counted.
    pub counters: Counters,
    /// Nominal delay of packets that were handed over: last bit in to last bit out.
    pub delay: Meter,
    /// How late they were handed over: the call of the port, less the nominal instant.
    pub release_error: Meter,
}

/// What was lost outside the engine, the link's fault or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// No rule took them.
    pub unmatched: u64,
    /// The port at the far end did not take them: no room, interface down, or
    /// not a frame that the kernel accepts.
    pub not_taken: u64,
    /// The port could not make sense of them.
    pub unreadable: u64,
    /// There was no memory for them.
    pub no_memory: u64,
    /// Nobody read them in time at the entrance. Who holds the sandbox knows
    /// ([`Sandbox::unread`](crate::sandbox::Sandbox::unread)); the forwarder does not.
    pub unread: u64,
    /// They came to a receiver that did not read them in time; the receiver knows.
    pub overflowed: u64,
}

impl Losses {
    /// How many for which reason, to be read after "packets".
    pub fn by_reason(&self) -> [(u64, &'static str); 6] {
        [
            (self.unmatched, "matched no rule"),
            (self.not_taken, "were not taken by the far end"),
            (self.unreadable, "could not be read"),
            (self.no_memory, "found no memory"),
            (self.unread, "were not read in time at the entrance"),
            (self.overflowed, "were not read in time by the receiver"),
        ]
    }
}

/// What woke the loop, and what it did awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awake {
    /// Sleeps that ended because something was due soon.
    pub by_timer: u64,
    /// Sleeps that ended because there was a packet, be it at once.
    pub by_packet: u64,
    /// Sleeps that ended for whoever called: a deadline, another descriptor.
    pub by_caller: u64,
    /// Time awake with nothing to do but to look at ports and clock.
    pub spun: Span,
}

/// Why the loop came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The instant was reached.
    Deadline,
    /// This one of the other descriptors is readable.
    Readable(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    due: Time,
    sequence: u64,
    handle: u32,
    pipe: u32,
    flow: u32,
    nominal: Span,
}

/// Engine, ports and what is on its way between them.
pub struct Forwarder {
    clock: Clock,
    engine: Engine,
    ports: Vec<Attached>,
    watch: Watch,
    pool: Pool,
    /// The port that each handle came in at.
    origin: Vec<u32>,
    out: Vec<Output>,
    releases: BinaryHeap<Reverse<Release>>,
    sequence: u64,
    flows: Vec<Vec<LiveFlow>>,
    losses: Losses,
    awake: Awake,
}

impl Forwarder {
    /// `flows` says how many flows each pipe of the engine has.
    pub fn new(clock: Clock, engine: Engine, flows: &[usize], ports: Vec<Attached>) -> Forwarder {
        Forwarder::with_memory(clock, engine, flows, ports, MEMORY)
    }

    /// The same with at most so many bytes of memory for units on their way,
    /// instead of 1 GiB.
    pub fn with_memory(
        clock: Clock,
        engine: Engine,
        flows: &[usize],
        ports: Vec<Attached>,
        memory: usize,
    ) -> Forwarder {
        let size = ports.iter().map(|p| p.port.longest()).max().unwrap_or(1);
        Forwarder {
            clock,
            engine,
            ports,
            watch: Watch::default(),
            pool: Pool::new(size, memory),
            origin: Vec::new(),
            out: Vec::new(),
            releases: BinaryHeap::new(),
            sequence: 0,
            flows: flows.iter().map(|&n| vec![LiveFlow::default(); n]).collect(),
            losses: Losses::default(),
            awake: Awake::default(),
        }
    }

    /// Forwards until `deadline`, or until one of `others` is readable.
    ///
    /// # Errors
    /// A port is gone, or the kernel refuses to wait. What goes wrong with one
    /// unit is counted and ends nothing.
    pub fn run(&mut self, deadline: Time, others: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.watch.set(self.ports.iter().map(|p| p.port.readable()).chain(others.iter().copied()));
        let mut looked = Time::ZERO;
        let mut busy = false;
        // Had the ports their turn since the last hand-over?
        let mut had_turn = false;
        // Since when there has been nothing to do.
        let mut spinning: Option<Time> = None;
        loop {
            let now = self.clock.now();
            if let Some(since) = spinning.take() {
                self.awake.spun += now.since(since);
            }
            self.engine.poll(now, &mut self.out);
            self.note();
            let released = self.release(now)?;
            had_turn &= !released;
            if !released {
                spinning = Some(now);
            }
            if had_turn && self.next_due().since(now) < NEAR {
                std::hint::spin_loop();
                continue;
            }
            if now >= deadline {
                return Ok(Woken::Deadline);
            }
            // Under load reading tells what is there, and is cheaper than asking first.
            if !busy || now.since(looked) > LOOK {
                let wake = self.wake();
                let sleep = if busy { Span::ZERO } else { wake.min(deadline).since(now) };
                self.watch.look(sleep)?;
                looked = now;
                if sleep > Span::ZERO {
                    spinning = None;
                    self.note_what_woke(wake <= deadline);
                }
                if let Some(i) = (0..others.len()).find(|i| self.watch.is_readable(self.ports.len() + i)) {
                    return Ok(Woken::Readable(i));
                }
            }
            busy = self.receive(busy)?;
            had_turn = true;
            if busy {
                spinning = None;
            }
        }
    }

    /// Counts what ended a sleep that was to end for what is due, or for the caller's deadline.
    fn note_what_woke(&mut self, for_what_is_due: bool) {
        let ports = self.ports.len();
        let readable = (0..self.watch.len()).find(|&i| self.watch.is_readable(i));
        let count = match readable {
            Some(i) if i < ports => &mut self.awake.by_packet,
            None if for_what_is_due => &mut self.awake.by_timer,
            _ => &mut self.awake.by_caller,
        };
        *count += 1;
    }

    /// When the next unit is to be handed over.
    fn next_due(&self) -> Time {
        self.releases.peek().map_or(Time::NEVER, |r| r.0.due)
    }

    /// When to be awake again if nothing arrives. Decisions wait until what they
    /// may decide is due.
    fn wake(&self) -> Time {
        let due = self.next_due().min(self.engine.next_due());
        Time(due.0.saturating_sub(SPIN.0))
    }

    /// Reads a unit from each port, or from those seen readable; says whether there was one.
    fn receive(&mut self, all: bool) -> io::Result<bool> {
        let mut busy = false;
        for i in 0..self.ports.len() {
            if all || self.watch.is_readable(i) {
                busy |= self.receive_from(i)?;
            }
        }
        Ok(busy)
    }

    fn receive_from(&mut self, i: usize) -> io::Result<bool> {
        let Attached { port, pipe, .. } = &mut self.ports[i];
        // Without memory it is read all the same, or it would wake us for ever.
        let received = match port.receive(self.pool.buffer()) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(false),
            Err(e) if is_gone(&e) => return Err(gone(port.as_ref(), &e)),
            Err(_) => {
                self.losses.unreadable += 1;
                return Ok(true);
            }
        };
        let Some(flow) = received.flow else {
            self.losses.unmatched += 1;
            return Ok(true);
        };
        let Some(handle) = self.pool.keep(received.length) else {
            self.losses.no_memory += 1;
            return Ok(true);
        };
        if self.origin.len() <= handle as usize {
            self.origin.resize(handle as usize + 1, 0);
        }
        self.origin[handle as usize] = i as u32;
        let unit = Unit { flow, handle, bytes: received.bytes.clamp(1, LONGEST) };
        self.engine.input(*pipe, unit, self.clock.now(), &mut self.out);
        self.note();
        Ok(true)
    }

    /// Takes note of what the engine decided.
    fn note(&mut self) {
        for output in self.out.drain(..) {
            match output {
                Output::Emit(emit) | Output::Copy(emit) => {
                    let mut handle = emit.handle;
                    if matches!(output, Output::Copy(_)) {
                        let Some(copy) = self.pool.copy(handle) else {
                            self.losses.no_memory += 1;
                            continue;
                        };
                        self.origin.resize(self.origin.len().max(copy as usize + 1), 0);
                        self.origin[copy as usize] = self.origin[handle as usize];
                        handle = copy;
                    }
                    self.sequence += 1;
                    self.releases.push(Reverse(Release {
                        due: emit.due,
                        sequence: self.sequence,
                        handle,
                        pipe: emit.pipe.0,
                        flow: emit.flow.0,
                        nominal: emit.end - emit.arrival,
                    }));
                }
                Output::Drop(dropped) => self.pool.release(dropped.handle),
                Output::Corrupt(corrupt) => {
                    let port = &self.ports[self.origin[corrupt.handle as usize] as usize].port;
                    port.corrupt(self.pool.unit_mut(corrupt.handle), &corrupt);
                }
            }
        }
    }

    /// Hands over what was due by `now`; says whether there was anything.
    fn release(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        while let Some(&Reverse(next)) = self.releases.peek()
            && next.due <= now
        {
            self.releases.pop();
            any = true;
            let to = self.ports[self.origin[next.handle as usize] as usize].leaves_at;
            let port = &mut self.ports[to].port;
            let handed_over = self.clock.now();
            let taken = match port.transmit(self.pool.unit(next.handle)) {
                Err(e) if is_gone(&e) => return Err(gone(port.as_ref(), &e)),
                taken => taken.unwrap_or(false),
            };
            self.pool.release(next.handle);
            if taken {
                let flow = &mut self.flows[next.pipe as usize][next.flow as usize];
                flow.delay.record(next.nominal);
                flow.release_error.record(handed_over.since(next.due));
            } else {
                self.losses.not_taken += 1;
            }
        }
        Ok(any)
    }

    /// What was measured so far, by pipe and flow.
    pub fn flows(&self) -> Vec<Vec<LiveFlow>> {
        let mut flows = self.flows.clone();
        for (p, pipe) in flows.iter_mut().enumerate() {
            for (f, flow) in pipe.iter_mut().enumerate() {
                flow.counters = self.engine.counters(PipeId(p as u32), FlowId(f as u32));
            }
        }
        flows
    }

    /// The engine's counters of one flow so far.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.engine.counters(pipe, flow)
    }

    /// What was lost outside the engine.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// What woke the loop so far, and what it did awake.
    pub fn awake(&self) -> Awake {
        self.awake
    }

    /// Anything left on its way?
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.engine.next_event() == Time::NEVER
    }

    /// The forwarder's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}
