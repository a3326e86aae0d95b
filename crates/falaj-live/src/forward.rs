//! The live loop: ports, the engine between them, and the release timer.
//!
//! Arrivals are stamped when they are read; all decisions are the engine's, at
//! nominal instants. What is due is handed over at its nominal instant or a
//! little later, never earlier. That lateness is the release error: recorded
//! for each packet, and never part of a decision.
//!
//! The timer is a hybrid: it sleeps until shortly before an instant and spins
//! for the rest, looking at the ports meanwhile, so that spinning for one
//! packet does not make another one late.

use crate::clock::Clock;
use crate::pool::Pool;
use crate::port::Port;
use falaj_engine::engine::Unit;
use falaj_engine::pipe::Counters;
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::queue::FlowId;
use falaj_sched::time::{Span, Time};
use falaj_traffic::meter::Meter;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::BorrowedFd;

/// Waking up takes up to about this long; the timer spins for it.
const SPIN: Span = Span::from_micros(60);
/// Units read from a port before what is due gets its turn.
const BATCH: usize = 32;
/// Memory for units on their way.
const MEMORY: usize = 1 << 30;

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
    /// How late they were handed over.
    pub release_error: Meter,
}

/// What was lost outside the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// No rule took them.
    pub unmatched: u64,
    /// The port at the far end did not take them.
    pub not_taken: u64,
    /// There was no memory for them.
    pub no_memory: u64,
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
    pool: Pool,
    /// The port that each handle came in at.
    origin: Vec<u32>,
    out: Vec<Output>,
    releases: BinaryHeap<Reverse<Release>>,
    sequence: u64,
    flows: Vec<Vec<LiveFlow>>,
    losses: Losses,
}

impl Forwarder {
    /// `flows` says how many flows each pipe of the engine has.
    pub fn new(clock: Clock, engine: Engine, flows: &[usize], ports: Vec<Attached>) -> Forwarder {
        let size = ports.iter().map(|p| p.port.longest()).max().unwrap_or(1);
        Forwarder {
            clock,
            engine,
            ports,
            pool: Pool::new(size, MEMORY),
            origin: Vec::new(),
            out: Vec::new(),
            releases: BinaryHeap::new(),
            sequence: 0,
            flows: flows.iter().map(|&n| vec![LiveFlow::default(); n]).collect(),
            losses: Losses::default(),
        }
    }

    /// Forwards until `deadline`, or until one of `others` is readable.
    pub fn run(&mut self, deadline: Time, others: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        let mut looked = Time::ZERO;
        loop {
            let now = self.clock.now();
            self.engine.poll(now, &mut self.out);
            self.note();
            self.release()?;
            let busy = self.receive()?;
            if now >= deadline {
                return Ok(Woken::Deadline);
            }
            // Under load the ports themselves say when to look; others are asked now and then.
            if busy && now.since(looked) < Span::from_millis(1) {
                continue;
            }
            looked = now;
            if let Some(i) = self.wait(busy, deadline, others)? {
                return Ok(Woken::Readable(i));
            }
        }
    }

    /// Reads what is there, a batch from each port.
    fn receive(&mut self) -> io::Result<bool> {
        let mut busy = false;
        for i in 0..self.ports.len() {
            for _ in 0..BATCH {
                let Some(handle) = self.pool.take() else {
                    self.losses.no_memory += 1;
                    // Read it all the same, or it would wake us for ever.
                    let mut nowhere = vec![0; self.ports[i].port.longest()];
                    self.ports[i].port.receive(&mut nowhere)?;
                    break;
                };
                let Attached { port, pipe, .. } = &mut self.ports[i];
                let Some(received) = port.receive(self.pool.whole(handle))? else {
                    self.pool.release(handle);
                    break;
                };
                busy = true;
                let Some(flow) = received.flow else {
                    self.losses.unmatched += 1;
                    self.pool.release(handle);
                    continue;
                };
                self.pool.keep(handle, received.length);
                if self.origin.len() <= handle as usize {
                    self.origin.resize(handle as usize + 1, 0);
                }
                self.origin[handle as usize] = i as u32;
                let unit = Unit { flow, handle, bytes: received.bytes };
                self.engine.input(*pipe, unit, self.clock.now(), &mut self.out);
                self.note();
            }
        }
        Ok(busy)
    }

    /// Takes note of what the engine decided.
    fn note(&mut self) {
        for output in self.out.drain(..) {
            match output {
                Output::Emit(emit) => {
                    self.sequence += 1;
                    self.releases.push(Reverse(Release {
                        due: emit.due,
                        sequence: self.sequence,
                        handle: emit.handle,
                        pipe: emit.pipe.0,
                        flow: emit.flow.0,
                        nominal: emit.end - emit.arrival,
                    }));
                }
                Output::Drop(dropped) => self.pool.release(dropped.handle),
            }
        }
    }

    /// Hands over what is due.
    fn release(&mut self) -> io::Result<()> {
        while let Some(&Reverse(next)) = self.releases.peek() {
            if next.due > self.clock.now() {
                return Ok(());
            }
            self.releases.pop();
            let to = self.ports[self.origin[next.handle as usize] as usize].leaves_at;
            let taken = self.ports[to].port.transmit(self.pool.unit(next.handle))?;
            self.pool.release(next.handle);
            if taken {
                let flow = &mut self.flows[next.pipe as usize][next.flow as usize];
                flow.delay.record(next.nominal);
                flow.release_error.record(self.clock.now().since(next.due));
            } else {
                self.losses.not_taken += 1;
            }
        }
        Ok(())
    }

    /// Sleeps until something may be to do; returns which of `others` is readable.
    fn wait(&mut self, busy: bool, deadline: Time, others: &[BorrowedFd<'_>]) -> io::Result<Option<usize>> {
        let due = self.releases.peek().map_or(Time::NEVER, |r| r.0.due);
        let sleep = if busy {
            Span::ZERO
        } else {
            let until_due = self.clock.until(due).saturating_sub(SPIN);
            until_due.min(self.clock.until(self.engine.next_event())).min(self.clock.until(deadline))
        };
        let ports = self.ports.iter().map(|p| p.port.readable());
        let mut fds: Vec<PollFd<'_>> =
            others.iter().copied().chain(ports).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let timeout = TimeSpec::new((sleep.0 / 1_000_000_000) as i64, (sleep.0 % 1_000_000_000) as i64);
        match ppoll(&mut fds, Some(timeout), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok((0..others.len()).find(|&i| fds[i].any() == Some(true)))
    }

    /// What was measured so far, by pipe and flow.
    pub fn flows(&self) -> Vec<Vec<LiveFlow>> {
        let mut flows = self.flows.clone();
        for (p, pipe) in flows.iter_mut().enumerate() {
            for (f, flow) in pipe.iter_mut().enumerate() {
                flow.counters = *self.engine.counters(PipeId(p as u32), FlowId(f as u32));
            }
        }
        flows
    }

    /// The engine's counters of one flow so far.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        *self.engine.counters(pipe, flow)
    }

    /// What was lost outside the engine.
    pub fn losses(&self) -> Losses {
        self.losses
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
