//! Backends: where units enter and leave, and what an end of a bridge may be.

pub mod batch;
pub mod interface;
pub mod loopback;
pub mod memif;
pub mod nfqueue;
pub mod packet;
pub mod port;
pub mod tap;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;
pub mod xdp;
