//! memif 2.0, the shared memory interface of VPP, as other programs have it too (libmemif, gomemif,
//! DPDK).
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | messages of the control channel, and their bytes |
//! | [`channel`] | the socket that they come over, descriptors with them |
//! | [`session`] | what is said in which order, in both roles; batches, if both sides are falaj |
//! | [`ring`] | rings of descriptors |
//! | [`region`] | the memory that they are in |
//! | [`link`] | a ring each way, and wake-ups |
//! | [`socket`] | the socket's name: one peer after the other |
//!
//! One ring each way, one interface for each socket, Ethernet frames. Nothing that the peer says or
//! writes is believed; memory that could become shorter under our hands is refused.

pub mod channel;
pub mod link;
pub mod message;
pub mod region;
pub mod ring;
pub mod session;
pub mod socket;
