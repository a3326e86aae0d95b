//! falaj on live packets.
//!
//! | module | what it holds |
//! |---|---|
//! | [`event_loop`] | ports, the engine between them, the release timer; a capture of what passes |
//! | [`backend`] | where units enter and leave, one file or folder for each kind |
//! | [`adapters`] | many virtual adapters at one end of a link, and what they share at the other one |
//! | [`gso`] | units of many packets: how many, how long, and how to cut them |
//! | [`wiring`], [`addressing`] | from a scenario to an engine with ports, and to datagrams in the right flows |
//! | [`sandbox`] | network namespaces, joined by a link whose packets pass through the caller |
//! | [`topology`] | more than two ends: hosts, the links between them, and the ways from one to another |
//! | [`nat`] | from the far side to the world, through a user-mode stack or the host |
//! | [`kernel_bridge`] | interfaces joined by the kernel's own bridge while nobody forwards between them |
//! | [`traffic`] | sources as real datagrams, and what arrives of them; a flood; a probe |
//! | [`host`] | what this host allows |
//! | [`error`] | what fails while namespaces and sockets are made, and what to try |
//! | [`clock`], [`priority`], [`signals`] | one clock; being on time; signals as something to read |
//! | [`heap`] | where memory is allocated |
#![deny(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[cfg(not(target_os = "linux"))]
compile_error!("falaj-live speaks to the Linux kernel and builds only there");

pub mod adapters;
pub mod addressing;
pub mod backend;
pub mod clock;
pub mod error;
pub mod event_loop;
pub mod gso;
pub mod heap;
pub mod host;
pub mod kernel_bridge;
mod link_end;
pub mod nat;
mod netns;
mod poll;
pub mod priority;
mod process;
pub mod sandbox;
pub mod signals;
mod socket_buffer;
mod sys;
pub mod topology;
pub mod traffic;
pub mod wiring;
