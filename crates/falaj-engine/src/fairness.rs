//! Fairness, measured by the worst-case fair indices of Bennett and Zhang.
//!
//! - **B-WFI** of flow `i`, in bytes: the most that `(r_i/C) W - W_i` comes to over any interval
//!   throughout which `i` is backlogged and that ends with one of its departures, `W` being what
//!   the link sent and `W_i` what it sent of `i`. At other instants the index means nothing: within
//!   a packet of its own a flow of any packet server is behind by more.
//! - **T-WFI**, in time: the most by which a packet leaves later than `Q_i/r_i` after it came, with
//!   `Q_i` its queue then, itself and the unsent rest of a packet on the wire included.
//!
//! A packet that comes at the instant at which its predecessor leaves finds the
//! flow without backlog, as the discipline does.
//!
//! [`known`] is what the first may come to, by discipline. The second is never
//! above the first divided by `r_i`: on a link that never rests while there is
//! something, a packet's stay is one of the intervals of the first.

use crate::message::Emit;
use falaj_sched::contract::wfi::{WfiFlow, WfiFormula};
use falaj_sched::registry;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Time;

/// The worst that happened to a flow, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// In bytes, or in nanoseconds.
    pub amount: f64,
    /// Where the interval begins that shows it: a backlog, an own departure, or an arrival.
    pub from: Time,
    /// The departure with which it ends.
    pub to: Time,
}

/// The indices of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fairness {
    /// In bytes; never below 0.
    pub b_wfi: Worst,
    /// In nanoseconds; below 0 if every packet left before its time.
    pub t_wfi: Worst,
}

/// Bits of a byte's fraction: intervals may begin within a packet of another flow.
const FRACTION: u32 = 20;

/// What the link has sent until some instant, in parts of a byte.
struct FluidLink<'a> {
    sent: &'a [Emit],
    /// Before each packet.
    before: Vec<i128>,
}

impl FluidLink<'_> {
    fn at(&self, now: Time) -> i128 {
        let Some(last) = self.sent.partition_point(|e| e.start <= now).checked_sub(1) else {
            return 0;
        };
        self.before[last] + part(&self.sent[last], now)
    }
}

/// What has been sent of a packet by `now`.
fn part(e: &Emit, now: Time) -> i128 {
    let whole = i128::from(e.bytes) << FRACTION;
    if now >= e.end {
        whole
    } else {
        whole * i128::from(now.since(e.start).0) / i128::from((e.end - e.start).0)
    }
}

/// The indices of each flow, `None` for one that sent nothing. `sent` is what one
/// pipe of this rate sent, in order; flows have shares of the link in proportion
/// to `weights`.
pub fn measure(rate: Rate, weights: &[u64], sent: &[Emit]) -> Vec<Option<Fairness>> {
    let before = sent.iter().scan(0, |sum, e| {
        let before = *sum;
        *sum += i128::from(e.bytes) << FRACTION;
        Some(before)
    });
    let before = before.collect();
    let link = FluidLink { sent, before };
    let total: u64 = weights.iter().sum();
    let mut own = vec![Vec::new(); weights.len()];
    sent.iter().for_each(|e| own[e.flow.index()].push(e));
    let of = |(own, &weight): (Vec<&Emit>, &u64)| {
        (!own.is_empty() && weight > 0).then(|| Fairness {
            b_wfi: bytes_behind(&link, &own, weight, total),
            t_wfi: time_behind(&own, weight, total, rate),
        })
    };
    own.into_iter().zip(weights).map(of).collect()
}

fn bytes_behind(link: &FluidLink<'_>, own: &[&Emit], weight: u64, total: u64) -> Worst {
    let mut done = 0i128;
    // In parts of a byte, times the sum of the weights.
    let lag = |now: Time, done: i128| i128::from(weight) * link.at(now) - i128::from(total) * done;
    let (mut least, mut since) = (0, Time::ZERO);
    let mut worst = (0, own[0].arrival, own[0].end);
    for (k, e) in own.iter().enumerate() {
        if k == 0 || e.arrival >= own[k - 1].end {
            (least, since) = (lag(e.arrival, done), e.arrival);
        }
        done += i128::from(e.bytes) << FRACTION;
        let now = lag(e.end, done);
        if now - least > worst.0 {
            worst = (now - least, since, e.end);
        }
        if now < least {
            (least, since) = (now, e.end);
        }
    }
    let amount = worst.0 as f64 / total as f64 / f64::from(1u32 << FRACTION);
    Worst { amount, from: worst.1, to: worst.2 }
}

fn time_behind(own: &[&Emit], weight: u64, total: u64, rate: Rate) -> Worst {
    let own_rate = rate.0 as f64 * weight as f64 / total as f64;
    let mut worst: Option<Worst> = None;
    // The first that has not left, and the bytes from there to the newest.
    let (mut first, mut queued) = (0, 0i128);
    for e in own {
        queued += i128::from(e.bytes) << FRACTION;
        while own[first].end <= e.arrival {
            queued -= i128::from(own[first].bytes) << FRACTION;
            first += 1;
        }
        let left =
            queued - if own[first].start <= e.arrival { part(own[first], e.arrival) } else { 0 };
        let due = left as f64 / f64::from(1u32 << FRACTION) * BIT_NANOS as f64 / own_rate;
        let amount = (e.end - e.arrival).0 as f64 - due;
        if worst.is_none_or(|w| amount > w.amount) {
            worst = Some(Worst { amount, from: e.arrival, to: e.end });
        }
    }
    worst.expect("a flow that sent something")
}

/// The packets of a flow; both 0 if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the smallest.
    pub smallest: u32,
    /// Bytes of the largest.
    pub largest: u32,
}

impl Sizes {
    /// A packet more.
    pub fn add(&mut self, bytes: u32) {
        self.smallest = if self.largest == 0 { bytes } else { self.smallest.min(bytes) };
        self.largest = self.largest.max(bytes);
    }
}

/// The bound on the B-WFI of a discipline's flows.
#[derive(Clone, Debug, PartialEq)]
pub struct WfiBound {
    /// With `phi = w/sum w`, `L` the link's largest packet, `L_i` the flow's own.
    pub formula: &'static str,
    /// What must hold for it besides; `None`: it is never exceeded.
    pub condition: Option<&'static str>,
    /// Bytes, for each flow.
    pub bytes: Vec<f64>,
}

/// The bound of a discipline of the registry, where the flows have these weights
/// and packets, and the link allows packets of `largest` bytes; `None` where
/// no bound is known that holds whatever the others do. It counts for flows whose
/// shares the discipline got as `weight`.
pub fn known(kind: &str, weights: &[u64], sizes: &[Sizes], largest: u32) -> Option<WfiBound> {
    let WfiFormula { formula, condition, bytes } = registry::entry(kind)?.wfi?;
    let total = weights.iter().sum::<u64>() as f64;
    let lightest = weights.iter().min().copied().unwrap_or(1) as f64;
    let all = sizes.iter().map(|s| f64::from(s.largest)).sum();
    // Of the packets there are: what the link allows changes nothing where tags are exact.
    let most = sizes.iter().map(|s| s.largest).max().map_or(0.0, f64::from);
    let flow = |(&weight, s): (&u64, &Sizes)| WfiFlow {
        weight,
        phi: weight as f64 / total,
        own: f64::from(s.largest),
        spread: f64::from(s.largest - s.smallest),
        flows: weights.len(),
        weights: total,
        lightest,
        all,
        most,
        link: largest,
    };
    let bytes = weights.iter().zip(sizes).map(|of| bytes(&flow(of))).collect();
    Some(WfiBound { formula, condition, bytes })
}
