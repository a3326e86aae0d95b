//! Virtual Clock.
//!
//! Zhang, "VirtualClock: a new traffic control algorithm for packet switching
//! networks" (1990). Each flow has a clock that a packet advances by its time at
//! the flow's rate, `aux = max(now, aux) + L/r`, when it comes; the smallest
//! reading goes first.
//!
//! Packets are stamped as when they come: a packet that waits longer than its
//! reading says has a successor that starts at its own arrival, not there. Who is thrown out costs
//! nothing.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Deadlines, DropImpact, Guarantees, Promise};
use crate::contract::hooks::{MediumHooks, QueueHooks, Thrown};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoPromise;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::substitute_arrivals::Steads;
use crate::mechanisms::timestamp::Chain;
use crate::mechanisms::weights::{Instant, ORIGIN, RATE, ROUNDING, instant, pace, rates, shifted};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// How it is named and set.
pub const MANIFEST: Manifest = Manifest {
    kind: "virtual-clock",
    doc: "virtual clock: each flow's packets at the times that its rate gives them; remembers \
          excess",
    source: "L. Zhang 1990",
    cost: "O(log N)",
    guarantee: "rate and delay, to a flow that keeps to an envelope",
    guarantee_source: "Figueira and Pasquale 1995",
    flow: &[RATE],
    editable: &[("rate", "Rate")],
    ..Manifest::PLAIN
};

/// What the clock shows, as a reading.
#[inline]
fn clock(now: Time) -> Instant {
    ORIGIN + instant(now)
}

/// Virtual Clock.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    rates: Vec<Rate>,
    paces: Vec<Instant>,
    /// How long after its reading a packet has left.
    late: Span,
    /// Readings of the heads.
    heads: Tournament<Instant>,
    steads: Steads<Instant>,
    serving: Option<FlowId>,
}

/// What it keeps for a flow.
#[derive(Debug, Clone, Default)]
pub struct ClockedFlow {
    /// The flow's clock, `aux`.
    clock: Chain,
}

impl VirtualClock {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<VirtualClock, ConfigErrors> {
        let rates = rates(setup, "virtual clock")?;
        let paces = rates.iter().map(|&rate| pace(rate)).collect();
        Ok(VirtualClock {
            heads: Tournament::new(rates.len()),
            steads: Steads::new(setup),
            rates,
            paces,
            late: setup.largest_airtime() + ROUNDING,
            serving: None,
        })
    }

    /// Time of so many bytes at the flow's rate.
    #[inline]
    fn length(&self, f: FlowId, bytes: u32) -> Instant {
        Instant::from(bytes) * self.paces[f.index()]
    }

    fn follow(&mut self, flows: &Flows<ClockedFlow, Instant>, f: FlowId) {
        match flows.head(f) {
            Some(bytes) => {
                let (clock, came) = (&flows.state(f).clock, self.steads.came(f, flows.head_tag(f)));
                self.steads.shows(f, clock.start(came));
                self.heads.set(f, clock.finish(came, self.length(f, bytes)));
            }
            None => self.heads.remove(f),
        }
    }
}

impl Discipline for VirtualClock {
    type State = ClockedFlow;
    /// When it came.
    type Tag = Instant;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<ClockedFlow, Instant>) {}

    fn retag(&self, old: &mut VirtualClock, f: FlowId, tag: Instant, now: Time) -> Instant {
        shifted(tag, clock(now), old.paces[f.index()], self.paces[f.index()])
    }

    /// What clocks are ahead stays as many bytes.
    fn migrate_from(
        &mut self,
        mut old: VirtualClock,
        flows: &mut Flows<ClockedFlow, Instant>,
        now: Time,
    ) {
        self.serving = old.serving;
        for f in (0..old.rates.len() as u32).map(FlowId) {
            flows.state_mut(f).clock.map(|reading| self.retag(&mut old, f, reading, now));
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        _: &mut Flows<ClockedFlow, Instant>,
        _: FlowId,
        _: u32,
        now: Time,
    ) -> Instant {
        clock(now)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, now: Time) {
        self.steads.ready(f, now);
        self.follow(flows, f);
    }

    /// Another discipline sent the head.
    fn head_changed(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, _: Time) {
        if let Some(reading) = self.heads.tag(f) {
            flows.state_mut(f).clock.left(reading);
        }
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ClockedFlow, Instant>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<ClockedFlow, Instant>, f: FlowId, sent: Sent) {
        let (came, length) = (self.steads.came(f, flows.head_tag(f)), self.length(f, sent.bytes));
        flows.state_mut(f).clock.sent(came, length);
        self.steads.taken(f, clock(sent.start));
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<ClockedFlow, Instant>, f: FlowId, now: Time) -> bool {
        flows.state(f).clock.is_over(clock(now))
    }
}

impl QueueHooks for VirtualClock {
    fn thrown_away(
        &mut self,
        flows: &mut Flows<ClockedFlow, Instant>,
        f: FlowId,
        _: u32,
        _: Thrown,
        now: Time,
    ) {
        self.steads.thrown_out(f, now);
        if let Some(reading) = self.heads.tag(f) {
            flows.state_mut(f).clock.thrown_out(reading);
        }
        self.follow(flows, f);
    }

    fn dropped_behind_head(
        &mut self,
        _: &mut Flows<ClockedFlow, Instant>,
        f: FlowId,
        _: u32,
        _: Time,
    ) {
        self.steads.dropped_behind_head(f);
    }
}

impl MediumHooks for VirtualClock {}

impl Guarantees for VirtualClock {
    /// Who is thrown out has not advanced the clock.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::Nobody
    }

    /// A reading may be any time ahead of a flow that sent more than its rate.
    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        Err(NoPromise(format!(
            "virtual clock promises {} only to a flow that never sends more: whoever used what \
             others left waits until his clock is right again, however long",
            self.rates[f.index()]
        )))
    }

    /// A packet leaves at most `L/C` after its reading (Figueira and Pasquale 1995), and that is
    /// when all that the flow sent since its clock was set to real time has had its time at the
    /// flow's rate.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        let rate = self.rates[f.index()];
        Some(Deadlines::new((rate, Span::ZERO, rate), self.late))
    }
}
