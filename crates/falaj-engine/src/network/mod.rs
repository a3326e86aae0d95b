//! A network of several pipes: rules determine the pipes that a packet passes, and their order. A
//! packet that leaves a pipe enters the next at the instant at which it is due there. A single link
//! without rules uses the plain [`Engine`], at no additional cost.
//!
//! A packet enters in two steps. [`Network::route`] finds its pipe and flow by its key.
//! [`Network::enter`] puts it there. The outputs are those of the last pipe; [`Network::passed`]
//! returns the packets that left the pipes before it.
//!
//! | module | contents |
//! |---|---|
//! | `spec` | the specification of a network |
//! | `ingress` | the classification of packets that enter a pipe |
//! | `in_transit` | packets in the network |
//! | `change` | changes while packets pass |

mod change;
mod in_transit;
mod ingress;
mod spec;

pub use change::{IngressChange, NetworkChange, PipePlaces, RuleChange};
pub use spec::{NetworkSpec, PlacedPipe, unlimited};

use crate::Engine;
use crate::counted_layer::CountedLayer;
use crate::key::Key;
use crate::masks::{MaskIds, MaskStats};
use crate::message::{Emit, Output, PipeId, Unit};
use crate::pipe::{Counters, PipeSpec, PipeState};
use crate::rules::{RuleCounters, RuleOutcome, RulePosition, RuleSet, RuleStats};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::Time;
use in_transit::{Hop, InTransit, WireLog};
use ingress::Ingress;
use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The pipe and flow where a packet enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The pipe.
    pub pipe: PipeId,
    /// The flow of that pipe.
    pub flow: FlowId,
    /// The rule that took it; `None` without rules, and for a packet that passes no link.
    at: Option<RulePosition>,
    /// The mark that rules have set.
    mark: u32,
}

impl Route {
    /// The key of a packet that enters there, with the mark that rules have set.
    #[inline]
    fn marked(&self, key: &Key) -> Key {
        Key { mark: self.mark, ..*key }
    }
}

/// The reason why a packet does not enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteError {
    /// A rule drops it.
    Dropped,
    /// No rule matches it, or no flow of its link.
    Unmatched,
}

/// An entering packet: a handle to bytes that are stored elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressPacket<'a> {
    /// The driver's handle for the bytes. The network gives it back just once, by [`Output::Emit`]
    /// or [`Output::Drop`].
    pub handle: u32,
    /// Length of the IP packet.
    pub length: u32,
    /// The label for queue policies, if [`Network::wants_labels`].
    pub label: &'a Label,
}

/// Pipes, and the rules that determine the pipes of a packet.
pub struct Network {
    engine: Engine,
    places: Vec<Ingress>,
    /// By pipe, true if it reads labels.
    reads_labels: Vec<bool>,
    rules: Option<RuleSet>,
    /// True if a packet may pass several pipes.
    chain: bool,
    /// The first of two pipes without limits, for packets that pass no link.
    bypass: Option<u32>,
    /// Without rules, the largest handle of a packet that entered.
    highest: u32,
    /// The packets in the network, and their keys, by the engine's handle; empty without rules.
    passing: Vec<InTransit>,
    keys: Vec<Key>,
    free: Vec<u32>,
    /// Numbers of packets that share the same bytes; the first entry is unused.
    shares: Vec<u32>,
    hops: BinaryHeap<Reverse<Hop>>,
    made: u64,
    inner: Vec<Output>,
    passed: Vec<Emit>,
    /// By pipe, the packets on its wire.
    sending: Vec<WireLog>,
    /// Packets behind a link that match no flow of the next link.
    unmatched: u64,
    /// True while memory is short: masks create no additional ids then.
    short_of_memory: bool,
}

/// A plain engine, whose units come with their flow and their accounted length.
impl From<Engine> for Network {
    fn from(engine: Engine) -> Network {
        Network::with(engine, Vec::new(), None, None)
    }
}

impl Network {
    /// Builds the pipes; [`PipeId`]s follow their order. An error names the pipe.
    pub fn new(spec: &NetworkSpec) -> Result<Network, (PipeId, ConfigErrors)> {
        let rules = (!spec.rules.is_empty()).then(|| RuleSet::new(spec.rules.clone(), spec.seed));
        let mut pipes: Vec<PipeSpec> = spec.places.iter().map(|place| place.pipe.clone()).collect();
        let bypass = rules.as_ref().is_some_and(RuleSet::pass).then_some(pipes.len() as u32);
        if bypass.is_some() {
            pipes.extend([unlimited(), unlimited()]);
        }
        let entrance = |place: &PlacedPipe| {
            Ingress::new(place.classifier.clone(), place.layer, place.pipe.masks.clone())
        };
        let mut places: Vec<Ingress> = spec.places.iter().map(entrance).collect();
        places.resize(pipes.len(), Ingress::open());
        Ok(Network::with(Engine::new(&pipes)?, places, rules, bypass))
    }

    fn with(
        engine: Engine,
        places: Vec<Ingress>,
        rules: Option<RuleSet>,
        bypass: Option<u32>,
    ) -> Network {
        Network {
            reads_labels: reads_labels(&engine),
            engine,
            places,
            chain: rules.as_ref().is_some_and(RuleSet::chain),
            rules,
            bypass,
            highest: 0,
            passing: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            shares: vec![0],
            hops: BinaryHeap::new(),
            made: 0,
            inner: Vec::new(),
            passed: Vec::new(),
            sending: Vec::new(),
            unmatched: 0,
            short_of_memory: false,
        }
    }

    /// Returns true if a packet in this direction needs its key, for the route or for a label.
    pub fn wants_key(&self, way: usize) -> bool {
        self.rules.is_some()
            || self.places.get(way).is_some_and(|place| place.wants_key)
            || self.wants_labels()
    }

    /// Returns true if any pipe reads labels.
    pub fn wants_labels(&self) -> bool {
        self.reads_labels.contains(&true)
    }

    /// Returns true if a pipe may drop packets that are queued, or that have room; see
    /// [`Engine::drops_early`].
    pub fn drops_early(&self, pipe: PipeId) -> bool {
        self.engine.drops_early(pipe)
    }

    /// Returns true if there are rules, so that the route of a packet depends on more than its key.
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// The pipe and flow where a packet of `length` bytes enters, in direction up (0) or down (1),
    /// at `now`. Its rule counts it as taken.
    #[inline]
    pub fn route(
        &mut self,
        key: &Key,
        way: usize,
        length: u32,
        now: Time,
    ) -> Result<Route, RouteError> {
        let Some(rules) = &mut self.rules else {
            let flow = self.places.get(way).and_then(|place| place.classifier.flow_of(key));
            let flow = flow.ok_or(RouteError::Unmatched)?;
            return Ok(Route { pipe: PipeId(way as u32), flow, at: None, mark: 0 });
        };
        let mut key = *key;
        match rules.from(0, &mut key, way, length, now) {
            RuleOutcome::Link(link, at) => {
                let pipe = 2 * link as usize + way;
                let flow =
                    self.places[pipe].classifier.flow_of(&key).ok_or(RouteError::Unmatched)?;
                Ok(Route { pipe: PipeId(pipe as u32), flow, at: Some(at), mark: key.mark })
            }
            RuleOutcome::Pass => {
                // A rule that lets packets pass requires a bypass.
                let pipe = PipeId(self.bypass.unwrap_or(0) + way as u32);
                Ok(Route { pipe, flow: FlowId(0), at: None, mark: 0 })
            }
            RuleOutcome::Drop => Err(RouteError::Dropped),
            RuleOutcome::Nothing => Err(RouteError::Unmatched),
        }
    }

    /// Counts a packet that the driver does not hand in, because there is no room: the packet's
    /// rule counts it as dropped.
    pub fn turned_away(&mut self, entry: &Route) {
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(entry.at)) {
            stats.dropped += 1;
        }
    }

    /// The route of a packet whose pipe and flow are known.
    pub fn route_to(&self, pipe: PipeId, flow: FlowId) -> Route {
        Route { pipe, flow, at: None, mark: 0 }
    }

    /// The accounting layer of packets that enter a pipe.
    pub fn layer(&self, pipe: PipeId) -> Option<CountedLayer> {
        self.places.get(pipe.0 as usize).map(|place| place.layer)
    }

    /// The accounted length of a packet that enters a pipe.
    #[inline]
    pub fn bytes(&self, pipe: PipeId, length: u32) -> u32 {
        /// The largest length that the engine accepts.
        const LONGEST: u32 = (1 << 31) - 1;
        let layer = self.places.get(pipe.0 as usize).map(|place| place.layer);
        layer.map_or(length, |layer| layer.from_ip(length)).clamp(1, LONGEST)
    }

    /// Sets whether memory is short: while it is, a mask has no more ids than before, and further
    /// ids share queues or links.
    pub fn set_short_of_memory(&mut self, short: bool) {
        self.short_of_memory = short;
    }

    /// Returns true if memory is short.
    pub fn is_short_of_memory(&self) -> bool {
        self.short_of_memory
    }

    /// The ids of a packet under the masks of a pipe, if it has any.
    #[inline]
    fn ids(&self, pipe: PipeId, flow: FlowId, key: &Key) -> Option<MaskIds> {
        let place = self.places.get(pipe.0 as usize).filter(|place| place.masked);
        place.map(|place| MaskIds { short: self.short_of_memory, ..place.masks.ids(flow, key) })
    }

    /// Puts a packet into the pipe and flow that [`Network::route`] returned. First runs all events
    /// due until `now`. `now` never goes back.
    #[inline(always)]
    pub fn enter(
        &mut self,
        entry: Route,
        key: &Key,
        packet: IngressPacket<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        if self.rules.is_some() {
            return self.enter_by_rules(entry, key, packet, now, out);
        }
        let IngressPacket { handle, length, label } = packet;
        let unit = Unit { flow: entry.flow, handle, bytes: self.bytes(entry.pipe, length) };
        let ids = self.ids(entry.pipe, entry.flow, key);
        self.highest = self.highest.max(handle);
        self.input(entry.pipe, unit, ids.as_ref(), label, now, out);
    }

    /// Puts a unit into a pipe, with its label if the pipe reads labels.
    #[inline(always)]
    fn input(
        &mut self,
        pipe: PipeId,
        unit: Unit,
        ids: Option<&MaskIds>,
        label: &Label,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let ids = ids.unwrap_or(&MaskIds::NONE);
        match self.reads_labels[pipe.0 as usize] {
            true => self.engine.input_labelled(pipe, unit, ids, *label, now, out),
            false => self.engine.input_of(pipe, unit, ids, now, out),
        }
    }

    /// Like [`input`](Network::input), but keeps the outputs in the network for now.
    fn input_within(
        &mut self,
        pipe: PipeId,
        unit: Unit,
        ids: Option<&MaskIds>,
        label: &Label,
        now: Time,
    ) {
        let mut inner = std::mem::take(&mut self.inner);
        self.input(pipe, unit, ids, label, now, &mut inner);
        self.inner = inner;
    }

    fn enter_by_rules(
        &mut self,
        entry: Route,
        key: &Key,
        packet: IngressPacket<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let key = &entry.marked(key);
        let on = entry.at.zip(self.rules.as_ref()).is_some_and(|(at, rules)| rules.goes_on(at));
        self.poll(now, out);
        let IngressPacket { length, label, .. } = packet;
        let slot = self.keep(packet, entry.at, if on { *key } else { Key::default() });
        let unit = Unit { flow: entry.flow, handle: slot, bytes: self.bytes(entry.pipe, length) };
        let ids = self.ids(entry.pipe, entry.flow, key);
        self.input_within(entry.pipe, unit, ids.as_ref(), label, now);
        self.sort(out);
    }

    /// Runs all events due until `now`, each at its own instant.
    #[inline]
    pub fn poll(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.rules.is_none() {
            return self.engine.poll(now, out);
        }
        if !self.chain {
            self.engine.poll(now, &mut self.inner);
            return self.sort(out);
        }
        loop {
            let hop = self.hops.peek().map_or(Time::NEVER, |hop| hop.0.due);
            let event = self.engine.next_event();
            if hop.min(event) > now || hop.min(event) == Time::NEVER {
                return;
            }
            // Events come before arrivals, as within the engine. One instant is handled at a time,
            // because packets that leave at that instant may enter the next pipe before another
            // event.
            if event <= hop {
                self.engine.poll(event, &mut self.inner);
            } else if let Some(Reverse(Hop { due, pipe, flow, slot, .. })) = self.hops.pop() {
                let (pipe, flow) = (PipeId(pipe), FlowId(flow));
                let InTransit { length, label, .. } = self.passing[slot as usize];
                let unit = Unit { flow, handle: slot, bytes: self.bytes(pipe, length) };
                let ids = self.ids(pipe, flow, &self.keys[slot as usize]);
                self.input_within(pipe, unit, ids.as_ref(), &label, due);
            }
            self.sort(out);
        }
    }

    /// Reports that the output port of this pipe's packets has room for `room` bytes; see
    /// [`Engine::port_room`]. With rules, this applies to all pipes of the same direction.
    pub fn port_room(&mut self, entrance: PipeId, room: u32, now: Time, out: &mut Vec<Output>) {
        if self.rules.is_none() {
            return self.engine.port_room(entrance, room, now, out);
        }
        self.poll(now, out);
        for pipe in self.towards(entrance) {
            self.engine.port_room(pipe, room, now, &mut self.inner);
            self.sort(out);
        }
    }

    /// The maximum backlog, in bytes, of the device that paces packets which enter this pipe;
    /// `None` if falaj paces all links that they may pass.
    pub fn backlog(&self, entrance: PipeId) -> Option<u32> {
        if self.rules.is_none() {
            return self.engine.backlog(entrance);
        }
        self.towards(entrance).filter_map(|pipe| self.engine.backlog(pipe)).max()
    }

    /// All pipes of this pipe's direction.
    fn towards(&self, pipe: PipeId) -> impl Iterator<Item = PipeId> + use<> {
        (pipe.0 % 2..self.reads_labels.len() as u32).step_by(2).map(PipeId)
    }

    /// See [`Engine::supplied_until`].
    pub fn supplied_until(&self) -> Time {
        self.engine.supplied_until()
    }

    /// See [`Engine::next_refill`].
    pub fn next_refill(&self) -> Time {
        self.engine.next_refill()
    }

    /// Returns true if a packet has left a pipe for another, or was lost between them, since the
    /// last call of [`passed`](Network::passed).
    #[inline]
    pub fn has_passed(&self) -> bool {
        !self.passed.is_empty()
    }

    /// The packets that have left a pipe for another, or were lost between them, since the last
    /// call.
    pub fn passed(&mut self) -> std::vec::Drain<'_, Emit> {
        self.passed.drain(..)
    }

    /// Counters of the packets that each rule has taken.
    pub fn taken(&self) -> &[RuleCounters] {
        self.rules.as_ref().map_or(&[], RuleSet::taken)
    }

    /// Statistics of the packets that each rule has taken, in the links that it leads to.
    pub fn active(&self) -> &[RuleStats] {
        self.rules.as_ref().map_or(&[], RuleSet::active)
    }

    /// Number of packets behind a link that matched no flow of the next link.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Time of the next event without input; [`Time::NEVER`] if there is none.
    pub fn next_event(&self) -> Time {
        self.engine.next_event().min(self.next_hop())
    }

    fn next_hop(&self) -> Time {
        self.hops.peek().map_or(Time::NEVER, |hop| hop.0.due)
    }

    /// Lower bound on the due time of units that are not decided yet; see [`Engine::next_due`].
    pub fn next_due(&self) -> Time {
        self.engine.next_due().min(self.next_hop())
    }

    /// Returns true if a packet of `length` bytes would find room where it enters.
    pub fn has_room(&self, entry: &Route, key: &Key, length: u32) -> bool {
        let ids = self.ids(entry.pipe, entry.flow, &entry.marked(key));
        let ids = ids.as_ref().unwrap_or(&MaskIds::NONE);
        self.engine.has_room(entry.pipe, entry.flow, ids, self.bytes(entry.pipe, length))
    }

    /// See [`Engine::ended_pipe_counters`].
    pub fn ended_pipe_counters(&self) -> Counters {
        self.engine.ended_pipe_counters()
    }

    /// Counters of removed rules.
    pub fn removed_rule_counters(&self) -> RuleCounters {
        self.rules.as_ref().map_or(RuleCounters::default(), RuleSet::removed_rule_counters)
    }

    /// See [`Engine::take_deferred_drops`].
    pub fn take_deferred_drops(&mut self) -> Vec<Box<dyn Any + Send>> {
        self.engine.take_deferred_drops()
    }

    /// The state from which a pipe resumes in another process; `None` if there are rules, or if the
    /// pipe has masks.
    pub fn state(&self, pipe: PipeId) -> Option<PipeState> {
        self.engine.state(pipe).filter(|_| self.rules.is_none())
    }

    /// See [`Engine::resume`].
    pub fn resume(
        &mut self,
        pipe: PipeId,
        state: PipeState,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> bool {
        self.highest = state.handles().fold(self.highest, u32::max);
        self.rules.is_none() && self.engine.resume(pipe, state, known, now, out)
    }

    /// See [`Engine::removed_flow_counters`].
    pub fn removed_flow_counters(&self, pipe: PipeId) -> Counters {
        self.engine.removed_flow_counters(pipe)
    }

    /// See [`Engine::mask_stats`].
    pub fn mask_stats(
        &self,
        pipe: PipeId,
        flow: Option<FlowId>,
        busiest: usize,
    ) -> Option<MaskStats> {
        self.engine.mask_stats(pipe, flow, busiest)
    }

    /// See [`Engine::mask_stats_part`].
    pub fn mask_stats_part(
        &self,
        pipe: PipeId,
        (flow, busiest): (Option<FlowId>, usize),
        (from, steps): (u64, usize),
        all: &mut Option<MaskStats>,
    ) -> Option<u64> {
        self.engine.mask_stats_part(pipe, (flow, busiest), (from, steps), all)
    }

    /// See [`Engine::is_masked`].
    pub fn is_masked(&self, pipe: PipeId, flow: FlowId) -> bool {
        self.engine.is_masked(pipe, flow)
    }

    /// See [`Engine::counters_part`].
    pub fn counters_part(
        &self,
        (pipe, flow): (PipeId, FlowId),
        (from, steps): (u64, usize),
        sum: &mut Counters,
    ) -> Option<u64> {
        self.engine.counters_part((pipe, flow), (from, steps), sum)
    }

    /// See [`Engine::overflowing_mask`].
    pub fn overflowing_mask(&self, pipe: PipeId) -> Option<Option<FlowId>> {
        self.engine.overflowing_mask(pipe)
    }

    /// Returns true if a flow or a link has a mask.
    pub fn has_masks(&self) -> bool {
        self.places.iter().any(|place| place.masked)
    }

    /// See [`Engine::breaches`].
    pub fn breaches(&self, pipe: PipeId) -> Vec<Breach> {
        self.engine.breaches(pipe)
    }

    /// See [`Engine::earliest_due`].
    pub fn earliest_due(&self, pipe: PipeId, bytes: u32, now: Time) -> Time {
        self.engine.earliest_due(pipe, bytes, now)
    }

    /// Counters of a flow.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.engine.counters(pipe, flow)
    }

    /// Number of flows of each pipe, including the pipes for packets that pass no link.
    pub fn flows(&self) -> Vec<usize> {
        self.engine.flows()
    }
}

/// By pipe, true if it reads labels.
fn reads_labels(engine: &Engine) -> Vec<bool> {
    (0..engine.flows().len() as u32).map(|pipe| engine.wants_labels(PipeId(pipe))).collect()
}
