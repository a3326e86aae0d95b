//! Which size and timeout keep a delay at the least processor time: a closed form for each of them,
//! no matrix and no simulation, so that it can be asked again and again while packets come.
//!
//! A packet waits for its container to leave, for the other side to wake, for the containers before
//! its own, and for its own. The first of these is that of Poisson packets ([`Filling`]). Packets
//! that come in bursts count as one each burst; those to several destinations fill as many
//! containers. The third is Kraemer's and Langenbach-Belz' mean wait of a queue whose arrivals are
//! the more regular the more packets a container has.

use crate::containers::{Filling, Measure, Policy};
use crate::refused::{Refused, not_negative, positive};

/// The delay that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// From a packet's arrival until it is carried across.
    pub delay: f64,
    /// The mean, or a part of the packets of nine in ten or more.
    pub measure: Measure,
}

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Packets for each unit of time.
    pub rate: f64,
    /// Packets that come at once: the variance of their number over its mean, 1 if they come at
    /// random or more evenly.
    pub burst: f64,
    /// Containers that are filled side by side.
    pub streams: f64,
    /// What packets really wait in a container over what is computed.
    pub stretch: f64,
}

/// What carrying costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Processor time for each container.
    pub per_container: f64,
    /// And for each packet in it.
    pub per_packet: f64,
    /// How long the other side takes to begin, while nothing is before it.
    pub waking: f64,
    /// The same, that as many packets keep as are asked for.
    pub waking_at_most: f64,
}

/// What may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Packets of the largest container.
    pub packets: usize,
    /// The shortest and the longest timeout.
    pub timeouts: (f64, f64),
}

/// A policy and what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Size and timeout.
    pub policy: Policy,
    /// Does a container also leave when the other side has nothing to do?
    pub when_idle: bool,
    /// The measure of the delay.
    pub delay: f64,
    /// Processor time for each unit of time.
    pub processor: f64,
    /// Containers for each unit of time.
    pub containers: f64,
    /// The mean wait of containers for those before them.
    pub queued: f64,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuned {
    /// The cheapest that keeps the delay.
    Kept(Choice),
    /// Nothing keeps it; this has the least delay.
    Missed(Choice),
}

impl Tuned {
    /// The choice, kept or not.
    pub fn choice(&self) -> Choice {
        match self {
            Tuned::Kept(choice) | Tuned::Missed(choice) => *choice,
        }
    }
}

/// More load than this is not chosen: waits grow faster than they can be foreseen.
const FULL: f64 = 0.95;
/// Timeouts that are tried, in parts of what is left of the delay. Two of them hold most containers
/// of many packets until they are full; four, those of few. With half as many a choice may cost 4 %
/// more than the best.
const TIMEOUTS: [f64; 18] =
    [0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.25, 3.5, 3.75, 4.0];
/// A shorter timeout is worth so much: it holds when the load falls.
const WORTH: f64 = 1.01;

/// The mean wait for those before, by Kraemer and Langenbach-Belz: intervals as variable as one
/// over the packets of a container, services all alike.
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
            ("what packets wait over what is computed", self.stretch),
        ] {
            positive(what, value)?;
        }
        Ok(())
    }

    /// Bursts of one stream for each unit of time.
    fn bursts(&self) -> f64 {
        self.rate / (self.streams * self.burst)
    }

    /// Packets in a container of at most `size`, and how long they wait in it.
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

/// What is expected of a policy; `None` if the other side cannot carry so much.
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
    // Whoever never waits has no timeout either.
    let timeout = policy.timeout.unwrap_or(2.0 * policy.size as f64 / load.bursts());
    let filling = Filling::new(load.bursts(), timeout)?;
    Ok(filled(wanted, load, cost, &filling, Policy { size: policy.size, timeout: Some(timeout) }))
}

/// Containers that leave full or by their timeout.
fn filled(
    wanted: &Wanted,
    load: &Load,
    cost: &Cost,
    filling: &Filling,
    policy: Policy,
) -> Option<Choice> {
    let (packets, wait) = load.fill(filling, policy.size);
    let containers = load.rate / packets;
    let service = cost.per_container + cost.per_packet * packets;
    let processor = containers * service;
    if processor >= FULL {
        return None;
    }
    let queued = queued(processor, service, packets);
    let delay = match wanted.measure {
        Measure::Mean => wait + cost.waking + queued + service,
        // Nobody waits longer for a container to leave, and hardly fewer do.
        Measure::Percentile(part) => {
            let timeout = policy.timeout.filter(|_| policy.size > 1).unwrap_or(0.0);
            let many = (packets + 3.0 * (packets * load.burst).sqrt()).min(policy.size as f64);
            let longest = -(1.0 - part).ln() * queued;
            timeout + cost.waking_at_most + longest + cost.per_container + cost.per_packet * many
        }
    };
    Some(Choice { policy, when_idle: false, delay, processor, containers, queued })
}

/// Containers that leave as soon as the other side has nothing to do: as many packets as came
/// meanwhile.
fn natural(wanted: &Wanted, load: &Load, cost: &Cost, policy: Policy) -> Option<Choice> {
    let left = 1.0 - load.rate * cost.per_packet;
    // Bursts come whole.
    let least = cost.per_container + cost.per_packet * load.burst;
    let turn = least.max(cost.per_container / left);
    let containers = (load.rate / load.burst).min(1.0 / turn);
    let processor = containers * cost.per_container + load.rate * cost.per_packet;
    if left <= 0.0 || load.rate * turn / FULL > policy.size as f64 {
        return None;
    }
    let busy = (load.rate / load.burst * turn).min(1.0);
    let (waking, turns) = match wanted.measure {
        Measure::Mean => (cost.waking, 1.0 + 0.5 * busy),
        Measure::Percentile(_) => (cost.waking_at_most, 1.0 + busy),
    };
    let delay = waking + turns * turn;
    Some(Choice {
        policy,
        when_idle: true,
        delay,
        processor,
        containers,
        queued: 0.5 * busy * turn,
    })
}

/// The size and the timeout that keep the delay at the least processor time.
pub fn choose(
    wanted: &Wanted,
    load: &Load,
    cost: &Cost,
    limits: &Limits,
) -> Result<Tuned, Refused> {
    load.check()?;
    positive("the delay that is asked for", wanted.delay)?;
    positive("the cost of a container", cost.per_container)?;
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
    let busy = load.rate * (cost.per_packet + cost.per_container / limits.packets.max(1) as f64);
    let mut found = Found { wanted: *wanted, kept: Vec::new(), least: None, busy };
    let (shortest, longest) = limits.timeouts;
    let bounded = |timeout: f64| timeout.clamp(shortest, longest);
    let all = Policy { size: limits.packets.max(1), timeout: Some(bounded(wanted.delay)) };
    found.consider(natural(wanted, load, cost, all));
    let alone = Policy { size: 1, timeout: all.timeout };
    found.consider(expect(wanted, load, cost, alone, false)?);
    match wanted.measure {
        Measure::Percentile(_) => {
            let mut timeout = wanted.delay - cost.waking_at_most - cost.per_container;
            // What a container carries depends on the timeout in turn, but not much.
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
            let left = wanted.delay - cost.waking - cost.per_container - cost.per_packet;
            for part in TIMEOUTS.iter().rev() {
                if left * part >= shortest {
                    found.largest(load, cost, bounded(left * part), all.size)?;
                }
            }
        }
    }
    found.told()
}

/// What keeps the delay so far, and what is fastest.
struct Found {
    wanted: Wanted,
    kept: Vec<Choice>,
    least: Option<Choice>,
    /// The load with the largest containers.
    busy: f64,
}

impl Found {
    /// Does this keep the delay?
    fn look(&mut self, choice: Option<Choice>) -> bool {
        let Some(choice) = choice else { return false };
        if self.least.is_none_or(|least| choice.delay < least.delay) {
            self.least = Some(choice);
        }
        // Rounding is no delay.
        choice.delay <= self.wanted.delay * (1.0 + 1e-9)
    }

    fn consider(&mut self, choice: Option<Choice>) {
        if self.look(choice) {
            self.kept.extend(choice);
        }
    }

    /// The largest size that keeps the delay with this timeout: below the smallest the other side
    /// is too busy.
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
            // Packets alone are more than can be carried.
            (None, None) => Err(Refused::Unstable { load: self.busy }),
        }
    }
}
