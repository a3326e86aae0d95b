//! The mapping of a pipe's flows and packets to those of its successor.

use falaj_sched::queues::queue::FlowId;

/// The mapping of an existing flow at a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowMapping {
    /// It becomes this flow.
    Is(FlowId),
    /// It is removed, and its queued packets join this flow's queue, even if there is no room.
    Joins(FlowId),
    /// It becomes a part of this flow and keeps its counters and queued packets. Other flows may
    /// become parts of the same flow.
    PartOf(FlowId),
    /// It is removed, and its queued packets are dropped. Its packet on the wire counts for this
    /// flow.
    Dropped(FlowId),
}

impl FlowMapping {
    /// The flow of the successor that takes its place.
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
