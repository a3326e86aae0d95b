//! Bounds that follow from the envelope and the guarantee of a flow: its delay, its backlog, and
//! what limits them.

use super::Outlook;
use super::envelope::{Envelope, sources_named};
use super::left_over::{Given, LeftOver};
use crate::words;
use falaj_sched::contract::guarantee::Guarantee;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, Distance, exact, float, whole};

/// A bound on the delay, and the reason why it is not lower.
#[derive(Clone, PartialEq, Eq)]
pub struct Delay {
    /// Bound on the time from a packet's last bit in to its last bit out of the link.
    pub delay: Span,
    /// The formula of the bound.
    pub formula: String,
    /// The condition under which the bound holds, in words.
    pub condition: String,
    /// The reason why the delay bound is not lower, in words.
    pub limit: String,
}

/// Bound on the backlog of a flow, or of all flows that share its queue.
pub struct Backlog {
    /// The backlog in bytes.
    pub bytes: u64,
    /// The backlog in packets of the smallest size, if that size is known.
    pub packets: Option<u64>,
    /// In words: the queue holds this backlog, or may not hold it.
    pub fits: String,
    /// True if the queue is certain to hold this backlog.
    pub lossless: bool,
    /// A limit with which the queue would hold this backlog, if the present limit may be too low.
    pub enough: Option<Limit>,
}

/// The distances between an envelope and a service curve.
pub struct Distances {
    /// The horizontal distance.
    pub delay: Distance,
    /// The vertical distance.
    pub backlog: Distance,
    /// The service curve from which the delay follows.
    pub service: Curve,
    /// The kind of that curve.
    pub(super) by: By,
}

impl Distances {
    /// The shorter of both delays and the shorter of both backlogs, chosen independently.
    pub(super) fn shorter(self, other: Distances) -> Distances {
        let is = other.delay.length < self.delay.length;
        Distances {
            by: if is { other.by } else { self.by },
            service: if is { other.service } else { self.service },
            delay: if is { other.delay } else { self.delay },
            backlog: if other.backlog.length < self.backlog.length {
                other.backlog
            } else {
                self.backlog
            },
        }
    }
}

/// The kind of the service curve from which a delay bound follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rate,
    /// The turns of the flow; the span passes before the first turn.
    Turns(Span),
    /// The curve of deadlines; packets leave at most this span after their deadlines.
    Deadlines(Span),
}

/// The formula of a delay bound by the curve of rate and latency.
const HORIZONTAL: &str = "h(envelope, service)";
/// The formula by the curve of a flow's turns.
const TURNS: &str = "h(envelope, turns of Q at C)";
/// The formula by the curve of deadlines.
const DEADLINES: &str = "h(envelope, curve), plus the lateness after the deadline";

pub(super) fn full_queue(guarantee: &Guarantee, flow: &Outlook) -> Delay {
    let queue = if flow.together { "the queue that all flows share" } else { "the queue" };
    let why = match (&flow.envelope, &flow.service, &flow.distances) {
        (Ok(_), Some((rate, _, _)), None) => {
            format!(
                "the rate: it may send more than the {} it is guaranteed, and {queue} of {} fills",
                words::link_rate(*rate),
                flow.limit
            )
        }
        (Ok(_), Some(_), Some(_)) => format!("{queue}: no more than {} ever waits", flow.limit),
        _ => format!(
            "{queue}: the flow's traffic has no limit, and a full queue holds {}",
            flow.limit
        ),
    };
    Delay {
        delay: guarantee.delay.delay,
        formula: guarantee.delay.formula.into(),
        condition: guarantee.delay.condition.into(),
        limit: why,
    }
}

pub(super) fn by_curves(flow: &Outlook) -> Option<Delay> {
    let (distances, (rate, latency, _)) = (flow.distances.as_ref()?, flow.service.as_ref()?);
    let (latency, on_a_curve) = match distances.by {
        By::Deadlines(late) => (late, true),
        By::Turns(latency) => (latency, false),
        By::Rate => (*latency, false),
    };
    let envelope = flow.envelope.as_ref().ok()?;
    let delay = Span(whole(&distances.delay.length));
    let rate = words::link_rate(*rate);
    // With turns, the first bytes are sent earlier than the latency says.
    let latency = delay.min(latency);
    let (wait, total) = (words::nanos(latency.0 as f64), words::nanos(delay.0 as f64));
    let at = float(&distances.delay.at);
    let burst = words::bytes(float(&distances.delay.level));
    let limit = if u128::from(latency.0) * 2 >= u128::from(delay.0) {
        format!("the scheduler: its latency is {wait} of {total}")
    } else if on_a_curve {
        format!(
            "its deadline curve: it reaches {burst} only after {}",
            words::nanos((delay - latency).0 as f64 + at)
        )
    } else if at > 0.0 {
        format!(
            "the rate: for {} it may send faster than the {rate} it is guaranteed",
            words::nanos(at)
        )
    } else {
        format!(
            "the burst: {burst} at {rate} take {} of {total}",
            words::nanos((delay - latency).0 as f64)
        )
    };
    let condition = by_whom(envelope, flow.together);
    let condition = if flow.jitter.is_some() {
        format!(
            "{condition}; the bound excludes the time for which the link holds packets that left \
             the previous link early"
        )
    } else {
        condition
    };
    let formula = match distances.by {
        By::Rate => HORIZONTAL,
        By::Turns(_) => TURNS,
        By::Deadlines(_) => DEADLINES,
    };
    Some(Delay { delay, formula: formula.into(), condition, limit })
}

/// The delay bound by the left-over service, and the backlog in bytes. The backlog counts only
/// those bits of the packet on the wire that have not left.
pub(super) fn by_left_over(
    left: &LeftOver,
    envelope: &Envelope,
    rate: Rate,
    together: bool,
) -> Option<(Delay, Distance)> {
    let distance = left.due.as_ref().unwrap_or(&envelope.curve).delay(&left.service)?;
    let backlog = match left.due {
        None => envelope.curve.backlog(&left.service)?,
        // Packets that are queued arrived no longer ago than the longest delay.
        Some(_) => {
            let bytes = envelope.curve.after(&distance.length);
            Distance { length: bytes.clone(), at: exact(0), level: bytes }
        }
    };
    let at_once = |curve: &Curve| float(&curve.pieces()[0].after);
    let (own, others) = (at_once(&envelope.curve), at_once(&left.before));
    let (burst, at) = (words::bytes(own), words::link_rate(rate));
    let limit = if others > 0.0 {
        format!("the bursts: {burst} of its own and {} before it, at {at}", words::bytes(others))
    } else {
        format!("the burst: {burst} at {at}")
    };
    let condition = match left.given {
        Given::Own => by_whom(envelope, together),
        Given::Declared => "all flows keep to their envelopes".into(),
        Given::Sources => {
            "all flows keep to their envelopes, or send no more than their traffic sources".into()
        }
    };
    let delay = Delay {
        delay: Span(whole(&distance.length)),
        formula: left.formula.into(),
        condition,
        limit,
    };
    Some((delay, backlog))
}

/// The condition in words: the flow keeps to its envelope, or all flows together do.
fn by_whom(envelope: &Envelope, together: bool) -> String {
    let (whose, s) = if together { ("all flows", "") } else { ("it", "s") };
    match envelope.is_declared() {
        true => format!("{whose} keep{s} to the envelope"),
        false => format!("{whose} send{s} no more than {}", sources_named(&envelope.sources)),
    }
}

/// The backlog, compared with the limit of the queue.
pub(super) fn backlog(
    distance: &Distance,
    limit: Limit,
    largest: u32,
    envelope: Option<&Envelope>,
) -> Backlog {
    let bytes = whole(&distance.length.floor());
    let smallest = envelope.and_then(|e| e.smallest).map(u64::from);
    let packets = smallest.map(|s| bytes / s.max(1));
    let least = bytes.div_ceil(u64::from(largest.max(1)));
    let (fits, lossless, enough) = match (limit, packets) {
        (Limit::Bytes(n), _) if bytes <= n => (format!("fits the queue of {limit}"), true, None),
        (Limit::Bytes(_), _) => {
            let enough = Limit::Bytes(bytes);
            (
                format!("packets may be lost: the queue holds {limit}, and {enough} would do"),
                false,
                Some(enough),
            )
        }
        (Limit::Packets(n), Some(packets)) if packets <= n.into() => {
            (format!("fits the queue of {limit}"), true, None)
        }
        (Limit::Packets(_), Some(packets)) => {
            let enough = Limit::Packets(u32::try_from(packets).unwrap_or(u32::MAX));
            (
                format!("packets may be lost: the queue holds {limit}, and {enough} would do"),
                false,
                Some(enough),
            )
        }
        (Limit::Packets(n), None) if least <= n.into() => {
            // If no packet is shorter than `size`, `n + 1` packets are more than the backlog.
            let size = bytes / (u64::from(n) + 1) + 1;
            let enough = Limit::Bytes(bytes);
            let unless =
                if size > 1 { format!(" if no packet is below {size} B") } else { String::new() };
            (format!("fits the queue of {limit}{unless}"), size <= 1, (size > 1).then_some(enough))
        }
        (Limit::Packets(_), None) => {
            let enough = Limit::Bytes(bytes);
            (
                format!("packets may be lost: the queue holds {limit}, and {enough} would do"),
                false,
                Some(enough),
            )
        }
    };
    Backlog { bytes, packets, fits, lossless, enough }
}
