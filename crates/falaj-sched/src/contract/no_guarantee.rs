//! The reason why a discipline guarantees nothing to a flow.

use alloc::string::String;

/// The reason why there is no guarantee, and a way to get one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoGuarantee(pub String);
