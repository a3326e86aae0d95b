//! Packets in containers between two processes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ring`] | one writer, one reader, byte strings in order; neither believes the other |
//! | [`memory`] | memory that two processes share |
//! | [`endpoint`] | one side of a pair of rings, and how the sides wake each other |
//! | [`crossing`] | packets in containers through such a side, or another carrier, both ways |
//! | [`memif`] | another form of memory and rings, which other programs have too |
//!
//! When a container leaves, and what is in it, is
//! [`falaj_engine::batch`]'s matter.
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
