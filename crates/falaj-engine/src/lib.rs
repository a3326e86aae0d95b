//! The sans-I/O machine: units go in with the time, what shall leave comes
//! out with the time it is due. No clock, no thread, no socket.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | what enters an engine, and what comes out of it |
//! | [`engine`] | the machine: pipes, the calendar of their events, inputs and outputs |
//! | [`pipe`] | queues, discipline and link; the moments of the discipline's contract |
//! | [`network`], [`rules`] | packets through several pipes, one behind the other: which, and in which order |
//! | [`change`], [`handover`], [`transaction`] | changes while packets wait, all or nothing: of pipes; of all that there is |
//! | [`classifier`], [`key`], [`header`] | which flow a packet belongs to, and what is read of it to tell |
//! | [`term`], [`table`], [`lookup`] | what rules look at, and how the first of many is found |
//! | [`masks`] | masks: a queue or a link of its own for each value |
//! | [`impair`] | what a link does to packets: loss, copies, wrong bits, jitter, reordering |
//! | [`batch`] | packets that cross a boundary together; what is counted for whoever chooses how |
//! | [`ecn`] | which packets may be marked instead of dropped, and how |
//! | [`account`] | which layer's bytes a rate counts |
//! | [`framing`] | what a packet costs on the link beyond that |
//! | [`fairness`] | how far behind its share a flow was, of what a pipe has sent |
//! | [`adversary`] | arrivals, searched for, by which a flow falls behind most |
//! | [`chance`] | random numbers addressed by (seed, element, flow, index) |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

pub mod account;
pub mod adversary;
pub mod batch;
pub mod chance;
pub mod change;
pub mod classifier;
pub mod ecn;
pub mod engine;
pub mod fairness;
pub mod framing;
pub mod handover;
pub mod header;
pub mod impair;
pub mod key;
pub mod lookup;
pub mod masks;
pub mod message;
pub mod network;
pub mod pipe;
pub mod rules;
pub mod table;
pub mod term;
pub mod transaction;

pub use change::{ChangeError, Prepared};
pub use engine::Engine;
pub use message::{Corrupt, DropReason, Dropped, EcnMark, Emit, Output, PipeId};
