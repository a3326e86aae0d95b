//! Memory that two processes share. The only unsafe code of this crate is here.

use crate::ring::Memory;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{self, MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Nobody may make it shorter under the other's hands, which would end whoever
/// touches it then, or undo that.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A piece of memory that another process has too.
pub struct Shared(MmapRaw);

impl Shared {
    /// New memory of so many words, all zero, and what the other process needs to have it too.
    pub fn create(words: usize) -> io::Result<(OwnedFd, Arc<Shared>)> {
        let fd = fs::memfd_create("falaj", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fs::ftruncate(&fd, (words * size_of::<AtomicU64>()) as u64)?;
        fs::fcntl_add_seals(&fd, SEALS)?;
        let shared = Shared::open(&fd)?;
        Ok((fd, shared))
    }

    /// The memory behind a descriptor that another process has sent.
    ///
    /// # Errors
    /// It is no memory, or its length could change.
    pub fn open(fd: impl AsFd) -> io::Result<Arc<Shared>> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let seals = fs::fcntl_get_seals(&fd).map_err(|_| invalid("what was sent is no shared memory"))?;
        if !seals.contains(SEALS) {
            return Err(invalid("the shared memory that was sent could change its length"));
        }
        let bytes = usize::try_from(fs::fstat(&fd)?.st_size).map_err(|_| invalid("it is too long for this machine"))?;
        if bytes < size_of::<AtomicU64>() {
            return Err(invalid("the shared memory that was sent is empty"));
        }
        let map = MmapOptions::new().len(bytes).map_raw(&fd.as_fd())?;
        Ok(Arc::new(Shared(map)))
    }
}

impl Memory for Arc<Shared> {
    type Word = AtomicU64;

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is as long as it says, begins at a page and stays until `self` is dropped, and the
        // borrow ends before. The file behind it is sealed, so that all its pages stay. Its bytes are written by two
        // processes, and in this one through atomics alone: nothing gives out another pointer into it. Any bits are a
        // value of an atomic.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() / size_of::<AtomicU64>()) }
    }
}
