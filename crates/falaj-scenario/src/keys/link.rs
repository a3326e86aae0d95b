//! Keys of links and of their directions.

use super::flow::FLOW;
use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, count, joined, key};
use super::mask::{EACH_LINK, EXPIRE, MOST};
use crate::impairments;
use crate::units::BURST_MAX;
use crate::units::{MTU_MAX, MTU_MIN};
use falaj_sched::contract::params::Kind;
use falaj_sched::registry;

/// `profile = { … }`.
pub const PROFILE: &[Key] = &[
    key(
        "file",
        Holds::File("wifi.profile"),
        Required,
        "the profile, as dummynet takes it; its `bw` counts where there is no `rate`",
    ),
    key(
        "holds-link",
        Holds::Value(Kind::Choice(&["yes", "no"])),
        Default("yes"),
        "whether the link is occupied for that time, or packets are only later",
    ),
];

/// `trace = { … }`.
pub const TRACE: &[Key] = &[
    key(
        "file",
        Holds::File("up.csv"),
        Required,
        "lines of `time,rate`, as in `1.5s,10mbit`, the first rate from the beginning on; or a mahimahi trace, a line with the millisecond of each packet",
    ),
    key(
        "repeat",
        Holds::PositiveSpan,
        Otherwise("the last rate stays; a mahimahi trace repeats where it ends"),
        "time after which it starts again from its first line; for lines of `time,rate`",
    ),
];

/// `[link.NAME.up]` and `[link.NAME.down]`: unset keys are those of `[link.NAME]`.
pub const DIRECTION: &[Key] = {
    const LISTS: &[&[Key]] = &[OWN, &impairments::KEYS, &[PROFILED, EACH_LINK, MOST, EXPIRE]];
    &joined::<_, { count(LISTS) }>(LISTS)
};

/// `[link.NAME]`: both directions alike, unless `up` or `down` override it.
pub const LINK: &[Key] = {
    const LISTS: &[&[Key]] = &[DIRECTION, OF_BOTH];
    &joined::<_, { count(LISTS) }>(LISTS)
};

/// Keys that each direction of a link may have.
const OWN: &[Key] = &[
    key(
        "rate",
        Holds::Value(Kind::Rate),
        Required,
        "bits a second that the link carries, or `unlimited`; a `trace` or a `preset` may stand for it",
    ),
    key("delay", Holds::Value(Kind::Span), Default("0s"), "propagation, from one end to the other"),
    key(
        "mtu",
        Holds::BytesIn { min: MTU_MIN as u64, max: MTU_MAX as u64 },
        Default("1500B"),
        "largest IP packet that passes; a VLAN tag is beside it",
    ),
    key(
        "layer",
        Holds::Value(Kind::Choice(falaj_engine::counted_layer::CountedLayer::NAMES)),
        Default("l2"),
        "which bytes count: transport payload, IP packet, frame, or all that occupies the wire",
    ),
    key(
        "scheduler",
        Holds::Scheduler,
        Default(registry::DEFAULT.kind),
        "the discipline that divides the link, `{ kind = \"…\" }` and its parameters",
    ),
    key(
        "flow",
        Holds::Named(FLOW),
        Otherwise("one flow `all` for every packet"),
        "the flows, each `[link.NAME.flow.FLOW]`; a packet belongs to the first that matches",
    ),
    key(
        "overhead",
        Holds::Overhead,
        Otherwise("none"),
        "so much more each packet costs on the link than `layer` counts, or less; rates, queues and quanta count it too, sizes and rates of traffic do not",
    ),
    key(
        "cells",
        Holds::Value(Kind::Choice(falaj_engine::framing::Cells::NAMES)),
        Default("none"),
        "what packets are carried in, with their overhead: whole cells of ATM (53 B for 48), or PTM (a byte for each 64)",
    ),
    key(
        "preset",
        Holds::Value(Kind::Choice(&crate::presets::NAMES)),
        Otherwise("none"),
        "a link that many know by this name: what is not set is as there; `falaj presets` shows them",
    ),
    key(
        "paced-by",
        Holds::Value(Kind::Choice(&["falaj", "device"])),
        Default("falaj"),
        "who paces the link: falaj hands each packet over when it is due, or the device behind the port is handed packets ahead of time and sends them at `rate`",
    ),
    key(
        "backlog",
        Holds::Value(Kind::Limit),
        Otherwise("what the link carries in 1ms, and two of its largest packets at least"),
        "with `paced-by = \"device\"`, how much the device is handed ahead of time at most, a largest packet at least; delays grow by the time it takes, and falaj wakes up once for half of it",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("none: the link serialises, each packet occupies it for its length"),
        "makes the link a token bucket: packets pass in no time while tokens last, so many bytes of them at most",
    ),
    key(
        "trace",
        Holds::Brief(TRACE),
        Otherwise("the rate stays"),
        "a file that says how the rate changes, in place of `rate`",
    ),
];

const PROFILED: Key = key(
    "profile",
    Holds::Brief(PROFILE),
    Otherwise("none"),
    "a dummynet profile: how long each packet takes beyond its own transmission",
);

/// Keys of both directions together.
const OF_BOTH: &[Key] = &[
    key(
        "uplink",
        Holds::Name,
        Otherwise("none"),
        "for `falaj serve`: what is at the far end, written as a flow's `adapter`",
    ),
    key(
        "up",
        Holds::Table(DIRECTION),
        Otherwise("as the link"),
        "what differs from the near end to the far end",
    ),
    key(
        "down",
        Holds::Table(DIRECTION),
        Otherwise("as the link"),
        "what differs from the far end to the near end",
    ),
];

/// The key of a direction by its name.
pub(crate) fn direction(name: &str) -> Option<&'static Key> {
    DIRECTION.iter().find(|key| key.name == name)
}

/// Keys of which one defines the capacity of a direction.
pub(crate) const CARRIES: [&str; 4] = ["rate", "trace", "preset", "profile"];
