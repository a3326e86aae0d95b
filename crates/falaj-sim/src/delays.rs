//! Delays of all flows, counted a few hundred at a time.

use falaj_engine::{Emit, PipeId};
use falaj_sched::queue::FlowId;
use falaj_sched::time::Span;
use falaj_traffic::meter::Meter;

/// A meter for each flow. A meter's counts are more than a hundred kilobytes, so that of many flows no cache has those that the
/// next delay belongs to. Counted one after the other with nothing between, a processor waits for several of them at once.
pub(crate) struct Delays {
    /// By pipe and flow.
    meters: Vec<Vec<Meter>>,
    /// Not counted yet.
    waiting: Vec<(PipeId, FlowId, Span)>,
}

impl Delays {
    /// So many wait at most: 4 KiB.
    const MOST: usize = 256;

    /// For so many flows of each pipe.
    pub(crate) fn new(flows: impl IntoIterator<Item = usize>) -> Delays {
        let meters = flows.into_iter().map(|flows| vec![Meter::new(); flows]).collect();
        Delays { meters, waiting: Vec::with_capacity(Delays::MOST) }
    }

    /// Counts the delay of one that left.
    #[inline]
    pub(crate) fn record(&mut self, emit: &Emit) {
        self.waiting.push((emit.pipe, emit.flow, emit.end - emit.arrival));
        if self.waiting.len() == Delays::MOST {
            self.count();
        }
    }

    #[inline(never)]
    fn count(&mut self) {
        for (pipe, flow, delay) in self.waiting.drain(..) {
            self.meters[pipe.0 as usize][flow.index()].record(delay);
        }
    }

    /// The meters, with all that was recorded in them.
    pub(crate) fn into_meters(mut self) -> Vec<Vec<Meter>> {
        self.count();
        self.meters
    }
}
