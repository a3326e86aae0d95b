//! Network calculus: curves bound the arrivals and the service of a flow, and distances between
//! them bound its delay and its backlog.
//!
//! The formulas are those of Le Boudec and Thiran, "Network Calculus" (2001), cited by their
//! numbers there. Time is in nanoseconds, data in bytes. Every number is an exact fraction of whole
//! numbers of any length, so nothing overflows. Only the analysis of a network rounds: it rounds up
//! bursts between servers, by less than a millionth of a byte. If paths form a circle, it also
//! rounds up delays to whole nanoseconds. The modules `dcf` and `linear` compute in floating-point
//! numbers.
//!
//! ```
//! use falaj_sched::units::{rate::Rate, time::Span};
//! use falaj_theory::{Curve, exact};
//!
//! // 3000 B at once and 10 Mbit/s in the long run, served at 20 Mbit/s after a millisecond.
//! let sent = Curve::token_bucket(Rate::from_mbit(10), 3000);
//! let served = Curve::rate_latency(Rate::from_mbit(20), Span::from_millis(1));
//! // 1 ms + 3000 B / 20 Mbit/s.
//! assert_eq!(sent.delay(&served).unwrap().length, exact(2_200_000));
//! // 3000 B + 1 ms * 10 Mbit/s.
//! assert_eq!(sent.backlog(&served).unwrap().length, exact(4_250));
//! ```
//!
//! | module | content |
//! |---|---|
//! | `curve` | curves, their sum, minimum, convolution and deconvolution, and left-over service |
//! | `distance` | delay and backlog: the distances between two curves |
//! | [`dcf`] | throughput of 802.11 stations that always have packets; computed from probabilities, not exact |
//! | `in_order` | the delay over servers in a row that serve in the order of arrival |
//! | `joint` | arrival curves of several flows together |
//! | `linear` | delay along a path by a linear program; not exact, and enlarged by a millionth |
//! | [`network`] | end-to-end bounds over servers in a row |
//! | `envelope` | minimum and maximum of many straight lines, on which the operations are built |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod curve;
pub mod dcf;
mod distance;
mod envelope;
mod in_order;
mod joint;
mod linear;
pub mod network;

pub use curve::{Curve, Exact, NotACurve, Piece, exact, float, slope, whole};
pub use distance::Distance;
