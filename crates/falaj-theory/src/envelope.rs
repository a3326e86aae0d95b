//! The minimum or the maximum of many straight lines and points.

use crate::curve::{Exact, Piece};
use num_traits::Zero;

/// A value of a function at one instant.
pub(crate) struct Spot {
    pub(crate) at: Exact,
    pub(crate) value: Exact,
}

/// A straight line over an open interval of time.
pub(crate) struct Line {
    pub(crate) from: Exact,
    /// The end of the interval; `None` if it has none.
    pub(crate) to: Option<Exact>,
    /// The value just after the beginning.
    pub(crate) value: Exact,
    pub(crate) slope: Exact,
}

impl Line {
    fn at(&self, t: &Exact) -> Exact {
        &self.value + &self.slope * (t - &self.from)
    }
}

/// The parts from which a function is made. If several parts overlap, the lowest or the highest
/// part counts.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) spots: Vec<Spot>,
    pub(crate) lines: Vec<Line>,
}

impl Parts {
    pub(crate) fn spot(&mut self, at: Exact, value: Exact) {
        self.spots.push(Spot { at, value });
    }

    pub(crate) fn line(&mut self, from: Exact, to: Option<Exact>, value: Exact, slope: Exact) {
        self.lines.push(Line { from, to, value, slope });
    }

    /// Adds two lines, one after the other, from (`from`, `value`). Each line is given by its slope
    /// and its length in time. After a line without end no further line follows.
    pub(crate) fn bend(
        &mut self,
        from: Exact,
        value: Exact,
        first: (&Exact, Option<Exact>),
        second: (&Exact, Option<Exact>),
    ) {
        let Some(length) = first.1 else {
            self.line(from, None, value, first.0.clone());
            return;
        };
        let (middle, bent) = (&from + &length, &value + first.0 * &length);
        self.line(from, Some(middle.clone()), value, first.0.clone());
        self.spot(middle.clone(), bent.clone());
        let end = second.1.map(|l| &middle + l);
        self.line(middle, end, bent, second.0.clone());
    }

    /// The maximum of the parts from time zero on. The parts must cover this whole time.
    pub(crate) fn highest(mut self) -> Vec<Piece> {
        self.spots.iter_mut().for_each(|s| s.value = -&s.value);
        self.lines.iter_mut().for_each(|l| (l.value, l.slope) = (-&l.value, -&l.slope));
        let mut pieces = self.lowest();
        pieces
            .iter_mut()
            .for_each(|p| (p.value, p.after, p.slope) = (-&p.value, -&p.after, -&p.slope));
        pieces
    }

    /// The minimum of the parts from time zero on. The parts must cover this whole time.
    pub(crate) fn lowest(self) -> Vec<Piece> {
        let zero = Exact::zero();
        let ends = self.lines.iter().flat_map(|l| [Some(&l.from), l.to.as_ref()]).flatten();
        let mut instants: Vec<&Exact> =
            self.spots.iter().map(|s| &s.at).chain(ends).filter(|t| **t > zero).collect();
        instants.push(&zero);
        instants.sort_unstable();
        instants.dedup();
        let mut out = Vec::new();
        for (n, &from) in instants.iter().enumerate() {
            let next = instants.get(n + 1).copied();
            let spots = self.spots.iter().filter(|s| s.at == *from).map(|s| s.value.clone());
            let over = |l: &&Line| l.from < *from && l.to.as_ref().is_none_or(|to| to > from);
            let lines = self.lines.iter().filter(over).map(|l| l.at(from));
            let value = spots.chain(lines).min();
            let beyond = |l: &&Line| match (&l.to, next) {
                (None, _) => l.from <= *from,
                (Some(to), Some(next)) => l.from <= *from && to >= next,
                (Some(_), None) => false,
            };
            let active: Vec<(Exact, &Line)> =
                self.lines.iter().filter(beyond).map(|l| (l.at(from), l)).collect();
            let first = active.iter().min_by(|(v, l), (w, m)| (v, &l.slope).cmp(&(w, &m.slope)));
            let (Some(value), Some((after, line))) = (value, first) else { continue };
            out.push(Piece {
                at: from.clone(),
                value,
                after: after.clone(),
                slope: line.slope.clone(),
            });
            // Continues from line to line, at each crossing with a flatter line.
            let (mut at, mut height, mut line) = (from.clone(), after.clone(), *line);
            loop {
                let crossing = |m: &&Line| (m.at(&at) - &height) / (&line.slope - &m.slope) + &at;
                let flatter = active.iter().map(|(_, m)| *m).filter(|m| m.slope < line.slope);
                let crossings = flatter
                    .map(|m| (crossing(&m), m))
                    .filter(|(t, _)| next.is_none_or(|next| t < next));
                let Some((t, m)) =
                    crossings.min_by(|(t, l), (u, m)| (t, &l.slope).cmp(&(u, &m.slope)))
                else {
                    break;
                };
                height = m.at(&t);
                (at, line) = (t, m);
                out.push(Piece {
                    at: at.clone(),
                    value: height.clone(),
                    after: height.clone(),
                    slope: m.slope.clone(),
                });
            }
        }
        out
    }
}
