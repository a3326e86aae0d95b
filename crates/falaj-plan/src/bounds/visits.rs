//! The service of a flow that shares a link by visits, from the visits of its rivals and from the
//! envelopes of the rivals that have one.
//!
//! The link has the rate `C`, the flow the quantum `Q`. At a time `t` after a backlog of the flow
//! began, the link has sent `C t` bytes. The packet that ends with byte `S` of the backlog needs at
//! most `m = ceil(S/Q)` visits. Until it has left, a rival with quantum `Q'` sends at most `m Q' +
//! L` bytes, of which `L` are carried over from earlier visits. The rival also sends at most `a(t +
//! D)` bytes, if `a` is its envelope and `D` a bound on its delay: these bytes came at most `D`
//! before the backlog began. So the packet has left when `C t` reaches `S` plus the smaller of
//! these two values of each rival.
//!
//! A lower delay bound of one flow reduces `D` for its rivals, so bounds are computed again until
//! none falls, at most `ROUNDS` times. Tabatabaee and Le Boudec, "Deficit round-robin: a second
//! network calculus analysis" (2021), have this iteration with output curves in the place of `D`.

use super::envelope::Envelope;
use super::iteration::{KnownBounds, Line, MOST_FLOWS, ROUNDS, lines_by_delay};
use super::left_over::{Given, LeftOver};
use falaj_sched::contract::guarantee::VisitLimits;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, Exact, Piece, exact, slope, whole};

/// The formula of these bounds.
const FORMULA: &str = "h(envelope, C t - sum of min(m Q_j + L, a_j(t + D_j)))";
/// Maximum number of visits times rivals for which a flow's curve has a piece for each visit; the
/// number of visits is kept between 4 and 100.
const MOST_VISITS: u64 = 1_000;

/// A flow, and the known bounds on its service and delay.
pub(super) struct VisitedFlow<'a> {
    pub(super) limits: VisitLimits,
    /// The guaranteed rate, and its latency.
    pub(super) service: (Rate, Span),
    pub(super) known: KnownBounds<'a>,
}

/// A rival of a flow: the limits on its visits, and bounds on the bytes that it sends. There are no
/// such bounds if its envelope is unknown.
struct Rival {
    limits: VisitLimits,
    lines: Vec<Line>,
}

impl Rival {
    fn of(flow: &VisitedFlow, envelope: Option<&Envelope>, delay: Option<Span>) -> Rival {
        Rival { limits: flow.limits, lines: lines_by_delay(envelope, delay) }
    }

    /// The bytes of `visits` visits.
    fn within(&self, visits: u64) -> Line {
        let VisitLimits { quantum, carried } = self.limits;
        Line { rate: 0, bytes: quantum.saturating_mul(visits).saturating_add(carried) }
    }

    /// The lowest bound after a time.
    fn lowest(&self, visits: u64, time: f64) -> Line {
        self.lines.iter().fold(self.within(visits), |low, &line| low.lower(line, time))
    }
}

/// The services of all flows under the condition `given`: that flows keep to the envelopes that
/// they declare, or that they send no more than their sources. `None` for flows without an envelope
/// under that condition.
pub(super) fn left_over(rate: Rate, flows: &[VisitedFlow], given: Given) -> Vec<Option<LeftOver>> {
    let mut delays: Vec<Option<Span>> = flows.iter().map(|flow| flow.known.delay(given)).collect();
    let all = flows.iter().zip(&delays);
    let mut rivals: Vec<Rival> =
        all.map(|(flow, &delay)| Rival::of(flow, flow.known.envelope(given), delay)).collect();
    let mut left: Vec<Option<LeftOver>> = flows.iter().map(|_| None).collect();
    if flows.len() > MOST_FLOWS {
        return left;
    }
    for _ in 0..ROUNDS {
        let mut falls = false;
        for (f, flow) in flows.iter().enumerate() {
            let Some(own) = flow.known.envelope(given) else { continue };
            let others: Vec<&Rival> =
                rivals.iter().enumerate().filter(|&(n, _)| n != f).map(|(_, r)| r).collect();
            if others.iter().all(|rival| rival.lines.is_empty()) {
                continue;
            }
            let Some((service, before)) = service(rate, flow, own, &others) else { continue };
            let Some(distance) = own.curve.delay(&service) else { continue };
            let shorter = Span(whole(&distance.length));
            if delays[f].is_some_and(|delay| delay <= shorter) {
                continue;
            }
            falls = true;
            delays[f] = Some(shorter);
            rivals[f] = Rival::of(flow, Some(own), delays[f]);
            left[f] = Some(LeftOver { service, before, given, formula: FORMULA, due: None });
        }
        if !falls {
            break;
        }
    }
    left
}

/// The service curve of a flow, and the bound on its rivals' bytes in the visits of its burst.
fn service(
    rate: Rate,
    flow: &VisitedFlow,
    own: &Envelope,
    rivals: &[&Rival],
) -> Option<(Curve, Curve)> {
    let quantum = flow.limits.quantum.max(1);
    let burst = own.buckets.iter().map(|bucket| bucket.1).min()?;
    let visits = needed(flow, own).min((MOST_VISITS / rivals.len() as u64).clamp(4, 100));
    // For each visit, a line above the bytes that rivals send before it ends.
    let mut lines: Vec<Line> = (1..=visits)
        .map(|m| before(rate, rivals, m, burst.clamp((m - 1) * quantum + 1, m * quantum)))
        .collect();
    // The line of a later visit is a bound for earlier visits too.
    for m in (1..visits).rev() {
        let (earlier, later) = (lines[m as usize - 1], lines[m as usize]);
        let time = |line: Line, other: Line| {
            let bytes = u128::from(m * quantum) + u128::from(line.bytes);
            bytes * u128::from(rate.0 - other.rate)
        };
        if time(later, earlier) < time(earlier, later) {
            lines[m as usize - 1] = later;
        }
    }
    let left = |line: Line| slope(Rate(rate.0 - line.rate));
    let when = |bytes: u64, line: Line| (exact(bytes) + exact(line.bytes)) / left(line);
    let mut pieces = vec![piece(exact(0), exact(0), exact(0))];
    for (n, &line) in (0..).zip(&lines) {
        let (from, to) = (n * quantum, (n + 1) * quantum);
        pieces.push(piece(when(from, line), exact(from), left(line)));
        pieces.push(piece(when(to, line), exact(to), exact(0)));
    }
    // A piece of zero length is replaced by the next piece, which begins at the same instant.
    pieces.dedup_by(|next, piece| {
        next.at == piece.at && {
            *piece = next.clone();
            true
        }
    });
    let in_visits = Curve::new(pieces).ok()?;
    let (share, latency) = flow.service;
    let mut service = in_visits.max(&Curve::rate_latency(share, latency));
    // In the long run, each rival is bounded by its line with the lowest rate.
    let slowest = |rival: &&Rival| rival.lines.iter().copied().min_by_key(|line| line.rate);
    let all = rivals.iter().map(slowest).collect::<Option<Vec<Line>>>();
    let all = all.map(|all| all.into_iter().fold(Line::NONE, Line::sum));
    if let Some(all) = all.filter(|all| all.rate < rate.0) {
        service = service.max(&Curve::served(left(all), when(0, all)));
    }
    let first = lines[(burst.div_ceil(quantum).clamp(1, visits) - 1) as usize];
    Some((service, Curve::affine(slope(Rate(first.rate)), exact(first.bytes))))
}

/// A line above the bytes that all rivals send before byte `bytes` of a backlog, which needs
/// `visits` visits. Any choice among the bounds of each rival is valid; this one is approximately
/// the lowest at the time at which that byte leaves.
fn before(rate: Rate, rivals: &[&Rival], visits: u64, bytes: u64) -> Line {
    let all = rivals.iter().map(|rival| rival.within(visits)).fold(Line::NONE, Line::sum);
    let mut lowest = all;
    for _ in 0..4 {
        let left = (rate.0 - lowest.rate) as f64 / BIT_NANOS as f64;
        let time = (bytes as f64 + lowest.bytes as f64) / left;
        let sum = rivals.iter().map(|rival| rival.lowest(visits, time));
        let lower = sum.fold(Line::NONE, Line::sum);
        if lower.rate >= rate.0 || lower.after(time) >= lowest.after(time) {
            break;
        }
        lowest = lower;
    }
    lowest
}

/// Number of visits that a backlog of the flow may need.
fn needed(flow: &VisitedFlow, own: &Envelope) -> u64 {
    let (share, latency) = (flow.service.0.0 as f64, flow.service.1.0 as f64);
    let longest = |&(rate, burst): &(Rate, u64)| {
        let (rate, burst) = (rate.0 as f64, burst as f64);
        let waits = share * latency / BIT_NANOS as f64;
        // Number of bytes at which the envelope meets the guaranteed service.
        if rate < share { burst + rate * (burst + waits) / (share - rate) } else { f64::INFINITY }
    };
    let bytes = own.buckets.iter().map(longest).fold(f64::INFINITY, f64::min);
    // The conversion saturates.
    ((bytes / flow.limits.quantum.max(1) as f64) as u64).saturating_add(2)
}

fn piece(at: Exact, value: Exact, slope: Exact) -> Piece {
    Piece { at, after: value.clone(), value, slope }
}
