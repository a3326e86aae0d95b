//! A heap of flows, ordered by key and then by flow number, lowest first. A parent has four
//! children, which are adjacent in memory, so the heap is half as deep as a binary heap.

use alloc::vec::Vec;

/// Key and flow in one number, so that a comparison takes no branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry(u128);

impl Entry {
    #[inline]
    pub(crate) fn new(key: u64, flow: u32) -> Entry {
        Entry(u128::from(key) << 64 | u128::from(flow))
    }

    #[inline]
    pub(crate) fn key(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline]
    pub(crate) fn flow(self) -> u32 {
        self.0 as u32
    }

    /// Returns true if this entry comes before the other. The comparison uses the sign of the
    /// difference, because virtual times wrap around.
    #[inline]
    pub(crate) fn before(self, other: Entry) -> bool {
        (self.0.wrapping_sub(other.0) as i128) < 0
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Heap(Vec<Entry>);

impl Heap {
    /// A heap with room for this number of flows, so that no memory is allocated later.
    pub(crate) fn new(flows: usize) -> Heap {
        Heap(Vec::with_capacity(flows))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.first_entry().map(|e| (e.key(), e.flow()))
    }

    #[inline]
    pub(crate) fn first_entry(&self) -> Option<Entry> {
        self.0.first().copied()
    }

    #[inline]
    pub(crate) fn push(&mut self, key: u64, flow: u32) {
        self.0.push(Entry::new(key, flow));
        self.rise(self.0.len() - 1);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let first = *self.0.first()?;
        self.remove_at(0);
        Some((first.key(), first.flow()))
    }

    /// Returns true if the keys of the first entry and of its four children are before `limit`.
    #[inline]
    pub(crate) fn has_five_before(&self, limit: u64) -> bool {
        let limit = Entry::new(limit, 0);
        self.0.first_chunk::<5>().is_some_and(|five| five.iter().all(|entry| entry.before(limit)))
    }

    /// Returns true if more than a sixteenth of all entries are before `limit`. Examines only the
    /// first entry and the children of entries that are before `limit`.
    #[cold]
    pub(crate) fn has_many_before(&self, limit: u64) -> bool {
        let limit = Entry::new(limit, 0);
        // For each level of the heap, the siblings of a group of four that are not examined yet.
        // There are enough levels for 2^32 flows.
        let mut unseen = [const { 0..0 }; 18];
        unseen[0] = 0..self.0.len().min(1);
        let (mut level, mut found) = (0, 0);
        loop {
            match unseen[level].next() {
                Some(at) if self.0[at].before(limit) => {
                    found += 1;
                    if found > self.0.len() / 16 {
                        return true;
                    }
                    level += 1;
                    unseen[level] = (4 * at + 1).min(self.0.len())..(4 * at + 5).min(self.0.len());
                }
                Some(_) => {}
                None if level == 0 => return false,
                None => level -= 1,
            }
        }
    }

    /// Removes all entries before `limit`, and calls `each` with their flows, in no particular
    /// order. Examines all entries.
    pub(crate) fn drain_before(&mut self, limit: u64, mut each: impl FnMut(u32)) {
        let limit = Entry::new(limit, 0);
        self.0.retain(|entry| {
            let before = entry.before(limit);
            if before {
                each(entry.flow());
            }
            !before
        });
        // The last parent comes first, so that the entries below each parent already form a heap.
        for at in (0..self.0.len().saturating_sub(1).div_ceil(4)).rev() {
            self.sink(at, self.0[at]);
        }
    }

    /// Gives the first entry another key, which must not be lower than its present key.
    #[inline]
    pub(crate) fn postpone_first(&mut self, key: u64) {
        if let Some(first) = self.0.first() {
            self.sink(0, Entry::new(key, first.flow()));
        }
    }

    /// Puts `entry` at this position, or further down if entries below the position come before it.
    #[inline]
    fn sink(&mut self, mut at: usize, entry: Entry) {
        let entries = &mut self.0[..];
        while let Some((best, n)) = best_below(entries, at) {
            if !best.before(entry) {
                break;
            }
            entries[at] = best;
            at = n;
        }
        entries[at] = entry;
    }

    /// Removes `flow` from any position, and returns true if the heap contained it. Examines all
    /// entries.
    pub(crate) fn remove(&mut self, flow: u32) -> bool {
        let at = self.0.iter().position(|e| e.flow() == flow);
        if let Some(at) = at {
            self.remove_at(at);
        }
        at.is_some()
    }

    #[inline]
    fn remove_at(&mut self, mut at: usize) {
        let Some(last) = self.0.pop() else { return };
        if at == self.0.len() {
            return;
        }
        // The last entry fills the gap. As it usually belongs near the bottom, the gap first sinks
        // to the bottom without comparisons with this entry, and then the entry rises from there.
        let entries = &mut self.0[..];
        while let Some((best, n)) = best_below(entries, at) {
            entries[at] = best;
            at = n;
        }
        entries[at] = last;
        self.rise(at);
    }

    #[inline]
    fn rise(&mut self, mut at: usize) {
        let entry = self.0[at];
        while at > 0 {
            let parent = (at - 1) / 4;
            if !entry.before(self.0[parent]) {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = entry;
    }
}

/// The smallest child of the entry at a position, and the child's position. The choice among four
/// takes no branch.
#[inline(always)]
fn best_below(entries: &[Entry], at: usize) -> Option<(Entry, usize)> {
    let child = 4 * at + 1;
    let Some(&[a, b, c, d]) = entries.get(child..child + 4) else {
        // The last parent may have fewer than four children.
        let few = entries.get(child..)?.iter().zip(child..).map(|(&entry, n)| (entry, n));
        return few.reduce(|best, some| if some.0.before(best.0) { some } else { best });
    };
    let (left, l) = if b.before(a) { (b, 1) } else { (a, 0) };
    let (right, r) = if d.before(c) { (d, 3) } else { (c, 2) };
    let (best, n) = if right.before(left) { (right, r) } else { (left, l) };
    Some((best, child + n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_in_order_around_the_end_of_the_clock_too() {
        let mut heap = Heap::new(8);
        let mut model: Vec<(i64, u32)> = Vec::new();
        let mut random = 1u64;
        for step in 0..20_000u32 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) as i64 % 50 - 25;
            if random >> 60 < 9 {
                heap.push(key as u64, step);
                model.push((key, step));
            } else if random >> 60 < 10 {
                let first = model.iter().copied().min();
                heap.postpone_first((key.max(first.map_or(0, |(key, _)| key))) as u64);
                if let Some(entry) = model.iter_mut().find(|e| Some(**e) == first) {
                    entry.0 = entry.0.max(key);
                }
            } else if random >> 56 == 0xa0 {
                let before = model.iter().filter(|(other, _)| *other < key).count();
                assert!(before >= 5 || !heap.has_five_before(key as u64), "{before} of them");
                assert_eq!(heap.has_many_before(key as u64), before > model.len() / 16);
                let mut drained = Vec::new();
                heap.drain_before(key as u64, |flow| drained.push(flow));
                drained.sort_unstable();
                let gone: Vec<u32> =
                    model.extract_if(.., |(other, _)| *other < key).map(|(_, flow)| flow).collect();
                assert_eq!(drained, {
                    let mut gone = gone;
                    gone.sort_unstable();
                    gone
                });
            } else if random >> 60 < 11 && !model.is_empty() {
                let (_, flow) = model.swap_remove((random >> 20) as usize % model.len());
                assert!(heap.remove(flow) && !heap.remove(flow));
            } else {
                let first = model.iter().copied().min();
                assert_eq!(heap.pop(), first.map(|(key, flow)| (key as u64, flow)));
                model.retain(|&e| Some(e) != first);
            }
        }
    }
}
