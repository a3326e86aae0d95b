//! Worst-case fair weighted fair queueing, WF2Q.
//!
//! Bennett and Zhang, "WF2Q: worst-case fair weighted fair queueing" (1996).
//! The order is that of weighted fair queueing, but only among packets that the
//! fluid server has started (`S <= V`): no flow gets ahead of the fluid
//! by more than a part of a packet.

use crate::discipline::{Answer, Discipline, Harm, Sent};
use crate::gps::Beside;
use crate::heap::Heap;
use crate::params::{Refusals, Setup};
use crate::promise::{Bound, NoPromise, Promise, RateCondition};
use crate::queue::{FlowId, Flows};
use crate::rate::Wire;
use crate::registry::Entry;
use crate::shares::{ROUNDING, Shares, Virtual, WEIGHT};
use crate::time::Time;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "wf2q",
    doc: "worst-case fair WFQ: as `wfq`, among the packets that fluid sharing has started",
    source: "Bennett and Zhang 1996",
    scheduler: &[],
    flow: &[WEIGHT],
};

/// Worst-case fair weighted fair queueing.
#[derive(Debug, Clone)]
pub struct Wf2q {
    shares: Shares,
    fluid: Beside,
    /// Heads that the fluid has started, by finish.
    started: Heap<Virtual>,
    /// The other heads, by start.
    early: Heap<Virtual>,
    serving: Option<FlowId>,
}

/// What it keeps for a flow.
#[derive(Debug, Clone, Default)]
pub struct Wf2qFlow {
    /// Length of the head.
    head: u32,
}

impl Wf2q {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Wf2q, Refusals> {
        let shares = Shares::new(setup, "worst-case fair weighted fair queueing")?;
        let (started, early) = (Heap::new(shares.flows()), Heap::new(shares.flows()));
        Ok(Wf2q { fluid: Beside::new(&shares), started, early, shares, serving: None })
    }

    fn follow(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, now: Time) {
        self.started.remove(f);
        self.early.remove(f);
        if let Some(bytes) = flows.head(f) {
            flows.state_mut(f).head = bytes;
            let gps = self.fluid.at(now);
            let finish = flows.head_tag(f);
            let start = finish.saturating_sub(gps.length(f, bytes));
            if start <= gps.now() {
                self.started.set(f, finish);
            } else {
                self.early.set(f, start);
            }
        }
        if self.started.is_empty() && self.early.is_empty() {
            self.fluid.run_empty();
        }
    }
}

impl Discipline for Wf2q {
    type State = Wf2qFlow;
    type Tag = Virtual;

    fn start(&mut self, _: &mut Flows<Wf2qFlow, Virtual>) {}

    fn retag(&self, old: &mut Wf2q, f: FlowId, tag: Virtual, now: Time) -> Virtual {
        self.fluid.retag(&mut old.fluid, f, tag, now)
    }

    /// The fluid goes on with the new weights, and what is queued has the tags that it has there.
    fn succeed(&mut self, old: Wf2q, flows: &mut Flows<Wf2qFlow, Virtual>, now: Time) {
        self.fluid.succeed(old.fluid, now);
        self.serving = old.serving;
        for f in old.shares.all() {
            if flows.head(f).is_some() {
                self.follow(flows, f, now);
            }
        }
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, bytes: u32, now: Time) -> Virtual {
        self.fluid.at(now).arrive(f, bytes)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, now: Time) {
        self.follow(flows, f, now);
    }

    fn offer_changed(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, now: Time) {
        self.fluid.gone(f, flows.state(f).head);
        self.follow(flows, f, now);
    }

    /// The fluid has always started a packet that the link still has, as it has
    /// served no more. After a change of weights it may be a rounding short of that: then
    /// the one that it starts first is next.
    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Wf2qFlow, Virtual>, now: Time, _: &Wire) -> Answer {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f, now);
        }
        let virtual_now = self.fluid.at(now).now();
        while let Some((_, f)) = self.early.first().filter(|&(start, _)| start <= virtual_now) {
            self.early.remove(f);
            self.started.set(f, flows.head_tag(f));
        }
        match self.started.first().or(self.early.first()) {
            Some((_, f)) => Answer::Serve(f),
            None => Answer::Idle,
        }
    }

    #[inline(always)]
    fn take(&mut self, _: &mut Flows<Wf2qFlow, Virtual>, f: FlowId, sent: Sent) {
        self.fluid.take(f, sent);
        self.serving = Some(f);
    }

    fn forgettable(&self, _: &Flows<Wf2qFlow, Virtual>, f: FlowId, _: Time) -> bool {
        self.fluid.done(f)
    }

    /// A packet leaves at most `L/C` after the fluid finishes it, and when a
    /// packet has left the fluid has at most `(1 - r/C) L` of it still to serve.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let queue = self.shares.full_queue(f);
        let delay = Bound {
            delay: self.shares.own_time(queue.saturating_add(self.shares.largest()), f) + ROUNDING,
            formula: "(B + L)/r",
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
