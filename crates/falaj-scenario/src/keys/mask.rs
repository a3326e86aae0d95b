//! Keys of masks, which divide a link or a flow into many.

use super::key::Fallback::{Otherwise, Value as Default};
use super::key::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

pub(super) const EACH_LINK: Key = key(
    "mask",
    Holds::Mask,
    Otherwise("one link"),
    "a mask: makes a link of its own, with queues and scheduler, for each value of these parts of packets",
);
pub(super) const MOST: Key = key(
    "max-flows",
    Holds::Value(Kind::Count { min: 1, max: falaj_engine::masks::MaskConfig::LIMIT as u64 }),
    Default("65536"),
    "maximum number of them at a time, for `each`; further ids share some more, and guarantees assume this maximum; where link and flow have `each`, 16384 links of 512 queues by default",
);
pub(super) const EXPIRE: Key = key(
    "expire",
    Holds::PositiveSpan,
    Default("10s"),
    "one that is idle for so long goes, for `mask`, unless it owes something; what it counted stays",
);
pub(super) const EACH_FLOW: Key = key(
    "mask",
    Holds::Mask,
    Otherwise("one queue"),
    "a mask: makes a queue of its own for each value of these parts of the flow's packets, all with the flow's settings",
);
