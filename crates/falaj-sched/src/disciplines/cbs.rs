//! The credit-based shaper of IEEE 802.1Qav (802.1Q-2022, 8.6.8.2).
//!
//! Each flow is a traffic class; the first flow of the scenario is the highest class. A class with
//! an `idle-slope` has a credit. The credit rises by the idle slope while the class has packets or
//! a negative credit. It falls while the class sends, by the send slope, which the standard defines
//! as the idle slope minus the link's rate. The head may be sent if the credit is not negative. A
//! positive credit is lost when the queue becomes empty. Classes without a slope may always send.
//! Of the classes that may send, the highest sends.
//!
//! So a class may wait even on a free link. After a delay it catches up only the service that it
//! missed while others sent. Credit is counted in bits times 10^9: each nanosecond adds the slope
//! in bit/s, and each byte costs 8 x 10^9, so nothing is rounded.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::oversubscription::Excess;
use crate::mechanisms::weights::ROUNDING;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{BIT_NANOS, Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "cbs",
    doc: "credit-based shaper of 802.1Qav: each flow is a traffic class, the first one the \
          highest; a class with an `idle-slope` sends only while its credit is not negative",
    source: "IEEE 802.1Qav 2009; bounds: Zhao, Pop and others 2018",
    cost: "O(N)",
    guarantee: "idle slope and delay, if all classes up to its own have slopes and these fit on \
                the link",
    guarantee_source: "Zhao, Pop and others 2018",
    purposes: &[Purpose::Rate],
    aliases: &["credit-based shaper", "802.1qav", "avb"],
    example: Example { scheduler: "", calls: "idle-slope = \"20mbit\"", rest: "" },
    flow: &[Param {
        name: "idle-slope",
        kind: Kind::Rate,
        default: Some("none: the class is not shaped, and sends whenever no higher class may"),
        doc: "rate at which the class earns credit while it waits to send; it is both the \
              guaranteed and the maximum rate of the class",
    }],
    idles: Idling::because("a class waits for credit"),
    oversubscribed_by: Some("idle-slope"),
    cap_key: Some("idle-slope"),
    editable: &[("idle-slope", "Rate of the class")],
    ..Manifest::PLAIN
};

/// The credit-based shaper.
#[derive(Debug, Clone)]
pub struct Cbs {
    /// Idle slopes, by class; `None` for a class that is not shaped.
    slopes: Vec<Option<Rate>>,
    serving: Option<FlowId>,
    rate: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// State of a class.
#[derive(Debug, Clone, Default)]
pub struct CbsFlow {
    /// Credit in bits times 10^9, at `since`.
    credit: i128,
    since: Time,
    waits: bool,
}

impl CbsFlow {
    #[inline]
    fn settle(&mut self, slope: Rate, now: Time) {
        let earned = i128::from(slope.0).saturating_mul(now.since(self.since).0.into());
        self.credit = self.credit.saturating_add(earned);
        if !self.waits {
            self.credit = self.credit.min(0);
        }
        self.since = now;
    }

    /// Time from which the credit is not negative.
    fn recovers(&self, slope: Rate) -> Time {
        let missing = u128::try_from(-self.credit).unwrap_or(0).div_ceil(slope.0.into());
        self.since + Span(u64::try_from(missing).unwrap_or(u64::MAX))
    }
}

impl Cbs {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Cbs, ConfigErrors> {
        finite_rate(setup, "the credit-based shaper")?;
        room_for_one(setup)?;
        let mut slopes = Vec::with_capacity(setup.flows.len());
        for (flow, f) in setup.flows.iter().enumerate() {
            let slope = f.values.rate("idle-slope");
            if slope.is_some_and(|slope| slope.0 == 0 || slope > setup.rate) {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "idle-slope",
                    what: format!("{} is out of range", slope.unwrap_or(Rate(0))),
                    help: format!(
                        "above 0, and at most the link's {}; or leave it out for best effort",
                        setup.rate
                    ),
                }
                .into());
            }
            slopes.push(slope);
        }
        Ok(Cbs {
            slopes,
            serving: None,
            rate: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// Updates the credit of `f`, and sets a positive credit to zero if the flow has no packets.
    fn follow(&self, flows: &mut Flows<CbsFlow>, f: FlowId, now: Time) {
        let waits = flows.head(f).is_some();
        let state = flows.state_mut(f);
        if let Some(slope) = self.slopes[f.index()] {
            state.settle(slope, now);
        }
        state.waits = waits;
        if !waits {
            state.credit = state.credit.min(0);
        }
    }
}

impl Discipline for Cbs {
    type State = CbsFlow;
    type Tag = ();

    fn start(&mut self, _: &mut Flows<CbsFlow>) {}

    /// Credit is kept, in bits; a class that gets or loses its slope begins without credit.
    fn migrate_from(&mut self, old: Cbs, flows: &mut Flows<CbsFlow>, now: Time) {
        self.serving = old.serving;
        for (f, slopes) in old.slopes.iter().zip(&self.slopes).enumerate() {
            let state = flows.state_mut(FlowId(f as u32));
            match slopes {
                (Some(slope), Some(_)) => state.settle(*slope, now),
                _ => (state.credit, state.since) = (0, now),
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<CbsFlow>, f: FlowId, now: Time) {
        self.follow(flows, f, now);
    }

    fn head_changed(&mut self, flows: &mut Flows<CbsFlow>, f: FlowId, now: Time) {
        self.follow(flows, f, now);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<CbsFlow>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f, now);
        }
        let mut then = Time::NEVER;
        for (f, &slope) in self.slopes.iter().enumerate() {
            let f = FlowId(f as u32);
            if flows.head(f).is_none() {
                continue;
            }
            let Some(slope) = slope else { return Decision::Serve(f) };
            let state = flows.state_mut(f);
            state.settle(slope, now);
            if state.credit >= 0 {
                return Decision::Serve(f);
            }
            then = then.min(state.recovers(slope));
        }
        if then < Time::NEVER { Decision::NotBefore(then) } else { Decision::Idle }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<CbsFlow>, f: FlowId, sent: Sent) {
        if let Some(slope) = self.slopes[f.index()] {
            let state = flows.state_mut(f);
            state.settle(slope, sent.start);
            state.credit -= i128::from(sent.bytes) * i128::from(BIT_NANOS);
        }
        self.serving = Some(f);
    }

    fn is_reusable(&self, flows: &Flows<CbsFlow>, f: FlowId, now: Time) -> bool {
        self.slopes[f.index()].is_none_or(|slope| flows.state(f).recovers(slope) <= now)
    }
}

impl QueueHooks for Cbs {}
impl MediumHooks for Cbs {}

impl Guarantees for Cbs {
    /// Let `C` be the link's rate, `L` the largest packet, `s` the slope of a class, and `S` the
    /// sum of the higher classes' slopes. The sum of the higher classes' credits rises by at most
    /// `S` per second, and falls by `C - S` per second while one of them sends. No credit of a
    /// class is below its floor, `-(C - s)L/C`. So the higher classes and one packet of a lower
    /// class delay this class by at most `(m + L)/(C - S)`, where `m` is the sum of the floors'
    /// absolute values (Zhao and others). A credit is never above the credit earned in that time,
    /// nor below its floor. The bytes sent while there are packets equal the earned credit minus
    /// the change of credit.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let Some(slope) = self.slopes[f.index()] else {
            return Err(NoGuarantee(
                "a class without an `idle-slope` gets what the others leave".into(),
            ));
        };
        let (mut above, mut floors) = (0u128, 0u128);
        for (n, higher) in self.slopes[..f.index()].iter().enumerate() {
            let Some(higher) = higher else {
                return Err(NoGuarantee(format!(
                    "class {}, which is higher, is not shaped and may fill the link: give that class an `idle-slope`, or define it after this one",
                    n + 1
                )));
            };
            above += u128::from(higher.0);
            floors += u128::from(self.rate.0 - higher.0) * u128::from(self.largest);
        }
        let up_to_it = self.slopes[..=f.index()].iter().enumerate();
        let up_to_it = up_to_it.filter_map(|(n, slope)| Some((n, (*slope)?)));
        if let Some(excess) = Excess::of("idle-slope", up_to_it, self.rate) {
            return Err(NoGuarantee(excess.words("up to this class the flows'")));
        }
        let left = u128::from(self.rate.0) - above;
        let waits = (floors / u128::from(self.rate.0) + u128::from(self.largest) + 1)
            * u128::from(BIT_NANOS);
        let waits = Span(u64::try_from(waits.div_ceil(left)).unwrap_or(u64::MAX)) + ROUNDING;
        let own = slope.airtime(self.largest);
        Ok(Guarantee {
            rate: slope,
            latency: waits + own,
            rate_formula: "the idle slope s",
            delay: Bound {
                delay: slope.airtime_of_many(
                    self.full_queues[f.index()].saturating_add(self.largest.into()),
                ) + waits,
                formula: "(B + L)/s + (sum (C - s')L/C + L)/(C - sum s'), s' of the higher classes",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// Returns true: the credit stays within the same bounds at any time in a backlog, so the rate
    /// holds over any interval.
    fn serves_strictly(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Values;
    use crate::scheduler::worked_example::{at_once, order, rate, setup, values};

    /// A and B have slopes of a half and a quarter of the link, and C is best effort. C sends from
    /// 12 to 16, when both credits are negative.
    #[test]
    fn credit_is_earned_while_others_send() {
        let slope = |thousandths| values([("idle-slope", rate(thousandths))]);
        let setup = setup(4, [slope(500), slope(250), Values::default()]);
        let sent = |packets: &[(u64, char, u32)]| order(&setup, Cbs::new, packets);
        // B begins at 4 with a credit of 1 B, and has -2 B at 8 and 0 B at 16. A has -2 B at 4, 0 B
        // at 8, -2 B at 12, and 0 B at 16.
        let all = [at_once("AAABBC", 4), at_once("C", 1)].concat();
        assert_eq!(sent(&all), "A1@4 B1@8 A2@12 C1@16 A3@20 B2@24 C2@25");
        // Even if A is alone, it is shaped to 4 B every 8 us.
        assert_eq!(sent(&all[..3]), "A1@4 A2@12 A3@20");
        // An idle flow saves no credit.
        assert_eq!(sent(&[(0, 'C', 4), (20, 'A', 4), (20, 'A', 4)]), "C1@4 A1@24 A2@32");
    }
}
