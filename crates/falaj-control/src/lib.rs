//! A link that runs, under control: what the commands that carry packets share.
//!
//! **Before a run.** [`live_links`] refuses scenarios that live links cannot carry and warns of
//! what they cost; [`host_limits`] warns of rates and delays beyond those that `falaj doctor`
//! measured on this host; [`pacing`] and [`batching`] are the options of how the loop waits and how
//! packets cross in batches. [`confinement`] takes all files from a link's process but those that
//! it goes on to use.
//!
//! **While it runs.** A control socket answers `falaj show` and `falaj set`, and so does the API of
//! a service. [`protocol`] is what is said there; `sockets` where sockets stand, and `server`
//! the connections; [`client`] is the other end. The control [`handler`] keeps the scenario that is
//! running, has its own thread, and asks the forwarder's thread through a channel of `messages`;
//! [`endpoint`] is the forwarder's side. [`difference`] computes what changes of a link that runs;
//! [`terms`] what its flows are held to; [`running`] describes what runs, [`recording`] writes down
//! what passes. [`masks`] is what masks made, as text and as JSON.
//!
//! **After it.** [`summary`] tells what the link did: a table, JSON, and conditions under which the
//! run has failed.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// All of its macros: the standard library's `eprintln!` panics where standard error is closed.
#[macro_use]
extern crate falaj_terminal;

pub mod batching;
pub mod client;
pub mod confinement;
pub mod difference;
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
mod server;
pub mod sockets;
pub mod summary;
pub mod terms;
