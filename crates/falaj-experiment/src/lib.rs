//! A scenario as an experiment: simulated, and on real packets.
//!
//! **Simulated.** [`simulation`] runs replications by the options of the command line (warm-up,
//! width of intervals, several scenarios under the same arrivals); [`replications`] has the results
//! of each flow over all of them.
//!
//! **Measured.** [`measure`] sends the scenario's sources as real datagrams between two network
//! namespaces through its links; [`tcp`] sends one stream through a link, or past it through the
//! kernel alone; [`bare`] is a loop that only reads and writes.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// All macros of the crate: the standard library's `eprintln!` panics if standard error is closed.
#[macro_use]
extern crate falaj_terminal;

pub mod bare;
pub mod measure;
pub mod replications;
pub mod simulation;
pub mod tcp;
