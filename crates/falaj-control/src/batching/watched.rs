//! A tuner that can be asked what it does while a packer has it, and that says when the delay is
//! not kept.

use falaj_engine::batch::tuning::{EpochStats, PolicyChooser};
use falaj_engine::batch::{BatchPolicy, Packer, PolicyError};
use falaj_queueing::{Measure, Tuned, Tuner, Wanted};
use falaj_terminal::text;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Epochs for which an opinion lasts before it is told.
const LASTS: u32 = 50;

/// A tuner, watched.
#[derive(Clone, Debug)]
pub struct AdaptiveBatching(Arc<Mutex<WatchedTuner>>);

#[derive(Debug)]
struct WatchedTuner {
    tuner: Tuner,
    wanted: Wanted,
    /// Whither packets go, if it is to be told.
    whither: Option<&'static str>,
    /// Was it told that the delay is kept? At first it is taken for granted.
    told: bool,
    /// Epochs for which that has been otherwise.
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

    /// Says on standard error when the delay of packets there is not kept, and when it is again.
    pub fn told(self, whither: &'static str) -> AdaptiveBatching {
        self.watch().whither = Some(whither);
        self
    }

    /// A packer that it tunes, of containers of so many bytes and packets whose destination is
    /// behind `before`.
    pub fn packer(&self, bytes: u32, before: usize) -> Result<Packer, PolicyError> {
        let (first, (slot, slots)) = {
            let watch = self.watch();
            (watch.tuner.first(bytes), watch.tuner.epoch())
        };
        Ok(Packer::new(first, before)?.tuned(Box::new(self.clone()), slot, slots))
    }

    /// How often the policy was changed.
    pub fn changes(&self) -> u64 {
        self.watch().tuner.changes()
    }

    /// Does it keep the delay, as far as it knows?
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
