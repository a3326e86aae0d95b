//! Flows in the order of their tags: a binary heap that knows where each flow
//! stands, so that a flow's tag may change or go. Equal tags: the lowest flow
//! first. O(log N) for each change; nothing is allocated once every flow was in.
//!
//! WF2Q+ has [another one](crate::quad_heap): its tags are 64 bits that wrap around,
//! which with the flow make one number to compare, and hardly any but the first is taken out. So it
//! needs no places, and every move of an entry costs a store less. The tags here are
//! 128 bits long already, and change wherever their flow stands.

use crate::queue::FlowId;
use alloc::vec;
use alloc::vec::Vec;

const OUT: u32 = u32::MAX;

/// Flows, each with a tag of type `K`, the smallest first.
#[derive(Debug, Clone)]
pub(crate) struct Heap<K> {
    entries: Vec<(K, u32)>,
    /// Where each flow stands in `entries`, or `OUT`.
    places: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    /// Nobody in it, and room for so many flows.
    pub(crate) fn new(flows: usize) -> Heap<K> {
        Heap { entries: Vec::with_capacity(flows), places: vec![OUT; flows] }
    }

    /// Room for so many flows, if that is more.
    pub(crate) fn grow(&mut self, flows: usize) {
        if flows > self.places.len() {
            self.places.resize(flows, OUT);
            self.entries.reserve(flows - self.entries.len());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The smallest tag and its flow.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, FlowId)> {
        self.entries.first().map(|&(key, f)| (key, FlowId(f)))
    }

    /// Have several flows the smallest tag?
    pub(crate) fn is_tied(&self) -> bool {
        let mut below_first = self.entries.iter().skip(1).take(2);
        self.entries.first().is_some_and(|first| below_first.any(|other| other.0 == first.0))
    }

    /// The tag of `f`, if it is in.
    #[inline]
    pub(crate) fn tag(&self, f: FlowId) -> Option<K> {
        match self.places[f.index()] {
            OUT => None,
            place => Some(self.entries[place as usize].0),
        }
    }

    /// Gives `f` this tag, whether it was in or not.
    #[inline]
    pub(crate) fn set(&mut self, f: FlowId, tag: K) {
        match self.places[f.index()] {
            OUT => {
                self.entries.push((tag, f.0));
                self.up(self.entries.len() - 1);
            }
            place => {
                let place = place as usize;
                self.entries[place].0 = tag;
                self.settle(place);
            }
        }
    }

    /// Takes `f` out, if it is in.
    #[inline]
    pub(crate) fn remove(&mut self, f: FlowId) {
        let place = core::mem::replace(&mut self.places[f.index()], OUT);
        if place == OUT {
            return;
        }
        let place = place as usize;
        self.entries.swap_remove(place);
        if place < self.entries.len() {
            self.settle(place);
        }
    }

    fn settle(&mut self, place: usize) {
        if place > 0 && self.entries[place] < self.entries[(place - 1) / 2] {
            self.up(place);
        } else {
            self.down(place);
        }
    }

    fn up(&mut self, mut place: usize) {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn down(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len() && self.entries[child + 1] < self.entries[child] {
                child += 1;
            }
            if entry <= self.entries[child] {
                break;
            }
            self.put(place, self.entries[child]);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: (K, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Against an ordered set, through random changes.
    #[test]
    fn the_first_is_the_smallest_tag_of_the_lowest_flow() {
        let mut heap = Heap::new(5);
        heap.grow(20);
        let (mut set, mut tags) = (BTreeSet::new(), [None; 20]);
        let mut dice = 1u64;
        let mut roll = |n: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % n
        };
        for _ in 0..100_000 {
            let f = roll(20) as usize;
            let tag = (roll(3) > 0).then(|| roll(15));
            if let Some(old) = core::mem::replace(&mut tags[f], tag) {
                set.remove(&(old, f as u32));
            }
            match tag {
                Some(tag) => {
                    set.insert((tag, f as u32));
                    heap.set(FlowId(f as u32), tag);
                }
                None => heap.remove(FlowId(f as u32)),
            }
            assert_eq!(heap.first(), set.first().map(|&(tag, f)| (tag, FlowId(f))));
            assert_eq!((heap.tag(FlowId(f as u32)), heap.is_empty()), (tag, set.is_empty()));
        }
    }
}
