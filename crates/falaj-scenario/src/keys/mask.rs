//! Keys of masks, which divide one link or flow into many.

use super::key::Fallback::{Otherwise, Value as Default};
use super::key::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

pub(super) const EACH_LINK: Key = key(
    "mask",
    Holds::Mask,
    Otherwise("one link for all packets"),
    "mask of header fields: each combination of their values gets a link of its own, with queues \
     and scheduler",
);
pub(super) const MOST: Key = key(
    "max-flows",
    Holds::Value(Kind::Count { min: 1, max: falaj_engine::masks::MaskConfig::LIMIT as u64 }),
    Default("65536"),
    "the maximum number of links or queues that `mask` creates at a time; packets with further \
     values share a few more, and guarantees assume this maximum; where both link and flow have a \
     `mask`, 16384 links of 512 queues by default",
);
pub(super) const EXPIRE: Key = key(
    "expire",
    Holds::PositiveSpan,
    Default("10s"),
    "idle time after which a link or queue that `mask` created is removed, unless it still owes \
     service to others; its counters stay in the totals",
);
pub(super) const EACH_FLOW: Key = key(
    "mask",
    Holds::Mask,
    Otherwise("one queue for all packets of the flow"),
    "mask of header fields: each combination of their values in the flow's packets gets a queue of \
     its own, with the flow's settings",
);
