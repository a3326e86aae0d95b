//! What each flow of a direction is promised, what it sends at most, and what
//! follows: its delay, its backlog, and what limits it.

use crate::words;
use falaj_engine::each::Each;
use falaj_scenario::{Direction, Flow, Scenario, Source, Towards};
use falaj_sched::discipline::Discipline;
use falaj_sched::params::{Refusals, Setup};
use falaj_sched::policy::any_later;
use falaj_sched::promise::{Bound, Deadlines, NoPromise, Promise, RateCondition, Turns};
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::rate::Rate;
use falaj_sched::registry;
use falaj_sched::time::Span;
use falaj_sched::tree;
use falaj_theory::{Curve, Distance, exact, float, whole};
use falaj_traffic::source::Model;

/// What a discipline says of all its flows.
pub struct Served {
    /// One for each flow.
    pub promises: Vec<Result<Promise, NoPromise>>,
    /// How each is served in turns, if that is known.
    turns: Vec<Option<Turns>>,
    /// By which curve its packets have deadlines, if they have.
    pub(crate) deadlines: Vec<Option<Deadlines>>,
    /// What must hold, beside a backlog, for the rates.
    rate_condition: Option<RateCondition>,
    /// By how much its delays differ at most, if that is known.
    jitters: Vec<Option<Bound>>,
    /// The limit of the one queue, if all flows share it.
    pub shared: Option<Limit>,
    largest: u32,
}

impl Served {
    /// The distances from this envelope to what `flow` is promised: to its rate and latency, to
    /// the turns that it gets, or to the curve of its deadlines, whichever are shorter.
    pub fn distances(&self, flow: usize, envelope: &Curve, service: &Curve) -> Option<Distances> {
        let to = |service: &Curve, by| {
            Some(Distances { delay: envelope.delay(service)?, backlog: envelope.backlog(service)?, by })
        };
        let by_rate = to(service, By::Rate)?;
        // As many turns as what is queued may need.
        let turns = self.turns.get(flow).copied().flatten().and_then(|turns| {
            let needed = whole(&by_rate.delay.level) / turns.turn.max(1) + 2;
            to(&Curve::in_turns(&turns, needed.min(MOST_TURNS) as usize), By::Turns)
        });
        let deadlines = self.deadlines.get(flow).copied().flatten().and_then(|deadlines| {
            let mut distances = to(&Curve::by_deadlines(&deadlines), By::Deadlines(deadlines.late))?;
            // Until its last bit has left a packet is queued whole.
            distances.backlog.length += exact(self.largest);
            Some(distances)
        });
        Some([turns, deadlines].into_iter().flatten().fold(by_rate, Distances::shorter))
    }

    /// Rate, latency and curve of the service that `flow` gets; where nothing else is promised, if it keeps to an envelope.
    pub(crate) fn service(&self, flow: usize) -> Option<(Rate, Span, Curve)> {
        match (&self.promises[flow], self.deadlines.get(flow).copied().flatten()) {
            (Ok(p), _) if p.rate.0 > 0 => Some((p.rate, p.latency, Curve::rate_latency(p.rate, p.latency))),
            (Err(_), Some(deadlines)) => Some((deadlines.rate, deadlines.late, Curve::by_deadlines(&deadlines))),
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
pub fn served(direction: &Direction, setup: &Setup) -> Result<Served, Refusals> {
    let kind = direction.scheduler.kind;
    let (mut finely, mut promises) = if direction.masks.flows.iter().any(Option::is_some) {
        // One of each is asked for all that are like it, in the midst of as many as there may be.
        let firsts = direction.masks.firsts(setup.flows.len());
        let finer = Finer { whole: true, flows: firsts, largest: setup.largest };
        let build = registry::build(kind, &direction.masks.expanded(setup), finer);
        let mut all = build.map_err(|refused| direction.masks.refused(refused, setup))?;
        let promises = std::mem::take(&mut all.promises);
        (all, promises)
    } else {
        let whole = setup.flows.iter().all(|f| f.inner.is_none());
        let flows = (0..setup.flows.len() as u32).map(FlowId).collect();
        (registry::build(kind, setup, Finer { whole, flows, largest: setup.largest })?, tree::promises(kind, setup)?)
    };
    if let Some(none) = direction.pipe().no_promise() {
        promises.fill_with(|| Err(none.clone()));
        finely.turns.fill(None);
        finely.deadlines.fill(None);
        finely.jitters.fill(None);
    }
    if any_later(setup) {
        // A shorter packet may follow in the place of one that was to go later, which others did not reckon with.
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
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output {
        Served {
            turns: self.flows.iter().map(|&f| discipline.turns(f).filter(|_| self.whole)).collect(),
            deadlines: self.flows.iter().map(|&f| discipline.deadlines(f).filter(|_| self.whole)).collect(),
            rate_condition: discipline.rate_condition(),
            largest: self.largest,
            jitters: self.flows.iter().map(|&f| discipline.jitter(f).filter(|_| self.whole)).collect(),
            promises: self.flows.iter().map(|&f| discipline.service(f)).collect(),
            shared: discipline.shared_queue(),
        }
    }
}

/// The one queue of a discipline that has one for all flows.
struct Shared;
impl registry::Visitor for Shared {
    type Output = Option<Limit>;
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output {
        discipline.shared_queue()
    }
}

/// The limit of the queue in which the packets of `leaf` stand: its own, or
/// the one of all parts of the flow that it is a part of.
fn limit_of(setup: &Setup, leaf: usize) -> Limit {
    let (f, within) = setup.way_to_leaf(leaf).expect("a leaf is below a flow");
    match &setup.flows[f].inner {
        Some(inner) => match registry::build(inner.kind, &inner.setup, Shared) {
            Ok(Some(shared)) => shared,
            _ => limit_of(&inner.setup, within),
        },
        None => setup.flows[f].limit,
    }
}

/// What a flow sends at most.
#[derive(Clone)]
pub struct Envelope {
    /// In any time.
    pub curve: Curve,
    /// The same as token buckets: rates, and bytes rounded up.
    pub buckets: Vec<(Rate, u64)>,
    /// The scenario's sources that it was derived from; none: the flow declares it.
    pub sources: Vec<String>,
    /// The size of its smallest packet, if that is known.
    pub smallest: Option<u32>,
}

impl Envelope {
    /// The one that the flow declares, if it does.
    pub fn declared(flow: &Flow) -> Option<Envelope> {
        let buckets: Vec<(Rate, u64)> = flow.envelope.iter().map(|b| (b.rate, b.burst)).collect();
        let curves = buckets.iter().map(|&(rate, burst)| Curve::token_bucket(rate, burst));
        let curve = curves.reduce(|a, b| a.min(&b))?;
        Some(Envelope { curve, buckets, sources: Vec::new(), smallest: None })
    }

    /// What the sources send in the worst case; why nothing is known otherwise.
    fn derived(sources: &[&Sends]) -> Result<Envelope, String> {
        if let Some(random) = sources.iter().find(|s| s.at_most.is_none()) {
            let what = match random.source.model {
                Model::Poisson => "Poisson, whose bursts have no limit",
                Model::Tcp(_) => "TCP, which sends as much as arrives and a little more",
                Model::Recorded(_) => "a capture's, which says nothing of what another one has",
                _ => "random, whose bursts have no limit",
            };
            return Err(format!("none: traffic {} is {what}", random.source.name));
        }
        // While it is on, an on-off source sends evenly; a time on may last for any time.
        let all = |s: &Sends, of: u64| of.saturating_mul(s.source.sources.into());
        let each = sources.iter().filter_map(|s| {
            let (rate, bytes) = s.at_most?;
            let bytes = u32::try_from(all(s, bytes.into())).unwrap_or(u32::MAX);
            Some((Rate(all(s, rate.0)), bytes))
        });
        let even = each.clone().map(|(rate, bytes)| Curve::even(rate, bytes));
        let curve = even.reduce(|a, b| a.sum(&b)).ok_or("none: nothing says what it sends")?;
        let rate = Rate(each.map(|(rate, _)| rate.0).fold(0, u64::saturating_add));
        Ok(Envelope {
            buckets: vec![(rate, whole(&curve.pieces()[0].after))],
            curve,
            sources: sources.iter().map(|s| s.source.name.clone()).collect(),
            smallest: sources.iter().map(|s| s.smallest).min(),
        })
    }

    /// Does the flow declare it? Else it follows from sources.
    pub fn is_declared(&self) -> bool {
        self.sources.is_empty()
    }
}

/// A bound on the delay, and why it is no lower.
#[derive(Clone, PartialEq, Eq)]
pub struct Delay {
    /// From last bit in to last bit out of the link.
    pub delay: Span,
    /// By which formula.
    pub formula: String,
    /// On which condition.
    pub condition: String,
    /// Why it is no lower, in words.
    pub limit: String,
}

/// How much is queued at most, of a flow or of all that share its queue.
pub struct Backlog {
    /// So many bytes.
    pub bytes: u64,
    /// That many packets, if their size is known.
    pub packets: Option<u64>,
    /// Whether the queue holds it, in words.
    pub fits: String,
    /// For sure?
    pub lossless: bool,
    /// A queue that does, where this one may not.
    pub enough: Option<Limit>,
}

/// The distances between an envelope and a service curve.
pub struct Distances {
    /// The horizontal one.
    pub delay: Distance,
    /// The vertical one.
    pub backlog: Distance,
    /// By which of the curves the delay is.
    by: By,
}

impl Distances {
    /// The shorter ones of both.
    fn shorter(self, other: Distances) -> Distances {
        let is = other.delay.length < self.delay.length;
        Distances {
            by: if is { other.by } else { self.by },
            delay: if is { other.delay } else { self.delay },
            backlog: if other.backlog.length < self.backlog.length { other.backlog } else { self.backlog },
        }
    }
}

/// What a delay is the distance to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rate,
    Turns,
    /// Packets leave so long after their deadlines.
    Deadlines(Span),
}

/// All that is known of a flow before anything runs.
pub struct Outlook {
    /// The flow's name.
    pub name: String,
    /// Bits per second that the scenario's sources offer it in the long run.
    pub offered: u64,
    /// Connections of TCP send to it as well, as much as arrives.
    pub connections: bool,
    /// What the discipline promises it.
    pub promise: Result<Promise, NoPromise>,
    /// The limit of the queue in which its packets stand.
    pub limit: Limit,
    /// What it sends at most, or all flows together that share its queue.
    pub envelope: Result<Envelope, String>,
    /// Rate, latency and curve of the service that this envelope gets.
    pub service: Option<(Rate, Span, Curve)>,
    /// What must hold, beside a backlog, for the rate that is promised.
    pub rate_condition: Option<RateCondition>,
    /// By which curve its packets have deadlines, if they have.
    pub deadlines: Option<Deadlines>,
    /// From the envelope to that service.
    pub distances: Option<Distances>,
    /// By how much its delays differ at most, over a chain of links that know how early packets are.
    pub jitter: Option<Bound>,
    /// How much is queued at most.
    pub backlog: Option<Backlog>,
    /// A mask makes many of it, and what is said is of each: how many there may be, and what of the others.
    pub many: Option<String>,
    /// Several flows share the queue: envelope, service and backlog are theirs together.
    pub together: bool,
    /// What holds whatever the scenario's sources do: the promise to a full
    /// queue, or to the envelope that the flow declares.
    pub assured: Option<Delay>,
    /// The same, if the flow sends no more than its sources; where that is less.
    pub expected: Option<Delay>,
}

impl Outlook {
    /// The lowest bound there is.
    pub fn best(&self) -> Option<&Delay> {
        self.expected.as_ref().or(self.assured.as_ref())
    }
}

/// The formula of a delay bound from curves.
const HORIZONTAL: &str = "h(envelope, service)";
/// The same from a flow's turns.
const TURNS: &str = "h(envelope, turns of Q at C)";
/// The same from the curve of its deadlines.
const DEADLINES: &str = "h(envelope, curve), and how late packets are after it";

/// What a source sends, as its packets cost on the link.
pub struct Sends<'a> {
    source: &'a Source,
    /// A token bucket: its rate, and so many bytes at once; `None`: without limit.
    at_most: Option<(Rate, u32)>,
    /// In the long run, of all sources alike.
    mean: u64,
    smallest: u32,
}

impl<'a> Sends<'a> {
    fn on(source: &'a Source, cost: impl Fn(u32) -> u32) -> Sends<'a> {
        let spec = source.spec();
        let (bytes, times) = spec.mean_size();
        let size = (bytes / times.max(1)).max(1) as u32;
        let mean = u128::from(source.mean_rate().0) * u128::from(cost(size)) / u128::from(size);
        let mean = u64::try_from(mean).unwrap_or(u64::MAX);
        Sends { source, smallest: cost(spec.smallest()), at_most: spec.at_most(cost), mean }
    }
}

/// The sources of one direction of a link.
pub fn sources(scenario: &Scenario, link: usize, towards: Towards) -> Vec<Sends<'_>> {
    let direction = scenario.links[link].direction(towards);
    let ours = scenario.traffic.iter().filter(|s| (s.link, s.towards) == (link, towards));
    ours.map(|s| Sends::on(s, |bytes| direction.cost(bytes))).collect()
}

/// What a source sends at most on the link that it begins with.
///
/// # Errors
/// Nothing limits that; why.
pub fn sent_by(scenario: &Scenario, source: &Source) -> Result<Envelope, String> {
    let direction = scenario.links[source.link].direction(source.towards);
    Envelope::derived(&[&Sends::on(source, |bytes| direction.cost(bytes))])
}

/// All flows of one direction, to which these sources send.
///
/// # Errors
/// The discipline refuses its setup.
pub fn outlooks(direction: &Direction, sources: &[Sends<'_>]) -> Result<Vec<Outlook>, Refusals> {
    let served = served(direction, &direction.setup)?;
    let flows = 0..direction.flows.len();
    let envelope = |f: usize| {
        if direction.flows[f].envelope.is_empty() && many(direction, f).is_some() {
            return Err("none: nothing says what one of them sends".to_owned());
        }
        let derive = || Envelope::derived(&sources.iter().filter(|s| s.source.flow == f).collect::<Vec<_>>());
        Envelope::declared(&direction.flows[f]).map_or_else(derive, Ok)
    };
    let mut envelopes: Vec<_> = flows.clone().map(envelope).collect();
    // One queue serves all its flows as if they were one.
    let together = served.shared.is_some() && flows.len() > 1;
    let one = if together { shared_service(direction)? } else { None };
    if together {
        let all = united(&envelopes, direction);
        envelopes = flows.map(|_| all.clone()).collect();
    }
    let mut out = Vec::new();
    for (f, (promise, envelope)) in served.promises.iter().cloned().zip(envelopes).enumerate() {
        let limit = served.shared.unwrap_or_else(|| limit_of(&direction.setup, f));
        let of_all = || one.map(|(rate, latency)| (rate, latency, Curve::rate_latency(rate, latency)));
        let service = if together { of_all() } else { served.service(f) };
        let distances = envelope.as_ref().ok().zip(service.as_ref());
        let distances = distances.and_then(|(e, (_, _, service))| served.distances(f, &e.curve, service));
        let fit = |d: &Distances| backlog(&d.backlog, limit, direction.setup.largest, envelope.as_ref().ok());
        let mut outlook = Outlook {
            name: direction.flows[f].name.clone(),
            many: many(direction, f),
            connections: sources.iter().any(|s| s.source.flow == f && matches!(s.source.model, Model::Tcp(_))),
            offered: sources.iter().filter(|s| s.source.flow == f).map(|s| s.mean).sum(),
            backlog: distances.as_ref().map(fit),
            assured: None,
            expected: None,
            rate_condition: served.rate_condition.filter(|_| promise.as_ref().is_ok_and(|p| p.rate.0 > 0)),
            promise,
            limit,
            envelope,
            service,
            deadlines: served.deadlines.get(f).copied().flatten(),
            distances,
            jitter: served.jitters.get(f).cloned().flatten(),
            together,
        };
        let full = outlook.promise.as_ref().ok().map(|p| full_queue(p, &outlook));
        let curves = by_curves(&outlook).filter(|c| full.as_ref().is_none_or(|full| c.delay < full.delay));
        if outlook.envelope.as_ref().is_ok_and(Envelope::is_declared) {
            outlook.assured = curves.or(full);
        } else {
            (outlook.assured, outlook.expected) = (full, curves);
        }
        out.push(outlook);
    }
    Ok(out)
}

/// How many a flow is by the masks of its own and of its link.
fn many(direction: &Direction, flow: usize) -> Option<String> {
    let of = |each: &Each, what: &str| {
        let Each { mask, most, .. } = each;
        let shared = each.shared();
        format!("of {most} {what} at most, by {mask}; others share {shared} more, which are promised it together")
    };
    let link = direction.masks.link.as_ref().map(|each| of(each, "links"));
    let queues = direction.masks.of(flow).map(|each| of(each, "queues"));
    let all: Vec<String> = link.into_iter().chain(queues).collect();
    (!all.is_empty()).then(|| all.join("; in each, "))
}

/// Rate and latency of the queue that all flows share.
fn shared_service(direction: &Direction) -> Result<Option<(Rate, Span)>, Refusals> {
    let mut setup = direction.setup.clone();
    setup.flows.truncate(1);
    let served = served(direction, &setup)?;
    Ok(served.promises.first().and_then(|p| p.as_ref().ok()).filter(|p| p.rate.0 > 0).map(|p| (p.rate, p.latency)))
}

/// All envelopes as one, if all are known.
fn united(envelopes: &[Result<Envelope, String>], direction: &Direction) -> Result<Envelope, String> {
    let mut known = Vec::new();
    for (envelope, flow) in envelopes.iter().zip(&direction.flows) {
        match envelope {
            Ok(envelope) => known.push(envelope),
            Err(_) => {
                return Err(format!("none: all flows share a queue, and nothing limits what {} sends", flow.name));
            }
        }
    }
    let sum = |of: &dyn Fn(&Envelope) -> Option<u64>| known.iter().filter_map(|e| of(e)).fold(0, u64::saturating_add);
    let rate = sum(&|e| e.buckets.iter().map(|b| b.0.0).min());
    let burst = sum(&|e| e.buckets.iter().map(|b| b.1).max());
    Ok(Envelope {
        curve: known.iter().fold(Curve::zero(), |all, e| all.sum(&e.curve)),
        buckets: vec![(Rate(rate), burst)],
        sources: known.iter().flat_map(|e| e.sources.clone()).collect(),
        // An unknown one is below all that are known.
        smallest: known.iter().map(|e| e.smallest).min().flatten(),
    })
}

fn full_queue(promise: &Promise, flow: &Outlook) -> Delay {
    let queue = if flow.together { "the queue that all flows share" } else { "the queue" };
    let why = match (&flow.envelope, &flow.service, &flow.distances) {
        (Ok(_), Some((rate, _, _)), None) => {
            format!(
                "the rate: it may send more than the {} it is promised, and {queue} of {} fills",
                words::link_rate(*rate),
                flow.limit
            )
        }
        (Ok(_), Some(_), Some(_)) => format!("{queue}: no more than {} ever waits", flow.limit),
        _ => format!("{queue}: nothing limits what it sends, and a full one holds {}", flow.limit),
    };
    Delay {
        delay: promise.delay.delay,
        formula: promise.delay.formula.into(),
        condition: promise.delay.condition.into(),
        limit: why,
    }
}

fn by_curves(flow: &Outlook) -> Option<Delay> {
    let (distances, (rate, latency, _)) = (flow.distances.as_ref()?, flow.service.as_ref()?);
    let (latency, on_a_curve) = match distances.by {
        By::Deadlines(late) => (late, true),
        _ => (*latency, false),
    };
    let envelope = flow.envelope.as_ref().ok()?;
    let delay = Span(whole(&distances.delay.length));
    let rate = words::link_rate(*rate);
    // By turns the first bytes come sooner.
    let latency = delay.min(latency);
    let (wait, total) = (words::nanos(latency.0 as f64), words::nanos(delay.0 as f64));
    let at = float(&distances.delay.at);
    let burst = words::bytes(float(&distances.delay.level));
    let limit = if u128::from(latency.0) * 2 >= u128::from(delay.0) {
        format!("the scheduler: its latency is {wait} of {total}")
    } else if on_a_curve {
        format!("its curve: that has {burst} within {}", words::nanos((delay - latency).0 as f64 + at))
    } else if at > 0.0 {
        format!("the rate: for {} it may send faster than the {rate} it is promised", words::nanos(at))
    } else {
        format!("the burst: {burst} at {rate} take {} of {total}", words::nanos((delay - latency).0 as f64))
    };
    let whose = if flow.together { "all flows" } else { "it" };
    let condition = if envelope.is_declared() {
        format!("{whose} keep{} to the envelope", if flow.together { "" } else { "s" })
    } else {
        format!(
            "{whose} send{} no more than {}",
            if flow.together { "" } else { "s" },
            sources_named(&envelope.sources)
        )
    };
    let condition = if flow.jitter.is_some() {
        format!("{condition}; what packets were early by on the link before is not counted")
    } else {
        condition
    };
    let formula = match distances.by {
        By::Rate => HORIZONTAL,
        By::Turns => TURNS,
        By::Deadlines(_) => DEADLINES,
    };
    Some(Delay { delay, formula: formula.into(), condition, limit })
}

/// `traffic a`, `traffic a and b`.
pub fn sources_named(sources: &[String]) -> String {
    format!("traffic {}", sources.join(" and "))
}

/// Does the queue hold what may be queued?
fn backlog(distance: &Distance, limit: Limit, largest: u32, envelope: Option<&Envelope>) -> Backlog {
    let bytes = whole(&distance.length.floor());
    let smallest = envelope.and_then(|e| e.smallest).map(u64::from);
    let packets = smallest.map(|s| bytes / s.max(1));
    let least = bytes.div_ceil(u64::from(largest.max(1)));
    let (fits, lossless, enough) = match (limit, packets) {
        (Limit::Bytes(n), _) if bytes <= n => (format!("fits the queue of {limit}"), true, None),
        (Limit::Bytes(_), _) => {
            let enough = Limit::Bytes(bytes);
            (format!("packets may be lost: the queue holds {limit}, and {enough} would do"), false, Some(enough))
        }
        (Limit::Packets(n), Some(packets)) if packets <= n.into() => (format!("fits the queue of {limit}"), true, None),
        (Limit::Packets(_), Some(packets)) => {
            let enough = Limit::Packets(u32::try_from(packets).unwrap_or(u32::MAX));
            (format!("packets may be lost: the queue holds {limit}, and {enough} would do"), false, Some(enough))
        }
        (Limit::Packets(n), None) if least <= n.into() => {
            // So many and one more are too long to be queued all.
            let size = bytes / (u64::from(n) + 1) + 1;
            let enough = Limit::Bytes(bytes);
            let unless = if size > 1 { format!(" if no packet is below {size} B") } else { String::new() };
            (format!("fits the queue of {limit}{unless}"), size <= 1, (size > 1).then_some(enough))
        }
        (Limit::Packets(_), None) => {
            let enough = Limit::Bytes(bytes);
            (format!("packets may be lost: the queue holds {limit}, and {enough} would do"), false, Some(enough))
        }
    };
    Backlog { bytes, packets, fits, lossless, enough }
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::time::Time;
    use falaj_theory::exact;
    use falaj_traffic::source::Lasting;
    use falaj_traffic::source::size::Sizes;

    /// Every packet of any two and those between them, at rates where a gap is
    /// no whole number of nanoseconds, and short ones.
    #[test]
    fn sources_keep_to_the_envelope_derived_from_them() {
        let law = Lasting::Exponential;
        let on_off = |us| Model::OnOff { on: Span::from_micros(us), off: Span::from_micros(3 * us), law };
        for (rate, size) in [(12_000_000, 500), (33_333_333, 1514), (7_777_777_777, 64), (399_999_999_999, 60)] {
            for model in [Model::Cbr, on_off(1), on_off(50), on_off(3_000)] {
                let (name, start) = ("a".into(), Time(7));
                let source = Source {
                    name,
                    link: 0,
                    flow: 0,
                    towards: Towards::Up,
                    key: None,
                    model: model.clone(),
                    rate: Rate(rate),
                    sizes: Sizes::Fixed(size),
                    limit: None,
                    sources: 1,
                    start,
                    stop: None,
                    ecn: falaj_sched::label::Ecn::Not,
                };
                let curve = Envelope::derived(&[&Sends::on(&source, |bytes| bytes)]).unwrap().curve;
                let mut tight = false;
                let packets = falaj_traffic::source::Source::new(source.spec(), 5, 0);
                let times: Vec<Time> = packets.take(250).map(|p| p.at).collect();
                for (n, from) in times.iter().enumerate() {
                    for (packets, to) in times[n..].iter().enumerate().map(|(i, t)| (i as u64 + 1, t)) {
                        let most = curve.after(&exact((*to - *from).0));
                        assert!(exact(packets * u64::from(size)) <= most, "{model:?} {rate} {size}: {packets}");
                        tight |= packets > 1 && exact(packets * u64::from(size) + 60) > most;
                    }
                }
                assert!(tight || model == on_off(1), "{model:?} {rate} {size}: far too large");
            }
        }
    }
}
