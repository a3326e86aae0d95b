//! The shared library that a scheduler of the kind `plugin` names.

use crate::diagnostics::Problem;
use crate::read::{Datum, Fields};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Values;
use falaj_sched::registry;
use std::path::Path;

/// Loads the library of a scheduler of kind `plugin`; reports its errors.
pub(crate) fn load(
    entry: &Manifest,
    fields: Option<&Fields<'_>>,
    scheduler: &mut Values,
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Option<()> {
    if entry.kind != registry::PLUGIN.kind {
        return Some(());
    }
    let field = fields.and_then(|fields| fields.field("library"))?;
    let Some(Datum::Name(name)) = field.datum else { return None };
    match falaj_plugin::load(&beside.join(name), name) {
        Ok(library) => scheduler.set_library(library),
        Err(unloadable) => {
            let problem =
                Problem::error(field.at.clone(), format!("`library`: {}", unloadable.what));
            // An error that both directions have is reported once.
            if !problems.iter().any(|said| said.title == problem.title && said.span == problem.span)
            {
                problems.push(problem.help(unloadable.help));
            }
            return None;
        }
    }
    Some(())
}
