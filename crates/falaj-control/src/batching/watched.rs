//! A tuner that can be queried while a packer uses it, and that warns when the delay is not kept.

use falaj_engine::batch::tuning::{EpochStats, PolicyChooser};
use falaj_engine::batch::{BatchPolicy, Packer, PolicyError};
use falaj_queueing::{Measure, Tuned, Tuner, Wanted};
use falaj_terminal::text;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of epochs for which a changed state must last before it is reported.
const LASTS: u32 = 50;

/// A tuner with shared access.
#[derive(Clone, Debug)]
pub struct AdaptiveBatching(Arc<Mutex<WatchedTuner>>);

#[derive(Debug)]
struct WatchedTuner {
    tuner: Tuner,
    wanted: Wanted,
    /// The destination of packets, if warnings are to be printed.
    whither: Option<&'static str>,
    /// The last reported state: true if the delay is kept, which is assumed at first.
    told: bool,
    /// Number of epochs for which the state has differed from that.
    other: u32,
}

impl AdaptiveBatching {
    /// A tuner for this delay.
    pub fn new(wanted: Wanted) -> AdaptiveBatching {
        let tuner = Tuner::new(wanted);
        AdaptiveBatching(Arc::new(Mutex::new(WatchedTuner {
            tuner,
            wanted,
            whither: None,
            told: true,
            other: 0,
        })))
    }

    /// Prints a warning when the delay of packets to this destination is not kept, and a note when
    /// it is again.
    pub fn told(self, whither: &'static str) -> AdaptiveBatching {
        self.watch().whither = Some(whither);
        self
    }

    /// A packer tuned by this, with batches of up to `bytes` bytes and packets whose destination
    /// follows `before` bytes.
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

    /// Returns true unless the delay is known to be missed.
    pub fn keeps(&self) -> bool {
        !matches!(self.watch().tuner.tuned(), Some(Tuned::Missed(_)))
    }

    fn watch(&self) -> MutexGuard<'_, WatchedTuner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedTuner {
    fn tell(&mut self) {
        let (Some(tuned), Some(whither)) = (self.tuner.tuned(), self.whither) else { return };
        let kept = matches!(tuned, Tuned::Kept(_));
        self.other = if kept == self.told { 0 } else { self.other + 1 };
        if self.other < LASTS {
            return;
        }
        (self.told, self.other) = (kept, 0);
        let measure = match self.wanted.measure {
            Measure::Mean => "mean".to_owned(),
            Measure::Percentile(part) => format!("p{}", 100.0 * part),
        };
        let asked = text::nanos(self.wanted.delay * 1e9);
        let delay = tuned.choice().delay;
        if kept {
            note!("packets {whither} keep a {measure} delay of {asked} again");
        } else if delay.is_finite() {
            note!(
                "packets {whither} cannot keep a {measure} delay of {asked}; the least is {}",
                text::nanos(delay * 1e9)
            );
        } else {
            note!(
                "packets {whither} cannot keep a {measure} delay of {asked}: more come than the other side takes"
            );
        }
    }
}

impl PolicyChooser for AdaptiveBatching {
    fn choose(&mut self, seen: &EpochStats, now: BatchPolicy) -> BatchPolicy {
        let mut watch = self.watch();
        let next = watch.tuner.choose(seen, now);
        watch.tell();
        next
    }
}
