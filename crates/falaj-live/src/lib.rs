//! falaj on live packets: the engine between interfaces of Linux, in real time.
//!
//! The crate is a stack of layers, told here from the bottom up.
//!
//! # The system
//! [`clock`] is the one clock, CLOCK_MONOTONIC, and what threads cost. [`priority`] has a thread
//! run on time, [`signals`] makes signals something to read, [`heap`] has all threads allocate
//! from one heap, [`host`] asks what this host allows, [`listening`] at which ports programs
//! listen, and [`passing`] takes bytes and descriptors from one process to another. What fails
//! while processes, namespaces and sockets are made is an [`error`] that names the step and what
//! to try. Private modules beside them hold the system calls: processes that are copies of this
//! one, other network namespaces, interfaces asked by name.
//!
//! # Units
//! [`gso`] knows units of many packets, as segmentation offload makes them: how many packets, how
//! long, and how to cut and to join them.
//!
//! # Backends
//! [`backend`] is where units enter and leave: TAP interfaces, packet and AF_XDP sockets, queues
//! of the firewall, shared memory of other programs, guests' cards, each a [`Port`](backend::Port)
//! to read and write. What an end of a bridge may be stands there in one table. [`loops`] finds
//! interfaces that the kernel joins already.
//!
//! # The event loop
//! [`event_loop`] is the forwarder: it reads units, gives their packets to the engine with the
//! time, and hands them over when they are due. It waits by spinning, sleeping, or both; it keeps
//! what a device has no room for, holds flows against their guarantees, takes changes between two
//! packets, and writes a capture beside all that.
//!
//! # Namespaces
//! [`sandbox`] makes the two sides of a link in network namespaces, runs a command in each, and
//! leaves nothing behind. [`topology`] is for more than two: hosts, the links between them, and
//! the routes. [`nat`] leads from the far side to the world, through a user-mode stack or the
//! host, and [`host_port`] from the near side's loopback addresses to the host's.
//! [`kernel_bridge`] joins interfaces by the kernel's own bridge while nothing forwards between
//! them. [`adapters`] are many virtual adapters at one end of a link, with what they share at the
//! other.
//!
//! # From a scenario
//! [`wiring`] makes a forwarder of a scenario's links and the ports at their ends. [`traffic`]
//! sends a scenario's sources as real datagrams and measures what arrives; [`addressing`] finds
//! addresses and ports by which the scenario's own rules put them in the right flows.
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
pub mod host_port;
pub mod kernel_bridge;
mod link_end;
pub mod listening;
pub mod loops;
pub mod nat;
mod netns;
pub mod passing;
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
