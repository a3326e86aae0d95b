//! Warnings about values that are legal but hardly intended, with cures.

mod amount;
pub(crate) mod envelope;
pub(crate) mod headers;
pub(crate) mod queues;
pub(crate) mod routing;
