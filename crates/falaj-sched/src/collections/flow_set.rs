//! A set of flows as a bitmap. A search examines a word of 64 flows at a time.

use crate::queues::queue::FlowId;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowSet {
    words: Vec<u64>,
}

impl FlowSet {
    pub(crate) fn new(flows: usize) -> FlowSet {
        FlowSet { words: vec![0; flows.div_ceil(64).max(1)] }
    }

    #[inline]
    pub(crate) fn insert(&mut self, f: usize) {
        self.words[f / 64] |= 1 << (f % 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, f: usize) {
        self.words[f / 64] &= !(1 << (f % 64));
    }

    #[inline]
    pub(crate) fn contains(&self, f: usize) -> bool {
        self.words[f / 64] & (1 << (f % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    pub(crate) fn count_common(&self, other: &FlowSet) -> u64 {
        self.words.iter().zip(&other.words).map(|(a, b)| u64::from((a & b).count_ones())).sum()
    }

    pub(crate) fn intersects(&self, other: &FlowSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    i * 64 + bit as usize
                })
            })
        })
    }

    /// The first common member of both sets in `from..to`.
    #[inline]
    pub(crate) fn first_common(&self, other: &FlowSet, from: usize, to: usize) -> Option<FlowId> {
        if from >= to {
            return None;
        }
        let mut i = from / 64;
        let mut mask = u64::MAX << (from % 64);
        loop {
            let word = self.words[i] & other.words[i] & mask;
            if word != 0 {
                let f = i * 64 + word.trailing_zeros() as usize;
                return (f < to).then_some(FlowId(f as u32));
            }
            i += 1;
            mask = u64::MAX;
            if i * 64 >= to {
                return None;
            }
        }
    }

    /// Removes the members in `from..to` that are in `of` and not in `but`.
    #[inline]
    pub(crate) fn remove_range(&mut self, of: &FlowSet, but: &FlowSet, from: usize, to: usize) {
        if from >= to {
            return;
        }
        for i in from / 64..=(to - 1) / 64 {
            let mut mask = u64::MAX;
            if i == from / 64 {
                mask &= u64::MAX << (from % 64);
            }
            if i == to / 64 {
                mask &= (1 << (to % 64)) - 1;
            }
            self.words[i] &= !(of.words[i] & !but.words[i] & mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_searches_agree_with_plain_loops() {
        let n = 150;
        let (mut a, mut b, mut c) = (FlowSet::new(n), FlowSet::new(n), FlowSet::new(n));
        for f in 0..n {
            if f % 3 == 0 {
                a.insert(f);
            }
            if f % 5 == 0 {
                b.insert(f);
            }
            if f % 2 == 0 {
                c.insert(f);
            }
        }
        for from in 0..n {
            for to in 0..=n {
                let plain = (from..to).find(|&f| a.contains(f) && b.contains(f));
                assert_eq!(a.first_common(&b, from, to).map(|f| f.index()), plain);
                let mut cut = a.clone();
                cut.remove_range(&b, &c, from, to);
                for f in 0..n {
                    let gone = (from..to).contains(&f) && b.contains(f) && !c.contains(f);
                    assert_eq!(cut.contains(f), a.contains(f) && !gone, "{from}..{to}, {f}");
                }
            }
        }
        assert_eq!(a.iter().count() as u64, a.count_common(&a));
    }
}
