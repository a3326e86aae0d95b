//! Xen's network back end: a credit per period, and turns.
//!
//! Each virtual adapter may send `credit` bytes in a `period`. An adapter that has used up its
//! credit waits for the next period. Adapters with credit take turns, one packet each. That is all
//! that the scheduler of Xen 4 does. Adamczyk and Chydzinski (2011) describe and measure it: it
//! limits rates, but guarantees nothing. They propose `xen-wrr` instead.
//!
//! As in the driver, a period begins with the first packet after the end of the previous one, and
//! the rest of a credit is lost at the end of its period. So twice the credit may be sent within a
//! short time, at the end of one period and the start of the next. A packet is compared with the
//! rest of the credit when it becomes the head.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Idling, Manifest};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::{Place, Round};
use crate::mechanisms::bucket::ids;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "netback",
    doc: "Xen's network back end: each flow may send a number of bytes in each period, and flows \
          take turns, one packet each",
    source: "Xen 4 netback; Adamczyk and Chydzinski 2011",
    cost: "O(log N)",
    guarantee: "nothing; it only caps rates",
    guarantee_source: "—",
    aliases: &["xen netback", "credit scheduler"],
    scheduler: &[Param {
        name: "period",
        kind: Kind::Span,
        default: Some("50ms"),
        doc: "length of a period: when it is over, a flow may send its whole `credit` again; \
              unused credit is lost",
    }],
    flow: &[Param {
        name: "credit",
        kind: Kind::Bytes,
        default: Some("no limit"),
        doc: "maximum number of bytes that the flow may send in each period; at least one largest \
              packet",
    }],
    idles: Idling::because("flows wait for credit"),
    editable: &[("credit", "Cap: bytes in a period")],
    draw: Draw::by(&[("period", draw::period)]),
    ..Manifest::PLAIN
};

const USUAL_PERIOD: Span = Span::from_millis(50);

/// Xen's network back end.
#[derive(Debug, Clone)]
pub struct Netback {
    period: Span,
    credits: Vec<Option<u64>>,
    round: Round,
    /// Adapters whose head exceeds the rest of their credit, ordered by the end of their period.
    held: Tournament<Time>,
    serving: Option<FlowId>,
}

/// State of an adapter.
#[derive(Debug, Clone, Default)]
pub struct NetbackFlow {
    /// End of the adapter's current period.
    until: Time,
    /// Bytes left of the credit of that period.
    left: u64,
    place: Place,
}

impl AsMut<Place> for NetbackFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Netback {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Netback, ConfigErrors> {
        finite_rate(setup, "Xen's network back end")?;
        room_for_one(setup)?;
        let period = setup.scheduler.span("period").unwrap_or(USUAL_PERIOD);
        if period == Span::ZERO {
            let (what, help) = ("a period of 0 caps nothing".into(), "such as Xen's `50ms`".into());
            return Err(ConfigError { flow: None, param: "period", what, help }.into());
        }
        let mut credits = Vec::with_capacity(setup.flows.len());
        for (flow, f) in setup.flows.iter().enumerate() {
            let credit = f.values.bytes("credit");
            if credit.is_some_and(|credit| credit < setup.largest.into()) {
                let what =
                    format!("a packet of {} B would never be sent with that credit", setup.largest);
                let help = format!("at least `{}B`, or leave it out for no cap", setup.largest);
                return Err(ConfigError { flow: Some(flow), param: "credit", what, help }.into());
            }
            credits.push(credit);
        }
        Ok(Netback {
            period,
            held: Tournament::new(credits.len()),
            credits,
            round: Round::EMPTY,
            serving: None,
        })
    }

    /// Updates the state of `f` when a packet has become its head: the flow joins the round, or
    /// waits for the next period.
    fn follow(&mut self, flows: &mut Flows<NetbackFlow>, f: FlowId, now: Time) {
        self.held.remove(f);
        let Some(bytes) = flows.head(f) else { return };
        if let Some(credit) = self.credits[f.index()] {
            let state = flows.state_mut(f);
            if state.until <= now {
                (state.until, state.left) = (now + self.period, credit);
            }
            if u64::from(bytes) > state.left {
                return self.held.set(f, state.until);
            }
        }
        self.round.join(flows, f);
    }
}

impl Discipline for Netback {
    type State = NetbackFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<NetbackFlow>) {}

    /// The order of turns is kept. Bytes that were sent in a current period count against the new
    /// credit, and the period ends at its planned time.
    fn migrate_from(&mut self, mut old: Netback, flows: &mut Flows<NetbackFlow>, now: Time) {
        let turns = old.round.dissolve(flows);
        for f in ids(old.credits.len()) {
            let state = flows.state_mut(f);
            match (old.credits[f.index()], self.credits[f.index()]) {
                (Some(was), Some(is)) => state.left = is.saturating_sub(was - state.left.min(was)),
                _ => state.until = Time::ZERO,
            }
        }
        let waiting: Vec<FlowId> =
            ids(old.credits.len()).filter(|&f| old.held.tag(f).is_some()).collect();
        for f in turns.into_iter().chain(waiting) {
            if old.serving != Some(f) {
                self.follow(flows, f, now);
            }
        }
        self.serving = old.serving;
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<NetbackFlow>, f: FlowId, now: Time) {
        self.follow(flows, f, now);
    }

    fn head_changed(&mut self, flows: &mut Flows<NetbackFlow>, f: FlowId, now: Time) {
        if self.held.tag(f).is_some() {
            self.follow(flows, f, now);
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<NetbackFlow>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f, now);
        }
        while let Some((then, f)) = self.held.first()
            && then <= now
        {
            self.follow(flows, f, now);
        }
        while let Some(f) = self.round.first() {
            // The head may be another packet than the one that was compared with the credit.
            let state = flows.state(f);
            let fits =
                |bytes: u32| self.credits[f.index()].is_none() || u64::from(bytes) <= state.left;
            match flows.head(f) {
                Some(bytes) if fits(bytes) => return Decision::Serve(f),
                _ => {
                    self.round.leave(flows);
                    self.follow(flows, f, now);
                }
            }
        }
        self.held.first().map_or(Decision::Idle, |(then, _)| Decision::NotBefore(then))
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<NetbackFlow>, f: FlowId, sent: Sent) {
        self.round.leave(flows);
        let state = flows.state_mut(f);
        state.left = state.left.saturating_sub(sent.bytes.into());
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<NetbackFlow>, f: FlowId, now: Time) -> bool {
        self.credits[f.index()].is_none() || flows.state(f).until <= now
    }
}

impl QueueHooks for Netback {}
impl MediumHooks for Netback {}

impl Guarantees for Netback {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        Err(NoGuarantee(match self.credits[f.index()] {
            Some(credit) => format!(
                "a credit of {credit} B in {} is a maximum rate and no guarantee: flows take turns \
                 by packets of any length; use `mclock`, which has a reservation and a limit",
                self.period
            ),
            None => {
                "flows take turns by packets of any length, so no rate is guaranteed: use `drr`, \
                 which counts bytes"
                    .into()
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{Value, Values};
    use crate::scheduler::worked_example::{order, setup, time, values};

    /// A may send 6 B in each period of 20 us (a byte takes 1 us): two packets of 3 B. Then it
    /// waits until the period is over, and the next period begins with its third packet. B takes
    /// turns with it.
    #[test]
    fn a_credit_lasts_for_a_period() {
        let mut setup = setup(4, [values([("credit", Value::Bytes(6))]), Values::default()]);
        setup.scheduler = values([("period", time(20))]);
        let all = [[(2, 'A', 3); 4].as_slice(), &[(2, 'B', 4); 3]].concat();
        let sent = order(&setup, Netback::new, &all);
        assert_eq!(sent, "A1@5 B1@9 A2@12 B2@16 B3@20 A3@25 A4@28");
        // The next period begins at 43, with the first packet after the end of the previous period.
        let later = [all.as_slice(), &[(43, 'A', 4), (44, 'A', 4), (61, 'A', 2)]].concat();
        let sent = order(&setup, Netback::new, &later);
        assert_eq!(sent, "A1@5 B1@9 A2@12 B2@16 B3@20 A3@25 A4@28 A5@47 A6@67 A7@69");
    }
}
