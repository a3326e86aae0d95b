//! Keys of sources of traffic.

use super::key::Fallback::{Otherwise, Required, Value as Default};
use super::key::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

/// Maximum number of sources of one `[traffic.NAME]`. Each source has its own address in
/// 100.64.0.0/10, which has 4,194,304 addresses.
pub const SOURCES_MAX: u64 = 4_000_000;

/// The keys of a state of `model = "mmpp"`.
pub const STATE: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Otherwise("nothing is sent"),
        "mean rate of the source in this state",
    ),
    key("stay", Holds::PositiveSpan, Required, "mean duration of a stay in this state"),
];

/// The keys of `[traffic.NAME]`.
pub const TRAFFIC: &[Key] = &[
    key(
        "link",
        Holds::LinkName,
        Otherwise("the only link, or the links that the rules select"),
        "link that the packets pass",
    ),
    key(
        "headers",
        Holds::Headers,
        Otherwise("UDP between the two ends, with ports of its own"),
        "headers of the packets, which rules match, such as `tcp src 10.1.0.7 dport 443`",
    ),
    key("flow", Holds::FlowName, Otherwise("the only flow"), "flow that the packets belong to"),
    key(
        "direction",
        Holds::Value(Kind::Choice(&["up", "down"])),
        Default("up"),
        "direction of the packets: `up` from the near end to the far end, or `down`",
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
        "traffic model: packets with exponential (`poisson`) or constant gaps (`cbr`); constant \
         gaps in bursts of exponential (`on-off`) or Pareto length (`pareto-on-off`); states with \
         a rate each (`mmpp`) or a Markovian process (`map`); video frames (`mpeg`); all that an \
         envelope allows (`greedy`); packets of a capture (`replay`); a TCP connection, simulated \
         only (`tcp`)",
    ),
    key(
        "rate",
        Holds::FiniteRate,
        Otherwise(
            "required, except by `mmpp`, `map`, `greedy`, `replay` and `tcp`, which have rates of \
             their own",
        ),
        "mean rate, in the bytes that `layer` counts; for `on-off` and `pareto-on-off` the rate \
         during a burst",
    ),
    key(
        "size",
        Holds::Sizes,
        Required,
        "packet size, in the bytes that `layer` counts: constant, a range, or a mix; `mpeg` \
         divides larger frames into packets of this size, `replay` cuts longer packets to it, and \
         for `tcp` it is a full segment with its headers",
    ),
    key(
        "on",
        Holds::PositiveSpan,
        Otherwise("required by `on-off` and `pareto-on-off`"),
        "mean duration of a burst",
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
        "shape of the Pareto distribution of bursts, above 1 and up to 10; smaller values mean \
         longer bursts, and below 2 many sources together are self-similar",
    ),
    key(
        "states",
        Holds::Tables(STATE),
        Otherwise("required by `mmpp`"),
        "states of `mmpp`, each with a rate, which follow each other at random",
    ),
    key(
        "d0",
        Holds::Rows,
        Otherwise("required by `map`"),
        "transitions per second between states without a packet, as the rows of a matrix; for \
         `map`",
    ),
    key(
        "d1",
        Holds::Rows,
        Otherwise("required by `map`"),
        "transitions per second between states with a packet, as the rows of a matrix; for `map`",
    ),
    key(
        "pattern",
        Holds::Name,
        Otherwise("IPBBPBBPBB"),
        "types of the frames in a group of pictures, in order; for `mpeg`",
    ),
    key(
        "frames",
        Holds::Value(Kind::Choice(&["exponential", "lognormal"])),
        Otherwise("exponential"),
        "distribution of frame sizes; for `mpeg`",
    ),
    key(
        "allowed",
        Holds::Tables(GREEDY),
        Otherwise("required by `greedy`"),
        "envelope that `greedy` uses up; in a list of token buckets, all of them hold",
    ),
    key(
        "offset",
        Holds::Value(Kind::Span),
        Otherwise("0s"),
        "time from `start` to the first burst of `greedy`, or to the first packet of `replay`",
    ),
    key(
        "capture",
        Holds::File("web.pcapng"),
        Otherwise("required by `replay`"),
        "pcap or pcapng file whose packets `replay` sends",
    ),
    key(
        "select",
        Holds::Rules,
        Otherwise("all packets"),
        "packets of the capture that `replay` sends, written like the `match` of a flow; a source \
         is one flow",
    ),
    key(
        "speed",
        Holds::Decimal,
        Otherwise("1"),
        "speed of `replay` as a multiple of the capture's, from 0.000001 to 1000000",
    ),
    key(
        "scale",
        Holds::Decimal,
        Otherwise("1"),
        "packet length of `replay` as a multiple of the capture's, from 0.001 to 1000",
    ),
    key(
        "repeat",
        Holds::Value(Kind::Choice(&["no", "yes"])),
        Otherwise("no"),
        "`yes` starts the capture again after its last packet; for `replay`",
    ),
    key(
        "congestion",
        Holds::Value(Kind::Choice(&["reno", "cubic", "dctcp", "bbr"])),
        Otherwise("cubic"),
        "congestion control of `tcp`: `reno` (RFC 5681), `cubic` (RFC 9438), `dctcp` (RFC 8257), \
         which reacts to ECN marks, or `bbr`, by a model of the path",
    ),
    key(
        "return",
        Holds::Value(Kind::Span),
        Otherwise("the delay of the link's other direction"),
        "delay of an acknowledgement of `tcp` on its way back",
    ),
    key(
        "bytes",
        Holds::BytesIn { min: 1, max: TRANSFER_MAX },
        Otherwise("endless"),
        "payload of each transfer of `tcp`, in bytes",
    ),
    key(
        "pause",
        Holds::PositiveSpan,
        Otherwise("no further transfer"),
        "mean time between the end of a transfer of `tcp` and the start of the next, exponentially \
         distributed",
    ),
    key(
        "initial-window",
        Holds::Value(Kind::Count { min: 1, max: 1000 }),
        Otherwise("10"),
        "the initial congestion window of `tcp`, in segments (RFC 6928)",
    ),
    key(
        "window",
        Holds::BytesIn { min: 1, max: WINDOW_MAX },
        Otherwise("16MiB"),
        "receive window of `tcp`: maximum payload in flight",
    ),
    key(
        "acknowledge",
        Holds::Value(Kind::Choice(&["each", "second"])),
        Otherwise("second"),
        "segments of `tcp` that are acknowledged: `each`, or every `second` one, and a single one \
         after 40 ms",
    ),
    key(
        "shaped",
        Holds::Table(BUCKET),
        Otherwise("none"),
        "token bucket in front of the source, whatever its `model`: packets without tokens wait \
         for them",
    ),
    key(
        "policed",
        Holds::Table(BUCKET),
        Otherwise("none"),
        "token bucket in front of the source, whatever its `model`: packets without tokens are \
         discarded",
    ),
    key(
        "sources",
        Holds::Value(Kind::Count { min: 1, max: SOURCES_MAX }),
        Default("1"),
        "the number of equal sources, each with this rate and an address of its own at the near \
         end, from 100.64.0.1 on; simulated only",
    ),
    key("start", Holds::Value(Kind::Span), Default("0s"), "time at which the source starts"),
    key(
        "stop",
        Holds::PositiveSpan,
        Otherwise("never"),
        "time at which the source stops; later than `start`",
    ),
    key(
        "ecn",
        Holds::Value(Kind::Choice(&["no", "ect0", "ect1"])),
        Default("no"),
        "ECN support of the packets (RFC 3168): with `ect0` or `ect1`, queues may mark them \
         instead of dropping them",
    ),
];

/// The longest transfer, in bytes.
const TRANSFER_MAX: u64 = 1 << 50;

/// The largest receive window of a connection: 1 GiB (RFC 7323).
const WINDOW_MAX: u64 = 1 << 30;

/// The keys of `shaped = { … }` and `policed = { … }` of a source.
pub const BUCKET: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Required,
        "rate at which the token bucket fills, in the bytes that `layer` counts",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BYTES_MAX },
        Required,
        "size of the token bucket: maximum number of bytes at once; at least the largest packet",
    ),
];

/// The largest token bucket of a source, in bytes.
pub const BYTES_MAX: u64 = (1 << 32) - 1;

/// The keys of `allowed = { … }` of a greedy source, or of each table in a list.
pub const GREEDY: &[Key] = &[
    key(
        "rate",
        Holds::FiniteRate,
        Otherwise("required, except with `x-min`"),
        "fill rate of a token bucket (sigma, rho); or for frames (r, T), rate of the bytes that \
         each frame may bring",
    ),
    key(
        "burst",
        Holds::BytesIn { min: 1, max: BYTES_MAX },
        Otherwise("none"),
        "size of the token bucket, sigma of (sigma, rho)",
    ),
    key("frame", Holds::PositiveSpan, Otherwise("none"), "length of a frame, T of (r, T)"),
    key(
        "x-min",
        Holds::PositiveSpan,
        Otherwise("none"),
        "minimum time between two packets, Xmin of (Xmin, Xave, I)",
    ),
    key(
        "x-ave",
        Holds::PositiveSpan,
        Otherwise("none"),
        "mean time between two packets over any time of length `over`, Xave of (Xmin, Xave, I)",
    ),
    key(
        "over",
        Holds::PositiveSpan,
        Otherwise("none"),
        "length of the time over which `x-ave` holds, I of (Xmin, Xave, I)",
    ),
];
