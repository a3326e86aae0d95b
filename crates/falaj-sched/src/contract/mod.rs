//! The contract between a discipline and everything around it: the calls that it answers, the
//! parameters that it takes, and the guarantees that it gives.

pub mod discipline;
pub mod guarantee;
pub mod params;
