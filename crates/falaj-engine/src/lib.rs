//! The packet engine of falaj, without I/O of its own: units go in with the time of their arrival,
//! and come out with the time at which they are due. It has no clock, no thread and no socket, so
//! that the simulator, the live forwarder and the relay drive the same code, and the same input
//! with the same seed gives the same output, bit for bit. `examples/packets_through_an_engine.rs`
//! is the shortest driver. From the ground up:
//!
//! **Messages.** [`message`] has the inputs and outputs of an engine: a [`Unit`](message::Unit) is
//! a handle to bytes that are stored elsewhere; an [`Output`] reports that a unit leaves, is lost,
//! copied, corrupted or marked. [`counted_layer`] is the layer whose bytes a rate counts,
//! [`framing`] adds the bytes that the link itself needs (overhead and cells), and [`ecn`] reads
//! and writes the ECN bits of frames. [`chance`] draws random numbers addressed by seed, element
//! (an impairment or a source, for example), flow and index, so that no draw depends on timing.
//!
//! **Classification.** [`key`] reads the headers of any frame; [`header`] has the types of their
//! fields: IP versions, protocols, prefixes. A [`term`] is one condition on a key; a [`table`] maps
//! addresses, ports and other fields to entries; a [`lookup`] finds the first of many rules that
//! matches a packet, in few steps. The [`classifier`] of a pipe assigns a flow to a packet;
//! [`rules`] determine the links that a packet passes, and their order; a [`policer`] limits the
//! packets that a rule takes.
//!
//! **Pipes.** A [`pipe`] consists of queues, a scheduler of falaj-sched and a link. It calls the
//! discipline at the instants that the contract of schedulers names. It decides for nominal
//! instants, at which events are due, so that polls may come late or twice. [`impair`] has the
//! impairments of the link: loss, duplication, corruption, jitter, reordering, slots, profiles.
//! [`masks`] create flows and links on the fly: each id, the part of a key that a mask selects,
//! gets a queue or a link of its own.
//!
//! **The engine.** An [`Engine`] owns the pipes and the only calendar of their events. A
//! [`network`] joins pipes by rules: a packet that leaves one pipe enters the next at the instant
//! at which it is due there.
//!
//! **Changes.** A [`change`] builds the successors of pipes in advance, which may fail and take
//! long. Applying it fails only if the change no longer fits, and loses only packets that may be
//! dropped. [`handover`] maps each flow to its successor; a [`transaction`] is a change of pipes,
//! classifiers and rules at one instant.
//!
//! **Batches.** [`batch`] packs packets that cross a boundary together, and keeps the statistics
//! for choosing the size of batches.
//!
//! **Measures.** [`guaranteed_rate`] finds the packets whose departure proves that a guaranteed
//! rate was not kept; [`fairness`] computes from a pipe's departures how far a flow was behind its
//! share; [`adversary`] searches for the arrivals by which a flow falls behind most, and
//! [`delay_adversary`] for those that delay its packets longest.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

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
pub mod policer;
pub mod rules;
pub mod table;
pub mod term;
pub mod transaction;
mod transmission;

pub use change::{ChangeError, Prepared};
pub use engine::Engine;
pub use falaj_sched::units::counted_layer;
pub use message::{Corrupt, DropReason, Dropped, EcnMark, Emit, Output, PipeId};
