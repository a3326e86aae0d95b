//! Experiments that measure falaj: reproductions of papers, and benchmarks.
//!
//! **Papers.** [`reproduce`] reruns the tables and figures of eight papers. It prints the published
//! values beside those of falaj, with a tolerance and a verdict. A claim that is not reproduced is
//! on a closed list, with the reason.
//!
//! **Benchmarks.** [`mod@bench`] has one module for each `falaj bench` command: the cost of a
//! discipline, a link, a simulation, beside a reference. [`aggregate`] measures packets that cross
//! in batches from one process to another.
//!
//! **Common to both.** `adapter_traffic` sends from virtual adapters, namespaces or virtual
//! machines, and reports arrivals per window of time.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// Replaces macros of the standard library, whose `eprintln!` panics if standard error is closed.
#[macro_use]
extern crate falaj_terminal;

mod adapter_traffic;
pub mod aggregate;
pub mod bench;
pub mod reproduce;
