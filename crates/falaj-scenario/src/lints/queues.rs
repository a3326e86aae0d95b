//! Warnings about queues and phases that are probably not as intended.

use super::amount::{bytes, rate};
use crate::diagnostics::Problem;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Setup;
use falaj_sched::disciplines::fifo;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::ops::Range;

/// A queue that holds far less than its rate times the link's delay.
pub(crate) struct ShortQueue {
    /// The flow of the queue; `None` if one queue holds the packets of all flows.
    pub(crate) flow: Option<usize>,
    limit: Limit,
    /// The rate at which the queue is served.
    rate: Rate,
    /// The link's delay, in one direction.
    delay: Span,
    /// Rate times delay, in bytes.
    product: u64,
    /// Rate times delay, as a number of largest packets.
    packets: u64,
}

/// Finds queues that hold less than a tenth of rate times delay. The rate is the flow's guaranteed
/// rate, or else the link's rate. The delay is that of one direction; the default limit of a queue
/// uses the round trip, which is twice as long.
pub(crate) fn short_queues(
    setup: &Setup,
    delay: Span,
    entry: &Manifest,
    guaranteed: &[Option<Rate>],
) -> Vec<ShortQueue> {
    if setup.rate.is_unlimited() || delay == Span::ZERO {
        return Vec::new();
    }
    let short = |flow: Option<usize>, limits: &[Limit], rate: Rate| {
        let product = u128::from(rate.0) * u128::from(delay.0) / 8_000_000_000;
        let largest = u128::from(setup.largest.max(1));
        let bytes = |limit: &Limit| match *limit {
            Limit::Packets(n) => u128::from(n) * largest,
            Limit::Bytes(n) => n.into(),
        };
        let held: u128 = limits.iter().map(bytes).sum();
        (held * 10 < product).then(|| ShortQueue {
            flow,
            limit: match limits {
                [one] => *one,
                _ => Limit::Bytes(u64::try_from(held).unwrap_or(u64::MAX)),
            },
            rate,
            delay,
            product: u64::try_from(product).unwrap_or(u64::MAX),
            packets: u64::try_from(product.div_ceil(largest)).unwrap_or(u64::MAX),
        })
    };
    let limits: Vec<Limit> = setup.flows.iter().map(|f| f.limit).collect();
    // A FIFO has one queue for all flows.
    if entry.kind == fifo::MANIFEST.kind {
        return match (setup.scheduler.limit("queue"), limits.as_slice()) {
            (Some(limit), _) => short(None, &[limit], setup.rate),
            (None, [one]) => short(Some(0), &[*one], setup.rate),
            (None, all) => short(None, all, setup.rate),
        }
        .into_iter()
        .collect();
    }
    let rate =
        |n: usize| guaranteed.get(n).copied().flatten().filter(|r| r.0 > 0).unwrap_or(setup.rate);
    limits.iter().enumerate().filter_map(|(n, limit)| short(Some(n), &[*limit], rate(n))).collect()
}

impl ShortQueue {
    /// The warning. If `unset` is true, the limit is the default, and `at` is the header of the
    /// flow's or scheduler's table.
    pub(crate) fn problem(
        &self,
        at: Range<usize>,
        what: &str,
        unset: bool,
        of_a_flow: bool,
    ) -> Problem {
        let which = if unset { "is not set here: it is" } else { "holds" };
        Problem::warning(
            at,
            format!("{what}: its queue is less than a tenth of its rate times the link's delay"),
        )
        .label(format!(
            "`queue` {which} {}; {} x {} is {}",
            self.limit,
            rate(self.rate),
            self.delay,
            bytes(self.product)
        ))
        .help(if of_a_flow {
            format!(
                "one TCP connection needs about `queue = \"{}p\"` to use that rate",
                self.packets
            )
        } else {
            let queue = format!("scheduler = {{ kind = \"fifo\", queue = \"{}p\" }}", self.packets);
            format!("one TCP connection needs about `{queue}` to use that rate")
        })
        .help(
            "if it is short on purpose, a flow says so by the delay it needs: `requires = { delay \
             = \"…\" }`",
        )
    }
}

/// A phase whose end is often wasted, because the time left is too short for a packet.
pub(crate) struct LongTail {
    pub(crate) flow: usize,
    phase: Span,
    tail: Span,
    largest: u32,
    /// The next shorter and the next longer phase without a tail.
    fitting: [Span; 2],
}

/// Finds phases of which more than a twentieth is wasted if all packets have the largest size. Only
/// `tail = "wait"` wastes tails.
pub(crate) fn long_tails(setup: &Setup) -> Vec<LongTail> {
    // A tail that is skipped or carried over is not lost.
    if setup.scheduler.choice("tail") != Some("wait") {
        return Vec::new();
    }
    let of = |n: u64| setup.rate.airtime_of_many(u64::from(setup.largest).saturating_mul(n));
    let long = |(flow, values): (usize, Span)| {
        let fit = setup.rate.packets_within(setup.largest.into(), values);
        let tail = Span(values.0.checked_sub(of(fit).0)?);
        (fit > 0 && u128::from(tail.0) * 20 > u128::from(values.0)).then(|| LongTail {
            flow,
            phase: values,
            tail,
            largest: setup.largest,
            fitting: [of(fit), of(fit + 1)],
        })
    };
    let phases =
        setup.flows.iter().enumerate().filter_map(|(n, f)| Some((n, f.values.span("phase")?)));
    phases.filter_map(long).collect()
}

impl LongTail {
    pub(crate) fn problem(&self, at: Range<usize>, what: &str) -> Problem {
        let share = self.tail.0 as f64 * 100.0 / self.phase.0 as f64;
        let [shorter, longer] = self.fitting;
        Problem::warning(
            at,
            format!(
                "{what}: {share:.1} % of its phase is unused if its packets have the largest size"
            ),
        )
        .label(format!("{} are too short for {} B", self.tail, self.largest))
        .help(format!(
            "write `{shorter}` or `{longer}`, which packets of the largest size fill without a rest"
        ))
        .help("or give the rest away: `tail = \"skip\"` in the scheduler")
    }
}
