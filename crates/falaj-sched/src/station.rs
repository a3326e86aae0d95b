//! A station: queues and the discipline that serves them (dummynet calls it a
//! scheduler instance). It keeps the order of calls that the contract names;
//! pipes, benchmarks and tests all drive a discipline through it.

use crate::discipline::{Answer, Discipline, Sent};
use crate::params::Setup;
use crate::promise::{NoPromise, Promise};
use crate::queue::{FlowId, Limit, Packet, Queues};
use crate::rate::Wire;
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Why a packet did not get in: its queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Queues, and the discipline that serves them.
#[derive(Clone, Debug)]
pub struct Station<D: Discipline> {
    queues: Queues<D::State, D::Tag>,
    discipline: D,
    shared: bool,
    /// The head of this queue is on the wire, but another discipline took it.
    inherited: Option<FlowId>,
}

impl<D: Discipline> Station<D> {
    /// Empty queues with the limits of `setup`, from which the discipline was built.
    pub fn new(setup: &Setup, mut discipline: D) -> Station<D> {
        let mut queues = Queues::new(&limits(setup, &discipline));
        discipline.start(queues.flows());
        let shared = discipline.shared_queue().is_some();
        Station { queues, discipline, shared, inherited: None }
    }

    /// The queue that the packets of `flow` stand in.
    #[inline]
    pub fn queue_of(&self, flow: FlowId) -> FlowId {
        if self.shared { FlowId(0) } else { flow }
    }

    /// A packet comes to the tail of its flow's queue; true if it is the head
    /// there: time to ask [`next`](Station::next) if the link is free.
    #[inline]
    pub fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full> {
        if !self.queues.has_room(self.queue_of(packet.flow), packet.bytes) {
            return Err(Full);
        }
        Ok(self.admit(packet, now))
    }

    #[inline]
    fn admit(&mut self, packet: Packet, now: Time) -> bool {
        let queue = self.queue_of(packet.flow);
        let tag = self.discipline.arrived(self.queues.flows(), queue, packet.bytes, now);
        let is_head = self.queues.push(queue, packet, tag);
        if is_head {
            self.discipline.ready(self.queues.flows(), queue, now);
        }
        is_head
    }

    /// What may happen now; see [`Discipline::next`].
    #[inline]
    pub fn next(&mut self, now: Time, wire: &Wire) -> Answer {
        let answer = self.discipline.next(self.queues.flows(), now, wire);
        if cfg!(debug_assertions) {
            let again = self.discipline.next(self.queues.flows(), now, wire);
            assert_eq!(answer, again, "asked twice at {now:?}");
        }
        answer
    }

    /// The head of `queue` goes on the wire, as [`next`](Station::next) said.
    #[inline]
    pub fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent) {
        let packet = self.queues.first(queue).expect("who is served has a packet");
        let sent = Sent { bytes: packet.bytes, start, end: wire.send(packet.bytes, start) };
        self.discipline.take(self.queues.flows(), queue, sent);
        (packet, sent)
    }

    /// The last bit has left: only now does the packet leave its queue.
    #[inline]
    pub fn finish(&mut self, queue: FlowId, now: Time) -> Packet {
        let packet = self.queues.pop(queue).expect("what was sent was queued");
        if self.inherited.take().is_some() {
            self.discipline.offer_changed(self.queues.flows(), queue, now);
        }
        packet
    }

    /// The head of `queue` is thrown away, as [`next`](Station::next) said.
    pub fn throw_away(&mut self, queue: FlowId, now: Time) -> Packet {
        let packet = self.queues.pop(queue).expect("what is dropped was queued");
        self.discipline.offer_changed(self.queues.flows(), queue, now);
        packet
    }

    /// Takes over from a station of the same kind, whose setup was another.
    pub fn succeed(&mut self, mut old: Station<D>, setup: &Setup, now: Time) {
        old.queues.set_limits(&limits(setup, &self.discipline));
        self.queues = old.queues;
        self.inherited = old.inherited;
        self.discipline.succeed(old.discipline, self.queues.flows(), now);
    }

    /// Takes over all packets of a station of another kind, in this order; the
    /// first is `on_the_wire`. None is lost, even beyond a limit.
    pub fn inherit(&mut self, packets: Vec<Packet>, on_the_wire: bool, now: Time) {
        self.inherited = packets.first().filter(|_| on_the_wire).map(|p| self.queue_of(p.flow));
        for packet in packets {
            self.admit(packet, now);
        }
    }

    /// All packets, the one `on_the_wire` first, then in order of arrival.
    pub fn dismantle(mut self, on_the_wire: Option<FlowId>) -> Vec<Packet> {
        let mut packets = Vec::new();
        packets.extend(on_the_wire.and_then(|queue| self.queues.pop(queue)));
        let first = packets.len();
        for f in 0..self.queues.flows().len() as u32 {
            packets.extend(core::iter::from_fn(|| self.queues.pop(FlowId(f))));
        }
        packets[first..].sort_by_key(|p| p.arrival);
        packets
    }

    /// May another flow start afresh in the place of this one?
    pub fn forgettable(&mut self, flow: FlowId, now: Time) -> bool {
        let queue = self.queue_of(flow);
        let flows = self.queues.flows();
        flows.head(queue).is_none() && self.discipline.forgettable(flows, queue, now)
    }

    /// What flow `f` is promised.
    pub fn promise(&self, f: FlowId) -> Result<Promise, NoPromise> {
        self.discipline.service(f)
    }
}

fn limits<D: Discipline>(setup: &Setup, discipline: &D) -> Vec<Limit> {
    match discipline.shared_queue() {
        Some(limit) => vec![limit],
        None => setup.flows.iter().map(|f| f.limit).collect(),
    }
}
