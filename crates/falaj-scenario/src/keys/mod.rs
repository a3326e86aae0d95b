//! Every key of the file, described once. The parser reads by these tables, and its messages, the
//! reference page and the schema are generated from them. Keys of disciplines for a scheduler and
//! its flows are in [`falaj_sched::registry::ENTRIES`], and are added by [`Key::from`].

mod flow;
mod key;
mod link;
mod mask;
mod renamed;
mod rule;
mod sample;
mod traffic;

pub use crate::units::{BURST_MAX, MTU_MAX, MTU_MIN};
pub use flow::{
    BUCKETS_MAX, ENVELOPE, FLOW, MANAGED, PART, REQUIRES, SCHEDULER, of_flow, of_scheduler,
};
pub(crate) use flow::{KIND, LIMIT, POLICY};
pub(crate) use key::key;
pub use key::{Fallback, Holds, Key, Table};
pub(crate) use link::{CARRIES, direction};
pub use link::{DIRECTION, LINK, PROFILE, TRACE};
pub use renamed::{RENAMED, present};
pub use rule::{LOOKED_UP, RULE, TO};
pub(crate) use sample::{inline, sample};
pub use traffic::{BUCKET, BYTES_MAX, GREEDY, SOURCES_MAX, STATE, TRAFFIC};

use crate::impairments;
use crate::model::RunTime;
use falaj_sched::contract::params::Kind;

/// All tables, in the order of a file.
pub const TABLES: &[Table] = {
    const LISTS: &[&[Table]] = &[BEFORE, &OF_IMPAIRMENTS, BEHIND];
    &key::joined::<_, { key::count(LISTS) }>(LISTS)
};

/// The tables of impairments.
const OF_IMPAIRMENTS: [Table; impairments::TABLES] = impairments::tables();

const BEFORE: &[Table] = &[
    Table {
        word: "",
        header: "the file",
        doc: "a scenario is one TOML file of these tables",
        keys: FILE,
    },
    Table {
        word: "link",
        header: "[link.NAME]",
        doc: "a link, both directions alike; `[link.NAME.up]` and `[link.NAME.down]` take the same \
              keys and say what differs",
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
        doc: "a flow within a flow, known as `FLOW/PART`, to be divided again; the flow's \
              discipline has keys of its own",
        keys: PART,
    },
    Table {
        word: "queue",
        header: "queue = { … }",
        doc: "the queue of a flow, and what it does before it is full; `queue = \"20p\"` is the \
              limit alone",
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
        doc: "how long packets take beyond their own transmission; `profile = \"wifi.profile\"` is \
              the file alone",
        keys: PROFILE,
    },
];

const BEHIND: &[Table] = &[
    Table {
        word: "requires",
        header: "requires = { … }",
        doc: "what the owner of a flow asks for",
        keys: REQUIRES,
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
        doc: "a rule: which links packets pass; in order, and the first that takes a packet \
              decides",
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
        doc: "addresses or numbers, and what each stands for: `src table NAME` in a `match` looks \
              into it, and `to` of a rule",
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
        doc: "what a greedy source is allowed: token buckets (sigma, rho), frames (r, T), or \
              spacing (Xmin, Xave, I)",
        keys: GREEDY,
    },
    Table {
        word: "host",
        header: "[host.NAME]",
        doc: "a host at the ends of its links, for `falaj run`; all else looks at links alone. \
              Without hosts there are two ends",
        keys: HOST,
    },
    Table { word: "run", header: "[run]", doc: "how long and how often to simulate", keys: RUN },
];

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
        "addresses or numbers and what each stands for, each table `[table.NAME]`; rules look up \
         there",
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
    "the links that it is at an end of; one that two hosts name lies between them, up from the \
     first in the file; one that a single host names leads up to the router in the middle",
)];

/// The largest seed: the limit of TOML's integers.
pub const SEED_MAX: u64 = i64::MAX as u64;

/// `[run]`.
pub const RUN: &[Key] = &[
    key("duration", Holds::PositiveSpan, Default("10s"), "simulated time of one replication"),
    key(
        "seed",
        Holds::Value(Kind::Count { min: 0, max: SEED_MAX }),
        Default("1"),
        "where random numbers begin; the same seed gives the same results",
    ),
    key(
        "replications",
        Holds::Value(Kind::Count { min: 1, max: 10_000 }),
        Default("8"),
        "independent runs",
    ),
    key(
        "time",
        Holds::Value(Kind::Choice(&RunTime::NAMES)),
        Default("real"),
        "which time passes where packets are live (`run`, `traffic`, `compare`): `real`, the \
         host's; or `virtual`, a guest's that stands still while anything computes, as with \
         --virtual-time",
    ),
];
