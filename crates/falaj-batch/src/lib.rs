//! Packets in batches between two processes.
//!
//! When a batch leaves, and which packets are in it, is [`falaj_engine::batch`]'s matter; here is
//! what carries it. Neither process believes the other. The crate is a stack of layers, told here
//! from the bottom up.
//!
//! # Memory
//! [`memory`] is memory that two processes share, sealed so that neither can take it away, and
//! read and written as atomics alone.
//!
//! # Rings
//! [`ring`] is a ring in such memory: one writer, one reader, byte strings in order. What the
//! other side has written is copied out once, then checked; indices that cannot be are the end of
//! that ring alone. It is generic over its memory, so that every order of the two sides' steps can
//! be tried.
//!
//! # Endpoints
//! [`endpoint`] is one side of a pair of rings: it passes descriptors to the peer over a socket,
//! wakes it, is woken by it, and sees when it is gone.
//!
//! # memif
//! [`memif`] is another form of memory and rings, which other programs have too (VPP, libmemif):
//! its messages, both roles, frames, and batches where both sides are falaj.
//!
//! # Crossing
//! [`crossing`] packs packets into batches on one side of an endpoint, or of memif, and unpacks
//! them on the other; both ways at once.
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
