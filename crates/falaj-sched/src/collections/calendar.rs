//! A calendar: stores for each of a fixed number of entries the instant at which the entry is due,
//! and finds the earliest entry; at equal instants the entry with the lower index. The engine has a
//! calendar for its pipes, and the simulator for its sources. Disciplines have one for flows whose
//! instants change with almost every packet.
//!
//! It is a tournament tree: each inner node holds the earlier of the two entries below it. A change
//! repeats the comparisons (games) from the changed leaf to the root. The number of games is the
//! depth of the tree. No branch depends on the winner, whereas in a heap random instants would
//! cause a branch misprediction at every step. The nodes on the path are known beforehand, so with
//! many entries the processor reads several nodes in parallel.

use crate::units::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// Later than any due time, but not the latest value: a comparison that adds one to it does not
/// overflow.
const LATEST: Time = Time(u64::MAX - 1);

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The instant at which the entry is due. It is at most [`LATEST`], which means never.
    due: Time,
    thing: u64,
}

/// The due times of `n` entries.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// Node `i` has the nodes `2 i` and `2 i + 1` below it; the second half are leaves.
    nodes: Vec<Entry>,
}

impl Calendar {
    /// A calendar of `n` entries, none of them due.
    pub fn new(n: usize) -> Calendar {
        let leaves = n.next_power_of_two();
        let mut nodes = vec![Entry { due: LATEST, thing: 0 }; 2 * leaves];
        for (thing, leaf) in nodes[leaves..].iter_mut().enumerate() {
            leaf.thing = thing as u64;
        }
        Calendar { nodes }
    }

    /// The earliest entry and its due time; `None` if no entry is ever due.
    #[inline]
    pub fn first(&self) -> Option<(usize, Time)> {
        let first = self.nodes[1];
        (first.due < LATEST).then_some((first.thing as usize, first.due))
    }

    /// Makes room for `n` entries; new entries are not due. The size at least doubles, so each
    /// added entry takes constant time on average.
    pub fn grow(&mut self, n: usize) {
        let leaves = self.nodes.len() / 2;
        if n <= leaves {
            return;
        }
        let mut more = Calendar::new(n.max(2 * leaves));
        (0..leaves).for_each(|i| more.set(i, self.nodes[leaves + i].due));
        *self = more;
    }

    /// The least `value` of the entries with a due time. Each entry's value must be later than its
    /// due time by at least `floor`. Only entries that may have the least value are evaluated;
    /// there are few of them if all values are later than the due times by about the same span.
    pub fn least(&self, floor: Span, value: impl Fn(usize) -> Time) -> Time {
        self.least_below(1, floor, Time::NEVER, &value)
    }

    fn least_below(
        &self,
        node: usize,
        floor: Span,
        best: Time,
        value: &impl Fn(usize) -> Time,
    ) -> Time {
        let Entry { due, thing } = self.nodes[node];
        if due == LATEST || due.0.saturating_add(floor.0) >= best.0 {
            return best;
        }
        if node >= self.nodes.len() / 2 {
            return best.min(value(thing as usize));
        }
        // The earlier child comes first: its value usually makes the other child unnecessary.
        let first = 2 * node + usize::from(self.nodes[2 * node].due > self.nodes[2 * node + 1].due);
        let best = self.least_below(first, floor, best, value);
        self.least_below(first ^ 1, floor, best, value)
    }

    /// The due time of entry `i`.
    pub fn due(&self, i: usize) -> Time {
        let due = self.nodes[self.nodes.len() / 2 + i].due;
        if due < LATEST { due } else { Time::NEVER }
    }

    /// Removes the due time of entry `i`, which is then not due.
    #[inline]
    pub fn clear(&mut self, i: usize) {
        self.set(i, Time::NEVER);
    }

    /// Sets the due time of entry `i`.
    #[inline]
    pub fn set(&mut self, i: usize, due: Time) {
        let mut node = self.nodes.len() / 2 + i;
        let due = due.min(LATEST);
        if self.nodes[node].due == due {
            return;
        }
        let mut winner = Entry { due, thing: i as u64 };
        self.nodes[node] = winner;
        // The winner so far stays in registers, so that values just written are not read again.
        while node > 1 {
            let other = self.nodes[node ^ 1];
            // At equal instants the left entry wins. The comparison uses 64 bits, because the
            // compiler turns a wider comparison into a branch. The sum does not overflow.
            let wins = other.due.0 < winner.due.0.wrapping_add((node & 1) as u64);
            winner.due = select_unpredictable(wins, other.due, winner.due);
            winner.thing = select_unpredictable(wins, other.thing, winner.thing);
            node /= 2;
            self.nodes[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_least() {
        let mut random = 1u64;
        let mut below = |most: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % most
        };
        for _ in 0..200 {
            let mut calendar = Calendar::new(9);
            let mut plain = [Time::NEVER; 9];
            for _ in 0..=below(200) {
                let i = below(9) as usize;
                let due = Some(Time(below(20))).filter(|_| below(2) == 0).unwrap_or(Time::NEVER);
                calendar.set(i, due);
                plain[i] = due;
                let least = (0..9).min_by_key(|&i| (plain[i], i)).map(|i| (i, plain[i]));
                assert_eq!(calendar.first(), least.filter(|l| l.1 != Time::NEVER));
                // Each value is 5 ns later than the due time, or 9 ns for odd indices.
                let value = |i: usize| Time(plain[i].0.saturating_add(5 + 4 * (i as u64 % 2)));
                let least = (0..9)
                    .filter(|&i| plain[i] != Time::NEVER)
                    .map(value)
                    .min()
                    .unwrap_or(Time::NEVER);
                assert_eq!(calendar.least(Span(5), value), least);
                if i == 7 {
                    calendar.grow(17);
                }
            }
        }
    }
}
