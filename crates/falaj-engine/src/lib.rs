//! The sans-I/O machine of falaj: units go in with the time of their arrival, and come out with the
//! time at which they are due. It has no clock, no thread and no socket, so that the simulator, the
//! live forwarder and the relay drive one and the same code, and the same input with the same seed
//! gives the same output, bit for bit. `examples/packets_through_an_engine.rs` is the shortest
//! driver. From the ground up:
//!
//! **Messages.** [`message`] is what an engine takes and returns: a [`Unit`](message::Unit) is a
//! handle to bytes that live elsewhere, an [`Output`] says that one leaves, is lost, is copied,
//! corrupted or marked. [`account`] is the layer whose bytes a rate counts, [`framing`] what a
//! packet costs on the link beyond them, [`ecn`] which packets may be marked and how. [`chance`]
//! draws random numbers addressed by seed, element, flow and index, so that no draw depends on
//! timing.
//!
//! **Classification.** [`key`] reads the headers of a frame, whatever it holds; [`header`] has
//! their types: IP versions, protocols, prefixes. A [`term`] is one condition on a key; a
//! [`table`] maps addresses, ports or marks to entries; a [`lookup`] finds the first of many rules
//! that takes a packet, in few steps. The [`classifier`] of a pipe names the flow of a packet;
//! [`rules`] name the links that it passes, and in which order.
//!
//! **Pipes.** A [`pipe`] is queues, a scheduler of falaj-sched and a link. It keeps the moments
//! that the contract of disciplines names, and decides at nominal instants only: polls may come
//! late or twice. [`impair`] is what the link does to packets: loss, copies, wrong bits, jitter,
//! reordering, slots, profiles. [`masks`] make flows and links on the fly: a queue or a link of
//! its own for each id, which is the part of a key that counts.
//!
//! **The engine.** An [`Engine`] owns the pipes and the only calendar of their events. A
//! [`network`] joins pipes by rules: what leaves one enters the next at the instant at which it is
//! due there.
//!
//! **Changes.** A [`change`] builds successors of pipes beforehand, where it may fail and take
//! long; to apply it cannot fail, and no packet is lost that may not be dropped. [`handover`] says
//! what becomes of each flow; a [`transaction`] is a change of pipes, classifiers and rules at one
//! instant.
//!
//! **Batches.** [`batch`] packs packets that cross a boundary together, and counts what is needed
//! to choose how many.
//!
//! **Measures.** [`guaranteed_rate`] finds the packets that prove a promise of a rate broken;
//! [`fairness`] computes how far behind its share a flow was in what a pipe has sent;
//! [`adversary`] searches for the arrivals by which it falls behind most, and [`delay_adversary`]
//! for those that delay its packets longest.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

pub mod account;
pub mod adversary;
pub mod batch;
pub mod chance;
pub mod change;
pub mod classifier;
pub mod delay_adversary;
pub mod ecn;
pub mod engine;
pub mod fairness;
pub mod framing;
pub mod guaranteed_rate;
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
mod transmission;

pub use change::{ChangeError, Prepared};
pub use engine::Engine;
pub use message::{Corrupt, DropReason, Dropped, EcnMark, Emit, Output, PipeId};
