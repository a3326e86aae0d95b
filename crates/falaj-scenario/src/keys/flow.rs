//! Keys of schedulers, flows and their queues.

use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, key};
use super::mask::{EACH_FLOW, EXPIRE, MOST};
use crate::units::BURST_MAX;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Kind;
use falaj_sched::registry::{self, ENTRIES};

/// `scheduler = { … }`; the discipline's own parameters come after these.
pub const SCHEDULER: &[Key] = &[KIND];
/// The key that decides which other keys are allowed.
pub(crate) const KIND: Key =
    key("kind", Holds::Value(Kind::Choice(&KINDS)), Required, "the discipline");

pub(super) const KINDS: [&str; ENTRIES.len() + 1] = {
    let mut kinds = [registry::PLUGIN.kind; ENTRIES.len() + 1];
    let mut n = 0;
    while n < ENTRIES.len() {
        kinds[n] = ENTRIES[n].kind;
        n += 1;
    }
    kinds
};

/// Keys of the kind `plugin` for its scheduler and for its flows.
pub(super) const PLUGIN: &[Key] = &[
    key(
        "library",
        Holds::File("./libmine.so"),
        Required,
        "the shared library that holds the discipline; it runs, even to be checked",
    ),
    key(
        "with",
        Holds::Given,
        Otherwise("nothing"),
        "parameters of the plug-in, which alone knows what they mean",
    ),
];

/// Keys of a discipline for its scheduler, beyond the kind.
pub fn of_scheduler(entry: &Manifest) -> Vec<Key> {
    let own = if entry.kind == registry::PLUGIN.kind { PLUGIN } else { &[] };
    entry.scheduler.iter().map(Key::from).chain(own.iter().copied()).collect()
}

/// Keys of a discipline for each flow.
pub fn of_flow(entry: &Manifest) -> Vec<Key> {
    let own = if entry.kind == registry::PLUGIN.kind { &PLUGIN[1..] } else { &[] };
    entry.flow.iter().map(Key::from).chain(own.iter().copied()).collect()
}

pub(super) const RULES: Key = key(
    "match",
    Holds::Rules,
    Otherwise("those of its `adapter`, or of its flows' adapters; without them it has to be given"),
    "the packets that belong to it: a rule, or a list of rules of which one must hold",
);
pub(super) const ADAPTER: Key = key(
    "adapter",
    Holds::Name,
    Otherwise("none"),
    "for `falaj serve`: the virtual adapter whose packets, both ways, belong to it: `namespace` \
     (one made for it), `tap:NETNS`, an interface `eth1` or `eth1@NETNS`, `vhost:PATH`, \
     `memif:PATH`; with `match`, those of its packets alone",
);
/// The limit of a queue that is given none, in words.
const DEFAULT_QUEUE: &str = "all that the link carries in a round trip, or in 50 ms if that is \
                             longer; two packets at least";
/// The limit of a queue.
pub(crate) const LIMIT: Key =
    key("limit", Holds::Value(Kind::Limit), Otherwise(DEFAULT_QUEUE), "how much it holds at most");
/// The key that decides which other keys of a queue are allowed.
pub(crate) const POLICY: Key = key(
    "policy",
    Holds::Value(Kind::Choice(falaj_sched::queues::aqm::NAMES)),
    Default("tail"),
    "who goes, and when: the last packet or the first where there is no room; or earlier, by RED, gentle RED, CoDel or PIE",
);

/// `queue = { … }`; its `policy` decides which of these are allowed.
pub const MANAGED: &[Key] = &[
    LIMIT,
    POLICY,
    key(
        "target",
        Holds::Value(Kind::Span),
        Otherwise("5ms for `codel`, 15ms for `pie`"),
        "how long packets are to stay; for `codel` and `pie`",
    ),
    key(
        "interval",
        Holds::Value(Kind::Span),
        Otherwise("100ms"),
        "a stay has to be short once in this time, the longest round trip; for `codel`",
    ),
    key(
        "update",
        Holds::Value(Kind::Span),
        Otherwise("15ms"),
        "how often the probability is worked out; for `pie`",
    ),
    key(
        "burst",
        Holds::Value(Kind::Span),
        Otherwise("150ms"),
        "for so long a burst is let in; for `pie`",
    ),
    key(
        "min",
        Holds::Value(Kind::Limit),
        Otherwise("5p"),
        "below this average length nothing is dropped; for `red` and `gred`",
    ),
    key(
        "max",
        Holds::Value(Kind::Limit),
        Otherwise("15p"),
        "at this average length the probability is reached; for `red` and `gred`",
    ),
    key(
        "probability",
        Holds::Value(Kind::Probability),
        Otherwise("10%"),
        "how often packets are dropped just below `max`; for `red` and `gred`",
    ),
    key(
        "weight",
        Holds::Value(Kind::Probability),
        Otherwise("0.2%"),
        "how much of the average the length at an arrival makes; for `red` and `gred`",
    ),
    key(
        "ecn",
        Holds::Value(Kind::Choice(&["no", "yes"])),
        Otherwise("no"),
        "mark packets whose ends look at marks instead of dropping them; for `red`, `gred`, `codel` and `pie`",
    ),
];

pub(super) const QUEUE: Key = key(
    "queue",
    Holds::Brief(MANAGED),
    Otherwise(DEFAULT_QUEUE),
    "its queue: a limit, or a table that says also who is dropped",
);
pub(super) const REQUIREMENT: Key = key(
    "requires",
    Holds::Table(REQUIRES),
    Otherwise("no need"),
    "what its owner asks for; a plan is refused that promises less",
);

pub(super) const SENDS: Key = key(
    "envelope",
    Holds::Tables(ENVELOPE),
    Otherwise("not known"),
    "the most that it sends: a token bucket or a list of them, which all hold; `falaj plan` bounds delay and backlog by it",
);

/// `[link.NAME.flow.FLOW]`; the discipline's own parameters come after these.
pub const FLOW: &[Key] =
    &[RULES, ADAPTER, QUEUE, REQUIREMENT, SENDS, EACH_FLOW, MOST, EXPIRE, DIVIDED_BY, PARTS];

pub(super) const DIVIDED_BY: Key = key(
    "scheduler",
    Holds::Scheduler,
    Otherwise("`fifo` if the flow has flows, else none"),
    "the discipline that divides the flow's share among flows of its own",
);
pub(super) const PARTS: Key = key(
    "flow",
    Holds::Parts,
    Otherwise("the flow is one queue"),
    "its own flows, each `[link.NAME.flow.FLOW.flow.PART]`, up to eight levels; the last one takes what is left, `match = \"any\"`",
);

/// `[link.NAME.flow.FLOW.flow.PART]`; the parameters of the flow's discipline come after these.
pub const PART: &[Key] = &[RULES, ADAPTER, QUEUE, REQUIREMENT, SENDS, DIVIDED_BY, PARTS];

/// `requires = { … }` of a flow.
pub const REQUIRES: &[Key] = &[
    key("rate", Holds::FiniteRate, Otherwise("none"), "at least this rate"),
    key(
        "delay",
        Holds::PositiveSpan,
        Otherwise("none"),
        "at most this delay, from last bit in to last bit out",
    ),
];

/// Maximum number of token buckets of an envelope.
pub const BUCKETS_MAX: usize = 16;

/// `envelope = { … }` of a flow, or one of a list.
pub const ENVELOPE: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Required,
        "at most this rate in the long run, as the link accounts bytes",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Required,
        "at most so much at once beyond that, the packet that comes included",
    ),
];
