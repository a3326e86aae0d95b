//! Queues solved by matrices, and waits of packets that travel in batches.
//!
//! *The paper* is a study of packet aggregation between a driver domain and its virtual machines
//! (IFIP, 2013), whose figures `falaj reproduce aggregation` computes again.
//!
//! ```
//! use falaj_queueing::{Arrivals, PhaseType, Queue};
//!
//! // Erlang intervals of four steps, exponential services, a load of 0.8.
//! let arrivals = Arrivals::renewal(&PhaseType::erlang(4, 3.2)?);
//! let queue = Queue::new(&arrivals, &PhaseType::exponential(1.0)?)?;
//! assert!((queue.mean_wait() - 2.267_383_610_3).abs() < 1e-9);
//! assert!((queue.waits_longer(&[2.0])[0] - 0.376_260_51).abs() < 1e-8);
//! # Ok::<(), falaj_queueing::Refused>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `phase`, `arrivals` | phase-type distributions; Markovian arrivals, and their superposition, in which equal sources are lumped |
//! | `qbd`, `queue` | `G` and `R` by two reductions; waits: mean, tail, as a phase-type distribution |
//! | `renewal` | the wait of PH/PH/1 by the paper's formulas, corrected |
//! | `superposed`, `printed` | batches of several streams: exactly, and by the paper's model |
//! | `poisson` | Poisson arrivals at one server: mean wait, its distribution, ranks, the loss at a full queue |
//! | `phases` | a server that serves links in a ring, each for a phase: mean delays and losses |
//! | `batches`, `line` | filling with a timeout, in closed form; batches before a server, simulated |
//! | `forward` | the whole path through a machine and back, packet by packet |
//! | `dimension` | the batch sizes that keep a delay, and the number of machines that fit |
//! | `tune`, `tuner` | size and timeout that keep a delay at the least processor time; the same at run time |
//!
//! Without the feature `matrices` the crate has `batches`, `line`, `forward`, `phases`, `poisson`,
//! `tune` and `tuner` alone.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[cfg(feature = "matrices")]
mod arrivals;
mod batches;
#[cfg(feature = "matrices")]
mod dimension;
mod forward;
mod line;
#[cfg(feature = "matrices")]
mod linear;
#[cfg(feature = "matrices")]
mod matrix;
#[cfg(feature = "matrices")]
mod phase;
mod phases;
mod poisson;
#[cfg(feature = "matrices")]
mod printed;
#[cfg(feature = "matrices")]
mod qbd;
#[cfg(feature = "matrices")]
mod queue;
mod recent;
mod refused;
#[cfg(feature = "matrices")]
mod renewal;
#[cfg(feature = "matrices")]
mod superposed;
mod tune;
mod tuner;

#[cfg(feature = "matrices")]
pub use arrivals::Arrivals;
pub use batches::{Fill, Filling, Measure, Policy};
#[cfg(feature = "matrices")]
pub use dimension::{Dimensions, Feasible, How, Pair, Pairs, Point, System, most_that_fit};
pub use forward::{Forwarded, Machine, forward};
pub use line::{Ask, Line, Service, Shape, Simulated, SimulatedStream, Stream, load};
#[cfg(feature = "matrices")]
pub use phase::PhaseType;
pub use phases::{PhasedDelay, PhasedLink, phased_delays};
pub use poisson::{LimitedQueue, PoissonServer, WaitTable, mean_waits_by_rank};
#[cfg(feature = "matrices")]
pub use printed::Printed;
#[cfg(feature = "matrices")]
pub use qbd::{Method, Qbd, Solved};
#[cfg(feature = "matrices")]
pub use queue::{Queue, process};
pub use refused::Refused;
#[cfg(feature = "matrices")]
pub use renewal::renewal_wait;
#[cfg(feature = "matrices")]
pub use superposed::{Effort, Mean, Superposed};
pub use tune::{Choice, Cost, Limits, Load, Tuned, Wanted, choose, expect};
pub use tuner::Tuner;
