//! Figures 3 and 4 live: the model's streams, through containers in memory that two processes share, to a reader whose services are
//! as the model has them.

use super::super::Args;
use super::super::curves::{Curve, Point};
use crate::aggregate::Cost;
use crate::aggregate::streams::Streams;
use anyhow::Result;
use falaj_sched::time::Span;

/// Turns of each point, by seeds of their own.
const TURNS: u64 = 5;
/// Of 95 % for so many (Student's t, 4 degrees of freedom), over the root of five.
const HALF: f64 = 2.776 / 2.236;

/// How long, and how often.
#[derive(Clone, Copy)]
pub(super) struct Live {
    long: Span,
    turns: u64,
}

/// A curve, and what is told beside it.
pub(super) struct Measured {
    pub(super) curve: Curve,
    pub(super) note: String,
}

impl Live {
    /// As it is asked for, if it is.
    pub(super) fn asked(args: &Args) -> Option<Live> {
        let (long, turns) = if args.quick { (Span::from_millis(200), 1) } else { (args.duration, TURNS) };
        args.live.then_some(Live { long, turns })
    }

    /// Some of these, where it is to be quick.
    fn of<T: Copy>(self, all: &[T]) -> Vec<T> {
        all.iter().copied().step_by(if self.turns == 1 { 3 } else { 1 }).collect()
    }

    /// A point for each of these; `whole` says what a delay is, of those of the streams.
    fn measure(self, all: &[(f64, Streams)], whole: impl Fn(&[f64]) -> f64) -> Result<Measured> {
        let (mut points, mut least) = (Vec::new(), f64::INFINITY);
        for (x, streams) in self.of(all) {
            let mut found = Vec::new();
            for seed in 1..=self.turns {
                let measured = streams.measure(self.long, seed)?;
                least = least.min(measured.given);
                found.push(whole(&measured.delays) * 1e6);
            }
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let spread = found.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (found.len() as f64 - 1.0).max(1.0);
            points.push(Point { x, y: mean, off: (found.len() > 1).then(|| HALF * spread.sqrt()) });
        }
        let note = format!(
            "Live: two processes with a ring between them, {} times {} a point; the reader's services are exponential, of the same \
             mean. At least {:.1} % of the packets that were to come were given away in time.",
            self.turns,
            self.long,
            100.0 * least.min(1.0)
        );
        Ok(Measured { curve: Curve { name: "live (us)", points }, note })
    }

    /// Figure 3: there in one stream, back in one of four.
    pub(super) fn there_and_back(self, rates: &[f64], packets: u32, cost: Cost) -> Result<Measured> {
        const PARTS: &[f64] = &[1.0, 0.25, 0.25, 0.25, 0.25];
        let all: Vec<_> =
            rates.iter().map(|&rate| (rate / 1e3, Streams { rate, parts: PARTS, packets, cost })).collect();
        self.measure(&all, |delays| delays[0] + delays[1..].iter().sum::<f64>() / 4.0)
    }

    /// Figure 4: one way, of two equal streams.
    pub(super) fn one_way(self, sizes: &[u32], rate: f64, cost: Cost) -> Result<Measured> {
        const PARTS: &[f64] = &[1.0, 1.0];
        let of = |&packets: &u32| (f64::from(packets), Streams { rate, parts: PARTS, packets, cost });
        let all: Vec<_> = sizes.iter().map(of).collect();
        self.measure(&all, |delays| delays.iter().sum::<f64>() / 2.0)
    }
}
