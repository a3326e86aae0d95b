//! Data structures that find the flow with the earliest due time or the smallest tag, or hold sets
//! of flows or of levels.

pub mod calendar;
pub(crate) mod flow_set;
pub(crate) mod level_set;
pub(crate) mod quad_heap;
pub(crate) mod tournament;
