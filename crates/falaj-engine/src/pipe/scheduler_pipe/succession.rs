//! A pipe that takes over from another: of the same kind with its queues as they are, of any other
//! packet by packet.

use super::{LinkState, SchedulerPipe};
use crate::handover::{FlowMapping, Handover};
use crate::impair::{Impairer, ImpairmentCounters};
use crate::message::{DropReason, Output};
use crate::pipe::device::DeviceState;
use crate::pipe::{LinkPipe, PipeParts};
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::registry;
use falaj_sched::scheduler::instance::Scheduler;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::rate::Wire;
use falaj_sched::units::time::Time;
use std::any::Any;

impl<S: Scheduler + 'static> SchedulerPipe<S> {
    /// Goes on as `old`: with its packets, what its wire and its device are about, and what was
    /// counted.
    pub(super) fn take_over(
        &mut self,
        old: Box<dyn LinkPipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        let flows = self.properties.flows;
        let others = !how.flows.is_empty() || how.drop;
        let (wire, before, device);
        let as_they_are = !others && old.properties().largest <= self.properties.largest;
        old.breaches(&mut self.breaches);
        let same = (&*old as &dyn Any).downcast_ref::<SchedulerPipe<S>>();
        let (on_the_wire, end) = if as_they_are
            && same.is_some_and(|old| self.scheduler.can_migrate_from(&old.scheduler))
        {
            let old: Box<dyn Any> = old;
            let old = *old.downcast::<SchedulerPipe<S>>().expect("just looked");
            (wire, self.stats, before, device) = (old.wire, old.stats, old.impairer, old.device);
            let at = device.map_or(now, |device| device.clock(now));
            self.drops = Some(Box::new(old.spec));
            let sending = old.link.sending();
            let queue = sending.map(|(queue, _)| queue);
            let setup = registry::joined(self.spec.kind, &self.spec.setup);
            (
                self.scheduler.migrate_from(old.scheduler, &setup, queue, known, at),
                sending.map(|(_, end)| end),
            )
        } else {
            let PipeParts { packets, sending, wire: its, device: its_device, stats, impairer } =
                old.dismantle();
            self.scheduler.start(&registry::joined(self.spec.kind, &self.spec.setup));
            (wire, self.stats, before, device) = (its, stats, impairer, its_device);
            let at = device.map_or(now, |device| device.clock(now));
            (self.inherit((packets, sending.is_some()), flows, how, known, at, out), sending)
        };
        if let (Some(queue), Some(end)) = (on_the_wire, end) {
            self.link = LinkState::Sending { queue, end };
        }
        self.wire = Wire::of(self.spec.setup.rate, &self.spec.capacity).migrate_from(wire);
        self.device = DeviceState::migrate_from(self.device, device, now);
        self.plain = self.plain();
        self.stats.resize(flows);
        self.impair_on(before, others);
    }

    /// After a change: goes on with what the link did to packets before it. Where flows and what
    /// waits are `others` than before, packets have other numbers.
    fn impair_on(&mut self, before: Option<Box<Impairer>>, others: bool) {
        let Some(impairer) = &mut self.impairer else { return };
        let flows = self.stats.hot.len();
        self.stats.impairments.resize(flows, ImpairmentCounters::default());
        let renumbered = before.is_none() || others;
        if let Some(before) = before {
            impairer.migrate_from(*before, !others);
        }
        if renumbered {
            for flow in (0..flows as u32).map(FlowId) {
                let (offered, backlog) =
                    (self.stats.offered(flow), u64::from(self.stats.hot[flow.index()].backlog));
                (offered - backlog..offered).for_each(|number| impairer.comes(flow, number));
            }
        }
    }

    /// Takes over what another pipe has left; says which queue is on the wire.
    fn inherit(
        &mut self,
        (packets, sending): (Vec<Packet>, bool),
        flows: usize,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Option<FlowId> {
        if !how.flows.is_empty() {
            self.stats.become_others(&how.flows, flows);
        }
        self.stats.resize(flows);
        let largest = self.spec.setup.largest;
        let (mut stay, mut rest) = (Vec::new(), Vec::new());
        for (n, mut packet) in packets.into_iter().enumerate() {
            let fate = how.mapping(packet.flow.index());
            let (flow, on_the_wire) = (fate.flow(), sending && n == 0);
            packet.flow = flow;
            if !on_the_wire && matches!(fate, FlowMapping::Dropped(_)) {
                self.stats.dropped_by_change(None, packet.bytes);
                out.push(self.dropped(packet.handle, flow, packet.bytes, DropReason::Changed));
                continue;
            }
            if matches!(fate, FlowMapping::Joins(_) | FlowMapping::Dropped(_)) {
                self.stats.hot[flow.index()].queued(packet.bytes);
            }
            if on_the_wire && packet.bytes > largest {
                // It has its time on the wire already; no queue shall see it.
                self.stats.hot[flow.index()].backlog_bytes -= packet.bytes - largest;
                packet.bytes = largest;
            }
            if on_the_wire || !how.drop { stay.push(packet) } else { rest.push(packet) }
        }
        let on_the_wire = self.scheduler.inherit(stay, sending, known, now);
        for packet in rest {
            let fits = packet.bytes <= largest;
            if fits && self.scheduler.wants_labels() {
                self.scheduler
                    .announce(Label { waited: now.since(packet.arrival), ..known(packet.handle) });
            }
            if !fits || self.scheduler.arrive(packet, now).is_err() {
                self.stats.dropped_by_change(Some(packet.flow), packet.bytes);
                out.push(self.dropped(
                    packet.handle,
                    packet.flow,
                    packet.bytes,
                    DropReason::Changed,
                ));
            }
            while let Some(gone) = self.scheduler.evicted() {
                self.thrown_out(gone, true, out);
            }
            if self.scheduler.marked() {
                self.mark(packet.flow, packet.handle, out);
            }
        }
        on_the_wire
    }
}
