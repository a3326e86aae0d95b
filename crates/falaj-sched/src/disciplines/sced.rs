//! Service curve based earliest deadline first.
//!
//! Sariowan, Cruz and Polyzos, "SCED: a generalized scheduling policy for guaranteeing
//! quality-of-service" (1999). A flow has a service curve `S`: within a time `t` after it becomes
//! backlogged, it should get a service of `S(t)` bytes. When the flow becomes backlogged at time
//! `a`, after `c` bytes of service, its deadline curve is updated to `D := min(D, c + S(t - a))`. A
//! packet that ends at byte `y` of the flow has the deadline at which `D` reaches `y`. The packet
//! with the earliest deadline is sent first.
//!
//! Here `S` has two pieces: `burst-rate` for `burst-time`, then `rate`. Each piece is a part of a
//! line, and a line is represented by a clock that each byte advances, as in Virtual Clock. When a
//! flow becomes backlogged, clocks that are in the past are set to the present time.
//! - If `burst-rate` is above `rate`, then `S`, and any minimum of such curves, is the lower of two
//!   lines. The deadline is the later of the two clocks, which is exact.
//! - If `burst-rate` is below `rate`, `S` is the higher of two lines, and the deadline is the
//!   earlier of the two clocks. That is exact from any instant at which the flow was not ahead of
//!   its curve. While the flow is ahead, it is not exact, because a minimum of such curves may have
//!   any number of pieces. Then the flow's deadlines are not earlier than in SCED, so other flows
//!   still meet theirs. The flow's deadlines are not later than those of the second line alone, on
//!   which its delay bound relies.
//! - If both rates are equal, both clocks are that of Virtual Clock, which starts with the packet
//!   that arrived at the idle flow.
//!
//! A deadline depends only on the start of the backlog, so packets get their deadlines when they
//! become heads.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Deadlines, Guarantee, Guarantees};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::Manifest;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::curve::{Curve, LONGEST, fits};
use crate::mechanisms::weights::{Instant, RATE, ROUNDING, instant, rates};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "sced",
    doc: "service curve earliest deadline first: each flow has a service curve of two slopes; \
          service beyond the curve counts against the flow later",
    source: "Sariowan, Cruz and Polyzos 1999",
    cost: "O(log N)",
    guarantee: "its curve, to a flow that keeps to an envelope",
    guarantee_source: "Sariowan, Cruz and Polyzos 1999",
    aliases: &["service curve"],
    flow: &[
        RATE,
        Param {
            name: "burst-rate",
            kind: Kind::Rate,
            default: Some("the value of `rate`"),
            doc: "rate of the flow's curve during the first `burst-time` of a backlog; above \
                  `rate` it shortens delays, below it suits a flow that can wait",
        },
        Param {
            name: "burst-time",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "time from the start of a backlog for which `burst-rate` holds, up to 3600s",
        },
    ],
    editable: &[("rate", "Rate")],
    ..Manifest::PLAIN
};

/// Service curve based earliest deadline first.
#[derive(Debug, Clone)]
pub struct Sced {
    curves: Vec<Curve>,
    deadlines: Vec<Deadlines>,
    /// Flows with packets, ordered by the deadlines of their heads.
    heads: Tournament<Instant>,
    serving: Option<FlowId>,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct ScedFlow {
    /// The clocks of the two lines: before the head, or after the last packet if the queue is
    /// empty.
    clocks: [Instant; 2],
}

impl Sced {
    /// Validates the setup: the sum of the curves must stay below the line of the link's rate.
    pub fn new(setup: &Setup) -> Result<Sced, ConfigErrors> {
        let rates = rates(setup, "service curve earliest deadline first")?;
        let mut pieces = Vec::with_capacity(rates.len());
        for (flow, (f, rate)) in setup.flows.iter().zip(&rates).enumerate() {
            let refuse = |param, what: String, help: &str| ConfigError {
                flow: Some(flow),
                param,
                what,
                help: help.into(),
            };
            let (first, time) = (f.values.rate("burst-rate"), f.values.span("burst-time"));
            if first == Some(Rate(0)) {
                return Err(refuse(
                    "burst-rate",
                    "a rate of 0 gives no service".into(),
                    "any rate above 0",
                )
                .into());
            }
            if time.is_some_and(|t| t > LONGEST) {
                let help = "at most 3600s: it is for a burst at the start of a backlog";
                return Err(refuse("burst-time", "it lasts too long".into(), help).into());
            }
            pieces.push((first.unwrap_or(*rate), time.unwrap_or(Span::ZERO), *rate));
        }
        fits(setup, &pieces)?;
        let curve = |&(first, time, rate): &(Rate, Span, Rate)| Curve::new(first, time, rate);
        let late = setup.largest_airtime() + ROUNDING + Span(1);
        Ok(Sced {
            curves: pieces.iter().map(curve).collect(),
            deadlines: pieces.iter().map(|&pieces| Deadlines::new(pieces, late)).collect(),
            heads: Tournament::new(pieces.len()),
            serving: None,
        })
    }

    /// Sets the deadline of the head of `f` on its curve, if there is a head.
    fn follow(&mut self, flows: &mut Flows<ScedFlow>, f: FlowId) {
        let Some(bytes) = flows.head(f) else { return self.heads.remove(f) };
        let curve = &self.curves[f.index()];
        self.heads.set(f, curve.deadline(curve.after(flows.state(f).clocks, bytes)));
    }
}

impl Discipline for Sced {
    type State = ScedFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<ScedFlow>) {}

    /// The distance of the clocks from the present time stays the same in bytes, at the rates of
    /// the new curve.
    fn migrate_from(&mut self, old: Sced, flows: &mut Flows<ScedFlow>, now: Time) {
        self.serving = old.serving;
        for f in (0..old.curves.len() as u32).map(FlowId) {
            let state = flows.state_mut(f);
            state.clocks =
                self.curves[f.index()].inherit(&old.curves[f.index()], state.clocks, instant(now));
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<ScedFlow>, f: FlowId, now: Time) {
        for clock in &mut flows.state_mut(f).clocks {
            *clock = instant(now).max(*clock);
        }
        self.follow(flows, f);
    }

    /// A packet that was removed without transmission is not charged.
    fn head_changed(&mut self, flows: &mut Flows<ScedFlow>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<ScedFlow>, _: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        self.heads.first().map_or(Decision::Idle, |(_, f)| Decision::Serve(f))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<ScedFlow>, f: FlowId, sent: Sent) {
        let clocks = &mut flows.state_mut(f).clocks;
        *clocks = self.curves[f.index()].after(*clocks, sent.bytes);
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<ScedFlow>, f: FlowId, now: Time) -> bool {
        Curve::is_over(flows.state(f).clocks, instant(now))
    }
}

impl QueueHooks for Sced {}
impl MediumHooks for Sced {}

impl Guarantees for Sced {
    /// Without an envelope there is no guarantee, because excess service is charged without limit.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        Err(NoGuarantee(format!(
            "SCED guarantees its curve, {} in the long run, only to a flow that never exceeds it: \
             a flow that used others' capacity waits until its curve has caught up, however long \
             that takes",
            self.curves[f.index()].rate()
        )))
    }

    /// A packet leaves at most `L/C` after its deadline, because the sum of all curves is below the
    /// line of the link's rate; `L` is the largest packet, `C` the link's rate.
    fn deadlines(&self, f: FlowId) -> Option<Deadlines> {
        Some(self.deadlines[f.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{order_together, rate, setup, time, values};

    /// A's curve has a slope of 1/4 of the link's rate for the time of 4 B on the link, and then of
    /// 1/2; B's curve has 3/4 and then 1/2. A has the link alone at first; when B arrives, A has to
    /// wait because of this excess service.
    #[test]
    fn sced_makes_a_flow_pay_for_its_excess() {
        let curve = |burst| {
            values([("rate", rate(500)), ("burst-rate", rate(burst)), ("burst-time", time(4))])
        };
        let setup = setup(1, [curve(250), curve(750)]);
        let packets: Vec<_> = (0..6).flat_map(|_| [(0, 'A', 1), (4, 'B', 1)]).collect();
        let sent = order_together(&setup, Sced::new, &packets);
        let expected = "A1@1 A2@2 A3@3 A4@4 B1@5 B2@6 B3@7 B4@8 A5@9 B5@10 A6@11 B6@12";
        assert_eq!(sent, expected);
    }
}
