//! Queues solved by matrices, and what packets wait for that travel in containers.
#![forbid(unsafe_code)]

mod arrivals;
mod matrix;
mod phase;
mod qbd;
mod queue;
mod refused;

pub use arrivals::Arrivals;
pub use phase::PhaseType;
pub use qbd::{Method, Qbd, Solved};
pub use queue::{Queue, process};
pub use refused::Refused;
