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

/// The keys of `profile = { … }`.
pub const PROFILE: &[Key] = &[
    key(
        "file",
        Holds::File("wifi.profile"),
        Required,
        "profile in dummynet's format; its `bw` is the link's rate if there is no `rate`",
    ),
    key(
        "holds-link",
        Holds::Value(Kind::Choice(&["yes", "no"])),
        Default("yes"),
        "`yes` keeps the link occupied for the additional time; `no` delays only the packet itself",
    ),
];

/// The keys of `trace = { … }`.
pub const TRACE: &[Key] = &[
    key(
        "file",
        Holds::File("up.csv"),
        Required,
        "file of lines `time,rate`, such as `1.5s,10mbit`, where the first rate holds from the \
         start; the first line may name the columns and their units, such as `time_s,rate_mbit`; \
         or a mahimahi trace, a line for each packet with its time in milliseconds",
    ),
    key(
        "columns",
        Holds::Value(Kind::Choice(&["rate"])),
        Otherwise("a file with columns of delay or loss is an error"),
        "`rate` reads only the rates of a file that also has delays or losses, which `[[change]]` \
         can set",
    ),
    key(
        "repeat",
        Holds::PositiveSpan,
        Otherwise("none: the last rate stays; a mahimahi trace repeats at its end"),
        "time after which the rates start again from the first; only for lines of `time,rate`",
    ),
];

/// The keys of `peak = { … }`.
pub const PEAK: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Required,
        "rate at which the second token bucket fills, above the link's `rate`",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("one largest packet"),
        "size of the second token bucket",
    ),
];

/// The keys of `[link.NAME.up]` and `[link.NAME.down]`. A key that is not set there has its value
/// from `[link.NAME]`.
pub const DIRECTION: &[Key] = {
    const LISTS: &[&[Key]] = &[OWN, &impairments::KEYS, &[PROFILED, EACH_LINK, MOST, EXPIRE]];
    &joined::<_, { count(LISTS) }>(LISTS)
};

/// The keys of `[link.NAME]`. They are for both directions, unless `up` or `down` override them.
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
        "bandwidth of the link in bits per second, or `unlimited`; a `trace`, a `preset` or a \
         `profile` can replace it",
    ),
    key(
        "delay",
        Holds::Value(Kind::Span),
        Default("0s"),
        "propagation delay, from one end to the other",
    ),
    key(
        "mtu",
        Holds::BytesIn { min: MTU_MIN as u64, max: MTU_MAX as u64 },
        Default("1500B"),
        "largest IP packet that the link accepts, in bytes; a VLAN tag is not part of it",
    ),
    key(
        "layer",
        Holds::Value(Kind::Choice(falaj_engine::counted_layer::CountedLayer::NAMES)),
        Default("l2"),
        "bytes of a packet that count for rates, queues and quanta: `payload` of the transport \
         layer, `ip` packet, `l2` frame, or `l1` with preamble and gap",
    ),
    key(
        "scheduler",
        Holds::Scheduler,
        Default(registry::DEFAULT.kind),
        "discipline by which the flows share the link: `{ kind = \"…\" }` and the keys of that \
         kind",
    ),
    key(
        "flow",
        Holds::Named(FLOW),
        Otherwise("one flow `all` for every packet"),
        "flows of the link, each a table `[link.NAME.flow.FLOW]`; a packet belongs to the first \
         flow that it matches",
    ),
    key(
        "overhead",
        Holds::Overhead,
        Otherwise("none"),
        "bytes that each packet costs on the link beyond those that `layer` counts; negative for \
         fewer; rates, queues and quanta include them, sizes and rates of traffic do not",
    ),
    key(
        "cells",
        Holds::Value(Kind::Choice(falaj_engine::framing::Cells::NAMES)),
        Default("none"),
        "cells that carry each packet and its `overhead`: `atm` rounds up to whole cells, 53B for \
         each 48B; `ptm` adds 1B for each 64B",
    ),
    key(
        "preset",
        Holds::Value(Kind::Choice(&crate::presets::NAMES)),
        Otherwise("none"),
        "a well-known link by name, whose values hold for keys that are not set; `falaj presets` \
         lists them",
    ),
    key(
        "paced-by",
        Holds::Value(Kind::Choice(&["falaj", "device"])),
        Default("falaj"),
        "pacing of the link: by `falaj`, which hands each packet over when it is due; or by the \
         `device` behind the port, which is handed packets ahead of time and sends them at `rate`",
    ),
    key(
        "backlog",
        Holds::Value(Kind::Limit),
        Otherwise("the bytes of 1ms at `rate`, at least two largest packets"),
        "only with `paced-by = \"device\"`: largest amount that the device is handed ahead of \
         time, at least one largest packet; delays grow by its transmission time, and falaj wakes \
         up once for half of it",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("none: the link is occupied by each packet for its transmission time"),
        "size of a token bucket that fills at `rate`: packets pass in no time while it has tokens",
    ),
    key(
        "peak",
        Holds::Brief(PEAK),
        Otherwise("none: a burst leaves at once"),
        "second token bucket, only with `burst`: packets pass while both buckets have tokens, so \
         that bursts leave at its `rate`",
    ),
    key(
        "trace",
        Holds::Brief(TRACE),
        Otherwise("none: the rate is constant"),
        "file with the link's rate over time, in place of `rate`",
    ),
];

const PROFILED: Key = key(
    "profile",
    Holds::Brief(PROFILE),
    Otherwise("none"),
    "dummynet profile: file with the distribution of the time that packets take beyond their \
     transmission",
);

/// Keys of a link that its directions cannot have.
const OF_BOTH: &[Key] = &[
    key(
        "uplink",
        Holds::Name,
        Otherwise("none"),
        "only for `falaj serve`: adapter at the far end, written like the `adapter` of a flow",
    ),
    key(
        "up",
        Holds::Table(DIRECTION),
        Otherwise("the keys of the link"),
        "keys that differ for packets from the near end to the far end",
    ),
    key(
        "down",
        Holds::Table(DIRECTION),
        Otherwise("the keys of the link"),
        "keys that differ for packets from the far end to the near end",
    ),
];

/// The key of a direction with this name.
pub(crate) fn direction(name: &str) -> Option<&'static Key> {
    DIRECTION.iter().find(|key| key.name == name)
}

/// Keys that define the capacity of a direction; one of them is needed.
pub(crate) const CARRIES: [&str; 4] = ["rate", "trace", "preset", "profile"];
