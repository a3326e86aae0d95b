//! A forwarder goes on in another process: what waits, what is on its way, and what was counted.
//!
//! Both read one clock, CLOCK_MONOTONIC, and count from one zero: packets keep the times at which
//! they came and are due. The discipline begins anew with the packets that wait, as at a change to
//! another one, and what flows are promised is judged as after a change.

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

/// The state of a forwarder, to be written down. Times are in nanoseconds of its clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwarderState {
    /// When it was taken; nothing passes from then on.
    at: u64,
    /// By pipe. Handles of packets are their places in `waiting`.
    pipes: Vec<PipeState>,
    waiting: Vec<KeptPacket>,
    /// In the order in which they are to be handed over, where that is one instant.
    released: Vec<ReleasedUnit>,
    /// Read, and not in a queue yet: those that wait for room.
    pending: Vec<KeptPacket>,
    /// By port, where its reader is; see [`Port::position`](crate::backend::Port::position).
    positions: Vec<u64>,
    /// Packets that have entered the engine.
    arrived: u64,
    /// By pipe and flow, when a packet came last.
    active: Vec<Vec<u64>>,
    losses: LiveLosses,
    /// By pipe and flow.
    kept: Vec<Vec<Compliance>>,
    /// Of the last violation.
    number: u64,
}

/// A packet that was read, as a unit of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptPacket {
    port: u32,
    /// How many came before it.
    number: u64,
    arrival: u64,
    /// As the link accounts it.
    bytes: u32,
    #[serde(with = "serde_bytes")]
    unit: Vec<u8>,
}

/// A packet that has left its queue, and is to be handed over.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReleasedUnit {
    packet: KeptPacket,
    pipe: u32,
    flow: u32,
    /// Its last bit left the queue so long after it came.
    delay: u64,
    due: u64,
    /// Handed over by then it is not late.
    by: u64,
}

impl ForwarderState {
    /// When nothing passed any more.
    pub fn at(&self) -> Time {
        Time(self.at)
    }

    /// How many packets it holds.
    pub fn packets(&self) -> usize {
        self.waiting.len() + self.released.len() + self.pending.len()
    }
}

impl Forwarder {
    /// The state by which it goes on in another process, as it is now; all that is due is handed
    /// over before. `None`: a link or a flow is many, by a mask, or there are rules.
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

    /// Goes on from where one of the same scenario ended in another process, before anything of its
    /// own was read. `adapt` makes of a unit there one of here.
    ///
    /// # Errors
    /// This is not the state of such a forwarder, or there is no memory for its packets.
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

    /// Keeps a packet that another process has read.
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
