//! The tuner: what was counted in epochs becomes a load and costs, and these a policy. It changes only what pays, so
//! that a steady load leaves it alone; a load that changes is taken for what it is in the epoch in which it does.

use crate::containers::{Measure, Policy as Size};
use crate::tune::{Choice, Cost, Limits, Load, Tuned, Wanted, choose, expect};
use falaj_engine::container::{ADDRESS, LENGTH, Policy};
use falaj_engine::tuning::{Choose, Seen};
use falaj_sched::time::Span;

/// How much of what was known is kept from an epoch to the next.
const KEPT: f64 = 15.0 / 16.0;
/// The same of costs: sizes must have changed for both to be told apart.
const COSTS_KEPT: f64 = 0.98;
/// How surely the load has changed, in standard deviations of packets that come at random.
const SURE: f64 = 4.0;
/// What is aimed at, in parts of the delay: the rest is between "it is kept" and "it has to change".
const AIM: f64 = 0.95;
/// A change has to spare so much.
const PAYS: f64 = 0.97;
/// Epochs between two looks for something better, without a reason.
const LOOK: u32 = 8;
/// Costs before any were measured: of a wake-up, and of copying a packet.
const FIRST: Cost = Cost { per_container: 5e-6, per_packet: 50e-9, waking: 15e-6, waking_at_most: 40e-6 };
/// How much what was measured has to say against these.
const DOUBT: f64 = 0.01;

/// Keeps a delay at the least processor time. Give it to [`Packer::tuned`](falaj_engine::container::Packer::tuned).
#[derive(Clone, Debug)]
pub struct Tuner {
    wanted: Wanted,
    sums: Sums,
    costs: Costs,
    waking: Waking,
    /// Epochs since the last look for something better.
    since: u32,
    tuned: Option<Tuned>,
    changes: u64,
}

/// Of the load, older epochs counting less.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    packets: f64,
    span: f64,
    slots: f64,
    in_slots: f64,
    squares: f64,
    /// Of containers that left.
    containers: f64,
    carried: f64,
    open: f64,
    open_span: f64,
    waited: f64,
    computed: f64,
    bytes: f64,
}

/// For the least squares of what was spent over containers and packets.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    cc: f64,
    cp: f64,
    pp: f64,
    cs: f64,
    ps: f64,
}

/// How long the other side takes to begin.
#[derive(Clone, Copy, Debug)]
struct Waking {
    mean: f64,
    variance: f64,
    known: bool,
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

fn span(seconds: f64) -> Span {
    Span((seconds * 1e9).round() as u64)
}

impl Sums {
    fn fade(&mut self) {
        let Sums {
            packets,
            span,
            slots,
            in_slots,
            squares,
            containers,
            carried,
            open,
            open_span,
            waited,
            computed,
            bytes,
        } = self;
        for sum in
            [packets, span, slots, in_slots, squares, containers, carried, open, open_span, waited, computed, bytes]
        {
            *sum *= KEPT;
        }
    }

    fn burst(&self) -> f64 {
        let mean = self.in_slots / self.slots;
        let variance = self.squares / self.slots - mean * mean;
        if self.slots >= 8.0 && mean > 0.0 { (variance / mean).max(1.0) } else { 1.0 }
    }

    /// Containers side by side: each is open but for the time until its next burst.
    fn streams(&self, burst: f64) -> f64 {
        let size = self.carried / self.containers.max(1e-9);
        if size < 1.5 * burst || self.open_span <= 0.0 {
            return 1.0;
        }
        (self.open / self.open_span / (1.0 - burst / size)).max(1.0)
    }
}

impl Costs {
    fn add(&mut self, containers: f64, packets: f64, spent: f64) {
        for sum in [&mut self.cc, &mut self.cp, &mut self.pp, &mut self.cs, &mut self.ps] {
            *sum *= COSTS_KEPT;
        }
        self.cc += containers * containers;
        self.cp += containers * packets;
        self.pp += packets * packets;
        self.cs += containers * spent;
        self.ps += packets * spent;
    }

    /// Of a container and of a packet, close to the first ones where nothing says otherwise.
    fn found(&self) -> (f64, f64) {
        let (first_c, first_p) = (FIRST.per_container, FIRST.per_packet);
        if self.cc <= 0.0 || self.cs <= 0.0 {
            return (first_c, first_p);
        }
        let (cc, pp) = (self.cc * (1.0 + DOUBT), self.pp * (1.0 + DOUBT));
        let (cs, ps) = (self.cs + DOUBT * self.cc * first_c, self.ps + DOUBT * self.pp * first_p);
        let determinant = cc * pp - self.cp * self.cp;
        let container = (cs * pp - ps * self.cp) / determinant;
        let packet = (ps * cc - cs * self.cp) / determinant;
        // Neither is a gain.
        if container <= 0.0 {
            (1e-9, ps / pp)
        } else if packet < 0.0 {
            (cs / cc, 0.0)
        } else {
            (container, packet)
        }
    }
}

impl Tuner {
    /// For a delay. Its percentile is 0.9 or above, if it is one.
    pub fn new(wanted: Wanted) -> Tuner {
        let waking = Waking { mean: FIRST.waking, variance: 0.0, known: false };
        let (sums, costs) = (Sums::default(), Costs::default());
        Tuner { wanted, sums, costs, waking, since: 0, tuned: None, changes: 0 }
    }

    /// The policy before anything is known, of containers of so many bytes: none waits longer than the delay's half,
    /// and none while the other side is idle.
    pub fn first(&self, bytes: u32) -> Policy {
        let timeout = span(self.wanted.delay / 2.0).max(Span(1));
        Policy { packets: u32::MAX, bytes, timeout, when_idle: true }
    }

    /// Pieces of an epoch, and how many there are: as long as the delay, and ten milliseconds in all or more.
    pub fn epoch(&self) -> (Span, u64) {
        let slot = self.wanted.delay.clamp(10e-6, 10e-3);
        (span(slot), (10e-3 / slot).ceil().max(8.0) as u64)
    }

    /// What was chosen last, and whether it keeps the delay; `None` before anything is known.
    pub fn tuned(&self) -> Option<Tuned> {
        self.tuned
    }

    /// How often the policy was changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The load as it is known.
    pub fn load(&self) -> Load {
        let burst = self.sums.burst();
        let stretch = if self.sums.computed > 0.0 { self.sums.waited / self.sums.computed } else { 1.0 };
        Load {
            rate: self.sums.packets / self.sums.span,
            burst,
            streams: self.sums.streams(burst),
            stretch: stretch.clamp(0.5, 4.0),
        }
    }

    /// The costs as they are known.
    pub fn cost(&self) -> Cost {
        let (per_container, per_packet) = self.costs.found();
        let Waking { mean, variance, known } = self.waking;
        // There are too few to count percentiles of: three deviations for all of them.
        let at_most = if known { mean + 3.0 * variance.sqrt() } else { FIRST.waking_at_most };
        Cost { per_container, per_packet, waking: mean, waking_at_most: at_most }
    }

    /// Takes what was seen into account; says whether the load is another one.
    fn learn(&mut self, seen: &Seen, now: Policy) -> bool {
        let packets = seen.packets as f64;
        // A few packets after a long silence are few in all that time; many are a load that has begun.
        let idle = if seen.packets < 16 { seconds(seen.idle) } else { 0.0 };
        let long = seconds(seen.span) + idle;
        let before = self.load();
        let known = self.sums.span > 0.0;
        let expected = before.rate * long;
        let moved = known && (packets - expected).abs() > SURE * (before.burst * expected).sqrt() + 1.0;
        if moved {
            self.sums = Sums::default();
        }
        self.sums.fade();
        let sums = &mut self.sums;
        sums.packets += packets;
        sums.span += long;
        sums.slots += seen.slots as f64;
        sums.in_slots += packets;
        sums.squares += seen.squares as f64;
        sums.bytes += seen.bytes as f64;
        self.costs.add(seen.containers as f64, seen.carried as f64, seconds(seen.spent));
        // What left in an epoch of two loads belongs to neither.
        if !moved && known {
            sums.containers += seen.containers as f64;
            sums.carried += seen.carried as f64;
            sums.open += seconds(seen.open);
            sums.open_span += seconds(seen.span);
            self.compare(seen, now);
        }
        moved || !known
    }

    /// Compares what was expected of the policy with what it did.
    fn compare(&mut self, seen: &Seen, now: Policy) {
        let load = Load { stretch: 1.0, ..self.load() };
        let cost = self.cost();
        let mean = Wanted { measure: Measure::Mean, ..self.wanted };
        let Ok(Some(expected)) = expect(&mean, &load, &cost, size(now), now.when_idle) else { return };
        if !now.when_idle && now.packets > 1 {
            let fill = expected.delay
                - expected.queued
                - cost.waking
                - cost.per_container
                - cost.per_packet * load.rate / expected.containers;
            self.sums.computed += fill.max(0.0) * seen.carried as f64;
            self.sums.waited += seconds(seen.waited);
        }
        // Where the other side is busy, what is measured are those before.
        if seen.crossings > 0 && expected.processor < 0.8 {
            let count = seen.crossings as f64;
            let crossing = seconds(seen.crossing) / count;
            let queued = if now.when_idle { 0.0 } else { expected.queued };
            let spread = (seen.crossing_squares as f64 / count / 1e18 - crossing * crossing).max(0.0);
            let waking = &mut self.waking;
            // One that was not scheduled for a while is not what every container finds.
            let found = (crossing - queued).clamp(0.0, waking.mean + self.wanted.delay / 8.0);
            let part = if waking.known { 1.0 / 8.0 } else { 1.0 };
            waking.mean += part * (found - waking.mean);
            waking.variance += part * (spread.min(self.wanted.delay * self.wanted.delay / 64.0) - waking.variance);
            waking.known = true;
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

    /// More comes than can be carried: the largest containers carry most of it.
    fn overload(&self, load: &Load, cost: &Cost, limits: &Limits) -> Choice {
        let policy = Size { size: limits.packets, timeout: Some(self.wanted.delay) };
        let containers = load.rate / limits.packets as f64;
        let processor = containers * cost.per_container + load.rate * cost.per_packet;
        Choice { policy, when_idle: true, delay: f64::INFINITY, processor, containers, queued: f64::INFINITY }
    }
}

fn size(policy: Policy) -> Size {
    let timeout = (policy.timeout != Span::MAX).then(|| seconds(policy.timeout));
    Size { size: policy.packets as usize, timeout }
}

impl Choose for Tuner {
    fn choose(&mut self, seen: &Seen, now: Policy) -> Policy {
        let moved = self.learn(seen, now);
        let expected = expect(&self.wanted, &self.load(), &self.cost(), size(now), now.when_idle).ok().flatten();
        let kept = expected.is_some_and(|choice| choice.delay <= self.wanted.delay);
        self.since += 1;
        if kept && !moved && self.since < LOOK {
            return now;
        }
        self.since = 0;
        let tuned = self.decide(now.bytes);
        let choice = tuned.choice();
        self.tuned = Some(tuned);
        let pays = |now: Choice| match tuned {
            Tuned::Kept(_) => !kept || choice.processor < PAYS * now.processor,
            Tuned::Missed(_) => choice.delay < PAYS * now.delay,
        };
        if !expected.is_none_or(pays) {
            return now;
        }
        let timeout = choice.policy.timeout.map_or(Span::MAX, span);
        let packets = u32::try_from(choice.policy.size).unwrap_or(u32::MAX);
        let next = Policy { packets, bytes: now.bytes, timeout, when_idle: choice.when_idle };
        self.changes += u64::from(next != now);
        next
    }
}
