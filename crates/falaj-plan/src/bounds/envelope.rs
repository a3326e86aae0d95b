//! The envelope of a flow: declared by the flow, or derived from the scenario's sources.

use falaj_engine::rules::{Passage, RouteRule};
use falaj_scenario::{Direction, Flow, Scenario, Source, Towards};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::rate::Rate;
use falaj_theory::{Curve, whole};
use falaj_traffic::source::Model;
use std::collections::BTreeMap;

/// The envelope of a flow, which bounds its traffic.
#[derive(Clone)]
pub struct Envelope {
    /// Bound on the bytes sent in any time of a given length.
    pub curve: Curve,
    /// The curve as token buckets: rates, and bursts in bytes, rounded up.
    pub buckets: Vec<(Rate, u64)>,
    /// The names of the sources that it was derived from; empty if the flow declares it.
    pub sources: Vec<String>,
    /// The size of the smallest packet, if it is known.
    pub smallest: Option<u32>,
}

impl Envelope {
    /// The envelope that the flow declares, if any.
    pub fn declared(flow: &Flow) -> Option<Envelope> {
        let buckets: Vec<(Rate, u64)> = flow.envelope.iter().map(|b| (b.rate, b.burst)).collect();
        let curves = buckets.iter().map(|&(rate, burst)| Curve::token_bucket(rate, burst));
        let curve = curves.reduce(|a, b| a.min(&b))?;
        Some(Envelope { curve, buckets, sources: Vec::new(), smallest: None })
    }

    /// The envelope of the sources in the worst case, or the reason why there is none.
    pub(super) fn derived(sources: &[&Sends]) -> Result<Envelope, String> {
        if let Some(later) = sources.iter().find(|s| !s.first) {
            let name = &later.source.name;
            return Err(format!(
                "none: traffic {name} passes other links first, which may make its bursts larger"
            ));
        }
        if let Some(random) = sources.iter().find(|s| s.at_most.is_none()) {
            let what = match random.source.model {
                Model::Poisson => "Poisson, whose bursts have no limit",
                Model::Tcp(_) => "TCP, which adapts to the link and has no envelope",
                Model::Recorded(_) => {
                    "a capture, which bounds only the recorded packets, not later traffic"
                }
                _ => "random, whose bursts have no limit",
            };
            return Err(format!("none: traffic {} is {what}", random.source.name));
        }
        // While it is on, an on-off source sends evenly, and it may stay on for any length of time.
        let all = |s: &Sends, of: u64| of.saturating_mul(s.sources.into());
        let each = sources.iter().filter_map(|s| {
            let (rate, bytes) = s.at_most?;
            let bytes = u32::try_from(all(s, bytes.into())).unwrap_or(u32::MAX);
            Some((Rate(all(s, rate.0)), bytes))
        });
        let even = each.clone().map(|(rate, bytes)| Curve::even(rate, bytes));
        let curve = even.reduce(|a, b| a.sum(&b)).ok_or("none: its traffic is unknown")?;
        let rate = Rate(each.map(|(rate, _)| rate.0).fold(0, u64::saturating_add));
        Ok(Envelope {
            buckets: vec![(rate, whole(&curve.pieces()[0].after))],
            curve,
            sources: sources.iter().map(|s| s.source.name.clone()).collect(),
            smallest: sources.iter().map(|s| s.smallest).min(),
        })
    }

    /// Returns true if the flow declares the envelope, and false if it was derived from sources.
    pub fn is_declared(&self) -> bool {
        self.sources.is_empty()
    }
}

/// The traffic of a source on a link that it passes, in bytes as the link counts them.
pub struct Sends<'a> {
    pub(crate) source: &'a Source,
    /// The flow that takes the source's packets.
    pub(crate) flow: usize,
    /// Number of individual sources that may send to that flow.
    sources: u32,
    /// Mean number of individual sources that send to that flow.
    pub(crate) mean_sources: f64,
    /// False if the traffic passes other links before this one.
    pub(crate) first: bool,
    /// A token bucket that bounds each source: rate, and burst in bytes; `None` if nothing bounds
    /// it.
    at_most: Option<(Rate, u32)>,
    /// Mean rate of these sources together, in bits per second.
    pub(super) mean: u64,
    smallest: u32,
}

impl<'a> Sends<'a> {
    fn on(
        source: &'a Source,
        cost: impl Fn(u32) -> u32,
        place: FlowPlace,
        many: SourceCount,
    ) -> Sends<'a> {
        let spec = source.spec();
        let (bytes, times) = spec.mean_size();
        let size = (bytes / times.max(1)).max(1) as u32;
        let mean = source.mean_rate().0 as f64 * f64::from(cost(size)) / f64::from(size);
        Sends {
            source,
            flow: place.flow,
            sources: many.most,
            mean_sources: many.mean,
            first: place.first,
            smallest: cost(spec.smallest()),
            at_most: spec.at_most(cost),
            mean: (mean * many.mean / f64::from(source.sources)).round() as u64,
        }
    }
}

/// A flow of a link at which packets of a source arrive. `first` is true if they come directly from
/// the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FlowPlace {
    link: usize,
    flow: usize,
    first: bool,
}

impl FlowPlace {
    /// The flow at which a source's packets enter the first link.
    fn first(source: &Source) -> FlowPlace {
        FlowPlace { link: source.link, flow: source.flow, first: true }
    }
}

/// The maximum number of individual sources that send to a flow of a link, and their mean number.
#[derive(Clone, Copy, Default)]
struct SourceCount {
    most: u32,
    /// The mean number of these sources, if rules take only some packets.
    mean: f64,
}

impl SourceCount {
    fn all(source: &Source) -> SourceCount {
        SourceCount { most: source.sources, mean: source.sources.into() }
    }
}

/// The traffic on each link `n`: up at index `2 n`, down at index `2 n + 1`.
pub fn sources(scenario: &Scenario) -> Vec<Vec<Sends<'_>>> {
    let rules: Vec<RouteRule> = scenario.rules.iter().map(|rule| rule.rule.clone()).collect();
    let mut all: Vec<_> = (0..2 * scenario.links.len()).map(|_| Vec::new()).collect();
    for source in &scenario.traffic {
        let way = usize::from(source.towards == Towards::Down);
        for (place, many) in places(scenario, &rules, source) {
            let direction = scenario.links[place.link].direction(source.towards);
            let cost = |bytes| direction.cost(bytes);
            all[2 * place.link + way].push(Sends::on(source, cost, place, many));
        }
    }
    all
}

fn places(
    scenario: &Scenario,
    rules: &[RouteRule],
    source: &Source,
) -> BTreeMap<FlowPlace, SourceCount> {
    let Some(key) = source.key.filter(|_| !rules.is_empty()) else {
        return BTreeMap::from([(FlowPlace::first(source), SourceCount::all(source))]);
    };
    let mut all: BTreeMap<FlowPlace, SourceCount> = BTreeMap::new();
    for n in 0..source.sources {
        let key = source.following(&key, n);
        let passage = Passage::of(rules, &key, usize::from(source.towards == Towards::Down));
        let mut here: BTreeMap<FlowPlace, f64> = BTreeMap::new();
        for step in passage.steps {
            let link = step.link as usize;
            let flows = scenario.links[link].direction(source.towards).classifier();
            if let Some(FlowId(flow)) = flows.flow_of(&step.key) {
                let place = FlowPlace { link, flow: flow as usize, first: step.first };
                *here.entry(place).or_default() += step.share;
            }
        }
        for (place, share) in here {
            let many = all.entry(place).or_default();
            many.most += 1;
            many.mean += share;
        }
    }
    all
}

/// The envelope of a source on the first link of its route.
///
/// # Errors
/// Nothing bounds its traffic; the error is the reason.
pub fn sent_by(scenario: &Scenario, source: &Source) -> Result<Envelope, String> {
    let direction = scenario.links[source.link].direction(source.towards);
    let place = FlowPlace::first(source);
    let cost = |bytes| direction.cost(bytes);
    Envelope::derived(&[&Sends::on(source, cost, place, SourceCount::all(source))])
}

/// The sum of all envelopes, if all are known.
pub(super) fn united(
    envelopes: &[Result<Envelope, String>],
    direction: &Direction,
) -> Result<Envelope, String> {
    let mut known = Vec::new();
    for (envelope, flow) in envelopes.iter().zip(&direction.flows) {
        match envelope {
            Ok(envelope) => known.push(envelope),
            Err(_) => {
                return Err(format!(
                    "none: all flows share a queue, and nothing limits what {} sends",
                    flow.name
                ));
            }
        }
    }
    let sum = |of: &dyn Fn(&Envelope) -> Option<u64>| {
        known.iter().filter_map(|e| of(e)).fold(0, u64::saturating_add)
    };
    let rate = sum(&|e| e.buckets.iter().map(|b| b.0.0).min());
    let burst = sum(&|e| e.buckets.iter().map(|b| b.1).max());
    Ok(Envelope {
        curve: known.iter().fold(Curve::zero(), |all, e| all.sum(&e.curve)),
        buckets: vec![(Rate(rate), burst)],
        sources: known.iter().flat_map(|e| e.sources.clone()).collect(),
        // If the smallest packet of one flow is unknown, so is the smallest packet of all flows.
        smallest: known.iter().map(|e| e.smallest).min().flatten(),
    })
}

/// The sources in words: `traffic a`, `traffic a and b`.
pub fn sources_named(sources: &[String]) -> String {
    format!("traffic {}", sources.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::time::{Span, Time};
    use falaj_theory::exact;
    use falaj_traffic::source::PeriodLaw;
    use falaj_traffic::source::size::Sizes;

    /// Checks all pairs of packets, with the packets between them, at rates for which a gap is not
    /// a whole number of nanoseconds, and with short packets.
    #[test]
    fn sources_keep_to_the_envelope_derived_from_them() {
        let law = PeriodLaw::Exponential;
        let on_off =
            |us| Model::OnOff { on: Span::from_micros(us), off: Span::from_micros(3 * us), law };
        for (rate, size) in
            [(12_000_000, 500), (33_333_333, 1514), (7_777_777_777, 64), (399_999_999_999, 60)]
        {
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
                    ecn: falaj_sched::units::label::Ecn::Not,
                };
                let (place, many) = (FlowPlace::first(&source), SourceCount::all(&source));
                let sends = Sends::on(&source, |bytes| bytes, place, many);
                let curve = Envelope::derived(&[&sends]).unwrap().curve;
                let mut tight = false;
                let packets = falaj_traffic::source::Source::new(source.spec(), 5, 0);
                let times: Vec<Time> = packets.take(250).map(|p| p.at).collect();
                for (n, from) in times.iter().enumerate() {
                    for (packets, to) in
                        times[n..].iter().enumerate().map(|(i, t)| (i as u64 + 1, t))
                    {
                        let most = curve.after(&exact((*to - *from).0));
                        assert!(
                            exact(packets * u64::from(size)) <= most,
                            "{model:?} {rate} {size}: {packets}"
                        );
                        tight |= packets > 1 && exact(packets * u64::from(size) + 60) > most;
                    }
                }
                assert!(tight || model == on_off(1), "{model:?} {rate} {size}: far too large");
            }
        }
    }
}
