//! Memory shared by two processes. The only unsafe code of this crate is here.

use crate::ring::Memory;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{self, MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Seals that stop either process from changing the seals and the length of the memory: if one
/// process made the memory shorter, an access beyond the new end would kill the other process.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A piece of memory shared with another process.
pub struct SharedMemory(MmapRaw);

/// Atomics of different lengths, by which shared memory is accessed.
pub trait SharedCell: private::Atomic {}
impl<A: private::Atomic> SharedCell for A {}

mod private {
    use super::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

    /// Types for which any bits are a valid value, and a shared reference allows writing.
    pub trait Atomic {}
    impl Atomic for AtomicU8 {}
    impl Atomic for AtomicU16 {}
    impl Atomic for AtomicU32 {}
    impl Atomic for AtomicU64 {}
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl SharedMemory {
    /// Creates memory of this number of words, all zero; also returns the descriptor for the other
    /// process.
    pub fn create(words: usize) -> io::Result<(OwnedFd, Arc<SharedMemory>)> {
        let fd = fs::memfd_create("falaj", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fs::ftruncate(&fd, (words * size_of::<AtomicU64>()) as u64)?;
        fs::fcntl_add_seals(&fd, SEALS)?;
        let shared = SharedMemory::open(&fd)?;
        Ok((fd, shared))
    }

    /// Maps the memory behind a descriptor that another process has sent.
    ///
    /// # Errors
    /// The descriptor is not of memory, or the length of the memory could change.
    pub fn open(fd: impl AsFd) -> io::Result<Arc<SharedMemory>> {
        let length = sealed(&fd, SEALS)?;
        SharedMemory::map(fd, length)
    }

    /// Maps the first `bytes` bytes of memory that another process has sent; it may grow.
    ///
    /// # Errors
    /// The descriptor is not of memory, or the memory could shrink or is shorter.
    pub fn open_first(fd: impl AsFd, bytes: u64) -> io::Result<Arc<SharedMemory>> {
        if bytes > sealed(&fd, SealFlags::SHRINK)? {
            return Err(invalid("the shared memory that was sent is shorter than its stated size"));
        }
        SharedMemory::map(fd, bytes)
    }

    fn map(fd: impl AsFd, bytes: u64) -> io::Result<Arc<SharedMemory>> {
        let bytes = usize::try_from(bytes)
            .map_err(|_| invalid("the shared memory is too long for this machine"))?;
        if bytes < size_of::<AtomicU64>() {
            return Err(invalid("the shared memory that was sent is empty"));
        }
        let map = MmapOptions::new().len(bytes).map_raw(&fd.as_fd())?;
        Ok(Arc::new(SharedMemory(map)))
    }

    /// `count` cells from a byte offset on; `None` if they are not all within, or not aligned.
    #[inline]
    pub fn cells<C: SharedCell>(&self, at: usize, count: usize) -> Option<&[C]> {
        if count == 0 {
            return Some(&[]);
        }
        let end = count.checked_mul(size_of::<C>())?.checked_add(at)?;
        if end > self.0.len() || !at.is_multiple_of(align_of::<C>()) {
            return None;
        }
        // SAFETY: the cells lie within the mapping, which begins at a page and stays until `self`
        // is dropped, and the borrow ends before. The file behind it is sealed against becoming
        // shorter, so that all its pages stay. Its bytes are written by two processes, and in this
        // one through atomics alone: nothing gives out another pointer into it. Any bits are a
        // value of an atomic.
        Some(unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at).cast(), count) })
    }

    /// The cell at a byte offset; `None` if it is not all within, or not aligned.
    #[inline]
    pub fn cell<C: SharedCell>(&self, at: usize) -> Option<&C> {
        self.cells(at, 1)?.first()
    }

    /// Copies bytes out, at any offset; returns false if they are not all within.
    pub fn read(&self, at: usize, out: &mut [u8]) -> bool {
        let Some((first, words, last)) = self.pieces(at, out.len()) else { return false };
        let (begin, rest) = out.split_at_mut(first.len());
        let (middle, end) = rest.as_chunks_mut();
        begin.iter_mut().zip(first).for_each(|(to, byte)| *to = byte.load(Relaxed));
        middle.iter_mut().zip(words).for_each(|(to, word)| *to = word.load(Relaxed).to_ne_bytes());
        end.iter_mut().zip(last).for_each(|(to, byte)| *to = byte.load(Relaxed));
        true
    }

    /// Copies bytes in; returns false if they would not all be within.
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let Some((first, words, last)) = self.pieces(at, bytes.len()) else { return false };
        let (begin, rest) = bytes.split_at(first.len());
        let (middle, end) = rest.as_chunks();
        begin.iter().zip(first).for_each(|(byte, to)| to.store(*byte, Relaxed));
        middle
            .iter()
            .zip(words)
            .for_each(|(word, to)| to.store(u64::from_ne_bytes(*word), Relaxed));
        end.iter().zip(last).for_each(|(byte, to)| to.store(*byte, Relaxed));
        true
    }

    /// Divides a range of bytes into aligned words, and single bytes before and after them.
    fn pieces(&self, at: usize, length: usize) -> Option<Pieces<'_>> {
        self.cells::<AtomicU8>(at, length)?;
        let before = (at.next_multiple_of(size_of::<AtomicU64>()) - at).min(length);
        let words = (length - before) / size_of::<AtomicU64>();
        let behind = before + words * size_of::<AtomicU64>();
        Some((
            self.cells(at, before)?,
            self.cells(at + before, words)?,
            self.cells(at + behind, length - behind)?,
        ))
    }
}

type Pieces<'a> = (&'a [AtomicU8], &'a [AtomicU64], &'a [AtomicU8]);

/// Returns the length of the memory; an error if it does not have these seals.
fn sealed(fd: impl AsFd, seals: SealFlags) -> io::Result<u64> {
    let has = fs::fcntl_get_seals(&fd)
        .map_err(|_| invalid("the descriptor that was sent is not shared memory"))?;
    if !has.contains(seals) {
        return Err(invalid(
            "the shared memory that was sent could change its length: it is not sealed",
        ));
    }
    u64::try_from(fs::fstat(&fd)?.st_size)
        .map_err(|_| invalid("the descriptor that was sent is not shared memory"))
}

impl Memory for Arc<SharedMemory> {
    type Word = AtomicU64;

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.cells(0, self.0.len() / size_of::<AtomicU64>()).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_anywhere_to_anywhere() {
        let (_fd, shared) = SharedMemory::create(8).expect("memory");
        let bytes: Vec<u8> = (1..=64).collect();
        for at in 0..=64 {
            for length in 0..=64 - at {
                assert!(shared.write(0, &[0; 64]) && shared.write(at, &bytes[..length]));
                let mut all = [0xee; 64];
                assert!(shared.read(0, &mut all));
                assert_eq!(
                    (&all[at..at + length], all.iter().filter(|b| **b != 0).count()),
                    (&bytes[..length], length)
                );
                let mut back = vec![0; length];
                assert!(shared.read(at, &mut back));
                assert_eq!(back, bytes[..length]);
            }
        }
        for (at, length) in
            [(0, 65), (64, 1), (65, 0), (usize::MAX, 1), (usize::MAX - 3, 64), (1 << 40, 8)]
        {
            let within = length == 0;
            assert_eq!(shared.write(at, &vec![7; length]), within, "{at} {length}");
            assert_eq!(shared.read(at, &mut vec![7; length]), within, "{at} {length}");
        }
        assert!(shared.cell::<AtomicU16>(63).is_none() && shared.cell::<AtomicU16>(62).is_some());
    }

    #[test]
    fn what_could_become_shorter_is_refused() {
        let plain = fs::memfd_create("plain", MemfdFlags::ALLOW_SEALING).expect("memory");
        fs::ftruncate(&plain, 4096).expect("the memfd grows to 4 KiB");
        let why =
            |result: io::Result<Arc<SharedMemory>>| result.err().expect("an error").to_string();
        assert!(why(SharedMemory::open_first(&plain, 4096)).contains("not sealed"));
        fs::fcntl_add_seals(&plain, SealFlags::SHRINK).expect("seals");
        assert!(why(SharedMemory::open_first(&plain, 4097)).contains("shorter"));
        assert!(why(SharedMemory::open_first(&plain, 0)).contains("empty"));
        assert!(why(SharedMemory::open(&plain)).contains("not sealed"), "it could become longer");
        assert!(SharedMemory::open_first(&plain, 4096).is_ok());
        let null = std::fs::File::open("/dev/null").expect("there is one");
        assert!(why(SharedMemory::open_first(&null, 4096)).contains("not shared memory"));
    }
}
