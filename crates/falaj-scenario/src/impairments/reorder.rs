//! Packets that overtake others: `reorder`.

use super::Impairment;
use super::event::{CORRELATION, PROBABILITY};
use crate::diagnostics::Problem;
use crate::keys::Fallback::{Otherwise, Value as Default};
use crate::keys::{Holds, Key, Table, key};
use falaj_engine::impair::reorder::Reorder;
use falaj_sched::contract::params::Kind;
use falaj_sched::units::time::Span;

pub(super) const REORDER: Impairment = Impairment {
    key: key(
        "reorder",
        Holds::Brief(KEYS),
        Otherwise("none"),
        "packets that overtake others: they skip the link's delay",
    ),
    table: Some(Table {
        word: "reorder",
        header: "reorder = { … }",
        doc: "the packets that overtake others; `reorder = \"1%\"` is the probability alone",
        keys: KEYS,
    }),
    kinds: &[],
    read: |given, reading| {
        let jitter = reading.tables.iter().any(|table| table.means("jitter"));
        if reading.delay == Some(Span::ZERO) && !jitter {
            reading.problems.push(
                Problem::warning(
                    given.fields.at.clone(),
                    format!("{}: no packet can overtake", given.fields.what),
                )
                .label("the link has no delay that it could skip")
                .help("write a `delay`"),
            );
        }
        let gap = given.values.count("gap").unwrap_or(1);
        reading.impairments.reorder = Some(Reorder { event: given.event(), gap });
        Some(())
    },
};

/// The keys of `reorder = { … }`.
const KEYS: &[Key] = &[
    PROBABILITY,
    CORRELATION,
    key(
        "gap",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Default("1"),
        "only every N-th packet of a flow may overtake; N is this number",
    ),
];
