//! Room in a queue, waited for or not: what makes a stream wait and a datagram fall.

use falaj_sched::queues::queue::Limit;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How much is in a queue, and who waits to put more in.
pub(crate) struct QueueRoom {
    limit: Limit,
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
        QueueRoom { limit, used: Mutex::default(), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        // Nobody panics while holding it, and the numbers are whole at any instant.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&self, used: &Used, bytes: u32) -> bool {
        match self.limit {
            Limit::Packets(limit) => used.packets < u64::from(limit),
            Limit::Bytes(limit) => used.bytes + u64::from(bytes) <= limit,
        }
    }

    fn take(used: &mut Used, bytes: u32) {
        used.packets += 1;
        used.bytes += u64::from(bytes);
    }

    /// Takes room for a packet if there is some.
    pub(crate) fn try_take(&self, bytes: u32) -> bool {
        let mut used = self.lock();
        let fits = self.fits(&used, bytes);
        if fits {
            QueueRoom::take(&mut used, bytes);
        }
        fits
    }

    /// Waits for room and takes it; an empty queue has room for anything. `false` if nothing will
    /// ever be read again.
    pub(crate) fn wait_and_take(&self, bytes: u32) -> bool {
        let full = |used: &mut Used| !used.closed && used.packets > 0 && !self.fits(used, bytes);
        let mut used =
            self.freed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if !used.closed {
            QueueRoom::take(&mut used, bytes);
        }
        !used.closed
    }

    /// A packet has gone.
    pub(crate) fn give_back(&self, bytes: u32) {
        let mut used = self.lock();
        used.packets -= 1;
        used.bytes -= u64::from(bytes);
        drop(used);
        self.freed.notify_all();
    }

    /// Nobody needs to wait any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.freed.notify_all();
    }
}
