//! What goes in and how what comes out is measured.
//!
//! | module | what it holds |
//! |---|---|
//! | [`source`] | sources as iterators of packets: Poisson, CBR, bursts, Markovian arrivals, video, envelopes' worst, recordings; shaped and policed |
//! | [`tcp`] | sources that hear what becomes of their packets: Reno, CUBIC, DCTCP, BBR-like |
//! | [`meter`] | delays: exact mean and maximum, percentiles from a histogram |
//! | [`capture`] | what entered a live link and what became of it, as pcapng; written and read |
//! | [`interval`] | confidence intervals over replications |
//! | [`mser`] | where a simulation has warmed up |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

pub mod capture;
pub mod interval;
pub mod meter;
pub mod mser;
pub mod source;
pub mod tcp;
