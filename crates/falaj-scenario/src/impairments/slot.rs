//! Packets that are delivered together, in slots: `slot`.

use super::Impairment;
use crate::diagnostics::Problem;
use crate::keys::Fallback::{Otherwise, Required};
use crate::keys::{Holds, Key, Table, key};
use crate::read::BriefTable;
use crate::units::BURST_MAX;
use falaj_engine::impair::slots::Slots;
use falaj_sched::contract::params::Kind;

pub(super) const SLOT: Impairment = Impairment {
    key: key(
        "slot",
        Holds::Brief(KEYS),
        Otherwise("at any time"),
        "packets are delivered together, in slots with this time from one to the next",
    ),
    table: Some(Table {
        word: "slot",
        header: "slot = { … }",
        doc: "when packets are delivered; `slot = \"20ms\"` is the time from one slot to the next",
        keys: KEYS,
    }),
    kinds: &[],
    read: |given, reading| {
        reading.impairments.slots = Some(slots(given, reading.problems).ok()?);
        Some(())
    },
};

/// `slot = { … }`.
const KEYS: &[Key] = &[
    key("least", Holds::PositiveSpan, Required, "shortest time from one slot to the next"),
    key(
        "most",
        Holds::PositiveSpan,
        Otherwise("as `least`"),
        "longest time from one slot to the next",
    ),
    key(
        "packets",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Otherwise("any number"),
        "so many packets in a slot at most; what is beyond waits in the queue",
    ),
    key(
        "bytes",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("any number"),
        "so many bytes in a slot at most, as the link accounts them; a packet that is larger has one alone; what is beyond waits in the queue",
    ),
];

fn slots(given: &BriefTable<'_>, problems: &mut Vec<Problem>) -> Result<Slots, ()> {
    let least = given.values.span("least").ok_or(())?;
    let most = given.values.span("most").unwrap_or(least);
    if most < least {
        problems.push(
            Problem::error(
                given.at("most"),
                format!("{}: `most` is shorter than `least`", given.fields.what),
            )
            .help(format!("write `{least}` or more")),
        );
        return Err(());
    }
    let packets = given.values.count("packets").unwrap_or(u64::MAX);
    Ok(Slots { least, most, packets, bytes: given.values.bytes("bytes").unwrap_or(u64::MAX) })
}
