//! The tuner: it estimates a load and costs from the counters of epochs, and chooses a policy for
//! them. It changes the policy only if the gain exceeds the uncertainty of the measurements, so a
//! steady load leaves the policy alone. An epoch that differs from those before it is set aside:
//! the next epoch shows whether the load has changed or the machine stalled.

use crate::batches::{Measure, Policy as Size};
use crate::recent::Recent;
use crate::tune::{Choice, Cost, Limits, Load, Tuned, Wanted, choose, expect};
use falaj_engine::batch::tuning::{EpochStats, PolicyChooser};
use falaj_engine::batch::{ADDRESS, BatchPolicy, LENGTH};
use falaj_sched::units::time::Span;

/// Factor by which the sums of earlier epochs are multiplied at each new epoch.
const KEPT: f64 = 15.0 / 16.0;
/// The same factor for the sums of costs. These are kept longer, because sizes must vary before
/// both costs can be separated.
const COSTS_KEPT: f64 = 0.98;
/// Threshold for a change of load, in standard deviations of an epoch's packet count. The deviation
/// is that of bursts that arrive as a Poisson process.
const SURE: f64 = 4.0;
/// The delay that a choice aims at, as a fraction of the target. A policy has to change only when
/// its delay exceeds the whole target, so a new choice stays for some time.
const AIM: f64 = 0.95;
/// Least saving of processor time for which the policy changes, as a fraction.
const PAYS: f64 = 0.03;
/// A gain must also exceed this number of standard errors.
const CERTAIN: f64 = 2.0;
/// The predicted delay may exceed the target by its uncertainty, but at most by this fraction of
/// the target.
const PATIENCE: f64 = 0.03;
/// Number of consecutive epochs after which the load counts as new, if all deviate in the same
/// direction.
const ALIKE: u32 = 2;
/// Number of consecutive deviating epochs after which the load counts as new in any case.
const UNLIKE: u32 = 4;
/// Ratio of measured to computed waits that is assumed until it is measured, and its standard
/// error.
const FIRST_STRETCH: (f64, f64) = (1.0, 0.05);
/// Number of epochs after which a better policy is searched for even if nothing has changed.
const LOOK: u32 = 8;
/// Costs that are assumed before measurements, in seconds: of a batch, of copying a packet, and of
/// a wake-up.
const FIRST: Cost =
    Cost { per_batch: 5e-6, per_packet: 50e-9, waking: 15e-6, waking_at_most: 40e-6 };
/// Weight of these first costs relative to the measured ones.
const DOUBT: f64 = 0.01;

/// Chooses batch sizes and timeouts that keep a delay at the least processor time. Pass it to
/// [`Packer::tuned`](falaj_engine::batch::Packer::tuned).
#[derive(Clone, Debug)]
pub struct Tuner {
    wanted: Wanted,
    sums: Sums,
    burst: Recent,
    stretch: Recent,
    costs: Costs,
    waking: Waking,
    /// Number of consecutive epochs that were set aside. `above` is true if the last of them had
    /// more packets than expected; `alike` is the number of the last epochs that deviate in that
    /// direction.
    aside: u32,
    above: bool,
    alike: u32,
    /// Epochs since the last search for a better policy.
    since: u32,
    tuned: Option<Tuned>,
    changes: u64,
}

/// Sums of the load, with decaying weights.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    packets: f64,
    span: f64,
    /// Number of batches that departed. This sum and the next three leave out the epochs in which
    /// the load changed.
    batches: f64,
    carried: f64,
    open: f64,
    open_span: f64,
    bytes: f64,
}

/// Sums for the least squares of processor time (`s`) over batches (`c`) and packets (`p`).
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    cc: f64,
    cp: f64,
    pp: f64,
    cs: f64,
    ps: f64,
}

/// Time until the other side begins, in seconds: mean and variance.
#[derive(Clone, Debug)]
struct Waking {
    mean: Recent,
    variance: f64,
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

fn span(seconds: f64) -> Span {
    Span((seconds * 1e9).round() as u64)
}

impl Sums {
    fn fade(&mut self) {
        let Sums { packets, span, batches, carried, open, open_span, bytes } = self;
        for sum in [packets, span, batches, carried, open, open_span, bytes] {
            *sum *= KEPT;
        }
    }

    /// Number of batches filled in parallel: each is open except for the time until its next
    /// burst.
    fn streams(&self, burst: f64) -> f64 {
        let size = self.carried / self.batches.max(1e-9);
        if size < 1.5 * burst || self.open_span <= 0.0 {
            return 1.0;
        }
        (self.open / self.open_span / (1.0 - burst / size)).max(1.0)
    }
}

/// Packets of a burst: the variance of the number of arrivals in a slot of the epoch, divided by
/// the mean of this number.
fn bursts(seen: &EpochStats) -> Option<f64> {
    let slots = seen.slots as f64;
    let mean = seen.packets as f64 / slots;
    let variance = (seen.squares as f64 / slots - mean * mean) * slots / (slots - 1.0);
    (seen.slots >= 8 && mean > 0.0).then(|| variance / mean)
}

impl Costs {
    fn add(&mut self, batches: f64, packets: f64, spent: f64) {
        for sum in [&mut self.cc, &mut self.cp, &mut self.pp, &mut self.cs, &mut self.ps] {
            *sum *= COSTS_KEPT;
        }
        self.cc += batches * batches;
        self.cp += batches * packets;
        self.pp += packets * packets;
        self.cs += batches * spent;
        self.ps += packets * spent;
    }

    /// Costs per batch and per packet. Where the measurements cannot separate the two costs, they
    /// stay close to the first costs.
    fn found(&self) -> (f64, f64) {
        let (first_c, first_p) = (FIRST.per_batch, FIRST.per_packet);
        if self.cc <= 0.0 || self.cs <= 0.0 {
            return (first_c, first_p);
        }
        let (cc, pp) = (self.cc * (1.0 + DOUBT), self.pp * (1.0 + DOUBT));
        let (cs, ps) = (self.cs + DOUBT * self.cc * first_c, self.ps + DOUBT * self.pp * first_p);
        let determinant = cc * pp - self.cp * self.cp;
        let batch = (cs * pp - ps * self.cp) / determinant;
        let packet = (ps * cc - cs * self.cp) / determinant;
        // Neither cost can be negative.
        if batch <= 0.0 {
            (1e-9, ps / pp)
        } else if packet < 0.0 {
            (cs / cc, 0.0)
        } else {
            (batch, packet)
        }
    }
}

impl Tuner {
    /// Builds a tuner for a delay in seconds. A percentile is 0.9 or above.
    pub fn new(wanted: Wanted) -> Tuner {
        let waking = Waking { mean: Recent::default(), variance: 0.0 };
        let (sums, costs) = (Sums::default(), Costs::default());
        let (burst, stretch) = (Recent::default(), Recent::default());
        let (aside, above, alike) = (0, false, 0);
        Tuner {
            wanted,
            sums,
            burst,
            stretch,
            costs,
            waking,
            aside,
            above,
            alike,
            since: 0,
            tuned: None,
            changes: 0,
        }
    }

    /// The policy before any measurement, with batches of this number of bytes: no packet waits
    /// longer than half of the delay, and none while the other side is idle.
    pub fn first(&self, bytes: u32) -> BatchPolicy {
        let timeout = span(self.wanted.delay / 2.0).max(Span(1));
        BatchPolicy { packets: u32::MAX, bytes, timeout, when_idle: true }
    }

    /// Length of a slot and number of slots of an epoch. A slot is as long as the delay, but at
    /// least 10 us and at most 10 ms; an epoch has at least eight slots and lasts at least 10 ms.
    pub fn epoch(&self) -> (Span, u64) {
        let slot = self.wanted.delay.clamp(10e-6, 10e-3);
        (span(slot), (10e-3 / slot).ceil().max(8.0) as u64)
    }

    /// The last choice, and whether it keeps the delay; `None` before any measurement.
    pub fn tuned(&self) -> Option<Tuned> {
        self.tuned
    }

    /// Number of changes of the policy.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The estimated load.
    pub fn load(&self) -> Load {
        let burst = self.burst.middle().map_or(1.0, |burst| burst.max(1.0));
        Load {
            rate: self.sums.packets / self.sums.span,
            burst,
            streams: self.sums.streams(burst),
            stretch: self.stretch.or(FIRST_STRETCH).0.clamp(0.5, 4.0),
        }
    }

    /// The estimated costs.
    pub fn cost(&self) -> Cost {
        let (per_batch, per_packet) = self.costs.found();
        let Some((waking, _)) = self.waking.mean.known() else {
            return Cost { per_batch, per_packet, ..FIRST };
        };
        // There are too few measurements for percentiles: the mean plus three standard deviations
        // is used instead.
        let waking_at_most = waking + 3.0 * self.waking.variance.sqrt();
        Cost { per_batch, per_packet, waking, waking_at_most }
    }

    /// Standard error of the delay that is predicted for a policy. It includes the error of the
    /// measured ratio of waits, and of the wake-up time once that is measured.
    fn doubt(&self, now: Choice) -> f64 {
        let load = self.load();
        let longer = Load { stretch: load.stretch + self.stretch.or(FIRST_STRETCH).1, ..load };
        let filled = match expect(&self.wanted, &longer, &self.cost(), now.policy, now.when_idle) {
            Ok(Some(other)) => other.delay - now.delay,
            _ => 0.0,
        };
        filled.hypot(self.waking.mean.known().map_or(0.0, |(_, off)| off))
    }

    /// Adds an epoch's counters to the estimates. Returns true if the load has changed.
    fn learn(&mut self, seen: &EpochStats, now: BatchPolicy) -> bool {
        let packets = seen.packets as f64;
        // If a few packets follow a long silence, the silence belongs to the load. If many packets
        // follow, a new load has begun after the silence.
        let idle = if seen.packets < 16 { seconds(seen.idle) } else { 0.0 };
        let long = seconds(seen.span) + idle;
        let known = self.sums.span > 0.0;
        let moved = match known.then(|| self.load()) {
            Some(load) if self.is_unlike(packets, load.rate * long, load.burst) => {
                if self.alike < ALIKE && self.aside < UNLIKE {
                    return false;
                }
                // The burst size depends on the sender rather than on the load, so it is kept.
                (self.sums, self.stretch) = (Sums::default(), Recent::default());
                true
            }
            _ => !known,
        };
        (self.aside, self.alike) = (0, 0);
        self.sums.fade();
        let sums = &mut self.sums;
        sums.packets += packets;
        sums.span += long;
        sums.bytes += seen.bytes as f64;
        bursts(seen).into_iter().for_each(|burst| self.burst.add(burst));
        self.costs.add(seen.batches as f64, seen.carried as f64, seconds(seen.spent));
        // Batches that departed in an epoch of two loads are counted for neither load.
        if !moved {
            sums.batches += seen.batches as f64;
            sums.carried += seen.carried as f64;
            sums.open += seconds(seen.open);
            sums.open_span += seconds(seen.span);
            self.compare(seen, now);
        }
        moved
    }

    /// Returns true if the packet count differs significantly from the forecast. Counts the
    /// consecutive epochs that differ.
    fn is_unlike(&mut self, packets: f64, expected: f64, burst: f64) -> bool {
        let unlike = (packets - expected).abs() > SURE * (burst * expected).sqrt() + 1.0;
        if unlike {
            let above = packets > expected;
            self.alike = if self.aside > 0 && above == self.above { self.alike + 1 } else { 1 };
            (self.aside, self.above) = (self.aside + 1, above);
        }
        unlike
    }

    /// Compares the prediction for the policy with the measurements.
    fn compare(&mut self, seen: &EpochStats, now: BatchPolicy) {
        let load = Load { stretch: 1.0, ..self.load() };
        let cost = self.cost();
        let mean = Wanted { measure: Measure::Mean, ..self.wanted };
        let Ok(Some(expected)) = expect(&mean, &load, &cost, size(now), now.when_idle) else {
            return;
        };
        let service = cost.per_batch + cost.per_packet * load.rate / expected.batches;
        if !now.when_idle && now.packets > 1 && seen.carried > 0 {
            let fill = expected.delay - expected.queued - cost.waking - service;
            if fill > 0.0 {
                self.stretch.add(seconds(seen.waited) / seen.carried as f64 / fill);
            }
        }
        // If the other side is busy, the crossing time is mainly the wait for the batches in front,
        // and does not show the wake-up time.
        if seen.crossings > 0 && expected.processor < 0.8 {
            let count = seen.crossings as f64;
            let crossing = seconds(seen.crossing) / count;
            let queued = if now.when_idle { 0.0 } else { expected.queued };
            let spread =
                (seen.crossing_squares as f64 / count / 1e18 - crossing * crossing).max(0.0);
            let waking = &mut self.waking;
            let part = if waking.mean.known().is_some() { 1.0 / 8.0 } else { 1.0 };
            // The bound limits the effect of one moment at which the system did not run the other
            // side.
            waking.variance +=
                part * (spread.min(self.wanted.delay * self.wanted.delay / 64.0) - waking.variance);
            waking.mean.add((crossing - queued - service).max(0.0));
        }
    }

    fn limits(&self, bytes: u32) -> Limits {
        let packet = self.sums.bytes / self.sums.packets.max(1.0) - ADDRESS as f64 + LENGTH as f64;
        let packets = (f64::from(bytes) - ADDRESS as f64) / packet.max(1.0);
        Limits { packets: packets.max(1.0) as usize, timeouts: (1e-6, 1.0) }
    }

    fn decide(&self, bytes: u32) -> Tuned {
        let (load, cost, limits) = (self.load(), self.cost(), self.limits(bytes));
        let aim = |part: f64| {
            let wanted = Wanted { delay: self.wanted.delay * part, ..self.wanted };
            choose(&wanted, &load, &cost, &limits)
        };
        match aim(AIM) {
            Ok(kept @ Tuned::Kept(_)) => kept,
            _ => aim(1.0).unwrap_or_else(|_| Tuned::Missed(self.overload(&load, &cost, &limits))),
        }
    }

    /// The choice under overload: the largest batches, which carry the most packets.
    fn overload(&self, load: &Load, cost: &Cost, limits: &Limits) -> Choice {
        let policy = Size { size: limits.packets, timeout: Some(self.wanted.delay) };
        let batches = load.rate / limits.packets as f64;
        let processor = batches * cost.per_batch + load.rate * cost.per_packet;
        Choice {
            policy,
            when_idle: true,
            delay: f64::INFINITY,
            processor,
            batches,
            queued: f64::INFINITY,
        }
    }
}

fn size(policy: BatchPolicy) -> Size {
    let timeout = (policy.timeout != Span::MAX).then(|| seconds(policy.timeout));
    Size { size: policy.packets as usize, timeout }
}

impl PolicyChooser for Tuner {
    fn choose(&mut self, seen: &EpochStats, now: BatchPolicy) -> BatchPolicy {
        let moved = self.learn(seen, now);
        let expected = expect(&self.wanted, &self.load(), &self.cost(), size(now), now.when_idle)
            .ok()
            .flatten();
        let doubt = expected.map_or(0.0, |choice| CERTAIN * self.doubt(choice));
        let patience = doubt.min(PATIENCE * self.wanted.delay);
        let kept = expected.is_some_and(|choice| choice.delay <= self.wanted.delay + patience);
        self.since += 1;
        if self.aside > 0 || kept && !moved && self.since < LOOK {
            return now;
        }
        self.since = 0;
        let tuned = self.decide(now.bytes);
        let choice = tuned.choice();
        self.tuned = Some(tuned);
        let pays = |now: Choice| {
            // A cheaper policy makes packets wait longer. A gain that is smaller than the
            // uncertainty of that wait does not count.
            let pays = PAYS.max(doubt / now.delay);
            match tuned {
                Tuned::Kept(_) => !kept || choice.processor < (1.0 - pays) * now.processor,
                Tuned::Missed(_) => choice.delay < (1.0 - pays) * now.delay,
            }
        };
        if !expected.is_none_or(pays) {
            return now;
        }
        let timeout = choice.policy.timeout.map_or(Span::MAX, span);
        let packets = u32::try_from(choice.policy.size).unwrap_or(u32::MAX);
        let next = BatchPolicy { packets, bytes: now.bytes, timeout, when_idle: choice.when_idle };
        self.changes += u64::from(next != now);
        next
    }
}
