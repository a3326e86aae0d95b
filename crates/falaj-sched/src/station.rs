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

/// So many heads are quickly looked at.
const FEW: u32 = 16;

/// Why a packet did not get in: its queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What a link is sent from: a [`Station`], or a [tree](crate::tree) of them.
/// Packets are known by their leaf, answers name a queue.
pub trait Server: Send {
    /// A packet comes to the tail of its leaf's queue; true if something may
    /// be sent that could not before: time to ask [`next`](Server::next) if the link is free.
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full>;
    /// Would a packet of so many bytes get in?
    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool;
    /// What may happen now; see [`Discipline::next`].
    fn next(&mut self, now: Time, wire: &Wire) -> Answer;
    /// Length of the packet that would be taken from `queue`.
    fn head(&mut self, queue: FlowId) -> Option<u32>;
    /// Length of the shortest packet that may be the next to go; `None` where
    /// that is not known, or takes long to find out.
    fn shortest_head(&self) -> Option<u32> {
        None
    }
    /// The head of `queue` goes on the wire, as [`next`](Server::next) said.
    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent);
    /// The last bit has left: only now does the packet leave its queue.
    fn finish(&mut self, queue: FlowId, now: Time) -> Packet;
    /// The head of `queue` is thrown away, as [`next`](Server::next) said.
    fn throw_away(&mut self, queue: FlowId, now: Time) -> Packet;
    /// Takes over from a server of the same type, whose setup was another. The
    /// queue that is on the wire, if one is, is called so from now on.
    fn succeed(&mut self, old: Self, setup: &Setup, on_the_wire: Option<FlowId>, now: Time) -> Option<FlowId>
    where
        Self: Sized;
    /// Takes over all packets of another server, in this order; the first is
    /// `on_the_wire`, and the queue that it stands in is returned. None is lost, even beyond a limit.
    fn inherit(&mut self, packets: Vec<Packet>, on_the_wire: bool, now: Time) -> Option<FlowId>;
    /// Gives all packets away, the one `on_the_wire` first, then in order of
    /// arrival. It is of no use afterwards.
    fn dismantle(&mut self, on_the_wire: Option<FlowId>) -> Vec<Packet>;
    /// Length of the largest packet that waits, apart from the one `on_the_wire`; 0 where none does.
    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32;
    /// May another flow start afresh in the place of this one?
    fn forgettable(&mut self, leaf: FlowId, now: Time) -> bool;
    /// What a leaf is promised.
    fn promise(&self, leaf: FlowId) -> Result<Promise, NoPromise>;
    /// What a leaf is promised below a flow that is promised `server`.
    fn promise_behind(&self, leaf: FlowId, server: &Promise) -> Result<Promise, NoPromise>;
}

/// Queues, and the discipline that serves them.
#[derive(Clone, Debug)]
pub struct Station<D: Discipline> {
    queues: Queues<D::State, D::Tag>,
    discipline: D,
    /// The head of this queue is on the wire, but another discipline took it.
    inherited: Option<FlowId>,
}

impl<D: Discipline> Station<D> {
    /// Empty queues with the limits of `setup`, from which the discipline was built.
    pub fn new(setup: &Setup, mut discipline: D) -> Station<D> {
        let mut queues = Queues::new(&limits(setup, &discipline));
        discipline.start(queues.flows());
        Station { queues, discipline, inherited: None }
    }

    /// The queue that the packets of `flow` stand in.
    #[inline]
    fn queue_of(&self, flow: FlowId) -> FlowId {
        if self.discipline.shared_queue().is_some() { FlowId(0) } else { flow }
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
}

impl<D: Discipline> Server for Station<D> {
    #[inline]
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full> {
        if !self.queues.has_room(self.queue_of(packet.flow), packet.bytes) {
            return Err(Full);
        }
        Ok(self.admit(packet, now))
    }

    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool {
        self.queues.has_room(self.queue_of(leaf), bytes)
    }

    #[inline]
    fn next(&mut self, now: Time, wire: &Wire) -> Answer {
        let answer = self.discipline.next(self.queues.flows(), now, wire);
        if cfg!(debug_assertions) {
            let again = self.discipline.next(self.queues.flows(), now, wire);
            assert_eq!(answer, again, "asked twice at {now:?}");
        }
        answer
    }

    fn head(&mut self, queue: FlowId) -> Option<u32> {
        self.queues.flows().head(queue)
    }

    fn shortest_head(&self) -> Option<u32> {
        let queues = self.queues.len() as u32;
        let heads = (0..queues.min(FEW)).filter_map(|q| self.queues.first(FlowId(q)).map(|packet| packet.bytes));
        heads.min().filter(|_| queues <= FEW)
    }

    #[inline]
    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent) {
        let packet = self.queues.first(queue).expect("who is served has a packet");
        let sent = Sent { bytes: packet.bytes, start, end: wire.send(packet.bytes, start) };
        self.discipline.take(self.queues.flows(), queue, sent);
        (packet, sent)
    }

    #[inline]
    fn finish(&mut self, queue: FlowId, now: Time) -> Packet {
        let packet = self.queues.pop(queue).expect("what was sent was queued");
        if self.inherited.is_some() {
            self.inherited = None;
            self.discipline.offer_changed(self.queues.flows(), queue, now);
        }
        packet
    }

    fn throw_away(&mut self, queue: FlowId, now: Time) -> Packet {
        let packet = self.queues.pop(queue).expect("what is dropped was queued");
        self.discipline.offer_changed(self.queues.flows(), queue, now);
        packet
    }

    fn succeed(
        &mut self,
        mut old: Station<D>,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        now: Time,
    ) -> Option<FlowId> {
        old.queues.set_limits(&limits(setup, &self.discipline));
        self.queues = old.queues;
        self.queues.retag(|f, tag| self.discipline.retag(&mut old.discipline, f, tag, now));
        self.inherited = old.inherited;
        self.discipline.succeed(old.discipline, self.queues.flows(), now);
        on_the_wire
    }

    fn inherit(&mut self, packets: Vec<Packet>, on_the_wire: bool, now: Time) -> Option<FlowId> {
        self.inherited = packets.first().filter(|_| on_the_wire).map(|p| self.queue_of(p.flow));
        for packet in packets {
            self.admit(packet, now);
        }
        self.inherited
    }

    fn dismantle(&mut self, on_the_wire: Option<FlowId>) -> Vec<Packet> {
        let mut packets = Vec::new();
        packets.extend(on_the_wire.and_then(|queue| self.queues.pop(queue)));
        let first = packets.len();
        for f in 0..self.queues.flows().len() as u32 {
            packets.extend(core::iter::from_fn(|| self.queues.pop(FlowId(f))));
        }
        packets[first..].sort_by_key(|p| p.arrival);
        packets
    }

    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32 {
        self.queues.largest(on_the_wire)
    }

    fn forgettable(&mut self, leaf: FlowId, now: Time) -> bool {
        let queue = self.queue_of(leaf);
        let flows = self.queues.flows();
        flows.head(queue).is_none() && self.discipline.forgettable(flows, queue, now)
    }

    fn promise(&self, leaf: FlowId) -> Result<Promise, NoPromise> {
        self.discipline.service(leaf)
    }

    fn promise_behind(&self, leaf: FlowId, server: &Promise) -> Result<Promise, NoPromise> {
        self.discipline.service_behind(leaf, server)
    }
}

pub(crate) fn limits<D: Discipline>(setup: &Setup, discipline: &D) -> Vec<Limit> {
    match discipline.shared_queue() {
        Some(limit) => vec![limit],
        None => setup.flows.iter().map(|f| f.limit).collect(),
    }
}
