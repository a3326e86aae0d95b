//! Keys of rules and of their lookup tables.

use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, key};
use super::traffic::BYTES_MAX;
use falaj_engine::counted_layer::CountedLayer;
use falaj_sched::contract::params::Kind;

/// The keys of `[[rule]]`.
pub const RULE: &[Key] = &[
    key(
        "name",
        Holds::Name,
        Otherwise("its number, from 1"),
        "name of the rule in statistics and in `skip-to`",
    ),
    key(
        "match",
        Holds::Rules,
        Otherwise("every packet"),
        "packets that the rule applies to, written like the `match` of a flow",
    ),
    key(
        "direction",
        Holds::Value(Kind::Choice(&["up", "down"])),
        Otherwise("both"),
        "direction of the packets: `up` from the near end to the far end, or `down`",
    ),
    key(
        "probability",
        Holds::Value(Kind::Probability),
        Otherwise("always"),
        "probability that the rule takes a packet that matches; the others go on to the next rule",
    ),
    key(
        "conforms-to",
        Holds::Tables(CONFORMS_TO),
        Otherwise("always"),
        "token bucket of a policer, or a list of them, as for a rate and a peak rate: the rule \
         takes a packet that matches only if each bucket has tokens for all its bytes, and the \
         others go on to the next rule; no packet waits",
    ),
    key(
        "mark",
        Holds::Value(Kind::Count { min: 0, max: u32::MAX as u64 }),
        Otherwise("unchanged"),
        "the mark that the rule gives to its packets, for `match = \"mark N\"` of later rules and \
         of flows, and for masks; packets arrive with mark 0",
    ),
    key(
        "mark-mask",
        Holds::Value(Kind::Count { min: 1, max: u32::MAX as u64 }),
        Otherwise("all bits"),
        "the bits of the mark that `mark` changes, such as `0xf0`; the others stay",
    ),
    key(
        "to",
        Holds::Target,
        Required,
        "target of the packets: a link, or a list of links that they pass one after the other; \
         `drop`; or `pass`, without a link",
    ),
    key(
        "then",
        Holds::Value(Kind::Choice(&["out", "on"])),
        Default("out"),
        "`out` lets packets leave after their links, `on` continues with the next rule",
    ),
];

/// The keys of `conforms-to = { … }` of a rule.
pub const CONFORMS_TO: &[Key] = &[
    key("rate", Holds::FiniteRate, Required, "rate at which the token bucket fills"),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BYTES_MAX },
        Required,
        "size of the token bucket: maximum number of bytes at once; longer packets never conform",
    ),
    key(
        "layer",
        Holds::Value(Kind::Choice(CountedLayer::NAMES)),
        Default("ip"),
        "bytes of a packet that count: `payload` of the transport layer, `ip` packet, `l2` frame, \
         or `l1` with preamble and gap",
    ),
];

/// The keys of `to = { … }` of a rule.
pub const TO: &[Key] = &[
    key(
        "table",
        Holds::Name,
        Otherwise("none"),
        "lookup table that gives the target of a packet: a link, `drop` or `pass`",
    ),
    key(
        "by",
        Holds::Value(Kind::Choice(falaj_engine::table::Field::NAMES)),
        Default("src"),
        "field of a packet that is looked up in the table; the rule does not take a packet without \
         an entry",
    ),
    key(
        "skip-to",
        Holds::Name,
        Otherwise("none"),
        "name of a later rule, with which the packets continue",
    ),
];

/// The entries of `[table.NAME]`: any number of keys of this kind.
pub const LOOKED_UP: &[Key] = &[key(
    "ENTRY",
    Holds::Entries,
    Otherwise("none"),
    "an address, a prefix, a number or a range of numbers, in quotes; its value is a link, `drop` \
     or `pass`, or empty if only `match` uses the table",
)];
