//! A pipe: queues, a discipline and a link (dummynet's word for the whole).
//!
//! The pipe keeps the moments that the discipline's contract names. Every
//! decision happens at a nominal instant: the end of a transmission, an
//! instant that the discipline named, an arrival at a free link. When the
//! engine is polled makes no difference.

use crate::engine::{Dropped, Emit, Output, PipeId, Unit, Why};
use falaj_sched::discipline::{Answer, Discipline};
use falaj_sched::params::{Refused, Setup};
use falaj_sched::promise::{NoPromise, Promise};
use falaj_sched::queue::{FlowId, Packet};
use falaj_sched::rate::Wire;
use falaj_sched::registry::{self, Visitor};
use falaj_sched::station::Station;
use falaj_sched::time::{Span, Time};
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

    /// A packet came.
    #[inline]
    pub fn came(&mut self, bytes: u32) {
        self.offered += 1;
        self.offered_bytes += u64::from(bytes);
    }

    /// It got in.
    #[inline]
    pub fn queued(&mut self) {
        self.backlog += 1;
        self.max_backlog = self.max_backlog.max(self.backlog);
    }

    /// Its last bit left.
    #[inline]
    pub fn left(&mut self, bytes: u32) {
        self.sent += 1;
        self.sent_bytes += u64::from(bytes);
        self.backlog -= 1;
    }

    /// The discipline threw it away.
    pub fn thrown_away(&mut self) {
        self.dropped_by_discipline += 1;
        self.backlog -= 1;
    }
}

/// The engine's view of a pipe, whatever its discipline.
pub(crate) trait Pipe: Send + Any {
    fn arrive(&mut self, unit: Unit, now: Time, out: &mut Vec<Output>);
    /// Runs the event that is due at `now`.
    fn event(&mut self, now: Time, out: &mut Vec<Output>);
    fn due(&self) -> Time;
    fn counters(&self, flow: FlowId) -> &Counters;
    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise>;
    fn flows(&self) -> usize;
    /// May another flow start afresh in the place of this one?
    fn forgettable(&mut self, flow: FlowId, now: Time) -> bool;
    /// Takes over the packets, the link's state and the counters of `old`.
    fn succeed(&mut self, old: Box<dyn Pipe>, now: Time, out: &mut Vec<Output>);
    /// What another kind of pipe may go on with.
    fn dismantle(self: Box<Self>) -> Remains;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Idle,
    NotBefore(Time),
    Sending { queue: FlowId, end: Time },
}

/// What stays of a pipe without its discipline.
pub(crate) struct Remains {
    /// The one on the wire first.
    packets: Vec<Packet>,
    /// When the one on the wire ends.
    sending: Option<Time>,
    wire: Wire,
    counters: Vec<Counters>,
}

struct Of<D: Discipline> {
    id: PipeId,
    spec: PipeSpec,
    station: Station<D>,
    wire: Wire,
    link: Link,
    counters: Vec<Counters>,
}

/// Builds the pipe that `spec` asks for.
pub(crate) fn build(id: PipeId, spec: &PipeSpec) -> Result<Box<dyn Pipe>, Refused> {
    struct Builder<'a>(PipeId, &'a PipeSpec);
    impl Visitor for Builder<'_> {
        type Output = Box<dyn Pipe>;
        fn visit<D: Discipline + 'static>(self, discipline: D) -> Box<dyn Pipe> {
            Box::new(Of {
                id: self.0,
                station: Station::new(&self.1.setup, discipline),
                wire: Wire::new(self.1.setup.rate),
                link: Link::Idle,
                counters: vec![Counters::default(); self.1.setup.flows.len()],
                spec: self.1.clone(),
            })
        }
    }
    registry::build(spec.kind, &spec.setup, Builder(id, spec))
}

impl<D: Discipline> Of<D> {
    /// The link is free: asks until something is on the wire or nothing may be.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            match self.station.next(now, &self.wire) {
                Answer::Serve(queue) => {
                    let end = self.send(queue, now, out);
                    if end > now {
                        self.link = Link::Sending { queue, end };
                        return;
                    }
                    self.finish(queue, now);
                }
                Answer::Drop(queue) => {
                    let packet = self.station.throw_away(queue, now);
                    self.counters[packet.flow.index()].thrown_away();
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
        let (packet, sent) = self.station.take(queue, start, &mut self.wire);
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
        let packet = self.station.finish(queue, now);
        self.counters[packet.flow.index()].left(packet.bytes);
    }

    fn dropped(&self, handle: u32, flow: FlowId, bytes: u32, why: Why) -> Output {
        Output::Drop(Dropped { pipe: self.id, flow, handle, bytes, why })
    }
}

impl<D: Discipline + 'static> Pipe for Of<D> {
    fn arrive(&mut self, unit: Unit, now: Time, out: &mut Vec<Output>) {
        let Unit { flow, handle, bytes } = unit;
        if cfg!(debug_assertions) && (self.link == Link::Idle || matches!(self.link, Link::NotBefore(t) if t > now)) {
            // In tests: asking out of turn changes nothing.
            let _ = self.station.next(now, &self.wire);
        }
        let counters = &mut self.counters[flow.index()];
        counters.came(bytes);
        if bytes > self.spec.setup.largest {
            counters.dropped_large += 1;
            out.push(self.dropped(handle, flow, bytes, Why::TooLarge));
            return;
        }
        let Ok(is_head) = self.station.arrive(Packet { handle, bytes, flow, arrival: now }, now) else {
            counters.dropped_full += 1;
            out.push(self.dropped(handle, flow, bytes, Why::QueueFull));
            return;
        };
        counters.queued();
        if is_head && !matches!(self.link, Link::Sending { .. }) {
            self.ask(now, out);
        }
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) {
        if let Link::Sending { queue, .. } = self.link {
            self.finish(queue, now);
        }
        self.ask(now, out);
    }

    fn due(&self) -> Time {
        match self.link {
            Link::Idle => Time::NEVER,
            Link::NotBefore(then) => then,
            Link::Sending { end, .. } => end,
        }
    }

    fn counters(&self, flow: FlowId) -> &Counters {
        &self.counters[flow.index()]
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        self.station.promise(flow)
    }

    fn flows(&self) -> usize {
        self.counters.len()
    }

    fn forgettable(&mut self, flow: FlowId, now: Time) -> bool {
        self.counters[flow.index()].backlog == 0 && self.station.forgettable(flow, now)
    }

    fn succeed(&mut self, old: Box<dyn Pipe>, now: Time, out: &mut Vec<Output>) {
        let flows = self.counters.len();
        if (&*old as &dyn Any).is::<Of<D>>() {
            let old: Box<dyn Any> = old;
            let old = *old.downcast::<Of<D>>().expect("just looked");
            (self.wire, self.link, self.counters) = (old.wire, old.link, old.counters);
            self.station.succeed(old.station, &self.spec.setup, now);
        } else {
            let Remains { packets, sending, wire, counters } = old.dismantle();
            (self.wire, self.counters) = (wire, counters);
            if let (Some(end), Some(first)) = (sending, packets.first()) {
                self.link = Link::Sending { queue: self.station.queue_of(first.flow), end };
            }
            self.station.inherit(packets, sending.is_some(), now);
        }
        self.wire.set_rate(self.spec.setup.rate);
        self.counters.resize(flows, Counters::default());
        if !matches!(self.link, Link::Sending { .. }) {
            self.ask(now, out);
        }
    }

    fn dismantle(self: Box<Self>) -> Remains {
        let on_the_wire = match self.link {
            Link::Sending { queue, end } => Some((queue, end)),
            _ => None,
        };
        Remains {
            packets: self.station.dismantle(on_the_wire.map(|(queue, _)| queue)),
            sending: on_the_wire.map(|(_, end)| end),
            wire: self.wire,
            counters: self.counters,
        }
    }
}
