//! Handing over a discipline as its own type.

use crate::contract::discipline::Discipline;

/// Receives a discipline as its own type, so that all that is built around it is compiled for it
/// alone.
pub trait Visitor {
    /// The visitor's result.
    type Output;
    /// Called once, with the discipline.
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output;
}
