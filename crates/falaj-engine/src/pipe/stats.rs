//! Counters of a pipe's flows: packets that arrived, wait, left and were dropped, by cause.

use crate::handover::FlowMapping;
use crate::impair::ImpairmentCounters;
use falaj_sched::contract::transmission::Air;
use falaj_sched::queues::queue::{FlowId, Packet};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Counters of a flow's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived.
    pub offered: u64,
    /// Bytes of packets that arrived, as the link accounts them.
    pub offered_bytes: u64,
    /// Packets whose last bit left.
    pub sent: u64,
    /// Bytes of packets whose last bit left.
    pub sent_bytes: u64,
    /// Packets that found the queue full.
    pub dropped_full: u64,
    /// Packets larger than the link's largest.
    pub dropped_large: u64,
    /// Packets that the discipline dropped.
    pub dropped_by_discipline: u64,
    /// Packets that queue management dropped.
    pub dropped_by_policy: u64,
    /// Packets that queue management marked instead of dropping them.
    pub marked: u64,
    /// Packets that no longer fit when the pipe was changed.
    pub dropped_by_change: u64,
    /// Packets that the link lost. They count as sent, and as lost when their transmission begins.
    pub lost: u64,
    /// Bytes of packets that the link lost.
    pub lost_bytes: u64,
    /// Packets that arrive twice.
    pub duplicated: u64,
    /// Packets that arrive with a bit flipped.
    pub corrupted: u64,
    /// Packets that arrive before a packet that left earlier.
    pub reordered: u64,
    /// Packets in the queue, the one in service included.
    pub backlog: u64,
    /// Bytes of packets in the queue.
    pub backlog_bytes: u64,
    /// The largest number of packets in the queue so far.
    pub max_backlog: u64,
    /// The air time that the flow has used, if the discipline gives packets air times; counted
    /// since the pipe has had such a discipline.
    pub air: Air,
}

impl Counters {
    /// Adds the counters of another flow; the longest queue is the maximum of both.
    pub fn add(&mut self, more: &Counters) {
        self.offered += more.offered;
        self.offered_bytes += more.offered_bytes;
        self.sent += more.sent;
        self.sent_bytes += more.sent_bytes;
        self.dropped_full += more.dropped_full;
        self.dropped_large += more.dropped_large;
        self.dropped_by_discipline += more.dropped_by_discipline;
        self.dropped_by_policy += more.dropped_by_policy;
        self.dropped_by_change += more.dropped_by_change;
        self.marked += more.marked;
        self.lost += more.lost;
        self.lost_bytes += more.lost_bytes;
        self.duplicated += more.duplicated;
        self.corrupted += more.corrupted;
        self.reordered += more.reordered;
        self.backlog += more.backlog;
        self.backlog_bytes += more.backlog_bytes;
        self.max_backlog = self.max_backlog.max(more.max_backlog);
        self.air.used += more.air.used;
        self.air.lost += more.air.lost;
        self.air.collisions += more.air.collisions;
    }

    /// The counts made after the counters stood at `then`; backlog and longest queue stay as they
    /// are.
    pub fn since(&self, then: &Counters) -> Counters {
        Counters {
            offered: self.offered - then.offered,
            offered_bytes: self.offered_bytes - then.offered_bytes,
            sent: self.sent - then.sent,
            sent_bytes: self.sent_bytes - then.sent_bytes,
            dropped_full: self.dropped_full - then.dropped_full,
            dropped_large: self.dropped_large - then.dropped_large,
            dropped_by_discipline: self.dropped_by_discipline - then.dropped_by_discipline,
            dropped_by_policy: self.dropped_by_policy - then.dropped_by_policy,
            dropped_by_change: self.dropped_by_change - then.dropped_by_change,
            marked: self.marked - then.marked,
            lost: self.lost - then.lost,
            lost_bytes: self.lost_bytes - then.lost_bytes,
            duplicated: self.duplicated - then.duplicated,
            corrupted: self.corrupted - then.corrupted,
            reordered: self.reordered - then.reordered,
            air: Air {
                used: self.air.used - then.air.used,
                lost: self.air.lost - then.air.lost,
                collisions: self.air.collisions - then.air.collisions,
            },
            ..*self
        }
    }

    /// Packets whose last bit left and that the link did not lose.
    pub fn delivered(&self) -> u64 {
        self.sent.saturating_sub(self.lost)
    }

    /// Bytes of packets whose last bit left and that the link did not lose.
    pub fn delivered_bytes(&self) -> u64 {
        self.sent_bytes.saturating_sub(self.lost_bytes)
    }

    /// All packets dropped before the link.
    pub fn dropped(&self) -> u64 {
        self.dropped_full
            + self.dropped_large
            + self.dropped_by_discipline
            + self.dropped_by_policy
            + self.dropped_by_change
    }
}

/// The counters that each packet of a flow writes, in half a cache line; its [`Counters`] follow
/// from these and from the drops. Two numbers that change together are never adjacent: they would
/// be written as one vector, and a read of one of them would wait for that write. A packet that its
/// own arrival evicts counts as gone before it counts as queued; in between, the backlog is below
/// zero, and wraps around.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[repr(C, align(32))]
pub struct HotCounters {
    queued: u64,
    pub(super) backlog: u32,
    max_backlog: u32,
    queued_bytes: u64,
    /// A queue holds 4 GiB at most.
    pub(super) backlog_bytes: u32,
}

impl HotCounters {
    /// Counts a packet that is queued.
    #[inline]
    pub fn queued(&mut self, bytes: u32) {
        self.queued += 1;
        self.queued_bytes += u64::from(bytes);
        self.backlog = self.backlog.wrapping_add(1);
        self.backlog_bytes = self.backlog_bytes.wrapping_add(bytes);
        if self.backlog > self.max_backlog {
            self.max_backlog = self.backlog;
        }
    }

    /// Counts a packet that leaves the queue because its last bit left or because it was dropped.
    #[inline]
    pub fn gone(&mut self, bytes: u32) {
        self.backlog = self.backlog.wrapping_sub(1);
        self.backlog_bytes = self.backlog_bytes.wrapping_sub(bytes);
    }

    fn packets_gone(&self) -> u64 {
        self.queued - u64::from(self.backlog)
    }

    fn bytes_gone(&self) -> u64 {
        self.queued_bytes - u64::from(self.backlog_bytes)
    }

    fn add(&mut self, more: &HotCounters) {
        self.queued += more.queued;
        self.backlog = self.backlog.wrapping_add(more.backlog);
        self.queued_bytes += more.queued_bytes;
        self.backlog_bytes = self.backlog_bytes.wrapping_add(more.backlog_bytes);
        self.max_backlog = self.max_backlog.max(more.max_backlog);
    }
}

/// Packets of a flow that were dropped, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DropCounters {
    full: u64,
    pub(super) large: u64,
    /// Bytes of the packets that did not get into the queue (`full`, `large`, `early`).
    pub(super) bytes: u64,
    /// Packets that queue management rejected on arrival.
    early: u64,
    by_discipline: u64,
    /// Packets that queue management dropped from the queue.
    by_policy: u64,
    /// Packets that no longer fit when the pipe was changed.
    by_change: u64,
    /// Bytes of the packets that left the queue by a drop (the three counters above).
    thrown_bytes: u64,
    pub(super) marked: u64,
}

/// Drops by flow. Most of a hundred thousand flows never lose a packet: memory is allocated at the
/// first drop, for 16 neighbors together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct DropTable(Vec<Option<Box<[DropCounters; DropTable::TOGETHER]>>>);

impl DropTable {
    const TOGETHER: usize = 16;

    fn new(flows: usize) -> DropTable {
        DropTable(vec![None; flows.div_ceil(DropTable::TOGETHER)])
    }

    fn resize(&mut self, flows: usize) {
        self.0.resize(flows.div_ceil(DropTable::TOGETHER), None);
    }

    fn of(&self, flow: usize) -> DropCounters {
        let some = self.0[flow / DropTable::TOGETHER].as_ref();
        some.map_or_else(DropCounters::default, |some| some[flow % DropTable::TOGETHER])
    }

    #[cold]
    fn of_mut(&mut self, flow: usize) -> &mut DropCounters {
        let some = &mut self.0[flow / DropTable::TOGETHER];
        &mut some.get_or_insert_default()[flow % DropTable::TOGETHER]
    }

    /// The sum over a range of flows.
    fn sum(&self, flows: Range<usize>) -> DropCounters {
        let mut sum = DropCounters::default();
        let mut flow = flows.start;
        while flow < flows.end {
            let next = ((flow / DropTable::TOGETHER + 1) * DropTable::TOGETHER).min(flows.end);
            if let Some(some) = &self.0[flow / DropTable::TOGETHER] {
                (flow..next).for_each(|flow| sum.add(&some[flow % DropTable::TOGETHER]));
            }
            flow = next;
        }
        sum
    }
}

/// The counters of a pipe's flows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PipeStats {
    pub(super) hot: Vec<HotCounters>,
    drops: DropTable,
    /// Empty if the link never had impairments.
    pub(super) impairments: Vec<ImpairmentCounters>,
    /// The sum over flows that were removed by changes.
    removed: (HotCounters, DropCounters, ImpairmentCounters),
}

impl PipeStats {
    pub(super) fn new(flows: usize) -> PipeStats {
        let (hot, drops) = (vec![HotCounters::default(); flows], DropTable::new(flows));
        PipeStats { hot, drops, impairments: Vec::new(), removed: Default::default() }
    }

    pub(super) fn resize(&mut self, flows: usize) {
        self.hot.resize(flows, HotCounters::default());
        self.drops.resize(flows);
        if !self.impairments.is_empty() {
            self.impairments.resize(flows, ImpairmentCounters::default());
        }
    }

    /// Returns true if these are the counters of this number of flows.
    pub(super) fn fits(&self, flows: usize) -> bool {
        let impaired = self.impairments.len();
        self.hot.len() == flows
            && self.drops.0.len() == flows.div_ceil(DropTable::TOGETHER)
            && (impaired == 0 || impaired == flows)
    }

    /// Number of packets of a flow that arrived.
    pub(super) fn offered(&self, flow: FlowId) -> u64 {
        let drops = self.drops.of(flow.index());
        self.hot[flow.index()].queued + drops.full + drops.large + drops.early
    }

    /// Counts a packet that is dropped from its queue.
    #[cold]
    pub(super) fn dropped_from_queue(&mut self, packet: &Packet, by_policy: bool) {
        let drops = self.drops.of_mut(packet.flow.index());
        match by_policy {
            true => drops.by_policy += 1,
            false => drops.by_discipline += 1,
        }
        drops.thrown_bytes += u64::from(packet.bytes);
        self.hot[packet.flow.index()].gone(packet.bytes);
    }

    /// Counts a packet that does not get into its queue.
    #[cold]
    pub(super) fn turned_away(&mut self, flow: FlowId, bytes: u32, by_policy: bool) {
        let drops = self.drops.of_mut(flow.index());
        match by_policy {
            true => drops.early += 1,
            false => drops.full += 1,
        }
        drops.bytes += u64::from(bytes);
    }

    pub(super) fn counters(&self, flow: FlowId) -> Counters {
        let impairments = self.impairments.get(flow.index()).copied().unwrap_or_default();
        counters(&self.hot[flow.index()], &self.drops.of(flow.index()), &impairments)
    }

    /// The sum over a range of flows; the longest queue is the maximum.
    pub(super) fn sum(&self, flows: Range<usize>) -> Counters {
        let mut all = CounterSum::default();
        self.hot[flows.clone()].iter().for_each(|hot| all.add(hot));
        let mut impairments = ImpairmentCounters::default();
        self.impairments
            .get(flows.clone())
            .into_iter()
            .flatten()
            .for_each(|of| impairments.add(of));
        let drops = self.drops.sum(flows);
        Counters {
            max_backlog: all.max_backlog.into(),
            ..counted(
                (all.queued, all.queued_bytes),
                (all.backlog, all.backlog_bytes),
                &drops,
                &impairments,
            )
        }
    }

    /// The drops of a flow.
    #[cold]
    pub(super) fn drops(&mut self, flow: FlowId) -> &mut DropCounters {
        self.drops.of_mut(flow.index())
    }

    /// Counters of flows that were removed by changes.
    pub(super) fn removed_flow_counters(&self) -> Counters {
        let (hot, drops, impairments) = &self.removed;
        counters(hot, drops, impairments)
    }

    /// Maps the flows to `flows` new ones. Their counters move to the new flows, or to the sum over
    /// removed flows; the caller moves queued packets.
    pub(super) fn become_others(&mut self, mapping: &[FlowMapping], flows: usize) {
        let old = std::mem::replace(self, PipeStats::new(flows));
        self.removed = old.removed;
        if !old.impairments.is_empty() {
            self.impairments = vec![ImpairmentCounters::default(); flows];
        }
        for (f, flow_mapping) in mapping.iter().enumerate() {
            let (hot, drops) = (old.hot[f], old.drops.of(f));
            let impairments = old.impairments.get(f).copied().unwrap_or_default();
            match flow_mapping {
                FlowMapping::Is(flow) => {
                    self.hot[flow.index()] = hot;
                    if drops != DropCounters::default() {
                        *self.drops.of_mut(flow.index()) = drops;
                    }
                    if let Some(place) = self.impairments.get_mut(flow.index()) {
                        *place = impairments;
                    }
                }
                FlowMapping::PartOf(flow) => {
                    self.hot[flow.index()].add(&hot);
                    if drops != DropCounters::default() {
                        self.drops.of_mut(flow.index()).add(&drops);
                    }
                    if let Some(place) = self.impairments.get_mut(flow.index()) {
                        place.add(&impairments);
                    }
                }
                FlowMapping::Joins(_) | FlowMapping::Dropped(_) => {
                    let (removed, removed_drops, removed_impairments) = &mut self.removed;
                    // Queued packets belong to another flow.
                    removed.queued += hot.packets_gone();
                    removed.queued_bytes += hot.bytes_gone();
                    removed.max_backlog = removed.max_backlog.max(hot.max_backlog);
                    removed_drops.add(&drops);
                    removed_impairments.add(&impairments);
                }
            }
        }
    }

    /// Counts a queued packet that is dropped: one of `flow`, or of a flow that was removed.
    pub(super) fn dropped_by_change(&mut self, flow: Option<FlowId>, bytes: u32) {
        let (hot, drops) = match flow {
            Some(flow) => (&mut self.hot[flow.index()], self.drops.of_mut(flow.index())),
            None => {
                self.removed.0.queued(bytes);
                (&mut self.removed.0, &mut self.removed.1)
            }
        };
        hot.gone(bytes);
        drops.by_change += 1;
        drops.thrown_bytes += u64::from(bytes);
    }
}

impl DropCounters {
    fn add(&mut self, more: &DropCounters) {
        self.full += more.full;
        self.large += more.large;
        self.bytes += more.bytes;
        self.by_discipline += more.by_discipline;
        self.early += more.early;
        self.by_policy += more.by_policy;
        self.by_change += more.by_change;
        self.thrown_bytes += more.thrown_bytes;
        self.marked += more.marked;
    }
}

/// The sum of the hot counters of several flows.
#[derive(Default)]
struct CounterSum {
    queued: u64,
    queued_bytes: u64,
    backlog: u64,
    backlog_bytes: u64,
    max_backlog: u32,
}

impl CounterSum {
    #[inline]
    fn add(&mut self, hot: &HotCounters) {
        self.queued += hot.queued;
        self.queued_bytes += hot.queued_bytes;
        self.backlog += u64::from(hot.backlog);
        self.backlog_bytes += u64::from(hot.backlog_bytes);
        self.max_backlog = self.max_backlog.max(hot.max_backlog);
    }
}

fn counters(hot: &HotCounters, drops: &DropCounters, impairments: &ImpairmentCounters) -> Counters {
    let waiting = (u64::from(hot.backlog), u64::from(hot.backlog_bytes));
    Counters {
        max_backlog: hot.max_backlog.into(),
        ..counted((hot.queued, hot.queued_bytes), waiting, drops, impairments)
    }
}

fn counted(
    (queued, queued_bytes): (u64, u64),
    (backlog, backlog_bytes): (u64, u64),
    drops: &DropCounters,
    impairments: &ImpairmentCounters,
) -> Counters {
    Counters {
        offered: queued + drops.full + drops.large + drops.early,
        offered_bytes: queued_bytes + drops.bytes,
        sent: queued - backlog - drops.by_discipline - drops.by_policy - drops.by_change,
        sent_bytes: queued_bytes - backlog_bytes - drops.thrown_bytes,
        dropped_full: drops.full,
        dropped_large: drops.large,
        dropped_by_discipline: drops.by_discipline,
        dropped_by_policy: drops.early + drops.by_policy,
        dropped_by_change: drops.by_change,
        marked: drops.marked,
        lost: impairments.lost,
        lost_bytes: impairments.lost_bytes,
        duplicated: impairments.duplicated,
        corrupted: impairments.corrupted,
        reordered: impairments.reordered,
        backlog,
        backlog_bytes,
        max_backlog: 0,
        air: Air::default(),
    }
}
