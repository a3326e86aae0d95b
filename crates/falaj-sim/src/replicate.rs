//! Independent replications on all cores.

use crate::cores::on_all;
use crate::series::Series;
use crate::simulate::{Experiment, Run, RunObservers, run};
use falaj_engine::{Emit, PipeId};
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::units::time::Span;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Progress and cancellation of running replications.
pub struct Progress<'a> {
    /// Called at intervals, from any thread, with the simulated time that has passed in one of the
    /// replications since the last call for it.
    pub gone: &'a (dyn Fn(Span) + Sync),
    /// If set, running replications end at once, and return their results so far.
    pub stop: &'a AtomicBool,
}

/// Runs the experiment under the seeds `seed, seed + 1, …`; returns the runs in that order. If the
/// simulation is stopped, returns the complete runs. If no run is complete, returns the runs that
/// had begun, with their results so far. The number of cores affects only the running time.
pub fn replicate(
    experiment: &Experiment,
    seed: u64,
    replications: usize,
    progress: &Progress<'_>,
) -> Result<Vec<Run>, (PipeId, ConfigErrors)> {
    let mut runs: Vec<(usize, Run)> = Vec::new();
    replicate_into(experiment, seed, 0..replications, progress, |n, run| runs.push((n, run)))?;
    runs.sort_by_key(|(n, _)| *n);
    if runs.iter().any(|(_, run)| run.complete) {
        runs.retain(|(_, run)| run.complete);
    }
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// Runs the replications with these numbers, and passes each to `take` when it ends, in any order.
/// Number `n` has the seed `seed + n`. If the simulation is stopped, the runs in progress end at
/// once and are passed incomplete.
pub fn replicate_into(
    experiment: &Experiment,
    seed: u64,
    numbers: Range<usize>,
    progress: &Progress<'_>,
    mut take: impl FnMut(usize, Run) + Send,
) -> Result<(), (PipeId, ConfigErrors)> {
    on_all_cores(experiment, seed, numbers, progress, || None, |n, run, _| take(n, run))
}

/// Does the same as [`replicate_into`], and also returns the mean delays of all replications as a
/// time series.
pub(crate) fn replicate_in_order(
    experiment: &Experiment,
    seed: u64,
    numbers: Range<usize>,
    progress: &Progress<'_>,
    mut take: impl FnMut(usize, Run) + Send,
) -> Result<Series, (PipeId, ConfigErrors)> {
    let series = || Series::new(experiment.duration);
    let mut all = series();
    on_all_cores(
        experiment,
        seed,
        numbers,
        progress,
        || Some(series()),
        |n, run, series| {
            series.iter().for_each(|series| all.add(series));
            take(n, run);
        },
    )?;
    Ok(all)
}

fn on_all_cores(
    experiment: &Experiment,
    seed: u64,
    numbers: Range<usize>,
    progress: &Progress<'_>,
    series: impl Fn() -> Option<Series> + Sync,
    mut take: impl FnMut(usize, Run, Option<Series>) + Send,
) -> Result<(), (PipeId, ConfigErrors)> {
    let watch = RunObservers { stop: progress.stop, gone: progress.gone };
    let one = |n: usize| {
        let mut series = series();
        let run = run(
            experiment,
            seed.wrapping_add(n as u64),
            &watch,
            series.as_mut(),
            &mut |_: &Emit| {},
        )?;
        Ok((run, series))
    };
    on_all(numbers, progress.stop, one, |n, (run, series)| take(n, run, series))
}
