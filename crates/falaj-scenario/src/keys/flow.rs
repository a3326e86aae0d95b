//! Keys of schedulers, flows and their queues.

use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, key};
use super::mask::{EACH_FLOW, EXPIRE, MOST};
use crate::units::BURST_MAX;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Kind;
use falaj_sched::queues::aqm::pie::GAIN;
use falaj_sched::registry::{self, ENTRIES};

/// The keys of `scheduler = { … }`, without the discipline's own parameters.
pub const SCHEDULER: &[Key] = &[KIND];
/// The key `kind` of a scheduler, which decides which other keys are allowed.
pub(crate) const KIND: Key =
    key("kind", Holds::Value(Kind::Choice(&KINDS)), Required, "name of the discipline");

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
        "shared library that contains the discipline; checking the scenario runs its code, too",
    ),
    key(
        "with",
        Holds::Given,
        Otherwise("no parameters"),
        "parameters of the plug-in, with the names and meanings that it defines",
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
    Otherwise("the packets of its `adapter`, or of its flows' adapters; required without adapters"),
    "packets that belong to the flow: a rule, or a list of rules of which one must match",
);
pub(super) const ADAPTER: Key = key(
    "adapter",
    Holds::Name,
    Otherwise("none"),
    "only for `falaj serve`: virtual adapter whose packets, in both directions, belong to the \
     flow: `namespace` (created for it), `tap:NETNS`, an interface `eth1` or `eth1@NETNS`, \
     `vhost:PATH`, `memif:PATH`; with `match`, only those of its packets that match",
);
pub(super) const BATCHES: Key = key(
    "batches",
    Holds::Name,
    Otherwise("none"),
    "with an `adapter` that is `namespace` or `tap:NETNS`: a separate process has its interface, \
     and packets cross to that process and back in batches; a batch leaves when it is full, or \
     earlier: after a timeout (`62,200us`), at once while the other side is idle (`62,idle`), or \
     early enough to keep a delay (`adaptive,delay=200us`); with `memif:PATH`, batches to another \
     falaj, by a timeout only",
);
/// The default limit of a queue, in words.
const DEFAULT_QUEUE: &str = "the bytes that the link carries in a round trip, or in 50 ms if that \
                             is longer, at least two packets; 1000 packets if the link's rate is \
                             unlimited";
/// The key `limit` of a queue.
pub(crate) const LIMIT: Key = key(
    "limit",
    Holds::Value(Kind::Limit),
    Otherwise(DEFAULT_QUEUE),
    "maximum length of the queue, in packets or bytes",
);
/// The key `policy` of a queue, which decides which other keys are allowed.
pub(crate) const POLICY: Key = key(
    "policy",
    Holds::Value(Kind::Choice(falaj_sched::queues::aqm::NAMES)),
    Default("tail"),
    "rule for dropping packets: from a full queue the last (`tail`) or the first packet (`head`), \
     or before it is full, by RED, gentle RED, CoDel or PIE",
);

/// The keys of `queue = { … }`; its `policy` decides which of them are allowed.
pub const MANAGED: &[Key] = &[
    LIMIT,
    POLICY,
    key(
        "target",
        Holds::Value(Kind::Span),
        Otherwise("5ms for `codel`, 15ms for `pie`"),
        "target queueing delay; for `codel` and `pie`",
    ),
    key(
        "interval",
        Holds::Value(Kind::Span),
        Otherwise("100ms"),
        "time within which the queueing delay has to be below `target` once, about the longest \
         round-trip time; for `codel`",
    ),
    key(
        "update",
        Holds::Value(Kind::Span),
        Otherwise("15ms"),
        "time between two updates of the drop probability; for `pie`",
    ),
    key(
        "burst",
        Holds::Value(Kind::Span),
        Otherwise("150ms"),
        "time for which a burst after an idle period passes without drops; for `pie`",
    ),
    key(
        "alpha",
        Holds::Value(GAIN),
        Otherwise("2"),
        "gain on the delay beyond `target`, in sixteenths per second; for `pie`",
    ),
    key(
        "beta",
        Holds::Value(GAIN),
        Otherwise("20"),
        "gain on the growth of the delay, in sixteenths per second; for `pie`",
    ),
    key(
        "min",
        Holds::Value(Kind::Limit),
        Otherwise("5p"),
        "average queue length below which no packet is dropped; for `red` and `gred`",
    ),
    key(
        "max",
        Holds::Value(Kind::Limit),
        Otherwise("15p"),
        "average queue length at which the drop probability reaches `probability`, in the unit of \
         `min`; for `red` and `gred`",
    ),
    key(
        "probability",
        Holds::Value(Kind::Probability),
        Otherwise("10%"),
        "drop probability at an average queue length just below `max`; for `red` and `gred`",
    ),
    key(
        "weight",
        Holds::Value(Kind::Probability),
        Otherwise("0.2%"),
        "weight of the current queue length in the moving average, at each arrival; for `red` and \
         `gred`",
    ),
    key(
        "ecn",
        Holds::Value(Kind::Choice(&["no", "yes"])),
        Otherwise("no"),
        "`yes` marks packets of connections that support ECN, instead of dropping them; for `red`, \
         `gred`, `codel` and `pie`",
    ),
    key(
        "ecn-probability",
        Holds::Value(Kind::Probability),
        Otherwise("10%"),
        "the highest drop probability at which packets are marked; above it they are dropped, even \
         with `ecn`; for `pie`",
    ),
];

pub(super) const QUEUE: Key = key(
    "queue",
    Holds::Brief(MANAGED),
    Otherwise(DEFAULT_QUEUE),
    "queue of the flow: its limit, or a table that also selects the policy for dropping packets",
);
pub(super) const REQUIREMENT: Key = key(
    "requires",
    Holds::Table(REQUIRES),
    Otherwise("none"),
    "rate and delay that the flow must be guaranteed; `falaj plan` refuses a scenario that \
     guarantees less",
);

pub(super) const SENDS: Key = key(
    "envelope",
    Holds::Tables(ENVELOPE),
    Otherwise("unknown"),
    "upper bound on the traffic of the flow: a token bucket, or a list of them that all hold; \
     `falaj plan` computes bounds on delay and backlog from it",
);

/// The keys of `[link.NAME.flow.FLOW]`, without the discipline's own parameters.
pub const FLOW: &[Key] = &[
    RULES,
    ADAPTER,
    BATCHES,
    QUEUE,
    REQUIREMENT,
    SENDS,
    EACH_FLOW,
    MOST,
    EXPIRE,
    DIVIDED_BY,
    PARTS,
];

pub(super) const DIVIDED_BY: Key = key(
    "scheduler",
    Holds::Scheduler,
    Otherwise("`fifo` if the flow has flows, else none"),
    "discipline by which the flow's own flows share its service",
);
pub(super) const PARTS: Key = key(
    "flow",
    Holds::Parts,
    Otherwise("the flow is one queue"),
    "flows into which the flow is divided, each a table `[link.NAME.flow.FLOW.flow.PART]`, up to \
     eight levels; the last flow of each list takes the remaining packets: `match = \"any\"`",
);

/// The keys of `[link.NAME.flow.FLOW.flow.PART]`, without the parameters of the flow's discipline.
pub const PART: &[Key] = &[RULES, ADAPTER, BATCHES, QUEUE, REQUIREMENT, SENDS, DIVIDED_BY, PARTS];

/// The keys of `requires = { … }` of a flow.
pub const REQUIRES: &[Key] = &[
    key("rate", Holds::FiniteRate, Otherwise("none"), "minimum guaranteed rate of the flow"),
    key(
        "delay",
        Holds::PositiveSpan,
        Otherwise("none"),
        "maximum guaranteed delay of a packet, from its last bit in to its last bit out",
    ),
];

/// Maximum number of token buckets of an envelope.
pub const BUCKETS_MAX: usize = 16;

/// The keys of `envelope = { … }` of a flow, or of each table in a list.
pub const ENVELOPE: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Required,
        "maximum rate of the flow in the long run, in the bytes that `layer` counts",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Required,
        "size of the token bucket: maximum number of bytes at once, including the packet that \
         arrives",
    ),
];
