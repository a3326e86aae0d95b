//! Which links packets pass: rules in order, and the tables that they look into.

pub(crate) mod rules;
pub(crate) mod tables;
