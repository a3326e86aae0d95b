//! Virtual Clock.
//!
//! Zhang, "VirtualClock: a new traffic control algorithm for packet switching
//! networks" (1990). Each flow has a clock that a packet advances by its time at
//! the flow's rate, `aux = max(now, aux) + L/r`, when it comes; the smallest
//! reading goes first.
//!
//! Packets are stamped when they come: a packet that waits longer than its
//! reading says has a successor that starts at its own arrival, not there.

use crate::discipline::{Answer, Discipline, Sent};
use crate::heap::Heap;
use crate::params::{Refusals, Setup};
use crate::promise::{Deadlines, NoPromise, Promise};
use crate::queue::{FlowId, Flows};
use crate::rate::{Rate, Wire};
use crate::registry::Entry;
use crate::shares::{Instant, RATE, ROUNDING, instant, pace, rates, retagged};
use crate::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// How it is named and set.
pub const ENTRY: Entry = Entry {
    kind: "virtual-clock",
    doc: "virtual clock: each flow's packets at the times that its rate gives them; remembers excess",
    source: "L. Zhang 1990",
    scheduler: &[],
    flow: &[RATE],
};

/// Virtual Clock.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    rates: Vec<Rate>,
    paces: Vec<Instant>,
    /// How long after its reading a packet has left.
    late: Span,
    /// Readings of the heads.
    heads: Heap<Instant>,
    serving: Option<FlowId>,
}

/// What it keeps for a flow.
#[derive(Debug, Clone, Default)]
pub struct ClockedFlow {
    /// The flow's clock.
    aux: Instant,
}

impl VirtualClock {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<VirtualClock, Refusals> {
        let rates = rates(setup, "virtual clock")?;
        let paces = rates.iter().map(|&rate| pace(rate)).collect();
        Ok(VirtualClock {
            heads: Heap::new(rates.len()),
            rates,
            paces,
            late: setup.largest_airtime() + ROUNDING,
            serving: None,
        })
    }

    fn follow(&mut self, flows: &Flows<ClockedFlow, Instant>, f: FlowId) {
        match flows.head(f) {
            Some(_) => self.heads.set(f, flows.head_tag(f)),
            None => self.heads.remove(f),
        }
    }
}

impl Discipline for VirtualClock {
    type State = ClockedFlow;
    type Tag = Instant;

    fn start(&mut self, _: &mut Flows<ClockedFlow, Instant>) {}

    fn retag(&self, old: &mut VirtualClock, f: FlowId, tag: Instant, now: Time) -> Instant {
        retagged(tag, instant(now), old.paces[f.index()], self.paces[f.index()])
    }

    /// What clocks are ahead stays as many bytes.
    fn succeed(&mut self, mut old: VirtualClock, flows: &mut Flows<ClockedFlow, Instant>, now: Time) {
        self.serving = old.serving;
        for f in (0..old.rates.len() as u32).map(FlowId) {
            let aux = self.retag(&mut old, f, flows.state(f).aux, now);
            flows.state_mut(f).aux = aux;
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, bytes: u32, now: Time) -> Instant {
        let state = flows.state_mut(f);
        let own = Instant::from(bytes) * self.paces[f.index()];
        state.aux = state.aux.max(instant(now)).saturating_add(own);
        state.aux
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    fn offer_changed(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ClockedFlow, Instant>, _: Time, _: &Wire) -> Answer {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Answer::Idle, |(_, f)| Answer::Serve(f))
    }

    #[inline(always)]
    fn take(&mut self, _: &mut Flows<ClockedFlow, Instant>, f: FlowId, _: Sent) {
        self.serving = Some(f);
    }

    fn forgettable(&self, flows: &Flows<ClockedFlow, Instant>, f: FlowId, now: Time) -> bool {
        flows.state(f).aux <= instant(now)
    }

    /// A reading may be any time ahead of a flow that sent more than its rate.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        Err(NoPromise(format!(
            "virtual clock promises {} only to a flow that never sends more: whoever used what others left waits \
             until his clock is right again, however long",
            self.rates[f.index()]
        )))
    }

    /// A packet leaves at most `L/C` after its reading (Figueira and Pasquale 1995), and that is when all that the flow sent
    /// since its clock was set to real time has had its time at the flow's rate.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let rate = self.rates[f.index()];
        Some(Deadlines::new((rate, Span::ZERO, rate), self.late))
    }
}
