//! Data structures keyed by flow: which of many is due first, which has the smallest tag, which
//! belong to a set.

pub mod calendar;
pub(crate) mod flow_set;
pub(crate) mod level_set;
pub(crate) mod quad_heap;
pub(crate) mod tournament;
