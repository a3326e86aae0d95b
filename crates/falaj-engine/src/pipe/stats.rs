//! What a pipe knows of its flows' packets: what came, what waits, what left, and what was lost,
//! and why.

use crate::handover::FlowMapping;
use crate::impair::ImpairmentCounters;
use falaj_sched::contract::transmission::Air;
use falaj_sched::queues::queue::{FlowId, Packet};
use std::ops::Range;

/// What happened to a flow's packets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub offered: u64,
    /// Their bytes, as the link accounts them.
    pub offered_bytes: u64,
    /// Packets whose last bit left.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that found the queue full.
    pub dropped_full: u64,
    /// Packets larger than the link's largest.
    pub dropped_large: u64,
    /// Packets that the discipline threw away.
    pub dropped_by_discipline: u64,
    /// Packets that the policy of the queue dropped.
    pub dropped_by_policy: u64,
    /// Packets that it marked instead.
    pub marked: u64,
    /// Packets that did not fit any more when the pipe was changed.
    pub dropped_by_change: u64,
    /// Packets that the link lost. They count as sent, and as lost when their transmission begins.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Packets that arrive twice.
    pub duplicated: u64,
    /// Packets that arrive with a bit turned.
    pub corrupted: u64,
    /// Packets that arrive before one that left before them.
    pub reordered: u64,
    /// Packets in the queue, the one in service included.
    pub backlog: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// The most packets there ever were.
    pub max_backlog: u64,
    /// What it had of the air, where the discipline gives packets air times, and for as long as
    /// that has been so.
    pub air: Air,
}

impl Counters {
    /// Adds what another flow has counted; of queues' greatest lengths the greater counts.
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

    /// What was counted since it was `then`; what is queued, and the most that was, stay what they
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

    /// Their bytes.
    pub fn delivered_bytes(&self) -> u64 {
        self.sent_bytes.saturating_sub(self.lost_bytes)
    }

    /// All packets that did not get as far as the link.
    pub fn dropped(&self) -> u64 {
        self.dropped_full
            + self.dropped_large
            + self.dropped_by_discipline
            + self.dropped_by_policy
            + self.dropped_by_change
    }
}

/// What is written for each packet of a flow, in half a cache line, and no more;
/// its [`Counters`] follow from that and from what was lost. Two numbers that
/// change together never stand side by side: written as one vector, each would
/// wait for it when it is read alone. A packet that is thrown out as soon as it
/// comes is gone before it is queued, and the backlog below zero between.
#[derive(Debug, Clone, Copy, Default)]
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
    /// A packet got into the queue.
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

    /// The last bit of a packet left, or it was thrown away.
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

/// Packets of a flow that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DropCounters {
    full: u64,
    pub(super) large: u64,
    /// Of those that did not get in.
    pub(super) bytes: u64,
    /// Those that a policy turned away.
    early: u64,
    by_discipline: u64,
    /// Those that a policy threw out of the queue.
    by_policy: u64,
    /// Those that did not fit any more when the pipe was changed.
    by_change: u64,
    /// Of these three.
    thrown_bytes: u64,
    pub(super) marked: u64,
}

/// What flows lost. Of a hundred thousand most never lose anything: memory comes with the first
/// loss, for those beside it too.
#[derive(Debug, Clone, Default)]
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

    /// Of so many flows from this one on, all together.
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

/// The tallies of a pipe's flows.
#[derive(Debug, Clone)]
pub(super) struct PipeStats {
    pub(super) tallies: Vec<HotCounters>,
    lost: DropTable,
    /// Of a link that never did anything to packets, none.
    pub(super) harm: Vec<ImpairmentCounters>,
    /// Of all flows that are gone.
    gone: (HotCounters, DropCounters, ImpairmentCounters),
}

impl PipeStats {
    pub(super) fn new(flows: usize) -> PipeStats {
        let (tallies, lost) = (vec![HotCounters::default(); flows], DropTable::new(flows));
        PipeStats { tallies, lost, harm: Vec::new(), gone: Default::default() }
    }

    pub(super) fn resize(&mut self, flows: usize) {
        self.tallies.resize(flows, HotCounters::default());
        self.lost.resize(flows);
        if !self.harm.is_empty() {
            self.harm.resize(flows, ImpairmentCounters::default());
        }
    }

    /// Packets that came.
    pub(super) fn offered(&self, flow: FlowId) -> u64 {
        let lost = self.lost.of(flow.index());
        self.tallies[flow.index()].queued + lost.full + lost.large + lost.early
    }

    /// A packet is thrown out of its queue.
    #[cold]
    pub(super) fn thrown_out(&mut self, packet: &Packet, by_policy: bool) {
        let lost = self.lost.of_mut(packet.flow.index());
        match by_policy {
            true => lost.by_policy += 1,
            false => lost.by_discipline += 1,
        }
        lost.thrown_bytes += u64::from(packet.bytes);
        self.tallies[packet.flow.index()].gone(packet.bytes);
    }

    /// A packet does not get into its queue.
    #[cold]
    pub(super) fn turned_away(&mut self, flow: FlowId, bytes: u32, by_policy: bool) {
        let lost = self.lost.of_mut(flow.index());
        match by_policy {
            true => lost.early += 1,
            false => lost.full += 1,
        }
        lost.bytes += u64::from(bytes);
    }

    pub(super) fn counters(&self, flow: FlowId) -> Counters {
        let harm = self.harm.get(flow.index()).copied().unwrap_or_default();
        counters(&self.tallies[flow.index()], &self.lost.of(flow.index()), &harm)
    }

    /// What happened to so many flows from this one on, all together; of queues' greatest lengths
    /// the greatest counts.
    pub(super) fn sum(&self, flows: Range<usize>) -> Counters {
        let mut all = CounterSum::default();
        self.tallies[flows.clone()].iter().for_each(|tally| all.add(tally));
        let mut harm = ImpairmentCounters::default();
        self.harm.get(flows.clone()).into_iter().flatten().for_each(|of| harm.add(of));
        let lost = self.lost.sum(flows);
        Counters {
            max_backlog: all.max_backlog.into(),
            ..counted(
                (all.queued, all.queued_bytes),
                (all.backlog, all.backlog_bytes),
                &lost,
                &harm,
            )
        }
    }

    /// What this flow lost.
    #[cold]
    pub(super) fn lost(&mut self, flow: FlowId) -> &mut DropCounters {
        self.lost.of_mut(flow.index())
    }

    /// Of all flows that are gone.
    pub(super) fn of_the_gone(&self) -> Counters {
        let (tally, lost, harm) = &self.gone;
        counters(tally, lost, harm)
    }

    /// Flows become others, of which there are so many. What they have sent and lost goes with
    /// them, or to those that are gone; what waits is the business of the caller.
    pub(super) fn become_others(&mut self, fates: &[FlowMapping], flows: usize) {
        let old = std::mem::replace(self, PipeStats::new(flows));
        self.gone = old.gone;
        if !old.harm.is_empty() {
            self.harm = vec![ImpairmentCounters::default(); flows];
        }
        for (f, fate) in fates.iter().enumerate() {
            let (tally, lost) = (old.tallies[f], old.lost.of(f));
            let harm = old.harm.get(f).copied().unwrap_or_default();
            match fate {
                FlowMapping::Is(flow) => {
                    self.tallies[flow.index()] = tally;
                    if lost != DropCounters::default() {
                        *self.lost.of_mut(flow.index()) = lost;
                    }
                    if let Some(place) = self.harm.get_mut(flow.index()) {
                        *place = harm;
                    }
                }
                FlowMapping::PartOf(flow) => {
                    self.tallies[flow.index()].add(&tally);
                    if lost != DropCounters::default() {
                        self.lost.of_mut(flow.index()).add(&lost);
                    }
                    if let Some(place) = self.harm.get_mut(flow.index()) {
                        place.add(&harm);
                    }
                }
                FlowMapping::Joins(_) | FlowMapping::Dropped(_) => {
                    let (all, lost_by_all, harm_of_all) = &mut self.gone;
                    // Those that wait are another flow's.
                    all.queued += tally.packets_gone();
                    all.queued_bytes += tally.bytes_gone();
                    all.max_backlog = all.max_backlog.max(tally.max_backlog);
                    lost_by_all.add(&lost);
                    harm_of_all.add(&harm);
                }
            }
        }
    }

    /// A packet that has waited is dropped; of a flow that is gone, or of this one.
    pub(super) fn dropped_by_change(&mut self, flow: Option<FlowId>, bytes: u32) {
        let (tally, lost) = match flow {
            Some(flow) => (&mut self.tallies[flow.index()], self.lost.of_mut(flow.index())),
            None => {
                self.gone.0.queued(bytes);
                (&mut self.gone.0, &mut self.gone.1)
            }
        };
        tally.gone(bytes);
        lost.by_change += 1;
        lost.thrown_bytes += u64::from(bytes);
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

/// The tallies of several flows.
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
    fn add(&mut self, tally: &HotCounters) {
        self.queued += tally.queued;
        self.queued_bytes += tally.queued_bytes;
        self.backlog += u64::from(tally.backlog);
        self.backlog_bytes += u64::from(tally.backlog_bytes);
        self.max_backlog = self.max_backlog.max(tally.max_backlog);
    }
}

fn counters(tally: &HotCounters, lost: &DropCounters, harm: &ImpairmentCounters) -> Counters {
    let waiting = (u64::from(tally.backlog), u64::from(tally.backlog_bytes));
    Counters {
        max_backlog: tally.max_backlog.into(),
        ..counted((tally.queued, tally.queued_bytes), waiting, lost, harm)
    }
}

fn counted(
    (queued, queued_bytes): (u64, u64),
    (backlog, backlog_bytes): (u64, u64),
    lost: &DropCounters,
    harm: &ImpairmentCounters,
) -> Counters {
    Counters {
        offered: queued + lost.full + lost.large + lost.early,
        offered_bytes: queued_bytes + lost.bytes,
        sent: queued - backlog - lost.by_discipline - lost.by_policy - lost.by_change,
        sent_bytes: queued_bytes - backlog_bytes - lost.thrown_bytes,
        dropped_full: lost.full,
        dropped_large: lost.large,
        dropped_by_discipline: lost.by_discipline,
        dropped_by_policy: lost.early + lost.by_policy,
        dropped_by_change: lost.by_change,
        marked: lost.marked,
        lost: harm.lost,
        lost_bytes: harm.lost_bytes,
        duplicated: harm.duplicated,
        corrupted: harm.corrupted,
        reordered: harm.reordered,
        backlog,
        backlog_bytes,
        max_backlog: 0,
        air: Air::default(),
    }
}
