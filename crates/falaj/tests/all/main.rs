//! The program as a user sees it, where no packet has to pass a kernel's interface: one program, so
//! that it is linked once.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/libraries.rs"]
mod libraries;

#[cfg(all(feature = "lab", feature = "queueing"))]
mod aggregate;
mod cli;
mod documents;
mod export;
mod help;
mod messages;
mod plugin;
mod relay;
#[cfg(feature = "lab")]
mod reproduce;
