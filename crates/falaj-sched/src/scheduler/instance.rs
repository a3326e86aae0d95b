//! A scheduler instance: queues and the discipline that serves them (a term of dummynet). It makes
//! the calls in the order of the contract. Pipes, benchmarks and tests all drive a discipline
//! through it.
//!
//! The packet path is compiled as one piece at each place that drives an instance, including the
//! discipline's part (`inline(always)`). With function calls, a packet took 20 to 100 more
//! instructions.

use crate::contract::breach::Breach;
use crate::contract::complete::CompleteDiscipline;
use crate::contract::discipline::{Decision, assert_tags_are_set};
use crate::contract::guarantee::Guarantee;
use crate::contract::hooks::DropCause;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::Setup;
use crate::contract::transmission::{Air, Sent};
use crate::queues::aqm::verdict::{Level, Verdict};
use crate::queues::queue::{FlowId, Limit, Packet, Queues};
use crate::scheduler::{Full, HeldScheduler, Inspection, Scheduler, Succession};
use crate::units::label::{Known, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Range;

/// The largest number of queues whose heads are scanned for the shortest head.
const FEW: u32 = 16;

/// The queries and actions on queues that a policy in front of them needs.
pub trait ManagedQueues: Scheduler {
    /// Returns the queue of a leaf's packets.
    fn queue_of(&self, leaf: FlowId) -> FlowId;
    /// Returns the fill level of a queue.
    fn level(&mut self, queue: FlowId) -> Level;
    /// Returns the head of a queue.
    fn first(&self, queue: FlowId) -> Option<Packet>;
    /// Drops the packet that has waited longest: the head, or the packet behind it if the head is
    /// on the wire.
    fn evict(&mut self, queue: FlowId, on_the_wire: bool, now: Time) -> Option<Packet>;
    /// [Takes over](HeldScheduler::migrate_from) from `old`, if `old` has the same type; otherwise
    /// returns `old`.
    fn try_migrate_from(
        &mut self,
        old: Box<dyn ManagedQueues>,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Result<Option<FlowId>, Box<dyn ManagedQueues>>;
}

/// Queues, and the discipline that serves them.
#[derive(Clone, Debug)]
pub struct SchedulerInstance<D: CompleteDiscipline> {
    queues: Queues<D::State, D::Tag>,
    discipline: D,
    /// The queue whose head is on the wire, if another discipline put it there.
    inherited: Option<FlowId>,
    evicted: Option<Packet>,
    /// True if the last lost packet was rejected by a full queue.
    full: bool,
    /// Set while the instance has no queues yet: the limits for the queues that it takes over.
    bare: Option<Vec<(Range<u32>, Limit)>>,
}

impl<D: CompleteDiscipline> SchedulerInstance<D> {
    /// Creates empty queues with the limits of `setup`, from which the discipline was built.
    pub fn new(setup: &Setup, mut discipline: D) -> SchedulerInstance<D> {
        const { assert_tags_are_set::<D>() };
        let mut queues = Queues::new(&limits(setup, &discipline));
        discipline.start(queues.flows());
        SchedulerInstance {
            queues,
            discipline,
            inherited: None,
            evicted: None,
            full: false,
            bare: None,
        }
    }

    /// Creates an instance that will most likely [take over](HeldScheduler::migrate_from) from an
    /// instance of its own kind. Only the limits of the queues `others`, and of queues that the
    /// discipline defines itself, may differ between the two. The instance creates no queues until
    /// [`start`](Succession::start) is called, because creating a hundred thousand queues takes
    /// time.
    pub fn bare(setup: &Setup, discipline: D, others: &[Range<u32>]) -> SchedulerInstance<D> {
        const { assert_tags_are_set::<D>() };
        let own = discipline.shared_queue().is_some() || discipline.own_queues().is_some();
        let limits = if own { limits(setup, &discipline) } else { Vec::new() };
        let own = limits.iter().enumerate().map(|(q, &limit)| (q as u32..q as u32 + 1, limit));
        let others = others.iter().filter(|_| limits.is_empty());
        let limit = |queues: &Range<u32>| {
            Some((queues.clone(), setup.flows.get(queues.start as usize)?.limit))
        };
        let bare = own.chain(others.filter_map(limit)).collect();
        let queues = Queues::new(&[]);
        SchedulerInstance {
            queues,
            discipline,
            inherited: None,
            evicted: None,
            full: false,
            bare: Some(bare),
        }
    }

    /// The queue of the packets of `flow`.
    #[inline]
    fn queue_of(&self, flow: FlowId) -> FlowId {
        self.discipline.place(flow)
    }

    #[inline(always)]
    fn admit(&mut self, packet: Packet, now: Time) -> bool {
        let queue = self.queue_of(packet.flow);
        let tag = if D::SEES_ARRIVALS {
            self.discipline.arrived(self.queues.flows(), queue, packet.bytes, now)
        } else {
            D::Tag::default()
        };
        let is_head = self.queues.push(queue, packet, tag);
        if is_head {
            self.discipline.ready(self.queues.flows(), queue, now);
        }
        is_head
    }

    /// Removes the first waiting packet of `queue`.
    fn throw_out(&mut self, queue: FlowId, on_the_wire: bool, now: Time) -> Option<Packet> {
        let (packet, because) = match on_the_wire {
            true => (self.queues.pop_second(queue)?, DropCause::BehindHead),
            false => (self.queues.pop(queue)?, DropCause::Head),
        };
        if on_the_wire && !self.discipline.manages_queues() {
            self.discipline.dropped_behind_head(self.queues.flows(), queue, packet.bytes, now);
        } else {
            self.discipline.head_dropped(self.queues.flows(), queue, packet.bytes, because, now);
        }
        Some(packet)
    }
}

impl<D: CompleteDiscipline> ManagedQueues for SchedulerInstance<D> {
    fn queue_of(&self, leaf: FlowId) -> FlowId {
        self.discipline.place(leaf)
    }

    fn level(&mut self, queue: FlowId) -> Level {
        let flows = self.queues.flows();
        Level { packets: flows.packets(queue), bytes: flows.bytes(queue) }
    }

    fn first(&self, queue: FlowId) -> Option<Packet> {
        self.queues.first(queue)
    }

    fn evict(&mut self, queue: FlowId, on_the_wire: bool, now: Time) -> Option<Packet> {
        self.throw_out(queue, on_the_wire, now)
    }

    fn try_migrate_from(
        &mut self,
        old: Box<dyn ManagedQueues>,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Result<Option<FlowId>, Box<dyn ManagedQueues>> {
        let same = (&*old as &dyn Any).downcast_ref::<SchedulerInstance<D>>();
        if !same.is_some_and(|old| HeldScheduler::can_migrate_from(self, old)) {
            return Err(old);
        }
        let old: Box<dyn Any> = old;
        let old = *old.downcast::<SchedulerInstance<D>>().expect("just looked");
        Ok(self.migrate_from(old, setup, on_the_wire, known, now))
    }
}

impl<D: CompleteDiscipline> Scheduler for SchedulerInstance<D> {
    #[inline(always)]
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full> {
        if !Scheduler::has_room(self, packet.flow, packet.bytes) {
            self.full = true;
            return Err(Full);
        }
        let queue = self.queue_of(packet.flow);
        let flows = self.queues.flows();
        if self.discipline.verdict_at_arrival(flows, queue, packet.bytes, now) == Verdict::Drop {
            self.full = false;
            return Err(Full);
        }
        let is_head = self.admit(packet, now);
        if let Some((queue, on_the_wire)) = self.discipline.drop_victim(self.queues.seen()) {
            // A packet that the previous discipline sent may be on the wire as well.
            let on_the_wire = on_the_wire || self.inherited == Some(queue);
            self.evicted = self.throw_out(queue, on_the_wire, now);
        }
        Ok(is_head)
    }

    #[inline(always)]
    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool {
        self.queues.has_room(self.queue_of(leaf), bytes)
            && !self.discipline.is_full(self.queues.seen())
    }

    #[inline(always)]
    fn next(&mut self, now: Time, wire: &Wire) -> Decision {
        let answer = self.discipline.next(self.queues.flows(), now, wire);
        if cfg!(debug_assertions) {
            let again = self.discipline.next(self.queues.flows(), now, wire);
            assert_eq!(answer, again, "asked twice at {now:?}");
        }
        answer
    }

    fn head(&mut self, queue: FlowId) -> Option<u32> {
        self.queues.flows().head(queue)
    }

    fn shortest_head(&self) -> Option<u32> {
        let queues = self.queues.len() as u32;
        let heads = (0..queues.min(FEW))
            .filter_map(|q| self.queues.first(FlowId(q)).map(|packet| packet.bytes));
        heads.min().filter(|_| queues <= FEW)
    }

    #[inline(always)]
    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent) {
        let packet = self.queues.first(queue).expect("a served queue has a packet");
        let end = match self.discipline.airtime(queue, packet.bytes) {
            None => wire.send(packet.bytes, start),
            Some(span) => wire.occupy(span, start),
        };
        let sent = Sent { bytes: packet.bytes, start, end };
        self.discipline.on_transmit(self.queues.flows(), queue, sent);
        (packet, sent)
    }

    #[inline(always)]
    fn finish(&mut self, queue: FlowId, now: Time) -> Packet {
        let packet = self.queues.pop(queue).expect("a sent packet was queued");
        if self.inherited.is_some() {
            self.inherited = None;
            self.discipline.head_changed(self.queues.flows(), queue, now);
        }
        packet
    }

    fn drop_head(&mut self, queue: FlowId, now: Time) -> Packet {
        let packet = self.queues.pop(queue).expect("a dropped packet was queued");
        self.full = false;
        self.discipline.head_dropped(
            self.queues.flows(),
            queue,
            packet.bytes,
            DropCause::Decided,
            now,
        );
        packet
    }

    #[inline]
    fn announce(&mut self, label: Label) {
        self.discipline.announce(label);
    }

    #[inline]
    fn evicted(&mut self) -> Option<Packet> {
        if !self.discipline.manages_queues() {
            return None;
        }
        self.evicted.take()
    }

    #[inline]
    fn marked(&mut self) -> bool {
        self.discipline.marked()
    }

    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        self.discipline.earliness()
    }

    #[inline]
    fn by_policy(&self) -> bool {
        self.discipline.manages_queues() && !self.full
    }
}

impl<D: CompleteDiscipline> Inspection for SchedulerInstance<D> {
    fn peeks(&self) -> bool {
        self.discipline.peeks()
    }

    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32 {
        self.queues.largest(on_the_wire)
    }

    fn is_reusable(&mut self, leaf: FlowId, now: Time) -> bool {
        let queue = self.queue_of(leaf);
        let flows = self.queues.flows();
        flows.head(queue).is_none() && self.discipline.is_reusable(flows, queue, now)
    }

    fn wants_labels(&self) -> bool {
        self.discipline.wants_labels()
    }

    fn drops_early(&self) -> bool {
        self.discipline.manages_queues()
    }

    fn air(&self, leaf: FlowId) -> Option<Air> {
        self.discipline.air(leaf)
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        if let Some(breach) = self.discipline.breach() {
            breach.join(out);
        }
    }

    fn guarantee(&self, leaf: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.discipline.service(leaf)
    }

    fn guarantee_behind(&self, leaf: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        self.discipline.service_behind(leaf, server)
    }
}

impl<D: CompleteDiscipline> Succession for SchedulerInstance<D> {
    fn on_the_wire(&self, queue: FlowId) -> Option<Packet> {
        self.queues.first(queue)
    }

    fn retimed(&mut self, queue: FlowId, end: Time, now: Time) {
        self.discipline.retimed(self.queues.flows(), queue, end, now);
    }

    fn start(&mut self, setup: &Setup) {
        if self.bare.take().is_some() {
            self.queues = Queues::new(&limits(setup, &self.discipline));
            self.discipline.start(self.queues.flows());
        }
    }

    fn inherit(
        &mut self,
        packets: Vec<Packet>,
        on_the_wire: bool,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        for (n, packet) in packets.into_iter().enumerate() {
            if self.discipline.wants_labels() {
                self.discipline
                    .announce(Label { waited: now.since(packet.arrival), ..known(packet.handle) });
            }
            if on_the_wire && n == 0 {
                self.inherited = Some(self.queue_of(packet.flow));
            }
            self.admit(packet, now);
        }
        self.inherited
    }

    fn packets(&self, on_the_wire: Option<FlowId>) -> Vec<Packet> {
        let first = on_the_wire.and_then(|queue| self.queues.first(queue));
        let mut packets: Vec<Packet> = first.into_iter().collect();
        for queue in (0..self.queues.len() as u32).map(FlowId) {
            let sent = usize::from(on_the_wire == Some(queue));
            packets.extend(self.queues.packets(queue).skip(sent));
        }
        packets[usize::from(first.is_some())..].sort_by_key(|p| p.arrival);
        packets
    }

    fn seed(&mut self, seed: u64) {
        self.discipline.seed(seed);
    }
}

impl<D: CompleteDiscipline> HeldScheduler for SchedulerInstance<D> {
    type Scheduler = SchedulerInstance<D>;

    #[inline(always)]
    fn get(&self) -> &SchedulerInstance<D> {
        self
    }

    #[inline(always)]
    fn get_mut(&mut self) -> &mut SchedulerInstance<D> {
        self
    }

    fn can_migrate_from(&self, old: &SchedulerInstance<D>) -> bool {
        self.discipline.can_migrate_from(&old.discipline)
    }

    fn migrate_from(
        &mut self,
        mut old: SchedulerInstance<D>,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        _: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        match self.bare.take() {
            Some(others) => {
                others.into_iter().for_each(|(queues, limit)| old.queues.set_limit(queues, limit));
            }
            None => old.queues.set_limits(&limits(setup, &self.discipline)),
        }
        self.queues = old.queues;
        self.queues.retag(|f, tag| self.discipline.retag(&mut old.discipline, f, tag, now));
        self.inherited = old.inherited;
        self.discipline.migrate_from(old.discipline, self.queues.flows(), now);
        on_the_wire
    }
}

pub(crate) fn limits<D: CompleteDiscipline>(setup: &Setup, discipline: &D) -> Vec<Limit> {
    match (discipline.shared_queue(), discipline.own_queues()) {
        (Some(limit), _) => vec![limit],
        (None, Some((queues, limit))) => vec![limit; queues],
        (None, None) => setup.flows.iter().map(|f| f.limit).collect(),
    }
}
