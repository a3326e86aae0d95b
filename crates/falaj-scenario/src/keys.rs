//! Every key of the file, described once. The parser reads by these tables,
//! and its messages, a reference page or a schema can be made from them. What
//! the disciplines add for a scheduler and its flows is in
//! [`falaj_sched::registry::ENTRIES`] and joins them by [`Key::from`].

use falaj_sched::params::{Kind, Param};
use falaj_sched::registry::{self, ENTRIES, Entry};

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// What happens without it.
    pub fallback: Fallback,
    /// What it means, in one line.
    pub doc: &'static str,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A quantity, number or word, as disciplines know them. A rate may be `unlimited`.
    Value(Kind),
    /// A rate, but not `unlimited`.
    FiniteRate,
    /// A length of time above zero.
    PositiveSpan,
    /// A number of bytes in this range, ends included.
    BytesIn {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A rule for packets or a list of them; see [`crate::parse_match`].
    Rules,
    /// What tells packets of a flow or a link apart; see [`crate::PARTS`].
    Mask,
    /// The name of a link.
    LinkName,
    /// A name that people choose.
    Name,
    /// Where the packets of a rule go: a link, several, `drop`, `pass`, or a table with one of [`TO`].
    Target,
    /// What packets are like: a rule that says one value of each.
    Headers,
    /// A table whose keys are addresses, prefixes or numbers, and whose values are texts.
    Entries,
    /// A table whose keys a plug-in knows, and whose values are texts or whole numbers.
    Given,
    /// The name of a link, or a list of such names.
    LinkNames,
    /// The name of a flow.
    FlowName,
    /// A discipline: `kind` (see [`SCHEDULER`]), and what the discipline accepts.
    Scheduler,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table with these keys; or the value of the first of them alone.
    Brief(&'static [Key]),
    /// A number of bytes, which may be negative; see [`crate::parse_overhead`].
    Overhead,
    /// Numbers of packets; see [`crate::parse_numbers`].
    Numbers,
    /// Sizes of packets; see [`crate::parse_sizes`].
    Sizes,
    /// A number with a point.
    Decimal,
    /// A list of lists of numbers.
    Rows,
    /// The name of a file, beside the scenario's.
    File,
    /// A table with these keys, or a list of such tables.
    Tables(&'static [Key]),
    /// A table of tables, by names that people choose. Their keys are these,
    /// and for flows also what the discipline accepts.
    Named(&'static [Key]),
    /// The same with the keys of [`PART`], which has such tables in its turn.
    Parts,
}

/// What happens without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// It has to be given.
    Required,
    /// It is as if this were written.
    Value(&'static str),
    /// In words.
    Otherwise(&'static str),
}

impl From<&Param> for Key {
    /// A default that cannot be read as the parameter's kind is one in words.
    fn from(param: &Param) -> Key {
        let fallback = match param.default {
            None => Fallback::Required,
            Some(text) if crate::read::plain(param.kind, text).is_ok() => Fallback::Value(text),
            Some(words) => Fallback::Otherwise(words),
        };
        Key { name: param.name, holds: Holds::Value(param.kind), fallback, doc: param.doc }
    }
}

/// One table of the file, and where it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// What its keys are known by: `flow` of `flow.queue`; empty for the top of the file.
    pub word: &'static str,
    /// As its beginning is written.
    pub header: &'static str,
    /// What it is for, in one line.
    pub doc: &'static str,
    /// Its keys, without those of the disciplines.
    pub keys: &'static [Key],
}

/// All tables, in the order of a file.
pub const TABLES: &[Table] = &[
    Table { word: "", header: "the file", doc: "a scenario is one TOML file of these tables", keys: FILE },
    Table {
        word: "link",
        header: "[link.NAME]",
        doc: "a link, both directions alike; `[link.NAME.up]` and `[link.NAME.down]` take the same keys and say what differs",
        keys: LINK,
    },
    Table {
        word: "scheduler",
        header: "scheduler = { … }",
        doc: "the discipline of a link or of one direction; each has keys of its own",
        keys: SCHEDULER,
    },
    Table {
        word: "flow",
        header: "[link.NAME.flow.FLOW]",
        doc: "a flow of a link; each discipline has keys of its own",
        keys: FLOW,
    },
    Table {
        word: "part",
        header: "[link.NAME.flow.FLOW.flow.PART]",
        doc: "a flow within a flow, known as `FLOW/PART`, to be divided again; the flow's discipline has keys of its own",
        keys: PART,
    },
    Table {
        word: "queue",
        header: "queue = { … }",
        doc: "the queue of a flow, and what it does before it is full; `queue = \"20p\"` is the limit alone",
        keys: MANAGED,
    },
    Table {
        word: "trace",
        header: "trace = { … }",
        doc: "how the rate of a link changes; `trace = \"up.csv\"` is the file alone",
        keys: TRACE,
    },
    Table {
        word: "profile",
        header: "profile = { … }",
        doc: "how long packets take beyond their own transmission; `profile = \"wifi.profile\"` is the file alone",
        keys: PROFILE,
    },
    Table {
        word: "loss",
        header: "loss = { … }",
        doc: "which packets a link loses; `loss = \"1%\"` is the probability alone",
        keys: LOSS,
    },
    Table {
        word: "duplicate",
        header: "duplicate = { … }",
        doc: "which packets arrive twice; `duplicate = \"1%\"` is the probability alone, and `corrupt` takes the same",
        keys: EVENT,
    },
    Table {
        word: "reorder",
        header: "reorder = { … }",
        doc: "which packets overtake; `reorder = \"1%\"` is the probability alone",
        keys: REORDER,
    },
    Table {
        word: "jitter",
        header: "jitter = { … }",
        doc: "how the delay of packets differs; `jitter = \"5ms\"` is the amount alone",
        keys: JITTER,
    },
    Table {
        word: "slot",
        header: "slot = { … }",
        doc: "when packets are delivered; `slot = \"20ms\"` is the time from one slot to the next",
        keys: SLOT,
    },
    Table { word: "need", header: "need = { … }", doc: "what the owner of a flow asks for", keys: NEED },
    Table {
        word: "envelope",
        header: "envelope = { … }",
        doc: "a token bucket that the flow's packets keep to; of a list, all of them",
        keys: ENVELOPE,
    },
    Table {
        word: "rule",
        header: "[[rule]]",
        doc: "a rule: which links packets pass; in order, and the first that takes a packet decides",
        keys: RULE,
    },
    Table {
        word: "to",
        header: "to = { … }",
        doc: "where the packets of a rule go, other than to links; `to = \"slow\"` is a link alone",
        keys: TO,
    },
    Table {
        word: "table",
        header: "[table.NAME]",
        doc: "addresses or numbers, and what each stands for: `src table NAME` in a `match` looks into it, and `to` of a rule",
        keys: LOOKED_UP,
    },
    Table { word: "traffic", header: "[traffic.NAME]", doc: "a source of traffic, simulated or sent", keys: TRAFFIC },
    Table {
        word: "shaped",
        header: "shaped = { … }",
        doc: "a token bucket that a source's packets pass; `policed` takes the same",
        keys: BUCKET,
    },
    Table {
        word: "allowed",
        header: "allowed = { … }",
        doc: "what a greedy source is allowed: token buckets (sigma, rho), frames (r, T), or spacing (Xmin, Xave, I)",
        keys: GREEDY,
    },
    Table {
        word: "host",
        header: "[host.NAME]",
        doc: "a host at the ends of its links, for `falaj run`; all else looks at links alone. Without hosts there are two ends",
        keys: HOST,
    },
    Table { word: "run", header: "[run]", doc: "how long and how often to simulate", keys: RUN },
];

const fn key(name: &'static str, holds: Holds, fallback: Fallback, doc: &'static str) -> Key {
    Key { name, holds, fallback, doc }
}

use Fallback::{Otherwise, Required, Value as Default};

/// The smallest `mtu`: what every IPv4 link must carry.
pub const MTU_MIN: u32 = 68;
/// The largest `mtu`: the longest IPv4 packet.
pub const MTU_MAX: u32 = 65_535;

/// The top of the file.
pub const FILE: &[Key] = &[
    key("link", Holds::Named(LINK), Required, "the links, each `[link.NAME]`"),
    key(
        "rule",
        Holds::Tables(RULE),
        Otherwise("packets pass the only link"),
        "which links packets pass, each rule `[[rule]]`; what no rule takes is dropped",
    ),
    key(
        "table",
        Holds::Named(LOOKED_UP),
        Otherwise("no tables"),
        "addresses or numbers and what each stands for, each table `[table.NAME]`; rules look up there",
    ),
    key("traffic", Holds::Named(TRAFFIC), Otherwise("no traffic"), "the sources of traffic, each `[traffic.NAME]`"),
    key(
        "host",
        Holds::Named(HOST),
        Otherwise("two ends of one link"),
        "the hosts at the ends of the links, each `[host.NAME]`; for `falaj run`",
    ),
    key("run", Holds::Table(RUN), Otherwise("its defaults"), "how long and how often to simulate"),
];

/// What either direction of a link may have.
const RATE: Key = key(
    "rate",
    Holds::Value(Kind::Rate),
    Required,
    "bits a second that the link carries, or `unlimited`; a `trace` or a `preset` may stand for it",
);
const DELAY: Key = key("delay", Holds::Value(Kind::Span), Default("0s"), "propagation, from one end to the other");
const MTU: Key = key(
    "mtu",
    Holds::BytesIn { min: MTU_MIN as u64, max: MTU_MAX as u64 },
    Default("1500B"),
    "largest IP packet that passes; a VLAN tag is beside it",
);
const ACCOUNT: Key = key(
    "account",
    Holds::Value(Kind::Choice(falaj_engine::account::Account::NAMES)),
    Default("l2"),
    "which bytes count: transport payload, IP packet, frame, or all that occupies the wire",
);
const SCHEDULED: Key = key(
    "scheduler",
    Holds::Scheduler,
    Default("fifo"),
    "the discipline that divides the link, `{ kind = \"…\" }` and its parameters",
);
const FLOWS: Key = key(
    "flow",
    Holds::Named(FLOW),
    Otherwise("one flow `all` for every packet"),
    "the flows, each `[link.NAME.flow.FLOW]`; a packet belongs to the first that matches",
);

const OVERHEAD: Key = key(
    "overhead",
    Holds::Overhead,
    Otherwise("none"),
    "so much more each packet costs on the link than `account` counts, or less; rates, queues and quanta count it too, sizes and rates of traffic do not",
);
const CELLS: Key = key(
    "cells",
    Holds::Value(Kind::Choice(falaj_engine::framing::Cells::NAMES)),
    Default("none"),
    "what packets are carried in, with their overhead: whole cells of ATM (53 B for 48), or PTM (a byte for each 64)",
);
const PRESET: Key = key(
    "preset",
    Holds::Value(Kind::Choice(&crate::presets::NAMES)),
    Otherwise("none"),
    "a link that many know by this name: what is not set is as there; `falaj presets` shows them",
);
const BURST: Key = key(
    "burst",
    Holds::BytesIn { min: 1, max: BURST_MAX },
    Otherwise("none: the link serialises, each packet occupies it for its length"),
    "makes the link a token bucket: packets pass in no time while tokens last, so many bytes of them at most",
);
const TRACED: Key = key(
    "trace",
    Holds::Brief(TRACE),
    Otherwise("the rate stays"),
    "a file that says how the rate changes, in place of `rate`",
);

const PROFILED: Key = key(
    "profile",
    Holds::Brief(PROFILE),
    Otherwise("none"),
    "a dummynet profile: how long each packet takes beyond its own transmission",
);

/// `profile = { … }`.
pub const PROFILE: &[Key] = &[
    key("file", Holds::File, Required, "the profile, as dummynet takes it; its `bw` counts where there is no `rate`"),
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
        "lines of `time,rate`, as in `1.5s,10mbit`; or a mahimahi trace, a line with the millisecond of each packet",
    ),
    key(
        "repeat",
        Holds::PositiveSpan,
        Otherwise("the last rate stays; a mahimahi trace repeats where it ends"),
        "after this time it begins anew; for lines of `time,rate`",
    ),
];

/// What a link does to packets, behind its queue.
const LOSES: Key = key("loss", Holds::Brief(LOSS), Otherwise("none"), "packets that the link loses");
const DUPLICATES: Key = key("duplicate", Holds::Brief(EVENT), Otherwise("none"), "packets that arrive twice");
const CORRUPTS: Key = key("corrupt", Holds::Brief(EVENT), Otherwise("none"), "packets that arrive with a bit turned");
const REORDERS: Key =
    key("reorder", Holds::Brief(REORDER), Otherwise("none"), "packets that overtake: they skip the link's delay");
const JITTERS: Key = key(
    "jitter",
    Holds::Brief(JITTER),
    Otherwise("none"),
    "by how much the delay of packets differs; `delay` is its mean, and packets stay in order",
);
const SLOTTED: Key = key(
    "slot",
    Holds::Brief(SLOT),
    Otherwise("at any time"),
    "packets are delivered together, in slots with this time from one to the next",
);

/// How often a thing happens.
const PROBABILITY: Key = key("probability", Holds::Value(Kind::Probability), Required, "how often it happens");
const CORRELATION: Key = key(
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
    key("p14", Holds::Value(Kind::Probability), Default("0%"), "a single loss in a gap; for `four-states`"),
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
    key("amount", Holds::PositiveSpan, Required, "standard deviation of the delay; of `uniform` as much less or more"),
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
        "whether packets wait for those before them, or may overtake",
    ),
];

/// `slot = { … }`.
pub const SLOT: &[Key] = &[
    key("least", Holds::PositiveSpan, Required, "shortest time from one slot to the next"),
    key("most", Holds::PositiveSpan, Otherwise("as `least`"), "longest time from one slot to the next"),
    key(
        "packets",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Otherwise("any number"),
        "so many packets in a slot at most",
    ),
    key(
        "bytes",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Otherwise("any number"),
        "so many bytes in a slot at most, as the link accounts them; a packet that is larger has one alone",
    ),
];

const EACH_LINK: Key = key(
    "each",
    Holds::Mask,
    Otherwise("one link"),
    "a mask: makes a link of its own, with queues and scheduler, for each value of these parts of packets",
);
const EACH_FLOW: Key = key(
    "each",
    Holds::Mask,
    Otherwise("one queue"),
    "a mask: makes a queue of its own for each value of these parts of the flow's packets, all with the flow's settings",
);
const MOST: Key = key(
    "max-flows",
    Holds::Value(Kind::Count { min: 1, max: falaj_engine::each::Each::LIMIT as u64 }),
    Default(crate::masks::MOST),
    "so many of them at a time, for `each`; those beyond share some, and promises are for so many",
);
const EXPIRE: Key = key(
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
    key("up", Holds::Table(DIRECTION), Otherwise("as the link"), "what differs from the near end to the far end"),
    key("down", Holds::Table(DIRECTION), Otherwise("as the link"), "what differs from the far end to the near end"),
];

/// `[link.NAME.up]` and `[link.NAME.down]`: what is not set is as in `[link.NAME]`.
pub const DIRECTION: &[Key] = &[
    RATE, DELAY, MTU, ACCOUNT, SCHEDULED, FLOWS, OVERHEAD, CELLS, PRESET, BURST, TRACED, LOSES, DUPLICATES, CORRUPTS,
    REORDERS, JITTERS, SLOTTED, PROFILED, EACH_LINK, MOST, EXPIRE,
];

/// `scheduler = { … }`; the discipline's own parameters come after these.
pub const SCHEDULER: &[Key] = &[KIND];
/// The key that decides which others there are.
pub(crate) const KIND: Key = key("kind", Holds::Value(Kind::Choice(&KINDS)), Required, "the discipline");

const KINDS: [&str; ENTRIES.len() + 1] = {
    let mut kinds = [registry::PLUGIN.kind; ENTRIES.len() + 1];
    let mut n = 0;
    while n < ENTRIES.len() {
        kinds[n] = ENTRIES[n].kind;
        n += 1;
    }
    kinds
};

/// What the kind `plugin` takes for its scheduler, and for a flow.
const PLUGIN: &[Key] = &[
    key("library", Holds::File, Required, "the shared library that holds the discipline; it runs, even to be checked"),
    key("with", Holds::Given, Otherwise("nothing"), "parameters of the plug-in, which alone knows what they mean"),
];

/// What a discipline takes for its scheduler, beyond the kind.
pub fn of_scheduler(entry: &Entry) -> Vec<Key> {
    let own = if entry.kind == registry::PLUGIN.kind { PLUGIN } else { &[] };
    entry.scheduler.iter().map(Key::from).chain(own.iter().copied()).collect()
}

/// What a discipline takes for each flow.
pub fn of_flow(entry: &Entry) -> Vec<Key> {
    let own = if entry.kind == registry::PLUGIN.kind { &PLUGIN[1..] } else { &[] };
    entry.flow.iter().map(Key::from).chain(own.iter().copied()).collect()
}

const RULES: Key = key(
    "match",
    Holds::Rules,
    Otherwise("those of its `adapter`, or of its flows' adapters; without them it has to be given"),
    "the packets that belong to it: a rule, or a list of rules of which one must hold",
);
const ADAPTER: Key = key(
    "adapter",
    Holds::Name,
    Otherwise("none"),
    "for `falaj serve`: the virtual adapter whose packets, both ways, belong to it: `namespace` (one made for it), `tap:NETNS`, an \
     interface `eth1` or `eth1@NETNS`, `vhost:PATH`; with `match`, those of its packets alone",
);
/// The limit of a queue.
pub(crate) const LIMIT: Key = key("limit", Holds::Value(Kind::Limit), Default("20p"), "how much it holds at most");
/// The key that decides which others of a queue there are.
pub(crate) const POLICY: Key = key(
    "policy",
    Holds::Value(Kind::Choice(falaj_sched::policy::NAMES)),
    Default("tail"),
    "who goes, and when: the last packet or the first where there is no room; or earlier, by RED, gentle RED, CoDel or PIE",
);

/// `queue = { … }`; which of these there may be is for its `policy` to say.
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
    key("update", Holds::Value(Kind::Span), Otherwise("15ms"), "how often the probability is worked out; for `pie`"),
    key("burst", Holds::Value(Kind::Span), Otherwise("150ms"), "for so long a burst is let in; for `pie`"),
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

const QUEUE: Key =
    key("queue", Holds::Brief(MANAGED), Default("20p"), "its queue: a limit, or a table that says also who is dropped");
const NEEDED: Key = key(
    "need",
    Holds::Table(NEED),
    Otherwise("no need"),
    "what its owner asks for; a plan is refused that promises less",
);

const SENDS: Key = key(
    "envelope",
    Holds::Tables(ENVELOPE),
    Otherwise("not known"),
    "the most that it sends: a token bucket or a list of them, which all hold; `falaj plan` bounds delay and backlog by it",
);

/// `[link.NAME.flow.FLOW]`; the discipline's own parameters come after these.
pub const FLOW: &[Key] = &[RULES, ADAPTER, QUEUE, NEEDED, SENDS, EACH_FLOW, MOST, EXPIRE, DIVIDED_BY, PARTS];

const DIVIDED_BY: Key = key(
    "scheduler",
    Holds::Scheduler,
    Otherwise("`fifo` if the flow has flows, else none"),
    "the discipline that divides the flow's share among flows of its own",
);
const PARTS: Key = key(
    "flow",
    Holds::Parts,
    Otherwise("the flow is one queue"),
    "its own flows, each `[link.NAME.flow.FLOW.flow.PART]`, up to eight levels; the last one takes what is left, `match = \"any\"`",
);

/// `[link.NAME.flow.FLOW.flow.PART]`; the parameters of the flow's discipline come after these.
pub const PART: &[Key] = &[RULES, ADAPTER, QUEUE, NEEDED, SENDS, DIVIDED_BY, PARTS];

/// `need = { … }` of a flow.
pub const NEED: &[Key] = &[
    key("rate", Holds::FiniteRate, Otherwise("none"), "at least this rate"),
    key("delay", Holds::PositiveSpan, Otherwise("none"), "at most this delay, from last bit in to last bit out"),
];

/// The largest `burst` of an envelope.
pub const BURST_MAX: u64 = 1 << 40;
/// No more token buckets than these make an envelope.
pub const BUCKETS_MAX: usize = 16;

/// `envelope = { … }` of a flow, or one of a list.
pub const ENVELOPE: &[Key] = &[
    key("rate", Holds::FiniteRate, Required, "at most this rate in the long run, as the link accounts bytes"),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BURST_MAX },
        Required,
        "at most so much at once beyond that, the packet that comes included",
    ),
];

/// `[[rule]]`.
pub const RULE: &[Key] = &[
    key("name", Holds::Name, Otherwise("its number, from 1"), "what statistics and `skip-to` know it by"),
    key("match", Holds::Rules, Otherwise("every packet"), "the packets that it is for, as of a flow"),
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
    key("table", Holds::Name, Otherwise("none"), "the table that says where to; its texts are links, `drop` or `pass`"),
    key(
        "by",
        Holds::Value(Kind::Choice(falaj_engine::table::Field::NAMES)),
        Default("src"),
        "what of a packet is looked up there; a rule does not take what the table has not",
    ),
    key("skip-to", Holds::Name, Otherwise("none"), "they go on with the rule of this name, which stands behind"),
];

/// `[table.NAME]`: as many as there are, each of this kind.
pub const LOOKED_UP: &[Key] = &[key(
    "ENTRY",
    Holds::Entries,
    Otherwise("none"),
    "an address, a prefix, a number or a range of numbers, in quotes; its text is where rules lead, or empty",
)];

/// The most sources of one `[traffic.NAME]`: as many addresses as 100.64.0.0/10 has, less a few.
pub const SOURCES_MAX: u64 = 4_000_000;

/// A state of `model = "mmpp"`.
pub const STATE: &[Key] = &[
    key("rate", Holds::FiniteRate, Otherwise("nothing is sent"), "mean rate in this state"),
    key("stay", Holds::PositiveSpan, Required, "how long it lasts in the mean"),
];

/// `[traffic.NAME]`.
pub const TRAFFIC: &[Key] = &[
    key("link", Holds::LinkName, Otherwise("the only link, or as the rules say"), "the link it passes"),
    key(
        "headers",
        Holds::Headers,
        Otherwise("UDP between the ends, with ports of its own"),
        "what its packets are like, for rules: `tcp src 10.1.0.7 dport 443`",
    ),
    key("flow", Holds::FlowName, Otherwise("the only flow"), "the flow it belongs to"),
    key(
        "direction",
        Holds::Value(Kind::Choice(&["up", "down"])),
        Default("up"),
        "`up` from the near end to the far end, or `down`",
    ),
    key(
        "model",
        Holds::Value(Kind::Choice(&[
            "poisson",
            "cbr",
            "on-off",
            "pareto-on-off",
            "mmpp",
            "map",
            "mpeg",
            "greedy",
            "replay",
        ])),
        Required,
        "gaps between packets: exponential; constant; constant in bursts whose lengths and pauses are exponential, or Pareto's; \
         as states with a rate each say, or as a Markovian process; frames of video; as much as is `allowed`; or as \
         a `capture` has them",
    ),
    key(
        "rate",
        Holds::FiniteRate,
        Otherwise("required but by `mmpp`, `map`, `greedy` and `replay`, which have rates of their own"),
        "mean rate, as the link accounts bytes; of `on-off` and `pareto-on-off` the rate while on",
    ),
    key(
        "size",
        Holds::Sizes,
        Required,
        "sizes of packets, as the link accounts bytes: all alike, a range, or a mix; of `mpeg` the largest packet, in which \
         larger frames are divided, and of `replay` the largest, to which longer ones are cut",
    ),
    key("on", Holds::PositiveSpan, Otherwise("required by `on-off` and `pareto-on-off`"), "mean length of a burst"),
    key("off", Holds::PositiveSpan, Otherwise("required by `on-off` and `pareto-on-off`"), "mean pause between bursts"),
    key(
        "shape",
        Holds::Decimal,
        Otherwise("required by `pareto-on-off`"),
        "how long the longest bursts are, from above 1 to 10; many sources together are self-similar below 2",
    ),
    key(
        "states",
        Holds::Tables(STATE),
        Otherwise("required by `mmpp`"),
        "the states of `mmpp`, which follow each other at random",
    ),
    key("d0", Holds::Rows, Otherwise("required by `map`"), "moves a second between states without a packet, in rows"),
    key("d1", Holds::Rows, Otherwise("required by `map`"), "the same with one"),
    key("pattern", Holds::Name, Otherwise("IPBBPBBPBB"), "the frames of a group of pictures, for `mpeg`"),
    key(
        "frames",
        Holds::Value(Kind::Choice(&["exponential", "lognormal"])),
        Otherwise("exponential"),
        "how sizes of frames are spread, for `mpeg`",
    ),
    key(
        "allowed",
        Holds::Tables(GREEDY),
        Otherwise("required by `greedy`"),
        "the envelope that `greedy` keeps to, and uses up; of a list of token buckets, all hold",
    ),
    key(
        "offset",
        Holds::Value(Kind::Span),
        Otherwise("0s"),
        "how long after its start the first burst of `greedy` comes, or what `replay` has first",
    ),
    key("capture", Holds::File, Otherwise("required by `replay`"), "a pcap or pcapng file, whose packets are sent"),
    key(
        "select",
        Holds::Rules,
        Otherwise("all of them"),
        "which of the capture's packets, as in `match` of a flow: a source is one flow",
    ),
    key("speed", Holds::Decimal, Otherwise("1"), "how much faster than in the capture, from 0.000001 to 1000000"),
    key("scale", Holds::Decimal, Otherwise("1"), "how much longer than in the capture packets are, from 0.001 to 1000"),
    key(
        "repeat",
        Holds::Value(Kind::Choice(&["no", "yes"])),
        Otherwise("no"),
        "whether the capture begins anew when it has ended",
    ),
    key(
        "shaped",
        Holds::Table(BUCKET),
        Otherwise("none"),
        "a token bucket that its packets pass, of any model: those that find no tokens wait for them",
    ),
    key("policed", Holds::Table(BUCKET), Otherwise("none"), "the same, and those that find no tokens are not sent"),
    key(
        "sources",
        Holds::Value(Kind::Count { min: 1, max: SOURCES_MAX }),
        Default("1"),
        "so many sources alike, each with this rate and an address of its own at the near end, from 100.64.0.1 on; simulated only",
    ),
    key("start", Holds::Value(Kind::Span), Default("0s"), "when it begins"),
    key("stop", Holds::PositiveSpan, Otherwise("never"), "when it ends; later than `start`"),
    key(
        "ecn",
        Holds::Value(Kind::Choice(&["no", "ect0", "ect1"])),
        Default("no"),
        "whether its packets may be marked instead of dropped, and how they say so (RFC 3168)",
    ),
];

/// `shaped = { … }` of a source, and `policed`.
pub const BUCKET: &[Key] = &[
    key("rate", Holds::FiniteRate, Required, "how fast it fills, as the link accounts bytes"),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BYTES_MAX },
        Required,
        "what it holds: so much may go at once; the largest packet at least",
    ),
];

/// The largest token bucket of a source.
pub const BYTES_MAX: u64 = (1 << 32) - 1;

/// `allowed = { … }` of a greedy source, or one of a list.
pub const GREEDY: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Otherwise("required but with `x-min`"),
        "of a token bucket (sigma, rho), how fast it fills; of (r, T), what each frame may bring",
    ),
    key("burst", Holds::BytesIn { min: 1, max: BYTES_MAX }, Otherwise("none"), "what the token bucket holds"),
    key("frame", Holds::PositiveSpan, Otherwise("none"), "T of (r, T): how long a frame lasts"),
    key("x-min", Holds::PositiveSpan, Otherwise("none"), "of (Xmin, Xave, I): no two packets are nearer"),
    key(
        "x-ave",
        Holds::PositiveSpan,
        Otherwise("none"),
        "in any time `over` there is no more than one packet for each of these",
    ),
    key("over", Holds::PositiveSpan, Otherwise("none"), "I: that time"),
];

/// `[host.NAME]`.
pub const HOST: &[Key] = &[key(
    "link",
    Holds::LinkNames,
    Required,
    "the links that it is at an end of; one that two hosts name lies between them, up from the first in the file; one that a \
     single host names leads up to the router in the middle",
)];

/// `[run]`.
pub const RUN: &[Key] = &[
    key("duration", Holds::PositiveSpan, Default("10s"), "simulated time of one replication"),
    key(
        "seed",
        // What TOML can write.
        Holds::Value(Kind::Count { min: 0, max: i64::MAX as u64 }),
        Default("1"),
        "where random numbers begin; the same seed gives the same results",
    ),
    key("replications", Holds::Value(Kind::Count { min: 1, max: 10_000 }), Default("8"), "independent runs"),
];
