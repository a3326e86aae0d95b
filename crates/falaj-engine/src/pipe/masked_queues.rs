//! A pipe in which flows have masks: each id has a queue of its own.
//!
//! It wraps the pipe of the expanded setup. A packet goes to the queue of its id, and outputs name
//! the flow that the driver knows.

use super::{
    Counters, DeferredDrops, Inspection, Layer, LinkPipe, PacketPath, Pipe, PipeKind, PipeLinks,
    PipeProperties, PipeSpec, SingleLink,
};
use crate::handover::{FlowMapping, Handover};
use crate::masks::set::IdTable;
use crate::masks::{MaskConfig, MaskIds, MaskStats, Masks};
use crate::message::{DropReason, Output, PipeId, Unit};
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Known;
use falaj_sched::units::time::Time;
use std::ops::Range;

pub(crate) struct MaskedQueues {
    inner: Box<dyn LinkPipe>,
    properties: PipeProperties,
    /// By flow, its first queue in the inner pipe.
    firsts: Vec<FlowId>,
    /// By flow, the ids of its mask; `None` for a flow without one.
    tables: Vec<Option<IdTable>>,
}

/// A pipe without the masks of its flows, and the ids of those masks.
pub(super) struct Unmasked {
    pipe: Box<dyn LinkPipe>,
    masks: Masks,
    /// By flow, the ids of its mask.
    tables: Vec<Option<IdTable>>,
}

impl Unmasked {
    /// A pipe whose flows have no masks.
    pub(super) fn of_plain(pipe: Box<dyn LinkPipe>) -> Unmasked {
        let tables = (0..pipe.properties().flows).map(|_| None).collect();
        Unmasked { pipe, masks: Masks::default(), tables }
    }

    /// The pipe, and the mapping of its queues to those of a pipe with `masks` and `flows` flows.
    /// An id keeps its queue, own or shared, if its mask and flow stay and that queue exists.
    /// Packets of all other ids join the first of the shared queues.
    pub(super) fn into_others(
        self,
        masks: &Masks,
        flows: usize,
        how: &Handover,
    ) -> (Box<dyn LinkPipe>, Handover) {
        let firsts = masks.firsts(flows);
        let mut mapping = Vec::new();
        for f in 0..self.tables.len() {
            let flow = how.mapping(f);
            let (is, first) = (masks.of(flow.flow().index()), firsts[flow.flow().index()].0);
            let shared = FlowId(first + is.map_or(0, |each| each.most));
            let was = self.masks.of(f);
            let same = was.zip(is).filter(|(was, is)| was.mask == is.mask);
            mapping.extend((0..was.map_or(1, MaskConfig::places)).map(|place| {
                match (flow, same) {
                    (FlowMapping::Joins(_), _) => FlowMapping::Joins(shared),
                    (FlowMapping::Dropped(_), _) => FlowMapping::Dropped(shared),
                    (_, Some((was, is))) if place < was.most.min(is.most) => {
                        FlowMapping::PartOf(FlowId(first + place))
                    }
                    (_, Some((was, is))) if place >= was.most && place - was.most < is.shared() => {
                        FlowMapping::PartOf(FlowId(shared.0 + place - was.most))
                    }
                    _ => FlowMapping::PartOf(shared),
                }
            }));
        }
        (self.pipe, Handover { flows: mapping, drop: how.drop })
    }
}

impl MaskedQueues {
    /// Wraps a pipe that was built from the expanded setup of `spec`.
    pub(super) fn new(id: PipeId, spec: &PipeSpec, inner: Box<dyn LinkPipe>) -> MaskedQueues {
        let masks = spec.masks.clone();
        let flows = spec.setup.flows.len();
        let table =
            |f: usize| masks.of(f).map(|each| IdTable::new(*each, spec.seed, id.0, f as u32));
        let tables = (0..flows).map(table).collect();
        let firsts = masks.firsts(flows);
        let properties = PipeProperties { flows, masks, ..inner.properties().clone() };
        MaskedQueues { inner, properties, firsts, tables }
    }

    /// Counts the outputs of the inner pipe, and names the flows that the driver knows.
    #[inline]
    fn relabel(&mut self, out: &mut [Output]) {
        for output in out {
            let Some(flow) = output.flow_mut() else { continue };
            // A search over a few flows is fast; a table of all places would be read from memory.
            let (place, of) =
                (*flow, self.firsts.partition_point(|first| *first <= *flow).saturating_sub(1));
            *flow = FlowId(of as u32);
            let Some(table) = &mut self.tables[of] else { continue };
            let place = place.0 - self.firsts[of].0;
            match output {
                Output::Emit(emit) => {
                    let (bytes, sojourn) = (emit.bytes, emit.end - emit.arrival);
                    table.count(place, |stats| stats.sent(bytes, sojourn));
                }
                Output::Retimed(retimed) => {
                    let [old, new] =
                        [retimed.old_end, retimed.end].map(|end| end - retimed.arrival);
                    table.count(place, |stats| stats.retimed(old, new));
                }
                Output::Drop(dropped) if dropped.why == DropReason::Lost => {
                    table.count(place, |stats| stats.lost += 1);
                }
                Output::Drop(_) => table.count(place, |stats| stats.dropped += 1),
                Output::Copy(_) | Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
            }
        }
    }

    /// The queues of the inner pipe that a flow has used so far.
    fn used_queues(&self, flow: FlowId) -> impl Iterator<Item = FlowId> + use<> {
        let first = self.firsts[flow.index()].0;
        let places = self.tables[flow.index()].as_ref().map(IdTable::known);
        let one = places.is_none().then_some(0);
        places.into_iter().flatten().chain(one).map(move |place| FlowId(first + place))
    }

    /// The pipe within, and the ids of the masks.
    pub(super) fn unmask(self) -> Unmasked {
        Unmasked { pipe: self.inner, masks: self.properties.masks, tables: self.tables }
    }

    /// Takes over from `old`; ids keep their queues if their mask stays. Returns the time at which
    /// the next event is due.
    pub(super) fn migrate_from(
        &mut self,
        mut old: Unmasked,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        let from = out.len();
        let masks = &self.properties.masks;
        let alike =
            how.flows.is_empty() && (0..old.tables.len()).all(|f| old.masks.of(f) == masks.of(f));
        for (f, before) in old.tables.iter_mut().enumerate() {
            if let (FlowMapping::Is(is), Some(before)) = (how.mapping(f), before)
                && let Some(own) = &mut self.tables[is.index()]
            {
                own.migrate_from(before);
            }
        }
        let due = if alike {
            self.inner.migrate_from(old.pipe, how, known, now, out)
        } else {
            let (pipe, how) = old.into_others(masks, self.firsts.len(), how);
            self.inner.migrate_from(pipe, &how, known, now, out)
        };
        self.relabel(&mut out[from..]);
        due
    }

    /// See [`LinkPipe::deferred_drops`].
    pub(super) fn deferred_drops(&mut self) -> Option<DeferredDrops> {
        self.inner.deferred_drops()
    }
}

impl Pipe for MaskedQueues {
    fn into_kind(self: Box<Self>) -> PipeKind {
        PipeKind::Links(PipeLinks::Single(SingleLink::Masked(self)))
    }
}

impl Layer for MaskedQueues {
    fn inner(&self) -> Option<&dyn Pipe> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut *self.inner)
    }
}

impl PacketPath for MaskedQueues {
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let from = out.len();
        let first = self.firsts[unit.flow.index()];
        let place = match &mut self.tables[unit.flow.index()] {
            Some(table) => {
                let inner = &mut self.inner;
                let mut goes = |place| inner.is_reusable(FlowId(first.0 + place), now);
                table.comes(&ids.flow, now, ids.short, &mut goes)
            }
            None => 0,
        };
        let unit = Unit { flow: FlowId(first.0 + place), ..unit };
        let due = self.inner.arrive(unit, &MaskIds::NONE, now, out);
        self.relabel(&mut out[from..]);
        due
    }

    fn run_event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        let from = out.len();
        let due = self.inner.run_event(now, out);
        self.relabel(&mut out[from..]);
        due
    }

    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time {
        let from = out.len();
        let due = self.inner.port_room(room, now, out);
        self.relabel(&mut out[from..]);
        due
    }

    fn next_due(&self) -> Time {
        self.inner.next_due()
    }

    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        let place = match &self.tables[flow.index()] {
            // A queue that no id uses yet is empty, and has the same limit as the others.
            Some(table) => table.find(&ids.flow),
            None => Some(0),
        };
        place.is_none_or(|place| {
            self.inner.has_room(FlowId(self.firsts[flow.index()].0 + place), ids, bytes)
        })
    }

    fn earliest_due(&self, bytes: u32, now: Time) -> Time {
        self.inner.earliest_due(bytes, now)
    }
}

impl Inspection for MaskedQueues {
    fn properties(&self) -> &PipeProperties {
        &self.properties
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let first = self.firsts[flow.index()];
        let Some(table) = &self.tables[flow.index()] else { return self.inner.counters(first) };
        let (own, shared) = table.known_ranges();
        let of = |places: Range<u32>| {
            self.inner.sum(FlowId(first.0 + places.start), places.len() as u32)
        };
        let mut sum = of(own);
        sum.add(&of(shared));
        sum
    }

    fn guarantee(&self, flow: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.inner.guarantee(self.firsts[flow.index()])
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.used_queues(flow).all(|queue| self.inner.is_reusable(queue, now))
    }

    fn mask_stats(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        self.tables.get(flow?.index())?.as_ref().map(|table| table.report(busiest))
    }

    fn mask_stats_part(
        &self,
        flow: Option<FlowId>,
        busiest: usize,
        (from, steps): (u64, usize),
        all: &mut Option<MaskStats>,
    ) -> Option<u64> {
        let table = self.tables.get(flow?.index())?.as_ref()?;
        table.report_part(busiest, from as u32, steps, all).map(u64::from)
    }

    fn counters_part(
        &self,
        flow: FlowId,
        (from, steps): (u64, usize),
        sum: &mut Counters,
    ) -> Option<u64> {
        let first = self.firsts[flow.index()];
        let Some(table) = &self.tables[flow.index()] else {
            sum.add(&self.inner.counters(first));
            return None;
        };
        // Shared places come after those that were assigned.
        let (own, shared) = table.known_ranges();
        let (from, own_end) = (from as u32, own.end);
        let all = own_end + shared.len() as u32;
        let to = all.min(from.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX)));
        let behind = |n: u32| shared.start + n.saturating_sub(own_end);
        for places in [from..to.min(own_end), behind(from)..behind(to)] {
            if !places.is_empty() {
                let first = FlowId(first.0 + places.start);
                sum.add(&self.inner.sum(first, places.len() as u32));
            }
        }
        (to < all).then_some(u64::from(to))
    }

    fn overflowing_mask(&self) -> Option<Option<FlowId>> {
        let shares = |table: &Option<IdTable>| table.as_ref().is_some_and(IdTable::shares);
        self.tables.iter().position(shares).map(|f| Some(FlowId(f as u32)))
    }
}
