//! The assignment of connections to queues by a hash with eight ways.
//!
//! The hash selects a set of eight queues. A connection keeps the queue of the set that has the
//! connection's tag. A new connection takes a free queue of the set, so connections share a queue
//! only if all eight are busy.

use crate::queues::queue::FlowId;
use crate::units::draws::mix;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

/// Number of queues.
pub(super) const QUEUES: usize = 1024;
const WAYS: usize = 8;

/// Flag of a queue that has packets; the other bits are the tag of its connection.
const BUSY: u32 = 1 << 31;

/// The tags of all queues.
#[derive(Debug, Clone)]
pub(super) struct Ways {
    tags: Vec<u32>,
    key: u64,
    /// Tag of the connection that was placed last.
    placed: Cell<u32>,
}

impl Ways {
    pub(super) fn new() -> Ways {
        Ways { tags: vec![0; QUEUES], key: 0, placed: Cell::new(0) }
    }

    /// Sets the key of the hash.
    pub(super) fn seed(&mut self, seed: u64) {
        self.key = mix(seed);
    }

    #[inline]
    fn hash(&self, connection: u64, flow: FlowId) -> (u32, usize) {
        let hash = mix(self.key ^ mix(connection ^ u64::from(flow.0) << 40));
        ((hash >> 32) as u32 & !BUSY, hash as usize % QUEUES)
    }

    /// The queue of this connection.
    #[inline]
    pub(super) fn place(&self, connection: u64, flow: FlowId) -> FlowId {
        let (tag, direct) = self.hash(connection, flow);
        self.placed.set(tag);
        let first = direct & !(WAYS - 1);
        let set = &self.tags[first..first + WAYS];
        let ways = || (0..WAYS).map(|n| (direct + n) % WAYS);
        let same = ways().find(|&way| set[way] & !BUSY == tag);
        let free = || ways().find(|&way| set[way] & BUSY == 0);
        FlowId(same.or_else(free).map_or(direct, |way| first + way) as u32)
    }

    /// Marks the queue as busy, for a packet of the connection that was placed last.
    #[inline]
    pub(super) fn take(&mut self, queue: FlowId) {
        let tag = &mut self.tags[queue.index()];
        if *tag & BUSY == 0 {
            *tag = self.placed.get() | BUSY;
        }
    }

    /// Marks a queue as free when it is empty. Its connection finds it again, unless another
    /// connection has taken it.
    #[inline]
    pub(super) fn free(&mut self, queue: FlowId) {
        self.tags[queue.index()] &= !BUSY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds this number of connections of one set, by trial.
    fn of_one_set(ways: &Ways, number: usize) -> Vec<u64> {
        let set = |connection| ways.hash(connection, FlowId(0)).1 / WAYS;
        (0..).filter(|&connection| set(connection) == set(0)).take(number).collect()
    }

    #[test]
    fn eight_connections_of_a_set_share_nothing() {
        let mut ways = Ways::new();
        let connections = of_one_set(&ways, 10);
        let mut queues = Vec::new();
        for &connection in &connections {
            let queue = ways.place(connection, FlowId(0));
            ways.take(queue);
            queues.push(queue);
        }
        let mut first = queues[..8].to_vec();
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 8);
        // Each of the eight connections finds its own queue again. Further connections share the
        // queue that the hash selects.
        for (&connection, &queue) in connections.iter().zip(&queues) {
            assert_eq!(ways.place(connection, FlowId(0)), queue);
        }
        assert_eq!(queues[8].index(), ways.hash(connections[8], FlowId(0)).1);
        // A queue that is free again is given to another connection only when a packet of that
        // connection arrives.
        ways.free(queues[3]);
        assert_eq!(ways.place(connections[3], FlowId(0)), queues[3]);
        assert_eq!(ways.place(connections[9], FlowId(0)), queues[3]);
        ways.take(queues[3]);
        ways.free(queues[3]);
        assert_eq!(ways.place(connections[9], FlowId(0)), queues[3]);
    }
}
