//! Impairments of packets behind a link's queue.
//!
//! Each impairment is a constant in one of the files here and an element of [`IMPAIRMENTS`]: its
//! key, the keys of its table with their meaning, and their conversion for the engine. Messages,
//! the reference page and the schema are generated from it.

mod event;
mod jitter;
mod loss;
mod reorder;
mod slot;

use crate::diagnostics::Problem;
use crate::keys::{Key, Table};
use crate::read::{BriefTable, Fields, TableKind};
use falaj_engine::impair::Impairments;
use falaj_sched::units::time::Span;
use std::path::Path;

/// All impairments, in the order of the reference.
pub(crate) const IMPAIRMENTS: &[Impairment] =
    &[loss::LOSS, event::DUPLICATE, event::CORRUPT, reorder::REORDER, jitter::JITTER, slot::SLOT];

/// One impairment in a scenario.
pub(crate) struct Impairment {
    /// The key of a link or a direction; it holds a table, or the value of the table's first key.
    pub(crate) key: Key,
    /// The impairment's table in the reference; `None` if it shares the table of another
    /// impairment.
    pub(crate) table: Option<Table>,
    /// The values of the table's key `kind`, each with its keys; empty if the table has no `kind`.
    pub(crate) kinds: &'static [TableKind],
    /// Sets the engine's values. Returns `None` after an error, which it has reported.
    read: fn(&BriefTable<'_>, &mut Reading<'_, '_>) -> Option<()>,
}

/// The keys of all impairments.
pub(crate) const KEYS: [Key; IMPAIRMENTS.len()] = {
    let mut keys = [IMPAIRMENTS[0].key; IMPAIRMENTS.len()];
    let mut n = 0;
    while n < keys.len() {
        keys[n] = IMPAIRMENTS[n].key;
        n += 1;
    }
    keys
};

/// The names of the keys in `KEYS`.
pub(crate) const NAMES: [&str; KEYS.len()] = {
    let mut names = [""; KEYS.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = KEYS[n].name;
        n += 1;
    }
    names
};

/// Number of impairments with their own table.
pub(crate) const TABLES: usize = {
    let (mut n, mut count) = (0, 0);
    while n < IMPAIRMENTS.len() {
        count += IMPAIRMENTS[n].table.is_some() as usize;
        n += 1;
    }
    count
};

/// The tables of impairments.
pub(crate) const fn tables() -> [Table; TABLES] {
    let mut tables = [Table { word: "", header: "", doc: "", keys: &[] }; TABLES];
    let (mut n, mut at) = (0, 0);
    while n < IMPAIRMENTS.len() {
        if let Some(table) = IMPAIRMENTS[n].table {
            tables[at] = table;
            at += 1;
        }
        n += 1;
    }
    tables
}

/// The state while impairments are read.
pub(crate) struct Reading<'r, 'a> {
    /// The tables of a direction, the innermost first.
    pub(crate) tables: &'r [&'r Fields<'a>],
    /// The link's propagation delay, if it is known.
    pub(crate) delay: Option<Span>,
    /// The directory of the scenario; names of files are relative to it.
    pub(crate) beside: &'r Path,
    /// The impairments read so far.
    pub(crate) impairments: Impairments,
    pub(crate) problems: &'r mut Vec<Problem>,
}

/// Reads all impairments. Returns `None` after an error, which was reported.
pub(crate) fn read(mut reading: Reading<'_, '_>) -> Option<Impairments> {
    let mut whole = true;
    for Impairment { key, kinds, read, .. } in IMPAIRMENTS {
        match BriefTable::of_kinds(key, kinds, reading.tables, reading.problems) {
            Ok(Some(given)) => whole &= read(&given, &mut reading).is_some(),
            Ok(None) => {}
            Err(()) => whole = false,
        }
    }
    whole.then_some(reading.impairments)
}

/// Example of an impairment's table for a kind that takes this key; `None` if the table has no
/// `kind`.
pub(crate) fn example(word: &str, key: &str) -> Option<&'static str> {
    let of = IMPAIRMENTS.iter().find(|of| of.key.name == word)?;
    let kind = of.kinds.iter().find(|kind| kind.takes.contains(&key)).or(of.kinds.first())?;
    Some(kind.example)
}
