//! Memory for units in transit, identified by a handle.

/// Memory for units. A unit is read into a buffer that is large enough for any unit. A short unit
/// is then copied to memory of about its own length, so that a long link full of short packets does
/// not waste memory; for a longer unit the buffer itself is kept. Freed memory is kept for the next
/// unit of about that length, up to [`SPARE`] buffers of each length, so that a steady load hardly
/// uses the allocator.
pub(crate) struct UnitPool {
    size: usize,
    /// The buffer to read into; empty if the last unit's buffer was kept.
    reading: Box<[u8]>,
    units: Vec<PooledUnit>,
    free: Vec<u32>,
    /// Buffers that were used before, so that their pages are mapped: one list for each length of
    /// short units, and the last list for buffers that are large enough for any unit.
    spare: [Vec<Box<[u8]>>; LENGTHS + 1],
    /// Number of bytes that are available, including the bytes of spare buffers.
    memory: usize,
    /// Number of bytes in spare buffers.
    spared: usize,
    /// Number of bytes that each owner's units take.
    held: Vec<usize>,
}

struct PooledUnit {
    memory: Box<[u8]>,
    length: u32,
    /// Bytes for the records of all its packets except the first, whose record is part of
    /// [`BESIDE`].
    records: usize,
    owner: MemoryOwner,
}

/// An owner of memory: a port, or one of several adapters behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryOwner {
    /// All units that enter at this port.
    Port(u16),
    /// The units of one adapter of several behind a port, by its number.
    Adapter(u16),
}

impl MemoryOwner {
    #[inline]
    fn place(self) -> usize {
        match self {
            MemoryOwner::Port(n) => 2 * usize::from(n),
            MemoryOwner::Adapter(n) => 2 * usize::from(n) + 1,
        }
    }
}

/// An owner may hold this multiple of the memory that is still available (dynamic thresholds,
/// Choudhury and Hahne 1998). So a single owner gets at most eight ninths of the memory, and with
/// any number of owners some memory is left for another.
const OF_WHAT_IS_LEFT: usize = 8;

/// Limit in bytes: units up to this length are copied, if buffers are longer than this.
const SHORT: usize = 16 << 10;
/// Bytes for a packet in addition to its bytes in the unit: its records here, in a queue and in the
/// calendar of releases, where it may be a burst by itself. A unit of one-byte segments has
/// thousands of packets. The test `memory_ceiling` compares this and the next constant with the
/// memory that the kernel counts.
const RECORD: usize = 384;
/// Bytes of a unit in addition to its data: the record of its first packet, its own record, and the
/// overhead of the allocator.
const BESIDE: usize = RECORD + 128;
/// Maximum number of spare buffers of each length; further buffers go back to the allocator.
const SPARE: usize = 256;

/// The memory of a short unit is a multiple of this number of bytes; above [`FINE`] times this
/// number, it is a power of two.
const STEP: usize = 128;
const FINE: usize = 16;
/// Number of different lengths of short units' memory.
const LENGTHS: usize = FINE + (SHORT / STEP / FINE).ilog2() as usize;

/// Memory of a short unit of `length` bytes, and the index of that length.
#[inline]
fn roomy(length: usize) -> (usize, usize) {
    let steps = length.div_ceil(STEP).max(1);
    if steps <= FINE {
        return (steps * STEP, steps - 1);
    }
    let room = steps.next_power_of_two();
    (room * STEP, FINE - 1 + (room / FINE).ilog2() as usize)
}

impl UnitPool {
    /// A pool for units of `size` bytes at most, of `memory` bytes in all.
    pub(crate) fn new(size: usize, memory: usize) -> UnitPool {
        UnitPool {
            size,
            reading: Box::default(),
            units: Vec::new(),
            free: Vec::new(),
            spare: [const { Vec::new() }; LENGTHS + 1],
            memory,
            spared: 0,
            held: Vec::new(),
        }
    }

    /// Reserves memory for another purpose, up to all that is available.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.memory = self.memory.saturating_sub(bytes);
    }

    /// A spare buffer of one of the lengths.
    #[inline]
    fn spare(&mut self, which: usize) -> Option<Box<[u8]>> {
        let spare = self.spare[which].pop()?;
        self.spared -= spare.len();
        Some(spare)
    }

    /// The buffer to read a unit into: the buffer freed last, because it is still in the cache.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        if self.reading.is_empty() {
            self.reading = self.spare(LENGTHS).unwrap_or_else(|| vec![0; self.size].into());
        }
        &mut self.reading
    }

    /// Keeps the unit of `packets` packets that was just read; `None` if there is no memory for it,
    /// or its owner has reached its share.
    #[inline]
    pub(crate) fn keep(&mut self, length: usize, packets: u32, owner: MemoryOwner) -> Option<u32> {
        let size = self.size;
        let copied = length <= SHORT && size > SHORT;
        let (room, which) = if copied { roomy(length) } else { (size, LENGTHS) };
        let records = RECORD * (packets as usize).saturating_sub(1);
        let needed = BESIDE + room + records;
        let left = self.memory.checked_sub(needed)?;
        let place = owner.place();
        if self.held.len() <= place {
            self.held.resize(place + 1, 0);
        }
        let held = self.held[place] + needed;
        if held > left.saturating_mul(OF_WHAT_IS_LEFT) {
            return None;
        }
        (self.held[place], self.memory) = (held, left);
        let memory = if copied {
            let mut memory = self.spare(which).unwrap_or_else(|| vec![0; room].into());
            memory[..length].copy_from_slice(&self.reading[..length]);
            memory
        } else {
            std::mem::take(&mut self.reading)
        };
        if self.spared > left {
            // Spare buffers of other lengths occupy the memory, so they are freed.
            self.spare.iter_mut().for_each(Vec::clear);
            self.spared = 0;
        }
        let kept = PooledUnit { memory, length: length as u32, records, owner };
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

    /// The bytes of a unit that is kept.
    #[inline]
    pub(crate) fn unit(&self, handle: u32) -> &[u8] {
        let kept = &self.units[handle as usize];
        &kept.memory[..kept.length as usize]
    }

    /// The bytes of a unit that is kept, mutable.
    pub(crate) fn unit_mut(&mut self, handle: u32) -> &mut [u8] {
        let kept = &mut self.units[handle as usize];
        &mut kept.memory[..kept.length as usize]
    }

    /// The owner of a unit.
    pub(crate) fn owner(&self, handle: u32) -> MemoryOwner {
        self.units[handle as usize].owner
    }

    /// Frees the memory of a unit.
    #[inline]
    pub(crate) fn release(&mut self, handle: u32) {
        let PooledUnit { memory, owner, records, .. } = &mut self.units[handle as usize];
        let (memory, owner, records) = (std::mem::take(memory), *owner, *records);
        let needed = BESIDE + memory.len() + records;
        self.memory += needed;
        self.held[owner.place()] -= needed;
        self.free.push(handle);
        let which = if memory.len() == self.size { LENGTHS } else { roomy(memory.len()).1 };
        if self.spare[which].len() < SPARE && self.spared + memory.len() <= self.memory {
            self.spared += memory.len();
            self.spare[which].push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pool: &mut UnitPool, byte: u8, length: usize) -> Option<u32> {
        pool.buffer()[..length].fill(byte);
        pool.keep(length, 1, MemoryOwner::Port(0))
    }

    #[test]
    fn units_keep_their_bytes_and_memory_comes_back() {
        for size in [100, 65_536] {
            // A single owner may have eight ninths of the memory.
            let memory = 9 * (BESIDE + size);
            let mut pool = UnitPool::new(size, memory);
            for round in 0..3 {
                let handles: Vec<u32> = (0..8).map_while(|i| kept(&mut pool, i, size)).collect();
                assert_eq!(handles.len(), 8, "round {round}");
                assert_eq!(kept(&mut pool, 99, size), None);
                for (i, &handle) in handles.iter().enumerate() {
                    assert!(
                        pool.unit(handle).len() == size
                            && pool.unit(handle).iter().all(|&b| b == i as u8)
                    );
                    pool.release(handle);
                }
                assert_eq!(pool.memory, memory);
            }
        }
    }

    #[test]
    fn each_length_has_memory_of_its_own() {
        let mut rooms = Vec::new();
        for length in 0..=SHORT {
            let (room, which) = roomy(length);
            assert!(room >= length && room <= (2 * length).max(length + STEP), "{length}: {room}");
            assert_eq!(roomy(room), (room, which), "{length}");
            rooms.resize(rooms.len().max(which + 1), 0);
            assert!([0, room].contains(&rooms[which]), "{length}: {room}, and {}", rooms[which]);
            rooms[which] = room;
        }
        assert!(rooms.len() == LENGTHS && rooms.is_sorted(), "{rooms:?}");
    }

    #[test]
    fn short_units_take_little() {
        let mut pool = UnitPool::new(65_536, 1 << 20);
        let handles: Vec<u32> = (0..1000).map_while(|i| kept(&mut pool, i as u8, 60)).collect();
        assert_eq!(handles.len(), 1000);
        for (i, &handle) in handles.iter().enumerate() {
            assert_eq!(pool.unit(handle), [i as u8; 60]);
        }
    }

    #[test]
    fn records_of_packets_count() {
        let (size, packets) = (65_536, 60_000);
        let mut pool = UnitPool::new(size, 1 << 30);
        let mut kept = 0;
        let mut more = || {
            pool.buffer();
            pool.keep(size, packets, MemoryOwner::Port(0))
        };
        while more().is_some() {
            kept += 1;
        }
        let each = size + packets as usize * RECORD;
        assert!(kept * each <= 1 << 30 && kept > 0, "{kept} units of {each} bytes");
        (0..kept as u32).for_each(|handle| pool.release(handle));
        assert_eq!(pool.memory, 1 << 30);
    }

    #[test]
    fn an_owner_at_its_limit_leaves_memory_for_others() {
        const UNIT: usize = 1_000;
        let memory = 9_000 * (BESIDE + UNIT);
        let mut pool = UnitPool::new(UNIT, memory);
        let taken = |pool: &mut UnitPool, owner: MemoryOwner| -> Vec<u32> {
            std::iter::from_fn(|| {
                pool.buffer();
                pool.keep(UNIT, 1, owner)
            })
            .collect()
        };
        // The owners take their full shares in turn: eight ninths of the memory that earlier
        // owners have left. A port and the adapter of the same number are different owners.
        let owners = [MemoryOwner::Adapter(0), MemoryOwner::Port(0), MemoryOwner::Adapter(7)];
        let all: Vec<_> = owners.map(|owner| taken(&mut pool, owner)).into();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [8_000, 888, 99]);
        assert!(taken(&mut pool, owners[0]).is_empty());
        // When the first owner has freed its units, their memory is available to the others.
        all[0].iter().for_each(|&handle| pool.release(handle));
        assert_eq!(taken(&mut pool, owners[1]).len(), 7_024);
    }
}
