//! Weighted fair queueing, also called PGPS: packets in the order in which the
//! fluid server would finish them.
//!
//! Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing
//! algorithm" (1989); Parekh and Gallager (1993). Packets are stamped when they
//! come: the finish depends on the fluid's virtual time then. The clock is the
//! exact one of [`gps`](crate::gps).

use crate::discipline::{Answer, Discipline, Harm, Sent};
use crate::gps::Beside;
use crate::heap::Heap;
use crate::params::{Refusals, Setup};
use crate::promise::{Bound, NoPromise, Promise, RateCondition};
use crate::queue::{FlowId, Flows};
use crate::rate::Wire;
use crate::registry::Entry;
use crate::shares::{Shares, Virtual, WEIGHT};
use crate::time::Time;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "wfq",
    doc: "weighted fair queueing (PGPS): in the order in which fluid sharing would finish",
    source: "Demers, Keshav and Shenker 1989; Parekh and Gallager 1993",
    scheduler: &[],
    flow: &[WEIGHT],
};

/// Weighted fair queueing.
#[derive(Debug, Clone)]
pub struct Wfq {
    shares: Shares,
    fluid: Beside,
    /// Finish tags of the heads.
    heads: Heap<Virtual>,
    serving: Option<FlowId>,
}

/// What it keeps for a flow.
#[derive(Debug, Clone, Default)]
pub struct WfqFlow {
    /// Length of the head.
    head: u32,
}

impl Wfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Wfq, Refusals> {
        let shares = Shares::new(setup, "weighted fair queueing")?;
        Ok(Wfq { fluid: Beside::new(&shares), heads: Heap::new(shares.flows()), shares, serving: None })
    }

    fn follow(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId) {
        match flows.head(f) {
            Some(bytes) => {
                flows.state_mut(f).head = bytes;
                self.heads.set(f, flows.head_tag(f));
            }
            None => self.heads.remove(f),
        }
        if self.heads.is_empty() {
            self.fluid.run_empty();
        }
    }
}

impl Discipline for Wfq {
    type State = WfqFlow;
    type Tag = Virtual;

    fn start(&mut self, _: &mut Flows<WfqFlow, Virtual>) {}

    fn retag(&self, old: &mut Wfq, f: FlowId, tag: Virtual, now: Time) -> Virtual {
        self.fluid.retag(&mut old.fluid, f, tag, now)
    }

    /// The fluid goes on with the new weights, and what is queued has the tags that it has there.
    fn succeed(&mut self, old: Wfq, flows: &mut Flows<WfqFlow, Virtual>, now: Time) {
        self.fluid.succeed(old.fluid, now);
        self.serving = old.serving;
        for f in old.shares.all().filter(|&f| flows.head(f).is_some()) {
            self.heads.set(f, flows.head_tag(f));
        }
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<WfqFlow, Virtual>, f: FlowId, bytes: u32, now: Time) -> Virtual {
        self.fluid.at(now).arrive(f, bytes)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    fn offer_changed(&mut self, flows: &mut Flows<WfqFlow, Virtual>, f: FlowId, _: Time) {
        self.fluid.gone(f, flows.state(f).head);
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<WfqFlow, Virtual>, now: Time, _: &Wire) -> Answer {
        if let Some(f) = self.serving.take() {
            self.fluid.at(now);
            self.follow(flows, f);
        }
        self.heads.first().map_or(Answer::Idle, |(_, f)| Answer::Serve(f))
    }

    #[inline(always)]
    fn take(&mut self, _: &mut Flows<WfqFlow, Virtual>, f: FlowId, sent: Sent) {
        self.fluid.take(f, sent);
        self.serving = Some(f);
    }

    fn forgettable(&self, _: &Flows<WfqFlow, Virtual>, f: FlowId, _: Time) -> bool {
        self.fluid.done(f)
    }

    /// A packet leaves at most `L/C` after the fluid finishes it (Parekh and
    /// Gallager). The fluid may still have bytes of the flow that the link has
    /// already sent, as many as others are behind: a packet each. So much longer
    /// than its queue's time may a packet take that comes after them.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let queue = self.shares.full_queue(f);
        let delay = Bound {
            delay: self.shares.own_time(queue.saturating_add(self.shares.one_of_each_other()), f)
                + self.shares.behind_fluid(),
            formula: "(B + (N - 1) L)/r + L/C",
            condition: "packets that found room",
        };
        Ok(self.shares.promise_by_fluid(f, delay))
    }

    fn rate_condition(&self) -> Option<RateCondition> {
        Some(RateCondition::Queued)
    }

    /// What is dropped is still in the fluid, or is served there at once: its time is no longer that of the link.
    fn harm_of_drops(&self) -> Harm {
        Harm::All
    }
}
