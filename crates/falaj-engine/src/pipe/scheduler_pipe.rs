//! A pipe around a server, which is a discipline with its queues.
//!
//! The pipe keeps the moments that the discipline's contract names. Every
//! decision happens at a nominal instant: the end of a transmission, an
//! instant that the discipline named, an arrival at a free link. When the
//! engine is polled makes no difference.

mod filling;
mod succession;

use super::device::{DeviceState, Pace};
use super::stats::{Counters, PipeStats};
use super::{DeferredDrops, Pipe, PipeParts, PipeSpec};
use crate::handover::Handover;
use crate::impair::event::Chances;
use crate::impair::{Impairer, ImpairmentCounters};
use crate::masks::queues::Unmasked;
use crate::masks::{MaskIds, MaskStats, Masks};
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
    flows: usize,
    spec: Arc<PipeSpec>,
    server: S,
    wire: Wire,
    link: LinkState,
    /// Of a link that falaj paces, none.
    device: Option<DeviceState>,
    book: PipeStats,
    /// Of a link that does nothing to packets, none.
    impairer: Option<Box<Impairer>>,
    /// What disciplines of libraries did that are not there any more.
    breaches: Vec<Breach>,
    /// No packet is on its way for less time than this.
    least_delay: Span,
    /// Packets up to this length come in without more ado: of a link that does
    /// something to packets, counts more than they have or is paced by its device, none.
    plain: u32,
    /// Who goes next is asked anew while tokens are waited for.
    peeks: bool,
    leavings: Option<DeferredDrops>,
}

/// A pipe around a server, which may have no queues yet.
pub(super) fn pipe<S: Scheduler + 'static>(
    id: PipeId,
    spec: &Arc<PipeSpec>,
    mut server: S,
    queues: bool,
) -> Box<dyn Pipe> {
    server.seed(mix(spec.seed) ^ u64::from(id.0));
    let flows = spec.setup.number_of_leaves();
    let peeks = server.peeks();
    let mut book = PipeStats::new(if queues { flows } else { 0 });
    let impairer = (!spec.impairments.is_none()).then(|| {
        book.harm = vec![ImpairmentCounters::default(); if queues { flows } else { 0 }];
        let chances = Chances { seed: spec.seed, pipe: id.0 };
        Box::new(Impairer::new(&spec.impairments, spec.delay, chances, flows))
    });
    let mut pipe = SchedulerPipe {
        id,
        flows,
        server,
        wire: Wire::of(spec.setup.rate, &spec.capacity),
        link: LinkState::Idle,
        device: DeviceState::new(spec),
        book,
        plain: 0,
        peeks: peeks && matches!(spec.capacity, Capacity::TokenBucket(_)),
        impairer,
        breaches: Vec::new(),
        least_delay: spec.impairments.delays(spec.delay).0,
        spec: Arc::clone(spec),
        leavings: None,
    };
    pipe.plain = pipe.plain();
    Box::new(pipe)
}

impl<S: Scheduler> SchedulerPipe<S> {
    fn plain(&self) -> u32 {
        let apart = self.impairer.is_some() || self.spec.framing.is_some() || self.device.is_some();
        if apart { 0 } else { self.spec.setup.largest }
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
            match self.server.next(now, &self.wire) {
                Decision::Serve(queue) => {
                    if self.peeks
                        && let Some(bytes) = self.server.head(queue)
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
                    let packet = self.server.throw_away(queue, now);
                    let by_policy = self.server.by_policy();
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
        let (packet, sent) = self.server.take(queue, start, &mut self.wire);
        if self.server.marked() {
            self.mark(packet.flow, packet.handle, out);
        }
        if let Some(by) = self.server.earliness() {
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
        self.book.thrown_out(&packet, by_policy);
        let why = if by_policy { DropReason::Policy } else { DropReason::Discipline };
        out.push(self.dropped(packet.handle, packet.flow, packet.bytes, why));
    }

    #[cold]
    fn mark(&mut self, flow: FlowId, handle: u32, out: &mut Vec<Output>) {
        self.book.lost(flow).marked += 1;
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
        let backlog = self.book.tallies[flow].backlog.into();
        let (occupied, free) = impairer.pass(emit, backlog, &mut self.book.harm[flow], out);
        self.wire.hold(occupied - end);
        free
    }

    #[inline(always)]
    fn finish(&mut self, queue: FlowId, now: Time) {
        let packet = self.server.finish(queue, now);
        self.book.tallies[packet.flow.index()].gone(packet.bytes);
    }

    /// A packet that is too large, or of a link that does something to packets: what it costs, if
    /// it is let in.
    #[cold]
    fn comes_apart(&mut self, unit: &Unit, out: &mut Vec<Output>) -> Option<u32> {
        let Unit { flow, handle, bytes } = *unit;
        let largest = self.spec.framing.map_or(self.spec.setup.largest, |framing| framing.largest);
        let cost = self.spec.framing.map_or(bytes, |framing| framing.of(bytes));
        if bytes > largest {
            let lost = self.book.lost(flow);
            lost.large += 1;
            lost.bytes += u64::from(cost);
            out.push(self.dropped(handle, flow, cost, DropReason::TooLarge));
            return None;
        }
        if let Some(impairer) = &mut self.impairer {
            impairer.comes(flow, self.book.offered(flow));
        }
        Some(cost)
    }

    fn dropped(&self, handle: u32, flow: FlowId, bytes: u32, why: DropReason) -> Output {
        Output::Drop(Dropped { pipe: self.id, flow, handle, bytes, why })
    }
}

impl<S: Scheduler + 'static> Pipe for SchedulerPipe<S> {
    fn arrive(&mut self, unit: Unit, _: &MaskIds, now: Time, out: &mut Vec<Output>) -> Time {
        let Unit { flow, handle, mut bytes } = unit;
        if cfg!(debug_assertions)
            && (self.link == LinkState::Idle
                || matches!(self.link, LinkState::NotBefore(t) if t > now))
        {
            // In tests: asking out of turn changes nothing.
            let _ = self.server.next(self.clock(now), &self.wire);
        }
        let (mut at, mut by_device) = (now, false);
        if bytes > self.plain {
            match self.comes_apart(&unit, out) {
                Some(cost) => bytes = cost,
                None => return self.link.due(),
            }
            (at, by_device) = (self.clock(now), self.device.is_some());
        }
        let Ok(is_head) = self.server.arrive(Packet { handle, bytes, flow, arrival: now }, at)
        else {
            if let Some(impairer) = &mut self.impairer {
                impairer.turned_away(flow);
            }
            let by_policy = self.server.by_policy();
            self.book.turned_away(flow, bytes, by_policy);
            let why = if by_policy { DropReason::Policy } else { DropReason::QueueFull };
            out.push(self.dropped(handle, flow, bytes, why));
            while let Some(packet) = self.server.evicted() {
                self.thrown_out(packet, true, out);
            }
            return self.link.due();
        };
        // Whoever had to go for it was gone before it came.
        while let Some(packet) = self.server.evicted() {
            self.thrown_out(packet, true, out);
        }
        self.book.tallies[flow.index()].queued(bytes);
        if self.server.marked() {
            self.mark(flow, handle, out);
        }
        if is_head && self.link.is_free() || by_device && self.link.has_handed(flow) {
            self.ask(now, out);
        }
        self.link.due()
    }

    fn event(&mut self, now: Time, out: &mut Vec<Output>) -> Time {
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

    fn next_due(&self) -> Time {
        let then = match self.link {
            LinkState::Idle => return Time::NEVER,
            // What leaves then was decided before, and what follows has an airtime that nobody
            // knows yet.
            LinkState::Sending { end, .. } => end,
            LinkState::Full(_) if self.backlog().is_some() => return Time::NEVER,
            LinkState::Handed { .. } if self.is_alone() => return Time::NEVER,
            LinkState::Handed { end, .. } => end,
            LinkState::Full(then) => then,
            // What may go then is handed over at once.
            LinkState::NotBefore(then) if self.device.is_some() => then,
            // One of the heads goes first, and is due when its last bit has left. The wire may end
            // a nanosecond before the airtime, which is rounded up.
            LinkState::NotBefore(then) => {
                let airtime = |bytes| self.wire.least_airtime(bytes);
                then + self.server.shortest_head().map_or(Span::ZERO, airtime)
            }
        };
        then + self.least_delay
    }

    fn next_refill(&self) -> Time {
        match self.link {
            LinkState::Full(then) if self.backlog().is_some() => then,
            _ => Time::NEVER,
        }
    }

    fn supplied_until(&self) -> Time {
        match (self.link, self.device) {
            (LinkState::Idle, Some(_)) => Time::NEVER,
            (LinkState::Full(then), Some(_)) => then,
            (LinkState::Handed { end, .. }, Some(device)) => device.low_before(end),
            _ => Time::ZERO,
        }
    }

    fn backlog(&self) -> Option<u32> {
        match self.spec.pace {
            Pace::Falaj => None,
            Pace::Device { backlog } => Some(backlog),
        }
    }

    fn least_delay(&self) -> Span {
        self.least_delay
    }

    fn has_room(&self, flow: FlowId, _: &MaskIds, bytes: u32) -> bool {
        self.server.has_room(flow, self.spec.framing.map_or(bytes, |framing| framing.of(bytes)))
    }

    fn announce(&mut self, label: Label) {
        self.server.announce(label);
    }

    fn wants_labels(&self) -> bool {
        self.server.wants_labels()
    }

    fn drops_early(&self) -> bool {
        self.server.drops_early()
    }

    fn soonest(&self, bytes: u32, now: Time) -> Time {
        let free =
            if self.link == LinkState::Idle || self.peeks { now } else { self.link.due().max(now) };
        if self.device.is_some() {
            return free;
        }
        free + self.wire.least_airtime(bytes) + self.least_delay
    }

    fn counters(&self, flow: FlowId) -> Counters {
        Counters { air: self.server.air(flow).unwrap_or_default(), ..self.book.counters(flow) }
    }

    fn sum(&self, first: FlowId, number: u32) -> Counters {
        let mut sum = self.book.sum(first.index()..first.index() + number as usize);
        let airs = (first.0..first.0 + number).map_while(|flow| self.server.air(FlowId(flow)));
        airs.for_each(|air| sum.add(&Counters { air, ..Counters::default() }));
        sum
    }

    fn promise(&self, flow: FlowId) -> Result<Promise, NoPromise> {
        let promise = self.spec.no_promise().map_or_else(|| self.server.promise(flow), Err);
        promise.map(|promise| promise.later(self.spec.held_by_device()))
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.breaches.iter().cloned().for_each(|breach| breach.join(out));
        self.server.breaches(out);
    }

    fn largest(&self) -> u32 {
        self.spec.setup.largest
    }

    fn largest_waiting(&self) -> u32 {
        self.server.largest_waiting(self.link.sending().map(|(queue, _)| queue))
    }

    fn of_the_gone(&self) -> Counters {
        self.book.of_the_gone()
    }

    fn flows(&self) -> usize {
        self.flows
    }

    fn is_reusable(&mut self, flow: FlowId, now: Time) -> bool {
        self.book.tallies[flow.index()].backlog == 0
            && self.server.is_reusable(flow, self.clock(now))
    }

    fn rests(&mut self, now: Time) -> bool {
        let mut flows = (0..self.book.tallies.len() as u32).map(FlowId);
        let handed_over = self.device.is_some_and(|device| !device.is_empty(now));
        self.link == LinkState::Idle
            && !handed_over
            && self.wire.is_rested(now)
            && flows.all(|flow| self.is_reusable(flow, now))
    }

    fn masks(&self) -> &Masks {
        &self.spec.masks
    }

    fn report(&self, _: Option<FlowId>, _: usize) -> Option<MaskStats> {
        None
    }

    fn shares(&self) -> Option<Option<FlowId>> {
        None
    }

    fn migrate_from(
        &mut self,
        old: Box<dyn Pipe>,
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

    fn flatten(self: Box<Self>) -> Unmasked {
        let sets = self.book.tallies.iter().map(|_| None).collect();
        Unmasked { pipe: self, masks: Masks::default(), sets }
    }

    fn dismantle(mut self: Box<Self>) -> PipeParts {
        let sending = self.link.sending();
        PipeParts {
            packets: self.server.dismantle(sending.map(|(queue, _)| queue)),
            sending: sending.map(|(_, end)| end),
            wire: self.wire,
            device: self.device,
            book: self.book,
            impairer: self.impairer,
        }
    }

    fn leavings(&mut self) -> Option<DeferredDrops> {
        self.leavings.take()
    }
}
