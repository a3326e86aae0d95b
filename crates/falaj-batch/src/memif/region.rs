//! The interface to shared memory that a ring of descriptors needs.

use crate::memory::SharedMemory;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};

/// Memory shared by two sides. Accesses to a range that a ring has found to be
/// [within](Region::has) are never torn.
pub trait Region: Clone {
    /// Returns true if the region contains this number of bytes from `at` on, aligned for words.
    fn has(&self, at: usize, bytes: usize) -> bool;
    /// Reads two bytes at an offset.
    fn load16(&self, at: usize, order: Ordering) -> u16;
    /// Writes two bytes at an offset.
    fn store16(&self, at: usize, value: u16, order: Ordering);
    /// Reads four bytes at an offset.
    fn load32(&self, at: usize) -> u32;
    /// Writes four bytes at an offset.
    fn store32(&self, at: usize, value: u32);
    /// Reads eight bytes at an offset.
    fn load64(&self, at: usize) -> u64;
    /// Copies bytes out; returns false if they are not all within the region.
    fn read(&self, at: usize, out: &mut [u8]) -> bool;
    /// Copies bytes in; returns false if they would not all be within the region.
    fn write(&self, at: usize, bytes: &[u8]) -> bool;
    /// A fence: earlier writes are visible to a side that passes a fence later.
    fn fence();
}

const CHECKED: &str = "the ring was found to lie within its region";

impl Region for Arc<SharedMemory> {
    fn has(&self, at: usize, bytes: usize) -> bool {
        self.cells::<AtomicU64>(at, bytes / size_of::<AtomicU64>()).is_some()
    }
    #[inline]
    fn load16(&self, at: usize, order: Ordering) -> u16 {
        self.cell::<AtomicU16>(at).expect(CHECKED).load(order)
    }
    #[inline]
    fn store16(&self, at: usize, value: u16, order: Ordering) {
        self.cell::<AtomicU16>(at).expect(CHECKED).store(value, order);
    }
    #[inline]
    fn load32(&self, at: usize) -> u32 {
        self.cell::<AtomicU32>(at).expect(CHECKED).load(Relaxed)
    }
    #[inline]
    fn store32(&self, at: usize, value: u32) {
        self.cell::<AtomicU32>(at).expect(CHECKED).store(value, Relaxed);
    }
    #[inline]
    fn load64(&self, at: usize) -> u64 {
        self.cell::<AtomicU64>(at).expect(CHECKED).load(Relaxed)
    }
    #[inline]
    fn read(&self, at: usize, out: &mut [u8]) -> bool {
        SharedMemory::read(self, at, out)
    }
    #[inline]
    fn write(&self, at: usize, bytes: &[u8]) -> bool {
        SharedMemory::write(self, at, bytes)
    }
    #[inline]
    fn fence() {
        fence(SeqCst);
    }
}
