//! Who waits for a virtual start, by start, and who has started, by finish.
//!
//! Each packet makes a flow change sides once. Where many of those that wait start at the same
//! time, as flows of one weight do that send packets of one size, they are sorted together, once,
//! instead of one by one through two heaps.

use crate::collections::quad_heap::{Entry, Heap};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// So many in one step are moved one by one before it is asked again whether there are many more.
const FEW: usize = 4;

/// Flows in the order of worst-case fair queueing.
#[derive(Debug, Clone)]
pub(crate) struct Starts {
    /// By start.
    waiting: Heap,
    /// By finish, those that started together; the first one is the last.
    together: Vec<Entry>,
    /// By finish, the others that have started.
    single: Heap,
}

impl Starts {
    /// With room for so many flows, so that none is made later.
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

    /// `flow` is to start at `start`.
    #[inline]
    pub(crate) fn wait(&mut self, start: u64, flow: u32) {
        self.waiting.push(start, flow);
    }

    /// `flow` has started.
    #[inline]
    pub(crate) fn begin(&mut self, finish: u64, flow: u32) {
        self.single.push(finish, flow);
    }

    /// All whose start is before `now` have started; `finish` tells when they end.
    #[inline]
    pub(crate) fn pass(&mut self, now: u64, finish: impl Fn(u32) -> u64) {
        let mut moved = 0;
        while let Some((start, flow)) = self.waiting.first()
            && Entry::new(start, 0).before(Entry::new(now, 0))
        {
            // To sort those of before again would cost more than it saves. Before any is taken out
            // of a heap, equal flows stand in it in order, and sorting them is quick:
            // so it is asked at once where the top looks like many.
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

    /// The first start of those that wait.
    #[inline]
    pub(crate) fn first_start(&self) -> Option<u64> {
        self.waiting.first().map(|(start, _)| start)
    }

    /// Who has started and ends first; of several the lowest flow.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        let first = match (self.together.last(), self.single.first_entry()) {
            (Some(&one), Some(other)) if other.before(one) => other,
            (Some(&one), _) => one,
            (None, other) => other?,
        };
        Some(first.flow())
    }

    /// Takes `flow`, who is the first, out.
    #[inline]
    pub(crate) fn take_first(&mut self, flow: u32) {
        if self.together.pop_if(|one| one.flow() == flow).is_none() {
            self.single.pop();
        }
    }

    /// Takes `flow` out, wherever it is; looks at all.
    pub(crate) fn remove(&mut self, flow: u32) -> bool {
        let before = self.together.len();
        self.together.retain(|one| one.flow() != flow);
        self.together.len() < before || self.waiting.remove(flow) || self.single.remove(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows of which each has a start and a finish, around the end of the clock; most starts are
    /// alike.
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
