//! The service that a work-conserving link leaves over for a flow, from the envelopes of the flows
//! that may be served before it.
//!
//! The link has the rate `C`. Each flow has a rank, and flows of lower ranks are served earlier.
//! From some instant on, packets of the flow's rank or of lower ranks are queued without a pause.
//! A packet of the flow comes a time `x` after that instant, and leaves a time `t` after it. Up to
//! any instant before `t` the link has sent less than has come: `C t < a(x) + b(t) + once`. Here
//! `a` is the envelope of the flow, whose packets keep their order. `b` is the sum of the envelopes
//! of all other flows of its rank and of lower ranks. `once` counts the bytes that flows of higher
//! ranks still send after the first instant. So the flow is served by the curve
//! `C t - b(t) - once`, made non-decreasing (Le Boudec and Thiran 2001, theorem 6.2.1). Bits are
//! counted, and a packet has left with its last bit, so nothing is added for packets.
//!
//! If packets are served in the order of their deadlines, a packet of flow `j` is due `d_j` after
//! its arrival. Consider a packet of a flow whose own time is `d`. From some instant on, packets
//! that are due no later than this packet are queued without a pause; the packet comes `x` after
//! that instant. Packets of flow `j` that are served before it came by `x + d - d_j`. So the packet
//! has left when `C t` reaches the sum of all `a_j(x + d - d_j)` and `once`, a packet of a later
//! deadline that was on the wire. The source is Liebeherr, Wrege and Ferrari, "Exact admission
//! control for networks with a bounded delay service" (1996).

use super::envelope::Envelope;
use super::served::Served;
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{ArrivalWindow, Precedence};
use falaj_sched::contract::params::Setup;
use falaj_sched::registry;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, exact, slope};
use std::collections::BTreeMap;

/// The conditions under which a flow has a bound by left-over service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Given {
    /// The flow keeps to its envelope.
    Own,
    /// All flows keep to the envelopes that they declare.
    Declared,
    /// The traffic is no more than the traffic of the scenario's sources.
    Sources,
}

/// The service that is left over for a flow.
pub(crate) struct LeftOver {
    /// Service in bytes within a time, from the beginning of a backlog of the flow's rank or of
    /// lower ranks.
    pub(crate) service: Curve,
    /// Bound on the bytes that other flows send within a time.
    pub(crate) before: Curve,
    /// The conditions under which this service is left over.
    pub(crate) given: Given,
    /// The formula of the delay bound that follows.
    pub(crate) formula: &'static str,
    /// If packets are served by deadlines: a bound on the bytes that leave no later than a packet
    /// that comes at a given time. The delay is then the distance from this curve to `service`, not
    /// from the envelope.
    pub(crate) due: Option<Curve>,
}

/// The sum of the envelopes of several flows.
#[derive(Clone)]
struct Sum {
    curve: Curve,
    /// Number of flows whose envelopes are unknown.
    unknown: usize,
    /// Number of flows whose envelopes were derived from the scenario's sources.
    derived: usize,
}

impl Sum {
    const fn of(curve: Curve) -> Sum {
        Sum { curve, unknown: 0, derived: 0 }
    }

    fn add(&mut self, part: &Part) {
        match part {
            Some((curve, declared)) => {
                self.curve = self.curve.sum(curve);
                self.derived += usize::from(!declared);
            }
            None => self.unknown += 1,
        }
    }
}

/// The envelope of one flow, and true if the scenario declares it; `None` if it is unknown.
type Part = Option<(Curve, bool)>;

/// The flows of a work-conserving link, by the order in which they may be served.
pub(crate) struct Rivals {
    rate: Rate,
    places: Vec<Precedence>,
    parts: Vec<Part>,
    /// Curves of the [contracts](Precedence::contract); `None` for flows without one.
    within: Vec<Part>,
    all: Sum,
    /// By rank, the sum over the flows of this rank and of all lower ranks.
    ranks: BTreeMap<u32, Sum>,
    /// By rank, the sum of the contracts of this rank and of all lower ranks.
    contracts: BTreeMap<u32, Sum>,
    /// The sum of all envelopes, each shifted to later times by the deadline of its flow; `None` if
    /// packets have no deadlines.
    by_deadline: Option<Sum>,
}

/// The formula for a flow that has the link, or its rank, to itself.
const ALONE: &str = "h(envelope, C t)";
/// Number of flows above which only the token bucket with the lowest rate stands for an envelope.
const FINE: usize = 200;
/// Number of windows of a contract for which the curve has pieces of their own.
const WINDOWS: u64 = 20;

impl Rivals {
    /// The rivals on a link. `None` if the link does not send at one limited rate, has masks, is
    /// paced by a device or has no guarantees; if it may be idle while packets wait; or if packets
    /// of a flow may overtake each other.
    pub(crate) fn of<'a>(
        pipe: &PipeSpec,
        served: &Served,
        envelopes: impl Iterator<Item = Option<&'a Envelope>>,
    ) -> Option<Rivals> {
        let plain = pipe.capacity == Capacity::Serialise
            && pipe.masks.is_none()
            && pipe.clone().no_guarantee().is_none()
            && pipe.held_by_device() == Span::ZERO
            && !pipe.setup.rate.is_unlimited();
        if !plain || !conserves_work(pipe.kind, &pipe.setup) {
            return None;
        }
        let envelopes: Vec<Option<&Envelope>> = envelopes.collect();
        let coarse = envelopes.len() > FINE;
        let part = |envelope: &Option<&Envelope>| {
            let envelope = (*envelope)?;
            let slowest = envelope.buckets.iter().min().filter(|_| coarse);
            let curve = slowest.map_or_else(
                || envelope.curve.clone(),
                |&(rate, burst)| Curve::token_bucket(rate, burst),
            );
            Some((curve, envelope.is_declared()))
        };
        let parts: Vec<Part> = envelopes.iter().map(part).collect();
        let known = served.places.len() == parts.len();
        let places =
            if known { served.places.clone() } else { vec![Precedence::default(); parts.len()] };
        let window = |place: &Precedence| {
            Some((Curve::windows(&place.contract?, if coarse { 1 } else { WINDOWS }), true))
        };
        let within: Vec<Part> = places.iter().map(window).collect();
        let zero = Sum::of(Curve::zero());
        let mut all = zero.clone();
        parts.iter().for_each(|part| all.add(part));
        let by_rank = |counts: &dyn Fn(&Precedence) -> bool, parts: &[Part]| {
            let mut ranks: BTreeMap<u32, Sum> = BTreeMap::new();
            for (place, part) in places.iter().zip(parts).filter(|(place, _)| counts(place)) {
                ranks.entry(place.rank).or_insert_with(|| zero.clone()).add(part);
            }
            let mut lower = zero.clone();
            for sum in ranks.values_mut() {
                lower = Sum {
                    curve: lower.curve.sum(&sum.curve),
                    unknown: lower.unknown + sum.unknown,
                    derived: lower.derived + sum.derived,
                };
                *sum = lower.clone();
            }
            ranks
        };
        let ranks = by_rank(&|_| true, &parts);
        let contracts = by_rank(&|place| place.contract.is_some(), &within);
        let by_deadline = sum_by_deadline(&places, &parts).filter(|_| !coarse);
        let rate = pipe.setup.rate;
        Some(Rivals { rate, places, parts, within, all, ranks, contracts, by_deadline })
    }

    /// The services left over for `flow`: by the order of service and by deadlines, if these are
    /// known, and by the envelopes of all other flows. `own` is the envelope of the flow.
    pub(crate) fn left_over(&self, flow: usize, own: &Curve) -> Vec<LeftOver> {
        let Precedence { rank, once, contract, deadline } = self.places[flow];
        let blind = self.among(&self.all, &self.parts[flow], 0, "h(envelope, C t - others)");
        let ranked = match contract {
            Some(ArrivalWindow { bytes, length }) => {
                let longest = exact(length.0.saturating_sub(1));
                let kept = own.after(&longest) <= exact(bytes);
                let lane = self.contracts.get(&rank).filter(|_| kept).and_then(|sum| {
                    let formula = "h(envelope, C t - others' r T (1 + floor(t/T)) - V)";
                    self.among(sum, &self.within[flow], once, formula)
                });
                lane.map(|lane| LeftOver { given: Given::Own, ..lane })
            }
            None if self.ranks.len() > 1 => self.ranks.get(&rank).and_then(|sum| {
                self.among(sum, &self.parts[flow], once, "h(envelope, C t - others up to here - L)")
            }),
            None => None,
        };
        let due = self.by_deadline.as_ref().zip(deadline);
        let due = due.and_then(|(sum, deadline)| self.due(sum, flow, deadline, once));
        ranked.into_iter().chain(due).chain(blind).collect()
    }

    /// The service of a flow whose packets are served by deadlines.
    fn due(&self, sum: &Sum, flow: usize, deadline: Span, once: u64) -> Option<LeftOver> {
        let alike = Sum { curve: self.all.curve.clone(), ..*sum };
        let blind = self.among(&alike, &self.parts[flow], once, "")?;
        let due = sum.curve.earlier(&exact(deadline.0));
        let due = due.sum(&Curve::affine(exact(0), exact(once)));
        Some(LeftOver {
            service: Curve::affine(slope(self.rate), exact(0)),
            due: Some(due),
            formula: "h(sum of a_j(t + d - d_j) + L, C t)",
            ..blind
        })
    }

    /// The service that the other flows of a sum leave over; `part` is the flow's own part of it.
    /// `None` if an envelope is unknown.
    fn among(&self, sum: &Sum, part: &Part, once: u64, formula: &'static str) -> Option<LeftOver> {
        let (own, declared) = part.as_ref()?;
        if sum.unknown > 0 {
            return None;
        }
        let others = sum.curve.without(own).ok()?;
        let given = match sum.derived - usize::from(!declared) {
            _ if others == Curve::zero() => Given::Own,
            0 => Given::Declared,
            _ => Given::Sources,
        };
        let formula = if given == Given::Own && once == 0 { ALONE } else { formula };
        let before = others.sum(&Curve::affine(exact(0), exact(once)));
        let line = Curve::affine(slope(self.rate), exact(0));
        Some(LeftOver { service: line.left_over(&before), before, given, formula, due: None })
    }
}

/// The sum of the envelopes, each shifted to later times by the deadline of its flow. `None` if
/// packets have no deadlines.
fn sum_by_deadline(places: &[Precedence], parts: &[Part]) -> Option<Sum> {
    let mut sum = Sum::of(Curve::zero());
    for (place, part) in places.iter().zip(parts) {
        let later = exact(place.deadline?.0);
        let part = part.as_ref().map(|(curve, declared)| (curve.later(&later), *declared));
        sum.add(&part);
    }
    Some(sum)
}

/// Returns true if the link is never idle while packets wait, and sends the packets of each flow in
/// the order of their arrival.
pub(crate) fn conserves_work(kind: &str, setup: &Setup) -> bool {
    struct InOrder;
    impl registry::Visitor for InOrder {
        type Output = bool;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> bool {
            discipline.own_queues().is_none()
        }
    }
    let Some(manifest) = registry::ENTRIES.iter().find(|entry| entry.kind == kind) else {
        return false;
    };
    let held = |key| {
        let flows = setup.flows.iter().map(|flow| &flow.values);
        let mut keys = flows.chain([&setup.scheduler]).flat_map(|values| values.iter());
        keys.any(|(name, _)| name.starts_with(key))
    };
    let rests = manifest.idles.is_some_and(|idles| idles.only_with.is_none_or(held));
    let mut inner = setup.flows.iter().filter_map(|flow| flow.inner.as_ref());
    !rests
        && registry::build(kind, setup, InOrder).unwrap_or(false)
        && inner.all(|inner| conserves_work(inner.kind, &inner.setup))
}
