//! What the forwarder knows of its flows, for whoever asks while it runs.

use super::{Forwarder, LiveFlow, Losses};
use falaj_engine::PipeId;
use falaj_engine::pipe::Counters;
use falaj_sched::queue::FlowId;
use falaj_sched::time::{Span, Time};

/// What was counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// By the engine.
    pub counters: Counters,
    /// When a packet of it came last; `None`: none ever did.
    pub active: Option<Time>,
}

/// What was counted, all at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When.
    pub at: Time,
    /// By pipe and flow.
    pub flows: Vec<Vec<Counted>>,
    /// By pipe, of flows that are gone.
    pub gone: Vec<Counters>,
    /// Outside the engine.
    pub losses: Losses,
}

impl Forwarder {
    /// What was counted until now: a step for each flow.
    pub fn snapshot(&self) -> Snapshot {
        let counted = |p: usize, f: usize, active: Time| Counted {
            counters: self.network.counters(PipeId(p as u32), FlowId(f as u32)),
            active: (active != Time::NEVER).then_some(active),
        };
        let pipe =
            |(p, active): (usize, &Vec<Time>)| active.iter().enumerate().map(|(f, &at)| counted(p, f, at)).collect();
        Snapshot {
            at: self.clock.now(),
            flows: self.active.iter().enumerate().map(pipe).collect(),
            gone: (0..self.active.len()).map(|p| self.network.of_the_gone(PipeId(p as u32))).collect(),
            losses: self.losses,
        }
    }

    /// What was measured of the flows from the one on that is `from` among all of all pipes, for as many as can be
    /// copied in `budget`, one at least: a histogram is a hundred kilobytes, and while they are copied no packet passes.
    pub fn measured(&self, from: usize, budget: Span) -> Vec<LiveFlow> {
        let until = self.clock.now() + budget;
        let mut measured = Vec::new();
        for flow in self.flows.iter().flatten().skip(from) {
            measured.push(flow.clone());
            if self.clock.now() >= until {
                break;
            }
        }
        measured
    }
}
