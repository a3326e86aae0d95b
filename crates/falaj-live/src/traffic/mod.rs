//! Test traffic over real sockets.

pub mod datagrams;
pub mod flood;
pub mod probe;
