//! The descriptions of all keys of the file. The parser uses these tables; its messages, the
//! reference page and the schema are generated from them. The keys of disciplines for schedulers
//! and flows are in [`falaj_sched::registry::ENTRIES`], and are added by [`Key::from`].

mod change;
mod flow;
mod key;
mod link;
mod mask;
mod renamed;
mod rule;
mod sample;
mod traffic;

pub use crate::units::{BURST_MAX, MTU_MAX, MTU_MIN};
pub use change::{CHANGE, CHANGES_MAX};
pub use flow::{
    BUCKETS_MAX, ENVELOPE, FLOW, MANAGED, PART, REQUIRES, SCHEDULER, of_flow, of_scheduler,
};
pub(crate) use flow::{KIND, LIMIT, POLICY};
pub(crate) use key::key;
pub use key::{Fallback, Holds, Key, Table};
pub(crate) use link::{CARRIES, direction};
pub use link::{DIRECTION, LINK, PEAK, PROFILE, TRACE};
pub use renamed::{RENAMED, present};
pub use rule::{CONFORMS_TO, LOOKED_UP, RULE, TO};
pub(crate) use sample::{inline, sample};
pub use traffic::{BUCKET, BYTES_MAX, GREEDY, SOURCES_MAX, STATE, TRAFFIC};

use crate::impairments;
use crate::model::RunTime;
use falaj_sched::contract::params::Kind;

/// All tables, in the order in which the reference shows them.
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
        doc: "a link; these keys hold for both directions, and the same keys in `[link.NAME.up]` \
              and `[link.NAME.down]` replace them for one direction",
        keys: LINK,
    },
    Table {
        word: "scheduler",
        header: "scheduler = { … }",
        doc: "the discipline by which a link, or one direction of it, chooses the next packet; \
              each discipline has keys of its own",
        keys: SCHEDULER,
    },
    Table {
        word: "flow",
        header: "[link.NAME.flow.FLOW]",
        doc: "a flow: the packets that match it, and their queue; each discipline of the link adds \
              keys of its own",
        keys: FLOW,
    },
    Table {
        word: "part",
        header: "[link.NAME.flow.FLOW.flow.PART]",
        doc: "a flow that shares in the service of the flow above it, known as `FLOW/PART`; it may \
              be divided again; the discipline of the flow above adds keys of its own",
        keys: PART,
    },
    Table {
        word: "queue",
        header: "queue = { … }",
        doc: "the queue of a flow: its limit, and its policy for dropping packets; `queue = \
              \"20p\"` is the limit alone",
        keys: MANAGED,
    },
    Table {
        word: "trace",
        header: "trace = { … }",
        doc: "a file with the link's rate over time; `trace = \"up.csv\"` is the file alone",
        keys: TRACE,
    },
    Table {
        word: "peak",
        header: "peak = { … }",
        doc: "the second token bucket of a link that has a `burst`: it limits the rate at which a \
              burst leaves; `peak = \"100mbit\"` is the rate alone",
        keys: PEAK,
    },
    Table {
        word: "profile",
        header: "profile = { … }",
        doc: "a file with the distribution of the time that packets take beyond their \
              transmission; `profile = \"wifi.profile\"` is the file alone",
        keys: PROFILE,
    },
];

const BEHIND: &[Table] = &[
    Table {
        word: "requires",
        header: "requires = { … }",
        doc: "the rate and delay that a flow must be guaranteed",
        keys: REQUIRES,
    },
    Table {
        word: "envelope",
        header: "envelope = { … }",
        doc: "an upper bound on the traffic of a flow, as a token bucket; if there is a list, the \
              flow keeps to each of them",
        keys: ENVELOPE,
    },
    Table {
        word: "rule",
        header: "[[rule]]",
        doc: "a rule that routes packets through links; rules are tried in order, and the first \
              that takes a packet decides",
        keys: RULE,
    },
    Table {
        word: "conforms-to",
        header: "conforms-to = { … }",
        doc: "a policer of a rule: the token bucket to which the packets that it takes conform; if \
              there is a list, they conform to all of its buckets",
        keys: CONFORMS_TO,
    },
    Table {
        word: "to",
        header: "to = { … }",
        doc: "the target of a rule's packets if it is not a link: a lookup in a table, or a later \
              rule; `to = \"slow\"` is a link alone",
        keys: TO,
    },
    Table {
        word: "table",
        header: "[table.NAME]",
        doc: "a lookup table from addresses or numbers to links; rules use it in `to`, and in \
              `match` as `src table NAME`",
        keys: LOOKED_UP,
    },
    Table {
        word: "traffic",
        header: "[traffic.NAME]",
        doc: "a source of traffic, simulated by `falaj sim` or sent by `falaj traffic`",
        keys: TRAFFIC,
    },
    Table {
        word: "shaped",
        header: "shaped = { … }",
        doc: "a token bucket that a source's packets pass before they are sent; `policed` has \
              the same keys",
        keys: BUCKET,
    },
    Table {
        word: "allowed",
        header: "allowed = { … }",
        doc: "an envelope that a greedy source uses up: token bucket (sigma, rho), frames (r, T), \
              or spacing (Xmin, Xave, I)",
        keys: GREEDY,
    },
    Table {
        word: "host",
        header: "[host.NAME]",
        doc: "a host at the end of one or more links, for `falaj run` alone; without hosts there \
              are two ends",
        keys: HOST,
    },
    Table {
        word: "change",
        header: "[[change]]",
        doc: "a scheduled change of links, flows or rules: `falaj set` at a time of the run that \
              is known beforehand",
        keys: CHANGE,
    },
    Table {
        word: "run",
        header: "[run]",
        doc: "the duration, the number and the seed of simulation runs",
        keys: RUN,
    },
];

use Fallback::{Otherwise, Required, Value as Default};

/// The keys at the top of the file.
pub const FILE: &[Key] = &[
    key("link", Holds::Named(LINK), Required, "the links, each a table `[link.NAME]`"),
    key(
        "rule",
        Holds::Tables(RULE),
        Otherwise("all packets pass the only link"),
        "the rules that route packets through links, each a table `[[rule]]`; a packet that matches no rule is dropped",
    ),
    key(
        "table",
        Holds::Named(LOOKED_UP),
        Otherwise("no tables"),
        "the lookup tables for rules, each a table `[table.NAME]`",
    ),
    key(
        "traffic",
        Holds::Named(TRAFFIC),
        Otherwise("no traffic"),
        "the sources of traffic, each a table `[traffic.NAME]`",
    ),
    key(
        "host",
        Holds::Named(HOST),
        Otherwise("two ends of one link"),
        "the hosts at the ends of the links, each a table `[host.NAME]`; for `falaj run` alone",
    ),
    key(
        "change",
        Holds::Tables(CHANGE),
        Otherwise("the links stay as they are"),
        "the scheduled changes of the links during a run, each a table `[[change]]`",
    ),
    key(
        "run",
        Holds::Table(RUN),
        Otherwise("the defaults of its keys"),
        "the duration, the number and the seed of simulation runs",
    ),
];

/// The keys of `[host.NAME]`.
pub const HOST: &[Key] = &[key(
    "link",
    Holds::LinkNames,
    Required,
    "links with an end at this host; a link that two hosts name connects them, and its `up` leads \
     away from the host that comes first in the file; a link that one host names leads `up` to a \
     router in the middle",
)];

/// The largest seed: the limit of TOML's integers.
pub const SEED_MAX: u64 = i64::MAX as u64;

/// The keys of `[run]`.
pub const RUN: &[Key] = &[
    key(
        "duration",
        Holds::PositiveSpan,
        Default("10s"),
        "duration of each replication, in simulated time",
    ),
    key(
        "seed",
        Holds::Value(Kind::Count { min: 0, max: SEED_MAX }),
        Default("1"),
        "the seed of all random numbers; the same seed gives the same results",
    ),
    key(
        "replications",
        Holds::Value(Kind::Count { min: 1, max: 10_000 }),
        Default("8"),
        "the number of independent replications, each with random numbers of its own",
    ),
    key(
        "time",
        Holds::Value(Kind::Choice(&RunTime::NAMES)),
        Default("real"),
        "clock of the commands with live packets (`run`, `traffic`, `compare`): `real` is the \
         host's clock, `virtual` that of a guest, which stands still while programs compute, as \
         with --virtual-time",
    ),
];
