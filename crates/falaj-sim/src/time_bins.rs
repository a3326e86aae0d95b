//! Time bins of one run: bytes that arrived, left and were lost in each part of its time. The
//! memory does not depend on the run's length.

use crate::observer::{Loss, Observer};
use falaj_engine::{DropReason, Emit, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};

/// The arrivals, departures and losses of each flow in each part of a run.
#[derive(Clone, Debug)]
pub struct TimeBins {
    part: Span,
    parts: usize,
    /// By pipe and flow; `None` until its first packet.
    flows: Vec<Vec<Option<FlowBins>>>,
}

/// The bins of a flow, in bytes as the link accounts them.
#[derive(Clone, Debug)]
pub struct FlowBins {
    /// Bytes that arrived in each part.
    pub came: Vec<u64>,
    /// Bytes of the packets whose last bit left in each part.
    pub left: Vec<u64>,
    /// Bytes that were lost in each part, including bytes lost on the link.
    pub lost: Vec<u64>,
    /// The flow's longest delay.
    pub longest: Option<Longest>,
    /// Beginning and end of the flow's present backlog.
    busy: (Time, Time),
}

/// The packet with the longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// Beginning of the flow's backlog in which the packet arrived.
    pub since: Time,
    /// Arrival of its last bit.
    pub arrival: Time,
    /// Departure of its last bit.
    pub end: Time,
}

impl Longest {
    /// The packet's delay.
    pub fn delay(&self) -> Span {
        self.end - self.arrival
    }
}

impl TimeBins {
    /// Creates bins for a run of this length, with this number of parts, at least one.
    pub fn new(duration: Span, parts: usize) -> TimeBins {
        let parts = parts.max(1);
        TimeBins { part: Span(duration.0.div_ceil(parts as u64).max(1)), parts, flows: Vec::new() }
    }

    /// Length of a part.
    pub fn part(&self) -> Span {
        self.part
    }

    /// The bins of a flow; `None` if it had no packet.
    pub fn flow(&self, pipe: PipeId, flow: FlowId) -> Option<&FlowBins> {
        self.flows.get(pipe.0 as usize)?.get(flow.index())?.as_ref()
    }

    fn of(&mut self, pipe: PipeId, flow: FlowId) -> &mut FlowBins {
        let (pipe, flow) = (pipe.0 as usize, flow.index());
        if self.flows.len() <= pipe {
            self.flows.resize(pipe + 1, Vec::new());
        }
        let flows = &mut self.flows[pipe];
        if flows.len() <= flow {
            flows.resize(flow + 1, None);
        }
        let none = || vec![0; self.parts];
        flows[flow].get_or_insert_with(|| FlowBins {
            came: none(),
            left: none(),
            lost: none(),
            longest: None,
            busy: (Time::ZERO, Time::ZERO),
        })
    }

    /// The index of the part that contains the instant; `None` if it is after the run.
    fn at(&self, instant: Time) -> Option<usize> {
        usize::try_from(instant.0 / self.part.0).ok().filter(|&part| part < self.parts)
    }
}

impl Observer for TimeBins {
    const ALL: bool = true;

    fn sent(&mut self, emit: &Emit) {
        let (came, left) = (self.at(emit.arrival), self.at(emit.end));
        let flow = self.of(emit.pipe, emit.flow);
        if let Some(part) = came {
            flow.came[part] += u64::from(emit.bytes);
        }
        if flow.busy.1 <= emit.arrival {
            flow.busy.0 = emit.arrival;
        }
        flow.busy.1 = flow.busy.1.max(emit.end);
        if let Some(part) = left {
            flow.left[part] += u64::from(emit.bytes);
            if flow.longest.is_none_or(|longest| longest.delay() < emit.end - emit.arrival) {
                flow.longest =
                    Some(Longest { since: flow.busy.0, arrival: emit.arrival, end: emit.end });
            }
        }
    }

    fn lost(&mut self, loss: &Loss) {
        // The packet was lost after the link, and was already counted as having left.
        if matches!(loss.dropped.why, DropReason::Rule | DropReason::Unmatched) {
            return;
        }
        let came = self.at(loss.dropped.arrival);
        let lost = self.at(loss.reported_at);
        let flow = self.of(loss.dropped.pipe, loss.dropped.flow);
        if let Some(part) = came {
            flow.came[part] += u64::from(loss.dropped.bytes);
        }
        if let Some(part) = lost {
            flow.lost[part] += u64::from(loss.dropped.bytes);
        }
    }
}

impl FlowBins {
    /// Bytes in the flow's queue and in transmission, at the end of each part.
    pub fn backlog(&self) -> impl Iterator<Item = u64> {
        let parts = self.came.iter().zip(&self.left).zip(&self.lost);
        parts.scan(0u64, |backlog, ((came, left), lost)| {
            *backlog = (*backlog + came).saturating_sub(left + lost);
            Some(*backlog)
        })
    }
}
