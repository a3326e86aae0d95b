//! Packets that arrive twice or with a flipped bit: `duplicate` and `corrupt`, each with a
//! probability and a correlation.

use super::Impairment;
use crate::keys::Fallback::{Otherwise, Required, Value as Default};
use crate::keys::{Holds, Key, Table, key};
use falaj_engine::impair::corrupt::Corruption;
use falaj_engine::impair::duplicate::Duplication;
use falaj_sched::contract::params::Kind;

pub(super) const DUPLICATE: Impairment = Impairment {
    key: key("duplicate", Holds::Brief(KEYS), Otherwise("none"), "packets that arrive twice"),
    table: Some(Table {
        word: "duplicate",
        header: "duplicate = { … }",
        doc: "the packets that arrive twice; `duplicate = \"1%\"` is the probability alone, and \
              `corrupt` has the same keys",
        keys: KEYS,
    }),
    kinds: &[],
    read: |given, reading| {
        reading.impairments.duplicate = Some(Duplication(given.event()));
        Some(())
    },
};

pub(super) const CORRUPT: Impairment = Impairment {
    key: key(
        "corrupt",
        Holds::Brief(KEYS),
        Otherwise("none"),
        "packets that arrive with a flipped bit",
    ),
    table: None,
    kinds: &[],
    read: |given, reading| {
        reading.impairments.corrupt = Some(Corruption(given.event()));
        Some(())
    },
};

/// Probability of the event.
pub(super) const PROBABILITY: Key = key(
    "probability",
    Holds::Value(Kind::Probability),
    Required,
    "probability that a packet is affected",
);
pub(super) const CORRELATION: Key = key(
    "correlation",
    Holds::Value(Kind::Probability),
    Default("0%"),
    "probability that a packet has the same outcome as the one before it; the mean stays the same",
);

/// The keys of `duplicate = { … }` and `corrupt = { … }`.
const KEYS: &[Key] = &[PROBABILITY, CORRELATION];
