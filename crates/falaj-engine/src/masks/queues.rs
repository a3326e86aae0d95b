//! A pipe in which some flows are many: a queue of its own for each id.
//!
//! Around a pipe of the expanded setup: packets get the place of their id, and
//! what comes out the flow that the driver knows.

use super::set::{IdTable, MaskStats};
use super::{Each, MaskIds, Masks};
use crate::handover::{FlowMapping, Handover};
use crate::message::{DropReason, Output, PipeId, Unit};
use crate::pipe::{Counters, DeferredDrops, Pipe, PipeParts, PipeSpec};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::{Span, Time};
use std::ops::Range;

pub(crate) struct MaskedQueues {
    inner: Box<dyn Pipe>,
    masks: Masks,
    /// Of each flow, its first in the inner pipe.
    firsts: Vec<FlowId>,
    /// The ids of each flow that has a mask.
    sets: Vec<Option<IdTable>>,
}

/// A pipe without the masks of its flows, and what those had made.
pub(crate) struct Unmasked {
    pub(crate) pipe: Box<dyn Pipe>,
    pub(crate) masks: Masks,
    /// By flow.
    pub(crate) sets: Vec<Option<IdTable>>,
}

impl Unmasked {
    /// Its pipe, and what becomes of each of its queues where there are these masks and so many
    /// flows. An id keeps its queue where mask and flow stay and there is one; all others join
    /// the first of those that ids share.
    pub(crate) fn into_others(
        self,
        masks: &Masks,
        flows: usize,
        how: &Handover,
    ) -> (Box<dyn Pipe>, Handover) {
        let firsts = masks.firsts(flows);
        let mut fates = Vec::new();
        for f in 0..self.sets.len() {
            let fate = how.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32)));
            let (is, first) = (masks.of(fate.flow().index()), firsts[fate.flow().index()].0);
            let shared = FlowId(first + is.map_or(0, |each| each.most));
            let was = self.masks.of(f);
            let same = was.zip(is).filter(|(was, is)| was.mask == is.mask);
            fates.extend((0..was.map_or(1, Each::places)).map(|place| match (fate, same) {
                (FlowMapping::Joins(_), _) => FlowMapping::Joins(shared),
                (FlowMapping::Dropped(_), _) => FlowMapping::Dropped(shared),
                (_, Some((was, is))) if place < was.most.min(is.most) => {
                    FlowMapping::PartOf(FlowId(first + place))
                }
                (_, Some((was, is))) if place >= was.most && place - was.most < is.shared() => {
                    FlowMapping::PartOf(FlowId(shared.0 + place - was.most))
                }
                _ => FlowMapping::PartOf(shared),
            }));
        }
        (self.pipe, Handover { flows: fates, drop: how.drop })
    }
}

impl MaskedQueues {
    /// Around a pipe that was built of the expanded setup.
    pub(crate) fn new(id: PipeId, spec: &PipeSpec, inner: Box<dyn Pipe>) -> MaskedQueues {
        let masks = spec.masks.clone();
        let flows = spec.setup.flows.len();
        let set = |f: usize| masks.of(f).map(|each| IdTable::new(*each, spec.seed, id.0, f as u32));
        let sets = (0..flows).map(set).collect();
        MaskedQueues { inner, sets, firsts: masks.firsts(flows), masks }
    }

    /// What came out of the inner pipe, as the driver knows it; and counts it.
    #[inline]
    fn tell(&mut self, out: &mut [Output]) {
        for output in out {
            let flow = match output {
                Output::Emit(emit) | Output::Copy(emit) => &mut emit.flow,
                Output::Drop(dropped) => &mut dropped.flow,
                Output::Mark(mark) => &mut mark.flow,
                Output::Early(early) => &mut early.flow,
                Output::Corrupt(_) => continue,
            };
            // Few flows are quickly searched; a table of all places would be read from memory.
            let (place, of) =
                (*flow, self.firsts.partition_point(|first| *first <= *flow).saturating_sub(1));
            *flow = FlowId(of as u32);
            let Some(set) = &mut self.sets[of] else { continue };
            let stats = set.stats_mut(place.0 - self.firsts[of].0);
            match output {
                Output::Emit(emit) => stats.sent(emit.bytes, emit.end - emit.arrival),
                Output::Drop(dropped) if dropped.why == DropReason::Lost => stats.lost += 1,
                Output::Drop(_) => stats.dropped += 1,
                Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
            }
        }
    }

    /// The flows of the inner pipe that were ever one of this flow.
    fn known(&self, flow: FlowId) -> impl Iterator<Item = FlowId> + use<> {
        let first = self.firsts[flow.index()].0;
        let places = self.sets[flow.index()].as_ref().map(IdTable::known);
        let one = places.is_none().then_some(0);
        places.into_iter().flatten().chain(one).map(move |place| FlowId(first + place))
    }
}

impl Pipe for MaskedQueues {
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let from = out.len();
        let first = self.firsts[unit.flow.index()];
        let place = match &mut self.sets[unit.flow.index()] {
            Some(set) => {
                let inner = &mut self.inner;
                set.comes(&ids.flow, now, |place| inner.is_reusable(FlowId(first.0 + place), now))
            }
            None => 0,
        };
        let due = self.inner.arrive(
            Unit { flow: FlowId(first.0 + place), ..unit },
            &MaskIds::NONE,
            now,
            out,
        );
        self.tell(&mut out[from..]);
        due
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        let from = out.len();
        let due = self.inner.event(now, out);
        self.tell(&mut out[from..]);
        due
    }

    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time {
        let from = out.len();
        let due = self.inner.port_room(room, now, out);
        self.tell(&mut out[from..]);
        due
    }

    fn next_due(&self) -> Time {
        self.inner.next_due()
    }

    fn next_refill(&self) -> Time {
        self.inner.next_refill()
    }

    fn supplied_until(&self) -> Time {
        self.inner.supplied_until()
    }

    fn backlog(&self) -> Option<u32> {
        self.inner.backlog()
    }

    fn least_delay(&self) -> Span {
        self.inner.least_delay()
    }

    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        let place = match &self.sets[flow.index()] {
            // One that nobody has yet is empty, and as long as the others.
            Some(set) => set.find(&ids.flow),
            None => Some(0),
        };
        place.is_none_or(|place| {
            self.inner.has_room(FlowId(self.firsts[flow.index()].0 + place), ids, bytes)
        })
    }

    fn soonest(&self, bytes: u32, now: Time) -> Time {
        self.inner.soonest(bytes, now)
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let first = self.firsts[flow.index()];
        let Some(set) = &self.sets[flow.index()] else { return self.inner.counters(first) };
        let (own, shared) = set.known_ranges();
        let of = |places: Range<u32>| {
            self.inner.sum(FlowId(first.0 + places.start), places.len() as u32)
        };
        let mut sum = of(own);
        sum.add(&of(shared));
        sum
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        self.inner.promise(self.firsts[flow.index()])
    }

    fn flows(&self) -> usize {
        self.firsts.len()
    }

    fn largest(&self) -> u32 {
        self.inner.largest()
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.inner.breaches(out);
    }

    fn largest_waiting(&self) -> u32 {
        self.inner.largest_waiting()
    }

    fn of_the_gone(&self) -> Counters {
        self.inner.of_the_gone()
    }

    fn announce(&mut self, label: Label) {
        self.inner.announce(label);
    }

    fn wants_labels(&self) -> bool {
        self.inner.wants_labels()
    }

    fn drops_early(&self) -> bool {
        self.inner.drops_early()
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.known(flow).all(|one| self.inner.is_reusable(one, now))
    }

    fn rests(&mut self, now: Time) -> bool {
        self.inner.rests(now)
    }

    fn masks(&self) -> &Masks {
        &self.masks
    }

    fn report(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        self.sets.get(flow?.index())?.as_ref().map(|set| set.report(busiest))
    }

    fn shares(&self) -> Option<Option<FlowId>> {
        let shares = |set: &Option<IdTable>| set.as_ref().is_some_and(IdTable::shares);
        self.sets.iter().position(shares).map(|f| Some(FlowId(f as u32)))
    }

    fn flatten(self: Box<Self>) -> Unmasked {
        Unmasked { pipe: self.inner, masks: self.masks, sets: self.sets }
    }

    fn migrate_from(
        &mut self,
        old: Box<dyn Pipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        let from = out.len();
        let mut old = old.flatten();
        let flows = old.sets.len();
        let alike = how.flows.is_empty() && (0..flows).all(|f| old.masks.of(f) == self.masks.of(f));
        let mut changed = None;
        for (f, before) in old.sets.iter_mut().enumerate() {
            let fate = how.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32)));
            if let (FlowMapping::Is(is), Some(before)) = (fate, before)
                && let Some(own) = &mut self.sets[is.index()]
            {
                own.migrate_from(before);
            }
        }
        if !alike {
            let (pipe, how) = old.into_others(&self.masks, self.firsts.len(), how);
            (old, changed) =
                (Unmasked { pipe, masks: Masks::default(), sets: Vec::new() }, Some(how));
        }
        let due =
            self.inner.migrate_from(old.pipe, changed.as_ref().unwrap_or(how), known, now, out);
        self.tell(&mut out[from..]);
        due
    }

    fn dismantle(self: Box<Self>) -> PipeParts {
        self.inner.dismantle()
    }

    fn leavings(&mut self) -> Option<DeferredDrops> {
        self.inner.leavings()
    }
}
