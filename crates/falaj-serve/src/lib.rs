//! The service: a link shared by virtual adapters. Each adapter has a guarantee that is monitored.
//! The service is queried and changed while it runs.
//!
//! The link's thread runs the forwarder and nothing else. The watch and the API have a thread each,
//! and send their requests to the handler of the control socket, so packets wait for them only
//! while the link's thread answers a request.
//!
//! **The service.** [`service`] is the command `falaj serve`. `ports` opens adapters and the
//! uplink, including adapters that are added later; `addresses` keeps their learned Ethernet
//! addresses over restarts; `rights` drops the privileges that the process no longer needs;
//! `supervise` is a separate process that joins the interfaces by a kernel bridge if the service is
//! killed; `upgrade` lets a new process take everything over; `sign_of_life` measures how long no
//! service was running. `log` writes the log of the running service, for people or a journal;
//! `manager` sends notifications to a service manager.
//!
//! **The guarantee watch.** Each second `watch` compares the guarantees with the measurements;
//! `breaches` logs and stores violations, `history` stores the last hour of each flow, `model`
//! defines the JSON of all these data, and `published` has the last sample and the changes since
//! then.
//!
//! **The API.** `api` answers over HTTP; `keys` turns the body of a request into settings;
//! `connections` limits the number and the duration of connections; `tls` has the identity of the
//! service, and `secret` warns of secret files that every user may read; `metrics` reports the same
//! data as OpenMetrics. `page` is the dashboard, which is compiled into the program. It uses the
//! API, and so does [`top`], the terminal screen, which is a process of its own.
//!
//! [`mod@bench`] is `falaj bench serve`: a service with very many adapters in memory.
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

// Replaces macros of the standard library, whose `eprintln!` panics if standard error is closed.
#[macro_use]
extern crate falaj_terminal;

mod addresses;
mod api;
pub mod bench;
mod breaches;
mod connections;
mod history;
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
