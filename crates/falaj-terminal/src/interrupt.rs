//! Ctrl-C during long work: a flag that the work checks, so that it ends early with the results so
//! far.

use anyhow::Result;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The exit status after Ctrl-C, as used by shells.
pub const INTERRUPTED: u8 = 128 + 2;

/// The error if Ctrl-C came before there was any result. It has the name of the interrupted work.
#[derive(Debug)]
pub struct Interrupted(pub &'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted {}", self.0)
    }
}
impl std::error::Error for Interrupted {}

/// Returns the flag that Ctrl-C sets. While the flag is set, a further Ctrl-C ends the program. The
/// flag is also set while no work checks it, so that the first Ctrl-C ends the program then.
///
/// # Errors
/// The signal handler cannot be registered.
pub fn interrupts() -> Result<Arc<AtomicBool>> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::new(AtomicBool::new(true));
    flag::register_conditional_default(SIGINT, Arc::clone(&stop))?;
    flag::register(SIGINT, Arc::clone(&stop))?;
    Ok(Arc::clone(STOP.get_or_init(|| stop)))
}

/// Runs work that Ctrl-C can end early: `work` checks the flag, and returns its results so far.
/// Returns the result of the work, and true if it was interrupted.
///
/// # Errors
/// The errors of the work.
pub fn interruptible<T>(work: impl FnOnce(&AtomicBool) -> Result<T>) -> Result<(T, bool)> {
    let stop = interrupts()?;
    stop.store(false, Ordering::Relaxed);
    let done = work(&stop);
    let interrupted = stop.swap(true, Ordering::Relaxed);
    Ok((done?, interrupted))
}
