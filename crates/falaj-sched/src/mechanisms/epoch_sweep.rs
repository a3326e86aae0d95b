//! When to look whether a flow fell silent long ago.
//!
//! A silent flow keeps the number of the lap in which it fell silent, in 32 bits. Before so many
//! laps have gone by that the number comes around, whoever is silent from a lap that is over has to
//! be told so: a few flows once in a while, all of them in 2^30 laps.

use core::ops::Range;

/// After so many laps some flows are looked at, and after so many times that all.
const LAPS: u64 = 1 << 16;
const LOOKS: u64 = 1 << 14;

/// How far it has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looks {
    /// Until when, in so many laps.
    at: u64,
    /// The flow that is next.
    next: usize,
}

impl Looks {
    /// Of so many flows those to be looked at now, in this lap; none most of the time.
    #[inline]
    pub(crate) fn due(&mut self, lap: u64, flows: usize) -> Range<usize> {
        if lap / LAPS == self.at { 0..0 } else { self.look(lap, flows) }
    }

    #[cold]
    fn look(&mut self, lap: u64, flows: usize) -> Range<usize> {
        let looks = (lap / LAPS).wrapping_sub(self.at);
        self.at = lap / LAPS;
        if looks >= LOOKS {
            return 0..flows;
        }
        let from = if self.next < flows { self.next } else { 0 };
        self.next = flows.min(from + looks as usize * (flows / LOOKS as usize + 1));
        from..self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn nobody_is_looked_at_later_than_after_half_of_the_numbers() {
        for flows in [1, 7, 16_383, 16_384, 16_385, 100_000] {
            for step in [LAPS / 2, LAPS, 5 * LAPS, LAPS * LOOKS / 3, 3 * LAPS * LOOKS] {
                let (mut looks, mut lap) = (Looks::default(), 0);
                let mut seen = vec![0; flows];
                while lap < 3 * LAPS * LOOKS {
                    lap += step;
                    for flow in looks.due(lap, flows) {
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
