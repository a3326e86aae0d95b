//! Figures 3 and 4 measured live: the streams of the model cross in batches, through memory shared
//! by two processes, to a reader with the model's service times.

use super::super::Args;
use super::super::curves::{CurvePoint, FigureCurve};
use crate::aggregate::CrossingCost;
use crate::aggregate::streams::Streams;
use anyhow::Result;
use falaj_sched::units::time::Span;

/// Number of turns of each point, each with its own seed. The median is reported, because a pause
/// of the machine spoils some turns. The true median is between the second and the eighth value
/// with a probability of 96 %.
const TURNS: usize = 9;
/// Default length of a turn: so short that the kernel does not yet take the processor away in
/// favour of other threads.
const LONG: Span = Span::from_millis(600);
/// Default length of a turn of a quick run.
const QUICK: Span = Span::from_millis(200);

/// Length of a turn, and number of turns.
#[derive(Clone, Copy)]
pub(super) struct Live {
    long: Span,
    turns: usize,
}

/// A curve, and a remark on it.
pub(super) struct MeasuredCurve {
    pub(super) curve: FigureCurve,
    pub(super) note: String,
}

impl Live {
    /// The settings by the arguments; `None` if no live run was requested.
    pub(super) fn asked(args: &Args) -> Option<Live> {
        let (long, turns) = if args.quick { (QUICK, 1) } else { (LONG, TURNS) };
        args.live.then_some(Live { long: args.duration.unwrap_or(long), turns })
    }

    pub(super) fn is_quick(self) -> bool {
        self.turns == 1
    }

    /// All points, or every third in a quick run.
    fn of<T: Copy>(self, all: &[T]) -> Vec<T> {
        all.iter().copied().step_by(if self.is_quick() { 3 } else { 1 }).collect()
    }

    /// Measures a point for each entry; `whole` combines the delays of the streams.
    fn measure(
        self,
        all: &[(f64, Streams)],
        whole: impl Fn(&[f64]) -> f64,
    ) -> Result<MeasuredCurve> {
        let (mut points, mut least) = (Vec::new(), f64::INFINITY);
        for (x, streams) in self.of(all) {
            let mut found = Vec::new();
            for seed in 1..=self.turns {
                let measured = streams.measure(self.long, seed as u64)?;
                least = least.min(measured.given);
                found.push(whole(&measured.delays) * 1e6);
            }
            found.sort_by(f64::total_cmp);
            let y = found[found.len() / 2];
            let off = (found.len() == TURNS).then(|| (found[TURNS - 2] - y).max(y - found[1]));
            points.push(CurvePoint { x, y, off });
        }
        let turns = match self.turns {
            1 => "one turn".to_owned(),
            turns => format!(
                "the median of {turns} turns, and its larger distance from the second or the last but one (96 %)"
            ),
        };
        let note = format!(
            "Measured: two processes with a ring between them, {turns}, each of {} or, if that \
             is longer, of 20 batches of the slowest stream. The reader's services are \
             exponential, of the same mean; when it sleeps it has to be woken, too. The sender was \
             in time with {:.1} % of the packets or more.",
            self.long,
            100.0 * least.min(1.0)
        );
        Ok(MeasuredCurve { curve: FigureCurve { name: "measured live (us)", points }, note })
    }

    /// Figure 3: one stream in one direction, and four streams with a quarter of its rate each in
    /// the other.
    pub(super) fn there_and_back(
        self,
        rates: &[f64],
        packets: u32,
        cost: CrossingCost,
    ) -> Result<MeasuredCurve> {
        const PARTS: &[f64] = &[1.0, 0.25, 0.25, 0.25, 0.25];
        let all: Vec<_> = rates
            .iter()
            .map(|&rate| (rate / 1e3, Streams { rate, parts: PARTS, packets, cost }))
            .collect();
        self.measure(&all, |delays| delays[0] + delays[1..].iter().sum::<f64>() / 4.0)
    }

    /// Figure 4: one direction, with two equal streams.
    pub(super) fn one_way(
        self,
        sizes: &[u32],
        rate: f64,
        cost: CrossingCost,
    ) -> Result<MeasuredCurve> {
        const PARTS: &[f64] = &[1.0, 1.0];
        let of =
            |&packets: &u32| (f64::from(packets), Streams { rate, parts: PARTS, packets, cost });
        let all: Vec<_> = sizes.iter().map(of).collect();
        self.measure(&all, |delays| delays.iter().sum::<f64>() / 2.0)
    }
}
