//! Fairness, measured by the worst-case fair indices of Bennett and Zhang.
//!
//! - **B-WFI** of flow `i`, in bytes: the maximum of `(r_i/C) W - W_i` over all intervals in which
//!   `i` is backlogged throughout and which end with one of its departures. `C` is the link's rate,
//!   and `r_i` the flow's share of it by weight. `W` is the number of bytes that the link sent, and
//!   `W_i` the number that it sent of `i`. At other instants the index has no meaning: while a
//!   packet of its own is on the wire, a flow lags by more under any packet scheduler.
//! - **T-WFI**, in time: the maximum by which a packet leaves later than `Q_i/r_i` after its
//!   arrival. `Q_i` is the flow's queue at the arrival, including the packet itself and the unsent
//!   rest of a packet on the wire.
//!
//! A packet that arrives at the instant at which its predecessor leaves finds the flow without
//! backlog, here as in the discipline.
//!
//! [`known`] is the bound on the B-WFI, by discipline. The T-WFI is never above the B-WFI divided
//! by `r_i`: on a work-conserving link, a packet's sojourn is one of the intervals of the B-WFI.

use crate::message::Emit;
use falaj_sched::contract::wfi::{WfiFlow, WfiFormula};
use falaj_sched::registry;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Time;

/// The worst value for a flow, and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The value, in bytes for B-WFI and in nanoseconds for T-WFI.
    pub amount: f64,
    /// Start of the interval: start of a backlog, departure of the flow, or an arrival.
    pub from: Time,
    /// End of the interval, a departure of the flow.
    pub to: Time,
}

/// The indices of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fairness {
    /// The byte worst-case fair index; never below 0.
    pub b_wfi: Worst,
    /// The time worst-case fair index; negative if every packet left before its time.
    pub t_wfi: Worst,
}

/// Number of fraction bits in a count of bytes: intervals may begin within a packet of another
/// flow.
const FRACTION: u32 = 20;

/// The cumulative service of the link as a function of time, in units of 2^-20 bytes.
struct FluidLink<'a> {
    sent: &'a [Emit],
    /// Service before each packet.
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

/// The part of a packet sent by `now`, in units of 2^-20 bytes.
fn part(e: &Emit, now: Time) -> i128 {
    let whole = i128::from(e.bytes) << FRACTION;
    if now >= e.end {
        whole
    } else {
        whole * i128::from(now.since(e.start).0) / i128::from((e.end - e.start).0)
    }
}

/// Measures the indices of each flow; `None` for a flow that sent nothing. `sent` lists the packets
/// that one pipe of this rate sent, in order; flows share the link in proportion to `weights`.
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
    // In units of 2^-20 bytes, multiplied by the sum of the weights.
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
    // The first packet that has not left, and the bytes from it to the newest.
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

/// The packet sizes of a flow; both are 0 if it has no packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the smallest packet.
    pub smallest: u32,
    /// Bytes of the largest packet.
    pub largest: u32,
}

impl Sizes {
    /// Accounts for another packet.
    pub fn add(&mut self, bytes: u32) {
        self.smallest = if self.largest == 0 { bytes } else { self.smallest.min(bytes) };
        self.largest = self.largest.max(bytes);
    }
}

/// The bound on the B-WFI of a discipline's flows.
#[derive(Clone, Debug, PartialEq)]
pub struct WfiBound {
    /// The formula, with `phi = w/sum w`, `L` the link's largest packet, `L_i` the flow's own.
    pub formula: &'static str,
    /// A further condition of the bound; `None`: it always holds.
    pub condition: Option<&'static str>,
    /// Bytes, for each flow.
    pub bytes: Vec<f64>,
}

/// The bound of a discipline of the registry, for flows of these weights and packet sizes on a link
/// that allows packets of `largest` bytes. `None` if no bound is known that holds whatever the
/// other flows do. The bound applies if `weight` of the discipline sets the flows' shares.
pub fn known(kind: &str, weights: &[u64], sizes: &[Sizes], largest: u32) -> Option<WfiBound> {
    let WfiFormula { formula, condition, bytes } = registry::entry(kind)?.wfi?;
    let total = weights.iter().sum::<u64>() as f64;
    let lightest = weights.iter().min().copied().unwrap_or(1) as f64;
    let all = sizes.iter().map(|s| f64::from(s.largest)).sum();
    // The largest packet that occurs. For schedulers whose tags are exact, the bound depends on it
    // and not on the link's limit.
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
