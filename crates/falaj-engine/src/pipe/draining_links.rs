//! A pipe whose link mask was changed: queued packets leave by the earlier links, beside the
//! current ones. New packets come to the current links only.

use super::{
    Counters, DeferredDrops, Inspection, Layer, PacketPath, Pipe, PipeKind, PipeLinks,
    PipeProperties,
};
use crate::handover::{FlowMapping, Handover};
use crate::masks::MaskIds;
use crate::message::{Output, Unit};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Known;
use falaj_sched::units::time::{Span, Time};

pub(crate) struct DrainingLinks {
    /// The current links, and when their next event is due.
    now: PipeLinks,
    due: Time,
    properties: PipeProperties,
    /// The earlier links, oldest first.
    before: Vec<Draining>,
    /// By flow, counters of links that are empty and removed.
    counted: Vec<Counters>,
    /// Counters of flows that were removed by changes.
    removed: Counters,
}

/// Earlier links, which still send their queued packets.
struct Draining {
    pipe: Box<dyn Pipe>,
    due: Time,
    /// For each of its flows, the current flow in its place, and whether it is the same flow.
    flows: Vec<(FlowId, bool)>,
}

impl Draining {
    /// The counters of the flows for which `of` is true.
    fn sum(&self, of: impl Fn(&(FlowId, bool)) -> bool) -> Counters {
        let mut sum = Counters::default();
        let flows = self.flows.iter().enumerate().filter(|(_, flow)| of(flow));
        flows.for_each(|(f, _)| sum.add(&self.pipe.counters(FlowId(f as u32))));
        sum
    }

    /// Replaces the flows in outputs by the current ones.
    fn relabel(&self, out: &mut [Output]) {
        for flow in out.iter_mut().filter_map(Output::flow_mut) {
            *flow = self.flows[flow.index()].0;
        }
    }
}

/// Lets `successor` take over from `old`, whose next event is due at `due`. If the links of its
/// mask differ, it begins beside the old links. Returns the pipe, when its next event is due, and
/// the state that remains to be dropped.
pub(crate) fn take_over(
    mut successor: PipeLinks,
    (old, due): (Box<dyn Pipe>, Time),
    how: &Handover,
    known: Known<'_>,
    now: Time,
    out: &mut Vec<Output>,
) -> (Box<dyn Pipe>, Time, Option<DeferredDrops>) {
    let mut draining = match old.into_kind() {
        PipeKind::Draining(draining) => draining,
        PipeKind::Links(old) => match successor.migrate_from(old, how, known, now, out) {
            Ok(due) => {
                let drops = successor.deferred_drops();
                return (successor.into_pipe(), due, drops);
            }
            Err(old) => Box::new(DrainingLinks::new(old, due)),
        },
    };
    draining.change_to(successor, how, known, now, out);
    let (due, drops) = (draining.next(), draining.now.deferred_drops());
    (draining, due, drops)
}

impl DrainingLinks {
    fn new(now: PipeLinks, due: Time) -> DrainingLinks {
        let properties = now.as_pipe().properties().clone();
        let counted = vec![Counters::default(); properties.flows];
        let (before, removed) = (Vec::new(), Counters::default());
        DrainingLinks { now, due, properties, before, counted, removed }
    }

    fn change_to(
        &mut self,
        successor: PipeLinks,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let flow = |f: usize, is: bool| {
            let mapping = how.mapping(f);
            let goes_on = matches!(mapping, FlowMapping::Is(_) | FlowMapping::PartOf(_));
            (mapping.flow(), is && goes_on)
        };
        for before in &mut self.before {
            before.flows.iter_mut().for_each(|now| *now = flow(now.0.index(), now.1));
        }
        let mut counted = vec![Counters::default(); successor.as_pipe().properties().flows];
        for (f, was) in self.counted.iter().enumerate() {
            let (flow, is) = flow(f, true);
            if is { counted[flow.index()].add(was) } else { self.removed.add(was) }
        }
        self.counted = counted;
        let old = std::mem::replace(&mut self.now, successor);
        match self.now.migrate_from(old, how, known, now, out) {
            Ok(due) => self.due = due,
            Err(old) => {
                let flows = (0..self.properties.flows).map(|f| flow(f, true)).collect();
                self.before.push(Draining { pipe: old.into_pipe(), due: self.due, flows });
                self.due = Time::NEVER;
            }
        }
        let all = std::mem::take(&mut self.before).into_iter();
        let (empty, busy): (Vec<Draining>, _) = all.partition(|b| b.sum(|_| true).backlog == 0);
        self.before = busy;
        for before in &empty {
            self.removed.add(&before.pipe.removed_flow_counters());
            self.removed.add(&before.sum(|flow| !flow.1));
            for (f, counted) in self.counted.iter_mut().enumerate() {
                counted.add(&before.sum(|flow| *flow == (FlowId(f as u32), true)));
            }
        }
        let properties = self.now.as_pipe().properties().clone();
        let delays = self.before.iter().map(|before| before.pipe.properties().least_delay);
        let least_delay = delays.fold(properties.least_delay, Span::min);
        self.properties = PipeProperties { least_delay, ..properties };
    }

    fn next(&self) -> Time {
        self.before.iter().map(|before| before.due).fold(self.due, Time::min)
    }
}

impl Pipe for DrainingLinks {
    fn into_kind(self: Box<Self>) -> PipeKind {
        PipeKind::Draining(self)
    }
}

impl Layer for DrainingLinks {
    fn inner(&self) -> Option<&dyn Pipe> {
        Some(self.now.as_pipe())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Pipe> {
        Some(self.now.as_pipe_mut())
    }
}

impl PacketPath for DrainingLinks {
    fn arrive(&mut self, unit: Unit, ids: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        self.due = self.now.as_pipe_mut().arrive(unit, ids, now, out);
        self.next()
    }

    fn run_event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if self.due <= now {
            self.due = self.now.as_pipe_mut().run_event(now, out);
        } else if let Some(before) = self.before.iter_mut().find(|before| before.due <= now) {
            let from = out.len();
            before.due = before.pipe.run_event(now, out);
            before.relabel(&mut out[from..]);
        }
        self.next()
    }

    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time {
        self.due = self.now.as_pipe_mut().port_room(room, now, out);
        self.next()
    }

    fn next_due(&self) -> Time {
        let before = self.before.iter().map(|before| before.pipe.next_due());
        before.fold(self.now.as_pipe().next_due(), Time::min)
    }

    fn has_room(&self, flow: FlowId, ids: &MaskIds, bytes: u32) -> bool {
        self.now.as_pipe().has_room(flow, ids, bytes)
    }

    fn earliest_due(&self, bytes: u32, now: Time) -> Time {
        let before = self.before.iter().map(|before| before.pipe.earliest_due(bytes, now));
        before.fold(self.now.as_pipe().earliest_due(bytes, now), Time::min)
    }
}

impl Inspection for DrainingLinks {
    fn properties(&self) -> &PipeProperties {
        &self.properties
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let mut sum = self.now.as_pipe().counters(flow);
        sum.add(&self.counted[flow.index()]);
        self.before.iter().for_each(|before| sum.add(&before.sum(|was| *was == (flow, true))));
        sum
    }

    fn counters_part(
        &self,
        flow: FlowId,
        (from, steps): (u64, usize),
        sum: &mut Counters,
    ) -> Option<u64> {
        let next = self.now.as_pipe().counters_part(flow, (from, steps), sum);
        if next.is_none() {
            sum.add(&self.counted[flow.index()]);
            self.before.iter().for_each(|before| sum.add(&before.sum(|was| *was == (flow, true))));
        }
        next
    }

    fn removed_flow_counters(&self) -> Counters {
        let mut sum = self.now.as_pipe().removed_flow_counters();
        sum.add(&self.removed);
        for before in &self.before {
            sum.add(&before.pipe.removed_flow_counters());
            sum.add(&before.sum(|flow| !flow.1));
        }
        sum
    }

    fn guarantee(&self, flow: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.now.as_pipe().guarantee(flow)
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.now.as_pipe().breaches(out);
        self.before.iter().for_each(|before| before.pipe.breaches(out));
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.before.is_empty() && self.now.as_pipe_mut().is_reusable(flow, now)
    }

    fn is_at_rest(&mut self, now: Time) -> bool {
        self.before.is_empty() && self.now.as_pipe_mut().is_at_rest(now)
    }
}
