//! Room in queues: a stream waits until its queue has room; a datagram that finds no room is
//! dropped.

use crate::memory::RelayMemory;
use falaj_sched::queues::queue::Limit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The fill level of a queue, and the threads that wait for room in it.
pub(crate) struct QueueRoom {
    limit: Limit,
    /// If set, the queue holds no more bytes than are free in this memory.
    memory: Option<Arc<RelayMemory>>,
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Default)]
struct Used {
    packets: u64,
    bytes: u64,
    closed: bool,
}

impl QueueRoom {
    pub(crate) fn new(limit: Limit) -> QueueRoom {
        QueueRoom { limit, memory: None, used: Mutex::default(), freed: Condvar::new() }
    }

    /// Room for data that are read from a stream and not yet written, limited by the free memory
    /// too. A waiting stream is woken when its own data have been written, and needs no other
    /// notification: a stream without data in transit does not wait.
    pub(crate) fn window(limit: Limit, memory: &Arc<RelayMemory>) -> QueueRoom {
        QueueRoom { memory: Some(Arc::clone(memory)), ..QueueRoom::new(limit) }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        // No thread panics while it holds the lock, and the numbers are consistent at any instant.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&self, used: &Used, bytes: u32) -> bool {
        let sum = used.bytes + u64::from(bytes);
        let fits = match self.limit {
            Limit::Packets(limit) => used.packets < u64::from(limit),
            Limit::Bytes(limit) => sum <= limit,
        };
        fits && self.memory.as_ref().is_none_or(|memory| sum <= memory.free())
    }

    fn take(used: &mut Used, bytes: u32) {
        used.packets += 1;
        used.bytes += u64::from(bytes);
    }

    /// Takes room for a packet; returns false if there is none.
    pub(crate) fn try_take(&self, bytes: u32) -> bool {
        let mut used = self.lock();
        let fits = self.fits(&used, bytes);
        if fits {
            QueueRoom::take(&mut used, bytes);
        }
        fits
    }

    /// Waits for room and takes it; an empty queue has room for anything. Returns false if the room
    /// was closed.
    pub(crate) fn wait_and_take(&self, bytes: u32) -> bool {
        let full = |used: &mut Used| !used.closed && used.packets > 0 && !self.fits(used, bytes);
        let mut used =
            self.freed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if !used.closed {
            QueueRoom::take(&mut used, bytes);
        }
        !used.closed
    }

    /// Returns the room of a packet.
    pub(crate) fn give_back(&self, bytes: u32) {
        let mut used = self.lock();
        used.packets -= 1;
        used.bytes -= u64::from(bytes);
        drop(used);
        self.freed.notify_all();
    }

    /// Closes the room: threads that wait for it continue, and no thread waits any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.freed.notify_all();
    }
}
