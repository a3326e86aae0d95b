//! `falaj bench`: the cost of falaj, compared with references.
//!
//! Every figure comes with its command and is printed as JSON on request. CPU times are those of
//! the thread, so that a busy machine changes them little.

pub mod bounds;
pub mod delay;
mod instructions;
pub mod io;
pub mod isolation;
pub mod kernel;
pub mod masks;
pub mod path;
#[cfg(feature = "queueing")]
pub mod queueing;
pub mod release;
pub mod sched;
pub mod sim;
pub mod tcp;

use anyhow::Result;
use falaj_terminal::interrupt::{INTERRUPTED, Interrupted};
use std::process::ExitCode;

/// The exit status of a measurement; an error if Ctrl-C came before there was any result.
/// `nothing`: there is no result.
fn exit(interrupted: bool, nothing: bool) -> Result<ExitCode> {
    match (interrupted, nothing) {
        (true, true) => Err(Interrupted("before there was any result").into()),
        (true, false) => {
            eprintln!("interrupted: this is what was measured until then");
            Ok(ExitCode::from(INTERRUPTED))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu_nanos() -> u64 {
    falaj_live::clock::thread_cpu()
}

/// The median of some figures; with an even number of figures, the upper of the two middle ones.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
