//! Runs a scenario as an experiment: simulated, or measured with real packets.
//!
//! **Simulated.** [`simulation`] runs replications according to command-line options (warm-up,
//! width of confidence intervals, several scenarios with the same arrivals). [`replications`]
//! summarizes the results of each flow over all replications.
//!
//! **Measured.** [`measure`] sends the scenario's sources as real datagrams between two network
//! namespaces through its links. [`tcp`] sends one TCP stream through a link, or through the kernel
//! alone for comparison. [`bare`] is a loop over the same interfaces that only reads and writes.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// Replaces macros of the standard library, whose `eprintln!` panics if standard error is closed.
#[macro_use]
extern crate falaj_terminal;

pub mod bare;
pub mod measure;
pub mod replications;
pub mod simulation;
pub mod tcp;
