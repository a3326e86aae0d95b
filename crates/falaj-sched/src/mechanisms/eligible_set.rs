//! Flows that wait for a virtual start, ordered by start, and flows that have started, ordered by
//! finish.
//!
//! For each packet a flow moves once from the waiting to the started flows. If many waiting flows
//! start at the same time, as flows of one weight do with packets of one size, they are sorted
//! together, instead of moving one by one through two heaps.

use crate::collections::quad_heap::{Entry, Heap};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Number of flows that a call moves one by one before it checks again whether many more start.
const FEW: usize = 4;

/// Flows in the order of worst-case fair queueing.
#[derive(Debug, Clone)]
pub(crate) struct Starts {
    /// Waiting flows, by virtual start time.
    waiting: Heap,
    /// Flows that started together, by virtual finish time; the flow that finishes first is at the
    /// end.
    together: Vec<Entry>,
    /// The other flows that have started, by virtual finish time.
    single: Heap,
}

impl Starts {
    /// A set with memory for this number of flows, so that nothing is allocated later.
    pub(crate) fn new(flows: usize) -> Starts {
        Starts {
            waiting: Heap::new(flows),
            together: Vec::with_capacity(flows),
            single: Heap::new(flows),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.single.is_empty() && self.together.is_empty()
    }

    /// Adds `flow`, which starts at `start`.
    #[inline]
    pub(crate) fn wait(&mut self, start: u64, flow: u32) {
        self.waiting.push(start, flow);
    }

    /// Adds `flow`, which has started.
    #[inline]
    pub(crate) fn begin(&mut self, finish: u64, flow: u32) {
        self.single.push(finish, flow);
    }

    /// Moves all flows whose start is before `now` to the started ones. `finish` returns the finish
    /// of a flow.
    #[inline]
    pub(crate) fn pass(&mut self, now: u64, finish: impl Fn(u32) -> u64) {
        let mut moved = 0;
        while let Some((start, flow)) = self.waiting.first()
            && Entry::new(start, 0).before(Entry::new(now, 0))
        {
            // While `together` still holds flows of an earlier sort, no others are sorted: sorting
            // the earlier flows again would cost more than it saves. Until the first flow is
            // removed from the heap, flows with equal starts are in order in the heap, and sorting
            // is fast. So if the top of the heap indicates many flows, the check is made before any
            // flow is moved.
            let may_be_many = moved == FEW || moved == 0 && self.waiting.has_five_before(now);
            if may_be_many && self.together.is_empty() && self.waiting.has_many_before(now) {
                return self.begin_together(now, finish);
            }
            self.waiting.pop();
            self.single.push(finish(flow), flow);
            moved += 1;
        }
    }

    #[cold]
    fn begin_together(&mut self, now: u64, finish: impl Fn(u32) -> u64) {
        self.waiting.drain_before(now, |flow| self.together.push(Entry::new(finish(flow), flow)));
        self.together.sort_unstable_by(|a, b| match a.before(*b) {
            true => Ordering::Greater,
            false => Ordering::Less,
        });
    }

    /// The earliest start of the waiting flows.
    #[inline]
    pub(crate) fn first_start(&self) -> Option<u64> {
        self.waiting.first().map(|(start, _)| start)
    }

    /// The started flow that finishes first; at equal finishes the flow with the lowest number.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        let first = match (self.together.last(), self.single.first_entry()) {
            (Some(&one), Some(other)) if other.before(one) => other,
            (Some(&one), _) => one,
            (None, other) => other?,
        };
        Some(first.flow())
    }

    /// Removes `flow`, which must be the first.
    #[inline]
    pub(crate) fn take_first(&mut self, flow: u32) {
        if self.together.pop_if(|one| one.flow() == flow).is_none() {
            self.single.pop();
        }
    }

    /// Removes `flow` from any position, and examines all entries for that. Returns true if the
    /// flow was there.
    pub(crate) fn remove(&mut self, flow: u32) -> bool {
        let before = self.together.len();
        self.together.retain(|one| one.flow() != flow);
        self.together.len() < before || self.waiting.remove(flow) || self.single.remove(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows with a start and a finish each, around the instant at which virtual time wraps around.
    /// Most starts are equal.
    #[test]
    fn the_order_is_that_of_the_definition_however_many_start_together() {
        const FLOWS: usize = 300;
        let mut starts = Starts::new(FLOWS);
        let mut model: Vec<Option<(i64, i64)>> = alloc::vec![None; FLOWS];
        let (mut now, mut together, mut random) = (-30_000i64, 0, 1u64);
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for step in 0..30_000 {
            let flow = below(FLOWS as u64) as usize;
            match below(8) {
                0..=4 if model[flow].is_none() => {
                    let next = (now / 200 + 1) * 200;
                    let start = if below(4) > 0 { next } else { now - 50 + below(300) as i64 };
                    let finish =
                        start + 1 + below(if step % 5_000 < 2_500 { 3 } else { 400 }) as i64;
                    model[flow] = Some((start, finish));
                    match start < now {
                        true => starts.begin(finish as u64, flow as u32),
                        false => starts.wait(start as u64, flow as u32),
                    }
                }
                5 => assert_eq!(starts.remove(flow as u32), model[flow].take().is_some()),
                6 => now += below(40) as i64,
                _ => {}
            }
            let has_started = |(flow, times): (usize, &Option<(i64, i64)>)| {
                times.filter(|(start, _)| *start < now).map(|(_, finish)| (finish, flow as u32))
            };
            let waited = starts.together.len();
            starts.pass(now as u64, |flow| model[flow as usize].expect("it waits").1 as u64);
            together += usize::from(starts.together.len() > waited);
            let first =
                model.iter().enumerate().filter_map(has_started).min().map(|(_, flow)| flow);
            assert_eq!(starts.first(), first, "step {step}");
            let waiting =
                model.iter().flatten().map(|(start, _)| *start).filter(|start| *start >= now).min();
            assert_eq!(starts.first_start().map(|start| start as i64), waiting);
            if let Some(flow) = first.filter(|_| below(3) > 0) {
                starts.take_first(flow);
                model[flow as usize] = None;
            }
            assert_eq!(starts.is_empty(), model.iter().all(Option::is_none));
        }
        assert!(together > 50, "{together} times many started together");
    }
}
