//! A set of levels. Its first member is found in a few steps for any number of levels: 64 levels
//! share a word, and 64 words share a word of the tier above.

use alloc::vec;
use alloc::vec::Vec;

/// A set of levels, numbered from 0 up to a fixed number.
#[derive(Debug, Clone)]
pub(crate) struct LevelSet {
    /// The highest tier, a single word. If there are at most 64 levels, there is no other tier.
    top: u64,
    /// The lower tiers; the first is the levels themselves.
    tiers: Vec<Vec<u64>>,
}

impl LevelSet {
    pub(crate) fn new(levels: usize) -> LevelSet {
        let mut tiers = Vec::new();
        let mut words = levels.div_ceil(64);
        while words > 1 {
            tiers.push(vec![0; words]);
            words = words.div_ceil(64);
        }
        LevelSet { top: 0, tiers }
    }

    #[inline]
    pub(crate) fn insert(&mut self, mut n: usize) {
        for tier in &mut self.tiers {
            tier[n / 64] |= 1 << (n % 64);
            n /= 64;
        }
        self.top |= 1 << n;
    }

    #[inline]
    pub(crate) fn remove(&mut self, mut n: usize) {
        for tier in &mut self.tiers {
            tier[n / 64] &= !(1 << (n % 64));
            if tier[n / 64] != 0 {
                return;
            }
            n /= 64;
        }
        self.top &= !(1 << n);
    }

    /// The lowest member.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        if self.top == 0 {
            return None;
        }
        let top = self.top.trailing_zeros() as usize;
        Some(
            self.tiers.iter().rev().fold(top, |n, tier| n * 64 + tier[n].trailing_zeros() as usize),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn the_first_member_is_that_of_an_ordered_set() {
        for levels in [1, 31, 32, 33, 64, 65, 4096, 4097, 70_000] {
            let (mut ours, mut plain) = (LevelSet::new(levels), BTreeSet::new());
            let mut x = levels as u64;
            for _ in 0..3_000 {
                x = x
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let n = (x >> 33) as usize % levels;
                // In some rounds only the last words are in use.
                let n = if x & (1 << 20) == 0 { n } else { levels - 1 - n % levels.min(3) };
                if x & (3 << 30) == 0 {
                    ours.insert(n);
                    plain.insert(n);
                } else {
                    ours.remove(n);
                    plain.remove(&n);
                }
                assert_eq!(ours.first(), plain.first().copied(), "{levels}");
            }
        }
    }
}
