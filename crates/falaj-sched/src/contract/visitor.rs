//! Handing over a discipline as its own type.

use crate::contract::complete::CompleteDiscipline;

/// Receives a discipline as its own type, so that all that is built around it is compiled for it
/// alone.
pub trait Visitor {
    /// The visitor's result.
    type Output;
    /// Called once, with the discipline.
    fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output;
}
