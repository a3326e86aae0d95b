//! Collects replications as they end: the results of each flow per replication, and over all
//! replications.

use crate::measure::Measure;
use crate::simulate::{Many, Run};
use falaj_engine::PipeId;
use falaj_engine::pipe::Counters;
use falaj_engine::rules::RuleCounters;
use falaj_sched::contract::breach::Breach;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_traffic::interval::Estimate;
use falaj_traffic::meter::Meter;
use falaj_traffic::tcp::Transfers;
use std::collections::BTreeMap;

/// Minimum number of packets beyond a quantile in each replication. With fewer packets the
/// quantile's interval is not known.
const BEYOND: f64 = 5.0;

/// Quantiles for which every study has intervals.
pub const QUANTILES: [f64; 2] = [0.5, 0.99];

/// All replications of an experiment. It keeps only a few numbers per replication.
#[derive(Clone, Debug, Default)]
pub struct Study {
    quantiles: Vec<f64>,
    flows: Vec<Vec<Gathered>>,
    taken: Vec<RuleCounters>,
    unmatched: u64,
    /// Delays over all links, by source of the scenario; empty without rules.
    ways: Vec<Meter>,
    /// Connections, by source of the scenario.
    connections: BTreeMap<usize, Connections>,
    many: Option<(usize, Vec<Many>)>,
    breaches: Vec<Vec<Breach>>,
    replications: usize,
    complete: bool,
    /// Simulated time and counted time of the first replication.
    times: Option<(Span, Span)>,
    /// Replications that were stopped, each with its number.
    stopped: Vec<(usize, Run)>,
}

/// The connections of a source over all replications.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// The sum over all replications.
    pub all: Transfers,
    /// Goodput in bits per second, by the number of the replication.
    goodput: BTreeMap<usize, f64>,
}

impl Connections {
    /// Adds the transfers of the replication with this number, which were counted for the time
    /// `counted`.
    pub fn take(&mut self, number: usize, transfers: &Transfers, counted: Span) {
        self.all.add(transfers);
        self.goodput.insert(number, transfers.bytes as f64 * 8.0 / counted.as_secs_f64());
    }

    /// Goodput of all connections together in bits per second, each byte of payload counted once.
    pub fn goodput(&self) -> Option<Estimate> {
        Estimate::of(&self.goodput.values().copied().collect::<Vec<_>>())
    }
}

/// The results of a flow over all replications.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The sum of the counters of all replications.
    pub counters: Counters,
    /// The delays of all replications together.
    pub delay: Meter,
    /// Values by the number of the replication.
    values: BTreeMap<usize, FlowValues>,
    quantiles: Vec<f64>,
}

/// The results of a flow in one replication.
#[derive(Clone, Debug)]
struct FlowValues {
    offered_rate: f64,
    rate: f64,
    loss: Option<f64>,
    mean: Option<f64>,
    /// The quantiles, in the study's order; `None` if too few packets lie beyond the quantile.
    quantiles: Vec<Option<f64>>,
}

impl Study {
    /// A study without replications yet. It has intervals for [`QUANTILES`] and for these
    /// quantiles.
    pub fn new(quantiles: &[f64]) -> Study {
        let mut all = QUANTILES.to_vec();
        all.extend(quantiles.iter().filter(|q| !QUANTILES.contains(q)));
        Study { quantiles: all, ..Study::default() }
    }

    /// Adds a replication. A replication that was stopped counts only if all replications were
    /// stopped.
    pub fn take(&mut self, number: usize, run: Run) {
        if run.complete { self.gather(number, run, true) } else { self.stopped.push((number, run)) }
    }

    /// Ends the study: no more replications follow.
    pub fn finish(&mut self) {
        let stopped = std::mem::take(&mut self.stopped);
        if self.replications == 0 {
            // A replication that was stopped during its warm-up has no results.
            let some = stopped.into_iter().filter(|(_, run)| run.counted() > Span::ZERO);
            some.for_each(|(number, run)| self.gather(number, run, false));
        }
    }

    fn gather(&mut self, number: usize, run: Run, complete: bool) {
        let counted = run.counted();
        if self.flows.is_empty() {
            let none = Gathered { quantiles: self.quantiles.clone(), ..Gathered::default() };
            self.flows = run.pipes.iter().map(|flows| vec![none.clone(); flows.len()]).collect();
            self.taken = vec![RuleCounters::default(); run.taken.len()];
            self.breaches = vec![Vec::new(); run.breaches.len()];
        }
        for (all, one) in self.flows.iter_mut().flatten().zip(run.pipes.iter().flatten()) {
            let quantile = |&share: &f64| {
                let known = one.delay.count() as f64 * (1.0 - share).min(share) >= BEYOND;
                one.delay.quantile(share).filter(|_| known).map(|delay| delay.0 as f64)
            };
            let values = FlowValues {
                offered_rate: one.offered_rate(counted),
                rate: one.delivered_rate(counted),
                loss: (one.counters.offered > 0)
                    .then(|| one.counters.dropped() as f64 / one.counters.offered as f64),
                mean: one.delay.mean_nanos(),
                quantiles: self.quantiles.iter().map(quantile).collect(),
            };
            all.counters.add(&one.counters);
            all.delay.add(&one.delay);
            all.values.insert(number, values);
        }
        for (all, one) in self.taken.iter_mut().zip(&run.taken) {
            *all =
                RuleCounters { packets: all.packets + one.packets, bytes: all.bytes + one.bytes };
        }
        for (all, some) in self.breaches.iter_mut().zip(run.breaches) {
            some.into_iter().for_each(|breach| breach.join(all));
        }
        self.unmatched += run.unmatched;
        self.ways.resize_with(run.ways.len().max(self.ways.len()), Meter::new);
        self.ways.iter_mut().zip(&run.ways).for_each(|(all, way)| all.add(way));
        for (source, transfers) in &run.connections {
            self.connections.entry(*source).or_default().take(number, transfers, counted);
        }
        if self.many.as_ref().is_none_or(|(first, _)| number < *first) {
            self.many = Some((number, run.many));
            self.times = Some((run.duration, counted));
        }
        self.replications += 1;
        self.complete = complete;
    }

    /// The number of replications.
    pub fn replications(&self) -> usize {
        self.replications
    }

    /// Returns true if all replications that count ran to their end.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Length of a replication in simulated time; if replications were stopped, the length of the
    /// first one.
    pub fn duration(&self) -> Span {
        self.times.map_or(Span::ZERO, |(duration, _)| duration)
    }

    /// Counted time of a replication: the part of its duration after the warm-up.
    pub fn counted(&self) -> Span {
        self.times.map_or(Span::ZERO, |(_, counted)| counted)
    }

    /// The results of a flow.
    ///
    /// # Panics
    /// If there is no such flow, or no replication.
    pub fn flow(&self, pipe: PipeId, flow: FlowId) -> &Gathered {
        &self.flows[pipe.0 as usize][flow.index()]
    }

    /// Counters of each rule, over all replications.
    pub fn taken(&self) -> &[RuleCounters] {
        &self.taken
    }

    /// Packets that matched no rule, or no flow of their link, over all replications.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// If there are rules: delays over all links on a packet's path, by source of the scenario,
    /// over all replications.
    pub fn ways(&self) -> &[Meter] {
        &self.ways
    }

    /// The transfers of connections, by source of the scenario, over all replications.
    pub fn connections(&self) -> &BTreeMap<usize, Connections> {
        &self.connections
    }

    /// Queues and pipes that masks created in the first replication.
    pub fn many(&self) -> &[Many] {
        self.many.as_ref().map_or(&[], |(_, many)| many)
    }

    /// Contract violations of disciplines from libraries by pipe, over all replications.
    pub fn breaches(&self) -> &[Vec<Breach>] {
        &self.breaches
    }
}

impl Gathered {
    /// The estimate over the replications, with Student's interval; `None` if no replication has a
    /// value. The estimate of a quantile is the quantile of all packets together.
    pub fn estimate(&self, measure: Measure) -> Option<Estimate> {
        let values: Vec<f64> = self.values(measure).into_values().collect();
        match measure {
            // In a replication with few packets, one largest delay would represent all rare delays.
            // So the estimate is the quantile of all packets, and the replications only give the
            // interval.
            Measure::DelayQuantile(share) => {
                let centre = self.delay.quantile(share)?.0 as f64;
                let known = if values.len() == self.values.len() { &values[..] } else { &[] };
                Some(Estimate::around(centre, known))
            }
            _ => Estimate::of(&values),
        }
    }

    /// Rate of the arrivals in bits per second, counted as the link accounts bytes.
    pub fn offered_rate(&self) -> Option<Estimate> {
        Estimate::of(&self.values.values().map(|v| v.offered_rate).collect::<Vec<_>>())
    }

    /// The estimate of the value of `other` minus the value of this flow, over the replications
    /// that both have: a paired comparison. With identical arrivals it is more precise than either
    /// estimate.
    pub fn difference(&self, other: &Gathered, measure: Measure) -> Option<Estimate> {
        let (mine, others) = (self.values(measure), other.values(measure));
        let pairs: Vec<f64> =
            mine.iter().filter_map(|(number, value)| Some(others.get(number)? - value)).collect();
        match measure {
            Measure::DelayQuantile(share) => {
                let [mine, others] =
                    [self, other].map(|flow| Some(flow.delay.quantile(share)?.0 as f64));
                let known = if pairs.len() == self.values.len() { &pairs[..] } else { &[] };
                Some(Estimate::around(others? - mine?, known))
            }
            _ => Estimate::of(&pairs),
        }
    }

    /// Rate of the arrivals in bits per second, by the number of the replication; identical
    /// arrivals give identical numbers.
    pub fn offered(&self) -> impl Iterator<Item = (usize, f64)> {
        self.values.iter().map(|(&number, values)| (number, values.offered_rate))
    }

    fn values(&self, measure: Measure) -> BTreeMap<usize, f64> {
        let known = |share: f64| self.quantiles.iter().position(|&q| q == share);
        let value = |values: &FlowValues| match measure {
            Measure::DelayMean => values.mean,
            Measure::Loss => values.loss,
            Measure::Rate => Some(values.rate),
            Measure::DelayQuantile(share) => values.quantiles[known(share)?],
        };
        self.values.iter().filter_map(|(&number, values)| Some((number, value(values)?))).collect()
    }
}
