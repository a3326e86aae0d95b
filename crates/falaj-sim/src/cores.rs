//! Independent tasks on all cores.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of cores; 1 if it is not known.
pub fn all() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the tasks with these numbers on all cores, as [`on`] does.
///
/// # Errors
/// Those of [`on`].
pub fn on_all<T, E: Send>(
    numbers: Range<usize>,
    stop: &AtomicBool,
    task: impl Fn(usize) -> Result<T, E> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> Result<(), E> {
    on(all(), numbers, stop, task, take)
}

/// Runs the tasks with these numbers on `cores` cores. Passes each result to `take` when its task
/// ends, in any order. Once `stop` is set, no further task begins. The number of cores affects only
/// the running time.
///
/// # Errors
/// The error of a task. The core of that task begins no further one; the other cores go on, and the
/// function returns when they have ended.
pub fn on<T, E: Send>(
    cores: usize,
    numbers: Range<usize>,
    stop: &AtomicBool,
    task: impl Fn(usize) -> Result<T, E> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> Result<(), E> {
    let workers = cores.max(1).min(numbers.len());
    let next = AtomicUsize::new(numbers.start);
    let take = Mutex::new(take);
    let work = || -> Result<(), E> {
        while !stop.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= numbers.end {
                break;
            }
            let done = task(n)?;
            take.lock().expect("no worker panics")(n, done);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("no worker panics"))
    })
}
