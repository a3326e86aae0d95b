//! The contract between a discipline and everything around it: the calls that it answers, the
//! parameters that it takes, and the guarantees that it gives.

pub mod breach;
pub mod discipline;
pub mod draw;
pub mod guarantee;
pub mod library;
pub mod manifest;
pub mod no_guarantee;
pub mod params;
pub mod transmission;
pub mod visitor;
pub mod wfi;
