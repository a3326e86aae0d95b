//! The service: a link divided among virtual adapters, each with a guarantee that is watched; asked
//! and changed while it runs.
//!
//! The link's thread has the forwarder and nothing else to do. The watch and the API have a thread
//! each, and ask for what they want at the handler of the control socket: a packet never waits for
//! them.
//!
//! **The service.** [`service`] is `falaj serve` itself. `ports` opens adapters and the uplink, and
//! those that come and go; `addresses` keeps their learned Ethernet addresses over restarts;
//! `rights` gives up what the process need no longer do; `supervise` is a process beside it that
//! has the kernel join the interfaces when the service was killed; `upgrade` has a new process go
//! on with all of it; `sign_of_life` tells how long none was there. `log` is what it writes while
//! it runs, for people or a journal; `manager` what a service manager is told.
//!
//! **The guarantee watch.** Each second `watch` compares what was guaranteed with what is;
//! `breaches` are told and remembered, `model` is all of that as JSON, and `published` the last of
//! it, with what was changed since.
//!
//! **The API.** `api` answers over HTTP; `keys` is what the body of a request sets; `connections`
//! says who connects, and for how long; `tls` and `secret` who the service is and who may ask;
//! `metrics` is the same as OpenMetrics. `page` is the dashboard that the program carries, which
//! asks the API, and [`top`] the terminal screen, another program that asks it.
//!
//! [`mod@bench`] is `falaj bench serve`: the same with thousands of adapters in memory.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// All of its macros: the standard library's `eprintln!` panics where standard error is closed.
#[macro_use]
extern crate falaj_terminal;

mod addresses;
mod api;
pub mod bench;
mod breaches;
mod connections;
mod keys;
mod log;
mod manager;
mod metrics;
mod model;
mod page;
mod ports;
mod published;
mod rights;
mod secret;
pub mod service;
mod sign_of_life;
mod supervise;
mod tls;
pub mod top;
mod upgrade;
mod watch;
