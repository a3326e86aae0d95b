//! The disciplines by name: those of the list in [`disciplines`], and the plug-in discipline, which
//! is loaded from a library.

pub use crate::contract::visitor::Visitor;

use crate::contract::manifest::Manifest;
use crate::contract::params::{ConfigErrors, Setup};
use crate::disciplines;
use crate::scheduler::guard::Guard;
use alloc::borrow::Cow;

/// Manifests of all built-in kinds.
pub const ENTRIES: &[Manifest] = disciplines::MANIFESTS;

/// The default discipline.
pub const DEFAULT: &Manifest = &disciplines::fifo::MANIFEST;

/// The manifest of the kind whose discipline is loaded from a library. It is not in [`ENTRIES`],
/// because it needs a library.
pub const PLUGIN: &Manifest = &crate::scheduler::guard::MANIFEST;

/// The manifests of all kinds, [`PLUGIN`] included.
pub fn all() -> impl Iterator<Item = &'static Manifest> + Clone {
    ENTRIES.iter().chain([PLUGIN])
}

/// The manifest of `kind`.
pub fn entry(kind: &str) -> Option<&'static Manifest> {
    all().find(|e| e.kind == kind)
}

/// Returns true if the discipline `kind` takes a tree of its own kind as a
/// [whole](Manifest::whole_trees).
pub fn takes_trees(kind: &str) -> bool {
    entry(kind).is_some_and(|manifest| manifest.whole_trees)
}

/// Returns the setup as a discipline of `kind` serves it. If the discipline [takes trees
/// whole](Manifest::whole_trees), its flows are the leaves of the tree. Otherwise `setup` is
/// unchanged.
pub fn joined<'a>(kind: &str, setup: &'a Setup) -> Cow<'a, Setup> {
    if takes_trees(kind) { setup.flattened(kind) } else { Cow::Borrowed(setup) }
}

/// Builds the discipline `kind` and passes it to `visitor`.
///
/// # Panics
/// If there is no such kind, so that [`entry`] returns `None`.
pub fn build<V: Visitor>(kind: &str, setup: &Setup, visitor: V) -> Result<V::Output, ConfigErrors> {
    if kind == PLUGIN.kind {
        return Ok(visitor.visit(Guard::new(setup)?));
    }
    disciplines::build(kind, setup, visitor)
        .unwrap_or_else(|| panic!("no discipline is called {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    /// Manifests must not print addresses: the address of a function may differ between two copies
    /// of one manifest.
    #[test]
    fn manifests_print_no_addresses() {
        for manifest in all() {
            let printed = format!("{manifest:?}");
            assert!(!printed.contains("0x"), "{printed}");
        }
    }

    #[test]
    fn manifests_are_complete_and_name_keys_that_there_are() {
        for (n, manifest) in all().enumerate() {
            let Manifest { kind, doc, source, cost, guarantee, guarantee_source, .. } = *manifest;
            let texts = [kind, doc, source, cost, guarantee, guarantee_source];
            assert!(texts.iter().all(|text| !text.is_empty()), "{kind}: {texts:?}");
            assert!(all().take(n).all(|other| other.kind != kind), "{kind} is given twice");
            let single = [manifest.weight_key, manifest.cap_key, manifest.oversubscribed_by];
            let keys = single.into_iter().flatten();
            let keys = keys.chain(manifest.editable.iter().map(|(key, _)| *key));
            for key in keys.chain(manifest.draw.leaves_only.iter().copied()) {
                assert!(manifest.flow_param(key).is_some(), "{kind} has no key `{key}`");
            }
            let limited = manifest.idles.and_then(|idles| idles.only_with);
            for name in manifest.draw.values.iter().map(|(name, _)| *name).chain(limited) {
                let mut params = manifest.scheduler.iter().chain(manifest.flow);
                assert!(params.any(|param| param.name == name), "{kind} has no `{name}`");
            }
        }
    }
}
