//! A discipline with all that the contract asks of it.

use crate::contract::discipline::Discipline;
use crate::contract::guarantee::Guarantees;
use crate::contract::hooks::{MediumHooks, QueueHooks};

/// A discipline with its hooks and guarantees, from which a scheduler can be built. It is never
/// implemented by hand: each type with the four traits has it.
pub trait CompleteDiscipline: Discipline + QueueHooks + MediumHooks + Guarantees + 'static {}

impl<D: QueueHooks + MediumHooks + Guarantees + 'static> CompleteDiscipline for D {}
