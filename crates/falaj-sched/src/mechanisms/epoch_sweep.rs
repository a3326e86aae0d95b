//! A sweep that finds flows that fell silent (became empty) long ago.
//!
//! A lap is a quarter of the range of virtual time. A silent flow stores the number of the lap in
//! which it fell silent, in 32 bits. Before that number wraps around, every flow that has been
//! silent since an expired lap is marked as expired: a few flows at a time, all of them within 2^30
//! laps.

use core::ops::Range;

/// A part of the flows is examined once in this number of laps, and all flows in [`PARTS`] times
/// this number.
const LAPS: u64 = 1 << 16;
const PARTS: u64 = 1 << 14;

/// Progress of the sweep.
#[derive(Debug, Clone, Default)]
pub(crate) struct EpochSweep {
    /// Lap of the last examination, in units of [`LAPS`].
    at: u64,
    /// The next flow to examine.
    next: usize,
}

impl EpochSweep {
    /// Returns the flows to examine now, in this lap; usually none.
    #[inline]
    pub(crate) fn due(&mut self, lap: u64, flows: usize) -> Range<usize> {
        if lap / LAPS == self.at { 0..0 } else { self.advance(lap, flows) }
    }

    #[cold]
    fn advance(&mut self, lap: u64, flows: usize) -> Range<usize> {
        let steps = (lap / LAPS).wrapping_sub(self.at);
        self.at = lap / LAPS;
        if steps >= PARTS {
            return 0..flows;
        }
        let from = if self.next < flows { self.next } else { 0 };
        self.next = flows.min(from + steps as usize * (flows / PARTS as usize + 1));
        from..self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_flow_is_examined_within_half_of_the_numbers() {
        for flows in [1, 7, 16_383, 16_384, 16_385, 100_000] {
            for step in [LAPS / 2, LAPS, 5 * LAPS, LAPS * PARTS / 3, 3 * LAPS * PARTS] {
                let (mut sweep, mut lap) = (EpochSweep::default(), 0);
                let mut seen = vec![0; flows];
                while lap < 3 * LAPS * PARTS {
                    lap += step;
                    for flow in sweep.due(lap, flows) {
                        assert!(
                            lap - seen[flow] < 1 << 31 || step > 1 << 30,
                            "{flows}, {step}: {flow} in {lap}"
                        );
                        seen[flow] = lap;
                    }
                }
                assert!(seen.iter().all(|seen| lap - seen < 1 << 31), "{flows}, {step}");
            }
        }
    }
}
