//! Independent replications on all cores.

use crate::simulate::{Experiment, Run, simulate};
use falaj_engine::PipeId;
use falaj_sched::params::Refusals;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What goes on while replications run.
pub struct Progress<'a> {
    /// Called after each, with how many are done; from any thread, one at a time.
    pub done: &'a (dyn Fn(usize) + Sync),
    /// Set it, and those that run end where they are.
    pub stop: &'a AtomicBool,
}

/// Runs the experiment under the seeds `seed, seed + 1, …`; returns the runs
/// in that order. If stopped, it is the complete ones; or, where there are
/// none, those that had begun, as far as they came. The number of cores changes
/// nothing but the time it takes.
pub fn replicate(
    experiment: &Experiment,
    seed: u64,
    replications: usize,
    progress: &Progress<'_>,
) -> Result<Vec<Run>, (PipeId, Refusals)> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(replications.max(1));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(0));
    let runs: Mutex<Vec<(usize, Run)>> = Mutex::new(Vec::new());
    let work = || -> Result<(), (PipeId, Refusals)> {
        while !progress.stop.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= replications {
                break;
            }
            let run = simulate(experiment, seed.wrapping_add(i as u64), progress.stop)?;
            runs.lock().expect("no worker panics").push((i, run));
            let mut done = done.lock().expect("no worker panics");
            *done += 1;
            (progress.done)(*done);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("no worker panics"))
    })?;
    let mut runs = runs.into_inner().expect("no worker panics");
    runs.sort_by_key(|(i, _)| *i);
    if runs.iter().any(|(_, run)| run.complete) {
        runs.retain(|(_, run)| run.complete);
    }
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}
