//! Resuming a forwarder in another process: queued packets, packets in transit, and counters.
//!
//! Both processes read one clock, CLOCK_MONOTONIC, with the same zero, so packets keep their times
//! of arrival and delivery. The discipline starts afresh with the queued packets, as at a change to
//! another discipline, and guarantees of flows are checked as after a change.

use super::rx::PendingUnit;
use super::units::UnitPacket;
use super::{Compliance, Forwarder, LiveLosses};
use crate::backend::frame;
use falaj_engine::pipe::PipeState;
use falaj_engine::{Emit, PipeId, ecn};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Label;
use falaj_sched::units::time::Time;
use serde::{Deserialize, Serialize};
use std::io;

/// The state of a forwarder, in serializable form. Times are in nanoseconds of its clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwarderState {
    /// Time at which the state was taken; no packet passes after it.
    at: u64,
    /// The state of each pipe. Handles of packets are indices in `waiting`.
    pipes: Vec<PipeState>,
    /// Packets in queues or on the wire, in the order of their handles.
    waiting: Vec<KeptPacket>,
    /// Packets that have left their queues, in order of delivery.
    released: Vec<ReleasedUnit>,
    /// Units that were read and wait for room in a queue.
    pending: Vec<KeptPacket>,
    /// The position of each port's reader; see [`Port::position`](crate::backend::Port::position).
    positions: Vec<u64>,
    /// Number of packets that have entered the engine, or that rules have not admitted.
    arrived: u64,
    /// Time of the last arrival of a packet, by pipe and flow.
    active: Vec<Vec<u64>>,
    /// Counters of packets lost outside the engine.
    losses: LiveLosses,
    /// Counters of guarantees, by pipe and flow.
    kept: Vec<Vec<Compliance>>,
    /// Number of the last violation.
    number: u64,
}

/// A packet that was read, as a unit of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptPacket {
    /// Index of the port by which it entered.
    port: u32,
    /// Number of packets that arrived before it.
    number: u64,
    arrival: u64,
    /// Length as the link accounts it.
    bytes: u32,
    /// The packet's bytes, with the header of the unit.
    #[serde(with = "serde_bytes")]
    unit: Vec<u8>,
}

/// A packet that has left its queue and is still to be delivered.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReleasedUnit {
    packet: KeptPacket,
    pipe: u32,
    flow: u32,
    /// Time from its arrival until its last bit left the queue.
    delay: u64,
    /// Time at which it is to be delivered.
    due: u64,
    /// A delivery up to this time is not late.
    by: u64,
}

impl ForwarderState {
    /// Time at which the state was taken; no packet passed after it.
    pub fn at(&self) -> Time {
        Time(self.at)
    }

    /// Number of packets in the state.
    pub fn packets(&self) -> usize {
        self.waiting.len() + self.released.len() + self.pending.len()
    }
}

impl Forwarder {
    /// The current state, from which a forwarder in another process can resume. First delivers all
    /// packets that are due. Returns `None` if a link or a flow has a mask, or if there are rules.
    ///
    /// # Errors
    /// A port is gone.
    pub fn state(&mut self) -> io::Result<Option<ForwarderState>> {
        for i in 0..self.ports.len() {
            while self.ports[i].port.holds_units() && self.receive_from(i)?.is_some() {}
        }
        let now = self.clock.now();
        self.network.poll(now, &mut self.out);
        self.note();
        self.release(now)?;
        let states = (0..self.active.len() as u32).map(|pipe| self.network.state(PipeId(pipe)));
        let Some(mut pipes) = states.collect::<Option<Vec<PipeState>>>() else { return Ok(None) };
        let mut waiting = Vec::new();
        for pipe in &mut pipes {
            let from = waiting.len();
            for handle in pipe.handles() {
                let Some(packet) = self.units.packet_of(handle) else { return Ok(None) };
                waiting.push(kept(&self.units, packet, &mut self.cut));
            }
            pipe.rename(from as u32..);
        }
        let mut released = Vec::new();
        for burst in self.releases.in_order() {
            for (n, sent) in burst.packets.iter().enumerate() {
                let index = burst.from + n as u32;
                let (unit, flow, bytes) = (burst.unit, FlowId(burst.flow), burst.bytes);
                let packet =
                    UnitPacket { unit, index, number: 0, arrival: Time::ZERO, flow, bytes };
                released.push(ReleasedUnit {
                    packet: kept(&self.units, packet, &mut self.cut),
                    pipe: burst.pipe,
                    flow: burst.flow,
                    delay: sent.delay.0,
                    due: sent.due.0,
                    by: sent.by.0,
                });
            }
        }
        let mut pending = Vec::new();
        for PendingUnit { unit, received, next, .. } in self.waiting.iter().flatten() {
            for index in *next..received.packets() {
                let (number, arrival, flow) = (0, self.read, FlowId(0));
                let packet = UnitPacket { unit: *unit, index, number, arrival, flow, bytes: 0 };
                pending.push(kept(&self.units, packet, &mut self.cut));
            }
        }
        let instants = |flows: &Vec<Time>| flows.iter().map(|time| time.0).collect();
        Ok(Some(ForwarderState {
            at: now.0,
            pipes,
            waiting,
            released,
            pending,
            positions: self.ports.iter().map(|port| port.port.position()).collect(),
            arrived: self.arrived,
            active: self.active.iter().map(instants).collect(),
            losses: self.losses,
            kept: self.guarantees.compliance(),
            number: self.guarantees.number(),
        }))
    }

    /// Resumes from the state of a forwarder of the same scenario in another process. This
    /// forwarder must not have read any packet. `adapt` converts a unit of the other process to a
    /// unit of this process.
    ///
    /// # Errors
    /// The state does not fit this forwarder, or there is no memory for its packets.
    pub fn resume(
        &mut self,
        state: ForwarderState,
        mut adapt: impl FnMut(&mut [u8]),
    ) -> io::Result<()> {
        let other = || io::Error::other("that is the state of another link");
        let ForwarderState { mut pipes, waiting, released, pending, positions, .. } = state;
        let flows: Vec<usize> = self.active.iter().map(Vec::len).collect();
        if pipes.len() != flows.len()
            || positions.len() != self.ports.len()
            || !state.active.iter().map(Vec::len).eq(flows.iter().copied())
        {
            return Err(other());
        }
        let now = self.clock.now();
        for (port, &position) in self.ports.iter_mut().zip(&positions) {
            port.port.resume_at(position);
        }
        let mut handles = Vec::with_capacity(waiting.len());
        let whose: Vec<FlowId> = pipes.iter().flat_map(PipeState::flows).collect();
        if whose.len() != waiting.len() {
            return Err(other());
        }
        for (kept, flow) in waiting.into_iter().zip(whose) {
            let packet = self.take_in(kept, flow, &mut adapt)?;
            handles.push(self.units.packet(packet));
        }
        let mut handles = handles.into_iter();
        for pipe in &mut pipes {
            let number = pipe.handles().count();
            pipe.rename(handles.by_ref().take(number));
        }
        for sent in released {
            let ReleasedUnit { packet, pipe, flow, delay, due, by } = sent;
            let flow = FlowId(flow);
            if flows.get(pipe as usize).is_none_or(|&flows| flow.index() >= flows) {
                return Err(other());
            }
            let packet = self.take_in(packet, flow, &mut adapt)?;
            self.units.undecide(packet.unit);
            let (end, due, start) = (Time(delay), Time(due), Time(by));
            let (arrival, handle, bytes) = (Time::ZERO, 0, packet.bytes);
            let pipe = PipeId(pipe);
            let emit = Emit { pipe, flow, handle, bytes, arrival, start, end, due };
            self.releases.emitted(packet, &emit);
        }
        self.guarantees.change_begins(now);
        let wires: Vec<Time> = pipes.iter().map(PipeState::free_from).collect();
        let (units, ports) = (&self.units, &self.ports);
        let known = |handle: u32| {
            let packet = units.packet_of(handle);
            let single = packet.and_then(|packet| units.single(packet.unit));
            single.map_or(Label::default(), |(port, unit)| ecn::label(&ports[port].port.key(unit)))
        };
        for (pipe, state) in (0..).map(PipeId).zip(pipes) {
            if !self.network.resume(pipe, state, &known, now, &mut self.out) {
                return Err(other());
            }
        }
        self.arrived = state.arrived;
        for (own, theirs) in self.active.iter_mut().zip(&state.active) {
            own.iter_mut().zip(theirs).for_each(|(own, &theirs)| *own = Time(theirs));
        }
        self.losses = state.losses;
        self.note();
        let counters = |pipe, flow| self.network.counters(pipe, flow);
        self.guarantees.resume((&state.kept, state.number), &wires, now, counters);
        for kept in pending {
            let port = kept.port as usize;
            let packet = self.take_in(kept, FlowId(0), &mut adapt)?;
            let (_, unit) = self.units.single(packet.unit).ok_or_else(other)?;
            let (received, key) = (frame::received(unit), self.ports[port].port.key(unit));
            let arriving = PendingUnit { unit: packet.unit, received, key, next: 0, entry: None };
            self.admit(port, arriving, now);
        }
        Ok(())
    }

    /// Stores a packet that another process has read.
    fn take_in(
        &mut self,
        kept: KeptPacket,
        flow: FlowId,
        adapt: &mut impl FnMut(&mut [u8]),
    ) -> io::Result<UnitPacket> {
        let KeptPacket { port, number, arrival, bytes, unit } = kept;
        let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let port = port as usize;
        let attached = self.ports.get(port).ok_or_else(|| io::Error::other("no such port"))?;
        let place = self.units.buffer().get_mut(..unit.len()).ok_or_else(no_memory)?;
        place.copy_from_slice(&unit);
        adapt(place);
        let owner = attached.port.owner(place);
        let unit = self.units.keep(unit.len(), (port, owner), None).ok_or_else(no_memory)?;
        Ok(UnitPacket { unit, index: 0, number, arrival: Time(arrival), flow, bytes })
    }
}

/// Copies a packet out of the store.
fn kept(units: &super::UnitStore, packet: UnitPacket, cut: &mut Vec<u8>) -> KeptPacket {
    let UnitPacket { unit, index, number, arrival, bytes, .. } = packet;
    KeptPacket {
        port: units.port(unit) as u32,
        number,
        arrival: arrival.0,
        bytes,
        unit: units.part(unit, index, index + 1, cut).to_vec(),
    }
}
