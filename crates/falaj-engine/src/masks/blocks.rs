//! A vector that grows without moving its contents, except those of its first block.

use std::ops::{Index, IndexMut};

/// Values in blocks of [`Blocks::BLOCK`] values. A long `Vec` is copied whole when it grows, which
/// delays the packet that makes it grow by milliseconds. Here a further value allocates one block
/// at most.
pub(super) struct Blocks<T> {
    blocks: Vec<Vec<T>>,
}

impl<T: Copy> Blocks<T> {
    /// Number of values in a block.
    const BLOCK: usize = 1024;

    pub(super) fn new() -> Blocks<T> {
        Blocks { blocks: Vec::new() }
    }

    /// `number` copies of `value`.
    pub(super) fn filled(value: T, number: usize) -> Blocks<T> {
        let mut blocks = Blocks::new();
        (0..number).for_each(|_| blocks.push(value));
        blocks
    }

    pub(super) fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::len);
        self.blocks.len().saturating_sub(1) * Self::BLOCK + last
    }

    #[inline]
    pub(super) fn push(&mut self, value: T) {
        match self.blocks.last_mut() {
            Some(last) if last.len() < Self::BLOCK => last.push(value),
            // A short list takes little memory: the first block begins with one value.
            None => self.blocks.push(vec![value]),
            Some(_) => {
                let mut block = Vec::with_capacity(Self::BLOCK);
                block.push(value);
                self.blocks.push(block);
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.blocks.get(at / Self::BLOCK)?.get(at % Self::BLOCK)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }
}

impl<T: Copy> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.blocks[at / Self::BLOCK][at % Self::BLOCK]
    }
}

impl<T: Copy> IndexMut<usize> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.blocks[at / Self::BLOCK][at % Self::BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_are() {
        let mut blocks = Blocks::filled(7_u32, 3);
        let first: *const u32 = &raw const blocks[0];
        (3..5_000).for_each(|n| blocks.push(n));
        assert_eq!((blocks.len(), blocks.iter().count()), (5_000, 5_000));
        assert!((3..5_000).all(|n| blocks[n as usize] == n) && blocks.get(5_000).is_none());
        blocks[4_999] = 1;
        assert_eq!(blocks.get(4_999), Some(&1));
        // All but the first block never move, and that one is small.
        let second: *const u32 = &raw const blocks[1_024];
        (0..100_000).for_each(|n| blocks.push(n));
        assert_eq!(second, &raw const blocks[1_024]);
        assert_eq!(blocks[0], 7, "at {first:?} once");
    }
}
