//! The reason why a discipline guarantees nothing to a flow.

use alloc::string::String;

/// The reason why there is no guarantee, and a way to get a guarantee, as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoGuarantee(pub String);
