//! The reason why a discipline guarantees nothing to a flow.

use alloc::string::String;

/// Why there is no guarantee, and what would bring one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPromise(pub String);
