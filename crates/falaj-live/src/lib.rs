//! falaj on live packets.
//!
//! | module | what it holds |
//! |---|---|
//! | [`sandbox`], [`tap`] | two network namespaces, a TAP interface in each |
//! | [`packet`] | packet sockets at existing interfaces, in this network namespace or another one |
//! | [`xdp`] | AF_XDP sockets at existing interfaces |
//! | [`nfqueue`] | packets on their own way, held by the kernel |
//! | [`memif`] | shared memory interfaces of other programs |
//! | `vhost_user` (feature `vhost-user`) | guests' network cards |
//! | [`interface`] | an end of a bridge, by any of them |
//! | [`port`], [`relay`] | where units enter and leave: TAP; loopback sockets where there are no namespaces |
//! | [`plug`] | interfaces joined by the kernel's own bridge while nobody forwards between them |
//! | [`adapters`] | many virtual adapters at one end of a link, and what they share at the other one |
//! | [`aggregate`] | a port whose packets cross to another process in containers |
//! | [`gso`] | units of many packets: how many, how long, and how to cut them |
//! | [`forward`], [`timer`], `rest` | the live loop: ports, the engine between them, and how it waits |
//! | [`record`] | a capture of what passes, written beside the loop |
//! | [`attach`], [`ends`] | from a scenario to an engine with ports, and to datagrams in the right flows |
//! | [`topology`] | more than two ends: hosts, the links between them, and the ways from one to another |
//! | [`datagrams`] | sources as real datagrams, and what arrives of them |
//! | [`flood`] | as many small datagrams as go |
//! | [`probe`] | one datagram after the other, waited for without sleeping |
//! | [`way_out`] | from the far side to the world, through a user-mode stack or the host |
//! | [`host`] | what this host allows |
//! | [`clock`], [`priority`], [`signals`] | one clock; being on time; signals as something to read |
//! | [`heap`] | where memory is allocated |
#![deny(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[cfg(not(target_os = "linux"))]
compile_error!("falaj-live speaks to the Linux kernel and builds only there");

pub mod adapters;
pub mod aggregate;
pub mod attach;
mod buffer;
pub mod clock;
pub mod datagrams;
pub mod ends;
pub mod flood;
pub mod forward;
pub mod gso;
pub mod heap;
pub mod host;
pub mod interface;
pub mod memif;
pub mod nfqueue;
pub mod packet;
pub mod plug;
mod poll;
mod pool;
pub mod port;
pub mod priority;
pub mod probe;
pub mod record;
pub mod relay;
mod release;
mod rest;
pub mod sandbox;
pub mod signals;
pub mod tap;
pub mod timer;
pub mod topology;
mod units;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;
pub mod way_out;
pub mod xdp;
