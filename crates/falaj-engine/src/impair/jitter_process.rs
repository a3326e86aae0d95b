//! A process by which the delay evolves from packet to packet, so that no packet overtakes another
//! and each delay has the configured distribution.
//!
//! Independent delays would let packets overtake. If packets then waited for those before them, all
//! would be late: their delays would be the maximum of many. Here a single delay evolves in time.
//! It rests at a value for a while, then another value is drawn. A larger value applies at once; to
//! a smaller value the delay sinks as fast as time passes. So no packet overtakes another.
//!
//! On its way down, the delay takes values between those that are drawn; the distribution of draws
//! compensates for that. Let `z` be a delay, `q` the probability that the delay is below `z`, and
//! `G(q)` the probability that a drawn value is below `z`. The delay passes `z` downwards if a draw
//! above `z` is followed by a draw below it: after a fraction `G (1 - G)` of all draws. Let `C` be
//! the mean time from one draw to the next, and `r` the mean rest within this time. Then
//! `C dq = r dG + G (1 - G) dz`. This is solved for `G` in floating point, once for each
//! distribution.

use super::event::Draw;
use falaj_sched::units::time::{Span, Time};
use std::sync::Arc;

/// Fraction bits of delays, which are multiples of the amount.
const ONE: u32 = 40;

/// A process of delays of deviation 1; all links of the same distribution share it.
#[derive(Debug, PartialEq)]
pub(crate) struct JitterProcess {
    nodes: Vec<QuantilePoint>,
    /// Mean time for which a delay rests.
    rest: i64,
    /// After this time without packets the next delay is independent, and the packet cannot
    /// overtake.
    forgets: i64,
}

/// A point of the distribution. Probabilities are in 2^64ths.
#[derive(Debug, PartialEq)]
struct QuantilePoint {
    /// Probability of a delay below the delay `z`.
    below: u64,
    /// The delay at this point.
    z: i64,
    /// Probability of a draw below this delay.
    drawn_below: u64,
    /// Probability that a delay from here to the next point is on its way down.
    sinks: u64,
}

impl JitterProcess {
    /// The process of the distribution with these quantiles at equal steps.
    pub(crate) fn new(points: &[f64]) -> JitterProcess {
        /// Longest mean rest that is tried, in deviations; no distribution needs one as long.
        const LONGEST: f64 = 1e9;
        let mut rest = 1.0;
        let (grid, drawn, cycle) = loop {
            let grid = grid(points, rest);
            let (drawn, cycle, fits) = solved(&grid, rest);
            if fits || rest >= LONGEST {
                break (grid, drawn, cycle);
            }
            // Where the distribution has little density, delays would sink for a larger part of the
            // time than the distribution allows. Longer rests make this part smaller.
            rest *= 2.0;
        };
        let part = |p: f64| (p.clamp(0.0, 1.0) * 2f64.powi(64)) as u64;
        let fixed = |z: f64| (z * (1u64 << ONE) as f64) as i64;
        let sinks = |i: usize| {
            let Some((next, after)) = grid.get(i + 1).zip(drawn.get(i + 1)) else { return 0 };
            let steep = (next.1 - grid[i].1) / (next.0 - grid[i].0);
            let g = f64::midpoint(drawn[i], *after);
            part(g * (1.0 - g) * steep / cycle)
        };
        let node = |(i, &(below, z)): (usize, &(f64, f64))| QuantilePoint {
            below: part(below),
            z: fixed(z),
            drawn_below: part(drawn[i]),
            sinks: sinks(i),
        };
        let range =
            grid.last().map_or(0.0, |last| last.1) - grid.first().map_or(0.0, |first| first.1);
        JitterProcess {
            nodes: grid.iter().enumerate().map(node).collect(),
            rest: fixed(rest),
            forgets: fixed((64.0 * cycle).max(range)),
        }
    }

    /// The neighboring points of this probability, and its position between them in 2^32nds.
    fn between(
        &self,
        p: u64,
        of: impl Fn(&QuantilePoint) -> u64,
    ) -> (&QuantilePoint, &QuantilePoint, i128) {
        let after = self.nodes.partition_point(|node| of(node) <= p).clamp(1, self.nodes.len() - 1);
        let (a, b) = (&self.nodes[after - 1], &self.nodes[after]);
        let (low, wide) = (of(a), of(b).saturating_sub(of(a)).max(1));
        let part = (u128::from(p.saturating_sub(low)) << 32) / u128::from(wide);
        (a, b, part.min(1 << 32) as i128)
    }

    /// The value drawn at this probability.
    fn drawn(&self, p: u64) -> i64 {
        let (a, b, part) = self.between(p, |node| node.drawn_below);
        a.z + ((i128::from(b.z - a.z) * part) >> 32) as i64
    }
}

/// Points of the distribution (probability and delay), at distances over which the solution is
/// nearly straight.
fn grid(points: &[f64], rest: f64) -> Vec<(f64, f64)> {
    const MOST: f64 = 512.0;
    let steps = (points.len() - 1) as f64;
    let mut grid = vec![(0.0, points[0])];
    for (i, pair) in points.windows(2).enumerate() {
        // The grid has at least about this number of points in all.
        let few = (1024.0 / steps).ceil();
        let parts = ((pair[1] - pair[0]) / rest * 20.0).ceil().clamp(few, MOST.max(few)) as usize;
        for n in 1..=parts {
            let part = n as f64 / parts as f64;
            grid.push(((i as f64 + part) / steps, pair[0] + (pair[1] - pair[0]) * part));
        }
    }
    grid
}

/// `G` at each point, the mean time from one draw to the next, and whether a solution exists with
/// this rest.
fn solved(grid: &[(f64, f64)], rest: f64) -> (Vec<f64>, f64, bool) {
    /// Differences below this are rounding errors.
    const NOTHING: f64 = 1e-9;
    let middle = grid.len() / 2;
    let up: Vec<(f64, f64)> = grid.windows(2).map(|w| (w[1].0 - w[0].0, w[1].1 - w[0].1)).collect();
    // From below, `G` grows; from above, `1 - G` grows by the same law.
    let grown = |pieces: &mut dyn Iterator<Item = &(f64, f64)>, cycle: f64| {
        let mut all = vec![0.0];
        let mut rises = true;
        let mut g = 0.0f64;
        for &(q, z) in pieces {
            let (source, decay) = (cycle * q / rest, z * (1.0 - g).max(0.0) / rest);
            let gone = if decay > 1e-9 { (1.0 - (-decay).exp()) / decay } else { 1.0 };
            let next = g * (-decay).exp() + source * gone;
            rises &= next >= g - NOTHING;
            g = next.clamp(g, 1.0);
            all.push(g);
        }
        (all, rises)
    };
    let ends = |cycle: f64| {
        let below = grown(&mut up[..middle].iter(), cycle);
        let above = grown(&mut up[middle..].iter().rev(), cycle);
        (below, above)
    };
    let last = |side: &(Vec<f64>, bool)| side.0.last().copied().unwrap_or(0.0);
    let (mut low, mut high) = (0.0, rest + up.iter().map(|piece| piece.1).sum::<f64>());
    for _ in 0..40 {
        let cycle = f64::midpoint(low, high);
        let (below, above) = ends(cycle);
        if last(&below) + last(&above) < 1.0 { low = cycle } else { high = cycle }
    }
    let ((mut below, rises), (above, falls)) = ends(high);
    below.pop();
    below.extend(above.iter().rev().map(|h| 1.0 - h));
    (below, high, rises && falls)
}

/// A delay that evolves in time.
#[derive(Debug)]
pub(crate) struct JitterPath {
    process: Arc<JitterProcess>,
    amount: u64,
    at: i64,
    does: PathPhase,
    last: Option<Time>,
    /// Number of draws so far.
    drawn: u64,
}

#[derive(Debug, Clone, Copy)]
enum PathPhase {
    /// It rests for this time.
    Rests(u64),
    /// It sinks to this delay.
    Sinks(i64),
}

impl JitterPath {
    pub(crate) fn new(process: Arc<JitterProcess>, amount: Span) -> JitterPath {
        JitterPath {
            process,
            amount: amount.0,
            at: 0,
            does: PathPhase::Rests(0),
            last: None,
            drawn: 0,
        }
    }

    /// Scales a delay to nanoseconds.
    fn scaled(&self, z: i64) -> i64 {
        ((i128::from(z) * i128::from(self.amount)) >> ONE) as i64
    }

    /// The delay does not evolve until `now`.
    pub(crate) fn stays(&mut self, now: Time) {
        self.last = Some(now);
    }

    /// The offset from the mean delay of a packet at `now`. `afresh` has a probability and the
    /// inverse distribution function, for packets that do not depend on earlier packets.
    pub(crate) fn at(&mut self, now: Time, afresh: (u64, impl Fn(u64) -> i64), draw: Draw) -> i64 {
        let forgets = self.scaled(self.process.forgets).max(1) as u64;
        let before =
            self.last.replace(now).map(|last| now.since(last).0).filter(|since| *since < forgets);
        match before {
            Some(since) => self.goes_on(since, draw),
            None => {
                let (p, of) = afresh;
                self.at = of(p);
                let (here, next, part) = self.process.between(p, |node| node.below);
                let (sinks, low, high) = (here.sinks, here.drawn_below, next.drawn_below);
                if self.next(draw) < sinks {
                    let below = low + ((i128::from(high.saturating_sub(low)) * part) >> 32) as u64;
                    let to = ((u128::from(self.next(draw)) * u128::from(below)) >> 64) as u64;
                    self.does = PathPhase::Sinks(self.scaled(self.process.drawn(to)).min(self.at));
                } else {
                    // The remaining part of a rest that began before is distributed as the smaller
                    // of two rests.
                    let left = self.next(draw).min(self.next(draw));
                    self.does = PathPhase::Rests(self.rest(left));
                }
            }
        }
        self.at
    }

    fn next(&mut self, draw: Draw) -> u64 {
        self.drawn += 1;
        draw.at(self.drawn)
    }

    /// A rest is uniform from zero to twice its mean.
    fn rest(&self, draw: u64) -> u64 {
        let most = 2 * self.scaled(self.process.rest).max(1) as u64;
        ((u128::from(draw) * u128::from(most)) >> 64) as u64
    }

    fn goes_on(&mut self, mut time: u64, draw: Draw) {
        loop {
            match self.does {
                PathPhase::Sinks(to) => {
                    let way = (self.at - to).max(0) as u64;
                    if way > time {
                        self.at -= time as i64;
                        return;
                    }
                    time -= way;
                    self.at = to;
                    let rest = self.next(draw);
                    self.does = PathPhase::Rests(self.rest(rest));
                }
                PathPhase::Rests(rest) if rest > time => {
                    self.does = PathPhase::Rests(rest - time);
                    return;
                }
                PathPhase::Rests(rest) => {
                    time -= rest;
                    let p = self.next(draw);
                    let to = self.scaled(self.process.drawn(p));
                    self.at = self.at.max(to);
                    self.does = PathPhase::Sinks(to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impair::distribution::Distribution;

    #[test]
    fn a_jitter_process_forgets_in_some_deviations() {
        for (distribution, most) in [
            (Distribution::Uniform, 2.0),
            (Distribution::Normal, 4.0),
            (Distribution::Pareto, 4.0),
            (Distribution::ParetoNormal, 4.0),
        ] {
            let process = distribution.process();
            let cycle = process.forgets as f64 / 64.0 / (1u64 << ONE) as f64;
            assert!(cycle < most, "{distribution:?}: {cycle}");
        }
    }

    #[test]
    fn every_table_has_a_jitter_process() {
        use crate::impair::distribution::DelayTable;
        let far = [vec![0; 4095], vec![i32::MAX]].concat();
        let tables = [
            vec![-7, 12],
            [vec![0; 90], vec![1000; 10]].concat(),
            far,
            vec![i32::MIN, 0, 0, 0, i32::MAX],
        ];
        for samples in tables {
            let process =
                Distribution::Table(DelayTable::new(&samples).expect("they differ")).process();
            let nodes = &process.nodes;
            assert!(nodes.is_sorted_by_key(|n| n.z) && nodes.is_sorted_by_key(|n| n.drawn_below));
            assert!(
                nodes[0].drawn_below == 0
                    && nodes.last().is_some_and(|last| last.drawn_below > u64::MAX / 2)
            );
            assert!(process.rest > 0 && process.forgets > process.rest, "{samples:?}");
        }
    }
}
