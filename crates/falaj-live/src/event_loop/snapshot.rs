//! What the forwarder knows of its flows, for whoever asks while it runs.

use super::{Compliance, Forwarder, LiveLosses, NotTaken, RateViolation, Violation};
use falaj_engine::PipeId;
use falaj_engine::masks::MaskStats;
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
    /// By pipe and flow. Flows with a mask lack the engine's counters: they are a sum over the
    /// queues of all ids, and come in [parts](Forwarder::counters_part).
    pub flows: Vec<Vec<FlowSnapshot>>,
    /// Flows with a mask.
    pub masked: Vec<(PipeId, FlowId)>,
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
        let is_masked = |pipe, f: usize| self.network.is_masked(pipe, FlowId(f as u32));
        let counters = |pipe, f: usize| match is_masked(pipe, f) {
            true => Counters::default(),
            false => self.network.counters(pipe, FlowId(f as u32)),
        };
        let counted = |pipe: PipeId, (f, &active): (usize, &Time)| FlowSnapshot {
            counters: counters(pipe, f),
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
            masked: {
                let flows = |(n, &pipe): (usize, &PipeId)| {
                    let flows = 0..self.active[pipe.0 as usize].len();
                    let masked = flows.filter(move |&f| is_masked(pipe, f));
                    masked.map(move |f| (PipeId(n as u32), FlowId(f as u32)))
                };
                self.order.iter().enumerate().flat_map(flows).collect()
            },
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

    /// Adds a part of a flow's counters to `sum`, from the place `from` on (0: the beginning),
    /// until the budget is used up. Returns where the next part begins, if there is one.
    pub fn counters_part(
        &self,
        (pipe, flow): (PipeId, FlowId),
        from: u64,
        budget: Span,
        sum: &mut Counters,
    ) -> Option<u64> {
        let at = (self.called(pipe), flow);
        self.in_steps(from, budget, |from, steps| {
            self.network.counters_part(at, (from, steps), sum)
        })
    }

    /// Adds a part of the report on a mask to `all`, in the same way; see
    /// [`mask_stats_part`](falaj_engine::network::Network::mask_stats_part).
    pub fn report_part(
        &self,
        (pipe, flow, busiest): (PipeId, Option<FlowId>, usize),
        from: u64,
        budget: Span,
        all: &mut Option<MaskStats>,
    ) -> Option<u64> {
        let pipe = self.called(pipe);
        self.in_steps(from, budget, |from, steps| {
            self.network.mask_stats_part(pipe, (flow, busiest), (from, steps), all)
        })
    }

    /// Does something step by step, until it is done or the budget is used up, and once at least.
    fn in_steps(
        &self,
        mut from: u64,
        budget: Span,
        mut something: impl FnMut(u64, usize) -> Option<u64>,
    ) -> Option<u64> {
        /// Ids between two looks at the clock: some ten microseconds at most.
        const STEPS: usize = 64;
        let until = self.clock.now() + budget;
        loop {
            from = something(from, STEPS)?;
            if self.clock.now() >= until {
                return Some(from);
            }
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
