//! The part of a pipe that does not depend on its scheduler: link, device, counters, impairments.
//! It is compiled once, and not again for each discipline.

use super::device::{DeviceRoom, DeviceState, Pace};
use super::stats::{HotCounters, PipeStats};
use super::{DeferredDrops, DeviceTimes, PipeParts, PipeProperties, PipeSpec, PipeState};
use crate::handover::{FlowMapping, Handover};
use crate::impair::event::Chances;
use crate::impair::{Impairer, ImpairmentCounters};
use crate::message::{DropReason, Dropped, Early, EcnMark, Emit, Output, PipeId, Retimed, Unit};
use crate::transmission::Transmission;
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::{FlowId, Packet};
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::rate::{OnTheWire, Rate, Wire};
use falaj_sched::units::time::{Span, Time};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Idle,
    NotBefore(Time),
    Sending {
        queue: FlowId,
        end: Time,
    },
    /// No packet may go before this instant: the device has no room, or an earlier transmission
    /// lasts until then.
    Full(Time),
    /// The link's device was handed the last packet of flow `leaf`, which stays in its queue until
    /// `end`.
    Handed {
        queue: FlowId,
        leaf: FlowId,
        end: Time,
    },
}

impl LinkState {
    /// Time of the link's next event if no packet arrives before it.
    #[inline]
    pub(super) fn due(self) -> Time {
        match self {
            LinkState::Idle => Time::NEVER,
            LinkState::NotBefore(then) | LinkState::Full(then) => then,
            LinkState::Sending { end, .. } | LinkState::Handed { end, .. } => end,
        }
    }

    /// Returns true if an arriving packet may leave at once, if the discipline allows it.
    #[inline]
    pub(super) fn is_free(self) -> bool {
        matches!(self, LinkState::Idle | LinkState::NotBefore(_))
    }

    /// Returns true if its device was handed the last packet of `flow`.
    pub(super) fn has_handed(self, flow: FlowId) -> bool {
        matches!(self, LinkState::Handed { leaf, .. } if leaf == flow)
    }

    /// The queue whose head-of-line packet is on the wire, and the earliest start of the next
    /// packet. Impairments may delay that start beyond the last bit.
    pub(super) fn sending(self) -> Option<(FlowId, Time)> {
        match self {
            LinkState::Sending { queue, end } | LinkState::Handed { queue, end, .. } => {
                Some((queue, end))
            }
            _ => None,
        }
    }
}

/// All parts of a pipe except its scheduler.
pub(super) struct PipeCore {
    id: PipeId,
    pub(super) spec: Arc<PipeSpec>,
    pub(super) properties: PipeProperties,
    pub(super) wire: Wire,
    pub(super) link: LinkState,
    /// The transmission that was on the wire at the last change, if one was.
    changed: Option<Transmission>,
    /// `None` if falaj paces the link.
    pub(super) device: Option<DeviceState>,
    pub(super) stats: PipeStats,
    /// `None` if the link has no impairments.
    pub(super) impairer: Option<Box<Impairer>>,
    /// Breaches of contract by earlier disciplines of this pipe.
    pub(super) breaches: Vec<Breach>,
    /// Packets up to this length take the short path into the queue; 0 on a link that has
    /// impairments, framing or a `device`.
    pub(super) plain: u32,
    /// True if the discipline chooses the next packet anew while the link waits for tokens.
    pub(super) peeks: bool,
    /// Memory of a predecessor that is still to be freed.
    pub(super) drops: Option<DeferredDrops>,
}

/// Properties of a scheduler that a pipe needs when it is built.
pub(super) struct SchedulerProperties {
    /// See [`PipeProperties::wants_labels`].
    pub(super) wants_labels: bool,
    /// See [`PipeProperties::drops_early`].
    pub(super) drops_early: bool,
    /// True if its choice may change while the link waits for tokens.
    pub(super) peeks: bool,
    /// True if it has its queues already, and does not create any when it takes over.
    pub(super) has_queues: bool,
}

impl PipeCore {
    pub(super) fn new(
        id: PipeId,
        spec: &Arc<PipeSpec>,
        scheduler: &SchedulerProperties,
    ) -> PipeCore {
        let properties = PipeProperties {
            flows: spec.setup.number_of_leaves(),
            masks: spec.masks.clone(),
            largest: spec.setup.largest,
            least_delay: spec.impairments.delays(spec.delay).0,
            device_backlog: match spec.pace {
                Pace::Falaj => None,
                Pace::Device { backlog } => Some(backlog),
            },
            wants_labels: scheduler.wants_labels,
            drops_early: scheduler.drops_early,
        };
        let flows = if scheduler.has_queues { properties.flows } else { 0 };
        let mut stats = PipeStats::new(flows);
        let impairer = (!spec.impairments.is_none()).then(|| {
            stats.impairments = vec![ImpairmentCounters::default(); flows];
            let chances = Chances { seed: spec.seed, pipe: id.0 };
            Box::new(Impairer::new(&spec.impairments, spec.delay, chances, properties.flows))
        });
        let mut core = PipeCore {
            id,
            properties,
            wire: Wire::of(spec.setup.rate, &spec.capacity),
            link: LinkState::Idle,
            changed: None,
            device: DeviceState::new(spec),
            stats,
            plain: 0,
            peeks: scheduler.peeks
                && matches!(spec.capacity, Capacity::TokenBucket(_) | Capacity::TwoBuckets { .. }),
            impairer,
            breaches: Vec::new(),
            spec: Arc::clone(spec),
            drops: None,
        };
        core.plain = core.plain();
        core
    }

    fn plain(&self) -> u32 {
        let apart = self.impairer.is_some() || self.spec.framing.is_some() || self.device.is_some();
        if apart { 0 } else { self.spec.setup.largest }
    }

    /// Returns true if the spec says that the device paces the link; false while the device of an
    /// earlier spec still sends its packets.
    pub(super) fn is_device_paced(&self) -> bool {
        self.properties.device_backlog.is_some()
    }

    /// The current instant of the discipline: `now`, or on a link with a device the end of the
    /// packets that the device was handed, if that is later.
    #[inline]
    pub(super) fn clock(&self, now: Time) -> Time {
        self.device.map_or(now, |device| device.clock(now))
    }

    /// Outputs a report that a packet leaves earlier, by `by`, than its latest guaranteed time.
    #[cold]
    pub(super) fn early(&self, packet: &Packet, by: Span, out: &mut Vec<Output>) {
        let Packet { flow, handle, .. } = *packet;
        out.push(Output::Early(Early { pipe: self.id, flow, handle, by }));
    }

    /// Drops a packet that was queued already.
    #[cold]
    pub(super) fn dropped_from_queue(
        &mut self,
        packet: Packet,
        by_policy: bool,
        out: &mut Vec<Output>,
    ) {
        if let Some(impairer) = &mut self.impairer {
            impairer.head_dropped(packet.flow);
        }
        self.stats.dropped_from_queue(&packet, by_policy);
        let why = if by_policy { DropReason::Policy } else { DropReason::Discipline };
        out.push(self.dropped(packet, why));
    }

    #[cold]
    pub(super) fn mark(&mut self, flow: FlowId, handle: u32, out: &mut Vec<Output>) {
        self.stats.drops(flow).marked += 1;
        out.push(Output::Mark(EcnMark { pipe: self.id, flow, handle, ecn: Ecn::Ce }));
    }

    #[inline]
    pub(super) fn emit(&self, packet: Packet, start: Time, end: Time) -> Emit {
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

    /// Transmits a packet on a link with impairments. They may keep the link occupied beyond `end`.
    /// Returns the time from which the next packet may go.
    #[cold]
    pub(super) fn send_impaired(
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

    /// Handles an arriving packet that may be too large, or is on a link with impairments, framing
    /// or a device. Returns its cost on the link, or `None` if it is too large and was dropped.
    #[cold]
    pub(super) fn comes_apart(
        &mut self,
        unit: &Unit,
        arrival: Time,
        out: &mut Vec<Output>,
    ) -> Option<u32> {
        let Unit { flow, handle, bytes } = *unit;
        let largest = self.spec.framing.map_or(self.spec.setup.largest, |framing| framing.largest);
        let cost = self.spec.framing.map_or(bytes, |framing| framing.of(bytes));
        if bytes > largest {
            let drops = self.stats.drops(flow);
            drops.large += 1;
            drops.bytes += u64::from(cost);
            let packet = Packet { handle, bytes: cost, flow, arrival };
            out.push(self.dropped(packet, DropReason::TooLarge));
            return None;
        }
        if let Some(impairer) = &mut self.impairer {
            impairer.comes(flow, self.stats.offered(flow));
        }
        Some(cost)
    }

    /// Drops a packet that does not get into its queue.
    #[cold]
    pub(super) fn turned_away(&mut self, packet: Packet, by_policy: bool, out: &mut Vec<Output>) {
        if let Some(impairer) = &mut self.impairer {
            impairer.turned_away(packet.flow);
        }
        self.stats.turned_away(packet.flow, packet.bytes, by_policy);
        let why = if by_policy { DropReason::Policy } else { DropReason::QueueFull };
        out.push(self.dropped(packet, why));
    }

    /// Bytes that a unit of `bytes` costs on the link.
    pub(super) fn cost(&self, bytes: u32) -> u32 {
        self.spec.framing.map_or(bytes, |framing| framing.of(bytes))
    }

    fn dropped(&self, packet: Packet, why: DropReason) -> Output {
        let Packet { handle, bytes, flow, arrival } = packet;
        Output::Drop(Dropped { pipe: self.id, flow, handle, bytes, arrival, why })
    }

    /// See [`PacketPath::next_due`](super::PacketPath::next_due).
    pub(super) fn next_due(&self, shortest_head: &dyn Fn() -> Option<u32>) -> Time {
        let then = match self.link {
            LinkState::Idle => return Time::NEVER,
            // The packet on the wire is decided already. The next packet is not chosen yet, so its
            // airtime is unknown.
            LinkState::Sending { end, .. } => end,
            LinkState::Full(_) if self.is_device_paced() => return Time::NEVER,
            LinkState::Handed { .. } if self.is_alone() => return Time::NEVER,
            LinkState::Handed { end, .. } => end,
            LinkState::Full(then) => then,
            // A packet that may go then is handed over at once.
            LinkState::NotBefore(then) if self.device.is_some() => then,
            // One of the head-of-line packets goes first, and is due when its last bit has left.
            // Its transmission may take a nanosecond less than the airtime, which is rounded up.
            LinkState::NotBefore(then) => {
                let airtime = |bytes| self.wire.least_airtime(bytes);
                then + shortest_head().map_or(Span::ZERO, airtime)
            }
        };
        then + self.properties.least_delay
    }

    /// See [`PacketPath::device_times`](super::PacketPath::device_times).
    pub(super) fn device_times(&self) -> DeviceTimes {
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

    /// See [`PacketPath::earliest_due`](super::PacketPath::earliest_due).
    pub(super) fn earliest_due(&self, bytes: u32, now: Time) -> Time {
        let free =
            if self.link == LinkState::Idle || self.peeks { now } else { self.link.due().max(now) };
        if self.device.is_some() {
            return free;
        }
        free + self.wire.least_airtime(bytes) + self.properties.least_delay
    }

    /// See [`Inspection::guarantee`](super::Inspection::guarantee).
    pub(super) fn guarantee(
        &self,
        scheduler: &dyn Fn() -> Result<Guarantee, NoGuarantee>,
    ) -> Result<Guarantee, NoGuarantee> {
        let guarantee = self.spec.no_guarantee().map_or_else(scheduler, Err);
        guarantee.map(|guarantee| guarantee.later(self.spec.held_by_device()))
    }

    /// Adds the breaches of earlier disciplines of this pipe.
    pub(super) fn breaches(&self, out: &mut Vec<Breach>) {
        self.breaches.iter().cloned().for_each(|breach| breach.join(out));
    }

    /// Returns true if the link is idle, its device has sent all packets, and its wire is at rest:
    /// its transmissions are over, and its token bucket, if it has one, is full.
    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        let handed_over = self.device.is_some_and(|device| !device.is_empty(now));
        self.link == LinkState::Idle && !handed_over && self.wire.is_rested(now)
    }
}

/// Methods for a link that its device paces.
impl PipeCore {
    /// Returns true if the pipe has to wait until `end` to see if `leaf` runs empty: the device was
    /// handed its last packet.
    pub(super) fn waits_for_end(&self, leaf: FlowId, end: Time, now: Time) -> bool {
        let concludes = self.device.is_some_and(|device| device.concludes());
        now < end && concludes && self.stats.hot[leaf.index()].backlog < 2
    }

    /// The start of transmission of a packet handed to the device now; `None` if it has no room.
    pub(super) fn device_start(&mut self, now: Time) -> Option<Time> {
        let Some(device) = self.device else { return Some(now) };
        if device.yields() && device.is_empty(now) {
            self.device = None;
            self.plain = self.plain();
            return Some(now);
        }
        let then = match device.room(now) {
            _ if device.yields() => device.until(),
            DeviceRoom::From(start) => return Some(start),
            DeviceRoom::Not(then) => then,
        };
        self.link = LinkState::Full(then);
        None
    }

    /// Records that the device was handed the head of `queue`, which is the last output.
    #[cold]
    pub(super) fn handed(&mut self, queue: FlowId, end: Time, now: Time, out: &mut [Output]) {
        // From now on the packet belongs to the device.
        if let Some(Output::Emit(emit)) = out.last_mut() {
            emit.due = now;
            self.link = LinkState::Handed { queue, leaf: emit.flow, end };
        }
        self.device.iter_mut().for_each(|device| device.handed(end));
    }

    /// Returns true if the only packet queued is the packet last handed to the device. With many
    /// flows it returns false without checking.
    fn is_alone(&self) -> bool {
        const FEW: usize = 64;
        let waits = |tally: &HotCounters| u64::from(tally.backlog);
        self.stats.hot.len() <= FEW && self.stats.hot.iter().map(waits).sum::<u64>() < 2
    }
}

/// Taking over from another pipe.
impl PipeCore {
    /// The transmission on the wire. Packets that its device was handed are not reported again.
    fn transmission(&self) -> Option<Transmission> {
        let (_, free) = self.link.sending()?;
        if matches!(self.link, LinkState::Handed { .. }) {
            return Some(Transmission { end: free, free, due: free, deliveries: 0, handed: true });
        }
        if let Some(changed) = self.changed.filter(|changed| changed.free == free) {
            return Some(changed);
        }
        let impaired = self.impairer.as_ref().and_then(|impairer| impairer.on_the_wire());
        let due = free + self.spec.delay;
        let plain = Transmission { end: free, free, due, deliveries: 1, handed: false };
        Some(impaired.unwrap_or(plain))
    }

    /// The state from which it resumes in another process, if the packets of `sent` have left and
    /// those of `waiting` are queued.
    pub(super) fn state(&self, sent: &[Packet], waiting: Vec<Packet>) -> Option<PipeState> {
        let mut stats = self.stats.clone();
        sent.iter().for_each(|packet| stats.hot[packet.flow.index()].gone(packet.bytes));
        let free = match (self.device, self.link) {
            (Some(device), _) => device.until(),
            (None, LinkState::Sending { end, .. } | LinkState::Full(end)) => end,
            (None, _) => Time::ZERO,
        };
        Some(PipeState {
            waiting: waiting.into_iter().map(Into::into).collect(),
            stats,
            free_from: free.0,
            wire_end: self.wire.ended().0,
            peak_end: self.wire.peak_ended().0,
            impairments: self.impairer.as_ref().map(|impairer| impairer.progress()),
        })
    }

    /// Resumes a state of another process, if it fits. Returns its packets.
    pub(super) fn resume(&mut self, state: PipeState) -> Option<Vec<Packet>> {
        if !state.fits(self.properties.flows, self.spec.setup.largest) {
            return None;
        }
        let PipeState { waiting, stats, free_from, wire_end, peak_end, impairments } = state;
        let impaired = std::mem::take(&mut self.stats.impairments);
        self.stats = stats;
        if self.stats.impairments.is_empty() {
            self.stats.impairments = impaired;
        }
        if let (Some(impairer), Some(progress)) = (&mut self.impairer, impairments) {
            impairer.resume(progress);
        }
        self.wire.resume(Time(wire_end), Time(peak_end));
        match &mut self.device {
            Some(device) => device.handed(Time(free_from)),
            None => self.link = LinkState::Full(Time(free_from)),
        }
        Some(waiting.into_iter().map(Into::into).collect())
    }

    /// Returns true if at this rate its device would be done before the instant for which the
    /// discipline decided last: the discipline cannot go back in time.
    pub(super) fn goes_back(&self, rate: Rate, now: Time) -> bool {
        self.device.is_some_and(|device| {
            device.until_by_rate(self.wire.rate(), rate, now) < device.until()
        })
    }

    /// The parts for another pipe to take over, and the packets.
    pub(super) fn into_parts(self, packets: Vec<Packet>) -> PipeParts {
        PipeParts {
            packets,
            sending: self.transmission(),
            wire: self.wire,
            device: self.device,
            stats: self.stats,
            impairer: self.impairer,
        }
    }

    /// Sorts the packets of another pipe: first the packets that join the new queues as they are,
    /// with the packet on the wire first, then the packets that have to find room. Packets of flows
    /// mapped to [`FlowMapping::Dropped`] are dropped, except the packet on the wire.
    pub(super) fn sort(
        &mut self,
        (packets, sending): (Vec<Packet>, bool),
        how: &Handover,
        out: &mut Vec<Output>,
    ) -> (Vec<Packet>, Vec<Packet>) {
        let flows = self.properties.flows;
        if !how.flows.is_empty() {
            self.stats.become_others(&how.flows, flows);
        }
        self.stats.resize(flows);
        let largest = self.properties.largest;
        let (mut stay, mut rest) = (Vec::new(), Vec::new());
        for (n, mut packet) in packets.into_iter().enumerate() {
            let mapping = how.mapping(packet.flow.index());
            let (flow, on_the_wire) = (mapping.flow(), sending && n == 0);
            packet.flow = flow;
            if !on_the_wire && matches!(mapping, FlowMapping::Dropped(_)) {
                self.dropped_by_change(None, &packet, out);
                continue;
            }
            if matches!(mapping, FlowMapping::Joins(_) | FlowMapping::Dropped(_)) {
                self.stats.hot[flow.index()].queued(packet.bytes);
            }
            if on_the_wire && packet.bytes > largest {
                // No queued packet may count more bytes than the pipe's largest packet. The end of
                // this packet's transmission was computed from its whole length.
                self.stats.hot[flow.index()].backlog_bytes -= packet.bytes - largest;
                packet.bytes = largest;
            }
            if on_the_wire || !how.drop { stay.push(packet) } else { rest.push(packet) }
        }
        (stay, rest)
    }

    /// Drops a queued packet: one of `flow`, or of a flow that was removed.
    pub(super) fn dropped_by_change(
        &mut self,
        flow: Option<FlowId>,
        packet: &Packet,
        out: &mut Vec<Output>,
    ) {
        self.stats.dropped_by_change(flow, packet.bytes);
        out.push(self.dropped(*packet, DropReason::Changed));
    }

    /// Takes over the wire, the device and the impairments of another pipe. `on_the_wire` has the
    /// packet on the wire, and the queue whose head it is; the rest of the packet is sent at the
    /// new rate. Returns that queue, and when the transmission ends, less the wire's [fixed
    /// part](Wire::fixed_part), if the end has changed.
    pub(super) fn go_on(
        &mut self,
        on_the_wire: Option<(FlowId, Packet, Transmission)>,
        (wire, device, mut impairer): (Wire, Option<DeviceState>, Option<Box<Impairer>>),
        others: bool,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Option<(FlowId, Time)> {
        // Packets that its device was handed belong to the device.
        let sending = on_the_wire.filter(|(_, _, transmission)| !transmission.handed);
        let sending = sending
            .map(|(_, packet, Transmission { end, .. })| OnTheWire { bytes: packet.bytes, end });
        let new = Wire::of(self.spec.setup.rate, &self.spec.capacity);
        let (wire, end) = new.migrate_from(wire, sending, now);
        self.wire = wire;
        self.device = DeviceState::migrate_from(self.device, device, now);
        self.plain = self.plain();
        self.stats.resize(self.properties.flows);
        let mut by_scheduler = None;
        if let Some((queue, packet, was)) = on_the_wire {
            let mut sends = was;
            if let Some(end) = end.filter(|&end| end != was.end) {
                by_scheduler = Some((queue, Time(end.0 - self.wire.fixed_part().0)));
                let by_impairments =
                    impairer.as_mut().and_then(|impairer| impairer.retime(was.end, end));
                sends = by_impairments.unwrap_or(Transmission {
                    end,
                    free: end + was.free.since(was.end),
                    due: end + was.due.since(was.end),
                    ..was
                });
                let Packet { flow, handle, arrival, .. } = packet;
                let retimed = Retimed {
                    pipe: self.id,
                    flow,
                    handle,
                    arrival,
                    old_end: was.end,
                    old_due: was.due,
                    end: sends.end,
                    due: sends.due,
                };
                out.extend((0..sends.deliveries).map(|_| Output::Retimed(retimed)));
            }
            self.changed = Some(sends);
            self.link = LinkState::Sending { queue, end: sends.free };
        }
        self.impair_on(impairer, others);
        by_scheduler
    }

    /// Takes over the state of the impairments from before a change. If `others` is true, flows or
    /// queued packets differ from before, and packets get other numbers.
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
}
