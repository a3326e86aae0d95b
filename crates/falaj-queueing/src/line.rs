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
}

/// Distribution of service times around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exponential, as in the paper. Pessimistic if most of a service is the copying of packets.
    Exponential,
    /// Erlang: the sum of this number of exponential steps.
    Erlang(usize),
    /// Constant.
    Deterministic,
}

/// Time to carry a batch across.
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

/// Results of a simulation. Confidence intervals are those of the means of groups of consecutive
/// batches (the method of batch means).
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Time for which batches wait for their service.
    pub wait: Estimate,
    /// Delay of packets of the first stream, from their arrival to the end of their batch's
    /// service.
    pub delay: Estimate,
    /// A quantile of the same delay: [`Ask::percentile`].
    pub at_percentile: Estimate,
    /// Time until a batch of the first stream departs, over its packets.
    pub fill: Estimate,
    /// Mean number of packets in a batch of the first stream.
    pub size: f64,
    /// Fraction of the batches that wait longer than [`Ask::longer_than`].
    pub longer: Estimate,
    /// Number of batches counted.
    pub batches: u64,
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
        Policy::new(policy.size, policy.timeout)?;
        not_negative("the cost of a batch", service.per_batch)?;
        not_negative("the cost of a packet", service.per_packet)?;
        positive("the cost of a batch with one packet", service.mean(1.0))?;
        if service.shape == Shape::Erlang(0) {
            let what = "the number of steps of an Erlang service";
            return Err(Refused::Value { what, value: 0.0, allowed: "1 or more" });
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

    /// Sizes and waits of batches of the first stream, in closed form.
    pub fn fill(&self) -> Result<Fill, Refused> {
        self.policy.fill(self.streams[0].rate)
    }

    /// Simulates the line, batch by batch.
    pub fn simulate(&self, ask: Ask) -> Result<Simulated, Refused> {
        let mut aggregators = Vec::new();
        for (kind, stream) in self.streams.iter().enumerate() {
            for _ in 0..stream.count {
                let chance = Chance::new(ask.seed, 1, aggregators.len() as u64);
                aggregators.push(Aggregator::new(self.policy, stream.rate, kind == 0, chance)?);
            }
        }
        let mut services = Chance::new(ask.seed, 2, 0);
        let batch = (ask.batches / BATCHES).max(1);
        let (mut free, mut done) = (0.0f64, 0u64);
        let [mut waits, mut delays, mut high, mut fills, mut longer] = [const { Vec::new() }; 5];
        let mut counted = Counted::default();
        let (mut first_batches, mut first_packets) = (0u64, 0u64);
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
            let wait = (free - sent.at).max(0.0);
            let service = self.service.draw(sent.packets, &mut services);
            free = sent.at + wait + service;
            done += 1;
            if done <= warm_up {
                continue;
            }
            counted.waits += wait;
            counted.longer += u64::from(wait > ask.longer_than);
            counted.batches += 1;
            if aggregators[next].first {
                first_batches += 1;
                first_packets += sent.packets;
                counted.samples.push((sent.since_packet + wait + service, sent.packets));
                counted.fills += sent.since_packet * sent.packets as f64;
            }
            if counted.batches == batch {
                let all = counted.batches as f64;
                waits.push(counted.waits / all);
                longer.push(counted.longer as f64 / all);
                if let Some((mean, at, fill)) = counted.packets(ask.percentile) {
                    delays.push(mean);
                    high.push(at);
                    fills.push(fill);
                }
                counted = Counted::default();
            }
        }
        let few = || Refused::Value {
            what: "the number of batches to simulate",
            value: ask.batches as f64,
            allowed: "more: none was of the first stream",
        };
        let over = |batches: &[f64]| Estimate::of(batches).ok_or_else(few);
        Ok(Simulated {
            wait: over(&waits)?,
            delay: over(&delays)?,
            at_percentile: over(&high)?,
            fill: over(&fills)?,
            longer: over(&longer)?,
            size: first_packets as f64 / first_batches.max(1) as f64,
            batches: batch * BATCHES,
        })
    }
}

/// Offered load: arriving work over the server's capacity. It may be one or more.
pub fn load(streams: &[Stream], policy: Policy, service: Service) -> Result<f64, Refused> {
    let mut load = 0.0;
    for stream in streams.iter().filter(|s| s.count > 0) {
        let size = policy.fill(stream.rate)?.size;
        load += stream.count as f64 * stream.rate / size * service.mean(size);
    }
    Ok(load)
}

/// Sums over one of the groups of batches whose means give the confidence intervals.
#[derive(Default)]
struct Counted {
    batches: u64,
    waits: f64,
    longer: u64,
    fills: f64,
    /// The delay of one packet of each batch, and the number of packets that it represents.
    samples: Vec<(f64, u64)>,
}

impl Counted {
    /// Mean delay, delay at a percentile, and mean time until the batch departs, over packets.
    fn packets(&mut self, percentile: f64) -> Option<(f64, f64, f64)> {
        self.samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: u64 = self.samples.iter().map(|s| s.1).sum();
        let mean = self.samples.iter().map(|&(delay, packets)| delay * packets as f64).sum::<f64>()
            / all as f64;
        let mut left = percentile * all as f64;
        let at = self.samples.iter().find(|&&(_, packets)| {
            left -= packets as f64;
            left <= 0.0
        });
        let at = at.or(self.samples.last())?.0;
        Some((mean, at, self.fills / all as f64))
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
    /// True for the first group of streams.
    first: bool,
    chance: Chance,
    /// Time from the first packet to the last of a full batch, in mean gaps.
    rest: Option<Gamma<f64>>,
    /// Number of packets within the timeout.
    within: Option<Poisson<f64>>,
    leaves: f64,
    opened: f64,
    packets: u64,
}

impl Aggregator {
    fn new(policy: Policy, rate: f64, first: bool, chance: Chance) -> Result<Aggregator, Refused> {
        let rate = positive("the rate of a stream", rate)?;
        let steps = policy.size as f64 - 1.0;
        let rest = Gamma::new(steps, 1.0).ok();
        let within = policy.timeout.and_then(|timeout| Poisson::new(rate * timeout).ok());
        let mut aggregator = Aggregator {
            policy,
            rate,
            first,
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
