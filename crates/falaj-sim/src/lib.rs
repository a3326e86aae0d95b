//! falaj in simulated time: the engine that moves live packets, fed by sources instead of
//! interfaces.
//!
//! | module | content |
//! |---|---|
//! | [`scenario`] | from a scenario to an experiment |
//! | [`headers`] | headers of simulated packets, as masks and rules see them |
//! | [`mod@simulate`] | one run: sources, engine, meters |
//! | [`mod@replicate`] | many runs, each with its own seed, on all cores |
//! | [`observer`], [`time_bins`], [`packet_window`] | observers of a run: packet by packet; per part of its time; around its longest delay |
//! | [`study`], [`measure`] | results over all replications, with confidence intervals; the measures, by name |
//! | [`replication_plan`] | warm-up and the number of replications; several experiments compared in pairs |
//! | [`until`] | replications until the intervals are as narrow as required |
//! | [`cores`] | independent tasks on all cores |
//! | [`mod@rows`] | the results of a run as numbers, one row per flow |
//! | [`mod@sweep`] | a scenario with other values: every combination, in shards |
//! | [`mod@replay`] | replay of a live link's arrivals |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod changes;
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
