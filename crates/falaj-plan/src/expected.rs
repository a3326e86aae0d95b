//! The expected delay and loss of each flow: means and quantiles, if all sources of a link are
//! Poisson and a formula is known. Bounds hold for each packet; these values are averages over a
//! long time.

use crate::bounds::{Outlook, Sends, conserves_work};
use falaj_engine::pipe::Pace;
use falaj_queueing::{PhasedDelay, PhasedLink, PoissonServer, mean_waits_by_rank, phased_delays};
use falaj_scenario::{Direction, Scenario};
use falaj_sched::contract::complete::CompleteDiscipline;
use falaj_sched::contract::guarantee::{Precedence, RingPhase};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::scheduler::build::shared_queue;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::BIT_NANOS;
use falaj_sched::units::time::Time;
use falaj_traffic::source::Model;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The delay and the loss to expect of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Mean delay in nanoseconds, from the last bit in to the last bit out.
    pub mean: f64,
    /// Median and 99th percentile of the delay in nanoseconds, if they are known.
    pub quantiles: Option<[f64; 2]>,
    /// The fraction of packets that find the queue full; `None` if it is below 1e-5, or below
    /// [`NEGLIGIBLE`] and not computed.
    pub loss: Option<f64>,
    /// The flows over which the mean is taken, weighted by bytes; empty if it is only this flow's
    /// mean.
    pub together: Arc<[String]>,
    /// The model, and the formula of the mean.
    pub formula: String,
}

impl Expected {
    /// The flows over which the mean is taken, if there are several: all names, or their number and
    /// the first and the last name.
    pub fn flows(&self) -> String {
        match &self.together[..] {
            [first, _, _, .., last] => {
                format!("{} flows, {first} to {last}", self.together.len())
            }
            few => few.join(", "),
        }
    }
}

/// Loss below which a queue counts as unlimited. Such a loss changes a mean by about this fraction.
pub const NEGLIGIBLE: f64 = 1e-3;
/// Loss below which a limit does not change a 99th percentile either.
const NO_LOSS: f64 = 1e-5;
/// Longest queue, in packets, whose probabilities are computed one by one.
const LONGEST: u64 = 1_000_000;
/// Number of flows up to which quantiles are computed.
const FINE: usize = 200;

/// Packets per nanosecond, by length in bytes as the link accounts them.
type PacketRates = BTreeMap<u32, f64>;

/// The values to expect of all flows of a direction, or the reasons why none are known.
pub(crate) fn expected(
    scenario: &Scenario,
    direction: &Direction,
    sources: &[Sends<'_>],
    flows: &[Outlook],
) -> Vec<Result<Expected, String>> {
    if let Some(why) = obstacle(scenario, direction, sources) {
        return vec![Err(why); flows.len()];
    }
    let mut rates = vec![PacketRates::new(); flows.len()];
    for sends in sources {
        let (bytes, packets) = sends.source.sizes.mean();
        let bits = 8e9 * bytes as f64 / packets as f64;
        let rate = sends.mean_sources * sends.source.rate.0 as f64 / bits;
        let lengths = sends.source.sizes.probabilities().into_iter();
        for (length, probability) in lengths.filter(|_| rate > 0.0) {
            *rates[sends.flow].entry(direction.cost(length)).or_default() += rate * probability;
        }
    }
    let link = PoissonLink { direction, flows, rates };
    let kind = direction.scheduler().kind;
    let setup = &direction.pipe.setup;
    let all = match shared_queue(kind, setup) {
        Ok(Some(limit)) => link.in_order(limit),
        _ if conserves_work(kind, setup) => link.by_rank(&ranks(direction)),
        _ => match ring(direction) {
            Some(ring) => link.by_phase(&ring),
            None => Err(format!("no formula is known for {kind}")),
        },
    };
    let unused = || "no traffic is sent to it".to_owned();
    match all {
        Ok(all) => all.into_iter().map(|of| of.ok_or_else(unused)).collect(),
        Err(why) => vec![Err(why); flows.len()],
    }
}

/// The reason why no formula applies to the link or to its sources, if there is one.
fn obstacle(scenario: &Scenario, direction: &Direction, sources: &[Sends<'_>]) -> Option<String> {
    let pipe = &direction.pipe;
    let policy = || pipe.setup.any_leaf(&mut |leaf| leaf.values.policy().is_some());
    let of_link = match () {
        () if sources.is_empty() => Some("no traffic is sent over the link"),
        () if !scenario.changes.is_empty() => Some("links, flows or rules change"),
        () if pipe.setup.rate.is_unlimited() => Some("the link is unlimited"),
        () if pipe.capacity != Capacity::Serialise || pipe.no_guarantee().is_some() => {
            Some("the link does not send at one rate")
        }
        () if pipe.pace != Pace::Falaj => Some("the device paces the link"),
        () if !pipe.masks.is_none() => Some("a mask makes several queues"),
        () if !pipe.impairments.is_none() => Some("the link has impairments"),
        () if policy() => Some("the policy of a queue drops packets"),
        () => None,
    };
    let of_source = |sends: &Sends<'_>| {
        let source = sends.source;
        let why = match () {
            () if !sends.first => "passes other links before",
            () if source.model != Model::Poisson => "is not Poisson",
            () if source.limit.is_some() => "passes a token bucket",
            () if source.start != Time::ZERO || source.stop.is_some() => "begins or ends",
            () => return None,
        };
        Some(format!("traffic {} {why}", source.name))
    };
    of_link.map(str::to_owned).or_else(|| sources.iter().find_map(of_source))
}

/// The rank of each flow in a strict order of service. All flows have the same rank if the order is
/// not strict, or not known.
fn ranks(direction: &Direction) -> Vec<u32> {
    struct AllRanks(u32);
    impl registry::Visitor for AllRanks {
        type Output = Vec<Precedence>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Vec<Precedence> {
            (0..self.0).map(|f| discipline.precedence(FlowId(f))).collect()
        }
    }
    let (setup, flows) = (&direction.pipe.setup, direction.flows.len());
    let undivided = setup.flows.iter().all(|flow| flow.inner.is_none());
    let places = undivided.then(|| {
        registry::build(direction.pipe.kind, setup, AllRanks(flows as u32)).unwrap_or_default()
    });
    let once = u64::from(setup.largest);
    let strict = |place: &Precedence| place.contract.is_none() && place.once <= once;
    let places = places.filter(|places| places.iter().all(strict)).unwrap_or_default();
    (0..flows).map(|f| places.get(f).map_or(0, |place| place.rank)).collect()
}

/// The phases of all flows, if they take turns in phases.
fn ring(direction: &Direction) -> Option<Vec<RingPhase>> {
    struct AllPhases(u32);
    impl registry::Visitor for AllPhases {
        type Output = Option<Vec<RingPhase>>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Option<Vec<RingPhase>> {
            (0..self.0).map(|f| discipline.phase(FlowId(f))).collect()
        }
    }
    let setup = &direction.pipe.setup;
    if setup.flows.iter().any(|flow| flow.inner.is_some()) {
        return None;
    }
    let all = AllPhases(direction.flows.len() as u32);
    registry::build(direction.pipe.kind, setup, all).ok().flatten()
}

/// A link whose sources are all Poisson.
struct PoissonLink<'a> {
    direction: &'a Direction,
    flows: &'a [Outlook],
    /// The packet rates of each flow.
    rates: Vec<PacketRates>,
}

impl PoissonLink<'_> {
    /// The packets of these flows, with their times on the link in nanoseconds.
    fn server(&self, flows: impl IntoIterator<Item = usize>) -> PoissonServer {
        let mut all = PacketRates::new();
        for (bytes, rate) in flows.into_iter().flat_map(|f| &self.rates[f]) {
            *all.entry(*bytes).or_default() += rate;
        }
        PoissonServer::new(all.into_iter().map(|(bytes, rate)| (self.time(bytes.into()), rate)))
    }

    fn time(&self, bytes: u64) -> f64 {
        bytes as f64 * BIT_NANOS as f64 / self.direction.pipe.setup.rate.0 as f64
    }

    /// The shortest and the longest packet of these flows.
    fn lengths(&self, flows: impl IntoIterator<Item = usize>) -> (u32, u32) {
        let all = flows.into_iter().flat_map(|f| self.rates[f].keys());
        all.fold((u32::MAX, 0), |(least, most), &of| (least.min(of), most.max(of)))
    }

    /// Upper bound on the probability that a packet finds no room. It is the probability that
    /// queues without limits have more unfinished work than certainly fits. The packet on the link
    /// counts with its whole length.
    fn overflow(&self, all: &PoissonServer, limit: Limit, (least, most): (u32, u32)) -> f64 {
        let room = match limit {
            Limit::Packets(n) => u64::from(least) * u64::from(n.saturating_sub(1)),
            Limit::Bytes(bytes) => bytes.saturating_sub(2 * u64::from(most)),
        };
        all.unfinished(self.time(room))
    }

    /// The values if all flows share a queue, and are served in order of arrival.
    fn in_order(&self, limit: Limit) -> Result<Vec<Option<Expected>>, String> {
        let everything = || 0..self.flows.len();
        let all = self.server(everything());
        let lengths = self.lengths(everything());
        let overflow = self.overflow(&all, limit, lengths);
        let most = match limit {
            Limit::Packets(n) => Some(u64::from(n)),
            Limit::Bytes(bytes) if lengths.0 == lengths.1 => Some(bytes / u64::from(lengths.0)),
            Limit::Bytes(_) => None,
        };
        let letter = if lengths.0 == lengths.1 { "D" } else { "G" };
        let limited = match most.filter(|most| *most <= LONGEST && overflow > NO_LOSS) {
            Some(most) => Some((most, all.limited(most as usize))),
            None if overflow > NEGLIGIBLE => {
                return Err(format!(
                    "packets of several sizes may fill its queue of {limit}; a limit in packets \
                     has a formula"
                ));
            }
            None => None,
        };
        let (wait, loss, formula) = match limited {
            Some((most, queue)) => {
                (queue.mean_wait, Some(queue.loss), format!("M/{letter}/1/{most}"))
            }
            None => {
                let wait =
                    all.mean_wait().ok_or("the offered load is more than the link carries")?;
                (wait, None, format!("M/{letter}/1, W0/(1-rho)"))
            }
        };
        let table = (loss.unwrap_or(overflow) < NO_LOSS && self.flows.len() <= FINE)
            .then(|| all.waits())
            .flatten();
        let of_flow = |f: usize| {
            let own = self.server([f]);
            let quantile = |share| table.as_ref().map(|table| table.delay_quantile(&own, share));
            Expected {
                mean: wait + own.load() / own.rate(),
                quantiles: quantile(0.5).zip(quantile(0.99)).map(|(p50, p99)| [p50, p99]),
                loss: loss.filter(|loss| *loss >= NO_LOSS),
                together: Arc::default(),
                formula: formula.clone(),
            }
        };
        let used = |f: usize| (!self.rates[f].is_empty()).then(|| of_flow(f));
        Ok(everything().map(used).collect())
    }

    /// The values if each flow has a queue, and flows of a lower rank are served first. If several
    /// flows share a rank, only the mean over all of their bytes is known.
    fn by_rank(&self, ranks: &[u32]) -> Result<Vec<Option<Expected>>, String> {
        let all = self.server(0..self.flows.len());
        for f in (0..self.flows.len()).filter(|&f| !self.rates[f].is_empty()) {
            let limit = self.flows[f].limit;
            if self.overflow(&all, limit, self.lengths([f])) > NEGLIGIBLE {
                return Err(format!(
                    "the queue of {limit} of {} may be full too often",
                    self.flows[f].name
                ));
            }
        }
        let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (f, &rank) in ranks.iter().enumerate().filter(|&(f, _)| !self.rates[f].is_empty()) {
            members.entry(rank).or_default().push(f);
        }
        let servers: Vec<PoissonServer> =
            members.values().map(|flows| self.server(flows.iter().copied())).collect();
        let waits = mean_waits_by_rank(&servers);
        let formula = match (members.len(), members.values().all(|flows| flows.len() == 1)) {
            (1, true) => "M/G/1, W0/(1-rho)",
            (1, false) => "conservation law, W0/(1-rho)",
            _ => "Cobham, W0/((1-sigma')(1-sigma))",
        };
        let mut out = vec![None; self.flows.len()];
        for ((flows, server), wait) in members.values().zip(&servers).zip(waits) {
            let wait = wait.ok_or("the offered load is more than the link carries")?;
            let several = flows.len() > 1;
            let names = flows.iter().filter(|_| several).map(|&f| self.flows[f].name.clone());
            let expected = Expected {
                // The mean time of a packet on the link, weighted by bytes, is twice the mean time
                // that remains for the packet on a busy link.
                mean: wait
                    + if several {
                        2.0 * server.residual() / server.load()
                    } else {
                        server.load() / server.rate()
                    },
                quantiles: None,
                loss: None,
                together: names.collect(),
                formula: formula.to_owned(),
            };
            flows.iter().for_each(|&f| out[f] = Some(expected.clone()));
        }
        Ok(out)
    }

    /// The values if each flow has a queue, and a phase in which no other flow sends.
    fn by_phase(&self, ring: &[RingPhase]) -> Result<Vec<Option<Expected>>, String> {
        let mut links = Vec::new();
        for (f, phase) in ring.iter().enumerate() {
            let (least, most) = match self.lengths([f]) {
                (u32::MAX, _) => (self.direction.pipe.setup.largest, 0),
                lengths => lengths,
            };
            if most > least {
                return Err(format!("packets of {} have several sizes", self.flows[f].name));
            }
            let most = match self.flows[f].limit {
                Limit::Packets(n) => u64::from(n),
                Limit::Bytes(bytes) => bytes / u64::from(least),
            };
            links.push(PhasedLink {
                rate: self.server([f]).rate(),
                service: self.time(least.into()),
                phase: phase.length.0 as f64,
                stays_empty: phase.stays_empty,
                most: usize::try_from(most).unwrap_or(usize::MAX).max(1),
            });
        }
        let skips = ring.iter().any(|phase| phase.skips_tail);
        let all = phased_delays(&links, skips).ok_or(
            "the chains of its phases have no solution: all flows are of type B, or queues, \
             phases or their number are too large",
        )?;
        let constant = !skips && ring.iter().all(|phase| phase.stays_empty);
        let formula = match constant {
            true => "chain of each phase, constant pauses",
            false => "chain of each phase, pauses taken as independent: an error of a few percent",
        };
        let of_flow = |(f, delay): (usize, &PhasedDelay)| {
            (!self.rates[f].is_empty()).then(|| Expected {
                mean: delay.mean,
                quantiles: None,
                loss: Some(delay.loss).filter(|loss| *loss >= NO_LOSS),
                together: Arc::default(),
                formula: formula.to_owned(),
            })
        };
        Ok(all.iter().enumerate().map(of_flow).collect())
    }
}
