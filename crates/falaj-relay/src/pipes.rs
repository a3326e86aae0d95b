//! The links: the engine, the packets in transit, and their due times.

use crate::backpressure::QueueRoom;
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::masks::SojournStats;
use falaj_engine::network::{IngressPacket, Network, Route, RouteError};
use falaj_engine::pipe::Counters;
use falaj_engine::rules::{RouteRule, RuleCounters};
use falaj_engine::{Corrupt, Emit, Output, PipeId};
use falaj_scenario::Scenario;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::params::{ConfigErrors, Setup, Value};
use falaj_sched::disciplines::fifo;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::label::Label;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Instant;

/// The pipe from the clients to the far address.
pub(crate) const UP: usize = 0;
/// The pipe from the far address to the clients.
pub(crate) const DOWN: usize = 1;

/// Measurements of a flow.
#[derive(Clone, Debug, Default)]
pub struct RelayFlow {
    /// Packets: datagrams, and the segments that streams are cut into.
    pub counters: Counters,
    /// Nominal delay of delivered packets, from the last bit into the queue to the last bit out of
    /// it.
    pub delay: Meter,
    /// Release error: how much later than its nominal instant each packet was delivered.
    pub release_error: Meter,
}

/// The fate of a packet.
pub(crate) enum PacketOutcome<T> {
    /// The packet has arrived at the far end of the link.
    Due(T),
    /// The engine has dropped the packet.
    Lost(T),
}

/// A packet in transit.
struct OnItsWay<T> {
    item: T,
    /// Bytes that the packet takes in a queue, and the room of that queue.
    room: Option<(u32, Arc<QueueRoom>)>,
}

/// The route of a packet, and the header fields that rules and masks compare.
#[derive(Clone, Copy)]
pub(crate) struct IngressRoute {
    pub(crate) entry: Route,
    pub(crate) key: Key,
}

/// The data of a packet in transit.
pub(crate) trait Cargo: Sized {
    /// A copy of the packet; `None` if it cannot be duplicated.
    fn copy(&self) -> Option<Self>;
    /// Flips a bit of the packet.
    fn corrupt(&mut self, corrupt: &Corrupt);
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PendingRelease {
    due: Time,
    sequence: u64,
    handle: u32,
    pipe: usize,
    flow: usize,
    nominal: Span,
}

/// Both directions of all links.
///
/// The queues' limits are kept here and not by the engine: a stream waits for room before it is
/// read, but the engine either accepts or drops an arriving packet. If rules lead packets through
/// links in sequence, the limits stay with the engine: the relay accepts no streams for such links.
pub(crate) struct Pipes<T> {
    zero: Instant,
    network: Network,
    /// The room in each queue, by pipe and flow.
    rooms: Vec<Vec<Arc<QueueRoom>>>,
    /// Number of pipes that belong to links. The bypass, for packets that pass without a link, has
    /// two more pipes.
    links: usize,
    items: Vec<Option<OnItsWay<T>>>,
    free: Vec<u32>,
    out: Vec<Output>,
    fates: Vec<PacketOutcome<T>>,
    releases: BinaryHeap<Reverse<PendingRelease>>,
    sequence: u64,
    flows: Vec<Vec<RelayFlow>>,
    /// Packets that found no room, by pipe and flow.
    turned_away: Vec<Vec<TurnedAway>>,
}

#[derive(Clone, Copy, Default)]
struct TurnedAway {
    packets: u64,
    bytes: u64,
}

/// A limit that no queue reaches, because the rooms are full long before.
const NONE: Limit = Limit::Bytes(u32::MAX as u64);

/// Removes the limits of all queues; they are replaced by rooms, one for each flow that packets
/// belong to. A FIFO has one queue, and so one room, for all of its flows.
fn lift(kind: &str, setup: &mut Setup, rooms: &mut Vec<Arc<QueueRoom>>) {
    let shared = (kind == fifo::MANIFEST.kind).then(|| {
        let limit = setup.scheduler.limit("queue").unwrap_or_else(|| sum(setup));
        setup.scheduler.set("queue", Value::Limit(NONE));
        Arc::new(QueueRoom::new(limit))
    });
    for flow in &mut setup.flows {
        match &mut flow.inner {
            Some(inner) => lift(inner.kind, &mut inner.setup, rooms),
            None => {
                rooms.push(shared.clone().unwrap_or_else(|| Arc::new(QueueRoom::new(flow.limit))));
                flow.limit = NONE;
            }
        }
    }
}

/// The sum of the flows' limits, in packets if all of them are in packets, else in bytes.
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
    packets.map_or_else(
        || Limit::Bytes(limits().map(bytes).fold(0, u64::saturating_add)),
        Limit::Packets,
    )
}

impl<T: Cargo> Pipes<T> {
    pub(crate) fn new(scenario: &Scenario) -> Result<Pipes<T>, ConfigErrors> {
        let mut spec = scenario.network();
        let mut rooms = Vec::new();
        let chain = spec.rules.iter().any(RouteRule::leads_on);
        for place in spec.places.iter_mut().filter(|_| !chain) {
            let mut of_flows = Vec::new();
            lift(place.pipe.kind, &mut place.pipe.setup, &mut of_flows);
            rooms.push(of_flows);
        }
        let links = spec.places.len();
        let network = Network::new(&spec).map_err(|(_, refused)| refused)?;
        // Rooms without a limit: those of links in sequence, and of the bypass.
        let flows = network.flows();
        let open = |flows: &usize| (0..*flows).map(|_| Arc::new(QueueRoom::new(NONE))).collect();
        rooms.extend(flows[rooms.len()..].iter().map(open));
        Ok(Pipes {
            zero: Instant::now(),
            network,
            links,
            items: Vec::new(),
            free: Vec::new(),
            out: Vec::new(),
            fates: Vec::new(),
            releases: BinaryHeap::new(),
            sequence: 0,
            flows: flows.iter().map(|&n| vec![RelayFlow::default(); n]).collect(),
            turned_away: flows.iter().map(|&n| vec![TurnedAway::default(); n]).collect(),
            rooms,
        })
    }

    /// The route of a packet of `length` bytes in direction up (0) or down (1). Its rule counts it
    /// as taken.
    pub(crate) fn route(
        &mut self,
        key: Key,
        way: usize,
        length: u32,
    ) -> Result<IngressRoute, RouteError> {
        let now = self.now();
        Ok(IngressRoute { entry: self.network.route(&key, way, length, now)?, key })
    }

    /// The room of the queue that a packet enters.
    pub(crate) fn room(&self, entry: &Route) -> &Arc<QueueRoom> {
        &self.rooms[entry.pipe.0 as usize][entry.flow.index()]
    }

    /// The accounting layer of the link that a packet enters.
    pub(crate) fn layer(&self, entry: &Route) -> CountedLayer {
        self.network.layer(entry.pipe).unwrap_or(CountedLayer::Ip)
    }

    /// Closes all rooms, so that no thread waits any more.
    pub(crate) fn close(&self) {
        self.rooms.iter().flatten().for_each(|room| room.close());
    }

    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Offers a datagram, whose length includes its headers: it is lost if there is no room for it.
    pub(crate) fn offer(&mut self, way: &IngressRoute, length: u32, item: T) {
        let entry = &way.entry;
        let bytes = self.network.bytes(entry.pipe, length);
        if self.room(entry).try_take(bytes) {
            self.input(way, length, item, true);
        } else {
            self.network.turned_away(entry);
            let away = &mut self.turned_away[entry.pipe.0 as usize][entry.flow.index()];
            away.packets += 1;
            away.bytes += u64::from(bytes);
        }
    }

    /// Sends a packet. If `counted`, it has taken room in its queue, and gives the room back when
    /// it leaves. Messages that open or end a stream take no room.
    pub(crate) fn input(&mut self, way: &IngressRoute, length: u32, item: T, counted: bool) {
        let IngressRoute { entry, key } = way;
        let room =
            counted.then(|| (self.network.bytes(entry.pipe, length), self.room(entry).clone()));
        let handle = self.hold(OnItsWay { item, room });
        let now = self.now();
        self.network.enter(
            *entry,
            key,
            IngressPacket { handle, length, label: &Label::default() },
            now,
            &mut self.out,
        );
        self.note();
    }

    /// The packets that were lost or delivered since the last call; the delivered packets are in
    /// the order of their due times.
    pub(crate) fn poll(&mut self) -> Vec<PacketOutcome<T>> {
        let now = self.now();
        self.network.poll(now, &mut self.out);
        self.note();
        while let Some(Reverse(next)) = self.releases.peek()
            && next.due <= now
        {
            let Some(Reverse(PendingRelease { due, handle, pipe, flow, nominal, .. })) =
                self.releases.pop()
            else {
                break;
            };
            let flow = &mut self.flows[pipe][flow];
            flow.delay.record(nominal);
            flow.release_error.record(now.since(due));
            if let Some(gone) = self.items[handle as usize].take() {
                self.fates.push(PacketOutcome::Due(gone.item));
            }
            self.free.push(handle);
        }
        std::mem::take(&mut self.fates)
    }

    /// Returns true if queues may drop packets that are queued, or for which there is room.
    pub(crate) fn drop_early(&self) -> bool {
        (0..self.links as u32).any(|pipe| self.network.drops_early(PipeId(pipe)))
    }

    /// The earliest time at which `poll` can return packets, if none arrives before.
    pub(crate) fn next_due(&self) -> Time {
        let due = self.releases.peek().map_or(Time::NEVER, |r| r.0.due);
        due.min(self.network.next_due())
    }

    fn note(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain(..) {
            match output {
                Output::Emit(e) => {
                    self.leaves_its_queue(e.handle);
                    self.release(&e, e.handle);
                }
                Output::Copy(e) => {
                    let copy =
                        self.items[e.handle as usize].as_ref().and_then(|way| way.item.copy());
                    let Some(item) = copy else { continue };
                    let handle = self.hold(OnItsWay { item, room: None });
                    self.release(&e, handle);
                }
                // A relay has no IP headers, and never announces that a packet may be marked. The
                // network itself tells the next link how early a packet left.
                Output::Mark(_) | Output::Early(_) => {}
                // The links of a relay never change.
                Output::Retimed(_) => {}
                Output::Corrupt(corrupt) => {
                    if let Some(way) = &mut self.items[corrupt.handle as usize] {
                        way.item.corrupt(&corrupt);
                    }
                }
                Output::Drop(d) => {
                    self.leaves_its_queue(d.handle);
                    if let Some(gone) = self.items[d.handle as usize].take() {
                        self.fates.push(PacketOutcome::Lost(gone.item));
                    }
                    self.free.push(d.handle);
                }
            }
        }
        self.out = out;
        for emit in self.network.passed() {
            self.flows[emit.pipe.0 as usize][emit.flow.index()]
                .delay
                .record(emit.end - emit.arrival);
        }
    }

    /// Stores a packet in transit, and returns its handle.
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

    fn leaves_its_queue(&mut self, handle: u32) {
        if let Some((bytes, room)) =
            self.items[handle as usize].as_mut().and_then(|way| way.room.take())
        {
            room.give_back(bytes);
        }
    }

    fn release(&mut self, emit: &Emit, handle: u32) {
        self.sequence += 1;
        let (due, sequence, nominal) = (emit.due, self.sequence, emit.end - emit.arrival);
        let (pipe, flow) = (emit.pipe.0 as usize, emit.flow.index());
        self.releases.push(Reverse(PendingRelease { due, sequence, handle, pipe, flow, nominal }));
    }

    /// Breaches of contract by plugin disciplines: for each link, the directions up and down.
    pub(crate) fn breaches(&self) -> Vec<Vec<Breach>> {
        (0..self.links as u32).map(|pipe| self.network.breaches(PipeId(pipe))).collect()
    }

    /// Measurements so far: for each link the directions up and down, and for each direction its
    /// flows.
    pub(crate) fn flows(&self) -> Vec<Vec<RelayFlow>> {
        let mut flows = self.flows[..self.links].to_vec();
        for (p, pipe) in flows.iter_mut().enumerate() {
            for (f, flow) in pipe.iter_mut().enumerate() {
                let away = self.turned_away[p][f];
                flow.counters = self.network.counters(PipeId(p as u32), FlowId(f as u32));
                flow.counters.offered += away.packets;
                flow.counters.offered_bytes += away.bytes;
                flow.counters.dropped_full += away.packets;
            }
        }
        flows
    }

    /// Counters of the packets that each rule has taken, and their statistics.
    pub(crate) fn rules(&self) -> Vec<(RuleCounters, SojournStats)> {
        self.network
            .taken()
            .iter()
            .copied()
            .zip(self.network.active().iter().map(|active| active.stats))
            .collect()
    }

    /// Number of packets that left a link and matched no flow of the next link.
    pub(crate) fn unmatched(&self) -> u64 {
        self.network.unmatched()
    }
}
