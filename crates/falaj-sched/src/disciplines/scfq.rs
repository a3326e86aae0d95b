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
//!
//! That is so while all that comes is sent. Where a policy throws a head away, the
//! next one starts where it did and may finish before `v`. The time does not go back
//! to it: `v` is the largest tag that was in service, so that nobody who comes is
//! served for a time that was over.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Bound, Guarantees, Promise};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::contract::wfi::{ROUNDED, WfiFormula};
use crate::mechanisms::weights::{ROUNDING, Shares, Virtual, WEIGHT, retagged, shifted};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec::Vec;

/// How it is named and set.
pub const MANIFEST: Manifest = Manifest {
    kind: "scfq",
    doc: "self-clocked fair queueing: smallest finish tag first, the clock is the tag in service",
    source: "Golestani 1994",
    cost: "O(log N)",
    guarantee: "rate and delay",
    guarantee_source: "Golestani 1994",
    flow: &[WEIGHT],
    weight_key: Some("weight"),
    editable: &[("weight", "Weight")],
    wfi: Some(WfiFormula {
        formula: "phi sum of the others' L_j",
        condition: None,
        // While virtual time rises by `v`, another flow `j` sends at most `r_j v + L_j`, and the
        // flow itself, up to an own departure, `r_i v`.
        bytes: |f| f.phi * (f.all - f.own) + ROUNDED,
    }),
    ..Manifest::PLAIN
};

/// Self-clocked fair queueing.
#[derive(Debug, Clone)]
pub struct Scfq {
    shares: Shares,
    /// Finish tags of the heads.
    heads: Tournament<Virtual>,
    /// The largest finish tag of those that were in service.
    now: Virtual,
    /// Whose packet is in service or was the last one, until its next head is seen, and that
    /// packet's tag.
    serving: Option<FlowId>,
    finish: Virtual,
}

/// What it keeps for a flow: 12 bytes, so that with its queue and first packet it is one cache
/// line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub struct ScfqFlow {
    slope: u64,
    /// Length of the head.
    head: u32,
}

impl ScfqFlow {
    /// From the start to the finish of the head.
    fn lasts(self) -> Virtual {
        Virtual::from(self.head) * Virtual::from(self.slope)
    }
}

impl Scfq {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Scfq, ConfigErrors> {
        let shares = Shares::new(setup, "self-clocked fair queueing")?;
        Ok(Scfq {
            heads: Tournament::new(shares.flows()),
            shares,
            now: 0,
            serving: None,
            finish: 0,
        })
    }

    /// The flow's head is another now, which starts at `start`, or there is none.
    #[inline(always)]
    fn follow(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, start: Virtual) {
        let Some(bytes) = flows.head(f) else { return self.heads.remove(f) };
        let state = flows.state_mut(f);
        state.head = bytes;
        self.heads.set(f, start + state.lasts());
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
    fn migrate_from(&mut self, old: Scfq, flows: &mut Flows<ScfqFlow>, _: Time) {
        (self.now, self.serving, self.finish) = (old.now, old.serving, old.finish);
        for f in old.shares.all() {
            let (from, to) = (flows.state(f).slope.into(), self.shares.slope(f).into());
            if let Some(finish) = old.heads.tag(f) {
                self.heads.set(f, retagged(finish, self.now, from, to));
            }
            if self.serving == Some(f) {
                self.finish = shifted(self.finish, self.now, from, to);
            }
        }
        self.start(flows);
    }

    /// `v` is not below the tag of any packet that was sent.
    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Time) {
        self.follow(flows, f, self.now);
    }

    /// What left without having been taken is not charged for.
    fn head_changed(&mut self, flows: &mut Flows<ScfqFlow>, f: FlowId, _: Time) {
        let start = self
            .heads
            .tag(f)
            .map_or(self.now, |finish| finish.saturating_sub(flows.state(f).lasts()));
        self.follow(flows, f, start);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ScfqFlow>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f, self.finish);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<ScfqFlow>, f: FlowId, _: Sent) {
        self.finish = self.heads.tag(f).unwrap_or(self.now);
        self.now = self.now.max(self.finish);
        self.serving = Some(f);
    }
}

impl QueueHooks for Scfq {}
impl MediumHooks for Scfq {}

impl Guarantees for Scfq {
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
