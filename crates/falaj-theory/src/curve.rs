//! Curves: bounds on the arrivals or on the service in any interval of a given length.

use crate::envelope::Parts;
use falaj_sched::contract::guarantee::{ArrivalWindow, Deadlines, StairTurn, StaircaseCurve};
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Span;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use std::fmt;

/// An exact number: nanoseconds, bytes, or bytes per nanosecond.
pub type Exact = BigRational;

/// Converts a whole number to an exact number.
pub fn exact(n: impl Into<BigInt>) -> Exact {
    Exact::from_integer(n.into())
}

/// Converts a rate to bytes per nanosecond.
pub fn slope(rate: Rate) -> Exact {
    Exact::new(rate.0.into(), BIT_NANOS.into())
}

/// Returns the nearest floating-point number, only for display and pictures.
pub fn float(n: &Exact) -> f64 {
    n.to_f64().unwrap_or(f64::INFINITY)
}

/// Rounds a number up to a whole number: 0 if it is negative, the largest `u64` if it is too large.
pub fn whole(n: &Exact) -> u64 {
    n.ceil().to_integer().to_u64().unwrap_or(if *n < Exact::zero() { 0 } else { u64::MAX })
}

/// A straight part of a curve, which ends where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Beginning of the piece, in nanoseconds.
    pub at: Exact,
    /// The value of the curve at the beginning, in bytes.
    pub value: Exact,
    /// The value just after the beginning, in bytes; above `value` if the curve jumps there.
    pub after: Exact,
    /// The slope of the piece, in bytes per nanosecond.
    pub slope: Exact,
}

impl Piece {
    fn continued(&self, t: &Exact) -> Exact {
        &self.after + &self.slope * (t - &self.at)
    }
}

/// A curve: a function of time that never decreases and is never below zero. It has finitely many
/// straight pieces with jumps between them, and the last piece has no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    pieces: Vec<Piece>,
}

/// The reason why pieces do not form a curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotACurve(pub &'static str);

impl fmt::Display for NotACurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a curve: {}", self.0)
    }
}
impl std::error::Error for NotACurve {}

impl Curve {
    /// Creates a curve of these pieces. A piece that continues the previous piece in a straight
    /// line is joined to it.
    ///
    /// # Errors
    /// There are no pieces, the first one does not begin at zero, the times do not increase, or the
    /// values decrease or are below zero.
    pub fn new(pieces: Vec<Piece>) -> Result<Curve, NotACurve> {
        let zero = Exact::zero();
        let Some(first) = pieces.first() else { return Err(NotACurve("it has no pieces")) };
        if first.at != zero {
            return Err(NotACurve("it does not begin at zero"));
        }
        if pieces.windows(2).any(|p| p[0].at >= p[1].at) {
            return Err(NotACurve("its times do not increase"));
        }
        let falls = |p: &Piece| p.slope < zero || p.after < p.value;
        if first.value < zero
            || pieces.iter().any(falls)
            || pieces.windows(2).any(|p| p[1].value < p[0].continued(&p[1].at))
        {
            return Err(NotACurve("it decreases, or is below zero"));
        }
        Ok(Curve::joined(pieces))
    }

    pub(crate) fn joined(pieces: Vec<Piece>) -> Curve {
        let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let straight = out.last().is_some_and(|last| {
                last.slope == piece.slope
                    && piece.value == piece.after
                    && piece.value == last.continued(&piece.at)
            });
            if !straight {
                out.push(piece);
            }
        }
        Curve { pieces: out }
    }

    fn line(value: Exact, after: Exact, slope: Exact) -> Piece {
        Piece { at: Exact::zero(), value, after, slope }
    }

    /// The curve that is always zero.
    pub fn zero() -> Curve {
        Curve { pieces: vec![Curve::line(Exact::zero(), Exact::zero(), Exact::zero())] }
    }

    /// The arrival curve of a token bucket (leaky bucket): at most `burst` bytes at once, and
    /// `rate` in the long run (Le Boudec and Thiran, 1.2.1).
    pub fn token_bucket(rate: Rate, burst: u64) -> Curve {
        Curve::affine(slope(rate), exact(burst))
    }

    /// A token bucket in exact numbers that are not negative: slope in bytes per nanosecond, burst
    /// in bytes.
    pub fn affine(slope: Exact, burst: Exact) -> Curve {
        Curve { pieces: vec![Curve::line(Exact::zero(), burst, slope)] }
    }

    /// The arrival curve of packets of `size` bytes that are sent evenly at `rate`. It is the
    /// smallest token bucket to which they conform if their times are rounded down to whole
    /// nanoseconds.
    pub fn even(rate: Rate, size: u32) -> Curve {
        let whole = (u64::from(size) * BIT_NANOS).is_multiple_of(rate.0.max(1));
        // Rounding may make a gap up to a nanosecond too short.
        let early = if whole { Exact::zero() } else { slope(rate) };
        Curve::affine(slope(rate), exact(size) + early)
    }

    /// A rate-latency curve: zero up to `latency`, then `rate` (Le Boudec and Thiran, 1.3.2).
    pub fn rate_latency(rate: Rate, latency: Span) -> Curve {
        let zero = Exact::zero();
        let start = Piece {
            at: exact(latency.0),
            value: zero.clone(),
            after: zero.clone(),
            slope: slope(rate),
        };
        if latency == Span::ZERO {
            return Curve { pieces: vec![start] };
        }
        Curve::joined(vec![Curve::line(zero.clone(), zero.clone(), zero), start])
    }

    /// A rate-latency curve in exact numbers that are not negative: rate in bytes per nanosecond,
    /// latency in nanoseconds.
    pub fn served(rate: Exact, latency: Exact) -> Curve {
        let zero = Exact::zero();
        let idle = (latency > zero).then(|| Curve::line(zero.clone(), zero.clone(), zero.clone()));
        let served = Piece { at: latency, value: zero.clone(), after: zero, slope: rate };
        Curve::joined(idle.into_iter().chain([served]).collect())
    }

    /// The service curve of a flow that is served in turns. At most the first `drawn` turns are
    /// steps of the curve, and straight lines lie below the later turns (Tabatabaee and Le Boudec
    /// 2021; the lines are from Boyer, Stea and Sofack 2012).
    pub fn in_turns(turns: &StaircaseCurve, drawn: u64) -> Curve {
        let rate = slope(turns.rate);
        let pause = |turn: &StairTurn| exact(turn.others) / &rate + exact(turn.idle.0);
        let (mut at, mut level) = (exact(turns.latency.0), Exact::zero());
        let mut corners = vec![(Exact::zero(), Exact::zero(), Exact::zero())];
        let mut left = drawn;
        let mut draw = |turn: &StairTurn, at: &mut Exact, level: &mut Exact| {
            corners.push((at.clone(), level.clone(), rate.clone()));
            *at += exact(turn.bytes) / &rate;
            *level += exact(turn.bytes);
            corners.push((at.clone(), level.clone(), Exact::zero()));
            *at += pause(turn);
        };
        let mut lines = Vec::new();
        for (times, turn) in &turns.first {
            let one_by_one = left.min(*times);
            (0..one_by_one).for_each(|_| draw(turn, &mut at, &mut level));
            left -= one_by_one;
            let (bytes, rest) = (exact(turn.bytes), exact(times - one_by_one));
            let time = &bytes / &rate + pause(turn);
            if rest > Exact::zero() {
                lines.push((at.clone(), level.clone(), &bytes / &time));
                at += time * &rest;
                level += bytes * rest;
            }
        }
        while left >= turns.cycle.len() as u64 {
            turns.cycle.iter().for_each(|turn| draw(turn, &mut at, &mut level));
            left -= turns.cycle.len() as u64;
        }
        let (mut time, mut bytes) = (Exact::zero(), Exact::zero());
        let mut starts = Vec::new();
        for turn in &turns.cycle {
            starts.push((time.clone(), bytes.clone()));
            time += exact(turn.bytes) / &rate + pause(turn);
            bytes += exact(turn.bytes);
        }
        // The last line must lie below the start of every turn, so it begins after the largest lag
        // of all turns.
        let mean = bytes / time;
        let late = starts.iter().map(|(time, bytes)| time - bytes / &mean);
        let late = late.max().unwrap_or_else(Exact::zero);
        if late > Exact::zero() {
            lines.push((at.clone(), level.clone(), Exact::zero()));
        }
        lines.push((at + late, level, mean));
        corners.extend(lines);
        let piece = |(at, value, slope): (Exact, Exact, Exact)| Piece {
            at,
            after: value.clone(),
            value,
            slope,
        };
        let mut pieces: Vec<Piece> = corners.into_iter().map(piece).collect();
        // A piece of zero length is replaced by the next piece, which begins at the same instant.
        pieces.dedup_by(|next, piece| {
            next.at == piece.at && {
                *piece = next.clone();
                true
            }
        });
        Curve::joined(pieces)
    }

    /// The service curve that guarantees these deadlines.
    pub fn by_deadlines(&Deadlines { first, time, rate, late }: &Deadlines) -> Curve {
        let zero = Exact::zero();
        let piece = |at: Exact, value: Exact, slope: Exact| Piece {
            at,
            after: value.clone(),
            value,
            slope,
        };
        let mut pieces = vec![piece(zero.clone(), zero.clone(), zero.clone())];
        if late == Span::ZERO {
            pieces.clear();
        }
        if time > Span::ZERO {
            pieces.push(piece(exact(late.0), zero.clone(), slope(first)));
        }
        let (bend, level) = (exact(late.0) + exact(time.0), slope(first) * exact(time.0));
        pieces.push(piece(bend, level, slope(rate)));
        Curve::joined(pieces)
    }

    /// A staircase. Each step is an instant, and the value in bytes just after this instant. After
    /// the last instant the curve rises with `rate`.
    ///
    /// # Errors
    /// The times do not increase, or the bytes decrease.
    pub fn staircase(steps: &[(Span, u64)], rate: Rate) -> Result<Curve, NotACurve> {
        let mut pieces = Vec::new();
        let mut height = Exact::zero();
        if steps.first().is_none_or(|(at, _)| *at > Span::ZERO) {
            pieces.push(Curve::line(Exact::zero(), Exact::zero(), Exact::zero()));
        }
        for (at, bytes) in steps {
            let value = std::mem::replace(&mut height, exact(*bytes));
            pieces.push(Piece {
                at: exact(at.0),
                value,
                after: height.clone(),
                slope: Exact::zero(),
            });
        }
        if let Some(last) = pieces.last_mut() {
            last.slope = slope(rate);
        }
        Curve::new(pieces)
    }

    /// The curve's pieces, ordered by time; the first one begins at zero.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The curve's slope in the long run, in bytes per nanosecond.
    pub fn last_slope(&self) -> &Exact {
        &self.pieces[self.pieces.len() - 1].slope
    }

    fn last_at(&self) -> &Exact {
        &self.pieces[self.pieces.len() - 1].at
    }

    fn piece(&self, t: &Exact) -> Option<&Piece> {
        self.pieces[..self.pieces.partition_point(|p| p.at <= *t)].last()
    }

    /// The curve's value at `t` nanoseconds; zero before time zero.
    pub fn at(&self, t: &Exact) -> Exact {
        match self.piece(t) {
            None => Exact::zero(),
            Some(p) if p.at == *t => p.value.clone(),
            Some(p) => p.continued(t),
        }
    }

    /// The curve's value just after `t` nanoseconds; zero before time zero.
    pub fn after(&self, t: &Exact) -> Exact {
        self.piece(t).map_or_else(Exact::zero, |p| p.continued(t))
    }

    /// The pieces, each with its end; `None` for the last one.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = (&Piece, Option<&Exact>)> {
        self.pieces
            .iter()
            .enumerate()
            .map(|(n, p)| (p, self.pieces.get(n + 1).map(|next| &next.at)))
    }

    fn parts(&self, parts: &mut Parts) {
        for (p, end) in self.stretches() {
            parts.spot(p.at.clone(), p.value.clone());
            parts.line(p.at.clone(), end.cloned(), p.after.clone(), p.slope.clone());
        }
    }

    /// The instants at which either curve bends or jumps, sorted.
    fn instants(&self, other: &Curve) -> Vec<Exact> {
        let mut all: Vec<Exact> =
            self.pieces.iter().chain(&other.pieces).map(|p| p.at.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Applies `with` to the values and slopes of both curves, piece by piece. The result need not
    /// be a curve.
    fn combined(&self, other: &Curve, with: impl Fn(Exact, Exact) -> Exact) -> Vec<Piece> {
        let slope =
            |curve: &Curve, t: &Exact| curve.piece(t).map_or_else(Exact::zero, |p| p.slope.clone());
        let piece = |t: Exact| Piece {
            value: with(self.at(&t), other.at(&t)),
            after: with(self.after(&t), other.after(&t)),
            slope: with(slope(self, &t), slope(other, &t)),
            at: t,
        };
        self.instants(other).into_iter().map(piece).collect()
    }

    /// The sum of both curves: the arrival curve of two flows together.
    pub fn sum(&self, other: &Curve) -> Curve {
        Curve::joined(self.combined(other, |a, b| a + b))
    }

    /// This curve, which is a sum, without one of its parts.
    ///
    /// # Errors
    /// `part` is not a part of the sum: the difference decreases, or is below zero.
    pub fn without(&self, part: &Curve) -> Result<Curve, NotACurve> {
        Curve::new(self.combined(part, |a, b| a - b))
    }

    /// The arrival curve of a flow that sends at most `bytes` in any window `(t - length, t]`: this
    /// number of bytes at once, and again after each `length`. Times are whole nanoseconds, so two
    /// instants that are in no common window are at least `length` apart. The first `drawn` windows
    /// are steps of the curve, and a line lies above the later windows.
    pub fn windows(ArrivalWindow { bytes, length }: &ArrivalWindow, drawn: u64) -> Curve {
        let step = |n: u64| (Span((length.0 * n).saturating_sub(1)), bytes.saturating_mul(n + 1));
        let flat = |(at, after): (Span, u64), value: u64| Piece {
            at: exact(at.0),
            value: exact(value),
            after: exact(after),
            slope: Exact::zero(),
        };
        let mut pieces: Vec<Piece> =
            (0..=drawn.max(1)).map(|n| flat(step(n), bytes.saturating_mul(n))).collect();
        let every = exact(*bytes) / exact(length.0);
        if *length <= Span(1) {
            return Curve::affine(every, exact(*bytes));
        }
        if let Some(last) = pieces.last_mut() {
            last.slope = every;
        }
        Curve::joined(pieces)
    }

    /// This curve, `by` nanoseconds later: zero until then.
    pub fn later(&self, by: &Exact) -> Curve {
        let begin = Curve::line(Exact::zero(), Exact::zero(), Exact::zero());
        let pieces = self.pieces.iter().map(|p| Piece { at: &p.at + by, ..p.clone() });
        let begin = Some(begin).filter(|_| *by > Exact::zero());
        Curve::joined(begin.into_iter().chain(pieces).collect())
    }

    /// The minimum of both curves: the arrival curve of a flow that keeps to both, such as two
    /// token buckets.
    pub fn min(&self, other: &Curve) -> Curve {
        let mut parts = Parts::default();
        self.parts(&mut parts);
        other.parts(&mut parts);
        Curve::joined(parts.lowest())
    }

    /// The maximum of both curves: the service curve of a server that guarantees both, such as two
    /// rate-latency curves.
    pub fn max(&self, other: &Curve) -> Curve {
        let mut parts = Parts::default();
        self.parts(&mut parts);
        other.parts(&mut parts);
        Curve::joined(parts.highest())
    }

    /// The min-plus convolution, `inf over s of f(s) + g(t - s)`: the service curve of two servers
    /// in a row (Le Boudec and Thiran, 1.4.6).
    pub fn convolve(&self, other: &Curve) -> Curve {
        let mut parts = Parts::default();
        for (f, f_end) in self.stretches() {
            for (g, g_end) in other.stretches() {
                let at = &f.at + &g.at;
                parts.spot(at.clone(), &f.value + &g.value);
                parts.line(
                    at.clone(),
                    g_end.map(|e| &f.at + e),
                    &f.value + &g.after,
                    g.slope.clone(),
                );
                parts.line(
                    at.clone(),
                    f_end.map(|e| e + &g.at),
                    &f.after + &g.value,
                    f.slope.clone(),
                );
                let of_f = (&f.slope, f_end.map(|e| e - &f.at));
                let of_g = (&g.slope, g_end.map(|e| e - &g.at));
                let (first, second) = if f.slope <= g.slope { (of_f, of_g) } else { (of_g, of_f) };
                parts.bend(at, &f.after + &g.after, first, second);
            }
        }
        Curve::joined(parts.lowest())
    }

    /// The min-plus deconvolution, `sup over s of f(t + s) - g(s)`; zero if that is negative. It
    /// bounds the output of a server with the service curve `service` (Le Boudec and Thiran,
    /// 1.4.3). `None` if it is infinite, because more is sent than served in the long run.
    pub fn deconvolve(&self, service: &Curve) -> Option<Curve> {
        if self.last_slope() > service.last_slope() {
            return None;
        }
        // After the last bend of both curves the difference does not increase, so no later `s`
        // counts.
        let horizon = self.last_at().max(service.last_at()) + exact(1);
        let mut parts = Parts::default();
        Curve::zero().parts(&mut parts);
        for (f, f_end) in self.stretches() {
            for (g, g_end) in service.stretches() {
                let end = g_end.unwrap_or(&horizon);
                let top = g.continued(end);
                parts.spot(&f.at - &g.at, &f.value - &g.value);
                parts.line(&f.at - end, Some(&f.at - &g.at), &f.value - &top, g.slope.clone());
                parts.line(
                    &f.at - &g.at,
                    f_end.map(|e| e - &g.at),
                    &f.after - &g.value,
                    f.slope.clone(),
                );
                let of_f = (&f.slope, f_end.map(|e| e - &f.at));
                let of_g = (&g.slope, Some(end - &g.at));
                let (first, second) = if f.slope >= g.slope { (of_f, of_g) } else { (of_g, of_f) };
                parts.bend(&f.at - end, &f.after - &top, first, second);
            }
        }
        Some(Curve::joined(parts.highest()))
    }

    /// The left-over service curve: the service for other flows if the traffic of `first` has
    /// priority. It is the positive part of the difference, made non-decreasing (Le Boudec and
    /// Thiran, 6.2.1). The service must be strict: it holds in any interval of backlog.
    pub fn left_over(&self, first: &Curve) -> Curve {
        let difference = self.combined(first, |a, b| a - b);
        let mut most = Exact::zero();
        let mut out: Vec<Piece> = Vec::new();
        for (n, p) in difference.iter().enumerate() {
            most = most.max(p.value.clone());
            let value = most.clone();
            most = most.max(p.after.clone());
            let flat = Piece { at: p.at.clone(), value, after: most.clone(), slope: Exact::zero() };
            if p.slope <= Exact::zero() {
                out.push(flat);
                continue;
            }
            let overtakes = &p.at + (&most - &p.after) / &p.slope;
            if overtakes == p.at {
                out.push(Piece { slope: p.slope.clone(), ..flat });
            } else {
                out.push(flat);
                if difference.get(n + 1).is_none_or(|next| overtakes < next.at) {
                    let (value, after) = (most.clone(), most.clone());
                    out.push(Piece { at: overtakes, value, after, slope: p.slope.clone() });
                }
            }
            if let Some(next) = difference.get(n + 1) {
                most = most.max(p.continued(&next.at));
            }
        }
        Curve::joined(out)
    }
}
