//! Turns among equal classes: virtual starts, at each priority.

use crate::collections::quad_heap::Heap;
use crate::mechanisms::weights::{Instant, instant, rescaled};
use crate::units::time::Time;

/// Turns are compared in 2^-20 ns.
const KEY: u32 = 20;
/// Turns are never further ahead than an hour, so that keys remain distinguishable.
const FAR: Instant = instant(Time(3_600_000_000_000));
pub(super) const PRIORITIES: usize = 8;

/// Classes that take turns, at each priority.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    pub(super) orders: [Heap; PRIORITIES],
    /// The last virtual start.
    pub(super) now: [Instant; PRIORITIES],
    /// The priorities whose order may have entries.
    pub(super) some: u8,
}

/// The priorities of a set, the best first.
pub(super) fn each(mut set: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        first
    })
}

pub(super) fn key(turn: Instant) -> u64 {
    (turn >> KEY) as u64
}

impl Turns {
    pub(super) fn new(classes: [usize; PRIORITIES]) -> Turns {
        Turns { orders: classes.map(Heap::new), now: [0; PRIORITIES], some: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, prio: usize, turn: Instant, class: u32) {
        self.orders[prio].push(key(turn), class);
        self.some |= 1 << prio;
    }

    #[inline]
    pub(super) fn pop(&mut self, prio: usize) {
        self.orders[prio].pop();
        if self.orders[prio].is_empty() {
            self.some &= !(1 << prio);
        }
    }

    /// Advances `turn` by this work.
    #[inline]
    pub(super) fn go(&mut self, prio: usize, turn: &mut Instant, work: Instant) {
        let now = &mut self.now[prio];
        *now = (*now).max(*turn);
        *turn = (*now).saturating_add(work).min(*now + FAR);
    }

    /// The virtual start of a class, taken over from earlier turns, where it may have had another
    /// priority or rate: its lead stays the same in bytes.
    pub(super) fn inherit(
        &self,
        turn: Instant,
        (before, was): (usize, &Turns),
        (prio, from, to): (usize, Instant, Instant),
    ) -> Instant {
        self.now[prio] + rescaled(turn.saturating_sub(was.now[before]), from, to).min(FAR)
    }
}
