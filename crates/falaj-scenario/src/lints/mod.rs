//! Values that are legal but hardly meant: what of them is unlikely, and what
//! to write.

mod amount;
pub(crate) mod envelope;
pub(crate) mod headers;
pub(crate) mod queues;
pub(crate) mod routing;
