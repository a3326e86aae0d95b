//! A tuner of batches that can be queried while a packer uses it, and that prints a warning if the
//! delay is not kept.

use falaj_engine::batch::tuning::{EpochStats, PolicyChooser};
use falaj_engine::batch::{BatchPolicy, Packer, PolicyError};
use falaj_queueing::{Measure, Tuned, Tuner, Wanted};
use falaj_terminal::text;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of consecutive epochs with a changed state after which the change is reported.
const LASTS: u32 = 50;

/// A tuner that a packer and other owners share.
#[derive(Clone, Debug)]
pub struct AdaptiveBatching(Arc<Mutex<WatchedTuner>>);

#[derive(Debug)]
struct WatchedTuner {
    tuner: Tuner,
    wanted: Wanted,
    /// The destination of the packets, as in `to the far end`; `None` if no warnings are printed.
    destination: Option<String>,
    /// The last reported state: true if the delay is kept, as assumed at first.
    reported_kept: bool,
    /// Number of consecutive epochs in which the state differed from the reported state.
    other: u32,
}

impl AdaptiveBatching {
    /// A tuner for this delay.
    pub fn new(wanted: Wanted) -> AdaptiveBatching {
        let tuner = Tuner::new(wanted);
        AdaptiveBatching(Arc::new(Mutex::new(WatchedTuner {
            tuner,
            wanted,
            destination: None,
            reported_kept: true,
            other: 0,
        })))
    }

    /// Makes the tuner print a warning when packets to this destination do not keep the delay, and
    /// a note when they keep it again.
    pub fn with_warnings(self, destination: &str) -> AdaptiveBatching {
        self.watch().destination = Some(destination.to_owned());
        self
    }

    /// A packer that this tuner adjusts. Batches have at most `bytes` bytes; `before` is the number
    /// of bytes of a packet in front of its destination address.
    pub fn packer(&self, bytes: u32, before: usize) -> Result<Packer, PolicyError> {
        let (first, (slot, slots)) = {
            let watch = self.watch();
            (watch.tuner.first(bytes), watch.tuner.epoch())
        };
        Ok(Packer::new(first, before)?.tuned(Box::new(self.clone()), slot, slots))
    }

    /// The number of policy changes.
    pub fn changes(&self) -> u64 {
        self.watch().tuner.changes()
    }

    /// Returns true unless the tuner has found that no policy keeps the delay.
    pub fn keeps(&self) -> bool {
        !matches!(self.watch().tuner.tuned(), Some(Tuned::Missed(_)))
    }

    fn watch(&self) -> MutexGuard<'_, WatchedTuner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedTuner {
    /// Prints a message if the state has changed for [`LASTS`] epochs.
    fn report(&mut self) {
        let (Some(tuned), Some(destination)) = (self.tuner.tuned(), &self.destination) else {
            return;
        };
        let kept = matches!(tuned, Tuned::Kept(_));
        self.other = if kept == self.reported_kept { 0 } else { self.other + 1 };
        if self.other < LASTS {
            return;
        }
        (self.reported_kept, self.other) = (kept, 0);
        let measure = match self.wanted.measure {
            Measure::Mean => "mean".to_owned(),
            Measure::Percentile(part) => format!("p{}", 100.0 * part),
        };
        let asked = text::nanos(self.wanted.delay * 1e9);
        let delay = tuned.choice().delay;
        if kept {
            note!("packets {destination} keep a {measure} delay of {asked} again");
        } else if delay.is_finite() {
            note!(
                "packets {destination} cannot keep a {measure} delay of {asked}; the lowest possible is {}",
                text::nanos(delay * 1e9)
            );
        } else {
            note!(
                "packets {destination} cannot keep a {measure} delay of {asked}: more arrive than the other side processes"
            );
        }
    }
}

impl PolicyChooser for AdaptiveBatching {
    fn choose(&mut self, seen: &EpochStats, now: BatchPolicy) -> BatchPolicy {
        let mut watch = self.watch();
        let next = watch.tuner.choose(seen, now);
        watch.report();
        next
    }
}
