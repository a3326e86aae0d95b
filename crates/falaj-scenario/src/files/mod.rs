//! Other files that a scenario names: what stands in them, and where it is wrong.

pub(crate) mod dist;
pub(crate) mod named;
pub(crate) mod place;
pub(crate) mod profile;
pub(crate) mod trace;
