//! Passing a discipline as its concrete type.

use crate::contract::complete::CompleteDiscipline;

/// Receives a discipline as its concrete type, so that the code around it is compiled for it.
pub trait Visitor {
    /// The visitor's result.
    type Output;
    /// Called once, with the discipline.
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output;
}
