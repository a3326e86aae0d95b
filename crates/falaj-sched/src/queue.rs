//! Queues: FIFOs of packets with a limit, all in one pool.
//!
//! A queue's hot record (lengths, limit, list ends, and what the discipline
//! keeps for the flow) fills one cache line. Disciplines see only [`Flows`]:
//! heads, lengths and their own state; packets are moved by the pipe.

use alloc::vec::Vec;

/// A flow of a discipline: the packets of one queue. Its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How much a queue holds, the packet in service included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many packets.
    Packets(u32),
    /// At most so many bytes, as the link accounts them; no more than 4 GiB are held.
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

/// A packet in a queue: a handle to bytes that live elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Whatever the driver knows the bytes by.
    pub handle: u32,
    /// Length as the link accounts it; at least 1.
    pub bytes: u32,
    /// The flow that counts it (several flows may share a queue).
    pub flow: FlowId,
    /// When its last bit came in.
    pub arrival: crate::time::Time,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    packet: Packet,
    next: u32,
}

/// 28 bytes of plumbing and the discipline's own state: one cache line as
/// long as that state has 32 bytes at most.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Record<S> {
    head_bytes: u32,
    packets: u32,
    bytes: u32,
    first: u32,
    last: u32,
    max_packets: u32,
    max_bytes: u32,
    state: S,
}

/// What a discipline sees of the queues.
#[derive(Clone, Debug)]
pub struct Flows<S> {
    records: Vec<Record<S>>,
    backlogged: usize,
}

impl<S> Flows<S> {
    /// Number of flows.
    pub fn len(&self) -> usize {
        self.records.len()
    }
    /// No flows at all?
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// How many flows have a packet.
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
    /// Packets in the flow's queue, the one in service included.
    pub fn packets(&self, f: FlowId) -> u32 {
        self.records[f.index()].packets
    }
    /// Bytes in the flow's queue, the packet in service included.
    pub fn bytes(&self, f: FlowId) -> u32 {
        self.records[f.index()].bytes
    }
    /// What the discipline keeps for the flow.
    #[inline]
    pub fn state(&self, f: FlowId) -> &S {
        &self.records[f.index()].state
    }
    /// What the discipline keeps for the flow.
    #[inline]
    pub fn state_mut(&mut self, f: FlowId) -> &mut S {
        &mut self.records[f.index()].state
    }
}

/// Why a packet did not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The queues of one pipe.
#[derive(Clone, Debug)]
pub struct Queues<S> {
    flows: Flows<S>,
    pool: Vec<Node>,
    free: u32,
}

impl<S: Default> Queues<S> {
    /// One empty queue for each limit.
    pub fn new(limits: &[Limit]) -> Queues<S> {
        let record = |limit: &Limit| {
            let (max_packets, max_bytes) = match *limit {
                Limit::Packets(n) => (n, u32::MAX),
                Limit::Bytes(n) => (u32::MAX, u32::try_from(n).unwrap_or(u32::MAX)),
            };
            Record {
                head_bytes: 0,
                packets: 0,
                bytes: 0,
                first: NONE,
                last: NONE,
                max_packets,
                max_bytes,
                state: S::default(),
            }
        };
        Queues {
            flows: Flows { records: limits.iter().map(record).collect(), backlogged: 0 },
            pool: Vec::new(),
            free: NONE,
        }
    }

    /// What the discipline sees.
    #[inline]
    pub fn flows(&mut self) -> &mut Flows<S> {
        &mut self.flows
    }

    /// Puts a packet at the tail of queue `q`; true if it is now the head.
    #[inline]
    pub fn push(&mut self, q: FlowId, packet: Packet) -> Result<bool, Full> {
        debug_assert!(packet.bytes > 0);
        let record = &mut self.flows.records[q.index()];
        let Some(bytes) = record.bytes.checked_add(packet.bytes) else { return Err(Full) };
        if record.packets >= record.max_packets || bytes > record.max_bytes {
            return Err(Full);
        }
        let node = Node { packet, next: NONE };
        let slot = match self.free {
            NONE => {
                self.pool.push(node);
                (self.pool.len() - 1) as u32
            }
            slot => {
                self.free = self.pool[slot as usize].next;
                self.pool[slot as usize] = node;
                slot
            }
        };
        record.packets += 1;
        record.bytes = bytes;
        let was_empty = record.first == NONE;
        if was_empty {
            record.first = slot;
            record.head_bytes = packet.bytes;
            self.flows.backlogged += 1;
        } else {
            self.pool[record.last as usize].next = slot;
        }
        record.last = slot;
        Ok(was_empty)
    }

    /// The packet at the head of queue `q`.
    #[inline]
    pub fn first(&self, q: FlowId) -> Option<&Packet> {
        match self.flows.records[q.index()].first {
            NONE => None,
            slot => Some(&self.pool[slot as usize].packet),
        }
    }

    /// Takes the packet at the head of queue `q` out.
    #[inline]
    pub fn pop(&mut self, q: FlowId) -> Option<Packet> {
        let record = &mut self.flows.records[q.index()];
        let slot = record.first;
        if slot == NONE {
            return None;
        }
        let Node { packet, next } = self.pool[slot as usize];
        self.pool[slot as usize].next = self.free;
        self.free = slot;
        record.first = next;
        record.packets -= 1;
        record.bytes -= packet.bytes;
        if next == NONE {
            record.head_bytes = 0;
            self.flows.backlogged -= 1;
        } else {
            record.head_bytes = self.pool[next as usize].packet.bytes;
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    fn packet(handle: u32, bytes: u32) -> Packet {
        Packet { handle, bytes, flow: FlowId(0), arrival: Time::ZERO }
    }

    #[test]
    fn a_record_is_one_cache_line() {
        assert_eq!(size_of::<Record<[u64; 4]>>(), 64);
    }

    #[test]
    fn packets_leave_in_order_and_limits_hold() {
        let mut q: Queues<()> = Queues::new(&[Limit::Packets(3), Limit::Bytes(1000)]);
        let (a, b) = (FlowId(0), FlowId(1));
        assert_eq!(q.push(a, packet(1, 10)), Ok(true));
        assert_eq!(q.push(a, packet(2, 20)), Ok(false));
        assert_eq!(q.push(a, packet(3, 30)), Ok(false));
        assert_eq!(q.push(a, packet(4, 1)), Err(Full));
        assert_eq!(q.push(b, packet(5, 1000)), Ok(true));
        assert_eq!(q.push(b, packet(6, 1)), Err(Full));
        assert_eq!((q.flows().backlogged(), q.flows().bytes(a)), (2, 60));
        for (handle, next) in [(1, Some(20)), (2, Some(30)), (3, None)] {
            assert_eq!(q.pop(a).map(|p| p.handle), Some(handle));
            assert_eq!(q.flows().head(a), next);
        }
        assert_eq!(q.pop(a), None);
        assert_eq!(q.push(a, packet(7, 5)), Ok(true));
        assert_eq!(q.first(a).map(|p| p.handle), Some(7));
        assert_eq!(q.pool.len(), 4, "freed places are used again");
    }
}
