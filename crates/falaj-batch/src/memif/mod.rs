//! memif 2.0, the shared memory interface of VPP, which other programs support too (libmemif,
//! gomemif, DPDK).
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | messages of the control channel, and their bytes |
//! | [`channel`] | the socket that carries them, with descriptors |
//! | [`session`] | the order of messages, in both roles; batches, if both sides are falaj |
//! | [`ring`] | rings of descriptors |
//! | [`region`] | the memory of rings |
//! | [`link`] | a ring in each direction, and wake-ups |
//! | [`socket`] | a named socket that serves one peer after the other |
//!
//! There is one ring in each direction, one interface for each socket, and Ethernet frames. Nothing
//! that the peer sends or writes is trusted; memory that could shrink while it is used is refused.

pub mod channel;
pub mod link;
pub mod message;
pub mod region;
pub mod ring;
pub mod session;
pub mod socket;
