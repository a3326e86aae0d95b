//! Keys of rules and of their lookup tables.

use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

/// `[[rule]]`.
pub const RULE: &[Key] = &[
    key(
        "name",
        Holds::Name,
        Otherwise("its number, from 1"),
        "what statistics and `skip-to` know it by",
    ),
    key(
        "match",
        Holds::Rules,
        Otherwise("every packet"),
        "the packets that it is for, as of a flow",
    ),
    key(
        "direction",
        Holds::Value(Kind::Choice(&["up", "down"])),
        Otherwise("both"),
        "for packets on their way `up`, from the near end to the far end, or `down`",
    ),
    key(
        "probability",
        Holds::Value(Kind::Probability),
        Otherwise("always"),
        "how often it takes a packet that it is for; the others go on with the next rule",
    ),
    key(
        "mark",
        Holds::Value(Kind::Count { min: 0, max: u32::MAX as u64 }),
        Otherwise("as it is"),
        "its packets have this mark from then on, for `match = \"mark N\"` of rules behind it and of flows, and for masks; a packet comes with 0",
    ),
    key(
        "to",
        Holds::Target,
        Required,
        "the link that they pass, or a list of links one behind the other; `drop`; or `pass`, without a link",
    ),
    key(
        "then",
        Holds::Value(Kind::Choice(&["out", "on"])),
        Default("out"),
        "after that they leave, or go `on` with the rule behind this one",
    ),
];

/// `to = { … }`, of a rule.
pub const TO: &[Key] = &[
    key(
        "table",
        Holds::Name,
        Otherwise("none"),
        "the table that says where to; its texts are links, `drop` or `pass`",
    ),
    key(
        "by",
        Holds::Value(Kind::Choice(falaj_engine::table::Field::NAMES)),
        Default("src"),
        "what of a packet is looked up there; a rule does not take what the table has not",
    ),
    key(
        "skip-to",
        Holds::Name,
        Otherwise("none"),
        "packets continue with the rule of this name, which must be further down",
    ),
];

/// `[table.NAME]`: any number of entries, each of this kind.
pub const LOOKED_UP: &[Key] = &[key(
    "ENTRY",
    Holds::Entries,
    Otherwise("none"),
    "an address, a prefix, a number or a range of numbers, in quotes; its text is where rules lead, or empty",
)];
