//! The places of ids, by the hash of the id.

use hashbrown::HashTable;

/// Tables of some hundred places each. One table of all would be hashed anew whenever it is full,
/// or full of marks of removed places: one packet would pay for a million ids. Here it pays for one
/// table.
pub(super) struct PlaceLookup {
    /// Their number is a power of two.
    tables: Vec<HashTable<u32>>,
}

impl PlaceLookup {
    /// Places in a table, on average, where all are taken.
    const TOGETHER: u32 = 512;

    /// For `most` places at most.
    pub(super) fn new(most: u32) -> PlaceLookup {
        let number = most.div_ceil(Self::TOGETHER).next_power_of_two();
        PlaceLookup { tables: (0..number).map(|_| HashTable::new()).collect() }
    }

    /// The table of a hash. The table itself uses the lowest and the highest bits.
    #[inline]
    fn table(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.tables.len() - 1)
    }

    /// The place with this hash for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.tables[self.table(hash)].find(hash, |&place| is(place)).copied()
    }

    /// Adds a place that is not there yet. `hash_of` returns the hash of a place that is.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        let table = self.table(hash);
        self.tables[table].insert_unique(hash, place, |&place| hash_of(place));
    }

    /// Removes a place.
    pub(super) fn remove(&mut self, hash: u64, place: u32) {
        let table = self.table(hash);
        if let Ok(entry) = self.tables[table].find_entry(hash, |&taken| taken == place) {
            entry.remove();
        }
    }
}
