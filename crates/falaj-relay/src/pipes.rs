//! The link: the engine, what is on its way through it, and when that is due.

use crate::room::Room;
use falaj_engine::engine::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{Corrupt, Emit, Engine, Output, PipeId};
use falaj_scenario::{Direction, Link};
use falaj_sched::params::{Refusals, Setup, Value};
use falaj_sched::plugin::Breach;
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::time::{Span, Time};
use falaj_traffic::meter::Meter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Instant;

/// The pipe from those who connect to whom they connect to.
pub(crate) const UP: usize = 0;
/// The pipe back.
pub(crate) const DOWN: usize = 1;

/// What was measured of a flow.
#[derive(Clone, Debug, Default)]
pub struct RelayFlow {
    /// Packets: datagrams, and the segments that streams are cut into.
    pub counters: Counters,
    /// Nominal delay of what was handed over: last bit in to last bit out of the queue.
    pub delay: Meter,
    /// How late it was handed over.
    pub release_error: Meter,
}

/// What becomes of a packet.
pub(crate) enum Fate<T> {
    /// It is at the far end of the link.
    Due(T),
    /// It is too large, or the discipline threw it away.
    Lost(T),
}

/// A packet on its way.
struct OnItsWay<T> {
    item: T,
    /// Bytes of room that it takes in a queue.
    room: Option<u32>,
}

/// What may be on its way.
pub(crate) trait Cargo: Sized {
    /// The same once more; `None` if it comes once only.
    fn copy(&self) -> Option<Self>;
    /// Turns a bit of it.
    fn corrupt(&mut self, corrupt: &Corrupt);
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    due: Time,
    sequence: u64,
    handle: u32,
    pipe: usize,
    flow: usize,
    nominal: Span,
}

/// Both directions of the link.
///
/// The queues' limits are kept here and not by the engine: a stream waits for room before it is read, which the engine,
/// that takes or drops what comes, has no way to ask for.
pub(crate) struct Pipes<T> {
    zero: Instant,
    engine: Engine,
    rooms: [Vec<Arc<Room>>; 2],
    items: Vec<Option<OnItsWay<T>>>,
    free: Vec<u32>,
    out: Vec<Output>,
    fates: Vec<Fate<T>>,
    releases: BinaryHeap<Reverse<Release>>,
    sequence: u64,
    flows: [Vec<RelayFlow>; 2],
    /// Those who found no room.
    refused: [Vec<Refused>; 2],
}

#[derive(Clone, Copy, Default)]
struct Refused {
    packets: u64,
    bytes: u64,
}

/// What no queue reaches: the rooms are full long before.
const NONE: Limit = Limit::Bytes(u32::MAX as u64);

/// Takes the limits of all queues away; they come back as rooms, one for each flow that packets belong to. A FIFO has
/// one queue, and so one room, for all of its flows.
fn lift(kind: &str, setup: &mut Setup, rooms: &mut Vec<Arc<Room>>) {
    let shared = (kind == "fifo").then(|| {
        let limit = setup.scheduler.limit("queue").unwrap_or_else(|| sum(setup));
        setup.scheduler.set("queue", Value::Limit(NONE));
        Arc::new(Room::new(limit))
    });
    for flow in &mut setup.flows {
        match &mut flow.inner {
            Some(inner) => lift(inner.kind, &mut inner.setup, rooms),
            None => {
                rooms.push(shared.clone().unwrap_or_else(|| Arc::new(Room::new(flow.limit))));
                flow.limit = NONE;
            }
        }
    }
}

/// The flows' limits together; in bytes as soon as one of them is.
fn sum(setup: &Setup) -> Limit {
    let bytes = |limit| match limit {
        Limit::Bytes(n) => n,
        Limit::Packets(n) => u64::from(n).saturating_mul(setup.largest.into()),
    };
    let limits = || setup.flows.iter().map(|flow| flow.limit);
    let packets = limits().try_fold(0u32, |sum, limit| match limit {
        Limit::Packets(n) => Some(sum.saturating_add(n)),
        Limit::Bytes(_) => None,
    });
    packets.map_or_else(|| Limit::Bytes(limits().map(bytes).fold(0, u64::saturating_add)), Limit::Packets)
}

fn unlimited(direction: &Direction) -> (PipeSpec, Vec<Arc<Room>>) {
    let mut pipe = direction.pipe();
    let mut rooms = Vec::new();
    lift(pipe.kind, &mut pipe.setup, &mut rooms);
    (pipe, rooms)
}

impl<T: Cargo> Pipes<T> {
    pub(crate) fn new(link: &Link) -> Result<Pipes<T>, Refusals> {
        let [(up, rooms_up), (down, rooms_down)] = [&link.up, &link.down].map(unlimited);
        let rooms = [rooms_up, rooms_down];
        Ok(Pipes {
            zero: Instant::now(),
            engine: Engine::new(&[up, down]).map_err(|(_, refused)| refused)?,
            items: Vec::new(),
            free: Vec::new(),
            out: Vec::new(),
            fates: Vec::new(),
            releases: BinaryHeap::new(),
            sequence: 0,
            flows: rooms.each_ref().map(|rooms| vec![RelayFlow::default(); rooms.len()]),
            refused: rooms.each_ref().map(|rooms| vec![Refused::default(); rooms.len()]),
            rooms,
        })
    }

    /// The queue of a flow.
    pub(crate) fn room(&self, pipe: usize, flow: FlowId) -> &Arc<Room> {
        &self.rooms[pipe][flow.index()]
    }

    /// Nothing waits for room any more.
    pub(crate) fn close(&self) {
        self.rooms.iter().flatten().for_each(|room| room.close());
    }

    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A datagram: it is lost where there is no room for it.
    pub(crate) fn offer(&mut self, pipe: usize, flow: FlowId, bytes: u32, item: T) {
        if self.room(pipe, flow).try_take(bytes) {
            self.input(pipe, flow, bytes, item, true);
        } else {
            let refused = &mut self.refused[pipe][flow.index()];
            refused.packets += 1;
            refused.bytes += u64::from(bytes);
        }
    }

    /// Something that has room, or that takes none: the first and the last word of a stream.
    pub(crate) fn input(&mut self, pipe: usize, flow: FlowId, bytes: u32, item: T, counted: bool) {
        let handle = self.hold(OnItsWay { item, room: counted.then_some(bytes) });
        let now = self.now();
        self.engine.input(PipeId(pipe as u32), Unit { flow, handle, bytes }, now, &mut self.out);
        self.note();
    }

    /// What has come to its end by now, in order.
    pub(crate) fn poll(&mut self) -> Vec<Fate<T>> {
        let now = self.now();
        self.engine.poll(now, &mut self.out);
        self.note();
        while let Some(Reverse(next)) = self.releases.peek()
            && next.due <= now
        {
            let Some(Reverse(Release { due, handle, pipe, flow, nominal, .. })) = self.releases.pop() else { break };
            let flow = &mut self.flows[pipe][flow];
            flow.delay.record(nominal);
            flow.release_error.record(now.since(due));
            if let Some(gone) = self.items[handle as usize].take() {
                self.fates.push(Fate::Due(gone.item));
            }
            self.free.push(handle);
        }
        std::mem::take(&mut self.fates)
    }

    /// Do queues drop what got in, or what they have room for?
    pub(crate) fn drop_early(&self) -> bool {
        [0, 1].into_iter().any(|pipe| self.engine.drops_early(PipeId(pipe)))
    }

    /// When `poll` will have something, as far as that is known.
    pub(crate) fn next_due(&self) -> Time {
        let due = self.releases.peek().map_or(Time::NEVER, |r| r.0.due);
        due.min(self.engine.next_due())
    }

    fn note(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain(..) {
            match output {
                Output::Emit(e) => {
                    self.leaves_its_queue(e.pipe, e.flow, e.handle);
                    self.release(&e, e.handle);
                }
                Output::Copy(e) => {
                    let copy = self.items[e.handle as usize].as_ref().and_then(|way| way.item.copy());
                    let Some(item) = copy else { continue };
                    let handle = self.hold(OnItsWay { item, room: None });
                    self.release(&e, handle);
                }
                // A relay has no IP headers, and tells of no packet that it may be marked.
                Output::Mark(_) | Output::Early(_) => {}
                Output::Corrupt(corrupt) => {
                    if let Some(way) = &mut self.items[corrupt.handle as usize] {
                        way.item.corrupt(&corrupt);
                    }
                }
                Output::Drop(d) => {
                    self.leaves_its_queue(d.pipe, d.flow, d.handle);
                    if let Some(gone) = self.items[d.handle as usize].take() {
                        self.fates.push(Fate::Lost(gone.item));
                    }
                    self.free.push(d.handle);
                }
            }
        }
        self.out = out;
    }

    /// A handle for something on its way.
    fn hold(&mut self, item: OnItsWay<T>) -> u32 {
        match self.free.pop() {
            Some(handle) => {
                self.items[handle as usize] = Some(item);
                handle
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        }
    }

    fn leaves_its_queue(&mut self, pipe: PipeId, flow: FlowId, handle: u32) {
        if let Some(bytes) = self.items[handle as usize].as_mut().and_then(|way| way.room.take()) {
            self.rooms[pipe.0 as usize][flow.index()].give_back(bytes);
        }
    }

    fn release(&mut self, emit: &Emit, handle: u32) {
        self.sequence += 1;
        let (due, sequence, nominal) = (emit.due, self.sequence, emit.end - emit.arrival);
        let (pipe, flow) = (emit.pipe.0 as usize, emit.flow.index());
        self.releases.push(Reverse(Release { due, sequence, handle, pipe, flow, nominal }));
    }

    /// Up, then down, how disciplines of libraries broke their contract.
    pub(crate) fn breaches(&self) -> [Vec<Breach>; 2] {
        [0, 1].map(|pipe| self.engine.breaches(PipeId(pipe)))
    }

    /// What was measured so far: up, then down, by flow.
    pub(crate) fn flows(&self) -> [Vec<RelayFlow>; 2] {
        let mut flows = self.flows.clone();
        for (p, pipe) in flows.iter_mut().enumerate() {
            for (f, flow) in pipe.iter_mut().enumerate() {
                let refused = self.refused[p][f];
                flow.counters = self.engine.counters(PipeId(p as u32), FlowId(f as u32));
                flow.counters.offered += refused.packets;
                flow.counters.offered_bytes += refused.bytes;
                flow.counters.dropped_full += refused.packets;
            }
        }
        flows
    }
}
