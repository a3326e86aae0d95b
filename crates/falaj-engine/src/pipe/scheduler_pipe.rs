//! A pipe around a scheduler, which is a discipline with its queues.
//!
//! The pipe keeps the moments that the discipline's contract names. Every
//! decision happens at a nominal instant: the end of a transmission, an
//! instant that the discipline named, an arrival at a free link. When the
//! engine is polled makes no difference.

mod filling;
mod succession;

use super::device::{DeviceState, Pace};
use super::stats::{Counters, PipeStats};
use super::{
    DeferredDrops, DeviceTimes, Inspection, Layer, LinkPipe, PacketPath, Pipe, PipeKind, PipeLinks,
    PipeParts, PipeProperties, PipeSpec, SingleLink,
};
use crate::handover::Handover;
use crate::impair::event::Chances;
use crate::impair::{Impairer, ImpairmentCounters};
use crate::masks::MaskIds;
use crate::message::{DropReason, Dropped, Early, EcnMark, Emit, Output, PipeId, Unit};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::discipline::Decision;
use falaj_sched::contract::guarantee::Promise;
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::scheduler::instance::Scheduler;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::draws::mix;
use falaj_sched::units::label::{Ecn, Known, Label};
use falaj_sched::units::rate::Wire;
use falaj_sched::units::time::{Span, Time};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    Idle,
    NotBefore(Time),
    Sending {
        queue: FlowId,
        end: Time,
    },
    /// Its device has no room before this.
    Full(Time),
    /// Its device was handed the last packet of this flow, which is in its queue until it ends.
    Handed {
        queue: FlowId,
        leaf: FlowId,
        end: Time,
    },
}

impl LinkState {
    /// When something happens without an arrival.
    #[inline]
    fn due(self) -> Time {
        match self {
            LinkState::Idle => Time::NEVER,
            LinkState::NotBefore(then) | LinkState::Full(then) => then,
            LinkState::Sending { end, .. } | LinkState::Handed { end, .. } => end,
        }
    }

    /// May a packet that comes go at once, if the discipline lets it?
    #[inline]
    fn is_free(self) -> bool {
        matches!(self, LinkState::Idle | LinkState::NotBefore(_))
    }

    /// Was its device handed the last packet of this flow?
    fn has_handed(self, flow: FlowId) -> bool {
        matches!(self, LinkState::Handed { leaf, .. } if leaf == flow)
    }

    fn sending(self) -> Option<(FlowId, Time)> {
        match self {
            LinkState::Sending { queue, end } | LinkState::Handed { queue, end, .. } => {
                Some((queue, end))
            }
            _ => None,
        }
    }
}

struct SchedulerPipe<S: Scheduler> {
    id: PipeId,
    spec: Arc<PipeSpec>,
    properties: PipeProperties,
    scheduler: S,
    wire: Wire,
    link: LinkState,
    /// `None` where falaj paces the link.
    device: Option<DeviceState>,
    stats: PipeStats,
    /// `None` where the link does nothing to packets.
    impairer: Option<Box<Impairer>>,
    /// Breaches of contract by disciplines that this one has taken over from.
    breaches: Vec<Breach>,
    /// Packets up to this length come in without more ado; 0 on a link that does something to
    /// packets, counts more bytes than they have, or is paced by its device.
    plain: u32,
    /// While tokens are waited for, the discipline is asked anew which packet is next.
    peeks: bool,
    drops: Option<DeferredDrops>,
}

/// A pipe around a scheduler, which may have no queues yet.
pub(super) fn pipe<S: Scheduler + 'static>(
    id: PipeId,
    spec: &Arc<PipeSpec>,
    mut scheduler: S,
    queues: bool,
) -> Box<dyn LinkPipe> {
    scheduler.seed(mix(spec.seed) ^ u64::from(id.0));
    let properties = PipeProperties {
        flows: spec.setup.number_of_leaves(),
        masks: spec.masks.clone(),
        largest: spec.setup.largest,
        least_delay: spec.impairments.delays(spec.delay).0,
        device_backlog: match spec.pace {
            Pace::Falaj => None,
            Pace::Device { backlog } => Some(backlog),
        },
        wants_labels: scheduler.wants_labels(),
        drops_early: scheduler.drops_early(),
    };
    let flows = if queues { properties.flows } else { 0 };
    let mut stats = PipeStats::new(flows);
    let impairer = (!spec.impairments.is_none()).then(|| {
        stats.impairments = vec![ImpairmentCounters::default(); flows];
        let chances = Chances { seed: spec.seed, pipe: id.0 };
        Box::new(Impairer::new(&spec.impairments, spec.delay, chances, properties.flows))
    });
    let peeks = scheduler.peeks();
    let mut pipe = SchedulerPipe {
        id,
        properties,
        scheduler,
        wire: Wire::of(spec.setup.rate, &spec.capacity),
        link: LinkState::Idle,
        device: DeviceState::new(spec),
        stats,
        plain: 0,
        peeks: peeks && matches!(spec.capacity, Capacity::TokenBucket(_)),
        impairer,
        breaches: Vec::new(),
        spec: Arc::clone(spec),
        drops: None,
    };
    pipe.plain = pipe.plain();
    Box::new(pipe)
}

impl<S: Scheduler> SchedulerPipe<S> {
    fn plain(&self) -> u32 {
        let apart = self.impairer.is_some() || self.spec.framing.is_some() || self.device.is_some();
        if apart { 0 } else { self.spec.setup.largest }
    }

    /// Returns true if its device paces the link, now or once falaj is done with it.
    fn is_device_paced(&self) -> bool {
        self.properties.device_backlog.is_some()
    }

    /// The instant at which the discipline is: of a link that its device paces, where what that was
    /// handed ends.
    fn clock(&self, now: Time) -> Time {
        self.device.map_or(now, |device| device.clock(now))
    }

    /// The link is free: asks until something is on the wire or nothing may be.
    fn ask(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.device.is_some() {
            return self.fill(now, out);
        }
        loop {
            match self.scheduler.next(now, &self.wire) {
                Decision::Serve(queue) => {
                    if self.peeks
                        && let Some(bytes) = self.scheduler.head(queue)
                        && let Some(then) = self.wire.waits_for_tokens(bytes, now)
                    {
                        self.link = LinkState::NotBefore(then);
                        return;
                    }
                    let end = self.send(queue, now, out);
                    if end > now {
                        self.link = LinkState::Sending { queue, end };
                        return;
                    }
                    self.finish(queue, now);
                }
                Decision::Drop(queue) => {
                    let packet = self.scheduler.throw_away(queue, now);
                    let by_policy = self.scheduler.by_policy();
                    self.thrown_out(packet, by_policy, out);
                }
                Decision::NotBefore(then) => {
                    debug_assert!(then > now, "an instant that never comes");
                    self.link = LinkState::NotBefore(then);
                    return;
                }
                Decision::Idle => {
                    self.link = LinkState::Idle;
                    return;
                }
            }
        }
    }

    /// The head of `queue` goes on the wire; returns when its last bit leaves.
    fn send(&mut self, queue: FlowId, start: Time, out: &mut Vec<Output>) -> Time {
        let (packet, sent) = self.scheduler.take(queue, start, &mut self.wire);
        if self.scheduler.marked() {
            self.mark(packet.flow, packet.handle, out);
        }
        if let Some(by) = self.scheduler.earliness() {
            out.push(Output::Early(Early {
                pipe: self.id,
                flow: packet.flow,
                handle: packet.handle,
                by,
            }));
        }
        if self.impairer.is_some() {
            return self.send_impaired(packet, start, sent.end, out);
        }
        out.push(Output::Emit(self.emit(packet, start, sent.end)));
        sent.end
    }

    /// A packet goes that was queued already.
    fn thrown_out(&mut self, packet: Packet, by_policy: bool, out: &mut Vec<Output>) {
        if let Some(impairer) = &mut self.impairer {
            impairer.thrown_away(packet.flow);
        }
        self.stats.thrown_out(&packet, by_policy);
        let why = if by_policy { DropReason::Policy } else { DropReason::Discipline };
        out.push(self.dropped(packet.handle, packet.flow, packet.bytes, why));
    }

    #[cold]
    fn mark(&mut self, flow: FlowId, handle: u32, out: &mut Vec<Output>) {
        self.stats.drops(flow).marked += 1;
        out.push(Output::Mark(EcnMark { pipe: self.id, flow, handle, ecn: Ecn::Ce }));
    }

    #[inline]
    fn emit(&self, packet: Packet, start: Time, end: Time) -> Emit {
        Emit {
            pipe: self.id,
            flow: packet.flow,
            handle: packet.handle,
            bytes: packet.bytes,
            arrival: packet.arrival,
            start,
            end,
            due: end + self.spec.delay,
        }
    }

    /// On a link that does something to packets, which may occupy it beyond the `end`.
    #[cold]
    fn send_impaired(
        &mut self,
        packet: Packet,
        start: Time,
        end: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        let emit = self.emit(packet, start, end);
        let flow = packet.flow.index();
        let Some(impairer) = &mut self.impairer else { return end };
        let backlog = self.stats.hot[flow].backlog.into();
        let (occupied, free) = impairer.pass(emit, backlog, &mut self.stats.impairments[flow], out);
        self.wire.hold(occupied - end);
        free
    }

    #[inline(always)]
    fn finish(&mut self, queue: FlowId, now: Time) {
        let packet = self.scheduler.finish(queue, now);
        self.stats.hot[packet.flow.index()].gone(packet.bytes);
    }

    /// A packet that is too large, or of a link that does something to packets: what it costs, if
    /// it is let in.
    #[cold]
    fn comes_apart(&mut self, unit: &Unit, out: &mut Vec<Output>) -> Option<u32> {
        let Unit { flow, handle, bytes } = *unit;
        let largest = self.spec.framing.map_or(self.spec.setup.largest, |framing| framing.largest);
        let cost = self.spec.framing.map_or(bytes, |framing| framing.of(bytes));
        if bytes > largest {
            let drops = self.stats.drops(flow);
            drops.large += 1;
            drops.bytes += u64::from(cost);
            out.push(self.dropped(handle, flow, cost, DropReason::TooLarge));
            return None;
        }
        if let Some(impairer) = &mut self.impairer {
            impairer.comes(flow, self.stats.offered(flow));
        }
        Some(cost)
    }

    fn dropped(&self, handle: u32, flow: FlowId, bytes: u32, why: DropReason) -> Output {
        Output::Drop(Dropped { pipe: self.id, flow, handle, bytes, why })
    }
}

impl<S: Scheduler + 'static> Pipe for SchedulerPipe<S> {
    fn into_kind(self: Box<Self>) -> PipeKind {
        PipeKind::Links(PipeLinks::Single(SingleLink::Plain(self)))
    }
}

impl<S: Scheduler> Layer for SchedulerPipe<S> {}

impl<S: Scheduler> PacketPath for SchedulerPipe<S> {
    fn arrive(&mut self, unit: Unit, _: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let Unit { flow, handle, mut bytes } = unit;
        if cfg!(debug_assertions)
            && (self.link == LinkState::Idle
                || matches!(self.link, LinkState::NotBefore(t) if t > now))
        {
            // In tests: asking out of turn changes nothing.
            let _ = self.scheduler.next(self.clock(now), &self.wire);
        }
        let (mut at, mut by_device) = (now, false);
        if bytes > self.plain {
            match self.comes_apart(&unit, out) {
                Some(cost) => bytes = cost,
                None => return self.link.due(),
            }
            (at, by_device) = (self.clock(now), self.device.is_some());
        }
        let Ok(is_head) = self.scheduler.arrive(Packet { handle, bytes, flow, arrival: now }, at)
        else {
            if let Some(impairer) = &mut self.impairer {
                impairer.turned_away(flow);
            }
            let by_policy = self.scheduler.by_policy();
            self.stats.turned_away(flow, bytes, by_policy);
            let why = if by_policy { DropReason::Policy } else { DropReason::QueueFull };
            out.push(self.dropped(handle, flow, bytes, why));
            while let Some(packet) = self.scheduler.evicted() {
                self.thrown_out(packet, true, out);
            }
            return self.link.due();
        };
        // Whoever had to go for it was gone before it came.
        while let Some(packet) = self.scheduler.evicted() {
            self.thrown_out(packet, true, out);
        }
        self.stats.hot[flow.index()].queued(bytes);
        if self.scheduler.marked() {
            self.mark(flow, handle, out);
        }
        if is_head && self.link.is_free() || by_device && self.link.has_handed(flow) {
            self.ask(now, out);
        }
        self.link.due()
    }

    fn run_event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
        if let LinkState::Sending { queue, .. } = self.link {
            self.finish(queue, now);
        }
        self.ask(now, out);
        self.link.due()
    }

    fn port_room(&mut self, room: u32, now: Time, out: &mut Vec<Output>) -> Time {
        if let Some(device) = &mut self.device {
            device.reports(room, now, self.spec.setup.rate);
            if !matches!(self.link, LinkState::Sending { .. }) {
                self.fill(now, out);
            }
        }
        self.link.due()
    }

    fn announce(&mut self, label: Label) {
        self.scheduler.announce(label);
    }

    fn next_due(&self) -> Time {
        let then = match self.link {
            LinkState::Idle => return Time::NEVER,
            // What leaves then was decided before, and what follows has an airtime that nobody
            // knows yet.
            LinkState::Sending { end, .. } => end,
            LinkState::Full(_) if self.is_device_paced() => return Time::NEVER,
            LinkState::Handed { .. } if self.is_alone() => return Time::NEVER,
            LinkState::Handed { end, .. } => end,
            LinkState::Full(then) => then,
            // What may go then is handed over at once.
            LinkState::NotBefore(then) if self.device.is_some() => then,
            // One of the heads goes first, and is due when its last bit has left. The wire may end
            // a nanosecond before the airtime, which is rounded up.
            LinkState::NotBefore(then) => {
                let airtime = |bytes| self.wire.least_airtime(bytes);
                then + self.scheduler.shortest_head().map_or(Span::ZERO, airtime)
            }
        };
        then + self.properties.least_delay
    }

    fn device_times(&self) -> DeviceTimes {
        let refill = match self.link {
            LinkState::Full(then) if self.is_device_paced() => then,
            _ => Time::NEVER,
        };
        let supplied_until = match (self.link, self.device) {
            (LinkState::Idle, Some(_)) => Time::NEVER,
            (LinkState::Full(then), Some(_)) => then,
            (LinkState::Handed { end, .. }, Some(device)) => device.low_before(end),
            _ => Time::ZERO,
        };
        DeviceTimes { refill, supplied_until }
    }

    fn has_room(&self, flow: FlowId, _: &MaskIds, bytes: u32) -> bool {
        self.scheduler.has_room(flow, self.spec.framing.map_or(bytes, |framing| framing.of(bytes)))
    }

    fn earliest_due(&self, bytes: u32, now: Time) -> Time {
        let free =
            if self.link == LinkState::Idle || self.peeks { now } else { self.link.due().max(now) };
        if self.device.is_some() {
            return free;
        }
        free + self.wire.least_airtime(bytes) + self.properties.least_delay
    }
}

impl<S: Scheduler> Inspection for SchedulerPipe<S> {
    fn properties(&self) -> &PipeProperties {
        &self.properties
    }

    fn counters(&self, flow: FlowId) -> Counters {
        Counters { air: self.scheduler.air(flow).unwrap_or_default(), ..self.stats.counters(flow) }
    }

    fn sum(&self, first: FlowId, number: u32) -> Counters {
        let mut sum = self.stats.sum(first.index()..first.index() + number as usize);
        let airs = (first.0..first.0 + number).map_while(|flow| self.scheduler.air(FlowId(flow)));
        airs.for_each(|air| sum.add(&Counters { air, ..Counters::default() }));
        sum
    }

    fn removed_flow_counters(&self) -> Counters {
        self.stats.removed_flow_counters()
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        let promise = self.spec.no_promise().map_or_else(|| self.scheduler.promise(flow), Err);
        promise.map(|promise| promise.later(self.spec.held_by_device()))
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.breaches.iter().cloned().for_each(|breach| breach.join(out));
        self.scheduler.breaches(out);
    }

    fn largest_waiting(&self) -> u32 {
        self.scheduler.largest_waiting(self.link.sending().map(|(queue, _)| queue))
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.stats.hot[flow.index()].backlog == 0
            && self.scheduler.is_reusable(flow, self.clock(now))
    }

    fn is_at_rest(&mut self, now: Time) -> bool {
        let mut flows = (0..self.stats.hot.len() as u32).map(FlowId);
        let handed_over = self.device.is_some_and(|device| !device.is_empty(now));
        self.link == LinkState::Idle
            && !handed_over
            && self.wire.is_rested(now)
            && flows.all(|flow| self.is_reusable(flow, now))
    }
}

impl<S: Scheduler + 'static> LinkPipe for SchedulerPipe<S> {
    fn migrate_from(
        &mut self,
        old: Box<dyn LinkPipe>,
        how: &Handover,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Time {
        self.take_over(old, how, known, now, out);
        if !matches!(self.link, LinkState::Sending { .. }) {
            self.ask(now, out);
        }
        self.link.due()
    }

    fn dismantle(mut self: Box<Self>) -> PipeParts {
        let sending = self.link.sending();
        PipeParts {
            packets: self.scheduler.dismantle(sending.map(|(queue, _)| queue)),
            sending: sending.map(|(_, end)| end),
            wire: self.wire,
            device: self.device,
            stats: self.stats,
            impairer: self.impairer,
        }
    }

    fn deferred_drops(&mut self) -> Option<DeferredDrops> {
        self.drops.take()
    }
}
