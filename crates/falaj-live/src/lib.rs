//! falaj on live packets: the engine between interfaces of Linux, in real time.
//!
//! The crate is a stack of layers, described here from the bottom up.
//!
//! # The system
//! [`clock`] reads the clock, CLOCK_MONOTONIC, and the resource usage of threads. [`priority`]
//! makes a thread run on time, [`signals`] makes signals readable from a descriptor, and [`heap`]
//! makes all threads allocate from one heap. [`host`] has the capabilities and limits of this host,
//! [`listening`] lists the ports at which programs listen, and [`passing`] passes bytes and
//! descriptors between processes. A failure in creating processes, namespaces and sockets is an
//! [`error`] that names the step and a remedy. Private modules contain the system calls that clone
//! this process, enter other network namespaces, and read properties of interfaces.
//!
//! # Units
//! [`gso`] handles units of many packets, as segmentation offload makes them: their number and
//! lengths, cutting and joining.
//!
//! # Backends
//! A [`backend`] is a place where units enter and leave: TAP interfaces, packet and AF_XDP sockets,
//! queues of the firewall, shared memory of other programs, guests' network cards, each a
//! [`Port`](backend::Port) to read and write. One table in [`backend`] lists all kinds of ends of a
//! bridge. [`loops`] finds interfaces that the kernel joins already.
//!
//! # The event loop
//! [`event_loop`] is the forwarder: it reads units, passes their packets to the engine with the
//! time of arrival, and delivers them when they are due. It waits by spinning, sleeping, or both.
//! It also keeps packets for which a device has no room, checks the guarantees of flows, applies
//! changes between two packets, and writes a capture.
//!
//! # Namespaces
//! [`sandbox`] creates the two sides of a link in network namespaces, runs a command in each, and
//! leaves nothing behind. [`topology`] is for more than two sides: hosts, the links between them,
//! and the routes. [`nat`] connects the far side to the Internet, through a user-mode stack or the
//! host. [`host_port`] connects the near side's loopback addresses to the host's. [`kernel_bridge`]
//! joins interfaces by the kernel's own bridge while nothing forwards between them. [`adapters`]
//! has many virtual adapters at one end of a link, with their shared uplink at the other.
//!
//! # From a scenario
//! [`wiring`] builds a forwarder from a scenario's links and the ports at their ends. [`traffic`]
//! sends a scenario's sources as real datagrams and measures what arrives; [`addressing`] finds
//! addresses and ports with which the scenario's own rules put these datagrams in the right flows.
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
