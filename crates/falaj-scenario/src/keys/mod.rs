//! Every key of the file, described once. The parser reads by these tables,
//! and its messages, a reference page or a schema can be made from them. What
//! the disciplines add for a scheduler and its flows is in
//! [`falaj_sched::registry::ENTRIES`] and joins them by [`Key::from`].

mod flow;
mod impairments;
mod link;
mod rule;
mod traffic;

pub use flow::{
    BUCKETS_MAX, BURST_MAX, ENVELOPE, FLOW, MANAGED, NEED, PART, SCHEDULER, of_flow, of_scheduler,
};
pub(crate) use flow::{KIND, LIMIT, POLICY};
pub(crate) use impairments::LOSS_KIND;
pub use impairments::{EVENT, JITTER, LOSS, REORDER, SLOT};
pub use link::{DIRECTION, LINK, MTU_MAX, MTU_MIN, PROFILE, TRACE};
pub use rule::{LOOKED_UP, RULE, TO};
pub use traffic::{BUCKET, BYTES_MAX, GREEDY, SOURCES_MAX, STATE, TRAFFIC};

use falaj_sched::contract::params::{Kind, Param};

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
    /// Where the packets of a rule go: a link, several, `drop`, `pass`, or a table with one of
    /// [`TO`].
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
    Table {
        word: "",
        header: "the file",
        doc: "a scenario is one TOML file of these tables",
        keys: FILE,
    },
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
    Table {
        word: "need",
        header: "need = { … }",
        doc: "what the owner of a flow asks for",
        keys: NEED,
    },
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
    Table {
        word: "traffic",
        header: "[traffic.NAME]",
        doc: "a source of traffic, simulated or sent",
        keys: TRAFFIC,
    },
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
    key(
        "traffic",
        Holds::Named(TRAFFIC),
        Otherwise("no traffic"),
        "the sources of traffic, each `[traffic.NAME]`",
    ),
    key(
        "host",
        Holds::Named(HOST),
        Otherwise("two ends of one link"),
        "the hosts at the ends of the links, each `[host.NAME]`; for `falaj run`",
    ),
    key("run", Holds::Table(RUN), Otherwise("its defaults"), "how long and how often to simulate"),
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
    key(
        "replications",
        Holds::Value(Kind::Count { min: 1, max: 10_000 }),
        Default("8"),
        "independent runs",
    ),
];
