//! What the forwarder knows of its flows, for whoever asks while it runs.

use super::{Compliance, Forwarder, LiveLosses, NotTaken, RateViolation, Violation};
use falaj_engine::PipeId;
use falaj_engine::pipe::Counters;
use falaj_engine::rules::{RuleCounters, RuleStats};
use falaj_sched::contract::breach::Breach;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;

/// What was counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowSnapshot {
    /// By the engine.
    pub counters: Counters,
    /// Packets that left the link, and that the far end did not take.
    pub not_taken: NotTaken,
    /// When a packet of it came last; `None`: none ever did.
    pub active: Option<Time>,
}

/// How long packets of a flow stayed, and how late they were handed over.
#[derive(Clone, Debug, Default)]
pub struct Sojourns {
    /// See [`LiveFlow::delay`](super::LiveFlow::delay).
    pub delay: Meter,
    /// See [`LiveFlow::release_error`](super::LiveFlow::release_error).
    pub release_error: Meter,
}

/// What was counted, all at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When: now, or, if the host was away, when the first thing was due that is still to be done.
    pub at: Time,
    /// By pipe and flow.
    pub flows: Vec<Vec<FlowSnapshot>>,
    /// By pipe, of flows that are gone.
    pub gone: Vec<Counters>,
    /// Of links that were taken away; what is their backlog goes still.
    pub ended: Counters,
    /// What each rule has taken.
    pub taken: Vec<RuleCounters>,
    /// And what became of it.
    pub of_rules: Vec<RuleStats>,
    /// What those had that are gone.
    pub taken_by_the_gone: RuleCounters,
    /// By pipe, how disciplines of libraries broke their contract.
    pub breaches: Vec<Vec<Breach>>,
    /// Outside the engine.
    pub losses: LiveLosses,
    /// By pipe and flow, what became of their guarantees; none where packets are not held to any.
    pub kept: Vec<Vec<Compliance>>,
    /// Packets that stayed too long, the last [`REMEMBERED`](super::REMEMBERED) of each cause.
    pub late: Vec<Violation>,
    /// Rates that were not kept, the last [`REMEMBERED`](super::REMEMBERED).
    pub short: Vec<RateViolation>,
}

impl Forwarder {
    /// What was counted until now: a step for each flow.
    pub fn snapshot(&self) -> Snapshot {
        let counted = |pipe: PipeId, (f, &active): (usize, &Time)| FlowSnapshot {
            counters: self.network.counters(pipe, FlowId(f as u32)),
            not_taken: self.flows[pipe.0 as usize][f].not_taken,
            active: (active != Time::NEVER).then_some(active),
        };
        let pipe = |&pipe: &PipeId| {
            self.active[pipe.0 as usize].iter().enumerate().map(|of| counted(pipe, of)).collect()
        };
        Snapshot {
            // Where the host was away, what is due since then is not counted yet: until that time
            // all is.
            at: self.clock.now().min(self.network.next_event()),
            flows: self.order.iter().map(pipe).collect(),
            gone: self.order.iter().map(|&pipe| self.network.removed_flow_counters(pipe)).collect(),
            breaches: self.order.iter().map(|&pipe| self.network.breaches(pipe)).collect(),
            ended: self.network.ended_pipe_counters(),
            taken: self.network.taken().to_vec(),
            of_rules: self.network.active().to_vec(),
            taken_by_the_gone: self.network.removed_rule_counters(),
            losses: self.losses(),
            kept: self.kept(),
            late: self.late(),
            short: self.short(),
        }
    }

    /// Copies what was measured of flows, in the order of pipes, from the one that is `from` among
    /// all: to its place in `to`, and into the memory of what is there, which nobody needs any
    /// more. Ends before the place that it says: with the flows, or when `budget` is used up,
    /// after one flow at least. A histogram is a hundred kilobytes, and while they are
    /// copied no packet passes.
    pub fn measured(&self, to: &mut Vec<Sojourns>, from: usize, budget: Span) -> usize {
        let until = self.clock.now() + budget;
        let mut place = from;
        for flow in self.order.iter().flat_map(|pipe| &self.flows[pipe.0 as usize]).skip(from) {
            if to.len() <= place {
                to.resize_with(place + 1, Sojourns::default);
            }
            to[place].delay.set_to(&flow.delay);
            to[place].release_error.set_to(&flow.release_error);
            place += 1;
            if self.clock.now() >= until {
                break;
            }
        }
        place
    }
}
