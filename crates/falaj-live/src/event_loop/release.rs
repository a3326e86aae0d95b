//! The calendar of releases: the packets to be delivered, and the instant of each.
//!
//! The packets of a unit that are due within `slack` of the first of them leave together, as a
//! burst, at the instant of the last one: one system call for all of them. A burst waits for the
//! next packet of its unit, but at most until its first packet has been held for `slack`, and only
//! if the link could be done with the next packet by then.

use super::units::{UnitPacket, UnitStore};
use falaj_engine::message::Retimed;
use falaj_engine::{Emit, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One packet of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleasedPacket {
    /// Nominal delay of the packet: from its last bit in to its last bit out.
    pub(crate) delay: Span,
    /// Time at which the packet is due.
    pub(crate) due: Time,
    /// A delivery up to this instant is not late, because a device may be busy with earlier packets
    /// until then.
    pub(crate) by: Time,
}

/// Consecutive packets of one unit that leave together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Burst {
    pub(crate) unit: u32,
    /// Index of its first packet in the unit.
    pub(crate) from: u32,
    pub(crate) pipe: u32,
    pub(crate) flow: u32,
    /// Length of each packet as the link accounts it; the last one may be shorter.
    pub(crate) bytes: u32,
    last: u32,
    pub(crate) packets: Vec<ReleasedPacket>,
    /// Time at which the burst is to be checked, or handed over.
    pub(crate) at: Time,
    /// Time of its first refusal by its port, if any.
    pub(crate) refused: Option<Time>,
    order: u64,
    /// Number of the burst's valid entry in the heap; 0: none.
    entry: u64,
}

impl Burst {
    /// The index after its last packet.
    pub(crate) fn to(&self) -> u32 {
        self.from + self.packets.len() as u32
    }

    /// Bytes of all its packets, as the link accounts them.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.bytes) * (self.packets.len() as u64).saturating_sub(1) + u64::from(self.last)
    }

    fn first_due(&self) -> Time {
        self.packets.first().map_or(Time::NEVER, |p| p.due)
    }

    fn due(&self) -> Time {
        self.packets.last().map_or(Time::NEVER, |p| p.due)
    }
}

/// Time at which a burst is to be checked; the earliest time comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BurstEntry {
    at: Time,
    order: u64,
    burst: u32,
    number: u64,
}

/// All bursts that are to be handed over.
pub(crate) struct Releases {
    slack: Span,
    /// Entries by time. A burst that was moved to another instant leaves an invalid entry behind.
    heap: BinaryHeap<Reverse<BurstEntry>>,
    bursts: Vec<Burst>,
    free: Vec<u32>,
    /// By handle of the unit, the burst that its next packet may join.
    open: Vec<Option<u32>>,
    made: u64,
    /// Number of entries made so far.
    looks: u64,
}

impl Releases {
    pub(crate) fn new(slack: Span) -> Releases {
        let (heap, bursts, free, open) = (BinaryHeap::new(), Vec::new(), Vec::new(), Vec::new());
        Releases { slack, heap, bursts, free, open, made: 0, looks: 0 }
    }

    /// Sets the longest time for which packets of a unit are held, so that they leave together.
    pub(crate) fn allow(&mut self, slack: Span) {
        self.slack = slack;
    }

    /// Returns true if there are no bursts.
    pub(crate) fn is_empty(&self) -> bool {
        self.bursts.len() == self.free.len()
    }

    /// The instant before which nothing is to be handed over.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |e| e.0.at)
    }

    /// Adds a packet that the engine has emitted.
    pub(crate) fn emitted(&mut self, packet: UnitPacket, emit: &Emit) {
        let sent = ReleasedPacket {
            delay: emit.end - emit.arrival,
            due: emit.due,
            by: emit.due.max(emit.start),
        };
        let unit = packet.unit as usize;
        if self.open.len() <= unit {
            self.open.resize(unit + 1, None);
        }
        if let Some(open) = self.open[unit] {
            let burst = &mut self.bursts[open as usize];
            let behind =
                burst.to() == packet.index && burst.pipe == emit.pipe.0 && burst.due() <= sent.due;
            if behind && sent.due.since(burst.first_due()) <= self.slack {
                burst.packets.push(sent);
                burst.last = emit.bytes;
                self.not_later_than_due(open);
                return;
            }
            // No more packets join the open burst.
            self.not_later_than_due(open);
        }
        let (pipe, flow) = (emit.pipe.0, emit.flow.0);
        let (unit, from, bytes) = (packet.unit, packet.index, emit.bytes);
        let index = self.begin(Burst { unit, from, pipe, flow, bytes, ..Burst::default() }, sent);
        self.open[unit as usize] = Some(index);
    }

    /// Changes the due time of a packet that the engine has emitted. Returns false if no burst has
    /// the packet.
    pub(crate) fn retimed(&mut self, retimed: &Retimed) -> bool {
        let old = (retimed.old_end - retimed.arrival, retimed.old_due);
        let is_it = |burst: &Burst| {
            let last = burst.packets.last();
            (burst.pipe, burst.flow) == (retimed.pipe.0, retimed.flow.0)
                && last.is_some_and(|packet| (packet.delay, packet.due) == old)
        };
        let Some(index) = self.bursts.iter().position(is_it) else { return false };
        let (delay, due) = (retimed.end - retimed.arrival, retimed.due);
        let sent = ReleasedPacket { delay, due, by: due };
        let burst = &mut self.bursts[index];
        burst.packets.pop();
        if burst.packets.is_empty() || due.since(burst.first_due()) <= self.slack {
            burst.packets.push(sent);
            let due = burst.due();
            self.look_at(index as u32, due);
            return true;
        }
        // The earlier packets of the burst do not wait for this packet.
        let (unit, from, pipe, flow, bytes) =
            (burst.unit, burst.to(), burst.pipe, burst.flow, burst.last);
        burst.last = burst.bytes;
        let is_open = self.open.get(unit as usize) == Some(&Some(index as u32));
        let before = burst.due();
        self.look_at(index as u32, before);
        let apart = self.begin(Burst { unit, from, pipe, flow, bytes, ..Burst::default() }, sent);
        if is_open {
            self.open[unit as usize] = Some(apart);
        }
        true
    }

    /// Begins a burst with this packet. Returns its index.
    fn begin(&mut self, of: Burst, sent: ReleasedPacket) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.bursts.push(Burst::default());
            (self.bursts.len() - 1) as u32
        });
        self.made += 1;
        let burst = &mut self.bursts[index as usize];
        // The burst's vector of packets is reused.
        burst.packets.push(sent);
        (burst.unit, burst.from, burst.pipe, burst.flow) = (of.unit, of.from, of.pipe, of.flow);
        (burst.bytes, burst.last) = (of.bytes, of.bytes);
        burst.order = self.made;
        self.look_at(index, sent.due);
        index
    }

    /// Notes that the engine has dropped a packet of this unit.
    pub(crate) fn dropped(&mut self, unit: u32, units: &UnitStore) {
        if let Some(&Some(open)) = self.open.get(unit as usize)
            && !units.is_undecided(unit)
        {
            self.not_later_than_due(open);
        }
    }

    fn look_at(&mut self, index: u32, at: Time) {
        let burst = &mut self.bursts[index as usize];
        self.looks += 1;
        (burst.at, burst.entry) = (at, self.looks);
        let (order, number) = (burst.order, self.looks);
        self.heap.push(Reverse(BurstEntry { at, order, burst: index, number }));
    }

    /// Releases a burst when it is due, even if it was held for further packets.
    fn not_later_than_due(&mut self, index: u32) {
        let burst = &self.bursts[index as usize];
        if burst.at > burst.due() {
            self.look_at(index, burst.due());
        }
    }

    /// The next burst that is to be handed over by `now`. `soonest` returns the earliest time at
    /// which the next packet of the burst's unit can be due; the engine has not decided on it yet.
    pub(crate) fn due(
        &mut self,
        now: Time,
        units: &UnitStore,
        soonest: impl Fn(&Burst) -> Time,
    ) -> Option<u32> {
        while let Some(&Reverse(entry)) = self.heap.peek()
            && entry.at <= now
        {
            self.heap.pop();
            let burst = &self.bursts[entry.burst as usize];
            if burst.entry != entry.number {
                continue;
            }
            if burst.due() > now {
                self.look_at(entry.burst, burst.due());
                continue;
            }
            let last = burst.first_due() + self.slack;
            let is_open = self.open[burst.unit as usize] == Some(entry.burst);
            if now < last && is_open && units.is_undecided(burst.unit) && soonest(burst) <= last {
                self.look_at(entry.burst, last);
                continue;
            }
            if is_open {
                self.open[burst.unit as usize] = None;
            }
            // The burst may have got further packets since its instant was set.
            let burst = &mut self.bursts[entry.burst as usize];
            burst.at = burst.at.max(burst.due());
            return Some(entry.burst);
        }
        None
    }

    /// Renumbers the flows of a pipe.
    pub(crate) fn renumber_flows(&mut self, pipe: PipeId, become_other: impl Fn(FlowId) -> FlowId) {
        for burst in
            self.bursts.iter_mut().filter(|burst| burst.pipe == pipe.0 && !burst.packets.is_empty())
        {
            burst.flow = become_other(FlowId(burst.flow)).0;
        }
    }

    /// Returns true if a burst of this pipe is to be handed over.
    pub(crate) fn has_any_of(&self, pipe: PipeId) -> bool {
        self.bursts.iter().any(|burst| burst.pipe == pipe.0 && !burst.packets.is_empty())
    }

    /// All bursts, in the order in which they are to be handed over.
    pub(crate) fn in_order(&self) -> Vec<&Burst> {
        let mut all: Vec<&Burst> =
            self.bursts.iter().filter(|burst| !burst.packets.is_empty()).collect();
        all.sort_by_key(|burst| (burst.at, burst.order));
        all
    }

    /// A burst that is due.
    pub(crate) fn burst(&self, index: u32) -> &Burst {
        &self.bursts[index as usize]
    }

    /// Records that the burst's port has no room for it now.
    pub(crate) fn refused(&mut self, index: u32, now: Time) {
        self.bursts[index as usize].refused.get_or_insert(now);
    }

    /// Removes a burst that was handed over, or could not be.
    pub(crate) fn done(&mut self, index: u32) {
        let burst = &mut self.bursts[index as usize];
        burst.packets.clear();
        burst.refused = None;
        burst.entry = 0;
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::super::units::tests::unit_of;
    use super::*;

    const SLACK: Span = Span::from_micros(20);

    struct Scene {
        units: UnitStore,
        releases: Releases,
        handles: Vec<u32>,
        /// The earliest due time of the next packet.
        soonest: Time,
    }

    impl Scene {
        fn new(packets: u32) -> Scene {
            let mut units = UnitStore::new(65_536, 1 << 20);
            let unit = unit_of(&mut units, packets);
            let (arrival, flow, bytes) = (Time::ZERO, FlowId(0), 154);
            let packet =
                |index| UnitPacket { unit, index, number: index.into(), arrival, flow, bytes };
            let handles = (0..packets).map(|index| units.packet(packet(index))).collect();
            Scene { units, releases: Releases::new(SLACK), handles, soonest: Time::ZERO }
        }

        /// The engine emits this packet, due `due` microseconds after the beginning.
        fn emit(&mut self, index: u32, due: u64) {
            let packet = self.units.decided(self.handles[index as usize]);
            let due = Time::ZERO + Span::from_micros(due);
            let (pipe, flow, handle) = (PipeId(0), FlowId(0), self.handles[index as usize]);
            let emit = Emit {
                pipe,
                flow,
                handle,
                bytes: 154,
                arrival: Time::ZERO,
                start: due,
                end: due,
                due,
            };
            self.releases.emitted(packet, &emit);
        }

        fn drop(&mut self, index: u32) {
            let packet = self.units.decided(self.handles[index as usize]);
            self.releases.dropped(packet.unit, &self.units);
            self.units.gone(packet.unit, 1);
        }

        /// The bursts handed over at this instant: their packets, and how long each was held.
        fn due(&mut self, now: u64) -> Vec<(std::ops::Range<u32>, Vec<u64>)> {
            let (now, mut all) = (Time::ZERO + Span::from_micros(now), Vec::new());
            while let Some(index) = self.releases.due(now, &self.units, |_| self.soonest) {
                let burst = self.releases.burst(index);
                let held = burst.packets.iter().map(|p| burst.at.since(p.due).0 / 1000).collect();
                all.push((burst.from..burst.to(), held));
                self.units.gone(burst.unit, burst.packets.len() as u32);
                self.releases.done(index);
            }
            all
        }
    }

    #[test]
    fn what_is_due_within_the_slack_leaves_at_the_last_ones_instant() {
        let mut scene = Scene::new(5);
        // The packets are decided ahead of time, as with a propagation delay.
        [10, 20, 30, 40, 50].into_iter().enumerate().for_each(|(i, due)| scene.emit(i as u32, due));
        assert_eq!(scene.due(29), []);
        assert_eq!(scene.due(30), [(0..3, vec![20, 10, 0])]);
        assert_eq!(scene.due(49), []);
        assert_eq!(scene.due(50), [(3..5, vec![10, 0])]);
        assert!(scene.releases.is_empty() && scene.releases.next() == Time::NEVER);
    }

    #[test]
    fn the_next_one_is_waited_for_while_it_may_come_in_time() {
        let mut scene = Scene::new(4);
        scene.emit(0, 10);
        assert_eq!(scene.due(10), []);
        scene.emit(1, 14);
        assert_eq!(scene.due(14), []);
        // A packet of another flow was sent in between, and the next packet of the unit is too
        // late.
        scene.emit(2, 33);
        assert_eq!(scene.due(33), [(0..2, vec![4, 0])]);
        scene.emit(3, 40);
        assert_eq!(scene.due(40), [(2..4, vec![7, 0])]);
        assert!(scene.releases.is_empty());
    }

    #[test]
    fn no_packet_waits_longer_than_the_slack_nor_in_vain() {
        let mut scene = Scene::new(4);
        scene.emit(0, 10);
        assert_eq!(scene.due(29), []);
        assert_eq!(scene.due(30), [(0..1, vec![20])]);
        // The link could not finish the next packet in time.
        scene.emit(1, 40);
        scene.soonest = Time::ZERO + Span::from_micros(61);
        assert_eq!(scene.due(40), [(1..2, vec![0])]);
        scene.soonest = Time::ZERO;
        scene.emit(2, 70);
        assert_eq!(scene.due(71), []);
        // There are no further packets.
        scene.drop(3);
        assert_eq!(scene.due(71), [(2..3, vec![0])]);
        assert!(scene.releases.is_empty());
    }

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    /// A packet is moved from one due time to another, in microseconds.
    fn retimed(old: u64, new: u64) -> Retimed {
        let (pipe, flow, arrival) = (PipeId(0), FlowId(0), Time::ZERO);
        let [old, new] = [old, new].map(at);
        let (old_end, old_due, end, due) = (old, old, new, new);
        Retimed { pipe, flow, handle: 0, arrival, old_end, old_due, end, due }
    }

    /// A burst is due exactly once, even if it was to be checked several times, at one instant or
    /// at several.
    #[test]
    fn a_burst_is_due_once() {
        for changes in [&[(20, 1 << 40)][..], &[(20, 30), (30, 20)], &[(20, 25), (25, 20)]] {
            let mut scene = Scene::new(2);
            [10, 20].into_iter().enumerate().for_each(|(i, due)| scene.emit(i as u32, due));
            for &(old, new) in changes {
                assert!(scene.releases.retimed(&retimed(old, new)));
            }
            let mut next = || scene.releases.due(at(100), &scene.units, |_| Time::ZERO);
            assert!(next().is_some());
            assert_eq!(next(), None, "{changes:?}");
        }
    }

    /// The last packet of a burst is due at another instant; the packets before do not wait for it,
    /// and a later packet may join it.
    #[test]
    fn a_packet_that_is_retimed_leaves_then() {
        let never = 1 << 40;
        let mut scene = Scene::new(4);
        [10, 20].into_iter().enumerate().for_each(|(i, due)| scene.emit(i as u32, due));
        assert!(scene.releases.retimed(&retimed(20, never)));
        assert_eq!(scene.due(40), [(0..1, vec![0])]);
        assert_eq!(scene.due(1_000_000), []);
        assert!(!scene.releases.retimed(&retimed(20, 30)), "it is not due then any more");
        assert!(scene.releases.retimed(&retimed(never, 50)));
        scene.emit(2, 60);
        scene.emit(3, 90);
        assert_eq!(scene.due(90), [(1..3, vec![10, 0]), (3..4, vec![0])]);
        assert!(scene.releases.is_empty());
    }

    #[test]
    fn what_is_dropped_separates() {
        let mut scene = Scene::new(4);
        scene.emit(0, 10);
        scene.drop(1);
        scene.emit(2, 11);
        scene.emit(3, 12);
        assert_eq!(scene.due(12), [(0..1, vec![0]), (2..4, vec![1, 0])]);
        assert!(scene.releases.is_empty());
    }
}
