//! Tests of the program that need no network interface of the kernel, in one test binary, so that
//! it is linked once.

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
