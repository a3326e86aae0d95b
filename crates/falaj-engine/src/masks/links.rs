//! A pipe that is many: queues, scheduler and link of its own for each id.

use super::queues::Unmasked;
use super::set::{IdTable, MaskStats};
use super::{MaskIds, Masks};
use crate::chance::Chance;
use crate::handover::{FlowMapping, Handover};
use crate::message::{DropReason, Output, PipeId, Unit};
use crate::pipe::build::{BuildFor, build};
use crate::pipe::{Counters, Pipe, PipeParts, PipeSpec};
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::{Span, Time};
use std::any::Any;

pub(crate) struct MaskedLinks {
    id: PipeId,
    /// What each is made from.
    spec: PipeSpec,
    masks: Masks,
    /// One that nobody has yet, by which all are known.
    model: Box<dyn Pipe>,
    set: IdTable,
    /// By place.
    links: Vec<Option<MaskedLink>>,
    calendar: Calendar,
    /// So many were built: each has random numbers of its own.
    built: u64,
    /// By flow, what was counted of links that are gone.
    gone: Vec<Counters>,
    /// By flow with a mask, what that made in links that are gone.
    of_flows: Vec<Option<MaskStats>>,
    /// And of flows that they do not have any more.
    of_the_gone: Counters,
    /// What disciplines of libraries did in links that are gone.
    broken: Vec<Breach>,
    /// A flow of which ids had to share queues in one of the links.
    sharing: Option<FlowId>,
    /// Of the unit that comes next.
    label: Label,
}

struct MaskedLink {
    pipe: Box<dyn Pipe>,
    /// The last of its packets is due then.
    until: Time,
}

impl MaskedLinks {
    pub(crate) fn new(id: PipeId, spec: &PipeSpec) -> Result<MaskedLinks, ConfigErrors> {
        let masks = spec.masks.clone();
        let each = masks.link.expect("asked for by its mask");
        let spec = PipeSpec { masks: Masks { link: None, ..masks.clone() }, ..spec.clone() };
        let model = build(id, &spec, BuildFor::Any)?;
        Ok(MaskedLinks {
            id,
            set: IdTable::new(each, spec.seed, id.0, u32::MAX),
            gone: vec![Counters::default(); model.flows()],
            of_flows: (0..model.flows()).map(|f| model.report(Some(FlowId(f as u32)), 0)).collect(),
            of_the_gone: Counters::default(),
            model,
            spec,
            masks,
            links: Vec::new(),
            calendar: Calendar::new(1),
            built: 0,
            broken: Vec::new(),
            sharing: None,
            label: Label::default(),
        })
    }

    /// A link for this place, which has none.
    #[cold]
    fn make(&mut self, place: usize) {
        /// Keeps their seeds apart from other elements' draws.
        const LINKS: u64 = 0x6c69_6e6b;
        let seed = Chance::new(self.spec.seed, LINKS, u64::from(self.id.0)).draw(self.built);
        self.built += 1;
        let spec = PipeSpec { seed, ..self.spec.clone() };
        let pipe = build(self.id, &spec, BuildFor::Any).expect("the model was built of it");
        if self.links.len() <= place {
            self.links.resize_with(place + 1, || None);
            self.calendar.grow(place + 1);
        }
        self.links[place] = Some(MaskedLink { pipe, until: Time::ZERO });
    }

    /// Counts what came out of the link at this place.
    #[inline]
    fn tell(&mut self, place: usize, out: &[Output]) {
        for output in out {
            match output {
                Output::Emit(emit) | Output::Copy(emit) => {
                    if let Some(link) = &mut self.links[place] {
                        link.until = link.until.max(emit.due);
                    }
                    if matches!(output, Output::Emit(_)) {
                        self.set.stats_mut(place as u32).sent(emit.bytes, emit.end - emit.arrival);
                    }
                }
                Output::Drop(dropped) if dropped.why == DropReason::Lost => {
                    self.set.stats_mut(place as u32).lost += 1;
                }
                Output::Drop(_) => self.set.stats_mut(place as u32).dropped += 1,
                Output::Corrupt(_) | Output::Mark(_) | Output::Early(_) => {}
            }
        }
    }

    fn live(&self) -> impl Iterator<Item = &MaskedLink> {
        self.links.iter().flatten()
    }
}

/// Adds what is counted of each flow of a pipe.
fn count(sum: &mut [Counters], pipe: &dyn Pipe) {
    sum.iter_mut().enumerate().for_each(|(f, sum)| sum.add(&pipe.counters(FlowId(f as u32))));
}

impl Pipe for MaskedLinks {
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let (links, gone, of_the_gone) = (&mut self.links, &mut self.gone, &mut self.of_the_gone);
        let (of_flows, broken) = (&mut self.of_flows, &mut self.broken);
        let place = self.set.comes(&ids.link, now, |place| {
            let Some(Some(link)) = links.get_mut(place as usize) else { return true };
            let goes = link.until <= now && link.pipe.rests(now);
            if goes {
                count(gone, link.pipe.as_ref());
                of_the_gone.add(&link.pipe.of_the_gone());
                for (f, sum) in of_flows.iter_mut().enumerate() {
                    let report = link.pipe.report(Some(FlowId(f as u32)), 0);
                    sum.iter_mut()
                        .zip(report)
                        .for_each(|(sum, report)| sum.add(report.gone_with_its_link(), None, 0));
                }
                link.pipe.breaches(broken);
                links[place as usize] = None;
            }
            goes
        });
        let place = place as usize;
        if !matches!(self.links.get(place), Some(Some(_))) {
            self.make(place);
        }
        let Some(Some(link)) = self.links.get_mut(place) else { unreachable!("it was just made") };
        let from = out.len();
        link.pipe.announce(std::mem::take(&mut self.label));
        let due = link.pipe.arrive(unit, ids, now, out);
        if self.sharing.is_none() && self.masks.of_flows() {
            self.sharing = link.pipe.shares().flatten();
        }
        self.calendar.set(place, due);
        self.tell(place, &out[from..]);
        self.due()
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if let Some((place, due)) = self.calendar.first()
            && due <= now
            && let Some(Some(link)) = self.links.get_mut(place)
        {
            let from = out.len();
            let due = link.pipe.event(due, out);
            self.calendar.set(place, due);
            self.tell(place, &out[from..]);
        }
        self.due()
    }

    /// No device paces a link that is many.
    fn port_room(&mut self, _: u32, _: Time, _: &mut Vec<Output>) -> Time {
        self.due()
    }

    fn next_due(&self) -> Time {
        let due = |place: usize| match self.links.get(place) {
            Some(Some(link)) => link.pipe.next_due(),
            _ => Time::NEVER,
        };
        self.calendar.least(self.least_delay(), due)
    }

    fn least_delay(&self) -> Span {
        self.model.least_delay()
    }

    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        let place = self.set.find(&ids.link);
        let link = place.and_then(|place| self.links.get(place as usize)).and_then(Option::as_ref);
        link.map_or(&self.model, |link| &link.pipe).has_room(flow, ids, bytes)
    }

    fn soonest(&self, bytes: u32, now: Time) -> Time {
        // Any of them may be idle.
        self.model.soonest(bytes, now)
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let mut sum = self.gone[flow.index()];
        self.live().for_each(|link| sum.add(&link.pipe.counters(flow)));
        sum
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        self.model.promise(flow)
    }

    fn flows(&self) -> usize {
        self.model.flows()
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.broken.iter().cloned().for_each(|breach| breach.join(out));
        self.live().for_each(|link| link.pipe.breaches(out));
    }

    fn largest(&self) -> u32 {
        self.model.largest()
    }

    fn largest_waiting(&self) -> u32 {
        self.live().map(|link| link.pipe.largest_waiting()).max().unwrap_or(0)
    }

    fn of_the_gone(&self) -> Counters {
        let mut sum = self.of_the_gone;
        self.live().for_each(|link| sum.add(&link.pipe.of_the_gone()));
        sum
    }

    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    fn wants_labels(&self) -> bool {
        self.model.wants_labels()
    }

    fn drops_early(&self) -> bool {
        self.model.drops_early()
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.links.iter_mut().flatten().all(|link| link.pipe.is_reusable(flow, now))
    }

    fn rests(&mut self, now: Time) -> bool {
        self.links.iter_mut().flatten().all(|link| link.until <= now && link.pipe.rests(now))
    }

    fn masks(&self) -> &Masks {
        &self.masks
    }

    fn report(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        let Some(flow) = flow else { return Some(self.set.report(busiest)) };
        // Those that a flow's mask made in each link, together; links that are gone have left their
        // sums.
        let mut sum = self.of_flows.get(flow.index())?.clone()?;
        for (place, link) in self.links.iter().enumerate() {
            let Some(report) = link.as_ref().and_then(|link| link.pipe.report(Some(flow), busiest))
            else {
                continue;
            };
            sum.add(report, Some(&self.set.words(place as u32)), busiest);
        }
        Some(sum)
    }

    fn shares(&self) -> Option<Option<FlowId>> {
        if self.set.shares() { Some(None) } else { self.sharing.map(Some) }
    }

    fn migrate_from(
        &mut self,
        old: Box<dyn Pipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        let old: Box<dyn Any> = old;
        // Whoever changes a pipe has seen that its links stay those that they are.
        let mut old =
            *old.downcast::<MaskedLinks>().expect("links of other ids begin beside these");
        self.set.migrate_from(&mut old.set);
        self.of_the_gone = old.of_the_gone;
        for (f, was) in old.gone.iter().enumerate() {
            match how.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32))) {
                FlowMapping::Is(flow) | FlowMapping::PartOf(flow) => {
                    self.gone[flow.index()].add(was);
                }
                FlowMapping::Joins(_) | FlowMapping::Dropped(_) => self.of_the_gone.add(was),
            }
        }
        for (f, was) in old.of_flows.into_iter().enumerate() {
            if let (FlowMapping::Is(flow), Some(was)) =
                (how.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32))), was)
                && let Some(Some(sum)) = self.of_flows.get_mut(flow.index())
            {
                sum.add(was, None, 0);
            }
        }
        self.calendar = Calendar::new(old.links.len().max(1));
        (self.built, self.links) = (old.built, Vec::new());
        self.broken = std::mem::take(&mut old.broken);
        for (place, link) in old.links.into_iter().enumerate() {
            let Some(before) = link else { continue };
            self.make(place);
            let from = out.len();
            if let Some(Some(link)) = self.links.get_mut(place) {
                link.until = before.until;
                let due = link.pipe.migrate_from(before.pipe, how, known, now, out);
                self.calendar.set(place, due);
            }
            self.tell(place, &out[from..]);
        }
        self.due()
    }

    fn flatten(self: Box<Self>) -> Unmasked {
        unreachable!("only links of the same ids take over from links")
    }

    fn dismantle(self: Box<Self>) -> PipeParts {
        unreachable!("only links of the same ids take over from links")
    }
}

impl MaskedLinks {
    #[inline]
    fn due(&self) -> Time {
        self.calendar.first().map_or(Time::NEVER, |(_, due)| due)
    }
}
