//! Work that Ctrl-C interrupts.

use crate::errors::internal;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Longest time until Ctrl-C is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Does `work` without the interpreter's lock. If the handler of a signal raises an exception, as
/// for Ctrl-C, this sets `stop`, waits until `work` ends, and returns the exception as the error.
/// Only Python's main thread receives signals.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = channel::<()>();
            let worker = scope.spawn(move || {
                // Dropped when the work ends, even by a panic.
                let _done = done;
                work()
            });
            let mut raised = None;
            while wait.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop.store(true, Ordering::Relaxed);
                    raised.get_or_insert(error);
                }
            }
            let result = worker.join().map_err(|_| internal("the simulation panicked"))?;
            raised.map_or(Ok(result), Err)
        })
    })
}
