//! The guarantee and the envelope of each flow of a direction, and the bounds that follow: its
//! delay, its backlog, and what limits them.

mod envelope;
mod follows;
mod iteration;
mod left_over;
mod served;
mod shares;
mod visits;

pub use envelope::{Envelope, Sends, sent_by, sources, sources_named};
pub use follows::{Backlog, Delay, Distances};
pub use served::{Served, served};

use envelope::united;
use falaj_engine::masks::MaskConfig;
use falaj_scenario::Direction;
use falaj_sched::contract::guarantee::{Bound, Deadlines, Guarantee, RateCondition};
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, Distance, whole};
use falaj_traffic::source::Model;
use follows::{backlog, by_curves, by_left_over, full_queue};
use iteration::KnownBounds;
use left_over::{Given, LeftOver};
pub(crate) use left_over::{Rivals, conserves_work};
use served::limit_of;
use shares::SharingFlow;
use visits::VisitedFlow;

/// All facts about a flow that are known without a simulation.
pub struct Outlook {
    /// The flow's name.
    pub name: String,
    /// Mean rate that the scenario's sources offer to the flow, in bits per second.
    pub offered: u64,
    /// True if TCP connections send to it as well, at a rate that depends on the packets that
    /// arrive.
    pub connections: bool,
    /// The guarantee of the discipline to the flow.
    pub guarantee: Result<Guarantee, NoGuarantee>,
    /// The limit of the queue that holds its packets.
    pub limit: Limit,
    /// The flow's envelope, or the sum of the envelopes of all flows that share its queue;
    /// otherwise the reason why there is none.
    pub envelope: Result<Envelope, String>,
    /// Rate, latency and curve of the service for the traffic of that envelope.
    pub service: Option<(Rate, Span, Curve)>,
    /// The condition for the guaranteed rate, in addition to a backlog.
    pub rate_condition: Option<RateCondition>,
    /// Additional delay beyond the guarantee after a change, until the link has been idle; `None`
    /// if it is not known.
    pub settling: Option<Span>,
    /// The curve that defines the deadlines of its packets, if they have any.
    pub deadlines: Option<Deadlines>,
    /// Distances from the envelope to that service.
    pub distances: Option<Distances>,
    /// Largest difference between the delays of the flow's packets over a chain of links, if each
    /// link knows how early packets are.
    pub jitter: Option<Bound>,
    /// Bound on the bytes queued.
    pub backlog: Option<Backlog>,
    /// Set if a mask makes several queues or links of this flow: in words, their maximum number,
    /// and the number of additional ones that further ids share. All other fields then hold for
    /// each of them.
    pub many: Option<String>,
    /// True if several flows share the queue: envelope, service and backlog are those of all
    /// together.
    pub together: bool,
    /// The bound that holds whatever the scenario's sources do: for a full queue, or for the
    /// envelope that the flow declares.
    pub assured: Option<Delay>,
    /// The bound if all flows keep to the envelopes that they declare; `None` if it is not lower
    /// than `assured`.
    pub mutual: Option<Delay>,
    /// The bound if flows send no more than their sources; `None` if it is not lower than the other
    /// two bounds.
    pub by_sources: Option<Delay>,
}

impl Outlook {
    /// The lowest bound.
    pub fn best(&self) -> Option<&Delay> {
        self.by_sources.as_ref().or(self.guaranteed())
    }

    /// The lowest bound that does not depend on the scenario's sources.
    pub fn guaranteed(&self) -> Option<&Delay> {
        self.mutual.as_ref().or(self.assured.as_ref())
    }
}

/// The outlooks of all flows of one direction; `sources` are the sources that send to these flows.
///
/// # Errors
/// The discipline refuses its setup.
pub fn outlooks(
    direction: &Direction,
    sources: &[Sends<'_>],
) -> Result<Vec<Outlook>, ConfigErrors> {
    let served = served(direction, &direction.pipe.setup)?;
    let flows = 0..direction.flows.len();
    let envelope = |f: usize| {
        if direction.flows[f].envelope.is_empty() && is_many(direction, f) {
            return Err("none: the traffic of a single queue or link is unknown".to_owned());
        }
        let derive =
            || Envelope::derived(&sources.iter().filter(|s| s.flow == f).collect::<Vec<_>>());
        Envelope::declared(&direction.flows[f]).map_or_else(derive, Ok)
    };
    let mut envelopes: Vec<_> = flows.clone().map(envelope).collect();
    // A shared queue serves all its flows as if they were one.
    let together = served.shared.is_some() && flows.len() > 1;
    let one = if together { shared_service(direction)? } else { None };
    if together {
        let all = united(&envelopes, direction);
        envelopes = flows.map(|_| all.clone()).collect();
    }
    let known = envelopes.iter().map(|envelope| envelope.as_ref().ok());
    let one_queue = if together { 1 } else { envelopes.len() };
    let rivals = Rivals::of(&direction.pipe, &served, known.take(one_queue));
    let (largest, rate) = (direction.pipe.setup.largest, direction.pipe.setup.rate);
    let of_all = || one.map(|(rate, latency)| (rate, latency, Curve::rate_latency(rate, latency)));
    let mut bounded: Vec<ByEnvelope> = Vec::new();
    for (f, envelope) in envelopes.iter().enumerate() {
        let service = if together { of_all() } else { served.service(f) };
        let Ok(own) = envelope else {
            bounded.push(ByEnvelope { service, distances: None, left: Vec::new() });
            continue;
        };
        let distances = service.as_ref().and_then(|(_, _, s)| served.distances(f, &own.curve, s));
        let left = rivals.as_ref().map(|r| r.left_over(if together { 0 } else { f }, &own.curve));
        let mut by_envelope = ByEnvelope { service, distances, left: Vec::new() };
        for left in left.into_iter().flatten() {
            by_envelope.add(&left, own, rate, together);
        }
        bounded.push(by_envelope);
    }
    if rivals.is_some() && !together {
        if served.shares.len() == envelopes.len() {
            add(shares::alone(rate, &served.shares, &envelopes), &envelopes, rate, &mut bounded);
        }
        add_by_rivals(&served, &envelopes, rate, &mut bounded);
    }
    let mut out = Vec::new();
    // Without divided flows, the search for the flow above each leaf is avoided: for thousands of
    // leaves it takes long.
    let undivided = direction.pipe.setup.flows.iter().all(|flow| flow.inner.is_none());
    let limit_of = |f: usize| match direction.pipe.setup.flows.get(f).filter(|_| undivided) {
        Some(flow) => flow.limit,
        None => limit_of(&direction.pipe.setup, f),
    };
    let flows = served.guarantees.iter().cloned().zip(envelopes).zip(bounded);
    for (f, ((guarantee, envelope), by_envelope)) in flows.enumerate() {
        let limit = served.shared.unwrap_or_else(|| limit_of(f));
        let ByEnvelope { service, distances, left } = by_envelope;
        let shortest = |given: Given| {
            let all = left.iter().filter(move |(of, _)| *of <= given).map(|(_, (delay, _))| delay);
            all.min_by_key(|delay| delay.delay).cloned()
        };
        let alone = left.iter().filter(|(given, _)| *given == Given::Own);
        // A packet counts as queued until its last bit has left.
        let alone = alone.map(|(_, (_, bits))| bits.clone().longer(largest));
        let longest = distances.as_ref().map(|d| d.backlog.clone()).into_iter().chain(alone);
        let longest = longest.min_by(|a, b| a.length.cmp(&b.length));
        let fit = |d: &Distance| backlog(d, limit, largest, envelope.as_ref().ok());
        let mut outlook = Outlook {
            name: direction.flows[f].name.clone(),
            many: many(direction, f),
            connections: sources
                .iter()
                .any(|s| s.flow == f && matches!(s.source.model, Model::Tcp(_))),
            offered: sources.iter().filter(|s| s.flow == f).map(|s| s.mean).sum(),
            backlog: longest.as_ref().map(fit),
            assured: None,
            mutual: None,
            by_sources: None,
            rate_condition: served
                .rate_condition
                .filter(|_| guarantee.as_ref().is_ok_and(|p| p.rate.0 > 0)),
            settling: guarantee
                .as_ref()
                .ok()
                .and_then(|p| served.settling.time(&direction.pipe.setup, p)),
            guarantee,
            limit,
            envelope,
            service,
            deadlines: served.deadlines.get(f).copied().flatten(),
            distances,
            jitter: served.jitters.get(f).cloned().flatten(),
            together,
        };
        let full = outlook.guarantee.as_ref().ok().map(|p| full_queue(p, &outlook));
        let declared = outlook.envelope.as_ref().is_ok_and(Envelope::is_declared);
        let own = shorter(by_curves(&outlook), shortest(Given::Own));
        let (assured, by_sources) = if declared { (shorter(full, own), None) } else { (full, own) };
        let less = |bound: Option<Delay>, than: Option<&Delay>| {
            bound.filter(|bound| than.is_none_or(|than| bound.delay < than.delay))
        };
        outlook.assured = assured;
        outlook.mutual =
            less(shortest(Given::Declared).filter(|_| declared), outlook.assured.as_ref());
        let by_sources = shorter(by_sources, shortest(Given::Sources));
        outlook.by_sources = less(by_sources, outlook.guaranteed());
        out.push(outlook);
    }
    Ok(out)
}

/// The bounds of a flow that follow from its envelope.
struct ByEnvelope {
    /// Rate, latency and curve of the service for the traffic of the envelope.
    service: Option<(Rate, Span, Curve)>,
    /// Distances from the envelope to that service.
    distances: Option<Distances>,
    /// For each condition, the delays and backlogs that follow from left-over services.
    left: Vec<(Given, (Delay, Distance))>,
}

impl ByEnvelope {
    fn add(&mut self, left: &LeftOver, own: &Envelope, rate: Rate, together: bool) {
        self.left.extend(by_left_over(left, own, rate, together).map(|bound| (left.given, bound)));
    }

    /// The lowest delay under these conditions.
    fn delay(&self, given: Given) -> Option<Span> {
        let left = self.left.iter().filter(|(of, _)| *of <= given).map(|(_, (d, _))| d.delay);
        let by_service = self.distances.as_ref().map(|d| Span(whole(&d.delay.length)));
        left.chain(by_service).min()
    }
}

/// Adds the bounds by these services, one for each flow.
fn add(
    left: Vec<Option<LeftOver>>,
    envelopes: &[Result<Envelope, String>],
    rate: Rate,
    bounded: &mut [ByEnvelope],
) {
    for ((left, own), by_envelope) in left.iter().zip(envelopes).zip(bounded) {
        if let (Some(left), Ok(own)) = (left, own) {
            by_envelope.add(left, own, rate, false);
        }
    }
}

/// Adds the bounds of flows that share the link by visits or in proportion to weights, which follow
/// from the envelopes of some flows.
fn add_by_rivals(
    served: &Served,
    envelopes: &[Result<Envelope, String>],
    rate: Rate,
    bounded: &mut [ByEnvelope],
) {
    let known = |f: usize| {
        let guarantee = served.guarantees[f].as_ref().ok()?;
        let delay = |given| [bounded[f].delay(given), Some(guarantee.delay.delay)];
        let known = KnownBounds {
            envelope: envelopes[f].as_ref().ok(),
            declared: delay(Given::Declared).into_iter().flatten().min(),
            sources: delay(Given::Sources).into_iter().flatten().min(),
        };
        Some((known, (guarantee.rate, guarantee.latency)))
    };
    let visited = |f: usize| {
        let limits = *served.visits.get(f)?;
        known(f).map(|(known, service)| VisitedFlow { limits, service, known })
    };
    let sharing = |f: usize| {
        let limits = *served.shares.get(f)?;
        known(f).map(|(known, _)| SharingFlow { limits, known })
    };
    let flows = 0..bounded.len();
    let visited: Option<Vec<VisitedFlow>> = flows.clone().map(visited).collect();
    let sharing: Option<Vec<SharingFlow>> = flows.map(sharing).collect();
    let derived = envelopes.iter().flatten().any(|envelope| !envelope.is_declared());
    let mut all = Vec::new();
    for given in [Given::Declared, Given::Sources] {
        if given == Given::Declared || derived {
            all.extend(visited.iter().map(|flows| visits::left_over(rate, flows, given)));
            all.extend(sharing.iter().map(|flows| shares::left_over(rate, flows, given)));
        }
    }
    for left in all {
        add(left, envelopes, rate, bounded);
    }
}

/// The shorter one of two bounds; the first one if they are equal.
fn shorter(a: Option<Delay>, b: Option<Delay>) -> Option<Delay> {
    a.into_iter().chain(b).min_by_key(|bound| bound.delay)
}

/// Returns true if a mask makes several queues or links of a flow.
fn is_many(direction: &Direction, flow: usize) -> bool {
    direction.pipe.masks.link.is_some() || direction.pipe.masks.of(flow).is_some()
}

/// The number of queues and links that the masks of the flow and of its link make, in words.
fn many(direction: &Direction, flow: usize) -> Option<String> {
    let of = |each: &MaskConfig, what: &str| {
        let MaskConfig { mask, most, .. } = each;
        let shared = each.shared();
        format!(
            "at most {most} {what}, by {mask}, each with this guarantee; further ids share additional {what} ({shared}), each of which has this guarantee for all its ids together"
        )
    };
    let link = direction.pipe.masks.link.as_ref().map(|each| of(each, "links"));
    let queues = direction.pipe.masks.of(flow).map(|each| of(each, "queues"));
    let all: Vec<String> = link.into_iter().chain(queues).collect();
    (!all.is_empty()).then(|| all.join("; in each, "))
}

/// Rate and latency of the queue that all flows share; `None` if no rate is guaranteed.
fn shared_service(direction: &Direction) -> Result<Option<(Rate, Span)>, ConfigErrors> {
    let mut setup = direction.pipe.setup.clone();
    setup.flows.truncate(1);
    let served = served(direction, &setup)?;
    Ok(served
        .guarantees
        .first()
        .and_then(|p| p.as_ref().ok())
        .filter(|p| p.rate.0 > 0)
        .map(|p| (p.rate, p.latency)))
}
