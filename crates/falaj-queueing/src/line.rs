//! Simulates batches before a server, without the model's assumptions on arrivals and services.
//!
//! Each batch is one event; its packets are not simulated one by one. The time until the
//! batch departs is drawn for one of its packets, and counted for all of them.

use crate::batches::{Fill, Policy};
use crate::refused::{Refused, not_negative, positive, stable};
use falaj_engine::chance::Chance;
use falaj_traffic::interval::Estimate;
use rand_distr::{Beta, Distribution, Exp1, Gamma, Poisson, StandardUniform};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A group of equal streams of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Number of streams.
    pub count: usize,
    /// Packets of each stream per unit of time.
    pub rate: f64,
    /// Packets in a full batch of these streams; `None`: as in the batches of all other streams.
    pub size: Option<usize>,
    /// Service of the batches of these streams; `None`: as for the batches of all other streams.
    pub service: Option<Service>,
}

impl Stream {
    /// Streams whose batches are filled and served by the rules of the whole line.
    pub fn new(count: usize, rate: f64) -> Stream {
        Stream { count, rate, size: None, service: None }
    }

    /// The rule for filling the batches of these streams; `policy` is the rule of all other
    /// streams.
    fn policy(&self, policy: Policy) -> Policy {
        Policy { size: self.size.unwrap_or(policy.size), ..policy }
    }

    /// Service of the batches of these streams; `service` is the service of all other streams.
    fn service(&self, service: Service) -> Service {
        self.service.unwrap_or(service)
    }
}

/// Distribution of service times around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exponential, as in the paper. This shape is pessimistic if most of a service is the copying
    /// of packets.
    Exponential,
    /// Erlang: the sum of this number of exponential steps.
    Erlang(usize),
    /// Constant.
    Deterministic,
}

/// Time to carry a batch from one side to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Time per batch.
    pub per_batch: f64,
    /// Time per packet in the batch.
    pub per_packet: f64,
    /// Distribution around the mean.
    pub shape: Shape,
}

/// Streams of packets, the rule for filling batches, and the service of batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    streams: Vec<Stream>,
    policy: Policy,
    service: Service,
}

/// Results of a simulation. Confidence intervals are computed from the means of groups of
/// consecutive batches (the method of batch means).
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Time for which batches wait for their service.
    pub wait: Estimate,
    /// Results of each group of streams; `None` if none of its batches was counted.
    pub streams: Vec<Option<SimulatedStream>>,
    /// Fraction of the batches that wait longer than [`Ask::longer_than`].
    pub longer: Estimate,
    /// Number of batches counted.
    pub batches: u64,
}

/// Results of a simulation for a group of streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedStream {
    /// Delay of packets, from their arrival to the end of their batch's service.
    pub delay: Estimate,
    /// A quantile of the same delay: [`Ask::percentile`].
    pub at_percentile: Estimate,
    /// Time until a batch departs, over its packets.
    pub fill: Estimate,
    /// Time for which batches wait for their service.
    pub wait: Estimate,
    /// Mean number of packets in a batch.
    pub size: f64,
}

/// Settings of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// Number of batches to count. A tenth of that number precedes them uncounted.
    pub batches: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Quantile of the packets' delays to report, between 0 and 1.
    pub percentile: f64,
    /// Threshold for [`Simulated::longer`].
    pub longer_than: f64,
}

const BATCHES: u64 = 40;

impl Service {
    fn check(&self) -> Result<(), Refused> {
        not_negative("the cost of a batch", self.per_batch)?;
        not_negative("the cost of a packet", self.per_packet)?;
        positive("the cost of a batch with one packet", self.mean(1.0))?;
        if self.shape == Shape::Erlang(0) {
            let what = "the number of steps of an Erlang service";
            return Err(Refused::Value { what, value: 0.0, allowed: "1 or more" });
        }
        Ok(())
    }

    /// The mean service time of a batch with this number of packets.
    pub fn mean(&self, packets: f64) -> f64 {
        self.per_batch + self.per_packet * packets
    }

    pub(crate) fn draw(&self, packets: u64, chance: &mut Chance) -> f64 {
        let mean = self.mean(packets as f64);
        let varies = match self.shape {
            Shape::Exponential => Exp1.sample(chance),
            Shape::Erlang(steps) => {
                let sum: f64 = (0..steps).map(|_| -> f64 { Exp1.sample(chance) }).sum();
                sum / steps as f64
            }
            Shape::Deterministic => 1.0,
        };
        mean * varies
    }
}

impl Line {
    /// Builds a line of streams before one server. Loads of one and more are refused.
    pub fn new(streams: &[Stream], policy: Policy, service: Service) -> Result<Line, Refused> {
        let own = streams.iter().map(|s| (s.policy(policy), s.service(service)));
        for (policy, service) in own.chain([(policy, service)]) {
            Policy::new(policy.size, policy.timeout)?;
            service.check()?;
        }
        if !streams.iter().any(|s| s.count > 0) {
            return Err(Refused::Value {
                what: "the number of streams",
                value: 0.0,
                allowed: "1 or more",
            });
        }
        let line = Line { streams: streams.to_vec(), policy, service };
        stable(line.load()?)?;
        Ok(line)
    }

    /// Offered load: arriving work over the server's capacity.
    pub fn load(&self) -> Result<f64, Refused> {
        load(&self.streams, self.policy, self.service)
    }

    /// The groups of streams.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Sizes and waits of batches of the group of streams of this number, in closed form.
    pub fn fill(&self, group: usize) -> Result<Fill, Refused> {
        let stream = &self.streams[group];
        stream.policy(self.policy).fill(stream.rate)
    }

    /// Mean service of the batches of the group of streams of this number.
    pub fn service(&self, group: usize) -> Result<f64, Refused> {
        Ok(self.streams[group].service(self.service).mean(self.fill(group)?.size))
    }

    /// Distribution and mean of the service of all batches, if they are the same for all streams.
    pub fn common_service(&self) -> Result<Option<(Shape, f64)>, Refused> {
        let mut common = None;
        for (group, stream) in self.streams.iter().enumerate().filter(|(_, s)| s.count > 0) {
            let own = (stream.service(self.service).shape, self.service(group)?);
            if common.is_some_and(|common| common != own) {
                return Ok(None);
            }
            common = Some(own);
        }
        Ok(common)
    }

    /// Batches of all streams per unit of time.
    pub fn batch_rate(&self) -> Result<f64, Refused> {
        let mut batches = 0.0;
        for (group, stream) in self.streams.iter().enumerate().filter(|(_, s)| s.count > 0) {
            batches += stream.count as f64 * stream.rate / self.fill(group)?.size;
        }
        Ok(batches)
    }

    /// Simulates the line, batch by batch.
    pub fn simulate(&self, ask: Ask) -> Result<Simulated, Refused> {
        let mut aggregators = Vec::new();
        for (group, stream) in self.streams.iter().enumerate() {
            for _ in 0..stream.count {
                let chance = Chance::new(ask.seed, 1, aggregators.len() as u64);
                let policy = stream.policy(self.policy);
                aggregators.push(Aggregator::new(policy, stream.rate, group, chance)?);
            }
        }
        let services: Vec<Service> =
            self.streams.iter().map(|stream| stream.service(self.service)).collect();
        let mut chance = Chance::new(ask.seed, 2, 0);
        let batch = (ask.batches / BATCHES).max(1);
        let (mut free, mut done) = (0.0f64, 0u64);
        let (mut waits, mut longer) = (Vec::new(), Vec::new());
        let mut groups: Vec<GroupMeans> = services.iter().map(|_| GroupMeans::default()).collect();
        let mut counted = Counted::default();
        let warm_up = ask.batches / 10;
        let departure =
            |(index, of): (usize, &Aggregator)| Reverse(Departure { at: of.leaves, index });
        let mut departures: BinaryHeap<_> = aggregators.iter().enumerate().map(departure).collect();
        while (waits.len() as u64) < BATCHES {
            let Some(mut earliest) = departures.peek_mut() else { break };
            let next = earliest.0.index;
            let sent = aggregators[next].leave();
            earliest.0.at = aggregators[next].leaves;
            drop(earliest);
            let group = aggregators[next].group;
            let wait = (free - sent.at).max(0.0);
            let service = services[group].draw(sent.packets, &mut chance);
            free = sent.at + wait + service;
            done += 1;
            if done <= warm_up {
                continue;
            }
            counted.waits += wait;
            counted.longer += u64::from(wait > ask.longer_than);
            counted.batches += 1;
            groups[group].add(&sent, wait, service);
            if counted.batches == batch {
                let all = counted.batches as f64;
                waits.push(counted.waits / all);
                longer.push(counted.longer as f64 / all);
                groups.iter_mut().for_each(|group| group.end_batch(ask.percentile));
                counted = Counted::default();
            }
        }
        let few = || Refused::Value {
            what: "the number of batches to simulate",
            value: ask.batches as f64,
            allowed: "higher: no simulated batch was of the first stream",
        };
        let over = |batches: &[f64]| Estimate::of(batches).ok_or_else(few);
        let streams: Vec<_> = groups.iter().map(GroupMeans::simulated).collect();
        if streams.first().is_none_or(Option::is_none) {
            return Err(few());
        }
        Ok(Simulated {
            wait: over(&waits)?,
            longer: over(&longer)?,
            streams,
            batches: batch * BATCHES,
        })
    }
}

/// Offered load: arriving work over the server's capacity. It may be one or more.
pub fn load(streams: &[Stream], policy: Policy, service: Service) -> Result<f64, Refused> {
    let mut load = 0.0;
    for stream in streams.iter().filter(|s| s.count > 0) {
        let size = stream.policy(policy).fill(stream.rate)?.size;
        let service = stream.service(service).mean(size);
        load += stream.count as f64 * stream.rate / size * service;
    }
    Ok(load)
}

/// Sums over one part of the simulation. The means of the parts give the confidence intervals.
#[derive(Default)]
struct Counted {
    batches: u64,
    waits: f64,
    longer: u64,
}

/// Results of a group of streams: sums over the current part, and the means of those before.
#[derive(Default)]
struct GroupMeans {
    /// The delay of one packet of each batch, and the number of packets that it represents.
    samples: Vec<(f64, u64)>,
    fills: f64,
    waits: f64,
    batches: u64,
    packets: u64,
    /// Means of each part: delay, delay at the percentile, fill and wait.
    means: [Vec<f64>; 4],
}

impl GroupMeans {
    fn add(&mut self, sent: &SentBatch, wait: f64, service: f64) {
        self.batches += 1;
        self.packets += sent.packets;
        self.samples.push((sent.since_packet + wait + service, sent.packets));
        self.fills += sent.since_packet * sent.packets as f64;
        self.waits += wait;
    }

    /// Takes the means of a part that is over, and begins the next one.
    fn end_batch(&mut self, percentile: f64) {
        let mut samples = std::mem::take(&mut self.samples);
        let (fills, waits) = (std::mem::take(&mut self.fills), std::mem::take(&mut self.waits));
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        let packets: u64 = samples.iter().map(|s| s.1).sum();
        let all = packets as f64;
        let mut left = percentile * all;
        let at = samples.iter().find(|&&(_, packets)| {
            left -= packets as f64;
            left <= 0.0
        });
        let Some(&(at, _)) = at.or(samples.last()) else { return };
        let delays: f64 = samples.iter().map(|&(delay, packets)| delay * packets as f64).sum();
        let means = [delays / all, at, fills / all, waits / samples.len() as f64];
        self.means.iter_mut().zip(means).for_each(|(means, mean)| means.push(mean));
    }

    fn simulated(&self) -> Option<SimulatedStream> {
        let [delay, at_percentile, fill, wait] = self.means.each_ref().map(|m| Estimate::of(m));
        Some(SimulatedStream {
            delay: delay?,
            at_percentile: at_percentile?,
            fill: fill?,
            wait: wait?,
            size: self.packets as f64 / self.batches as f64,
        })
    }
}

/// The next departure of a stream's batch, ordered by time, then by stream.
#[derive(PartialEq)]
struct Departure {
    at: f64,
    /// The stream's aggregator.
    index: usize,
}

impl Eq for Departure {}

impl Ord for Departure {
    fn cmp(&self, other: &Departure) -> Ordering {
        self.at.total_cmp(&other.at).then(self.index.cmp(&other.index))
    }
}

impl PartialOrd for Departure {
    fn partial_cmp(&self, other: &Departure) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A batch that departed.
struct SentBatch {
    at: f64,
    packets: u64,
    /// Time that one of its packets, chosen at random, spent in it.
    since_packet: f64,
}

/// A stream's open batch. Its departure is drawn when it is opened.
struct Aggregator {
    policy: Policy,
    rate: f64,
    /// Number of its group of streams.
    group: usize,
    chance: Chance,
    /// Distribution of the time from the first packet to the last one of a full batch, in units of
    /// the mean gap.
    rest: Option<Gamma<f64>>,
    /// Distribution of the number of further packets within the timeout.
    within: Option<Poisson<f64>>,
    leaves: f64,
    opened: f64,
    packets: u64,
}

impl Aggregator {
    fn new(policy: Policy, rate: f64, group: usize, chance: Chance) -> Result<Aggregator, Refused> {
        let rate = positive("the rate of a stream", rate)?;
        let steps = policy.size as f64 - 1.0;
        let rest = Gamma::new(steps, 1.0).ok();
        let within = policy.timeout.and_then(|timeout| Poisson::new(rate * timeout).ok());
        let mut aggregator = Aggregator {
            policy,
            rate,
            group,
            chance,
            rest,
            within,
            leaves: 0.0,
            opened: 0.0,
            packets: 0,
        };
        aggregator.open(0.0);
        // Streams do not start together: each starts at a random point of its first batch.
        let phase: f64 = StandardUniform.sample(&mut aggregator.chance);
        aggregator.opened *= phase;
        aggregator.leaves *= phase;
        Ok(aggregator)
    }

    /// Draws the next batch, from its first packet on.
    fn open(&mut self, now: f64) {
        let gap: f64 = Exp1.sample(&mut self.chance);
        self.opened = now + gap / self.rate;
        let rest = self.rest.map_or(0.0, |rest| rest.sample(&mut self.chance)) / self.rate;
        match (self.policy.timeout, self.within) {
            (Some(timeout), Some(within)) if rest > timeout => {
                // The batch departs before it is full. The number of its packets is drawn again
                // until it is below the size.
                let most = self.policy.size as f64 - 2.0;
                let mut more: f64 = within.sample(&mut self.chance);
                while more > most {
                    more = within.sample(&mut self.chance);
                }
                self.packets = 1 + more as u64;
                self.leaves = self.opened + timeout;
            }
            _ => {
                self.packets = self.policy.size as u64;
                self.leaves = self.opened + rest;
            }
        }
    }

    /// Sends the batch and opens the next one.
    fn leave(&mut self) -> SentBatch {
        let (at, packets, open) = (self.leaves, self.packets, self.leaves - self.opened);
        let uniform: f64 = StandardUniform.sample(&mut self.chance);
        // Index of the sampled packet; the first one opened the batch.
        let which = ((uniform * packets as f64) as u64).min(packets - 1);
        let full = packets == self.policy.size as u64;
        let since_packet = if which == 0 {
            open
        } else if full && which == packets - 1 {
            0.0
        } else if full {
            // Order statistic of the arrivals between the first and the last packet.
            let later = (packets - 1 - which) as f64;
            let part =
                Beta::new(later, which as f64).map_or(0.5, |beta| beta.sample(&mut self.chance));
            open * part
        } else {
            open * <StandardUniform as Distribution<f64>>::sample(
                &StandardUniform,
                &mut self.chance,
            )
        };
        self.open(at);
        SentBatch { at, packets, since_packet }
    }
}
