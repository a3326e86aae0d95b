//! A limit for all queues together. If it is exceeded, the longest queue drops a packet.
//!
//! When the limit is exceeded, one scan orders the queues in a tournament, which then finds the
//! longest queue without further scans. The tournament is kept until less than half of the limit is
//! queued.

use crate::collections::tournament::Tournament;
use crate::queues::queue::FlowId;
use core::cmp::Reverse;

/// The number of packets that wait, without the one on the wire, and their limit.
#[derive(Debug, Clone)]
pub(crate) struct LongestQueue {
    limit: u64,
    waiting: u64,
    /// Queues by their waiting bytes, the longest first; empty unless `exceeded`.
    queues: Tournament<Reverse<u64>>,
    /// True if the limit was exceeded, and since then at least half of it has been queued.
    exceeded: bool,
}

impl LongestQueue {
    /// State for this number of queues, with a limit in packets.
    pub(crate) fn new(limit: u64, queues: usize) -> LongestQueue {
        LongestQueue { limit, waiting: 0, queues: Tournament::new(queues), exceeded: false }
    }

    /// Keeps the packets, with another limit and perhaps more queues.
    pub(crate) fn with_limit(mut self, limit: u64, queues: usize) -> LongestQueue {
        self.forget();
        self.queues.grow(queues);
        LongestQueue { limit, ..self }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Number of packets that wait.
    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        self.waiting
    }

    /// Records that a packet has joined `f`, in which `bytes` wait now.
    #[inline]
    pub(crate) fn joined(&mut self, f: FlowId, bytes: u64) {
        self.waiting += 1;
        self.set(f, bytes);
    }

    /// Records that a waiting packet has left `f`, in which `bytes` wait now.
    #[inline]
    pub(crate) fn left(&mut self, f: FlowId, bytes: u64) {
        self.waiting -= 1;
        self.set(f, bytes);
        if self.exceeded && self.waiting < self.limit / 2 {
            self.forget();
        }
    }

    #[inline]
    fn set(&mut self, f: FlowId, bytes: u64) {
        if self.exceeded {
            match bytes {
                0 => self.queues.remove(f),
                bytes => self.queues.set(f, Reverse(bytes)),
            }
        }
    }

    /// Sets the number of packets that wait, after changes that were not reported one by one.
    pub(crate) fn recount(&mut self, waiting: u64) {
        self.waiting = waiting;
        self.forget();
    }

    /// Empties the tournament until the limit is exceeded again.
    fn forget(&mut self) {
        while let Some((_, f)) = self.queues.first() {
            self.queues.remove(f);
        }
        self.exceeded = false;
    }

    /// Returns the longest queue if the limit is exceeded. `bytes` returns the bytes that wait in a
    /// queue; `queues` is the number of queues.
    #[inline]
    pub(crate) fn beyond_limit(
        &mut self,
        queues: usize,
        bytes: impl Fn(FlowId) -> u64,
    ) -> Option<FlowId> {
        if self.waiting <= self.limit {
            return None;
        }
        if !self.exceeded {
            self.exceeded = true;
            (0..queues as u32).map(FlowId).for_each(|f| self.set(f, bytes(f)));
        }
        self.queues.first().map(|(_, f)| f)
    }
}
