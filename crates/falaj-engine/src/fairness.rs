//! Fairness, measured by the worst-case fair indices of Bennett and Zhang.
//!
//! - **B-WFI** of flow `i`, in bytes: the most that `(r_i/C) W - W_i` comes to over
//!   any interval throughout which `i` is backlogged and that ends with one of
//!   its departures, `W` being what the link sent and `W_i` what it sent of `i`. At other
//!   instants the index means nothing: within a packet of its own a flow of any
//!   packet server is behind by more.
//! - **T-WFI**, in time: the most by which a packet leaves later than `Q_i/r_i` after it
//!   came, with `Q_i` its queue then, itself and the unsent rest of a packet on
//!   the wire included.
//!
//! A packet that comes at the instant at which its predecessor leaves finds the
//! flow without backlog, as the discipline does.

use crate::engine::Emit;
use falaj_sched::rate::{BIT_NANOS, Rate};
use falaj_sched::time::Time;

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
struct Link<'a> {
    sent: &'a [Emit],
    /// Before each packet.
    before: Vec<i128>,
}

impl Link<'_> {
    fn at(&self, now: Time) -> i128 {
        let Some(last) = self.sent.partition_point(|e| e.start <= now).checked_sub(1) else { return 0 };
        self.before[last] + part(&self.sent[last], now)
    }
}

/// What has been sent of a packet by `now`.
fn part(e: &Emit, now: Time) -> i128 {
    let whole = i128::from(e.bytes) << FRACTION;
    if now >= e.end { whole } else { whole * i128::from(now.since(e.start).0) / i128::from((e.end - e.start).0) }
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
    let link = Link { sent, before };
    let total: u64 = weights.iter().sum();
    let of = |flow: usize| {
        let own: Vec<&Emit> = sent.iter().filter(|e| e.flow.index() == flow).collect();
        (!own.is_empty() && weights[flow] > 0).then(|| Fairness {
            b_wfi: bytes_behind(&link, &own, weights[flow], total),
            t_wfi: time_behind(&own, weights[flow], total, rate),
        })
    };
    (0..weights.len()).map(of).collect()
}

fn bytes_behind(link: &Link<'_>, own: &[&Emit], weight: u64, total: u64) -> Worst {
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
        let left = queued - if own[first].start <= e.arrival { part(own[first], e.arrival) } else { 0 };
        let due = left as f64 / f64::from(1u32 << FRACTION) * BIT_NANOS as f64 / own_rate;
        let amount = (e.end - e.arrival).0 as f64 - due;
        if worst.is_none_or(|w| amount > w.amount) {
            worst = Some(Worst { amount, from: e.arrival, to: e.end });
        }
    }
    worst.expect("a flow that sent something")
}
