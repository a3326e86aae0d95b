//! A pipe: queues, a discipline and a link (dummynet's word for the whole).
//!
//! The pipe keeps the moments that the discipline's contract names. Every
//! decision happens at a nominal instant: the end of a transmission, an
//! instant that the discipline named, an arrival at a free link. When the
//! engine is polled makes no difference.

use crate::engine::{Dropped, Emit, Output, PipeId, Unit, Why};
use falaj_sched::discipline::{Answer, Discipline};
use falaj_sched::params::{Refusals, Setup};
use falaj_sched::promise::{NoPromise, Promise};
use falaj_sched::queue::{FlowId, Packet};
use falaj_sched::rate::Wire;
use falaj_sched::registry::{self, Visitor};
use falaj_sched::station::{Server, Station};
use falaj_sched::time::{Span, Time};
use falaj_sched::tree::Tree;
use std::any::Any;

/// What a pipe is made from.
#[derive(Debug, Clone)]
pub struct PipeSpec {
    /// The discipline, as the registry names it.
    pub kind: &'static str,
    /// What was set for it; its rate is the link's.
    pub setup: Setup,
    /// Propagation delay of the link.
    pub delay: Span,
}

/// What happened to a flow's packets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub offered: u64,
    /// Their bytes, as the link accounts them.
    pub offered_bytes: u64,
    /// Packets whose last bit left.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that found the queue full.
    pub dropped_full: u64,
    /// Packets larger than the link's largest.
    pub dropped_large: u64,
    /// Packets that the discipline threw away.
    pub dropped_by_discipline: u64,
    /// Packets in the queue, the one in service included.
    pub backlog: u64,
    /// The most there ever were.
    pub max_backlog: u64,
}

impl Counters {
    /// All packets that were lost.
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_large + self.dropped_by_discipline
    }
}

/// What is written for each packet of a flow, in one cache line, and no more;
/// its [`Counters`] follow from that and from what was lost. Two numbers that
/// change together never stand side by side: written as one vector, each would
/// wait for it when it is read alone.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub struct Tally {
    queued: u64,
    gone: u64,
    queued_bytes: u64,
    gone_bytes: u64,
    max_backlog: u64,
}

impl Tally {
    /// A packet got into the queue.
    #[inline]
    pub fn queued(&mut self, bytes: u32) {
        self.queued += 1;
        self.queued_bytes += u64::from(bytes);
        self.max_backlog = self.max_backlog.max(self.backlog());
    }

    /// The last bit of a packet left, or it was thrown away.
    #[inline]
    pub fn gone(&mut self, bytes: u32) {
        self.gone += 1;
        self.gone_bytes += u64::from(bytes);
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.queued - self.gone
    }
}

/// Packets of a flow that were lost.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    full: u64,
    large: u64,
    /// Of those that did not get in.
    bytes: u64,
    by_discipline: u64,
    by_discipline_bytes: u64,
}

/// The tallies of a pipe's flows.
#[derive(Debug, Clone)]
struct Book {
    tallies: Vec<Tally>,
    lost: Vec<Lost>,
}

impl Book {
    fn new(flows: usize) -> Book {
        Book { tallies: vec![Tally::default(); flows], lost: vec![Lost::default(); flows] }
    }

    fn resize(&mut self, flows: usize) {
        self.tallies.resize(flows, Tally::default());
        self.lost.resize(flows, Lost::default());
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let (tally, lost) = (&self.tallies[flow.index()], &self.lost[flow.index()]);
        Counters {
            offered: tally.queued + lost.full + lost.large,
            offered_bytes: tally.queued_bytes + lost.bytes,
            sent: tally.gone - lost.by_discipline,
            sent_bytes: tally.gone_bytes - lost.by_discipline_bytes,
            dropped_full: lost.full,
            dropped_large: lost.large,
            dropped_by_discipline: lost.by_discipline,
            backlog: tally.backlog(),
            max_backlog: tally.max_backlog,
        }
    }
}

/// The engine's view of a pipe, whatever its discipline.
pub(crate) trait Pipe: Send + Any {
    /// What changes the pipe says when its next event is due.
    fn arrive(&mut self, unit: Unit, now: Time, out: &mut Vec<Output>) -> Time;
    /// Runs the event that is due at `now`.
    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time;
    /// No unit that is not decided yet is due before this, unless one arrives.
    fn next_due(&self) -> Time;
    fn has_room(&self, flow: FlowId, bytes: u32) -> bool;
    /// A packet of so many bytes that is not decided by `now` is due no earlier.
    fn soonest(&self, bytes: u32, now: Time) -> Time;
    fn counters(&self, flow: FlowId) -> Counters;
    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise>;
    fn flows(&self) -> usize;
    /// The largest packet that it takes.
    fn largest(&self) -> u32;
    /// May another flow start afresh in the place of this one?
    fn forgettable(&mut self, flow: FlowId, now: Time) -> bool;
    /// Takes over the packets, the link's state and the counters of `old`.
    fn succeed(&mut self, old: Box<dyn Pipe>, now: Time, out: &mut Vec<Output>) -> Time;
    /// What another kind of pipe may go on with.
    fn dismantle(self: Box<Self>) -> Remains;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Idle,
    NotBefore(Time),
    Sending { queue: FlowId, end: Time },
}

impl Link {
    /// When something happens without an arrival.
    #[inline]
    fn due(self) -> Time {
        match self {
            Link::Idle => Time::NEVER,
            Link::NotBefore(then) => then,
            Link::Sending { end, .. } => end,
        }
    }

    fn sending(self) -> Option<(FlowId, Time)> {
        match self {
            Link::Sending { queue, end } => Some((queue, end)),
            _ => None,
        }
    }
}

/// What stays of a pipe without its discipline.
pub(crate) struct Remains {
    /// The one on the wire first.
    packets: Vec<Packet>,
    /// When the one on the wire ends.
    sending: Option<Time>,
    wire: Wire,
    book: Book,
}

struct Of<S: Server> {
    id: PipeId,
    spec: PipeSpec,
    server: S,
    wire: Wire,
    link: Link,
    book: Book,
}

/// Builds the pipe that `spec` asks for.
pub(crate) fn build(id: PipeId, spec: &PipeSpec) -> Result<Box<dyn Pipe>, Refusals> {
    struct Builder<'a>(PipeId, &'a PipeSpec);
    impl Visitor for Builder<'_> {
        type Output = Result<Box<dyn Pipe>, Refusals>;
        fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output {
            let Builder(id, spec) = self;
            if spec.setup.flows.iter().any(|f| f.inner.is_some()) {
                return Ok(pipe(id, spec, Tree::new(&spec.setup, discipline)?));
            }
            Ok(pipe(id, spec, Station::new(&spec.setup, discipline)))
        }
    }
    registry::build(spec.kind, &spec.setup, Builder(id, spec))?
}

fn pipe<S: Server + 'static>(id: PipeId, spec: &PipeSpec, server: S) -> Box<dyn Pipe> {
    Box::new(Of {
        id,
        server,
        wire: Wire::new(spec.setup.rate),
        link: Link::Idle,
        book: Book::new(spec.setup.leaves().len()),
        spec: spec.clone(),
    })
}

impl<S: Server> Of<S> {
    /// The link is free: asks until something is on the wire or nothing may be.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            match self.server.next(now, &self.wire) {
                Answer::Serve(queue) => {
                    let end = self.send(queue, now, out);
                    if end > now {
                        self.link = Link::Sending { queue, end };
                        return;
                    }
                    self.finish(queue, now);
                }
                Answer::Drop(queue) => {
                    let packet = self.server.throw_away(queue, now);
                    let (flow, bytes) = (packet.flow.index(), packet.bytes);
                    self.book.tallies[flow].gone(bytes);
                    self.book.lost[flow].by_discipline += 1;
                    self.book.lost[flow].by_discipline_bytes += u64::from(bytes);
                    out.push(self.dropped(packet.handle, packet.flow, packet.bytes, Why::Discipline));
                }
                Answer::NotBefore(then) => {
                    debug_assert!(then > now, "an instant that never comes");
                    self.link = Link::NotBefore(then);
                    return;
                }
                Answer::Idle => {
                    self.link = Link::Idle;
                    return;
                }
            }
        }
    }

    /// The head of `queue` goes on the wire; returns when its last bit leaves.
    fn send(&mut self, queue: FlowId, start: Time, out: &mut Vec<Output>) -> Time {
        let (packet, sent) = self.server.take(queue, start, &mut self.wire);
        out.push(Output::Emit(Emit {
            pipe: self.id,
            flow: packet.flow,
            handle: packet.handle,
            bytes: packet.bytes,
            arrival: packet.arrival,
            start,
            end: sent.end,
            due: sent.end + self.spec.delay,
        }));
        sent.end
    }

    fn finish(&mut self, queue: FlowId, now: Time) {
        let packet = self.server.finish(queue, now);
        self.book.tallies[packet.flow.index()].gone(packet.bytes);
    }

    /// The wire may end a nanosecond before the airtime, which is rounded up.
    fn at_least(&self, bytes: u32) -> Span {
        Span(self.wire.airtime(bytes).0.saturating_sub(1))
    }

    fn dropped(&self, handle: u32, flow: FlowId, bytes: u32, why: Why) -> Output {
        Output::Drop(Dropped { pipe: self.id, flow, handle, bytes, why })
    }
}

impl<S: Server + 'static> Pipe for Of<S> {
    fn arrive(&mut self, unit: Unit, now: Time, out: &mut Vec<Output>) -> Time {
        let Unit { flow, handle, bytes } = unit;
        if cfg!(debug_assertions) && (self.link == Link::Idle || matches!(self.link, Link::NotBefore(t) if t > now)) {
            // In tests: asking out of turn changes nothing.
            let _ = self.server.next(now, &self.wire);
        }
        if bytes > self.spec.setup.largest {
            let lost = &mut self.book.lost[flow.index()];
            lost.large += 1;
            lost.bytes += u64::from(bytes);
            out.push(self.dropped(handle, flow, bytes, Why::TooLarge));
            return self.link.due();
        }
        let Ok(is_head) = self.server.arrive(Packet { handle, bytes, flow, arrival: now }, now) else {
            let lost = &mut self.book.lost[flow.index()];
            lost.full += 1;
            lost.bytes += u64::from(bytes);
            out.push(self.dropped(handle, flow, bytes, Why::QueueFull));
            return self.link.due();
        };
        self.book.tallies[flow.index()].queued(bytes);
        if is_head && !matches!(self.link, Link::Sending { .. }) {
            self.ask(now, out);
        }
        self.link.due()
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if let Link::Sending { queue, .. } = self.link {
            self.finish(queue, now);
        }
        self.ask(now, out);
        self.link.due()
    }

    fn next_due(&self) -> Time {
        let then = match self.link {
            Link::Idle => return Time::NEVER,
            // What leaves then was decided before, and what follows has an airtime that nobody knows yet.
            Link::Sending { end, .. } => end,
            // One of the heads goes first, and is due when its last bit has left.
            Link::NotBefore(then) => then + self.server.shortest_head().map_or(Span::ZERO, |b| self.at_least(b)),
        };
        then + self.spec.delay
    }

    fn has_room(&self, flow: FlowId, bytes: u32) -> bool {
        self.server.has_room(flow, bytes)
    }

    fn soonest(&self, bytes: u32, now: Time) -> Time {
        let free = if self.link == Link::Idle { now } else { self.link.due().max(now) };
        free + self.at_least(bytes) + self.spec.delay
    }

    fn counters(&self, flow: FlowId) -> Counters {
        self.book.counters(flow)
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        self.server.promise(flow)
    }

    fn largest(&self) -> u32 {
        self.spec.setup.largest
    }

    fn flows(&self) -> usize {
        self.book.tallies.len()
    }

    fn forgettable(&mut self, flow: FlowId, now: Time) -> bool {
        self.book.tallies[flow.index()].backlog() == 0 && self.server.forgettable(flow, now)
    }

    fn succeed(&mut self, old: Box<dyn Pipe>, now: Time, out: &mut Vec<Output>) -> Time {
        let flows = self.book.tallies.len();
        let (on_the_wire, end) = if (&*old as &dyn Any).is::<Of<S>>() {
            let old: Box<dyn Any> = old;
            let old = *old.downcast::<Of<S>>().expect("just looked");
            (self.wire, self.book) = (old.wire, old.book);
            let sending = old.link.sending();
            let queue = sending.map(|(queue, _)| queue);
            (self.server.succeed(old.server, &self.spec.setup, queue, now), sending.map(|(_, end)| end))
        } else {
            let Remains { packets, sending, wire, book } = old.dismantle();
            (self.wire, self.book) = (wire, book);
            (self.server.inherit(packets, sending.is_some(), now), sending)
        };
        if let (Some(queue), Some(end)) = (on_the_wire, end) {
            self.link = Link::Sending { queue, end };
        }
        self.wire.set_rate(self.spec.setup.rate);
        self.book.resize(flows);
        if !matches!(self.link, Link::Sending { .. }) {
            self.ask(now, out);
        }
        self.link.due()
    }

    fn dismantle(mut self: Box<Self>) -> Remains {
        let sending = self.link.sending();
        Remains {
            packets: self.server.dismantle(sending.map(|(queue, _)| queue)),
            sending: sending.map(|(_, end)| end),
            wire: self.wire,
            book: self.book,
        }
    }
}
