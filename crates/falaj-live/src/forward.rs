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
//! How it waits is the [`Timer`]'s matter. Spinning and hybrid it looks at
//! nothing but the clock from `NEAR` before an instant, because a packet read
//! then would make the one that is due late. In between hand-overs each port
//! gets a turn all the same, or a link with a packet always near would never
//! read. A turn is so much time of the processor and not so many packets: a
//! storm of tiny ones at one port takes nothing from the others.

mod change;
mod contract;
mod figures;
mod snapshot;
mod turns;

pub use change::Changed;
pub use contract::{Cause, Kept, Late, REMEMBERED, Terms};
pub use figures::{Awake, LiveFlow, Losses};
pub use snapshot::{Counted, Snapshot};
pub use turns::Turn;

use crate::clock::Clock;
use crate::poll::Watch;
use crate::port::{self, Port, Received, is_gone};
use crate::priority;
use crate::record::Recorder;
use crate::release::Releases;
use crate::tap::Tap;
use crate::timer::{Lead, Timer};
use crate::units::{Packet, Units};
use contract::Contracts;
use falaj_engine::ecn;
use falaj_engine::engine::Corrupt;
use falaj_engine::key::Key;
use falaj_engine::network::{self, Entry, Network, Refused};
use falaj_engine::{Output, PipeId, Why};
use falaj_sched::label::{Ecn, Label};
use falaj_sched::queue::FlowId;
use falaj_sched::time::{Span, Time};
use falaj_traffic::capture::{self, Verdict};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use turns::Turns;

/// Looking at the ports and reading one unit takes up to about this long.
const NEAR: Span = Span::from_micros(4);
/// How long `others` may have to wait under load.
const LOOK: Span = Span::from_millis(1);
/// A thread before all others that never sleeps is stopped by the kernel for the twentieth part of a second in each
/// second, so that the others get something too. It leaves them as much in small pieces instead: one for so long awake,
/// when nothing is due before it is over, or at last in twice that time.
const AWAKE: Span = Span::from_millis(1);
const REST: Span = Span::from_micros(50);
/// What a port's turn takes of the processor, if it has so much to read.
const TURN: Span = Span::from_micros(20);

fn gone(port: &dyn Port, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{} is gone ({error})", port.name()))
}

/// A port, the pipe that its units enter and the port at which they leave.
pub struct Attached {
    /// The port.
    pub port: Box<dyn Port>,
    /// Where its units go in; where there are rules, its direction alone counts.
    pub pipe: PipeId,
    /// The port, by its index, where they come out.
    pub leaves_at: usize,
}

/// How the loop goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How it waits.
    pub timer: Timer,
    /// How much later than due a packet may be handed over so that others of its
    /// unit leave with it, or, sleeping, so that there are fewer wake-ups.
    pub slack: Span,
    /// What becomes of a packet that finds its queue full.
    pub when_full: WhenFull,
    /// Memory for units on their way, in bytes.
    pub memory: usize,
}

/// What becomes of a packet that finds its queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is lost, as in a router.
    #[default]
    Drop,
    /// It waits at its port, and whatever comes behind it there, as behind an interface that is full.
    Wait,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            timer: Timer::default(),
            slack: Span::from_micros(20),
            when_full: WhenFull::default(),
            memory: 1 << 30,
        }
    }
}

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
    /// For the first time there were more ids than a mask makes queues or links for, of this flow or of the link of this
    /// pipe; see [`Forwarder::tell_of_overflow`].
    Shared(PipeId, Option<FlowId>),
}

/// Is it told that a queue was full?
#[derive(Clone, Copy)]
enum Overflow {
    No,
    Wanted,
    Happened(PipeId, FlowId),
}

/// A unit of which not all packets have got into their queue yet.
#[derive(Clone, Copy)]
struct Waiting {
    unit: u32,
    received: Received,
    key: Key,
    /// The packet that is next.
    next: u32,
    /// Where that one enters, if it was asked.
    entry: Option<Entry>,
}

/// Engine, ports and what is on its way between them.
pub struct Forwarder {
    clock: Clock,
    network: Network,
    ports: Vec<Attached>,
    options: Options,
    lead: Lead,
    /// When a rest was over last.
    woke: Time,
    /// When the last unit was read, and how long after the one before.
    read: Time,
    gap: Span,
    watch: Watch,
    /// Only what is none of the ports.
    watch_others: Watch,
    units: Units,
    /// By port, what waits there for room.
    waiting: Vec<Option<Waiting>>,
    /// Where a part of a unit is made.
    cut: Vec<u8>,
    out: Vec<Output>,
    /// Packets that have entered the engine.
    arrived: u64,
    recorder: Option<Recorder>,
    /// While that is there: the ECN bits that packets had before they were marked, by handle.
    marked: BTreeMap<u32, Ecn>,
    releases: Releases,
    /// The pipes that it tells of, as those who ask number them.
    order: Vec<PipeId>,
    /// By pipe.
    flows: Vec<Vec<LiveFlow>>,
    /// By pipe, of flows that are gone.
    gone: Vec<LiveFlow>,
    /// By pipe and flow, when a unit came last.
    active: Vec<Vec<Time>>,
    losses: Losses,
    overflow: Overflow,
    /// It is to be told that ids have to share.
    tells_of_sharing: bool,
    awake: Awake,
    /// How late the latest hand-over was since that was asked last.
    latest: Span,
    contracts: Contracts,
    turns: Turns,
}

impl Forwarder {
    /// The pipes that the network has carry what comes in at these ports.
    pub fn new(clock: Clock, network: impl Into<Network>, ports: Vec<Attached>, options: Options) -> Forwarder {
        let network = network.into();
        let flows = network.flows();
        let fresh = LiveFlow::among(flows.iter().sum());
        let size = ports.iter().map(|p| p.port.longest()).max().unwrap_or(1);
        Forwarder {
            clock,
            order: (0..flows.len() as u32).map(PipeId).collect(),
            flows: flows.iter().map(|&n| vec![fresh.clone(); n]).collect(),
            network,
            waiting: vec![None; ports.len()],
            ports,
            options,
            lead: Lead::new(),
            woke: Time::ZERO,
            read: Time::ZERO,
            gap: Span::from_secs(1),
            watch: Watch::default(),
            watch_others: Watch::default(),
            units: Units::new(size, options.memory),
            cut: Vec::new(),
            out: Vec::new(),
            arrived: 0,
            recorder: None,
            marked: BTreeMap::new(),
            releases: Releases::new(options.slack),
            gone: vec![LiveFlow::default(); flows.len()],
            active: flows.iter().map(|&n| vec![Time::NEVER; n]).collect(),
            losses: Losses::default(),
            overflow: Overflow::No,
            tells_of_sharing: false,
            awake: Awake::default(),
            latest: Span::ZERO,
            contracts: Contracts::default(),
            turns: Turns::default(),
        }
    }

    /// From now on, what enters and what becomes of it is written there.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// From now on it comes back when a queue is full, once, and when ids of a mask have to share, once.
    pub fn tell_of_overflow(&mut self) {
        self.overflow = Overflow::Wanted;
        self.tells_of_sharing = true;
    }

    /// The first mask whose ids have to share, as those who ask number pipes.
    fn sharing(&self) -> Option<(PipeId, Option<FlowId>)> {
        let mut pipes = self.order.iter().enumerate();
        pipes.find_map(|(n, &pipe)| Some((PipeId(n as u32), self.network.shares(pipe)?)))
    }

    /// Gives the recorder back, when it has noted what is still queued.
    pub fn stop_recording(&mut self) -> Option<Recorder> {
        let mut recorder = self.recorder.take()?;
        for (handle, packet) in self.units.undecided() {
            let before = Before { turned: &[], ecn: self.marked.remove(&handle) };
            let rules = self.network.has_rules();
            record(&mut recorder, &self.units, packet, Verdict::Waiting, (rules, before), &mut self.cut);
        }
        Some(recorder)
    }

    /// Forwards until `deadline`, or until one of `others` is readable.
    ///
    /// # Errors
    /// A port is gone, or the kernel refuses to wait. What goes wrong with one
    /// unit is counted and ends nothing.
    pub fn run(&mut self, deadline: Time, others: &[BorrowedFd<'_>]) -> io::Result<Woken> {
        self.watch.set(self.ports.iter().map(|p| p.port.readable()).chain(others.iter().copied()));
        self.watch_others.set(others.iter().copied());
        let spins = self.options.timer == Timer::Spin;
        let sleeps = self.options.timer == Timer::Sleep;
        let before_others = priority::is_before_others();
        // Nothing changes that before it comes back.
        let has_masks = self.tells_of_sharing && self.network.has_masks();
        let mut slept = self.clock.now();
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
            had_turn &= !released;
            if !released {
                spinning = Some(now);
            }
            if before_others && !sleeps && now.since(slept) >= AWAKE {
                let rest = self.releases.next().since(now) > REST || now.since(slept) >= AWAKE + AWAKE;
                if rest {
                    self.watch_others.look(REST)?;
                    slept = self.clock.now();
                    spinning = None;
                    if let Some(i) = (0..others.len()).find(|&i| self.watch_others.is_readable(i)) {
                        return Ok(Woken::Readable(i));
                    }
                    continue;
                }
            }
            if had_turn && !sleeps && self.releases.next().since(now) < NEAR {
                std::hint::spin_loop();
                continue;
            }
            if now >= deadline {
                return Ok(Woken::Deadline);
            }
            // Under load reading tells what is there, and is cheaper than asking first.
            if now.since(looked) > LOOK || !(busy || spins) {
                looked = now;
                if sleeps && !busy && self.is_dense(now) {
                    if let Some(i) = self.rest(deadline)? {
                        return Ok(Woken::Readable(i));
                    }
                    spinning = None;
                    busy = self.receive(true)?;
                    continue;
                }
                let wake = if busy || spins { now } else { self.wake() };
                self.waiting.iter().enumerate().for_each(|(i, waiting)| self.watch.heed(i, waiting.is_none()));
                self.watch.look(wake.min(deadline).since(now))?;
                if wake > now {
                    slept = self.clock.now();
                    spinning = None;
                    self.note_what_woke(wake, deadline);
                }
                let ports = self.ports.len();
                if let Some(i) = (0..others.len()).find(|i| self.watch.is_readable(ports + i)) {
                    return Ok(Woken::Readable(i));
                }
            }
            busy = self.receive(busy || spins)?;
            had_turn = true;
            if busy {
                spinning = None;
            }
        }
    }

    /// Do packets come so close that waking for each does not pay?
    fn is_dense(&self, now: Time) -> bool {
        let close = self.options.slack + self.options.slack;
        self.gap < close && now.since(self.read) < close
    }

    /// Leaves what comes alone until the slack since the last rest is over.
    /// Says which other descriptor ended that, if one did.
    fn rest(&mut self, deadline: Time) -> io::Result<Option<usize>> {
        let rest = (self.woke + self.options.slack).min(deadline).since(self.clock.now());
        if rest > Span::ZERO {
            self.watch_others.look(rest)?;
            self.awake.by_timer += 1;
        }
        self.woke = self.clock.now();
        Ok((0..self.watch_others.len()).find(|&i| rest > Span::ZERO && self.watch_others.is_readable(i)))
    }

    /// Counts what ended a sleep that was to end at `wake`, or at the caller's deadline.
    fn note_what_woke(&mut self, wake: Time, deadline: Time) {
        let readable = (0..self.watch.len()).find(|&i| self.watch.is_readable(i));
        let count = match readable {
            Some(i) if i < self.ports.len() => &mut self.awake.by_packet,
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
            return self.network.next_event().min(self.releases.next());
        }
        let due = self.releases.next().min(self.network.next_due());
        match self.options.timer {
            Timer::Spin | Timer::Hybrid => self.lead.before(due),
            Timer::Sleep => Time(due.0.saturating_add(self.options.slack.0)),
        }
    }

    /// A turn for each port, or for those seen readable; says whether one had something.
    fn receive(&mut self, all: bool) -> io::Result<bool> {
        let mut busy = false;
        for i in 0..self.ports.len() {
            if all || self.watch.is_readable(i) || self.waiting[i].is_some() {
                busy |= self.turn(i)?;
            }
        }
        Ok(busy)
    }

    /// Reads from a port until it has nothing more, its turn is over or something
    /// else is due soon; says whether there was anything.
    fn turn(&mut self, i: usize) -> io::Result<bool> {
        if let Some(waiting) = self.waiting[i].take() {
            self.admit(i, waiting, self.clock.now());
            if self.waiting[i].is_some() {
                return Ok(false);
            }
        }
        let mut over = Time::NEVER;
        while let Some(now) = self.receive_from(i)? {
            if over == Time::NEVER {
                over = now + TURN;
            }
            if now >= over || self.waiting[i].is_some() || self.releases.next().since(now) < NEAR {
                return Ok(true);
            }
        }
        Ok(over != Time::NEVER)
    }

    /// Reads a unit, if there is one, and says when.
    fn receive_from(&mut self, i: usize) -> io::Result<Option<Time>> {
        let port = &mut self.ports[i].port;
        // Without memory it is read all the same, or it would wake us for ever.
        let received = port.receive(self.units.buffer());
        let now = self.clock.now();
        let received = match received {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(None),
            Err(e) if is_gone(&e) => return Err(gone(port.as_ref(), &e)),
            Err(_) => {
                self.losses.unreadable += 1;
                return Ok(Some(now));
            }
        };
        (self.read, self.gap) = (now, now.since(self.read));
        let packets = received.packets();
        let wanted = received.flow.is_none() && self.network.wants_key(self.ports[i].pipe.0 as usize);
        let key = if wanted { self.ports[i].port.key(&self.units.buffer()[..received.length]) } else { Key::default() };
        let Some(unit) = self.units.keep(received.length, i, received.train) else {
            self.losses.no_memory += u64::from(packets);
            self.ports[i].port.dropped(&self.units.buffer()[..received.length]);
            return Ok(Some(now));
        };
        self.admit(i, Waiting { unit, received, key, next: 0, entry: None }, now);
        Ok(Some(now))
    }

    /// The packets of a unit go to their queue, one behind the other, or wait for room.
    fn admit(&mut self, i: usize, mut arriving: Waiting, now: Time) {
        let Waiting { unit, received, key, .. } = arriving;
        let packets = received.packets();
        let label = if self.network.heeds_labels() { ecn::label(&key) } else { Label::default() };
        while arriving.next < packets {
            let length = if arriving.next + 1 == packets { received.last } else { received.bytes };
            let entry = match arriving.entry.take().map_or_else(|| self.entry(i, &arriving, length, now), Ok) {
                Ok(entry) => entry,
                Err(why) => {
                    if self.network.has_rules() {
                        self.not_let_in(&arriving, length, why, now);
                    }
                    arriving.next += 1;
                    self.losses.unmatched += u64::from(why == Refused::Unmatched);
                    self.units.refused(unit);
                    self.releases.dropped(unit, &self.units);
                    lose(&mut self.units, &mut self.ports, unit);
                    continue;
                }
            };
            if self.options.when_full == WhenFull::Wait {
                self.network.poll(now, &mut self.out);
                // Where nothing will ever make room the queue is too small for it.
                let ever = self.network.next_event() != Time::NEVER;
                if ever && !self.network.has_room(&entry, &key, length) {
                    self.waiting[i] = Some(Waiting { entry: Some(entry), ..arriving });
                    break;
                }
            }
            let (flow, bytes) = (entry.flow, self.network.bytes(entry.pipe, length));
            self.active[entry.pipe.0 as usize][flow.index()] = now;
            let packet = Packet { unit, index: arriving.next, number: self.arrived, arrival: now, flow, bytes };
            self.hold(entry.pipe, &packet);
            let handle = self.units.packet(packet);
            arriving.next += 1;
            self.arrived += 1;
            self.network.enter(entry, &key, network::Packet { handle, length, label }, now, &mut self.out);
            if !self.network.has_rules() {
                arriving.entry = Some(entry);
            }
        }
        self.note();
    }

    /// Where a packet enters: without rules, all of its unit.
    fn entry(&mut self, i: usize, arriving: &Waiting, length: u32, now: Time) -> Result<Entry, Refused> {
        let pipe = self.ports[i].pipe;
        match arriving.received.flow {
            Some(flow) => Ok(self.network.straight(pipe, flow)),
            None => self.network.route(&arriving.key, pipe.0 as usize, length, now),
        }
    }

    /// What rules do not let in is written down as well: chance goes by how many were asked.
    fn not_let_in(&mut self, arriving: &Waiting, bytes: u32, why: Refused, arrival: Time) {
        let Waiting { unit, next: index, .. } = *arriving;
        let packet = Packet { unit, index, number: self.arrived, arrival, flow: FlowId(0), bytes };
        self.arrived += 1;
        if let Some(recorder) = &mut self.recorder {
            let verdict = Verdict::Dropped(match why {
                Refused::Dropped => Why::Rule,
                Refused::Unmatched => Why::Unmatched,
            });
            record(recorder, &self.units, packet, verdict, (true, Before::default()), &mut self.cut);
        }
    }

    /// Takes note of what the engine decided.
    fn note(&mut self) {
        let rules = self.network.has_rules();
        // Bits that were turned of the packet that comes next.
        let mut turned: Vec<Corrupt> = Vec::new();
        for output in self.out.drain(..) {
            match output {
                Output::Emit(emit) => {
                    self.contracts.emitted(&emit);
                    self.turns.emitted(&emit);
                    let packet = self.units.decided(emit.handle);
                    self.releases.emitted(packet, &emit);
                    if let Some(recorder) = &mut self.recorder {
                        let verdict = Verdict::Sent { start: emit.start, end: emit.end, due: emit.due };
                        let before = Before { turned: &turned, ecn: self.marked.remove(&emit.handle) };
                        record(recorder, &self.units, packet, verdict, (rules, before), &mut self.cut);
                    }
                    turned.clear();
                }
                Output::Copy(emit) => match self.units.copy(emit.handle, &mut self.cut) {
                    Some(packet) => self.releases.emitted(packet, &emit),
                    None => self.losses.no_memory += 1,
                },
                Output::Drop(dropped) => {
                    if matches!(self.overflow, Overflow::Wanted) && dropped.why == Why::QueueFull {
                        let called = self.order.iter().position(|pipe| *pipe == dropped.pipe);
                        self.overflow = called
                            .map_or(Overflow::Wanted, |pipe| Overflow::Happened(PipeId(pipe as u32), dropped.flow));
                    }
                    let packet = self.units.decided(dropped.handle);
                    self.releases.dropped(packet.unit, &self.units);
                    if let Some(recorder) = &mut self.recorder {
                        let verdict = Verdict::Dropped(dropped.why);
                        let before = Before { turned: &[], ecn: self.marked.remove(&dropped.handle) };
                        record(recorder, &self.units, packet, verdict, (rules, before), &mut self.cut);
                    }
                    lose(&mut self.units, &mut self.ports, packet.unit);
                }
                Output::Corrupt(corrupt) => {
                    // A bit of this packet alone.
                    let Some(unit) = self.units.separate(corrupt.handle, &mut self.cut) else {
                        self.losses.no_memory += 1;
                        continue;
                    };
                    self.releases.dropped(unit, &self.units);
                    let (port, bytes) = self.units.bytes_of(corrupt.handle);
                    self.ports[port].port.corrupt(bytes, &corrupt);
                    if self.recorder.is_some() {
                        turned.push(corrupt);
                    }
                }
                Output::Mark(mark) => {
                    let Some(unit) = self.units.separate(mark.handle, &mut self.cut) else {
                        self.losses.no_memory += 1;
                        continue;
                    };
                    self.releases.dropped(unit, &self.units);
                    let (port, bytes) = self.units.bytes_of(mark.handle);
                    if self.recorder.is_some() {
                        let frame = bytes.get(Tap::VNET_HEADER..).unwrap_or_default();
                        self.marked.entry(mark.handle).or_insert_with(|| ecn::of_ethernet(frame));
                    }
                    self.ports[port].port.mark(bytes, mark.ecn);
                }
                // Of use within, where another link follows.
                Output::Early(_) => {}
            }
        }
        for emit in self.network.passed() {
            self.flows[emit.pipe.0 as usize][emit.flow.index()].delay.record(emit.end - emit.arrival);
        }
    }

    /// Hands over what was due by `now`; says whether there was anything.
    fn release(&mut self, now: Time) -> io::Result<bool> {
        let mut any = false;
        let network = &self.network;
        while let Some(index) =
            self.releases.due(now, &self.units, |burst| network.soonest(PipeId(burst.pipe), burst.bytes, now))
        {
            any = true;
            let burst = self.releases.burst(index);
            let to = self.ports[self.units.port(burst.unit)].leaves_at;
            let port = &mut self.ports[to].port;
            let unit = self.units.part(burst.unit, burst.from, burst.to(), &mut self.cut);
            let handed_over = self.clock.now();
            let taken = match port.transmit(unit) {
                Err(e) if is_gone(&e) => return Err(gone(port.as_ref(), &e)),
                taken => taken.unwrap_or(false),
            };
            let packets = burst.packets.len() as u32;
            if taken {
                let flow = &mut self.flows[burst.pipe as usize][burst.flow as usize];
                let late = handed_over.since(burst.at);
                flow.release_error.record_n(late, packets.into());
                self.latest = self.latest.max(late);
                if let Some(before) = flow.last_late.replace(late) {
                    flow.gap_error.record(Span(late.0.abs_diff(before.0)));
                }
                for alike in burst.packets.chunk_by(|a, b| a == b) {
                    let times = alike.len() as u64;
                    flow.delay.record_n(alike[0].delay, times);
                    flow.held.record_n(burst.at.since(alike[0].due), times);
                    let whose = (PipeId(burst.pipe), FlowId(burst.flow));
                    // Packets that were held for others of their unit are late by that too.
                    let late = handed_over.since(alike[0].due);
                    self.contracts.handed_over(whose, alike[0].delay, late, times, handed_over);
                }
            } else {
                self.losses.not_taken += u64::from(packets);
            }
            self.units.gone(burst.unit, packets);
            self.releases.done(index);
        }
        Ok(any)
    }

    /// Anything left on its way?
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.network.next_event() == Time::NEVER
    }

    /// The forwarder's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// A packet of a unit is no more; where it was all of it, its port hears of that.
fn lose(units: &mut Units, ports: &mut [Attached], unit: u32) {
    if let Some((port, bytes)) = units.single(unit) {
        ports[port].port.dropped(bytes);
    }
    units.gone(unit, 1);
}

/// What a packet was like when it came.
#[derive(Default)]
struct Before<'a> {
    /// Bits that were turned.
    turned: &'a [Corrupt],
    /// Its ECN bits, where it was marked.
    ecn: Option<Ecn>,
}

/// Writes down what became of a packet of an Ethernet port, as it came in: before these bits of it were turned, and before it
/// was marked. Where there are rules, with what they ask about it.
fn record(
    recorder: &mut Recorder,
    units: &Units,
    packet: Packet,
    verdict: Verdict,
    (rules, Before { turned, ecn }): (bool, Before<'_>),
    cut: &mut Vec<u8>,
) {
    let Packet { unit, index, number, arrival, flow, bytes } = packet;
    let way = units.port(unit) as u32;
    let mut frame = units.part(unit, index, index + 1, cut).get(Tap::VNET_HEADER..).unwrap_or_default();
    let mut whole = Vec::new();
    if !turned.is_empty() || ecn.is_some() {
        whole.extend_from_slice(frame);
        turned.iter().for_each(|corrupt| corrupt.turn(&mut whole));
        ecn.into_iter().for_each(|before| ecn::mark_ethernet(&mut whole, before));
        frame = &whole;
    }
    let (length, part) = (Some(port::length(frame)), rules.then_some(index));
    recorder.take(&capture::Taken { number, way, flow: flow.0, bytes, length, part, arrival, verdict }, frame);
}
