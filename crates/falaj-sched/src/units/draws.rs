//! Random numbers as a keyed hash of their index: the same seed gives the same draws.

/// The finaliser of SplitMix64 (Stafford's variant 13): a bijection in which each output bit
/// depends on each input bit.
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A stream of random numbers, for a queue, a flow, or a whole discipline. A copy continues
/// independently, from the position of the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    key: u64,
    index: u64,
}

impl Draws {
    /// Creates the stream of `element` under `seed`. Elements under the same seed have independent
    /// streams.
    pub const fn new(seed: u64, element: u64) -> Draws {
        Draws { key: mix(mix(seed) ^ element), index: 0 }
    }
    /// Returns the next number: uniform over all of `u64`.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.index += 1;
        mix(mix(self.index.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(self.key)) ^ self.key)
    }
}
