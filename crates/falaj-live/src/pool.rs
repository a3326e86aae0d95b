//! Buffers for the units that are on their way, known by their handle.

/// Buffers of one size; they are used again, the one freed last first.
pub(crate) struct Pool {
    buffers: Vec<Box<[u8]>>,
    lengths: Vec<u32>,
    free: Vec<u32>,
    size: usize,
    most: usize,
}

impl Pool {
    /// Buffers of `size` bytes, `memory` bytes in all at most.
    pub(crate) fn new(size: usize, memory: usize) -> Pool {
        Pool { buffers: Vec::new(), lengths: Vec::new(), free: Vec::new(), size, most: (memory / size).max(1) }
    }

    /// A free buffer, to be filled and then kept by [`Pool::keep`] or given
    /// back by [`Pool::release`]; `None` if all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(handle) = self.free.pop() {
            return Some(handle);
        }
        if self.buffers.len() == self.most {
            return None;
        }
        self.buffers.push(vec![0; self.size].into());
        self.lengths.push(0);
        Some((self.buffers.len() - 1) as u32)
    }

    pub(crate) fn whole(&mut self, handle: u32) -> &mut [u8] {
        &mut self.buffers[handle as usize]
    }

    pub(crate) fn keep(&mut self, handle: u32, length: usize) {
        self.lengths[handle as usize] = length as u32;
    }

    pub(crate) fn unit(&self, handle: u32) -> &[u8] {
        &self.buffers[handle as usize][..self.lengths[handle as usize] as usize]
    }

    pub(crate) fn release(&mut self, handle: u32) {
        self.free.push(handle);
    }
}
