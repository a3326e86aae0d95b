//! A pipe whose mask was changed: what waits goes where it is, by the links that there were, beside
//! those that there are now. Nothing new comes to them.

use super::queues::Unmasked;
use super::set::MaskStats;
use super::{MaskIds, Masks};
use crate::handover::{FlowMapping, Handover};
use crate::message::{Output, Unit};
use crate::pipe::{Counters, Pipe, PipeParts};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::{Span, Time};
use std::any::Any;

pub(crate) struct DrainingLinks {
    now: Box<dyn Pipe>,
    /// When its next event is due.
    due: Time,
    before: Vec<DrainingLink>,
    /// By flow, what those before counted that are empty and gone; and of flows that went.
    counted: Vec<Counters>,
    gone: Counters,
}

struct DrainingLink {
    pipe: Box<dyn Pipe>,
    due: Time,
    /// The flow that stands for each of its flows now, and whether it is that one.
    flows: Vec<(FlowId, bool)>,
}

impl DrainingLink {
    /// What was counted of the flows that this is so of.
    fn sum(&self, of: impl Fn(&(FlowId, bool)) -> bool) -> Counters {
        let mut sum = Counters::default();
        let flows = self.flows.iter().enumerate().filter(|(_, flow)| of(flow));
        flows.for_each(|(f, _)| sum.add(&self.pipe.counters(FlowId(f as u32))));
        sum
    }

    /// What came out, as it is known now.
    fn tell(&self, out: &mut [Output]) {
        for output in out {
            let flow = match output {
                Output::Emit(emit) | Output::Copy(emit) => &mut emit.flow,
                Output::Drop(dropped) => &mut dropped.flow,
                Output::Mark(mark) => &mut mark.flow,
                Output::Early(early) => &mut early.flow,
                Output::Corrupt(_) => continue,
            };
            *flow = self.flows[flow.index()].0;
        }
    }
}

/// A successor takes over from one whose next event is due at `due`; where the links that a mask
/// makes are others, it begins beside them. Says when its own next event is due.
pub(crate) fn take_over(
    mut successor: Box<dyn Pipe>,
    (old, due): (Box<dyn Pipe>, Time),
    how: &Handover,
    known: Known<'_>,
    now: Time,
    out: &mut Vec<Output>,
) -> (Box<dyn Pipe>, Time) {
    let mut beside = if (&*old as &dyn Any).is::<DrainingLinks>() {
        let old: Box<dyn Any> = old;
        *old.downcast::<DrainingLinks>().expect("just looked")
    } else if old.masks().same_links(successor.masks()) {
        let due = successor.migrate_from(old, how, known, now, out);
        return (successor, due);
    } else {
        let counted = vec![Counters::default(); old.flows()];
        DrainingLinks { now: old, due, before: Vec::new(), counted, gone: Counters::default() }
    };
    beside.become_other(successor, how, known, now, out);
    let due = beside.next();
    (Box::new(beside), due)
}

impl DrainingLinks {
    fn become_other(
        &mut self,
        successor: Box<dyn Pipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let fate =
            |f: usize| how.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32)));
        let flow = |f: usize, is: bool| {
            (fate(f).flow(), is && matches!(fate(f), FlowMapping::Is(_) | FlowMapping::PartOf(_)))
        };
        for before in &mut self.before {
            before.flows.iter_mut().for_each(|now| *now = flow(now.0.index(), now.1));
        }
        let mut counted = vec![Counters::default(); successor.flows()];
        for (f, was) in self.counted.iter().enumerate() {
            let (flow, is) = flow(f, true);
            if is { counted[flow.index()].add(was) } else { self.gone.add(was) }
        }
        self.counted = counted;
        let others = !self.now.masks().same_links(successor.masks());
        let old = std::mem::replace(&mut self.now, successor);
        if others {
            let flows = (0..old.flows()).map(|f| flow(f, true)).collect();
            self.before.push(DrainingLink { pipe: old, due: self.due, flows });
            self.due = Time::NEVER;
        } else {
            self.due = self.now.migrate_from(old, how, known, now, out);
        }
        let (empty, busy) = std::mem::take(&mut self.before)
            .into_iter()
            .partition(|b| b.sum(|_| true).backlog == 0);
        self.before = busy;
        let empty: Vec<DrainingLink> = empty;
        for before in &empty {
            self.gone.add(&before.pipe.of_the_gone());
            self.gone.add(&before.sum(|flow| !flow.1));
            for (f, counted) in self.counted.iter_mut().enumerate() {
                counted.add(&before.sum(|flow| *flow == (FlowId(f as u32), true)));
            }
        }
    }

    fn next(&self) -> Time {
        self.before.iter().map(|before| before.due).fold(self.due, Time::min)
    }
}

impl Pipe for DrainingLinks {
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        self.due = self.now.arrive(unit, ids, now, out);
        self.next()
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if self.due <= now {
            self.due = self.now.event(now, out);
        } else if let Some(before) = self.before.iter_mut().find(|before| before.due <= now) {
            let from = out.len();
            before.due = before.pipe.event(now, out);
            before.tell(&mut out[from..]);
        }
        self.next()
    }

    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time {
        self.due = self.now.port_room(room, now, out);
        self.next()
    }

    fn next_due(&self) -> Time {
        self.before.iter().map(|before| before.pipe.next_due()).fold(self.now.next_due(), Time::min)
    }

    fn next_refill(&self) -> Time {
        self.now.next_refill()
    }

    fn supplied_until(&self) -> Time {
        self.now.supplied_until()
    }

    fn backlog(&self) -> Option<u32> {
        self.now.backlog()
    }

    fn least_delay(&self) -> Span {
        self.before
            .iter()
            .map(|before| before.pipe.least_delay())
            .fold(self.now.least_delay(), Span::min)
    }

    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        self.now.has_room(flow, ids, bytes)
    }

    fn soonest(&self, bytes: u32, now: Time) -> Time {
        self.before
            .iter()
            .map(|before| before.pipe.soonest(bytes, now))
            .fold(self.now.soonest(bytes, now), Time::min)
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let mut sum = self.now.counters(flow);
        sum.add(&self.counted[flow.index()]);
        self.before.iter().for_each(|before| sum.add(&before.sum(|was| *was == (flow, true))));
        sum
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        self.now.promise(flow)
    }

    fn flows(&self) -> usize {
        self.now.flows()
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.now.breaches(out);
        self.before.iter().for_each(|before| before.pipe.breaches(out));
    }

    fn largest(&self) -> u32 {
        self.now.largest()
    }

    fn largest_waiting(&self) -> u32 {
        self.now.largest_waiting()
    }

    fn of_the_gone(&self) -> Counters {
        let mut sum = self.now.of_the_gone();
        sum.add(&self.gone);
        for before in &self.before {
            sum.add(&before.pipe.of_the_gone());
            sum.add(&before.sum(|flow| !flow.1));
        }
        sum
    }

    fn announce(&mut self, label: Label) {
        self.now.announce(label);
    }

    fn wants_labels(&self) -> bool {
        self.now.wants_labels()
    }

    fn drops_early(&self) -> bool {
        self.now.drops_early()
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.before.is_empty() && self.now.is_reusable(flow, now)
    }

    fn rests(&mut self, now: Time) -> bool {
        self.before.is_empty() && self.now.rests(now)
    }

    fn masks(&self) -> &Masks {
        self.now.masks()
    }

    fn report(&self, flow: Option<FlowId>, busiest: usize) -> Option<MaskStats> {
        self.now.report(flow, busiest)
    }

    fn shares(&self) -> Option<Option<FlowId>> {
        self.now.shares()
    }

    fn migrate_from(
        &mut self,
        _: Box<dyn Pipe>,
        _: &Handover,
        _: Known<'_>,
        _: Time,
        _: &mut Vec<Output>,
    ) -> Time {
        unreachable!("it is made of what takes over, and never takes over itself")
    }

    fn flatten(self: Box<Self>) -> Unmasked {
        unreachable!("what takes over from it takes over from what it is made of")
    }

    fn dismantle(self: Box<Self>) -> PipeParts {
        unreachable!("what takes over from it takes over from what it is made of")
    }
}
