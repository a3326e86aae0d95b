//! DRR++ as MacGregor and Shi published it in 2000.
//!
//! There is one low-latency flow. While it has credit for its head, it is served before every
//! packet of the `n` normal flows. The normal flows are served by deficit round robin. At the end
//! of each of their cycles (one visit of each normal flow) the credit grows by `n Q`, where `Q` is
//! the low-latency flow's quantum. If the low-latency flow is then empty, the credit is set to
//! `n Q`; after an idle period it is `n Q` too. Without credit the flow waits for the end of the
//! cycle. Compared with [`crate::disciplines::drr_plus_plus`] its mean delay is better, but its
//! worst delay grows with `n` even for a single packet.
//!
//! # Bounds
//!
//! `B` bytes of the low-latency flow need at most `c = ceil(B/n Q)` ends of cycles, before which
//! each normal flow is visited at most `c` times. So the bytes have left when the link has sent
//! `B + c F + n (L-1)` bytes; `F` is the sum of the normal flows' quanta, `L` the largest packet.
//! `B` bytes of a normal flow with quantum `Q_i` need at most `m = ceil(B/Q_i)` visits, during
//! which at most `m` cycles end. The credit is never more than `n Q + L - 1`. So until the last of
//! these bytes has left, the other normal flows send at most `m (F - Q_i) + (n-1) (L-1)` bytes, and
//! the low-latency flow at most `(m+1) n Q + L-1`.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, StaircaseCurve, finite_rate, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::deficit::{DeficitFlow, DeficitRound, Quanta, Visits};
use crate::mechanisms::low_latency::of_low_latency;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::vec::Vec;

/// DRR++ as first published.
#[derive(Debug, Clone)]
pub struct Mw00 {
    quanta: Quanta,
    /// The low-latency flow.
    low: Option<FlowId>,
    credit: u64,
    /// Increase of the credit at the end of a cycle, `n Q`.
    raise: u64,
    round: DeficitRound,
    /// Number of visits until the end of the cycle.
    left: u32,
    /// True if no cycle of normal flows has begun since the last increase of the credit.
    fresh: bool,
}

impl Mw00 {
    /// Validates the setup: as there is only one credit, there may be at most one low-latency flow.
    pub fn new(setup: &Setup) -> Result<Mw00, ConfigErrors> {
        finite_rate(setup, "DRR++")?;
        room_for_one(setup)?;
        let quanta = Quanta::new(setup)?;
        let low = of_low_latency(setup);
        let those: Vec<FlowId> = quanta.flows(|f| low[f.index()]).collect();
        let low = those.first().copied();
        if let Some(second) = those.get(1) {
            return Err(ConfigError {
                flow: Some(second.index()),
                param: "latency",
                what:
                    "the form `mw00` keeps credit for one flow of low latency, and there is another"
                        .into(),
                help:
                    "`normal`, or `form = \"modified\"` in the scheduler, where several take turns"
                        .into(),
            }
            .into());
        }
        let normal = quanta.each.len() as u64 - u64::from(low.is_some());
        let raise = low.map_or(0, |f| quanta.of(f) * normal.max(1));
        Ok(Mw00 {
            quanta,
            low,
            credit: raise,
            raise,
            round: DeficitRound::EMPTY,
            left: 0,
            fresh: true,
        })
    }
}

impl Discipline for Mw00 {
    type State = DeficitFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<DeficitFlow>) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) = DeficitFlow::new(quantum);
        }
    }

    /// The round, the cycle and the deficits are kept. If the low-latency flow stays the same, the
    /// credit is kept up to the maximum that the new setup allows; otherwise the credit is `n Q`.
    /// If the low-latency flow becomes a normal flow, it joins the round last.
    fn migrate_from(&mut self, mut old: Mw00, flows: &mut Flows<DeficitFlow>, _: Time) {
        for (f, &quantum) in self.quanta.each.iter().enumerate() {
            flows.state_mut(FlowId(f as u32)).set_quantum(quantum);
        }
        if old.low == self.low {
            self.credit = old.credit.min(self.raise + self.quanta.largest);
        }
        self.fresh = old.fresh;
        let left = old.left as usize;
        let (order, visited) = old.round.dissolve(flows);
        for (n, f) in order.into_iter().enumerate().filter(|&(_, f)| Some(f) != self.low) {
            self.round.join(flows, f);
            self.left += u32::from(n < left);
        }
        if let Some(f) = visited {
            self.round.resume(f);
        }
        if let Some(f) = old.low.filter(|&f| Some(f) != self.low && flows.head(f).is_some()) {
            self.round.join(flows, f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<DeficitFlow>, f: FlowId, _: Time) {
        if Some(f) != self.low {
            self.round.join(flows, f);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<DeficitFlow>, _: Time, _: &Wire) -> Decision {
        if self.round.conclude(flows) {
            self.left -= 1;
        }
        loop {
            let urgent = self.low.and_then(|f| Some((f, flows.head(f)?)));
            if let Some((f, _)) = urgent.filter(|&(_, bytes)| u64::from(bytes) <= self.credit) {
                return Decision::Serve(f);
            }
            if self.left > 0 {
                if let Some(f) = self.round.visit(flows) {
                    return Decision::Serve(f);
                }
                self.left -= 1;
                continue;
            }
            // Handles the end of a cycle, if there was one.
            if !self.fresh || self.round.first().is_none() {
                self.credit = if urgent.is_some() { self.credit + self.raise } else { self.raise };
            }
            self.left = self.round.len();
            self.fresh = self.left == 0;
            if self.left == 0 && urgent.is_none() {
                return Decision::Idle;
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<DeficitFlow>, f: FlowId, sent: Sent) {
        if Some(f) == self.low {
            self.credit = self.credit.saturating_sub(sent.bytes.into());
        } else {
            flows.state_mut(f).pay(sent.bytes);
        }
    }
}

impl Mw00 {
    /// The visits of `f`, and the formulas of its rate and its delay.
    fn visits_with_credit(&self, f: FlowId) -> (Visits, &'static str, &'static str) {
        let visits = self.quanta.visits(f, |j| j != f && Some(j) != self.low);
        let normal = self.quanta.flows(|j| Some(j) != self.low).count() as u64;
        let carried = self.quanta.largest - 1;
        if Some(f) == self.low {
            let once = normal * carried;
            let visits = Visits { quantum: self.raise, once, ..visits };
            (visits, "C n Q/(n Q + F)", "(B + c F + n (L-1))/C, c = ceil(B/(n Q))")
        } else if self.low.is_some() {
            let once = normal * carried + self.raise;
            let visits = Visits { between: visits.between + self.raise, once, ..visits };
            (visits, "C Q_i/(F + n Q)", "(B + m (F-Q_i) + (m+1) n Q + n (L-1))/C, m = ceil(B/Q_i)")
        } else {
            (visits, "C Q/sum Q", "(B + sum over others of (m Q_j + L))/C, m = ceil(B/Q)")
        }
    }
}

impl QueueHooks for Mw00 {}
impl MediumHooks for Mw00 {}

impl Guarantees for Mw00 {
    /// See the module's documentation.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let (visits, rate_formula, formula) = self.visits_with_credit(f);
        Ok(Guarantee {
            rate: visits.rate(),
            latency: visits.latency(),
            rate_formula,
            delay: Bound {
                delay: visits.delay(self.quanta.full_queue(f)),
                formula,
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        Some(self.visits_with_credit(f).0.turns())
    }
}
