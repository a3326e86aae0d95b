//! Traffic sources, and the measurement of what leaves a link.
//!
//! | module | content |
//! |---|---|
//! | [`source`] | sources as iterators of packets: Poisson, CBR, bursts, Markovian arrivals, video, worst cases of envelopes, recordings; shaped and policed |
//! | [`tcp`] | sources that react to the fate of their packets: Reno, CUBIC, DCTCP, BBR-like |
//! | [`meter`] | delays: exact mean and maximum, percentiles from a histogram |
//! | [`capture`] | captures of a live link as pcapng, arrivals and verdicts: written and read |
//! | [`interval`] | confidence intervals over replications |
//! | [`mser`] | the end of a simulation's warm-up |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

pub mod capture;
pub mod interval;
pub mod meter;
pub mod mser;
pub mod source;
pub mod tcp;
