//! All integration tests of this crate, as one program: each file is a module.

mod conformance;
mod every_message;
mod firewall;
mod fuzz;
mod ipfw;
mod lists;
mod tc;
mod time;
mod words;
