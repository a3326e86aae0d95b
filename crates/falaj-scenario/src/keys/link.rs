//! Keys of links and of their directions.

use super::Fallback::{Otherwise, Required, Value as Default};
use super::flow::{BURST_MAX, FLOW};
use super::impairments::{CORRUPTS, DUPLICATES, JITTERS, LOSES, REORDERS, SLOTTED};
use super::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

/// The smallest `mtu`: what every IPv4 link must carry.
pub const MTU_MIN: u32 = 68;
/// The largest `mtu`: the longest IPv4 packet.
pub const MTU_MAX: u32 = 65_535;

/// What either direction of a link may have.
pub(super) const RATE: Key = key(
    "rate",
    Holds::Value(Kind::Rate),
    Required,
    "bits a second that the link carries, or `unlimited`; a `trace` or a `preset` may stand for it",
);
pub(super) const DELAY: Key =
    key("delay", Holds::Value(Kind::Span), Default("0s"), "propagation, from one end to the other");
pub(super) const MTU: Key = key(
    "mtu",
    Holds::BytesIn { min: MTU_MIN as u64, max: MTU_MAX as u64 },
    Default("1500B"),
    "largest IP packet that passes; a VLAN tag is beside it",
);
pub(super) const ACCOUNT: Key = key(
    "account",
    Holds::Value(Kind::Choice(falaj_engine::account::Account::NAMES)),
    Default("l2"),
    "which bytes count: transport payload, IP packet, frame, or all that occupies the wire",
);
pub(super) const SCHEDULED: Key = key(
    "scheduler",
    Holds::Scheduler,
    Default("fifo"),
    "the discipline that divides the link, `{ kind = \"…\" }` and its parameters",
);
pub(super) const FLOWS: Key = key(
    "flow",
    Holds::Named(FLOW),
    Otherwise("one flow `all` for every packet"),
    "the flows, each `[link.NAME.flow.FLOW]`; a packet belongs to the first that matches",
);

pub(super) const OVERHEAD: Key = key(
    "overhead",
    Holds::Overhead,
    Otherwise("none"),
    "so much more each packet costs on the link than `account` counts, or less; rates, queues and quanta count it too, sizes and rates of traffic do not",
);
pub(super) const CELLS: Key = key(
    "cells",
    Holds::Value(Kind::Choice(falaj_engine::framing::Cells::NAMES)),
    Default("none"),
    "what packets are carried in, with their overhead: whole cells of ATM (53 B for 48), or PTM (a byte for each 64)",
);
pub(super) const PRESET: Key = key(
    "preset",
    Holds::Value(Kind::Choice(&crate::presets::NAMES)),
    Otherwise("none"),
    "a link that many know by this name: what is not set is as there; `falaj presets` shows them",
);
pub(super) const BURST: Key = key(
    "burst",
    Holds::BytesIn { min: 1, max: BURST_MAX },
    Otherwise("none: the link serialises, each packet occupies it for its length"),
    "makes the link a token bucket: packets pass in no time while tokens last, so many bytes of them at most",
);
pub(super) const PACE: Key = key(
    "pace",
    Holds::Value(Kind::Choice(&["falaj", "device"])),
    Default("falaj"),
    "who paces the link: falaj hands each packet over when it is due, or the device behind the port is handed packets ahead of time and sends them at `rate`",
);
pub(super) const BACKLOG: Key = key(
    "backlog",
    Holds::Value(Kind::Limit),
    Otherwise("what the link carries in 1ms, and two of its largest packets at least"),
    "with `pace = \"device\"`, how much the device is handed ahead of time at most, a largest packet at least; delays grow by the time it takes, and falaj wakes up once for half of it",
);
pub(super) const TRACED: Key = key(
    "trace",
    Holds::Brief(TRACE),
    Otherwise("the rate stays"),
    "a file that says how the rate changes, in place of `rate`",
);

pub(super) const PROFILED: Key = key(
    "profile",
    Holds::Brief(PROFILE),
    Otherwise("none"),
    "a dummynet profile: how long each packet takes beyond its own transmission",
);

/// `profile = { … }`.
pub const PROFILE: &[Key] = &[
    key(
        "file",
        Holds::File,
        Required,
        "the profile, as dummynet takes it; its `bw` counts where there is no `rate`",
    ),
    key(
        "occupies",
        Holds::Value(Kind::Choice(&["yes", "no"])),
        Default("yes"),
        "whether the link is occupied for that time, or packets are only later",
    ),
];

/// `trace = { … }`.
pub const TRACE: &[Key] = &[
    key(
        "file",
        Holds::File,
        Required,
        "lines of `time,rate`, as in `1.5s,10mbit`, the first rate from the beginning on; or a mahimahi trace, a line with the millisecond of each packet",
    ),
    key(
        "repeat",
        Holds::PositiveSpan,
        Otherwise("the last rate stays; a mahimahi trace repeats where it ends"),
        "after this time it begins anew; for lines of `time,rate`",
    ),
];

pub(super) const EACH_LINK: Key = key(
    "each",
    Holds::Mask,
    Otherwise("one link"),
    "a mask: makes a link of its own, with queues and scheduler, for each value of these parts of packets",
);
pub(super) const MOST: Key = key(
    "max-flows",
    Holds::Value(Kind::Count { min: 1, max: falaj_engine::masks::Each::LIMIT as u64 }),
    Default(crate::masks::MOST),
    "so many of them at a time, for `each`; those beyond share some, and promises are for so many; where link and flow have `each`, 16384 links of 512 queues, unless it is said",
);
pub(super) const EXPIRE: Key = key(
    "expire",
    Holds::PositiveSpan,
    Default(crate::masks::EXPIRE),
    "one that is idle for so long goes, for `each`, unless it owes something; what it counted stays",
);

/// `[link.NAME]`: both directions alike, unless `up` or `down` say otherwise.
pub const LINK: &[Key] = &[
    RATE,
    DELAY,
    MTU,
    ACCOUNT,
    SCHEDULED,
    FLOWS,
    OVERHEAD,
    CELLS,
    PRESET,
    PACE,
    BACKLOG,
    BURST,
    TRACED,
    LOSES,
    DUPLICATES,
    CORRUPTS,
    REORDERS,
    JITTERS,
    SLOTTED,
    PROFILED,
    EACH_LINK,
    MOST,
    EXPIRE,
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

/// `[link.NAME.up]` and `[link.NAME.down]`: what is not set is as in `[link.NAME]`.
pub const DIRECTION: &[Key] = &[
    RATE, DELAY, MTU, ACCOUNT, SCHEDULED, FLOWS, OVERHEAD, CELLS, PRESET, PACE, BACKLOG, BURST,
    TRACED, LOSES, DUPLICATES, CORRUPTS, REORDERS, JITTERS, SLOTTED, PROFILED, EACH_LINK, MOST,
    EXPIRE,
];
