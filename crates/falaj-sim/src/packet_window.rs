//! A few packets of a run in full: those around a longest delay, with the counts that they begin
//! with.

use crate::observer::{Loss, Observer};
use crate::time_bins::Longest;
use falaj_engine::{DropReason, Emit, PipeId};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use std::collections::VecDeque;

/// So many transmissions are kept until that of the longest delay has ended, and so many after it.
const BEFORE: usize = 48;
const AFTER: usize = 12;

/// So many steps of a flow at most.
const STEPS: usize = 20_000;

/// What happened around the longest delay of a flow.
#[derive(Clone, Debug)]
pub struct PacketWindow {
    /// The pipe.
    pub pipe: PipeId,
    /// The flow.
    pub flow: FlowId,
    /// Its longest delay.
    pub longest: Longest,
    /// From when on the flow's packets are counted here.
    pub from: Time,
    /// And until when.
    pub to: Time,
    /// Since its packets have followed on one another, so many bytes came before
    /// [`PacketWindow::from`], and so many left.
    pub before: (u64, u64),
    /// Arrivals of the flow's packets that were not lost, and their bytes, in order.
    pub came: Vec<(Time, u32)>,
    /// When their last bits left, in order.
    pub left: Vec<(Time, u32)>,
    /// What the link sent about that time, of all flows.
    pub sent: VecDeque<Emit>,
}

impl PacketWindow {
    /// Of a run that will have this longest delay: up to three times as long before that packet
    /// came.
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

    /// One of the flow's packets is counted, where it belongs.
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
            // What came before is another backlog's.
            if emit.arrival >= self.longest.since {
                self.count(emit.end, emit.bytes, true);
            }
        }
    }

    fn lost(&mut self, loss: &Loss) {
        let dropped = &loss.dropped;
        if dropped.why == DropReason::Lost && (dropped.pipe, dropped.flow) == (self.pipe, self.flow)
        {
            // The link sent it, though it did not arrive.
            self.count(loss.told, dropped.bytes, true);
            self.count(dropped.arrival, dropped.bytes, false);
        }
    }
}
