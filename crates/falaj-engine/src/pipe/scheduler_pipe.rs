//! A pipe around a scheduler, which is a discipline with its queues.
//!
//! The pipe calls the discipline at the instants of its contract. Every decision happens at a
//! nominal instant: the end of a transmission, an instant that the discipline named, or an arrival
//! at a free link. The times at which the engine is polled make no difference.

use super::pipe_core::{LinkState, PipeCore, SchedulerProperties};
use super::stats::Counters;
use super::{
    DeferredDrops, DeviceTimes, Inspection, Layer, LinkPipe, PacketPath, Pipe, PipeKind, PipeLinks,
    PipeParts, PipeProperties, PipeSpec, PipeState, SingleLink,
};
use crate::handover::Handover;
use crate::masks::MaskIds;
use crate::message::{Output, PipeId, Unit};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::registry;
use falaj_sched::scheduler::{HeldScheduler, Inspection as _, Scheduler as _, Succession as _};
use falaj_sched::units::draws::mix;
use falaj_sched::units::label::{Known, Label};
use falaj_sched::units::time::Time;
use std::any::Any;
use std::sync::Arc;

struct SchedulerPipe<S: HeldScheduler> {
    core: PipeCore,
    scheduler: S,
}

/// A pipe around a scheduler, which may have no queues yet.
pub(super) fn pipe<S: HeldScheduler>(
    id: PipeId,
    spec: &Arc<PipeSpec>,
    mut scheduler: S,
    has_queues: bool,
) -> Box<dyn LinkPipe> {
    scheduler.get_mut().seed(mix(spec.seed) ^ u64::from(id.0));
    let properties = SchedulerProperties {
        wants_labels: scheduler.get().wants_labels(),
        drops_early: scheduler.get().drops_early(),
        peeks: scheduler.get().peeks(),
        has_queues,
    };
    Box::new(SchedulerPipe { core: PipeCore::new(id, spec, &properties), scheduler })
}

impl<S: HeldScheduler> SchedulerPipe<S> {
    /// The link is free: asks the discipline until a packet is on the wire or none may go. A device
    /// that paces the link is handed packets as long as it has room and packets may go; `device.rs`
    /// explains why that is right.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        loop {
            let mut at = now;
            if self.core.device.is_some() {
                match self.device_start(now) {
                    Some(start) => at = start,
                    None => return,
                }
            }
            match self.scheduler.get_mut().next(at, &self.core.wire) {
                Decision::Serve(queue) => {
                    if self.core.peeks
                        && let Some(bytes) = self.scheduler.get_mut().head(queue)
                        && let Some(then) = self.core.wire.waits_for_tokens(bytes, now)
                    {
                        self.core.link = LinkState::NotBefore(then);
                        return;
                    }
                    let end = self.send(queue, at, out);
                    if self.core.device.is_some() {
                        self.core.handed(queue, end, now, out);
                        continue;
                    }
                    if end > now {
                        self.core.link = LinkState::Sending { queue, end };
                        return;
                    }
                    self.finish(queue, now);
                }
                Decision::Drop(queue) => {
                    let packet = self.scheduler.get_mut().drop_head(queue, at);
                    let by_policy = self.scheduler.get().by_policy();
                    self.core.dropped_from_queue(packet, by_policy, out);
                }
                Decision::NotBefore(then) => {
                    debug_assert!(then > at, "an instant that never comes");
                    self.core.link = LinkState::NotBefore(then);
                    return;
                }
                Decision::Idle => {
                    self.core.link = LinkState::Idle;
                    return;
                }
            }
        }
    }

    /// The start of transmission of a packet handed to the device now; `None` if it may be handed
    /// no packet.
    #[cold]
    fn device_start(&mut self, now: Time) -> Option<Time> {
        if let LinkState::Handed { queue, leaf, end } = self.core.link {
            if self.core.waits_for_end(leaf, end, now) {
                return None;
            }
            self.finish(queue, end);
            self.core.link = LinkState::Idle;
        }
        self.core.device_start(now)
    }

    /// Puts the head of `queue` on the wire; returns the time at which its last bit leaves.
    fn send(&mut self, queue: FlowId, start: Time, out: &mut Vec<Output>) -> Time {
        let (packet, sent) = self.scheduler.get_mut().take(queue, start, &mut self.core.wire);
        if self.scheduler.get_mut().marked() {
            self.core.mark(packet.flow, packet.handle, out);
        }
        if let Some(by) = self.scheduler.get_mut().earliness() {
            self.core.early(&packet, by, out);
        }
        if self.core.impairer.is_some() {
            return self.core.send_impaired(packet, start, sent.end, out);
        }
        out.push(Output::Emit(self.core.emit(packet, start, sent.end)));
        sent.end
    }

    #[inline(always)]
    fn finish(&mut self, queue: FlowId, now: Time) {
        let packet = self.scheduler.get_mut().finish(queue, now);
        self.core.stats.hot[packet.flow.index()].gone(packet.bytes);
    }

    /// Drops the packets that were evicted for the packet that arrived last.
    #[inline(always)]
    fn drop_evicted(&mut self, out: &mut Vec<Output>) {
        while let Some(packet) = self.scheduler.get_mut().evicted() {
            self.core.dropped_from_queue(packet, true, out);
        }
    }

    /// Takes over the packets of another pipe; returns the queue whose head is on the wire.
    fn inherit(
        &mut self,
        (packets, sending): (Vec<Packet>, bool),
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Option<FlowId> {
        let (stay, rest) = self.core.sort((packets, sending), how, out);
        let on_the_wire = self.scheduler.get_mut().inherit(stay, sending, known, now);
        for packet in rest {
            let fits = packet.bytes <= self.core.properties.largest;
            if fits && self.scheduler.get().wants_labels() {
                let waited = now.since(packet.arrival);
                self.scheduler.get_mut().announce(Label { waited, ..known(packet.handle) });
            }
            if !fits || self.scheduler.get_mut().arrive(packet, now).is_err() {
                self.core.dropped_by_change(Some(packet.flow), &packet, out);
            }
            self.drop_evicted(out);
            if self.scheduler.get_mut().marked() {
                self.core.mark(packet.flow, packet.handle, out);
            }
        }
        on_the_wire
    }
}

impl<S: HeldScheduler> Pipe for SchedulerPipe<S> {
    fn into_kind(self: Box<Self>) -> PipeKind {
        PipeKind::Links(PipeLinks::Single(SingleLink::Plain(self)))
    }

    fn state(&self) -> Option<PipeState> {
        let sending = self.core.link.sending();
        let mut packets = self.scheduler.get().packets(sending.map(|(queue, _)| queue));
        if sending.is_some() && !packets.is_empty() {
            // The packet on the wire was reported, and has left when the link is free.
            self.core.state(&[packets.remove(0)], packets)
        } else {
            self.core.state(&[], packets)
        }
    }

    fn resume(
        &mut self,
        state: PipeState,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let packets = self.core.resume(state)?;
        self.inherit((packets, false), &Handover::default(), known, self.core.clock(now), out);
        if self.core.link.due() <= now || self.core.device.is_some() {
            self.core.link = LinkState::Idle;
            self.ask(now, out);
        }
        Some(self.core.link.due())
    }
}

impl<S: HeldScheduler> Layer for SchedulerPipe<S> {}

impl<S: HeldScheduler> PacketPath for SchedulerPipe<S> {
    fn arrive(&mut self, unit: Unit, _: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let Unit { flow, handle, mut bytes } = unit;
        if cfg!(debug_assertions)
            && (self.core.link == LinkState::Idle
                || matches!(self.core.link, LinkState::NotBefore(t) if t > now))
        {
            // In debug builds: tests show that an extra question to the discipline changes nothing.
            let _ = self.scheduler.get_mut().next(self.core.clock(now), &self.core.wire);
        }
        let (mut at, mut by_device) = (now, false);
        if bytes > self.core.plain {
            match self.core.comes_apart(&unit, now, out) {
                Some(cost) => bytes = cost,
                None => return self.core.link.due(),
            }
            (at, by_device) = (self.core.clock(now), self.core.device.is_some());
        }
        let packet = Packet { handle, bytes, flow, arrival: now };
        let Ok(is_head) = self.scheduler.get_mut().arrive(packet, at) else {
            self.core.turned_away(packet, self.scheduler.get().by_policy(), out);
            self.drop_evicted(out);
            return self.core.link.due();
        };
        // Packets that were evicted for it count as gone before it counts as queued.
        self.drop_evicted(out);
        self.core.stats.hot[flow.index()].queued(bytes);
        if self.scheduler.get_mut().marked() {
            self.core.mark(flow, handle, out);
        }
        if is_head && self.core.link.is_free() || by_device && self.core.link.has_handed(flow) {
            self.ask(now, out);
        }
        self.core.link.due()
    }

    fn run_event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if let LinkState::Sending { queue, .. } = self.core.link {
            self.finish(queue, now);
        }
        self.ask(now, out);
        self.core.link.due()
    }

    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time {
        if let Some(device) = &mut self.core.device {
            device.reports(room, now, self.core.spec.setup.rate);
            if !matches!(self.core.link, LinkState::Sending { .. }) {
                self.ask(now, out);
            }
        }
        self.core.link.due()
    }

    fn announce(&mut self, label: Label) {
        self.scheduler.get_mut().announce(label);
    }

    fn next_due(&self) -> Time {
        self.core.next_due(&|| self.scheduler.get().shortest_head())
    }

    fn device_times(&self) -> DeviceTimes {
        self.core.device_times()
    }

    fn has_room(&self, flow: FlowId, _: &MaskIds, bytes: u32) -> bool {
        self.scheduler.get().has_room(flow, self.core.cost(bytes))
    }

    fn earliest_due(&self, bytes: u32, now: Time) -> Time {
        self.core.earliest_due(bytes, now)
    }
}

impl<S: HeldScheduler> Inspection for SchedulerPipe<S> {
    fn properties(&self) -> &PipeProperties {
        &self.core.properties
    }

    fn counters(&self, flow: FlowId) -> Counters {
        let air = self.scheduler.get().air(flow).unwrap_or_default();
        Counters { air, ..self.core.stats.counters(flow) }
    }

    fn sum(&self, first: FlowId, number: u32) -> Counters {
        let mut sum = self.core.stats.sum(first.index()..first.index() + number as usize);
        let airs =
            (first.0..first.0 + number).map_while(|flow| self.scheduler.get().air(FlowId(flow)));
        airs.for_each(|air| sum.add(&Counters { air, ..Counters::default() }));
        sum
    }

    fn removed_flow_counters(&self) -> Counters {
        self.core.stats.removed_flow_counters()
    }

    fn guarantee(&self, flow: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.core.guarantee(&|| self.scheduler.get().guarantee(flow))
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.core.breaches(out);
        self.scheduler.get().breaches(out);
    }

    fn largest_waiting(&self) -> u32 {
        self.scheduler.get().largest_waiting(self.core.link.sending().map(|(queue, _)| queue))
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.core.stats.hot[flow.index()].backlog == 0
            && self.scheduler.get_mut().is_reusable(flow, self.core.clock(now))
    }

    fn is_at_rest(&mut self, now: Time) -> bool {
        let mut flows = (0..self.core.stats.hot.len() as u32).map(FlowId);
        self.core.is_at_rest(now) && flows.all(|flow| self.is_reusable(flow, now))
    }
}

impl<S: HeldScheduler> LinkPipe for SchedulerPipe<S> {
    /// Takes over the queues of a pipe of the same kind as they are, and the packets of any other
    /// pipe one by one.
    fn migrate_from(
        &mut self,
        old: Box<dyn LinkPipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        let others = !how.flows.is_empty() || how.drop;
        let as_they_are = !others && old.properties().largest <= self.core.properties.largest;
        old.breaches(&mut self.core.breaches);
        let spec = Arc::clone(&self.core.spec);
        let setup = registry::joined(spec.kind, &spec.setup);
        let same = (&*old as &dyn Any).downcast_ref::<SchedulerPipe<S>>();
        let same = same.is_some_and(|old| {
            self.scheduler.can_migrate_from(&old.scheduler)
                && !old.core.goes_back(spec.setup.rate, now)
        });
        let (on_the_wire, link) = if as_they_are && same {
            let old: Box<dyn Any> = old;
            let old = *old.downcast::<SchedulerPipe<S>>().expect("just looked");
            let SchedulerPipe { core, scheduler } = old;
            let queue = core.link.sending().map(|(queue, _)| queue);
            let at = core.clock(now);
            self.core.drops = Some(Box::new(Arc::clone(&core.spec)));
            let PipeParts { wire, device, stats, impairer, sending, .. } =
                core.into_parts(Vec::new());
            self.core.stats = stats;
            let queue = self.scheduler.migrate_from(scheduler, &setup, queue, known, at);
            (queue.zip(sending), (wire, device, impairer))
        } else {
            let PipeParts { packets, mut sending, wire, mut device, stats, impairer } =
                old.dismantle();
            if let Some(device) = &mut device {
                let until = device.until_by_rate(wire.rate(), spec.setup.rate, now);
                if let Some(sending) = &mut sending
                    && sending.handed
                    && until < device.until()
                {
                    let end = sending.end.min(until);
                    (sending.end, sending.free) = (end, end);
                }
                device.handed(until);
            }
            self.scheduler.get_mut().start(&setup);
            self.core.stats = stats;
            let at = device.map_or(now, |device| device.clock(now));
            let queue = self.inherit((packets, sending.is_some()), how, known, at, out);
            (queue.zip(sending), (wire, device, impairer))
        };
        let on_the_wire = on_the_wire.and_then(|(queue, transmission)| {
            Some((queue, self.scheduler.get().on_the_wire(queue)?, transmission))
        });
        let retimed = self.core.go_on(on_the_wire, link, others, now, out);
        if let Some((queue, end)) = retimed {
            self.scheduler.get_mut().retimed(queue, end, now);
        }
        if !matches!(self.core.link, LinkState::Sending { .. }) {
            self.ask(now, out);
        }
        self.core.link.due()
    }

    fn dismantle(self: Box<Self>) -> PipeParts {
        let sending = self.core.link.sending();
        let packets = self.scheduler.get().packets(sending.map(|(queue, _)| queue));
        self.core.into_parts(packets)
    }

    fn deferred_drops(&mut self) -> Option<DeferredDrops> {
        self.core.drops.take()
    }
}
