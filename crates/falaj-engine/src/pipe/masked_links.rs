//! A pipe whose link has a mask: each id has queues, a scheduler and a link of its own.

use super::build::build_single;
use super::{
    Counters, Inspection, Layer, PacketPath, Pipe, PipeKind, PipeLinks, PipeProperties, PipeSpec,
    SingleLink,
};
use crate::chance::Chance;
use crate::handover::{FlowMapping, Handover};
use crate::masks::set::IdTable;
use crate::masks::{MaskConfig, MaskIds, MaskStats, Masks};
use crate::message::{DropReason, Output, PipeId, Unit};
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::Time;

pub(crate) struct MaskedLinks {
    id: PipeId,
    /// The spec of each link.
    spec: PipeSpec,
    properties: PipeProperties,
    /// A link that no id uses, for properties that all links share.
    model: SingleLink,
    table: IdTable,
    each: MaskConfig,
    /// By slot of a place; the calendar has the same indices.
    links: Vec<Option<MaskedLink>>,
    calendar: Calendar,
    /// Links built so far: each has its own random numbers.
    built: u64,
    /// By flow, counters of removed links.
    gone: Vec<Counters>,
    /// By flow with a mask, statistics of its ids in removed links.
    flow_masks: Vec<Option<MaskStats>>,
    /// Counters of flows that were removed by changes.
    removed: Counters,
    /// Breaches of contract in removed links.
    breaches: Vec<Breach>,
    /// A flow whose ids had to share queues in one of the links.
    overflowing: Option<FlowId>,
    /// The label of the unit that arrives next.
    label: Label,
}

struct MaskedLink {
    pipe: SingleLink,
    /// Due time of the last of its packets.
    until: Time,
}

impl MaskedLinks {
    pub(super) fn new(id: PipeId, spec: &PipeSpec) -> Result<MaskedLinks, ConfigErrors> {
        let masks = spec.masks.clone();
        let each = masks.link.expect("a link mask asks for this pipe");
        let spec = PipeSpec { masks: Masks { link: None, ..masks.clone() }, ..spec.clone() };
        let model = build_single(id, &spec)?;
        let pipe = model.as_pipe();
        let properties = PipeProperties { masks, ..pipe.properties().clone() };
        let flows = (0..properties.flows as u32).map(FlowId);
        Ok(MaskedLinks {
            id,
            each,
            table: IdTable::new(each, spec.seed, id.0, u32::MAX),
            gone: vec![Counters::default(); properties.flows],
            flow_masks: flows.map(|flow| pipe.mask_stats(Some(flow), 0)).collect(),
            removed: Counters::default(),
            properties,
            model,
            spec,
            links: Vec::new(),
            calendar: Calendar::new(1),
            built: 0,
            breaches: Vec::new(),
            overflowing: None,
            label: Label::default(),
        })
    }

    /// Returns true if `other` creates the same links, and the same number of them.
    pub(super) fn has_links_of(&self, other: &MaskedLinks) -> bool {
        self.properties.masks.same_links(&other.properties.masks)
    }

    /// Creates a link for a slot that has none.
    #[cold]
    fn make(&mut self, slot: usize) {
        /// The element of the links' seeds, which no other draws use.
        const LINKS: u64 = 0x6c69_6e6b;
        let seed = Chance::new(self.spec.seed, LINKS, u64::from(self.id.0)).draw(self.built);
        self.built += 1;
        let spec = PipeSpec { seed, ..self.spec.clone() };
        let pipe = build_single(self.id, &spec).expect("the model was built of it");
        if self.links.len() <= slot {
            self.links.resize_with(slot + 1, || None);
            self.calendar.grow(slot + 1);
        }
        self.links[slot] = Some(MaskedLink { pipe, until: Time::ZERO });
    }

    /// Counts the outputs of the link in a slot.
    #[inline]
    fn count(&mut self, slot: usize, out: &[Output]) {
        let place = self.each.place_in(slot);
        for output in out {
            match output {
                Output::Emit(emit) | Output::Copy(emit) => {
                    if let Some(link) = &mut self.links[slot] {
                        link.until = link.until.max(emit.due);
                    }
                    if matches!(output, Output::Emit(_)) {
                        let (bytes, sojourn) = (emit.bytes, emit.end - emit.arrival);
                        self.table.count(place, |stats| stats.sent(bytes, sojourn));
                    }
                }
                Output::Retimed(retimed) => {
                    if let Some(link) = &mut self.links[slot]
                        && link.until == retimed.old_due
                    {
                        link.until = retimed.due;
                    }
                    let [old, new] =
                        [retimed.old_end, retimed.end].map(|end| end - retimed.arrival);
                    self.table.count(place, |stats| stats.retimed(old, new));
                }
                Output::Drop(dropped) if dropped.why == DropReason::Lost => {
                    self.table.count(place, |stats| stats.lost += 1);
                }
                Output::Drop(_) => self.table.count(place, |stats| stats.dropped += 1),
                Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
            }
        }
    }

    fn live(&self) -> impl Iterator<Item = &MaskedLink> {
        self.links.iter().flatten()
    }

    /// Takes over from links of the same mask. Returns the time at which the next event is due.
    pub(super) fn migrate_from(
        &mut self,
        mut old: MaskedLinks,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        self.table.migrate_from(&mut old.table);
        self.removed = old.removed;
        for (f, was) in old.gone.iter().enumerate() {
            match how.mapping(f) {
                FlowMapping::Is(flow) | FlowMapping::PartOf(flow) => {
                    self.gone[flow.index()].add(was);
                }
                FlowMapping::Joins(_) | FlowMapping::Dropped(_) => self.removed.add(was),
            }
        }
        for (f, was) in old.flow_masks.into_iter().enumerate() {
            if let (FlowMapping::Is(flow), Some(was)) = (how.mapping(f), was)
                && let Some(Some(sum)) = self.flow_masks.get_mut(flow.index())
            {
                sum.add(was, None, 0);
            }
        }
        self.calendar = Calendar::new(old.links.len().max(1));
        (self.built, self.links) = (old.built, Vec::new());
        self.breaches = old.breaches;
        for (slot, link) in old.links.into_iter().enumerate() {
            let Some(before) = link else { continue };
            self.make(slot);
            let from = out.len();
            if let Some(Some(link)) = self.links.get_mut(slot) {
                link.until = before.until;
                let due = link.pipe.migrate_from(before.pipe, how, known, now, out);
                self.calendar.set(slot, due);
            }
            self.count(slot, &out[from..]);
        }
        self.due()
    }

    #[inline]
    fn due(&self) -> Time {
        self.calendar.first().map_or(Time::NEVER, |(_, due)| due)
    }
}

impl Pipe for MaskedLinks {
    fn into_kind(self: Box<Self>) -> PipeKind {
        PipeKind::Links(PipeLinks::Masked(self))
    }
}

/// There is no single wrapped pipe: properties that all links share are those of the model.
impl Layer for MaskedLinks {}

impl PacketPath for MaskedLinks {
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let (links, gone, removed) = (&mut self.links, &mut self.gone, &mut self.removed);
        let (flow_masks, breaches) = (&mut self.flow_masks, &mut self.breaches);
        let each = self.each;
        let place = self.table.comes(&ids.link, now, ids.short, |place| {
            let slot = each.slot(place);
            let Some(Some(link)) = links.get_mut(slot) else { return true };
            let goes = link.until <= now && link.pipe.as_pipe_mut().is_at_rest(now);
            if goes {
                let pipe = link.pipe.as_pipe();
                let flows = (0..).map(FlowId);
                gone.iter_mut().zip(flows).for_each(|(sum, flow)| sum.add(&pipe.counters(flow)));
                removed.add(&pipe.removed_flow_counters());
                for (sum, flow) in flow_masks.iter_mut().zip((0..).map(FlowId)) {
                    let stats = pipe.mask_stats(Some(flow), 0);
                    sum.iter_mut()
                        .zip(stats)
                        .for_each(|(sum, stats)| sum.add(stats.gone_with_its_link(), None, 0));
                }
                pipe.breaches(breaches);
                links[slot] = None;
            }
            goes
        });
        let slot = each.slot(place);
        if !matches!(self.links.get(slot), Some(Some(_))) {
            self.make(slot);
        }
        let from = out.len();
        if let Some(Some(link)) = self.links.get_mut(slot) {
            let pipe = link.pipe.as_pipe_mut();
            pipe.announce(std::mem::take(&mut self.label));
            let due = pipe.arrive(unit, ids, now, out);
            if self.overflowing.is_none() && self.properties.masks.of_flows() {
                self.overflowing = pipe.overflowing_mask().flatten();
            }
            self.calendar.set(slot, due);
        }
        self.count(slot, &out[from..]);
        self.due()
    }

    fn run_event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if let Some((slot, due)) = self.calendar.first()
            && due <= now
            && let Some(Some(link)) = self.links.get_mut(slot)
        {
            let from = out.len();
            let due = link.pipe.as_pipe_mut().run_event(due, out);
            self.calendar.set(slot, due);
            self.count(slot, &out[from..]);
        }
        self.due()
    }

    /// Without effect: no device paces a masked link.
    fn port_room(&mut self, _: u32, _: Time, _: &mut Vec<Output>) -> Time {
        self.due()
    }

    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    fn next_due(&self) -> Time {
        let due = |slot: usize| match self.links.get(slot) {
            Some(Some(link)) => link.pipe.as_pipe().next_due(),
            _ => Time::NEVER,
        };
        self.calendar.least(self.properties.least_delay, due)
    }

    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        let slot = self.table.find(&ids.link).map(|place| self.each.slot(place));
        let link = slot.and_then(|slot| self.links.get(slot)).and_then(Option::as_ref);
        link.map_or(&self.model, |link| &link.pipe).as_pipe().has_room(flow, ids, bytes)
    }

    fn earliest_due(&self, bytes: u32, now: Time) -> Time {
        // Any of the links may be idle.
        self.model.as_pipe().earliest_due(bytes, now)
    }
}

impl Inspection for MaskedLinks {
    fn properties(&self) -> &PipeProperties {
        &self.properties
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let mut sum = self.gone[flow.index()];
        self.live().for_each(|link| sum.add(&link.pipe.as_pipe().counters(flow)));
        sum
    }

    fn removed_flow_counters(&self) -> Counters {
        let mut sum = self.removed;
        self.live().for_each(|link| sum.add(&link.pipe.as_pipe().removed_flow_counters()));
        sum
    }

    fn guarantee(&self, flow: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.model.as_pipe().guarantee(flow)
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.breaches.iter().cloned().for_each(|breach| breach.join(out));
        self.live().for_each(|link| link.pipe.as_pipe().breaches(out));
    }

    fn largest_waiting(&self) -> u32 {
        self.live().map(|link| link.pipe.as_pipe().largest_waiting()).max().unwrap_or(0)
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        let mut links = self.links.iter_mut().flatten();
        links.all(|link| link.pipe.as_pipe_mut().is_reusable(flow, now))
    }

    fn is_at_rest(&mut self, now: Time) -> bool {
        let mut links = self.links.iter_mut().flatten();
        links.all(|link| link.until <= now && link.pipe.as_pipe_mut().is_at_rest(now))
    }

    fn mask_stats(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        let Some(flow) = flow else { return Some(self.table.report(busiest)) };
        // The ids of a flow's mask in all links together. `flow_masks` has the sums over removed
        // links.
        let mut sum = self.flow_masks.get(flow.index())?.clone()?;
        for (slot, link) in self.links.iter().enumerate() {
            let stats = |link: &MaskedLink| link.pipe.as_pipe().mask_stats(Some(flow), busiest);
            let Some(stats) = link.as_ref().and_then(stats) else { continue };
            sum.add(stats, Some(&self.table.words(self.each.place_in(slot))), busiest);
        }
        Some(sum)
    }

    fn mask_stats_part(
        &self,
        flow: Option<FlowId>,
        busiest: usize,
        (from, steps): (u64, usize),
        all: &mut Option<MaskStats>,
    ) -> Option<u64> {
        let Some(flow) = flow else {
            return self.table.report_part(busiest, from as u32, steps, all).map(u64::from);
        };
        if from == 0 {
            all.clone_from(self.flow_masks.get(flow.index())?);
        }
        let sum = all.as_mut()?;
        // The link, and the place within it.
        let (first, within) = ((from >> 32) as usize, from & u64::from(u32::MAX));
        let end = self.links.len().min(first + steps.max(1));
        let Some(slot) = (first..end).find(|&slot| self.links[slot].is_some()) else {
            return (end < self.links.len()).then_some((end as u64) << 32);
        };
        let pipe = self.links[slot].as_ref()?.pipe.as_pipe();
        let (within, mut part) = (if slot == first { within } else { 0 }, None);
        let next = pipe.mask_stats_part(Some(flow), busiest, (within, steps), &mut part);
        if let Some(part) = part {
            sum.add(part, Some(&self.table.words(self.each.place_in(slot))), busiest);
        }
        match next {
            Some(within) => Some((slot as u64) << 32 | within),
            None => (slot + 1 < self.links.len()).then_some((slot as u64 + 1) << 32),
        }
    }

    fn overflowing_mask(&self) -> Option<Option<FlowId>> {
        if self.table.shares() { Some(None) } else { self.overflowing.map(Some) }
    }
}
