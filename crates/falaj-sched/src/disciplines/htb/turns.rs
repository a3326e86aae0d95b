//! Turns among equal classes at each priority, in the order of virtual start times.

use crate::collections::quad_heap::Heap;
use crate::mechanisms::weights::{Instant, instant, rescaled};
use crate::units::time::Time;

/// Virtual start times have units of 2^-40 ns; keys are start times without the last 20 bits.
const KEY: u32 = 20;
/// A virtual start time is at most an hour ahead, so that keys can be compared although they wrap
/// around.
const FAR: Instant = instant(Time(3_600_000_000_000));
pub(super) const PRIORITIES: usize = 8;

/// Classes that take turns, at each priority.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    pub(super) orders: [Heap; PRIORITIES],
    /// The last virtual start time, by priority.
    pub(super) now: [Instant; PRIORITIES],
    /// The priorities whose order may have entries.
    pub(super) some: u8,
}

/// The priorities of a set, in the order of service.
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

    /// Advances the virtual start time `turn` by this work.
    #[inline]
    pub(super) fn go(&mut self, prio: usize, turn: &mut Instant, work: Instant) {
        let now = &mut self.now[prio];
        *now = (*now).max(*turn);
        *turn = (*now).saturating_add(work).min(*now + FAR);
    }

    /// The virtual start time of a class, taken over from the turns `was`, in which it may have had
    /// another priority or rate. The number of bytes by which it is ahead stays the same.
    pub(super) fn inherit(
        &self,
        turn: Instant,
        (before, was): (usize, &Turns),
        (prio, from, to): (usize, Instant, Instant),
    ) -> Instant {
        self.now[prio] + rescaled(turn.saturating_sub(was.now[before]), from, to).min(FAR)
    }
}
