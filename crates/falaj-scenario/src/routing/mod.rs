//! Routing of packets over links: rules in order, and their lookup tables.

pub(crate) mod rules;
pub(crate) mod tables;
