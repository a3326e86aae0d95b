//! The mapping of a pipe's flows and packets to its successor.

use falaj_sched::queues::queue::FlowId;

/// The mapping of an existing flow at a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowMapping {
    /// It becomes this flow.
    Is(FlowId),
    /// It is removed, and its queued packets join this flow's queue, even if there is no room.
    Joins(FlowId),
    /// It becomes a part of this flow, with its counters and queued packets; other flows may become
    /// parts of it too.
    PartOf(FlowId),
    /// It is removed, and its queued packets are dropped. A packet on the wire becomes this flow's.
    Dropped(FlowId),
}

impl FlowMapping {
    /// The flow that takes its place.
    pub fn flow(self) -> FlowId {
        match self {
            FlowMapping::Is(flow)
            | FlowMapping::Joins(flow)
            | FlowMapping::PartOf(flow)
            | FlowMapping::Dropped(flow) => flow,
        }
    }
}

/// The way in which packets move from one pipe to its successor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handover {
    pub(crate) flows: Vec<FlowMapping>,
    pub(crate) drop: bool,
}

impl Handover {
    /// The mapping of flow `f` of the old pipe; by default it keeps its index.
    pub(crate) fn mapping(&self, f: usize) -> FlowMapping {
        self.flows.get(f).copied().unwrap_or(FlowMapping::Is(FlowId(f as u32)))
    }
}
