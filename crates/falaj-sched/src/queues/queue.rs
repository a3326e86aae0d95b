//! Queues: FIFOs of packets with a limit, all in one pool.
//!
//! The record of a queue has its first packet, its lengths, its limit, the ends of the list of the
//! other packets, and the discipline's state of the flow: one or two cache lines. Disciplines see
//! only [`Flows`]: heads, lengths and their own state; the pipe moves packets.

use crate::units::time::Time;
use alloc::vec::Vec;

/// A flow, given by its index. To a discipline, a flow is the packets of one queue, and the index
/// is the queue's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Limit of a queue, including the packet in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Maximum number of packets.
    Packets(u32),
    /// Maximum number of bytes, as the link accounts them. A queue holds at most 4 GiB.
    Bytes(u64),
}

impl core::fmt::Display for Limit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Limit::Packets(n) => write!(f, "{n}p"),
            Limit::Bytes(n) => write!(f, "{n}B"),
        }
    }
}

/// A packet in a queue: a handle to bytes that are stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Handle of the packet's bytes, chosen by the caller.
    pub handle: u32,
    /// Length in bytes, as the link accounts it; at least 1.
    pub bytes: u32,
    /// The flow that the packet belongs to (several flows may share a queue).
    pub flow: FlowId,
    /// Arrival time of its last bit.
    pub arrival: Time,
}

const NONE: u32 = u32::MAX;

/// A packet in the pool: 24 bytes without a tag, and no padding. The `next` of a queue's last
/// packet is undefined: the queue knows its number of packets.
#[derive(Clone, Copy, Debug)]
struct Node<T> {
    arrival: Time,
    handle: u32,
    bytes: u32,
    flow: u32,
    next: u32,
    tag: T,
}

impl<T> Node<T> {
    #[inline]
    fn packet(&self) -> Packet {
        Packet {
            handle: self.handle,
            bytes: self.bytes,
            flow: FlowId(self.flow),
            arrival: self.arrival,
        }
    }
}

/// A queue: 24 bytes of links and counters, the head's tag, the discipline's own state, and the
/// first packet, so that a queue of one packet does not use the pool. The fields that an arrival
/// reads and writes come first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Record<S, T> {
    arrival: Time,
    handle: u32,
    /// Length of the first packet in bytes; 0 if the queue is empty.
    head_bytes: u32,
    flow: u32,
    packets: u32,
    bytes: u32,
    /// The places in the pool of the second packet and of the last one; valid only if the queue has
    /// at least two packets.
    second: u32,
    last: u32,
    max_packets: u32,
    max_bytes: u32,
    head_tag: T,
    state: S,
}

impl<S: Default, T: Default> Record<S, T> {
    fn new(limit: Limit) -> Record<S, T> {
        let mut record = Record {
            arrival: Time::ZERO,
            handle: 0,
            head_bytes: 0,
            flow: 0,
            packets: 0,
            bytes: 0,
            second: NONE,
            last: NONE,
            max_packets: 0,
            max_bytes: 0,
            head_tag: T::default(),
            state: S::default(),
        };
        record.limit(limit);
        record
    }
}

impl<S, T> Record<S, T> {
    #[inline]
    fn head(&self) -> Packet {
        Packet {
            handle: self.handle,
            bytes: self.head_bytes,
            flow: FlowId(self.flow),
            arrival: self.arrival,
        }
    }

    #[inline]
    fn set_head(&mut self, packet: Packet, tag: T) {
        (self.arrival, self.handle) = (packet.arrival, packet.handle);
        (self.head_bytes, self.flow) = (packet.bytes, packet.flow.0);
        self.head_tag = tag;
    }
}

impl<S, T> Record<S, T> {
    fn limit(&mut self, limit: Limit) {
        (self.max_packets, self.max_bytes) = match limit {
            Limit::Packets(n) => (n, u32::MAX),
            Limit::Bytes(n) => (u32::MAX, u32::try_from(n).unwrap_or(u32::MAX)),
        };
    }
}

/// The queues as a discipline sees them. `S` is the discipline's state of a flow, `T` the tag that
/// each packet carries from its arrival on.
#[derive(Clone, Debug)]
pub struct Flows<S, T = ()> {
    records: Vec<Record<S, T>>,
    backlogged: usize,
}

impl<S, T: Copy> Flows<S, T> {
    /// Number of flows.
    pub fn len(&self) -> usize {
        self.records.len()
    }
    /// Returns true if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// Number of flows that have a packet.
    pub fn backlogged(&self) -> usize {
        self.backlogged
    }
    /// Length in bytes of the flow's first packet.
    #[inline]
    pub fn head(&self, f: FlowId) -> Option<u32> {
        match self.records[f.index()].head_bytes {
            0 => None,
            bytes => Some(bytes),
        }
    }
    /// The tag of the flow's first packet; undefined if there is none.
    #[inline]
    pub fn head_tag(&self, f: FlowId) -> T {
        self.records[f.index()].head_tag
    }
    /// Number of packets in the flow's queue, including the packet in service.
    pub fn packets(&self, f: FlowId) -> u32 {
        self.records[f.index()].packets
    }
    /// Number of bytes in the flow's queue, including the packet in service.
    pub fn bytes(&self, f: FlowId) -> u32 {
        self.records[f.index()].bytes
    }
    /// Sets the view of a flow that an inner discipline divides: the head's length, and the numbers
    /// of packets and bytes.
    pub(crate) fn show(&mut self, f: FlowId, head: Option<u32>, (packets, bytes): (u32, u32)) {
        let record = &mut self.records[f.index()];
        let was = record.head_bytes > 0;
        record.head_bytes = head.unwrap_or(0);
        (record.packets, record.bytes) = if head.is_some() { (packets, bytes) } else { (0, 0) };
        self.backlogged = self.backlogged + usize::from(head.is_some()) - usize::from(was);
    }
    /// The discipline's state of the flow.
    #[inline]
    pub fn state(&self, f: FlowId) -> &S {
        &self.records[f.index()].state
    }
    /// The discipline's state of the flow.
    #[inline]
    pub fn state_mut(&mut self, f: FlowId) -> &mut S {
        &mut self.records[f.index()].state
    }
}

/// The queues of one pipe.
#[derive(Clone, Debug)]
pub struct Queues<S, T = ()> {
    flows: Flows<S, T>,
    pool: Vec<Node<T>>,
    free: u32,
}

impl<S: Default, T: Copy + Default> Queues<S, T> {
    /// Creates one empty queue for each limit.
    pub fn new(limits: &[Limit]) -> Queues<S, T> {
        Queues {
            flows: Flows {
                records: limits.iter().map(|&limit| Record::new(limit)).collect(),
                backlogged: 0,
            },
            pool: Vec::new(),
            free: NONE,
        }
    }

    /// Gives the queues new limits, and adds empty ones if there are more limits. Queued packets
    /// stay, even beyond a new limit.
    pub fn set_limits(&mut self, limits: &[Limit]) {
        for (record, &limit) in self.flows.records.iter_mut().zip(limits) {
            record.limit(limit);
        }
        let more = limits.iter().skip(self.flows.records.len());
        self.flows.records.extend(more.map(|&limit| Record::new(limit)));
    }

    /// Gives these queues another limit. Queued packets stay.
    pub fn set_limit(&mut self, queues: core::ops::Range<u32>, limit: Limit) {
        let records = self.flows.records.get_mut(queues.start as usize..queues.end as usize);
        records.into_iter().flatten().for_each(|record| record.limit(limit));
    }

    /// Gives each packet another tag, flow by flow.
    pub(crate) fn retag(&mut self, mut tag_of: impl FnMut(FlowId, T) -> T) {
        if size_of::<T>() == 0 {
            return;
        }
        for (q, record) in self.flows.records.iter_mut().enumerate() {
            let q = FlowId(q as u32);
            if record.packets > 0 {
                record.head_tag = tag_of(q, record.head_tag);
            }
            let mut slot = record.second;
            for _ in 1..record.packets {
                let node = &mut self.pool[slot as usize];
                node.tag = tag_of(q, node.tag);
                slot = node.next;
            }
        }
    }

    /// Length of the largest packet, except the first one of the queue `but`; 0 if there is none.
    pub(crate) fn largest(&self, but: Option<FlowId>) -> u32 {
        let mut largest = 0;
        for (q, record) in self.flows.records.iter().enumerate() {
            if but != Some(FlowId(q as u32)) {
                largest = largest.max(record.head_bytes);
            }
            let mut slot = record.second;
            for _ in 1..record.packets {
                let node = &self.pool[slot as usize];
                largest = largest.max(node.bytes);
                slot = node.next;
            }
        }
        largest
    }

    /// The packets of queue `q`, in order.
    pub(crate) fn packets(&self, q: FlowId) -> impl Iterator<Item = Packet> + '_ {
        let record = &self.flows.records[q.index()];
        let second = (record.packets > 1).then_some(record.second);
        let behind = core::iter::successors(second, |&slot| Some(self.pool[slot as usize].next));
        let behind = behind.take((record.packets as usize).saturating_sub(1));
        self.first(q).into_iter().chain(behind.map(|slot| self.pool[slot as usize].packet()))
    }

    /// Number of queues.
    pub(crate) fn len(&self) -> usize {
        self.flows.records.len()
    }

    /// The discipline's view.
    #[inline]
    pub fn flows(&mut self) -> &mut Flows<S, T> {
        &mut self.flows
    }

    /// The discipline's view, read-only.
    #[inline]
    pub(crate) fn seen(&self) -> &Flows<S, T> {
        &self.flows
    }

    /// Returns true if queue `q` has room for a packet of `bytes`.
    #[inline]
    pub fn has_room(&self, q: FlowId, bytes: u32) -> bool {
        let record = &self.flows.records[q.index()];
        let fits = record.bytes.checked_add(bytes).is_some_and(|all| all <= record.max_bytes);
        fits && record.packets < record.max_packets
    }

    /// Adds a packet at the tail of queue `q`, even if there [is no room](Queues::has_room).
    /// Returns true if it is now the head. The function is inlined, because a call would cost more
    /// than its work of 20 instructions a packet.
    #[inline(always)]
    pub fn push(&mut self, q: FlowId, packet: Packet, tag: T) -> bool {
        debug_assert!(packet.bytes > 0);
        let record = &mut self.flows.records[q.index()];
        let before = record.packets;
        record.packets = before + 1;
        record.bytes += packet.bytes;
        if before == 0 {
            record.set_head(packet, tag);
            self.flows.backlogged += 1;
            return true;
        }
        let Packet { handle, bytes, flow, arrival } = packet;
        let node = Node { arrival, handle, bytes, flow: flow.0, next: NONE, tag };
        let slot = match self.free {
            NONE => {
                self.pool.push(node);
                (self.pool.len() - 1) as u32
            }
            slot => {
                let place = &mut self.pool[slot as usize];
                self.free = place.next;
                *place = Node { next: place.next, ..node };
                slot
            }
        };
        match before {
            1 => record.second = slot,
            _ => self.pool[record.last as usize].next = slot,
        }
        record.last = slot;
        false
    }

    /// The packet at the head of queue `q`.
    #[inline]
    pub fn first(&self, q: FlowId) -> Option<Packet> {
        let record = &self.flows.records[q.index()];
        (record.head_bytes > 0).then(|| record.head())
    }

    /// Removes the packet at the head of queue `q`.
    #[inline(always)]
    pub fn pop(&mut self, q: FlowId) -> Option<Packet> {
        let record = &mut self.flows.records[q.index()];
        if record.head_bytes == 0 {
            return None;
        }
        let packet = record.head();
        record.packets -= 1;
        record.bytes -= packet.bytes;
        if record.packets == 0 {
            record.head_bytes = 0;
            self.flows.backlogged -= 1;
            if self.flows.backlogged == 0 {
                // All places are free, and will be used again in the order of their numbers. In the
                // order in which they were freed, they would put the packets of one queue farther
                // apart each time.
                self.pool.clear();
                self.free = NONE;
            }
        } else {
            let slot = record.second;
            let node = &mut self.pool[slot as usize];
            record.set_head(node.packet(), node.tag);
            record.second = node.next;
            node.next = self.free;
            self.free = slot;
        }
        Some(packet)
    }

    /// Removes the packet behind the head of queue `q`.
    pub fn pop_second(&mut self, q: FlowId) -> Option<Packet> {
        let record = &mut self.flows.records[q.index()];
        if record.packets < 2 {
            return None;
        }
        let slot = record.second;
        let node = &mut self.pool[slot as usize];
        let packet = node.packet();
        record.second = node.next;
        node.next = self.free;
        self.free = slot;
        record.packets -= 1;
        record.bytes -= packet.bytes;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(handle: u32, bytes: u32) -> Packet {
        Packet { handle, bytes, flow: FlowId(0), arrival: Time::ZERO }
    }

    #[test]
    fn a_record_is_a_cache_line_or_two() {
        fn record<D: crate::contract::discipline::Discipline>() -> usize {
            size_of::<Record<D::State, D::Tag>>()
        }
        let stamping = [
            record::<crate::disciplines::virtual_clock::VirtualClock>(),
            record::<crate::disciplines::sfq::Sfq>(),
            record::<crate::disciplines::wfq::Wfq>(),
            record::<crate::disciplines::wf2q::Wf2q>(),
            record::<crate::disciplines::spfq::Spfq>(),
            record::<crate::disciplines::edf::Edf>(),
            record::<crate::disciplines::sced::Sced>(),
            record::<crate::disciplines::mtr_ls::MtrLs>(),
            record::<crate::disciplines::arc::Arc>(),
        ];
        assert!(stamping.iter().all(|&size| size <= 128), "{stamping:?}");
        let in_turns = [
            record::<crate::disciplines::fifo::Fifo>(),
            record::<crate::disciplines::priority::Priority>(),
            record::<crate::disciplines::wrr::Wrr>(),
            record::<crate::disciplines::drr::Drr>(),
        ];
        assert_eq!(in_turns, [64; 4]);
        let by_share = [
            record::<crate::disciplines::qfq::Qfq>(),
            record::<crate::disciplines::wf2q_plus::Wf2qPlus>(),
            record::<crate::disciplines::ffs::Ffs>(),
            record::<crate::disciplines::scfq::Scfq>(),
        ];
        assert_eq!(by_share, [64; 4]);
        assert_eq!((size_of::<Node<()>>(), size_of::<Node<u64>>()), (24, 32));
    }

    /// Bytes that the queue and the discipline keep for a flow, without the first packet. That
    /// packet takes 20 bytes of the record, and its tag.
    #[test]
    fn what_is_known_of_a_flow() {
        assert_eq!(core::mem::offset_of!(Record<(), ()>, state), 20 + 24);
        fn known<D: crate::contract::discipline::Discipline>() -> usize {
            24 + size_of::<D::State>()
        }
        assert_eq!(known::<crate::disciplines::drr::Drr>(), 36);
        assert_eq!(known::<crate::disciplines::drr_plus_plus::DrrPlusPlus>(), 36);
        assert_eq!(known::<crate::disciplines::ets::Ets>(), 44);
        assert_eq!(known::<crate::disciplines::timer_wheels::TimerWheels>(), 48);
        assert_eq!(known::<crate::disciplines::qfq_plus::QfqPlus>(), 40);
        assert_eq!(known::<crate::disciplines::qfq::Qfq>(), 44);
        assert_eq!(known::<crate::disciplines::ffs::Ffs>(), 44);
        // These need in addition an entry of 16 bytes in a heap, or 28 to 32 bytes in a tournament
        // with tags of 128 bits.
        assert_eq!(known::<crate::disciplines::wf2q_plus::Wf2qPlus>(), 44);
        assert_eq!(known::<crate::disciplines::scfq::Scfq>(), 36);
        assert_eq!(known::<crate::disciplines::wfq::Wfq>(), 72);
    }

    #[test]
    fn packets_leave_in_order_and_limits_hold() {
        let mut q: Queues<(), u8> = Queues::new(&[Limit::Packets(3), Limit::Bytes(1000)]);
        let (a, b) = (FlowId(0), FlowId(1));
        assert!(q.push(a, packet(1, 10), 11));
        assert!(!q.push(a, packet(2, 20), 12));
        assert!(q.has_room(a, 1_000_000));
        assert!(!q.push(a, packet(3, 30), 13));
        assert!(!q.has_room(a, 1));
        assert!(q.has_room(b, 1000) && !q.has_room(b, 1001));
        assert!(q.push(b, packet(5, 1000), 0));
        assert!(!q.has_room(b, 1) && !q.has_room(b, u32::MAX));
        assert_eq!((q.flows().backlogged(), q.flows().bytes(a)), (2, 60));
        for (handle, next, tag) in [(1, Some(20), 12), (2, Some(30), 13), (3, None, 13)] {
            assert_eq!(q.pop(a).map(|p| p.handle), Some(handle));
            assert_eq!((q.flows().head(a), q.flows().head_tag(a)), (next, tag));
        }
        assert_eq!(q.pop(a), None);
        assert!(q.push(a, packet(7, 5), 17));
        assert_eq!(q.first(a).map(|p| p.handle), Some(7));
        assert_eq!(q.pool.len(), 2, "freed places are used again, and heads need none");
    }

    #[test]
    fn the_one_behind_the_head_goes_and_the_others_stay_in_order() {
        let mut q: Queues<()> = Queues::new(&[Limit::Packets(9)]);
        let f = FlowId(0);
        (1..=3).for_each(|n| _ = q.push(f, packet(n, 10 * n), ()));
        assert_eq!(q.pop_second(f).map(|p| p.handle), Some(2));
        assert_eq!(
            (q.flows().packets(f), q.flows().bytes(f), q.flows().head(f)),
            (2, 40, Some(10))
        );
        assert_eq!((q.pop_second(f).map(|p| p.handle), q.pop_second(f)), (Some(3), None));
        q.push(f, packet(4, 40), ());
        assert_eq!(q.pool.len(), 2, "freed places are used again");
        assert_eq!(
            [q.pop(f), q.pop(f), q.pop(f)].map(|p| p.map(|p| p.handle)),
            [Some(1), Some(4), None]
        );
    }

    #[test]
    fn when_all_have_gone_places_come_in_their_order_again() {
        let mut q: Queues<()> = Queues::new(&[Limit::Packets(9); 2]);
        let (a, b) = (FlowId(0), FlowId(1));
        let handles = |q: &Queues<()>| q.pool.iter().map(|node| node.handle).collect::<Vec<_>>();
        let fill = |q: &mut Queues<()>| {
            for (n, f) in (1..=4).flat_map(|n| [(n, a), (n, b)]) {
                q.push(f, packet(10 * n + f.0, 1), ());
            }
        };
        fill(&mut q);
        let came = [20, 21, 30, 31, 40, 41];
        assert_eq!(handles(&q), came);
        // The packets leave queue by queue, in another order than they arrived.
        for f in [a, b] {
            while q.pop(f).is_some() {}
        }
        fill(&mut q);
        assert_eq!(
            (handles(&q).as_slice(), q.pool.capacity() < 16),
            (came.as_slice(), true),
            "the pool does not grow"
        );
        while q.pop(a).is_some() {}
        q.push(b, packet(51, 1), ());
        assert_eq!(
            handles(&q),
            [20, 21, 30, 31, 51, 41],
            "while a packet is queued, the place freed last is reused first"
        );
    }

    #[test]
    fn new_limits_lose_nothing() {
        let mut q: Queues<()> = Queues::new(&[Limit::Packets(2)]);
        q.push(FlowId(0), packet(1, 10), ());
        q.push(FlowId(0), packet(2, 10), ());
        q.set_limits(&[Limit::Packets(1), Limit::Packets(1)]);
        assert!(!q.has_room(FlowId(0), 1) && q.has_room(FlowId(1), 1));
        assert_eq!((q.pop(FlowId(0)).map(|p| p.handle), q.flows().len()), (Some(1), 2));
    }
}
