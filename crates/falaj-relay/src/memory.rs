//! Memory for data in transit: one limit for all datagrams and streams of a relay.
//!
//! A datagram that finds no memory is lost. A stream waits instead: its data in transit may not
//! exceed the free memory. Thus even thousands of unread streams leave memory for the next stream
//! (dynamic thresholds: A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", 1998, with a factor of one).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a packet in transit in addition to its payload: its records in the engine, the message
/// of the thread that has read it, and the allocator's overhead for both.
const RECORD: u64 = 512;

/// The limit of memory, and its use.
pub(crate) struct RelayMemory {
    ceiling: u64,
    used: AtomicU64,
    most: AtomicU64,
    refused: AtomicU64,
}

impl RelayMemory {
    /// A limit of `ceiling` bytes, the records of packets included.
    pub(crate) fn new(ceiling: u64) -> Arc<RelayMemory> {
        let none = || AtomicU64::new(0);
        Arc::new(RelayMemory { ceiling, used: none(), most: none(), refused: none() })
    }

    /// Number of free bytes.
    pub(crate) fn free(&self) -> u64 {
        self.ceiling.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// The largest number of bytes used so far.
    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Number of datagrams that were refused for lack of memory.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Memory for a datagram with this payload, if enough is free; otherwise the datagram is
    /// counted as refused.
    pub(crate) fn try_hold(self: &Arc<RelayMemory>, payload: &[u8]) -> Option<Held> {
        let size = size(payload);
        let fits = |used: u64| used.checked_add(size).filter(|sum| *sum <= self.ceiling);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(used) => {
                self.most.fetch_max(used + size, Ordering::Relaxed);
                Some(Held { payload: payload.into(), memory: Arc::clone(self) })
            }
            Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Memory for a segment or for the copy of a datagram, even beyond the limit. The stream of a
    /// segment has waited for free memory before, or has no other segment in transit.
    pub(crate) fn hold(self: &Arc<RelayMemory>, payload: &[u8]) -> Held {
        let size = size(payload);
        let used = self.used.fetch_add(size, Ordering::Relaxed);
        self.most.fetch_max(used + size, Ordering::Relaxed);
        Held { payload: payload.into(), memory: Arc::clone(self) }
    }
}

fn size(payload: &[u8]) -> u64 {
    payload.len() as u64 + RECORD
}

/// A payload and its share of the memory, which is freed when this is dropped.
pub(crate) struct Held {
    payload: Box<[u8]>,
    memory: Arc<RelayMemory>,
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.payload
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        self.memory.hold(&self.payload)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(size(&self.payload), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_memory_is_counted_and_what_ends_is_free_again() {
        let memory = RelayMemory::new(3 * (100 + RECORD));
        let one = memory.try_hold(&[0; 100]).expect("there is some");
        let two = one.clone();
        assert_eq!((memory.free(), memory.refused()), (100 + RECORD, 0));
        assert!(memory.try_hold(&[0; 101]).is_none());
        let three = memory.try_hold(&[0; 100]);
        assert!(three.is_some() && memory.free() == 0);
        // The only segment of a stream may exceed the limit.
        let beyond = memory.hold(b"x");
        assert_eq!((memory.free(), memory.refused()), (0, 1));
        drop((one, two, three, beyond));
        assert_eq!(memory.free(), 3 * (100 + RECORD));
        assert_eq!(memory.most(), 3 * (100 + RECORD) + 1 + RECORD);
    }
}
