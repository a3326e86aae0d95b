//! A pipe: queues, a discipline and a link (dummynet's word for the whole).
//!
//! The pipe keeps the moments that the discipline's contract names. Every
//! decision happens at a nominal instant: the end of a transmission, an
//! instant that the discipline named, an arrival at a free link. When the
//! engine is polled makes no difference.

use crate::engine::{Dropped, Emit, Output, PipeId, Unit, Why};
use falaj_sched::discipline::{Answer, Discipline, Sent};
use falaj_sched::params::{Refusals, Setup};
use falaj_sched::promise::{NoPromise, Promise};
use falaj_sched::queue::{FlowId, Limit, Packet, Queues};
use falaj_sched::rate::Wire;
use falaj_sched::registry::{self, Visitor};
use falaj_sched::time::{Span, Time};

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

/// The engine's view of a pipe, whatever its discipline.
pub(crate) trait Pipe: Send {
    fn arrive(&mut self, unit: Unit, now: Time, out: &mut Vec<Output>);
    /// Runs the event that is due at `now`.
    fn event(&mut self, now: Time, out: &mut Vec<Output>);
    fn due(&self) -> Time;
    fn counters(&self, flow: FlowId) -> &Counters;
    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Idle,
    NotBefore(Time),
    Sending { queue: FlowId, end: Time },
}

struct Of<D: Discipline> {
    id: PipeId,
    queues: Queues<D::State>,
    discipline: D,
    shared: bool,
    wire: Wire,
    link: Link,
    delay: Span,
    largest: u32,
    counters: Vec<Counters>,
}

/// Builds the pipe that `spec` asks for.
pub(crate) fn build(id: PipeId, spec: &PipeSpec) -> Result<Box<dyn Pipe>, Refusals> {
    struct Builder<'a>(PipeId, &'a PipeSpec);
    impl Visitor for Builder<'_> {
        type Output = Box<dyn Pipe>;
        fn visit<D: Discipline + 'static>(self, discipline: D) -> Box<dyn Pipe> {
            Box::new(Of::new(self.0, self.1, discipline))
        }
    }
    registry::build(spec.kind, &spec.setup, Builder(id, spec))
}

impl<D: Discipline> Of<D> {
    fn new(id: PipeId, spec: &PipeSpec, mut discipline: D) -> Of<D> {
        let shared = discipline.shared_queue();
        let limits: Vec<Limit> = match shared {
            Some(limit) => vec![limit],
            None => spec.setup.flows.iter().map(|f| f.limit).collect(),
        };
        let mut queues = Queues::new(&limits);
        discipline.start(queues.flows());
        Of {
            id,
            queues,
            discipline,
            shared: shared.is_some(),
            wire: Wire::new(spec.setup.rate),
            link: Link::Idle,
            delay: spec.delay,
            largest: spec.setup.largest,
            counters: vec![Counters::default(); spec.setup.flows.len()],
        }
    }

    /// The link is free: asks until something is on the wire or nothing may be.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            let answer = self.discipline.next(self.queues.flows(), now, &self.wire);
            self.asks_again(now, answer);
            match answer {
                Answer::Serve(queue) => {
                    let end = self.send(queue, now, out);
                    if end > now {
                        self.link = Link::Sending { queue, end };
                        return;
                    }
                    self.finish(queue);
                }
                Answer::Drop(queue) => {
                    let packet = self.queues.pop(queue).expect("what is dropped was queued");
                    let counters = &mut self.counters[packet.flow.index()];
                    counters.dropped_by_discipline += 1;
                    counters.backlog -= 1;
                    out.push(self.dropped(packet.handle, packet.flow, packet.bytes, Why::Discipline));
                    self.discipline.offer_changed(self.queues.flows(), queue, now);
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

    /// In tests: asking twice changes nothing.
    #[inline]
    fn asks_again(&mut self, now: Time, answer: Answer) {
        if cfg!(debug_assertions) {
            let again = self.discipline.next(self.queues.flows(), now, &self.wire);
            assert_eq!(answer, again, "asked twice at {now:?}");
        }
    }

    /// The head of `queue` goes on the wire; returns when its last bit leaves.
    fn send(&mut self, queue: FlowId, start: Time, out: &mut Vec<Output>) -> Time {
        let packet = *self.queues.first(queue).expect("who is served has a packet");
        let end = self.wire.send(packet.bytes, start);
        self.discipline.take(self.queues.flows(), queue, Sent { bytes: packet.bytes, start, end });
        out.push(Output::Emit(Emit {
            pipe: self.id,
            flow: packet.flow,
            handle: packet.handle,
            bytes: packet.bytes,
            arrival: packet.arrival,
            start,
            end,
            due: end + self.delay,
        }));
        end
    }

    /// The last bit has left: only now does the packet leave its queue.
    fn finish(&mut self, queue: FlowId) {
        let packet = self.queues.pop(queue).expect("what was sent was queued");
        let counters = &mut self.counters[packet.flow.index()];
        counters.sent += 1;
        counters.sent_bytes += u64::from(packet.bytes);
        counters.backlog -= 1;
    }

    fn dropped(&self, handle: u32, flow: FlowId, bytes: u32, why: Why) -> Output {
        Output::Drop(Dropped { pipe: self.id, flow, handle, bytes, why })
    }
}

impl<D: Discipline> Pipe for Of<D> {
    fn arrive(&mut self, unit: Unit, now: Time, out: &mut Vec<Output>) {
        let Unit { flow, handle, bytes } = unit;
        match self.link {
            Link::Idle => self.asks_again(now, Answer::Idle),
            Link::NotBefore(then) if then > now => self.asks_again(now, Answer::NotBefore(then)),
            _ => {}
        }
        let counters = &mut self.counters[flow.index()];
        counters.offered += 1;
        counters.offered_bytes += u64::from(bytes);
        if bytes > self.largest {
            counters.dropped_large += 1;
            out.push(self.dropped(handle, flow, bytes, Why::TooLarge));
            return;
        }
        let queue = if self.shared { FlowId(0) } else { flow };
        let Ok(is_head) = self.queues.push(queue, Packet { handle, bytes, flow, arrival: now }) else {
            counters.dropped_full += 1;
            out.push(self.dropped(handle, flow, bytes, Why::QueueFull));
            return;
        };
        counters.backlog += 1;
        counters.max_backlog = counters.max_backlog.max(counters.backlog);
        if is_head {
            self.discipline.ready(self.queues.flows(), queue, now);
            if !matches!(self.link, Link::Sending { .. }) {
                self.ask(now, out);
            }
        }
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) {
        if let Link::Sending { queue, .. } = self.link {
            self.finish(queue);
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
        self.discipline.service(flow)
    }
}
