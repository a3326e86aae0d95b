//! The schedulers and queues of falaj, without clock, threads and I/O: the caller passes time and
//! queues to a discipline, which makes the decisions.
//!
//! The crate is a stack of layers, described here from the bottom up.
//!
//! # Units
//! [`units`] has integer [time](units::time), [rates](units::rate) and the wire that turns bytes
//! into time, and links whose [capacity](units::capacity) is a token bucket or changes over time.
//! It also has [probabilities](units::probability) as integers, [random numbers](units::draws) by a
//! key and an index, and the [label](units::label) of a packet: its ECN bits, its connection, how
//! early it left the previous pipe, and how long it waited before a change.
//!
//! # Collections
//! [`collections`] has the data structures: a [calendar](collections::calendar) of instants, a
//! tournament tree and a four-ary heap of tags, sets of flows and of priority levels.
//!
//! # Contract
//! [`contract`] is the part that a new discipline needs: the trait
//! [`Discipline`](contract::discipline::Discipline), the [hooks](contract::hooks) that only few
//! disciplines implement, the [parameters](contract::params) that users set, described once, and
//! the [guarantees](contract::guarantee) that follow from them, each with its formula and its
//! condition. A table there lists the calls. `examples/by_hand.rs` drives a discipline by hand.
//!
//! # Queues
//! [`queues`] has the [queues](queues::queue) themselves, all in one pool of packets, and
//! [active queue management](queues::aqm): CoDel, PIE and RED.
//!
//! # Mechanisms
//! [`mechanisms`] has the parts that several disciplines share: active lists, timestamps, virtual
//! time, token buckets, the fluid server [GPS](mechanisms::gps), [class
//! trees](mechanisms::classes), and the rule for rates that
//! [oversubscribe](mechanisms::oversubscription) a link.
//!
//! # Disciplines
//! [`disciplines`] has one file or folder for each discipline: strict priority, round robin in its
//! many forms, fair queueing by timestamps, deadlines, shapers, hierarchies of minima and caps, and
//! disciplines that manage their own queues. The [`registry`] finds them by name.
//!
//! # Schedulers
//! [`scheduler`] puts queues and a discipline together in an [instance](scheduler::instance). It
//! also has the [tree](scheduler::tree), in which a discipline divides a flow of the discipline
//! above, instances with [active queue management](scheduler::with_aqm), and the guard in front of
//! a [plug-in](scheduler::guard).
//!
//! Nothing here needs `std`. On the packet path, memory is allocated only when the pool of packets
//! or a list becomes longer than ever before. Such lists are those of active queue management, and
//! the record of arrivals of DRR+.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod collections;
pub mod contract;
pub mod disciplines;
pub mod mechanisms;
pub mod queues;
pub mod registry;
pub mod scheduler;
pub mod units;
