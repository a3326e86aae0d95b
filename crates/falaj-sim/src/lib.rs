//! falaj in simulated time: the very engine that moves live packets, fed by
//! sources instead of interfaces.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`] | from a scenario to an experiment |
//! | [`headers`] | what packets of a source look like to masks |
//! | [`mod@simulate`] | one run: sources, engine, meters |
//! | [`mod@replicate`] | many runs with seeds of their own, on all cores |
//! | [`observer`], [`time_bins`], [`packet_window`] | who watches a run: packet by packet; in parts of its time; around its longest delay |
//! | [`study`], [`measure`] | what replications say together, with intervals; what is measured, by name |
//! | [`replication_plan`] | warm-up, and as many replications as it takes; several experiments in pairs |
//! | [`until`] | as many replications as intervals need |
//! | [`cores`] | independent tasks on all cores |
//! | [`mod@rows`] | what a run has measured of each flow, in numbers |
//! | [`mod@sweep`] | a scenario with other values, each combination, in shards |
//! | [`mod@replay`] | what entered a live link, once more |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod closed_loop;
pub mod cores;
mod delays;
pub mod headers;
pub mod measure;
pub mod observer;
pub mod packet_window;
pub mod replay;
pub mod replicate;
pub mod replication_plan;
pub mod rows;
pub mod scenario;
mod series;
pub mod simulate;
pub mod study;
pub mod sweep;
pub mod time_bins;
pub mod until;

pub use replicate::{Progress, replicate};
pub use replication_plan::{ReplicationPlan, WarmUp, WarmUpMethod, Warmed};
pub use rows::{Row, rows};
pub use simulate::{Experiment, Feed, FlowResult, Many, Run, simulate, simulate_watched};
pub use study::{Connections, Gathered, Study};
pub use sweep::{Axis, Results, Shard, Sweep, SweepError, Table};
