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
        Otherwise("none: packets are delivered at any time"),
        "delivery of packets in slots: packets that are due between two slots are delivered \
         together at the later one",
    ),
    table: Some(Table {
        word: "slot",
        header: "slot = { … }",
        doc: "the delivery of packets in slots; `slot = \"20ms\"` is the time from one slot to the \
              next",
        keys: KEYS,
    }),
    kinds: &[],
    read: |given, reading| {
        reading.impairments.slots = Some(slots(given, reading.problems).ok()?);
        Some(())
    },
};

/// The keys of `slot = { … }`.
const KEYS: &[Key] = &[
    key("least", Holds::PositiveSpan, Required, "shortest time from one slot to the next"),
    key(
        "most",
        Holds::PositiveSpan,
        Otherwise("the value of `least`"),
        "longest time from one slot to the next",
    ),
    key(
        "packets",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Otherwise("any number"),
        "the maximum number of packets in a slot; further packets wait in the queue",
    ),
    key(
        "bytes",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("any number"),
        "maximum number of bytes in a slot, counted as `layer` selects; a larger packet is alone \
         in its slot; further packets wait in the queue",
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
