//! Packets in batches between two processes.
//!
//! [`falaj_engine::batch`] determines when a batch leaves, and which packets are in it; this crate
//! carries the batches. Neither process trusts the other. The crate is a stack of layers, described
//! here from the bottom up.
//!
//! # Memory
//! [`memory`] is memory shared by two processes, sealed so that neither can shrink it, and accessed
//! by atomics only.
//!
//! # Rings
//! [`ring`] is a ring in such memory: one writer, one reader, byte strings in order. The other
//! side's data are copied out once, then checked; impossible indices end that ring alone. The ring
//! is generic over its memory, so that every order of the two sides' steps can be tested.
//!
//! # Endpoints
//! [`endpoint`] is one side of a pair of rings: it passes descriptors to the peer over a socket,
//! wakes the peer and is woken by it, and notices when the peer is gone.
//!
//! # memif
//! [`memif`] is another format of memory and rings, which other programs have too (VPP, libmemif):
//! its messages, both roles, frames, and batches if both sides are falaj.
//!
//! # Crossing
//! [`crossing`] packs packets into batches on one side of an endpoint, or of memif, and unpacks
//! them on the other; in both directions at once.
#![deny(unsafe_code)]
#![warn(clippy::unwrap_used)]

#[cfg(not(target_os = "linux"))]
compile_error!("falaj-batch shares memory as Linux does and builds only there");

pub mod crossing;
pub mod endpoint;
pub mod memif;
#[allow(unsafe_code)]
pub mod memory;
pub mod ring;
mod wake;
