//! The places of ids, by the hash of the id. A place is the number of a queue or link that a mask
//! creates.

use hashbrown::HashTable;

/// Places of ids in tables of a few hundred each. A single table would be rehashed whenever it is
/// full, or full of tombstones: one packet would wait for the rehash of a million ids. Here it
/// waits for one table.
pub(super) struct PlaceLookup {
    /// The number of tables is a power of two.
    tables: Vec<HashTable<u32>>,
}

impl PlaceLookup {
    /// Largest average number of places in a table when all are taken.
    const TOGETHER: u32 = 512;

    /// Tables for `most` places at most.
    pub(super) fn new(most: u32) -> PlaceLookup {
        let number = most.div_ceil(Self::TOGETHER).next_power_of_two();
        PlaceLookup { tables: (0..number).map(|_| HashTable::new()).collect() }
    }

    /// The index of the table for a hash, from middle bits: the table itself uses the lowest and
    /// the highest bits.
    #[inline]
    fn table(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.tables.len() - 1)
    }

    /// The place with this hash for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.tables[self.table(hash)].find(hash, |&place| is(place)).copied()
    }

    /// Adds a place that is not in its table. `hash_of` returns the hash of a place that is in it.
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
