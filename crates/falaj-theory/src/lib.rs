//! Network calculus: what may be sent and what is served at least are curves,
//! and bounds on delay and backlog are distances between them.
//!
//! The formulas are those of Le Boudec and Thiran, "Network Calculus" (2001),
//! cited by their numbers there. Time is in nanoseconds, data in bytes, and
//! every number is an exact fraction of whole ones, as long as it needs to be:
//! nothing is rounded and nothing overflows.
//!
//! ```
//! use falaj_sched::units::{rate::Rate, time::Span};
//! use falaj_theory::{Curve, exact};
//!
//! // 3000 B at once, 10 Mbit/s in the long run; served with 20 Mbit/s after a millisecond.
//! let sent = Curve::token_bucket(Rate::from_mbit(10), 3000);
//! let served = Curve::rate_latency(Rate::from_mbit(20), Span::from_millis(1));
//! // 1 ms + 3000 B / 20 Mbit/s.
//! assert_eq!(sent.delay(&served).unwrap().length, exact(2_200_000));
//! // 3000 B + 1 ms * 10 Mbit/s.
//! assert_eq!(sent.backlog(&served).unwrap().length, exact(4_250));
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `curve` | curves, their sum, minimum, convolution and deconvolution, and what is left over of a service |
//! | `distance` | delay and backlog: the distances between two curves |
//! | [`dcf`] | what stations of an 802.11 channel get that always have packets; of probabilities, and not exact |
//! | [`network`] | servers in a row: bounds from end to end |
//! | `envelope` | the lowest and the highest of many straight lines, which the operations come down to |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod curve;
pub mod dcf;
mod distance;
mod envelope;
pub mod network;

pub use curve::{Curve, Exact, NotACurve, Piece, exact, float, slope, whole};
pub use distance::Distance;
