//! A scenario as an experiment: simulated, and on real packets.
//!
//! **Simulated.** [`simulation`] runs replications as they were asked for on the command line
//! (warm-up, until intervals are narrow enough, several scenarios under the same arrivals);
//! [`replications`] is what each flow did in all of them.
//!
//! **Measured.** [`measure`] sends the scenario's sources as real datagrams between two network
//! namespaces through its links; [`tcp`] sends one stream through a link, or past it through the
//! kernel alone; [`bare`] is a loop that reads and writes and does nothing else.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// All of its macros: the standard library's `eprintln!` panics where standard error is closed.
#[macro_use]
extern crate falaj_terminal;

pub mod bare;
pub mod measure;
pub mod replications;
pub mod simulation;
pub mod tcp;
