//! The groups of QFQ: flows (or aggregates) sorted by their rounded virtual start; flows with the
//! same rounding share a group of slots. A bit mask finds the slots that are not empty.
//!
//! The paper keeps four sets of groups, so that the group to serve is the first of one set. This
//! needs an order that holds only if virtual time never passes a finish. There are few groups, one
//! for each power of two between the lightest and the heaviest flow, and their starts are in one
//! array. So a scan of the busy groups is as fast, and it finds the right group without that
//! condition.

use crate::mechanisms::flow_tag::{CLASSES, Share, ahead, shift};
use crate::mechanisms::virtual_time::{NONE, SOON};

/// Number of slots. A flow starts at most two roundings after virtual time, and the first flow of
/// its group at most four roundings before virtual time.
const SLOTS: u32 = 16;

#[derive(Debug, Clone)]
pub(crate) struct Groups {
    busy: u64,
    /// Start of the first slot that is not empty.
    starts: [u64; CLASSES],
    /// Slots that are not empty, and the first flow of each.
    full: [u16; CLASSES],
    first: [[u32; SLOTS as usize]; CLASSES],
}

/// The choice among groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Serve the first flow of this group.
    Group(usize),
    /// No flow may be served before this virtual time.
    After(u64),
}

impl Groups {
    pub(crate) fn new() -> Groups {
        Groups {
            busy: 0,
            starts: [0; CLASSES],
            full: [0; CLASSES],
            first: [[NONE; SLOTS as usize]; CLASSES],
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Inserts `f`, whose state is `share`.
    #[inline]
    pub(crate) fn insert(&mut self, f: u32, share: &mut Share) {
        let group = usize::from(share.class());
        let shift = shift(share.class());
        let full = &mut self.full[group];
        let mut start = share.rounded_start();
        if self.busy & 1 << group == 0 {
            self.busy |= 1 << group;
            self.starts[group] = start;
        } else {
            let first = self.starts[group];
            let after = ahead(start, first);
            if after < 0 {
                // The slots from the flow's own to the last busy slot fit into the array, except
                // after a change of weights.
                let behind = full.rotate_right((first >> shift) as u32 % SLOTS);
                let last = SLOTS - 1 - behind.leading_zeros();
                if (after.unsigned_abs() >> shift) + u64::from(last) < u64::from(SLOTS) {
                    self.starts[group] = start;
                } else {
                    start = first;
                }
            } else if after >> shift >= i64::from(SLOTS) {
                start = first.wrapping_add(u64::from(SLOTS - 1) << shift);
            }
        }
        let slot = (start >> shift) as u32 % SLOTS;
        let bit = 1 << slot;
        let first = &mut self.first[group][slot as usize];
        share.set_next(if *full & bit == 0 { NONE } else { *first });
        *full |= bit;
        *first = f;
    }

    /// The first flow of a busy group.
    #[inline]
    pub(crate) fn first(&self, group: usize) -> u32 {
        let slot = (self.starts[group] >> shift(group as u8)) as u32 % SLOTS;
        self.first[group][slot as usize]
    }

    /// Removes the first flow of its group, whose state is `share`.
    #[inline]
    pub(crate) fn remove_first(&mut self, share: &Share) {
        let group = usize::from(share.class());
        let shift = shift(share.class());
        let slot = (self.starts[group] >> shift) as u32 % SLOTS;
        if share.next() != NONE {
            self.first[group][slot as usize] = share.next();
            return;
        }
        let full = &mut self.full[group];
        *full &= !(1 << slot);
        if *full == 0 {
            self.busy &= !(1 << group);
        } else {
            let empty = full.rotate_right(slot).trailing_zeros();
            self.starts[group] = self.starts[group].wrapping_add(u64::from(empty) << shift);
        }
    }

    /// Chooses among the groups that have started the one that finishes first. At equal finishes it
    /// is the group of the finest rounding.
    #[inline]
    pub(crate) fn choose(&self, now: u64) -> Choice {
        let mut busy = self.busy;
        if busy.is_power_of_two() {
            let group = busy.trailing_zeros() as usize;
            let start = self.starts[group];
            return if ahead(start, now) > SOON {
                Choice::After(start)
            } else {
                Choice::Group(group)
            };
        }
        let (mut group, mut earliest, mut soonest) = (CLASSES, i64::MAX, i64::MAX);
        while busy != 0 {
            let g = busy.trailing_zeros() as usize;
            busy &= busy - 1;
            let start = ahead(self.starts[g], now);
            let waits = start > SOON;
            // This form has no branch that depends on the comparison.
            soonest = if waits { soonest.min(start) } else { soonest };
            let finish = if waits { i64::MAX } else { start + (2 << shift(g as u8)) };
            group = if finish < earliest { g } else { group };
            earliest = earliest.min(finish);
        }
        if group < CLASSES {
            Choice::Group(group)
        } else {
            Choice::After(now.wrapping_add(soonest as u64))
        }
    }
}
