//! Keys of sources of traffic.

use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

/// Maximum number of sources of one `[traffic.NAME]`: the addresses of 100.64.0.0/10, minus a few.
pub const SOURCES_MAX: u64 = 4_000_000;

/// A state of `model = "mmpp"`.
pub const STATE: &[Key] = &[
    key("rate", Holds::FiniteRate, Otherwise("nothing is sent"), "mean rate in this state"),
    key("stay", Holds::PositiveSpan, Required, "how long it lasts in the mean"),
];

/// `[traffic.NAME]`.
pub const TRAFFIC: &[Key] = &[
    key(
        "link",
        Holds::LinkName,
        Otherwise("the only link, or as the rules say"),
        "the link it passes",
    ),
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
            "tcp",
        ])),
        Required,
        "gaps between packets: exponential; constant; constant in bursts whose lengths and pauses \
         are exponential, or Pareto's; as states with a rate each say, or as a Markovian process; \
         frames of video; as much as is `allowed`; as a `capture` has them; or as much as arrives \
         and a little more, which is simulated only",
    ),
    key(
        "rate",
        Holds::FiniteRate,
        Otherwise(
            "required but by `mmpp`, `map`, `greedy`, `replay` and `tcp`, which have rates of their own",
        ),
        "mean rate, as the link accounts bytes; of `on-off` and `pareto-on-off` the rate while on",
    ),
    key(
        "size",
        Holds::Sizes,
        Required,
        "sizes of packets, as the link accounts bytes: all alike, a range, or a mix; of `mpeg` the \
         largest packet, in which larger frames are divided, of `replay` the largest, to which \
         longer ones are cut, and of `tcp` a full segment with its headers",
    ),
    key(
        "on",
        Holds::PositiveSpan,
        Otherwise("required by `on-off` and `pareto-on-off`"),
        "mean length of a burst",
    ),
    key(
        "off",
        Holds::PositiveSpan,
        Otherwise("required by `on-off` and `pareto-on-off`"),
        "mean pause between bursts",
    ),
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
    key(
        "d0",
        Holds::Rows,
        Otherwise("required by `map`"),
        "moves a second between states without a packet, in rows",
    ),
    key("d1", Holds::Rows, Otherwise("required by `map`"), "the same with one"),
    key(
        "pattern",
        Holds::Name,
        Otherwise("IPBBPBBPBB"),
        "the frames of a group of pictures, for `mpeg`",
    ),
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
    key(
        "capture",
        Holds::File("web.pcapng"),
        Otherwise("required by `replay`"),
        "a pcap or pcapng file, whose packets are sent",
    ),
    key(
        "select",
        Holds::Rules,
        Otherwise("all of them"),
        "which of the capture's packets, as in `match` of a flow: a source is one flow",
    ),
    key(
        "speed",
        Holds::Decimal,
        Otherwise("1"),
        "how much faster than in the capture, from 0.000001 to 1000000",
    ),
    key(
        "scale",
        Holds::Decimal,
        Otherwise("1"),
        "how much longer than in the capture packets are, from 0.001 to 1000",
    ),
    key(
        "repeat",
        Holds::Value(Kind::Choice(&["no", "yes"])),
        Otherwise("no"),
        "whether the capture starts again when it has ended",
    ),
    key(
        "congestion",
        Holds::Value(Kind::Choice(&["reno", "cubic", "dctcp", "bbr"])),
        Otherwise("cubic"),
        "how `tcp` finds out how much may be under way: Reno (RFC 5681), CUBIC (RFC 9438), DCTCP (RFC 8257), which counts marks, or as BBR does, by a model of the path",
    ),
    key(
        "return",
        Holds::Value(Kind::Span),
        Otherwise("the delay of the link's other direction"),
        "how long an acknowledgement of `tcp` takes back",
    ),
    key(
        "bytes",
        Holds::BytesIn { min: 1, max: TRANSFER_MAX },
        Otherwise("without end"),
        "a transfer of `tcp` has so many bytes of payload",
    ),
    key(
        "pause",
        Holds::PositiveSpan,
        Otherwise("no other transfer"),
        "mean time between a transfer of `tcp` and the next, exponential",
    ),
    key(
        "initial-window",
        Holds::Value(Kind::Count { min: 1, max: 1000 }),
        Otherwise("10"),
        "so many segments of `tcp` may be under way at the beginning (RFC 6928)",
    ),
    key(
        "window",
        Holds::BytesIn { min: 1, max: WINDOW_MAX },
        Otherwise("16MiB"),
        "so much payload of `tcp` may be under way at most: what its receiver takes",
    ),
    key(
        "acknowledge",
        Holds::Value(Kind::Choice(&["each", "second"])),
        Otherwise("second"),
        "whether each segment of `tcp` is acknowledged, or every second one, and one alone after 40 ms",
    ),
    key(
        "shaped",
        Holds::Table(BUCKET),
        Otherwise("none"),
        "a token bucket that its packets pass, of any model: those that find no tokens wait for them",
    ),
    key(
        "policed",
        Holds::Table(BUCKET),
        Otherwise("none"),
        "the same, and those that find no tokens are not sent",
    ),
    key(
        "sources",
        Holds::Value(Kind::Count { min: 1, max: SOURCES_MAX }),
        Default("1"),
        "number of identical sources, each with this rate and an address of its own at the near end, from 100.64.0.1 on; simulated only",
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

/// The longest transfer.
const TRANSFER_MAX: u64 = 1 << 50;

/// The largest window of a connection: 1 GiB (RFC 7323).
const WINDOW_MAX: u64 = 1 << 30;

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
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BYTES_MAX },
        Otherwise("none"),
        "what the token bucket holds",
    ),
    key("frame", Holds::PositiveSpan, Otherwise("none"), "T of (r, T): how long a frame lasts"),
    key(
        "x-min",
        Holds::PositiveSpan,
        Otherwise("none"),
        "of (Xmin, Xave, I): no two packets are nearer",
    ),
    key(
        "x-ave",
        Holds::PositiveSpan,
        Otherwise("none"),
        "in any time `over` there is no more than one packet for each of these",
    ),
    key("over", Holds::PositiveSpan, Otherwise("none"), "I: that time"),
];
