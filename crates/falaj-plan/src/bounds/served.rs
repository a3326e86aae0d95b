//! The guarantees of a discipline to its flows, as precisely as they are known.

use super::follows::{By, Distances};
use falaj_scenario::Direction;
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{
    Bound, Deadlines, Guarantee, Precedence, ProportionalLimits, RateCondition, ServiceLimits,
    Settling, StaircaseCurve, VisitLimits,
};
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::{ConfigErrors, Setup};
use falaj_sched::queues::aqm::any_later;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::scheduler::build::shared_queue;
use falaj_sched::scheduler::tree;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, whole};

/// The guarantees of a discipline to all its flows.
pub struct Served {
    /// The guarantee of each flow.
    pub guarantees: Vec<Result<Guarantee, NoGuarantee>>,
    /// The curve of each flow for service in turns, if it is known.
    turns: Vec<Option<StaircaseCurve>>,
    /// The limits on the visits of each flow; empty if flows do not share the link by visits.
    pub(super) visits: Vec<VisitLimits>,
    /// The limits on the share of each flow; empty if flows do not share the link in proportion to
    /// weights.
    pub(super) shares: Vec<ProportionalLimits>,
    /// The curve that defines the deadlines of each flow's packets, if they have any.
    pub(crate) deadlines: Vec<Option<Deadlines>>,
    /// The condition for the guaranteed rates, in addition to a backlog.
    pub(super) rate_condition: Option<RateCondition>,
    /// Additional delay beyond the guarantees after a change.
    pub(super) settling: Settling,
    /// The place of each flow in the order of service; empty if some flows are divided.
    pub(super) places: Vec<Precedence>,
    /// Bound on the difference between the delays of each flow's packets, if it is known.
    pub(super) jitters: Vec<Option<Bound>>,
    /// The limit of the shared queue, if all flows share one.
    pub shared: Option<Limit>,
    largest: u32,
}

impl Served {
    /// The distances from this envelope to the service of `flow`. Three curves are compared: the
    /// rate after the latency, the flow's turns, and the curve of its deadlines. The shortest
    /// distances count.
    pub fn distances(&self, flow: usize, envelope: &Curve, service: &Curve) -> Option<Distances> {
        let to = |service: &Curve, by| {
            Some(Distances {
                delay: envelope.delay(service)?,
                backlog: envelope.backlog(service)?,
                service: service.clone(),
                by,
            })
        };
        let by_rate = to(service, By::Rate)?;
        // The curve has the turns that the queued bytes may need, up to `MOST_TURNS`.
        let turns = self.turns.get(flow).and_then(Option::as_ref).and_then(|turns| {
            let bytes: u64 = turns.cycle.iter().map(|turn| turn.bytes).sum();
            let cycles = whole(&by_rate.delay.level) / bytes.max(1) + 2;
            let needed = cycles.saturating_mul(turns.cycle.len() as u64);
            let curve = Curve::in_turns(turns, needed.min(MOST_TURNS));
            let mut distances = to(&curve, By::Turns(turns.latency))?;
            // A packet counts as queued until its last bit has left.
            distances.backlog = distances.backlog.longer(self.largest);
            Some(distances)
        });
        let deadlines = self.deadlines.get(flow).copied().flatten().and_then(|deadlines| {
            let mut distances =
                to(&Curve::by_deadlines(&deadlines), By::Deadlines(deadlines.late))?;
            // A packet counts as queued until its last bit has left.
            distances.backlog = distances.backlog.longer(self.largest);
            Some(distances)
        });
        Some([turns, deadlines].into_iter().flatten().fold(by_rate, Distances::shorter))
    }

    /// Rate, latency and curve of the service of `flow`. Without a guarantee they are those of its
    /// deadlines, which hold only while the flow keeps to an envelope.
    pub(crate) fn service(&self, flow: usize) -> Option<(Rate, Span, Curve)> {
        match (&self.guarantees[flow], self.deadlines.get(flow).copied().flatten()) {
            (Ok(p), _) if p.rate.0 > 0 => {
                Some((p.rate, p.latency, Curve::rate_latency(p.rate, p.latency)))
            }
            (Err(_), Some(deadlines)) => {
                Some((deadlines.rate, deadlines.late, Curve::by_deadlines(&deadlines)))
            }
            _ => None,
        }
    }
}

/// Maximum number of turns for which the curve has steps. Beyond them it continues as the straight
/// line below the turns, which is about as tight there.
const MOST_TURNS: u64 = 100;

/// Queries the direction's discipline for its guarantees, with this setup.
///
/// # Errors
/// The discipline refuses the setup.
pub fn served(direction: &Direction, setup: &Setup) -> Result<Served, ConfigErrors> {
    let kind = direction.scheduler().kind;
    let (mut finely, mut guarantees) = if direction.pipe.masks.flows.iter().any(Option::is_some) {
        // The first queue of each mask stands for all of its queues, which are alike. The
        // discipline is built with the maximum number of queues.
        let firsts = direction.pipe.masks.firsts(setup.flows.len());
        let finer = Finer { whole: true, flows: firsts, largest: setup.largest };
        let build = registry::build(kind, &direction.pipe.masks.expanded(setup), finer);
        let mut all = build.map_err(|refused| direction.pipe.masks.refused(refused, setup))?;
        let guarantees = std::mem::take(&mut all.guarantees);
        (all, guarantees)
    } else {
        let whole = setup.flows.iter().all(|f| f.inner.is_none());
        let flows = (0..setup.flows.len() as u32).map(FlowId).collect();
        (
            registry::build(kind, setup, Finer { whole, flows, largest: setup.largest })?,
            tree::guarantees(kind, setup)?,
        )
    };
    if let Some(none) = direction.pipe.clone().no_guarantee() {
        guarantees.fill_with(|| Err(none.clone()));
        finely.turns.fill(None);
        finely.visits.clear();
        finely.shares.clear();
        finely.deadlines.fill(None);
        finely.jitters.fill(None);
    }
    let later = direction.pipe.clone().held_by_device();
    if later > Span::ZERO {
        // A packet leaves after all packets that the device already holds.
        guarantees = guarantees
            .into_iter()
            .map(|guarantee| guarantee.map(|guarantee| guarantee.later(later)))
            .collect();
        finely.turns.iter_mut().flatten().for_each(|turns| turns.latency += later);
        finely.deadlines.iter_mut().flatten().for_each(|deadlines| deadlines.late += later);
        finely.jitters.iter_mut().flatten().for_each(|jitter| jitter.delay += later);
    }
    if any_later(setup) {
        // After a drop within the queue, a shorter packet may take the place of a packet with a
        // later deadline or finishing time. The deadlines of other flows, and the limits on their
        // shares, did not account for that.
        finely.deadlines.fill(None);
        finely.shares.clear();
    }
    Ok(Served { guarantees, ..finely })
}

/// Builds [`Served`] from a discipline. Turns, visits, shares, deadlines, jitters, the settling
/// time and the order of service are left out if some flows are divided.
struct Finer {
    /// True if no flow is divided.
    whole: bool,
    flows: Vec<FlowId>,
    largest: u32,
}
impl registry::Visitor for Finer {
    type Output = Served;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
        let visits = |limits| match limits {
            ServiceLimits::Visits(limits) => Some(limits),
            ServiceLimits::Proportion(_) => None,
        };
        let share = |limits| match limits {
            ServiceLimits::Proportion(limits) => Some(limits),
            ServiceLimits::Visits(_) => None,
        };
        Served {
            turns: self.flows.iter().map(|&f| discipline.turns(f).filter(|_| self.whole)).collect(),
            deadlines: self
                .flows
                .iter()
                .map(|&f| discipline.deadlines(f).filter(|_| self.whole))
                .collect(),
            visits: match self.whole {
                true => self.flows.iter().map_while(|&f| visits(discipline.limits(f)?)).collect(),
                false => Vec::new(),
            },
            shares: match self.whole {
                true => self.flows.iter().map_while(|&f| share(discipline.limits(f)?)).collect(),
                false => Vec::new(),
            },
            rate_condition: discipline.rate_condition(),
            places: match self.whole {
                true => self.flows.iter().map(|&f| discipline.precedence(f)).collect(),
                false => Vec::new(),
            },
            settling: if self.whole { discipline.settling() } else { Settling::Unknown },
            largest: self.largest,
            jitters: self
                .flows
                .iter()
                .map(|&f| discipline.jitter(f).filter(|_| self.whole))
                .collect(),
            guarantees: self.flows.iter().map(|&f| discipline.service(f)).collect(),
            shared: discipline.shared_queue(),
        }
    }
}

/// The limit of the queue that holds the packets of `leaf`: the leaf's own queue, or the queue that
/// all parts of its flow share.
pub(super) fn limit_of(setup: &Setup, leaf: usize) -> Limit {
    let (f, within) = setup.way_to_leaf(leaf).expect("a leaf is below a flow");
    match &setup.flows[f].inner {
        Some(inner) => match shared_queue(inner.kind, &inner.setup) {
            Ok(Some(shared)) => shared,
            _ => limit_of(&inner.setup, within),
        },
        None => setup.flows[f].limit,
    }
}
