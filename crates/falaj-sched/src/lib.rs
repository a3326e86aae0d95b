//! The part of falaj that knows no clock, no thread and no I/O: disciplines
//! decide, time and queues are given to them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`time`], [`rate`] | integer time, rates, the wire that turns bytes into time |
//! | [`queue`] | the queues that disciplines look at and pipes fill |
//! | [`discipline`] | the contract: what a discipline is asked, and what it may answer |
//! | [`station`] | queues and the discipline that serves them |
//! | [`params`] | what people may set, described once |
//! | [`promise`] | what a discipline guarantees, by which formula, under which condition |
//! | [`registry`] | the disciplines by name |
//! | [`fifo`], [`drr`], [`timer_wheels`], [`virtual_links`], [`phase_wise`], [`packet_wise`] | one discipline, one file |
//!
//! Nothing here needs `std`, and nothing allocates on the packet path but the
//! pool of packets, when more are queued than ever before.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod discipline;
pub mod drr;
pub mod fifo;
mod flow_set;
pub mod packet_wise;
pub mod params;
pub mod phase_wise;
pub mod promise;
pub mod queue;
pub mod rate;
pub mod registry;
pub mod station;
pub mod time;
pub mod timer_wheels;
pub mod virtual_links;
