//! A calendar: for each of a fixed number of things the instant at which it is
//! due, and which comes first. A binary heap whose entries can be moved; at
//! equal instants the thing of lower index comes first. The engine has one for
//! its pipes, the simulator one for its sources.

use falaj_sched::time::Time;

/// When each of `n` things is due.
#[derive(Debug, Clone)]
pub struct Calendar {
    due: Vec<Time>,
    heap: Vec<u32>,
    place: Vec<u32>,
}

impl Calendar {
    /// `n` entries, none of them due.
    pub fn new(n: usize) -> Calendar {
        let all: Vec<u32> = (0..n as u32).collect();
        Calendar { due: vec![Time::NEVER; n], heap: all.clone(), place: all }
    }

    /// The entry that comes first, and when.
    #[inline]
    pub fn first(&self) -> Option<(usize, Time)> {
        let &i = self.heap.first()?;
        Some((i as usize, self.due[i as usize]))
    }

    /// Moves entry `i` to `due`.
    #[inline]
    pub fn set(&mut self, i: usize, due: Time) {
        if self.due[i] == due {
            return;
        }
        self.due[i] = due;
        let place = self.place[i] as usize;
        if !self.rise(place) {
            self.sink(place);
        }
    }

    fn key(&self, place: usize) -> (Time, u32) {
        let i = self.heap[place];
        (self.due[i as usize], i)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }

    fn rise(&mut self, mut place: usize) -> bool {
        let mut moved = false;
        while place > 0 && self.key(place) < self.key((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
            moved = true;
        }
        moved
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2];
            let Some(least) = below.into_iter().filter(|&p| p < self.heap.len()).min_by_key(|&p| self.key(p)) else {
                return;
            };
            if self.key(least) >= self.key(place) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least(moves in prop::collection::vec((0usize..9, 0u64..20), 1..200)) {
            let mut calendar = Calendar::new(9);
            let mut plain = [Time::NEVER; 9];
            for (i, due) in moves {
                calendar.set(i, Time(due));
                plain[i] = Time(due);
                let least = (0..9).min_by_key(|&i| (plain[i], i)).map(|i| (i, plain[i]));
                prop_assert_eq!(calendar.first(), least);
            }
        }
    }
}
