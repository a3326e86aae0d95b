//! The part of falaj that knows no clock, no thread and no I/O: disciplines
//! decide, time and queues are given to them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`time`], [`rate`] | integer time, rates, the wire that turns bytes into time |
//! | [`calendar`] | of many things, which is due first |
//! | [`capacity`] | links that are a token bucket, or whose rate changes |
//! | [`queue`] | the queues that disciplines look at and pipes fill |
//! | [`discipline`] | the contract: what a discipline is asked, and what it may answer |
//! | [`label`] | what is known of a packet beyond its length |
//! | [`policy`] | what a queue drops or marks before it is full |
//! | [`managed`] | queues that have such a policy, in front of any station |
//! | [`draws`] | random numbers by a key and an index |
//! | [`station`] | queues and the discipline that serves them |
//! | [`tree`], [`classes`] | a discipline below each flow of another; a tree that one discipline is handed whole |
//! | [`fits`] | rates that flows are given out of a link's, and what becomes of those that are more together |
//! | [`probability`] | probabilities as integers |
//! | [`params`] | what people may set, described once |
//! | [`promise`] | what a discipline guarantees, by which formula, under which condition |
//! | [`registry`] | the disciplines by name |
//! | [`fifo`], [`priority`], [`wrr`], [`hrr`], [`corr`], [`drr`], [`drr_plus`], [`drr_plus_plus`], [`mw00`], [`ets`], [`virtual_links`], [`phase_wise`], [`packet_wise`] | one discipline, one file |
//! | [`gps`] | fluid sharing, which packet disciplines imitate and are measured by |
//! | [`virtual_clock`], [`scfq`], [`sfq`], [`wfq`], [`wf2q`], [`spfq`] | those that stamp packets with shares of a link |
//! | [`qfq`], [`qfq_plus`], [`wf2q_plus`], [`ffs`], [`timer_wheels`] | those that share by virtual time in little time |
//! | [`shaper`], [`cbs`], [`tas`], [`ats`], [`rcsp`], [`mgfq`], [`netback`] | those that hold packets on purpose |
//! | [`xen_wrr`] | turns, and a minimum rate for those that have one |
//! | [`mclock`], [`hclock`], [`hfsc`], [`htb`] | a minimum and a cap for each flow, the rest in proportion |
//! | [`fq_codel`], [`dualpi2`] | those that manage queues of their own |
//! | [`dcf`] | stations that contend for a channel |
//! | [`plugin`] | one that comes from elsewhere, and the guard in front of it |
//! | [`edf`], [`sced`], [`mtr_ls`], [`arc`] | those that stamp them with deadlines, or keep a list |
//!
//! Nothing here needs `std`, and nothing allocates on the packet path but the
//! pool of packets, when more are queued than ever before.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arc;
pub mod ats;
mod bucket;
pub mod calendar;
pub mod capacity;
pub mod cbs;
mod chain;
pub mod classes;
pub mod corr;
pub mod dcf;
pub mod discipline;
pub mod draws;
pub mod drr;
pub mod drr_plus;
pub mod drr_plus_plus;
pub mod dualpi2;
pub mod edf;
pub mod ets;
pub mod ffs;
pub mod fifo;
pub mod fits;
mod flow_set;
pub mod fq_codel;
pub mod gps;
mod groups;
pub mod hclock;
pub mod hfsc;
pub mod hrr;
pub mod htb;
pub mod label;
mod laps;
mod level_set;
pub mod managed;
pub mod mclock;
pub mod mgfq;
pub mod mtr_ls;
mod multiple;
pub mod mw00;
pub mod netback;
pub mod packet_wise;
pub mod params;
pub mod phase_wise;
pub mod plugin;
pub mod policy;
pub mod priority;
pub mod probability;
pub mod promise;
pub mod qfq;
pub mod qfq_plus;
mod quad_heap;
pub mod queue;
pub mod rate;
pub mod rcsp;
pub mod registry;
mod round;
pub mod sced;
pub mod scfq;
pub mod sfq;
pub mod shaper;
mod share;
mod shares;
pub mod spfq;
mod starts;
pub mod station;
mod steads;
pub mod tas;
pub mod time;
pub mod timer_wheels;
mod tournament;
pub mod tree;
pub mod virtual_clock;
pub mod virtual_links;
mod virtual_time;
pub mod wf2q;
pub mod wf2q_plus;
pub mod wfq;
pub mod wrr;
pub mod xen_wrr;
