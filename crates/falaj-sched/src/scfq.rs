//! Self-clocked fair queueing.
//!
//! Golestani, "A self-clocked fair queueing scheme for broadband applications"
//! (1994). Virtual time is the finish tag of the packet in service; a packet's
//! tag is `F = max(F of the flow's last, v) + L/w`, and the smallest goes first.
//!
//! Packets are tagged when they become heads, which gives the tags of their
//! arrival: while a packet of the flow waits or is in service, `v` is not
//! beyond its tag, so that its successor starts from that tag alone. Nor need
//! tags go back to zero when all is sent: the last `v` is then the largest tag
//! of all, and everybody starts from it.

use crate::discipline::{Answer, Discipline, Sent};
use crate::heap::Heap;
use crate::params::{Refusals, Setup};
use crate::promise::{Bound, NoPromise, Promise};
use crate::queue::{FlowId, Flows};
use crate::rate::Wire;
use crate::registry::Entry;
use crate::shares::{ROUNDING, Shares, Virtual, WEIGHT, retagged, shifted};
use crate::time::Time;
use alloc::vec::Vec;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "scfq",
    doc: "self-clocked fair queueing: smallest finish tag first, the clock is the tag in service",
    source: "Golestani 1994",
    scheduler: &[],
    flow: &[WEIGHT],
};

/// Self-clocked fair queueing.
#[derive(Debug, Clone)]
pub struct Scfq {
    shares: Shares,
    /// Finish tags of the heads.
    heads: Heap<Virtual>,
    /// Finish tag of the packet in service, or of the last one.
    now: Virtual,
    serving: Option<FlowId>,
}

/// What it keeps for a flow.
#[derive(Debug, Clone, Default)]
pub struct ScfqFlow {
    /// Start tag of the head, or finish tag of the last packet sent.
    start: Virtual,
    slope: u64,
}

impl Scfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Scfq, Refusals> {
        let shares = Shares::new(setup, "self-clocked fair queueing")?;
        Ok(Scfq { heads: Heap::new(shares.flows()), shares, now: 0, serving: None })
    }

    /// The flow's head is another now, or there is none.
    fn follow(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId) {
        let Some(bytes) = flows.head(f) else { return self.heads.remove(f) };
        let state = flows.state(f);
        self.heads.set(f, state.start + Virtual::from(bytes) * Virtual::from(state.slope));
    }
}

impl Discipline for Scfq {
    type State = ScfqFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<ScfqFlow>) {
        for f in self.shares.all() {
            flows.state_mut(f).slope = self.shares.slope(f);
        }
    }

    /// The time goes on, and what a head is ahead of it stays as many bytes: at the old
    /// weight's length, others might send without end before it.
    fn succeed(&mut self, old: Scfq, flows: &mut Flows<ScfqFlow>, _: Time) {
        (self.now, self.serving) = (old.now, old.serving);
        for f in old.shares.all() {
            let state = flows.state_mut(f);
            let (from, to) = (state.slope.into(), self.shares.slope(f).into());
            state.start = shifted(state.start, self.now, from, to);
            if let Some(finish) = old.heads.tag(f) {
                self.heads.set(f, retagged(finish, self.now, from, to));
            }
        }
        self.start(flows);
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Time) {
        let state = flows.state_mut(f);
        state.start = state.start.max(self.now);
        self.follow(flows, f);
    }

    /// What left without having been taken is not charged for.
    fn offer_changed(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ScfqFlow>, _: Time, _: &Wire) -> Answer {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Answer::Idle, |(_, f)| Answer::Serve(f))
    }

    #[inline(always)]
    fn take(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Sent) {
        self.now = self.heads.tag(f).unwrap_or(self.now);
        flows.state_mut(f).start = self.now;
        self.serving = Some(f);
    }

    fn forgettable(&self, flows: &Flows<ScfqFlow>, f: FlowId, _: Time) -> bool {
        flows.state(f).start <= self.now
    }

    /// A head starts at `v` at the latest, so that a packet that fills its queue
    /// to `B` has the tag `v + B/w` at most; from there down to `v` each other
    /// flow has `w_j B/w` and a packet. Golestani's bound for a flow that keeps
    /// to its rate is the same.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        let others = self.shares.link().airtime_of_many(self.shares.one_of_each_other()) + ROUNDING;
        let delay = Bound {
            delay: self.shares.own_time(self.shares.full_queue(f), f) + others,
            formula: "B/r + (N - 1) L/C",
            condition: "packets that found room",
        };
        Ok(self.shares.promise(f, others, delay, Vec::new()))
    }
}
