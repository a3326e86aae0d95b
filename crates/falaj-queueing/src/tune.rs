//! Chooses the size and the timeout of batches that meet a target delay at the least processor
//! time. Each quantity has a closed form, without matrices and simulation, so that the choice can
//! be repeated at run time.
//!
//! A packet waits until its batch departs, until the receiving thread (the other side) is awake,
//! until the batches in front are served, and until its own batch is served. The first wait is
//! computed for Poisson arrivals ([`Filling`]). Packets of a burst count as one; packets to N
//! destinations fill N batches in parallel. The third wait is the mean wait by Kraemer and
//! Langenbach-Belz; the more packets a batch has, the more regularly batches arrive.

use crate::batches::{Filling, Measure, Policy};
use crate::refused::{Refused, not_negative, positive};

/// The target delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Time from a packet's arrival until the other side has received it.
    pub delay: f64,
    /// The mean, or a percentile of 0.9 or above.
    pub measure: Measure,
}

/// The offered traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Packets per unit of time.
    pub rate: f64,
    /// Mean number of packets in a burst, estimated as the variance of the number of arrivals in an
    /// interval, divided by the mean of this number; 1 for Poisson or more regular arrivals.
    pub burst: f64,
    /// Number of batches that are filled in parallel.
    pub streams: f64,
    /// Ratio of the measured wait in a batch to the computed one.
    pub stretch: f64,
}

/// Costs of carrying batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Processor time per batch.
    pub per_batch: f64,
    /// Processor time per packet in a batch.
    pub per_packet: f64,
    /// Mean time until the other side, if it is idle, begins to receive.
    pub waking: f64,
    /// Percentile of the same time: the percentile for which the target delay is given.
    pub waking_at_most: f64,
}

/// The range of choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Packets in the largest batch.
    pub packets: usize,
    /// The shortest and the longest timeout.
    pub timeouts: (f64, f64),
}

/// A policy and its predicted results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Size and timeout.
    pub policy: Policy,
    /// True if a batch also departs when the other side is idle.
    pub when_idle: bool,
    /// The predicted delay, in the target's measure.
    pub delay: f64,
    /// Processor time per unit of time.
    pub processor: f64,
    /// Batches per unit of time.
    pub batches: f64,
    /// Mean wait of a batch until the batches in front of it are served.
    pub queued: f64,
}

/// The result of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuned {
    /// A policy that keeps the delay, and costs at most 1 % more than the cheapest such policy.
    Kept(Choice),
    /// No policy keeps the delay; this one has the smallest delay.
    Missed(Choice),
}

impl Tuned {
    /// The choice, whether it keeps the delay or not.
    pub fn choice(&self) -> Choice {
        match self {
            Tuned::Kept(choice) | Tuned::Missed(choice) => *choice,
        }
    }
}

/// Upper limit of the load of the other side: at higher loads, waits grow too fast to be predicted.
/// If batches depart when the other side is idle, this value is instead the upper limit of the mean
/// batch, as a fraction of the largest batch.
const FULL: f64 = 0.95;
/// Timeouts that are tried, as multiples of the part of the target delay that is left for waiting.
/// At a multiple of two, most large batches become full before their timeout; at four, most small
/// ones do too. With half as many timeouts in this list a choice may cost 4 % more than the best.
const TIMEOUTS: [f64; 18] =
    [0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.25, 3.5, 3.75, 4.0];
/// Among policies that cost at most this multiple of the cheapest, the one with the shortest
/// timeout is chosen: it still keeps the delay when the load falls.
const WORTH: f64 = 1.01;

/// The mean wait for batches in front, by Kraemer and Langenbach-Belz. The squared coefficient of
/// variation of the intervals between batches is one over the packets of a batch; service times are
/// constant.
fn queued(load: f64, service: f64, packets: f64) -> f64 {
    let variable = 1.0 / packets;
    let regular = (-2.0 * (1.0 - load) * (1.0 - variable).powi(2) / (3.0 * load * variable)).exp();
    load * service / (1.0 - load) * variable / 2.0 * regular
}

impl Load {
    fn check(&self) -> Result<(), Refused> {
        positive("the rate of packets", self.rate)?;
        for (what, value) in [
            ("the packets of a burst", self.burst),
            ("the number of streams", self.streams),
            ("the ratio of measured to computed waits", self.stretch),
        ] {
            positive(what, value)?;
        }
        Ok(())
    }

    /// Number of bursts of one stream per unit of time.
    fn bursts(&self) -> f64 {
        self.rate / (self.streams * self.burst)
    }

    /// Mean number of packets in a batch of at most `size`, and their mean wait in it.
    fn fill(&self, filling: &Filling, size: usize) -> (f64, f64) {
        let bursts = (size as f64 / self.burst).max(1.0);
        let (below, part) = (filling.at(bursts as usize), bursts.fract());
        let (mut packets, mut wait) = (below.size, below.wait);
        if part > 0.0 {
            let above = filling.at(bursts as usize + 1);
            packets += part * (above.size - packets);
            wait += part * (above.wait - wait);
        }
        ((packets * self.burst).min(size as f64), wait * self.stretch)
    }
}

/// Predicts the results of a policy; `None` if the other side cannot carry the load.
pub fn expect(
    wanted: &Wanted,
    load: &Load,
    cost: &Cost,
    policy: Policy,
    when_idle: bool,
) -> Result<Option<Choice>, Refused> {
    load.check()?;
    if when_idle {
        return Ok(natural(wanted, load, cost, policy));
    }
    // Without a timeout, twice the mean time to fill a batch is used instead.
    let timeout = policy.timeout.unwrap_or(2.0 * policy.size as f64 / load.bursts());
    let filling = Filling::new(load.bursts(), timeout)?;
    Ok(filled(wanted, load, cost, &filling, Policy { size: policy.size, timeout: Some(timeout) }))
}

/// Predicts the results of batches that depart when they are full or when their timeout expires.
fn filled(
    wanted: &Wanted,
    load: &Load,
    cost: &Cost,
    filling: &Filling,
    policy: Policy,
) -> Option<Choice> {
    let (packets, wait) = load.fill(filling, policy.size);
    let batches = load.rate / packets;
    let service = cost.per_batch + cost.per_packet * packets;
    let processor = batches * service;
    if processor >= FULL {
        return None;
    }
    let queued = queued(processor, service, packets);
    let delay = match wanted.measure {
        Measure::Mean => wait + cost.waking + queued + service,
        // No packet waits longer than the timeout for its batch to depart, and a high percentile
        // of this wait is close to the timeout.
        Measure::Percentile(part) => {
            let timeout = policy.timeout.filter(|_| policy.size > 1).unwrap_or(0.0);
            let many = (packets + 3.0 * (packets * load.burst).sqrt()).min(policy.size as f64);
            let longest = -(1.0 - part).ln() * queued;
            timeout + cost.waking_at_most + longest + cost.per_batch + cost.per_packet * many
        }
    };
    Some(Choice { policy, when_idle: false, delay, processor, batches, queued })
}

/// Predicts the results of batches that depart as soon as the other side is idle, with the packets
/// that have arrived until then.
fn natural(wanted: &Wanted, load: &Load, cost: &Cost, policy: Policy) -> Option<Choice> {
    let left = 1.0 - load.rate * cost.per_packet;
    // A burst is never divided between two batches.
    let least = cost.per_batch + cost.per_packet * load.burst;
    let turn = least.max(cost.per_batch / left);
    let batches = (load.rate / load.burst).min(1.0 / turn);
    let processor = batches * cost.per_batch + load.rate * cost.per_packet;
    if left <= 0.0 || load.rate * turn / FULL > policy.size as f64 {
        return None;
    }
    let busy = (load.rate / load.burst * turn).min(1.0);
    let (waking, turns) = match wanted.measure {
        Measure::Mean => (cost.waking, 1.0 + 0.5 * busy),
        Measure::Percentile(_) => (cost.waking_at_most, 1.0 + busy),
    };
    let delay = waking + turns * turn;
    Some(Choice { policy, when_idle: true, delay, processor, batches, queued: 0.5 * busy * turn })
}

/// Chooses the size and the timeout that keep the delay at the least processor time.
pub fn choose(
    wanted: &Wanted,
    load: &Load,
    cost: &Cost,
    limits: &Limits,
) -> Result<Tuned, Refused> {
    load.check()?;
    positive("the required delay", wanted.delay)?;
    positive("the cost of a batch", cost.per_batch)?;
    not_negative("the cost of a packet", cost.per_packet)?;
    if let Measure::Percentile(p) = wanted.measure
        && !(0.9..1.0).contains(&p)
    {
        return Err(Refused::Value {
            what: "the percentile",
            value: p,
            allowed: "0.9 or above, and below 1",
        });
    }
    let busy = load.rate * (cost.per_packet + cost.per_batch / limits.packets.max(1) as f64);
    let mut found = Found { wanted: *wanted, kept: Vec::new(), least: None, busy };
    let (shortest, longest) = limits.timeouts;
    let bounded = |timeout: f64| timeout.clamp(shortest, longest);
    let all = Policy { size: limits.packets.max(1), timeout: Some(bounded(wanted.delay)) };
    found.consider(natural(wanted, load, cost, all));
    let alone = Policy { size: 1, timeout: all.timeout };
    found.consider(expect(wanted, load, cost, alone, false)?);
    match wanted.measure {
        Measure::Percentile(_) => {
            let mut timeout = wanted.delay - cost.waking_at_most - cost.per_batch;
            // The number of packets in a batch itself depends on the timeout, but weakly.
            for _ in 0..3 {
                if timeout < shortest {
                    break;
                }
                let policy = Policy { timeout: Some(bounded(timeout)), ..all };
                let expected = expect(wanted, load, cost, policy, false)?;
                found.consider(expected);
                match expected {
                    Some(choice) => timeout += wanted.delay - choice.delay,
                    None => break,
                }
            }
        }
        Measure::Mean => {
            let left = wanted.delay - cost.waking - cost.per_batch - cost.per_packet;
            for part in TIMEOUTS.iter().rev() {
                if left * part >= shortest {
                    found.largest(load, cost, bounded(left * part), all.size)?;
                }
            }
        }
    }
    found.told()
}

/// The choices so far that keep the delay, and the choice with the smallest delay.
struct Found {
    wanted: Wanted,
    kept: Vec<Choice>,
    least: Option<Choice>,
    /// Load of the other side if every batch is as large as allowed: the lowest possible load.
    busy: f64,
}

impl Found {
    /// Considers a choice. Returns true if it keeps the delay.
    fn look(&mut self, choice: Option<Choice>) -> bool {
        let Some(choice) = choice else { return false };
        if self.least.is_none_or(|least| choice.delay < least.delay) {
            self.least = Some(choice);
        }
        // Tolerates rounding.
        choice.delay <= self.wanted.delay * (1.0 + 1e-9)
    }

    fn consider(&mut self, choice: Option<Choice>) {
        if self.look(choice) {
            self.kept.extend(choice);
        }
    }

    /// Considers the largest size that keeps the delay with this timeout. Larger batches take too
    /// long to fill; very small ones overload the other side.
    fn largest(
        &mut self,
        load: &Load,
        cost: &Cost,
        timeout: f64,
        most: usize,
    ) -> Result<(), Refused> {
        let filling = Filling::new(load.bursts(), timeout)?;
        let wanted = self.wanted;
        let at = |size: usize| {
            filled(&wanted, load, cost, &filling, Policy { size, timeout: Some(timeout) })
        };
        let (mut size, mut kept, mut beyond) = (1, None, most + 1);
        while size <= most {
            if self.look(at(size)) {
                (kept, beyond) = (Some(size), most + 1);
            } else if kept.is_some() {
                beyond = size;
                break;
            }
            size += 1 + size / 16;
        }
        let Some(mut kept) = kept else { return Ok(()) };
        while beyond - kept > 1 {
            let middle = kept + (beyond - kept) / 2;
            if self.look(at(middle)) { kept = middle } else { beyond = middle }
        }
        self.consider(at(kept));
        Ok(())
    }

    fn told(self) -> Result<Tuned, Refused> {
        let cheapest = self.kept.iter().map(|c| c.processor).fold(f64::INFINITY, f64::min);
        let timeout = |choice: &Choice| choice.policy.timeout.unwrap_or(f64::INFINITY);
        let as_cheap = self.kept.into_iter().filter(|c| c.processor <= cheapest * WORTH);
        match (as_cheap.min_by(|a, b| timeout(a).total_cmp(&timeout(b))), self.least) {
            (Some(best), _) => Ok(Tuned::Kept(best)),
            (None, Some(least)) => Ok(Tuned::Missed(least)),
            // Even with the largest batches, the other side cannot carry the load.
            (None, None) => Err(Refused::Unstable { load: self.busy }),
        }
    }
}
