//! Keys of what links do to packets.

use super::Fallback::{Otherwise, Required, Value as Default};
use super::flow::BURST_MAX;
use super::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

/// What a link does to packets, behind its queue.
pub(super) const LOSES: Key =
    key("loss", Holds::Brief(LOSS), Otherwise("none"), "packets that the link loses");
pub(super) const DUPLICATES: Key =
    key("duplicate", Holds::Brief(EVENT), Otherwise("none"), "packets that arrive twice");
pub(super) const CORRUPTS: Key =
    key("corrupt", Holds::Brief(EVENT), Otherwise("none"), "packets that arrive with a bit turned");
pub(super) const REORDERS: Key = key(
    "reorder",
    Holds::Brief(REORDER),
    Otherwise("none"),
    "packets that overtake: they skip the link's delay",
);
pub(super) const JITTERS: Key = key(
    "jitter",
    Holds::Brief(JITTER),
    Otherwise("none"),
    "by how much the delay of packets differs; `delay` is its mean, and packets stay in order",
);
pub(super) const SLOTTED: Key = key(
    "slot",
    Holds::Brief(SLOT),
    Otherwise("at any time"),
    "packets are delivered together, in slots with this time from one to the next",
);

/// How often a thing happens.
pub(super) const PROBABILITY: Key =
    key("probability", Holds::Value(Kind::Probability), Required, "how often it happens");
pub(super) const CORRELATION: Key = key(
    "correlation",
    Holds::Value(Kind::Probability),
    Default("0%"),
    "how often a packet fares as the one before it; the mean stays",
);

/// `duplicate = { … }` and `corrupt = { … }`.
pub const EVENT: &[Key] = &[PROBABILITY, CORRELATION];

/// `reorder = { … }`.
pub const REORDER: &[Key] = &[
    PROBABILITY,
    CORRELATION,
    key(
        "gap",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Default("1"),
        "only each so many-th packet of a flow may overtake",
    ),
];

/// The key that decides which others of a loss there are.
pub(crate) const LOSS_KIND: Key = key(
    "kind",
    Holds::Value(Kind::Choice(&["random", "gilbert-elliott", "four-states", "every", "list"])),
    Default("random"),
    "with a probability, in bursts by a Markov chain of two or of four states, each so many-th, or by number",
);

/// `loss = { … }`; which of these there may be is for its `kind` to say.
pub const LOSS: &[Key] = &[
    key(
        "probability",
        Holds::Value(Kind::Probability),
        Otherwise("required by `random`"),
        "how often a packet is lost; for `random`",
    ),
    LOSS_KIND,
    key(
        "correlation",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "how often a packet fares as the one before it; the mean stays; for `random`",
    ),
    key(
        "to-bad",
        Holds::Value(Kind::Probability),
        Otherwise("required by `gilbert-elliott`"),
        "from the good state to the bad one, behind each packet; for `gilbert-elliott`",
    ),
    key(
        "to-good",
        Holds::Value(Kind::Probability),
        Otherwise("required by `gilbert-elliott`"),
        "from the bad state to the good one, behind each packet; for `gilbert-elliott`",
    ),
    key(
        "loss-bad",
        Holds::Value(Kind::Probability),
        Default("100%"),
        "how often a packet is lost in the bad state; for `gilbert-elliott`",
    ),
    key(
        "loss-good",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "how often a packet is lost in the good state; for `gilbert-elliott`",
    ),
    key(
        "p13",
        Holds::Value(Kind::Probability),
        Otherwise("required by `four-states`"),
        "from a gap, where packets arrive, into a burst of losses; for `four-states`",
    ),
    key(
        "p31",
        Holds::Value(Kind::Probability),
        Otherwise("100% less p13"),
        "from a burst into a gap; for `four-states`",
    ),
    key(
        "p32",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "in a burst, from a packet that is lost to one that arrives; for `four-states`",
    ),
    key("p23", Holds::Value(Kind::Probability), Default("100%"), "and back; for `four-states`"),
    key(
        "p14",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "a single loss in a gap; for `four-states`",
    ),
    key(
        "count",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Otherwise("required by `every`"),
        "each so many-th packet of a flow is lost; for `every`",
    ),
    key(
        "packets",
        Holds::Numbers,
        Otherwise("required by `list`"),
        "these packets of each flow are lost, counted from 1; for `list`",
    ),
];

/// `jitter = { … }`.
pub const JITTER: &[Key] = &[
    key(
        "amount",
        Holds::PositiveSpan,
        Required,
        "standard deviation of the delay; of `uniform` as much less or more",
    ),
    key(
        "distribution",
        Holds::Value(Kind::Choice(&["uniform", "normal", "pareto", "paretonormal"])),
        Default("uniform"),
        "how delays are distributed, unless a `table` says it",
    ),
    key(
        "table",
        Holds::File,
        Otherwise("none"),
        "a file with a distribution that was measured, as netem takes it (`.dist`)",
    ),
    key(
        "correlation",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "how often a packet has the delay of the one before it; mean and deviation stay",
    ),
    key(
        "order",
        Holds::Value(Kind::Choice(&["kept", "free"])),
        Default("kept"),
        "`kept`: none overtakes, and delays that follow closely go on from one to the next; `free`: each is drawn for itself",
    ),
];

/// `slot = { … }`.
pub const SLOT: &[Key] = &[
    key("least", Holds::PositiveSpan, Required, "shortest time from one slot to the next"),
    key(
        "most",
        Holds::PositiveSpan,
        Otherwise("as `least`"),
        "longest time from one slot to the next",
    ),
    key(
        "packets",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Otherwise("any number"),
        "so many packets in a slot at most; what is beyond waits in the queue",
    ),
    key(
        "bytes",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("any number"),
        "so many bytes in a slot at most, as the link accounts them; a packet that is larger has one alone; what is beyond waits in the queue",
    ),
];
