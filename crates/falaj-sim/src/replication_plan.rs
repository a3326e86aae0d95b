//! The plan of a simulation: a warm-up, and replications until the results are precise enough.
//!
//! Replication `n` has the seed `seed + n`, and each random number follows from (seed, source,
//! packet). So experiments that differ only in their links have identical arrivals, and their
//! results may be compared in pairs.

use crate::replicate::{Progress, replicate_in_order, replicate_into};
use crate::series::Warm;
use crate::simulate::{Experiment, Run};
use crate::study::Study;
use falaj_engine::PipeId;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::source::{Model, SourceSpec};
use falaj_traffic::tcp::Tcp;
use std::sync::atomic::Ordering;

/// The time before the steady state, which is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// The warm-up that MSER-5 finds in a few pilot replications. These are then run again, unless
    /// the warm-up is zero.
    #[default]
    Found,
    /// A given time.
    Given(Span),
    /// No warm-up.
    Nothing,
}

/// Number of pilot replications from which the warm-up is determined.
pub const PILOTS: usize = 4;

/// The warm-up that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warmed {
    /// The time that was not counted.
    pub cut: Span,
    /// The method that determined it.
    pub how: WarmUpMethod,
}

/// The method that determined the warm-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmUpMethod {
    /// The user gave the warm-up, or chose none.
    Asked,
    /// Sources begin or end, or links change, within the run: there is no steady state.
    Scheduled,
    /// The simulation was stopped before the warm-up was determined.
    Stopped,
    /// Found from pilot replications.
    Found {
        /// The number of pilot replications.
        replications: usize,
        /// Flows that reach no steady state within the run, each with the warm-up that MSER-5
        /// would choose. That is more than half of the run, so no warm-up is cut for these flows.
        late: Vec<(PipeId, FlowId, Span)>,
        /// Flows with too few packets to find a warm-up.
        unknown: Vec<(PipeId, FlowId)>,
    },
}

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct ReplicationPlan {
    /// Seed of replication 0.
    pub seed: u64,
    /// The warm-up; it must be shorter than the experiments.
    pub warm_up: WarmUp,
    /// Quantiles for which intervals are computed, besides [`crate::study::QUANTILES`].
    pub quantiles: Vec<f64>,
    /// Maximum number of replications.
    pub most: usize,
}

impl ReplicationPlan {
    /// Simulates experiments that have the same sources, all with the same seeds and the same
    /// warm-up. `wanted` returns the number of replications that are needed, given the studies so
    /// far. The simulation ends when there are that many replications. If it is stopped, returns
    /// the results so far.
    pub fn studies(
        &self,
        experiments: &[Experiment],
        progress: &Progress<'_>,
        mut wanted: impl FnMut(&[Study]) -> usize,
    ) -> Result<(Vec<Study>, Warmed), (PipeId, ConfigErrors)> {
        let mut studies: Vec<Study> =
            experiments.iter().map(|_| Study::new(&self.quantiles)).collect();
        let (warmed, pilots) = self.warmed(experiments, progress)?;
        let mut have = 0;
        let mut of_pilots = Vec::new();
        if warmed.cut == Span::ZERO {
            have = pilots.iter().map(Vec::len).min().unwrap_or(0);
            keep(&mut studies, pilots);
        } else {
            of_pilots = pilots;
        }
        let stopped = || progress.stop.load(Ordering::Relaxed);
        while !stopped() {
            let until = wanted(&studies).min(self.most);
            if until <= have {
                break;
            }
            for (experiment, study) in experiments.iter().zip(&mut studies) {
                let experiment = Experiment { warm_up: warmed.cut, ..experiment.clone() };
                replicate_into(&experiment, self.seed, have..until, progress, |n, run| {
                    study.take(n, run);
                })?;
            }
            have = until;
        }
        let warmed =
            if studies.iter().any(|study| study.replications() == 0) && !of_pilots.is_empty() {
                // The simulation was stopped so early that only the pilot replications are
                // complete.
                studies = experiments.iter().map(|_| Study::new(&self.quantiles)).collect();
                keep(&mut studies, of_pilots);
                Warmed { cut: Span::ZERO, how: WarmUpMethod::Stopped }
            } else {
                warmed
            };
        studies.iter_mut().for_each(Study::finish);
        Ok((studies, warmed))
    }

    /// The warm-up of an experiment.
    pub fn warm_up(
        &self,
        experiment: &Experiment,
        progress: &Progress<'_>,
    ) -> Result<Warmed, (PipeId, ConfigErrors)> {
        Ok(self.warmed(std::slice::from_ref(experiment), progress)?.0)
    }

    /// The warm-up, and for each experiment the pilot replications from which it was found.
    #[allow(clippy::type_complexity, reason = "the engine's errors, as everywhere")]
    fn warmed(
        &self,
        experiments: &[Experiment],
        progress: &Progress<'_>,
    ) -> Result<(Warmed, Vec<Vec<(usize, Run)>>), (PipeId, ConfigErrors)> {
        let known = |cut, how| Ok((Warmed { cut, how }, Vec::new()));
        match self.warm_up {
            WarmUp::Nothing => return known(Span::ZERO, WarmUpMethod::Asked),
            WarmUp::Given(cut) => return known(cut, WarmUpMethod::Asked),
            WarmUp::Found => {}
        }
        if experiments.iter().any(is_scheduled) {
            return known(Span::ZERO, WarmUpMethod::Scheduled);
        }
        let replications = PILOTS.min(self.most);
        let (mut cut, mut late, mut unknown) = (Span::ZERO, Vec::new(), Vec::new());
        let mut pilots = Vec::new();
        for experiment in experiments {
            let mut runs = Vec::new();
            let take = |n, run| runs.push((n, run));
            let series =
                replicate_in_order(experiment, self.seed, 0..replications, progress, take)?;
            pilots.push(runs);
            for (pipe, flow, warm) in series.cuts() {
                match warm {
                    Warm::From(at) => cut = cut.max(at),
                    Warm::Late(at) => late.push((pipe, flow, at)),
                    Warm::Unknown => unknown.push((pipe, flow)),
                }
            }
        }
        late.dedup_by_key(|(pipe, flow, _)| (*pipe, *flow));
        unknown.dedup();
        if progress.stop.load(Ordering::Relaxed) {
            return Ok((Warmed { cut: Span::ZERO, how: WarmUpMethod::Stopped }, pilots));
        }
        Ok((Warmed { cut, how: WarmUpMethod::Found { replications, late, unknown } }, pilots))
    }
}

/// Adds these replications to the studies unchanged.
fn keep(studies: &mut [Study], runs: Vec<Vec<(usize, Run)>>) {
    for (study, runs) in studies.iter_mut().zip(runs) {
        runs.into_iter().for_each(|(n, run)| study.take(n, run));
    }
}

/// Returns true if links change within the run, or a source begins or ends, or sends a limited
/// amount.
fn is_scheduled(experiment: &Experiment) -> bool {
    let end = Time::ZERO + experiment.duration;
    let ends = |model: &Model| matches!(model, Model::Tcp(Tcp { bytes: Some(_), pause: None, .. }));
    let of =
        |source: &SourceSpec| source.start > Time::ZERO || source.stop < end || ends(&source.model);
    experiment.changes.is_some() || experiment.feeds.iter().any(|feed| of(&feed.source))
}

/// Returns the number of replications that the required interval needs. `now` is half the present
/// width of the interval as a fraction of the estimate, or `None` if it is not known. `within` is
/// the required fraction. The width falls with the square root of the number. The result is at most
/// twice `have`, because `now` is itself an estimate.
pub fn more(have: usize, now: Option<f64>, within: f64) -> usize {
    // A margin, so that the result does not repeatedly miss the target by a small amount.
    const SPARE: f64 = 1.1;
    let guess = now.map_or(f64::INFINITY, |now| have as f64 * (now / within).powi(2) * SPARE);
    if guess < (2 * have) as f64 {
        (guess.ceil() as usize).max(have + 1)
    } else {
        (2 * have).max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replications_grow_with_the_square_and_not_too_fast() {
        // Ten replications gave an interval 1.2 times too wide: 14.4 are needed, and a margin of a
        // tenth.
        assert_eq!(more(10, Some(0.012), 0.01), 16);
        assert_eq!(more(10, Some(0.1), 0.01), 20);
        assert_eq!(more(10, None, 0.01), 20);
        assert_eq!(more(100, Some(0.0101), 0.01), 113);
        assert_eq!(more(1, None, 0.01), 2);
    }
}
