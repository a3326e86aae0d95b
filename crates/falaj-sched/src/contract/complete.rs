//! A discipline that implements the whole contract.

use crate::contract::discipline::Discipline;
use crate::contract::guarantee::Guarantees;
use crate::contract::hooks::{MediumHooks, QueueHooks};

/// A discipline with its hooks and guarantees, from which a scheduler can be built. It is
/// implemented automatically for each type with the four traits.
#[diagnostic::on_unimplemented(
    note = "a discipline has `Discipline`, `Guarantees`, `QueueHooks` and `MediumHooks`; where it \
            needs no hooks: `impl QueueHooks for {Self} {{}}`, `impl MediumHooks for {Self} {{}}`"
)]
pub trait CompleteDiscipline: Discipline + QueueHooks + MediumHooks + Guarantees + 'static {}

impl<D: QueueHooks + MediumHooks + Guarantees + 'static> CompleteDiscipline for D {}
