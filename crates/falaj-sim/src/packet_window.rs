//! A few packets of a run with all their data: the packets around the longest delay of a flow, and
//! the byte counts before them.

use crate::observer::{Loss, Observer};
use crate::time_bins::Longest;
use falaj_engine::{DropReason, Emit, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// Number of transmissions that are recorded before the end of the packet with the longest delay,
/// and after it.
const BEFORE: usize = 48;
const AFTER: usize = 12;

/// Maximum number of recorded steps of a flow.
const STEPS: usize = 20_000;

/// The packets around the longest delay of a flow.
#[derive(Clone, Debug)]
pub struct PacketWindow {
    /// The pipe.
    pub pipe: PipeId,
    /// The flow.
    pub flow: FlowId,
    /// The flow's longest delay.
    pub longest: Longest,
    /// Start of the window: packets of the flow are recorded from here on.
    pub from: Time,
    /// End of the window.
    pub to: Time,
    /// Bytes of the flow that arrived, and bytes that left, between the start of its backlog and
    /// [`PacketWindow::from`].
    pub before: (u64, u64),
    /// Arrivals of the flow's packets that the link transmitted, and their bytes, in order.
    pub came: Vec<(Time, u32)>,
    /// Times at which the last bits of the flow's packets left, and the bytes of these packets, in
    /// order.
    pub left: Vec<(Time, u32)>,
    /// Packets of all flows that the link sent around the time of the longest delay.
    pub sent: VecDeque<Emit>,
}

impl PacketWindow {
    /// Creates a window for a run that will have this longest delay. The window begins up to three
    /// times that delay before the packet arrived.
    pub fn around(pipe: PipeId, flow: FlowId, longest: Longest) -> PacketWindow {
        let delay = longest.delay();
        let early =
            longest.arrival.since(Time::ZERO).saturating_sub(Span(delay.0.saturating_mul(3)));
        PacketWindow {
            pipe,
            flow,
            longest,
            from: longest.since.max(Time::ZERO + early),
            to: longest.end + Span(delay.0 / 2),
            before: (0, 0),
            came: Vec::new(),
            left: Vec::new(),
            sent: VecDeque::new(),
        }
    }

    /// Counts a packet of the flow, before the window or within it.
    fn count(&mut self, instant: Time, bytes: u32, left: bool) {
        if instant < self.longest.since || instant > self.to {
            return;
        }
        let before = if left { &mut self.before.1 } else { &mut self.before.0 };
        if instant < self.from {
            *before += u64::from(bytes);
            return;
        }
        let steps = if left { &mut self.left } else { &mut self.came };
        if steps.len() < STEPS {
            steps.push((instant, bytes));
        }
    }

    fn keep(&mut self, emit: &Emit) {
        let after = self.sent.iter().rev().take_while(|sent| sent.start > self.longest.end).count();
        if after >= AFTER {
            return;
        }
        self.sent.push_back(*emit);
        if self.sent.len() > BEFORE + after {
            self.sent.pop_front();
        }
    }
}

impl Observer for PacketWindow {
    const ALL: bool = true;

    fn sent(&mut self, emit: &Emit) {
        if emit.pipe != self.pipe {
            return;
        }
        self.keep(emit);
        if emit.flow == self.flow {
            self.count(emit.arrival, emit.bytes, false);
            // A packet that arrived before belongs to an earlier backlog.
            if emit.arrival >= self.longest.since {
                self.count(emit.end, emit.bytes, true);
            }
        }
    }

    fn lost(&mut self, loss: &Loss) {
        let dropped = &loss.dropped;
        if dropped.why == DropReason::Lost && (dropped.pipe, dropped.flow) == (self.pipe, self.flow)
        {
            // The link transmitted the packet, although the packet was lost on the way.
            self.count(loss.reported_at, dropped.bytes, true);
            self.count(dropped.arrival, dropped.bytes, false);
        }
    }
}
