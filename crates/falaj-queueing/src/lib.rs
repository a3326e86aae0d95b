//! Queues solved by matrices, and what packets wait for that travel in containers.
#![forbid(unsafe_code)]

mod arrivals;
mod containers;
mod line;
mod matrix;
mod phase;
mod printed;
mod qbd;
mod queue;
mod refused;
mod superposed;

pub use arrivals::Arrivals;
pub use containers::{Fill, Policy};
pub use line::{Ask, Line, Service, Shape, Simulated, load};
pub use phase::PhaseType;
pub use printed::Printed;
pub use qbd::{Method, Qbd, Solved};
pub use queue::{Queue, process};
pub use refused::Refused;
pub use superposed::{Effort, Mean, Stream, Superposed};
