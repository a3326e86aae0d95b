//! What becomes of a pipe's flows and packets when another one takes over.

use falaj_sched::queues::queue::FlowId;

/// What becomes of a flow that a pipe has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowMapping {
    /// It is this one from now on.
    Is(FlowId),
    /// It goes, and what waits joins this one's queue, whether there is room or not.
    Joins(FlowId),
    /// It is a part of this one from now on, with what it has counted and what waits; others may be
    /// too.
    PartOf(FlowId),
    /// It goes, and what waits is dropped. A packet on the wire is this one's from now on.
    Dropped(FlowId),
}

impl FlowMapping {
    /// The flow that stands for it.
    pub fn flow(self) -> FlowId {
        match self {
            FlowMapping::Is(flow)
            | FlowMapping::Joins(flow)
            | FlowMapping::PartOf(flow)
            | FlowMapping::Dropped(flow) => flow,
        }
    }
}

/// How packets come from one pipe to its successor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handover {
    pub(crate) flows: Vec<FlowMapping>,
    pub(crate) drop: bool,
}

impl Handover {
    /// What becomes of flow `f` of the old pipe; without a word about it, it keeps its index.
    pub(crate) fn mapping(&self, f: usize) -> FlowMapping {
        self.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32)))
    }
}
