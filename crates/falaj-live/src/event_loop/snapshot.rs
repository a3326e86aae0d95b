//! Snapshots of the forwarder's counters, while it runs.

use super::{Compliance, Forwarder, LiveLosses, NotTaken, RateViolation, Violation};
use falaj_engine::PipeId;
use falaj_engine::masks::MaskStats;
use falaj_engine::pipe::Counters;
use falaj_engine::rules::{RuleCounters, RuleStats};
use falaj_sched::contract::breach::Breach;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowSnapshot {
    /// The engine's counters.
    pub counters: Counters,
    /// Packets that left the link, but were not accepted by the far end.
    pub not_taken: NotTaken,
    /// Arrival of the flow's last packet; `None` if no packet has arrived.
    pub active: Option<Time>,
}

/// Sojourn times of a flow's packets, and the lateness of their delivery.
#[derive(Clone, Debug, Default)]
pub struct Sojourns {
    /// See [`LiveFlow::delay`](super::LiveFlow::delay).
    pub delay: Meter,
    /// See [`LiveFlow::release_error`](super::LiveFlow::release_error).
    pub release_error: Meter,
}

/// All counters, at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The instant: now, or, if the host was stalled, the due time of the first event still to be
    /// processed.
    pub at: Time,
    /// Counters by pipe and flow. For flows with a mask the engine's counters are missing here:
    /// they are a sum over the queues of all ids, and are queried in
    /// [parts](Forwarder::counters_part).
    pub flows: Vec<Vec<FlowSnapshot>>,
    /// Flows with a mask.
    pub masked: Vec<(PipeId, FlowId)>,
    /// By pipe, counters of removed flows.
    pub gone: Vec<Counters>,
    /// Counters of removed links; their backlog is still being sent.
    pub ended: Counters,
    /// Counters of packets that each rule has taken.
    pub taken: Vec<RuleCounters>,
    /// Statistics of the packets that each rule has taken.
    pub of_rules: Vec<RuleStats>,
    /// Counters of removed rules.
    pub taken_by_the_gone: RuleCounters,
    /// By pipe, breaches of contract by plugin disciplines.
    pub breaches: Vec<Vec<Breach>>,
    /// Losses outside the engine.
    pub losses: LiveLosses,
    /// By pipe and flow, counters of their guarantees; empty if packets are not checked.
    pub kept: Vec<Vec<Compliance>>,
    /// Packets that exceeded their bound, the last [`REMEMBERED`](super::REMEMBERED) of each cause.
    pub late: Vec<Violation>,
    /// Violations of rates, the last [`REMEMBERED`](super::REMEMBERED).
    pub short: Vec<RateViolation>,
}

impl Forwarder {
    /// The counters until now; takes time in proportion to the number of flows.
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
            // If the host was stalled, some due events are not processed yet; the counters are
            // complete up to the first of them.
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

    /// Adds a part of a flow's counters to `sum`, from place `from` on (0: the beginning), until
    /// the time `budget` is used up. Returns the place where the next part begins, if there is one.
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

    /// Adds a part of a mask's statistics to `all`, in the same way; see
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

    /// Repeats a step until it returns `None` or the time `budget` is used up, but at least once.
    fn in_steps(
        &self,
        mut from: u64,
        budget: Span,
        mut something: impl FnMut(u64, usize) -> Option<u64>,
    ) -> Option<u64> {
        /// Number of ids between two readings of the clock: some ten microseconds at most.
        const STEPS: usize = 64;
        let until = self.clock.now() + budget;
        loop {
            from = something(from, STEPS)?;
            if self.clock.now() >= until {
                return Some(from);
            }
        }
    }

    /// Copies the measurements of the flows of all pipes, in order and beginning with flow number
    /// `from`, to the same indices of `to`, whose memory is reused. Stops after the last flow, or
    /// when the time `budget` is used up, but copies at least one flow. Returns the index after the
    /// last copied flow. A histogram takes a hundred kilobytes, and no packet passes while flows
    /// are copied.
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
