//! The service of a flow that shares a link in proportion to weights, from the shares of its rivals
//! and from the envelopes of the rivals that have one.
//!
//! The link has the rate `C`. From the beginning of a backlog of the flow, of weight `w`, a rival
//! of weight `w_j` sends at most `s_j = (S + ahead) w_j/w + extra` bytes until byte `S` of the
//! backlog has left (see [`ProportionalLimits`]; weights in denominators are its `divisor`). It
//! also sends at most `o_j(t)` bytes within a time `t`, if its envelope is known. The link does not
//! pause, so the packet that ends with byte `S` has left when `C t` reaches `S` plus the smaller
//! one of these two values of each rival.
//!
//! Let the rivals of a set `M` count by `o_j(t) = r_j t + b_j`, and all others by `s_j`. Then `C t`
//! reaches that sum at a time that is a straight line in `S`. So each `M` gives a service curve, of
//! a rate and a latency, and the maximum of these curves is a service curve.
//!
//! `o_j` follows from a token bucket `r t + b` of the rival's envelope and from the service curve
//! `g` that is known for the rival. Consider an interval of length `t`, and a backlog of the rival
//! that begins a time `u` before the interval. From the beginning of the backlog to the end of the
//! interval at most `r (u + t) + b` bytes come. Of these, at least `g(u)` had been sent when the
//! interval began, except for a packet of which only a part had been sent. So `o_j(t)` is `r t +
//! packet` plus the maximum over `u` of `r u + b - g(u)`. The rival also sends at most `r (t + D) +
//! b`, if `D` is a bound on its delay: these bytes came at most `D` before the interval began.
//!
//! If a discipline follows a fluid server, the whole argument is about the fluid server, and a
//! packet leaves a time `late` after the fluid server finishes it. Backlogs then are those of the
//! fluid server, and packets are divided, so `extra` and `packet` are zero. Parekh and Gallager, "A
//! generalized processor sharing approach to flow control in integrated services networks: the
//! single-node case" (1993), bound delays in this way if all flows have envelopes.
//!
//! A higher service curve of one flow lowers `o_j` for its rivals, so curves are computed again
//! until none rises, at most `ROUNDS` times. Each curve follows only from curves computed before.

use super::envelope::Envelope;
use super::iteration::{KnownBounds, Line, MOST_FLOWS, ROUNDS, lines_by_delay};
use super::left_over::{Given, LeftOver};
use falaj_sched::contract::guarantee::ProportionalLimits;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, exact, float, slope, whole};

/// Maximum number of doublings of a backlog for which rivals are compared.
const DOUBLINGS: usize = 40;
/// Number of halvings of the last doubling.
const HALVINGS: usize = 8;

/// A flow, the limits on its share, and the known bounds.
pub(super) struct SharingFlow<'a> {
    pub(super) limits: ProportionalLimits,
    pub(super) known: KnownBounds<'a>,
}

/// A rival of a flow: the limits on its share, and bounds on the bytes that it sends. There are no
/// such bounds if its envelope is unknown.
struct Rival {
    limits: ProportionalLimits,
    lines: Vec<Line>,
}

impl Rival {
    /// The bounds from the rival's envelope, its service curve and the bound on its delay.
    fn of(
        limits: ProportionalLimits,
        envelope: Option<&Envelope>,
        service: &Curve,
        delay: Option<Span>,
    ) -> Rival {
        // A bound on the delay in the link does not bound the delay in the fluid server.
        let mut lines = lines_by_delay(envelope, delay.filter(|_| !limits.fluid));
        let late = if limits.fluid { Span::ZERO } else { limits.late };
        let service = service.later(&exact(late.0));
        for &(rate, burst) in envelope.map_or(&[][..], |envelope| &envelope.buckets) {
            if let Some(most) = Curve::token_bucket(rate, burst).backlog(&service) {
                let bytes = whole(&most.length).saturating_add(limits.packet);
                lines.push(Line { rate: rate.0, bytes });
            }
        }
        Rival { limits, lines }
    }

    /// Bytes of the rival's share until byte `bytes` of the backlog of a flow has left.
    fn share(&self, of: &ProportionalLimits, bytes: f64) -> f64 {
        let served = (bytes + of.ahead as f64) * self.limits.weight as f64 / of.divisor as f64;
        served + self.limits.extra as f64
    }
}

/// A choice of one bound for each rival.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choice {
    /// The sum of the weights of the rivals that count by their shares.
    weight: u64,
    /// The sum of the bounds of the other rivals, and the bytes in addition to shares.
    lines: Line,
}

impl Choice {
    /// Time at which byte `bytes` of a backlog has left, in nanoseconds.
    fn time(&self, rate: Rate, of: &ProportionalLimits, bytes: f64) -> f64 {
        let shares = (bytes + of.ahead as f64) * self.weight as f64 / of.divisor as f64;
        let left = (rate.0 - self.lines.rate) as f64 / BIT_NANOS as f64;
        (bytes + shares + self.lines.bytes as f64) / left
    }

    /// Rate of the flow's service in bytes per nanosecond.
    fn slope(&self, rate: Rate, of: &ProportionalLimits) -> f64 {
        let left = (rate.0 - self.lines.rate) as f64 / BIT_NANOS as f64;
        left * of.divisor as f64 / (of.divisor + self.weight) as f64
    }

    /// The service curve of the flow.
    fn service(&self, rate: Rate, of: &ProportionalLimits) -> Curve {
        let left = slope(Rate(rate.0 - self.lines.rate));
        let own = exact(of.divisor);
        let others = exact(self.weight) / &own;
        let first = exact(of.ahead) * &others + exact(self.lines.bytes);
        let latency = first / &left;
        Curve::served(left / (exact(1) + others), latency)
    }

    /// Counts this rival by its share.
    fn add_share(&mut self, rival: &Rival) {
        self.weight = self.weight.saturating_add(rival.limits.weight);
        self.lines = self.lines.sum(Line { rate: 0, bytes: rival.limits.extra });
    }

    /// A bound on the bytes that rivals send before byte `bytes` of the backlog has left.
    fn before(&self, of: &ProportionalLimits, bytes: u64) -> Curve {
        let shares = exact(bytes + of.ahead) * exact(self.weight) / exact(of.divisor);
        Curve::affine(slope(Rate(self.lines.rate)), shares + exact(self.lines.bytes))
    }

    /// The choice with approximately the earliest time for byte `bytes` of a backlog; any choice is
    /// valid. It starts with all shares. A rival then counts by a line if the line is below its
    /// share at the present time, which reduces that time.
    fn earliest(rate: Rate, of: &ProportionalLimits, rivals: &[&Rival], bytes: f64) -> Choice {
        let mut earliest = Choice { weight: 0, lines: Line::NONE };
        rivals.iter().for_each(|rival| earliest.add_share(rival));
        for _ in 0..ROUNDS {
            let time = earliest.time(rate, of, bytes);
            let mut choice = Choice { weight: 0, lines: Line::NONE };
            for rival in rivals {
                let lines = rival.lines.iter().copied();
                let lowest = lines.reduce(|low, line| low.lower(line, time));
                match lowest.filter(|line| line.after(time) < rival.share(of, bytes)) {
                    Some(line) => choice.lines = choice.lines.sum(line),
                    None => choice.add_share(rival),
                }
            }
            if choice.lines.rate >= rate.0 || choice.time(rate, of, bytes) >= time {
                break;
            }
            earliest = choice;
        }
        earliest
    }
}

/// The services of all flows, whatever their rivals send; `None` for flows without an envelope.
pub(super) fn alone(
    rate: Rate,
    limits: &[ProportionalLimits],
    envelopes: &[Result<Envelope, String>],
) -> Vec<Option<LeftOver>> {
    let each = by_shares(limits).into_iter().zip(limits).zip(envelopes);
    each.map(|((choice, of), own)| {
        let own = own.as_ref().ok()?;
        Some(LeftOver {
            service: choice.service(rate, of).later(&exact(of.late.0)),
            before: choice.before(of, burst(own)),
            given: Given::Own,
            formula: formulas(of).0,
            due: None,
        })
    })
    .collect()
}

/// The services of all flows under the condition `given`: that flows keep to the envelopes that
/// they declare, or that they send no more than their sources. `None` for flows without an envelope
/// under that condition.
pub(super) fn left_over(rate: Rate, flows: &[SharingFlow], given: Given) -> Vec<Option<LeftOver>> {
    let mut left: Vec<Option<LeftOver>> = flows.iter().map(|_| None).collect();
    if flows.len() > MOST_FLOWS {
        return left;
    }
    let limits: Vec<ProportionalLimits> = flows.iter().map(|flow| flow.limits).collect();
    let mut delays: Vec<Option<Span>> = flows.iter().map(|flow| flow.known.delay(given)).collect();
    let mut services: Vec<Curve> =
        by_shares(&limits).iter().zip(&limits).map(|(all, of)| all.service(rate, of)).collect();
    let rival = |f: usize, service: &Curve, delay: Option<Span>| {
        Rival::of(limits[f], flows[f].known.envelope(given), service, delay)
    };
    let mut rivals: Vec<Rival> =
        (0..flows.len()).map(|f| rival(f, &services[f], delays[f])).collect();
    for _ in 0..ROUNDS {
        let mut rises = false;
        for (f, flow) in flows.iter().enumerate() {
            let Some(own) = flow.known.envelope(given) else { continue };
            let others: Vec<&Rival> =
                rivals.iter().enumerate().filter(|&(n, _)| n != f).map(|(_, r)| r).collect();
            if others.iter().all(|rival| rival.lines.is_empty()) {
                continue;
            }
            let choices = choices(rate, &flow.limits, own, &others);
            let curves = choices.iter().map(|choice| choice.service(rate, &flow.limits));
            let service = curves.fold(services[f].clone(), |all, curve| all.max(&curve));
            if service == services[f] {
                continue;
            }
            rises = true;
            let late = service.later(&exact(flow.limits.late.0));
            let shorter = own.curve.delay(&late).map(|distance| Span(whole(&distance.length)));
            if let Some(shorter) = shorter.filter(|&it| delays[f].is_none_or(|delay| it < delay)) {
                delays[f] = Some(shorter);
                let first = burst(own);
                let choice = Choice::earliest(rate, &flow.limits, &others, first as f64);
                let before = choice.before(&flow.limits, first);
                let formula = formulas(&flow.limits).1;
                left[f] = Some(LeftOver { service: late, before, given, formula, due: None });
            }
            rivals[f] = rival(f, &service, delays[f]);
            services[f] = service;
        }
        if !rises {
            break;
        }
    }
    left
}

/// For each flow, the choice in which all rivals count by their shares.
fn by_shares(limits: &[ProportionalLimits]) -> Vec<Choice> {
    let weight = limits.iter().map(|of| of.weight).fold(0, u64::saturating_add);
    let extra = limits.iter().map(|of| of.extra).fold(0, u64::saturating_add);
    let without = |of: &ProportionalLimits| Choice {
        weight: weight - of.weight,
        lines: Line { rate: 0, bytes: extra - of.extra },
    };
    limits.iter().map(without).collect()
}

/// The choices that matter for the flow's delay: those for the backlogs at which its envelope
/// bends, and the one with which its service becomes as fast as its envelope in the long run.
fn choices(rate: Rate, of: &ProportionalLimits, own: &Envelope, rivals: &[&Rival]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    let mut is_fast = |bytes: f64| {
        let choice = Choice::earliest(rate, of, rivals, bytes);
        if !choices.contains(&choice) {
            choices.push(choice);
        }
        choice.slope(rate, of) >= float(own.curve.last_slope())
    };
    is_fast(0.0);
    let (mut low, mut is_last_fast) = (0.0, true);
    for piece in own.curve.pieces() {
        low = float(&piece.after);
        is_last_fast = is_fast(low);
    }
    if !is_last_fast {
        let mut high = 2.0 * low.max(1.0);
        for _ in 0..DOUBLINGS {
            if is_fast(high) {
                break;
            }
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            *if is_fast(middle) { &mut high } else { &mut low } = middle;
        }
    }
    choices
}

/// The flow's burst in bytes.
fn burst(own: &Envelope) -> u64 {
    own.buckets.iter().map(|bucket| bucket.1).min().unwrap_or(0)
}

/// The formulas of the bounds by shares alone, and by shares and envelopes.
fn formulas(of: &ProportionalLimits) -> (&'static str, &'static str) {
    match (of.fluid, of.ahead > 0, of.extra > of.packet) {
        (true, ..) => (
            "h(envelope, C t w/sum of w) + L/C",
            "h(envelope, C t - sum of min(S w_j/w, o_j(t))) + L/C",
        ),
        (false, false, _) => (
            "h(envelope, C t - sum of (S w_j/w + L))",
            "h(envelope, C t - sum of min(S w_j/w + L, o_j(t)))",
        ),
        _ if of.ahead > of.packet => (
            "h(envelope, C t - sum of ((S + a) w_j/w + c_j))",
            "h(envelope, C t - sum of min((S + a) w_j/w + c_j, o_j(t)))",
        ),
        (false, true, false) => (
            "h(envelope, C t - sum of ((S + L) w_j/w + L))",
            "h(envelope, C t - sum of min((S + L) w_j/w + L, o_j(t)))",
        ),
        (false, true, true) => (
            "h(envelope, C t - sum of ((S + L) w_j/w + 2 L))",
            "h(envelope, C t - sum of min((S + L) w_j/w + 2 L, o_j(t)))",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with all sets of rivals that count by their lines.
    #[test]
    fn the_earliest_choice_is_that_of_the_best_set() {
        let mut state = 3u64;
        let mut from = |low: u64, high: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            low + (state >> 33) % (high - low + 1)
        };
        let rate = Rate::from_mbit(10);
        for n in 0..2_000 {
            let packet = if n % 2 == 0 { 0 } else { 1_500 };
            let mut limits = || ProportionalLimits {
                weight: from(1, 9),
                divisor: from(1, 9),
                ahead: packet,
                extra: packet + packet / 2,
                packet,
                fluid: packet == 0,
                late: Span::ZERO,
            };
            let of = limits();
            let all: Vec<ProportionalLimits> = (0..4).map(|_| limits()).collect();
            let line = |_| Line { rate: from(0, 4_000_000), bytes: from(0, 9_000) };
            let lines: Vec<Line> = (0..4).map(line).collect();
            let rivals: Vec<Rival> = all
                .iter()
                .zip(&lines)
                .map(|(&limits, &line)| Rival { limits, lines: vec![line] })
                .collect();
            let bytes = from(0, 20_000) as f64;
            let by_set = |set: u32| {
                let mut choice = Choice { weight: 0, lines: Line::NONE };
                for (j, rival) in rivals.iter().enumerate() {
                    match set & 1 << j {
                        0 => choice.add_share(rival),
                        _ => choice.lines = choice.lines.sum(lines[j]),
                    }
                }
                let stable = choice.lines.rate < rate.0;
                if stable { choice.time(rate, &of, bytes) } else { f64::INFINITY }
            };
            let best = (0..16).map(by_set).fold(f64::INFINITY, f64::min);
            let rivals: Vec<&Rival> = rivals.iter().collect();
            let found = Choice::earliest(rate, &of, &rivals, bytes).time(rate, &of, bytes);
            assert!((found - best).abs() <= 1e-6 * best, "{found} {best}");
        }
    }
}
