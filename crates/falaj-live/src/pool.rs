//! Memory for the units that are on their way, known by their handle.

/// A unit is read into one buffer that any unit fits in. A short one then moves
/// to memory of its own length, so that a long link full of short packets is
/// not full of air; of a longer one the buffer itself is kept.
pub(crate) struct Pool {
    size: usize,
    /// Empty if the last one was kept.
    reading: Box<[u8]>,
    units: Vec<Kept>,
    free: Vec<u32>,
    /// Buffers that were used before, so that their pages are there.
    spare: Vec<Box<[u8]>>,
    memory: usize,
}

#[derive(Default)]
struct Kept {
    memory: Box<[u8]>,
    length: u32,
}

/// What is shorter is worth copying if buffers are longer than this.
const SHORT: usize = 16 << 10;
/// What a unit costs besides its bytes: here, in the queues, in the allocator.
const BESIDE: usize = 128;
/// More spare buffers than this go back to the allocator.
const SPARE: usize = 256;

impl Pool {
    /// For units of `size` bytes at most, `memory` bytes in all at most.
    pub(crate) fn new(size: usize, memory: usize) -> Pool {
        Pool { size, reading: Box::default(), units: Vec::new(), free: Vec::new(), spare: Vec::new(), memory }
    }

    /// Where to read a unit to: the buffer freed last, as it is still in the cache.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        if self.reading.is_empty() {
            self.reading = self.spare.pop().unwrap_or_else(|| vec![0; self.size].into());
        }
        &mut self.reading
    }

    /// Keeps the unit that was just read; `None` if there is no memory for it.
    #[inline]
    pub(crate) fn keep(&mut self, length: usize) -> Option<u32> {
        let size = self.size;
        let copied = length <= SHORT && size > SHORT;
        let needed = BESIDE + if copied { length } else { size };
        self.memory = self.memory.checked_sub(needed)?;
        let memory = if copied { self.reading[..length].into() } else { std::mem::take(&mut self.reading) };
        let kept = Kept { memory, length: length as u32 };
        match self.free.pop() {
            Some(handle) => {
                self.units[handle as usize] = kept;
                Some(handle)
            }
            None => {
                self.units.push(kept);
                Some((self.units.len() - 1) as u32)
            }
        }
    }

    /// A unit that is kept.
    #[inline]
    pub(crate) fn unit(&self, handle: u32) -> &[u8] {
        let kept = &self.units[handle as usize];
        &kept.memory[..kept.length as usize]
    }

    /// The same, to be changed.
    pub(crate) fn unit_mut(&mut self, handle: u32) -> &mut [u8] {
        let kept = &mut self.units[handle as usize];
        &mut kept.memory[..kept.length as usize]
    }

    /// Gives its memory back.
    #[inline]
    pub(crate) fn release(&mut self, handle: u32) {
        let Kept { memory, .. } = std::mem::take(&mut self.units[handle as usize]);
        self.memory += BESIDE + memory.len();
        self.free.push(handle);
        if memory.len() == self.size && self.spare.len() < SPARE {
            self.spare.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pool: &mut Pool, byte: u8, length: usize) -> Option<u32> {
        pool.buffer()[..length].fill(byte);
        pool.keep(length)
    }

    #[test]
    fn units_keep_their_bytes_and_memory_comes_back() {
        for size in [100, 65_536] {
            let memory = 10 * (BESIDE + size);
            let mut pool = Pool::new(size, memory);
            for round in 0..3 {
                let handles: Vec<u32> = (0..10).map_while(|i| kept(&mut pool, i, size)).collect();
                assert_eq!(handles.len(), 10, "round {round}");
                assert_eq!(kept(&mut pool, 99, size), None);
                for (i, &handle) in handles.iter().enumerate() {
                    assert!(pool.unit(handle).len() == size && pool.unit(handle).iter().all(|&b| b == i as u8));
                    pool.release(handle);
                }
                assert_eq!(pool.memory, memory);
            }
        }
    }

    #[test]
    fn short_units_take_little() {
        let mut pool = Pool::new(65_536, 1 << 20);
        let handles: Vec<u32> = (0..1000).map_while(|i| kept(&mut pool, i as u8, 60)).collect();
        assert_eq!(handles.len(), 1000);
        for (i, &handle) in handles.iter().enumerate() {
            assert_eq!(pool.unit(handle), [i as u8; 60]);
        }
    }
}
