//! Progress of tables whose cells take long: a bar on a terminal, otherwise a line from time to
//! time.

use anyhow::Result;
use falaj_terminal::progress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval of the lines that report progress where no bar is shown.
const LINE: Duration = Duration::from_secs(10);

/// Counts the cells or runs that are done.
pub(super) struct CellProgress {
    bar: indicatif::ProgressBar,
    all: usize,
    /// The plural noun of what is counted.
    noun: &'static str,
    done: AtomicUsize,
    began: Instant,
}

impl CellProgress {
    pub(super) fn new(all: usize, noun: &'static str) -> CellProgress {
        CellProgress {
            bar: progress::bar(all as u64, noun),
            all,
            noun,
            done: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    pub(super) fn one_more(&self) {
        self.bar.inc(1);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Does the work, and reports the progress meanwhile.
    pub(super) fn while_told<T>(&self, work: impl FnOnce(&CellProgress) -> Result<T>) -> Result<T> {
        let (over, ends) = mpsc::channel();
        let worked = std::thread::scope(|scope| {
            scope.spawn(move || self.tell_until(&ends));
            let worked = work(self);
            drop(over);
            worked
        })?;
        self.bar.finish_and_clear();
        Ok(worked)
    }

    /// Until the other end of this channel is closed, reports the number of completed cells from
    /// time to time.
    fn tell_until(&self, ends: &Receiver<()>) {
        while ends.recv_timeout(LINE) == Err(RecvTimeoutError::Timeout) {
            if !progress::wanted() {
                let done = self.done.load(Ordering::Relaxed);
                note!("{done} of {} {}, {} s", self.all, self.noun, self.began.elapsed().as_secs());
            }
        }
    }
}
