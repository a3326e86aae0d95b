//! Files that a scenario names: their contents, and the places of errors in them.

pub(crate) mod dist;
pub(crate) mod link_trace;
pub(crate) mod named;
pub(crate) mod place;
pub(crate) mod profile;
pub(crate) mod trace;
