//! Control of a running link: the common parts of the commands that carry packets.
//!
//! **Before a run.** [`live_links`] refuses scenarios that live links cannot carry and warns of
//! their costs; [`host_limits`] warns of rates and delays beyond those that `falaj doctor` measured
//! on this host; [`pacing`] and [`batching`] are the options of the event loop's timer and of
//! packets that cross in batches. [`confinement`] removes a link process's access to all files
//! except those that it still uses.
//!
//! **While it runs.** A control socket serves `falaj show` and `falaj set`, and so does the API of
//! a service. [`protocol`] defines its messages; `sockets` has the paths of sockets, and `server`
//! the connections; [`client`] is the other end. The control [`handler`] keeps the running
//! scenario. The socket's thread calls it, and it sends requests to the forwarder's thread through
//! a channel of `messages`; [`endpoint`] is the forwarder's side. [`terms`] has the guarantees of
//! the scenario's flows; [`running`] describes the running command, [`recording`] captures packets,
//! and `schedule` makes the scheduled changes. [`masks`] reports the entries of masks, as text and
//! as JSON.
//!
//! **After it.** [`summary`] reports the results of the link: a table, JSON, and conditions under
//! which the run has failed.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// Replaces macros of the standard library, whose `eprintln!` panics if standard error is closed.
#[macro_use]
extern crate falaj_terminal;

pub mod batching;
pub mod client;
pub mod confinement;
pub mod endpoint;
pub mod handler;
pub mod host_limits;
pub mod live_links;
pub mod masks;
mod messages;
pub mod pacing;
pub mod protocol;
pub mod recording;
pub mod running;
mod schedule;
mod server;
pub mod sockets;
pub mod summary;
pub mod terms;
