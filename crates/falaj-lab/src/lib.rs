//! What falaj is measured by: papers reproduced, and benchmarks.
//!
//! **Papers.** [`reproduce`] reruns the tables and figures of five papers and prints what was
//! published beside what we get, with a tolerance and a verdict; a claim that is not reproduced is
//! on a closed list, with the reason.
//!
//! **Benchmarks.** [`mod@bench`] has one module for each `falaj bench` command: what a discipline,
//! a link, a simulation costs, beside what it is compared with. [`aggregate`] measures packets
//! that cross in batches from one process to another.
//!
//! **Beneath both.** `adapter_traffic` sends from virtual adapters, namespaces or virtual machines,
//! and reports what arrived in windows of time.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// All of its macros: the standard library's `eprintln!` panics where standard error is closed.
#[macro_use]
extern crate falaj_terminal;

mod adapter_traffic;
pub mod aggregate;
pub mod bench;
pub mod reproduce;
