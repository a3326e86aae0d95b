//! What a discipline promises to each of its flows, as finely as it is known.

use super::follows::{By, Distances};
use falaj_scenario::Direction;
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{
    Bound, Deadlines, Precedence, Promise, RateCondition, Settling, StaircaseCurve,
};
use falaj_sched::contract::no_guarantee::NoPromise;
use falaj_sched::contract::params::{ConfigErrors, Setup};
use falaj_sched::queues::aqm::any_later;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::scheduler::build::shared_queue;
use falaj_sched::scheduler::tree;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, whole};

/// What a discipline says of all its flows.
pub struct Served {
    /// One for each flow.
    pub promises: Vec<Result<Promise, NoPromise>>,
    /// How each is served in turns, if that is known.
    turns: Vec<Option<StaircaseCurve>>,
    /// By which curve its packets have deadlines, if they have.
    pub(crate) deadlines: Vec<Option<Deadlines>>,
    /// What must hold, beside a backlog, for the rates.
    pub(super) rate_condition: Option<RateCondition>,
    /// What may come on top of its promises after a change.
    pub(super) settling: Settling,
    /// The place of each flow among the others; none where flows are divided.
    pub(super) places: Vec<Precedence>,
    /// By how much its delays differ at most, if that is known.
    pub(super) jitters: Vec<Option<Bound>>,
    /// The limit of the one queue, if all flows share it.
    pub shared: Option<Limit>,
    largest: u32,
}

impl Served {
    /// The distances from this envelope to what `flow` is promised: to its rate and latency, to
    /// the turns that it gets, or to the curve of its deadlines, whichever are shorter.
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
        // As many turns as what is queued may need.
        let turns = self.turns.get(flow).and_then(Option::as_ref).and_then(|turns| {
            let bytes: u64 = turns.cycle.iter().map(|turn| turn.bytes).sum();
            let cycles = whole(&by_rate.delay.level) / bytes.max(1) + 2;
            let needed = cycles.saturating_mul(turns.cycle.len() as u64);
            let curve = Curve::in_turns(turns, needed.min(MOST_TURNS));
            let mut distances = to(&curve, By::Turns(turns.latency))?;
            // Until its last bit has left a packet is queued whole.
            distances.backlog = distances.backlog.longer(self.largest);
            Some(distances)
        });
        let deadlines = self.deadlines.get(flow).copied().flatten().and_then(|deadlines| {
            let mut distances =
                to(&Curve::by_deadlines(&deadlines), By::Deadlines(deadlines.late))?;
            // Until its last bit has left a packet is queued whole.
            distances.backlog = distances.backlog.longer(self.largest);
            Some(distances)
        });
        Some([turns, deadlines].into_iter().flatten().fold(by_rate, Distances::shorter))
    }

    /// Rate, latency and curve of the service that `flow` gets; where nothing else is promised, if
    /// it keeps to an envelope.
    pub(crate) fn service(&self, flow: usize) -> Option<(Rate, Span, Curve)> {
        match (&self.promises[flow], self.deadlines.get(flow).copied().flatten()) {
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

/// More are not drawn: the line below them is as good.
const MOST_TURNS: u64 = 100;

/// Asks the direction's discipline, with this setup.
///
/// # Errors
/// It does not accept it.
pub fn served(direction: &Direction, setup: &Setup) -> Result<Served, ConfigErrors> {
    let kind = direction.scheduler().kind;
    let (mut finely, mut promises) = if direction.pipe.masks.flows.iter().any(Option::is_some) {
        // One of each is asked for all that are like it, in the midst of as many as there may be.
        let firsts = direction.pipe.masks.firsts(setup.flows.len());
        let finer = Finer { whole: true, flows: firsts, largest: setup.largest };
        let build = registry::build(kind, &direction.pipe.masks.expanded(setup), finer);
        let mut all = build.map_err(|refused| direction.pipe.masks.refused(refused, setup))?;
        let promises = std::mem::take(&mut all.promises);
        (all, promises)
    } else {
        let whole = setup.flows.iter().all(|f| f.inner.is_none());
        let flows = (0..setup.flows.len() as u32).map(FlowId).collect();
        (
            registry::build(kind, setup, Finer { whole, flows, largest: setup.largest })?,
            tree::promises(kind, setup)?,
        )
    };
    if let Some(none) = direction.pipe.clone().no_promise() {
        promises.fill_with(|| Err(none.clone()));
        finely.turns.fill(None);
        finely.deadlines.fill(None);
        finely.jitters.fill(None);
    }
    let later = direction.pipe.clone().held_by_device();
    if later > Span::ZERO {
        // All that leaves does so behind what the device was handed before.
        promises = promises
            .into_iter()
            .map(|promise| promise.map(|promise| promise.later(later)))
            .collect();
        finely.turns.iter_mut().flatten().for_each(|turns| turns.latency += later);
        finely.deadlines.iter_mut().flatten().for_each(|deadlines| deadlines.late += later);
        finely.jitters.iter_mut().flatten().for_each(|jitter| jitter.delay += later);
    }
    if any_later(setup) {
        // A shorter packet may follow in the place of one that was to go later, which others did
        // not reckon with.
        finely.deadlines.fill(None);
    }
    Ok(Served { promises, ..finely })
}

/// How flows are served in turns, unless some are divided; the one queue of a discipline
/// that has one for all; and what they are promised.
struct Finer {
    /// Is none of them divided?
    whole: bool,
    flows: Vec<FlowId>,
    largest: u32,
}
impl registry::Visitor for Finer {
    type Output = Served;
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
        Served {
            turns: self.flows.iter().map(|&f| discipline.turns(f).filter(|_| self.whole)).collect(),
            deadlines: self
                .flows
                .iter()
                .map(|&f| discipline.deadlines(f).filter(|_| self.whole))
                .collect(),
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
            promises: self.flows.iter().map(|&f| discipline.service(f)).collect(),
            shared: discipline.shared_queue(),
        }
    }
}

/// The limit of the queue in which the packets of `leaf` stand: its own, or
/// the one of all parts of the flow that it is a part of.
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
