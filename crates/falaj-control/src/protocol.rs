//! What is said at a control socket: JSON, a line each. The page `docs/reference/control.md` says
//! what it means.

use falaj_engine::masks::{MaskStats as Made, SojournStats};
use falaj_engine::pipe::Counters;
use falaj_sched::units::time::Span;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// What a client must know to understand the rest. It grows when something that was there means
/// something else, or is gone.
pub const VERSION: u32 = 1;
/// The longest line that is read.
pub const LINE: usize = 4 << 20;

/// The first line, from whoever listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub falaj: u32,
    /// Version of the program.
    pub release: String,
    /// The process.
    pub pid: u32,
    /// The command: `run`, `bridge`, `serve`.
    pub command: String,
    /// What it is about, for people.
    pub about: String,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// What the links do.
    Show(ShowRequest),
    /// A change.
    Set(SetRequest),
    /// The scenario as it is.
    Scenario,
}

/// Asks what the links do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Whole histograms as well.
    #[serde(default)]
    pub histograms: bool,
}

/// Asks for a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// The scenario that it is to be from then on; else the one that there is.
    #[serde(default)]
    pub toml: Option<String>,
    /// Its file, beside which those stand that it names; else they are looked for as before.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// `KEY=VALUE`, keys as in the scenario.
    #[serde(default)]
    pub set: Vec<String>,
    /// Packets that wait and do not fit any more may be dropped.
    #[serde(default)]
    pub drop: bool,
    /// Only say whether that could be.
    #[serde(default)]
    pub check: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Reads a request; its `id` comes back with the answer, whatever is wrong with the rest.
pub fn request(line: &[u8]) -> (Json, Result<Request, String>) {
    let mut fields = match serde_json::from_slice::<Map<String, Json>>(line) {
        Ok(fields) => fields,
        Err(error) => {
            return (Json::Null, Err(format!("a request is a JSON object in one line: {error}")));
        }
    };
    let id = fields.remove("id").unwrap_or_default();
    let what = fields.remove("do");
    let fields = Json::Object(fields);
    let read = match what.as_ref().and_then(Json::as_str) {
        Some("show") => serde_json::from_value(fields).map(Request::Show),
        Some("set") => serde_json::from_value(fields).map(Request::Set),
        Some("scenario") => serde_json::from_value::<Nothing>(fields).map(|_| Request::Scenario),
        _ => return (id, Err("`do` is \"show\", \"set\" or \"scenario\"".into())),
    };
    (id, read.map_err(|error| error.to_string()))
}

/// What is wrong, or unlikely, with a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// `error` or `warning`.
    pub severity: String,
    /// What is wrong.
    pub title: String,
    /// What to write, what is allowed.
    pub help: Vec<String>,
}

/// Why there is no other answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason.
    pub what: String,
    /// What is wrong with the scenario that was asked for.
    #[serde(default)]
    pub remarks: Vec<Remark>,
}

impl Refusal {
    /// A refusal without remarks.
    pub fn new(what: impl Into<String>) -> Refusal {
        Refusal { what: what.into(), remarks: Vec::new() }
    }
}

/// The line of an answer.
pub fn answer<T: Serialize>(id: &Json, answer: &Result<T, Refusal>) -> String {
    let line = match answer {
        Ok(answer) => json!({ "id": id, "ok": answer }),
        Err(refusal) => json!({ "id": id, "error": refusal }),
    };
    format!("{line}\n")
}

/// A change that was made, or could be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAnswer {
    /// The directions that are another way now; none where all was so before.
    pub changed: Vec<String>,
    /// When, in nanoseconds since the link began; null if nothing was changed.
    pub at_ns: Option<u64>,
    /// Packets that waited and were dropped.
    pub dropped: u64,
    /// Warnings that are new.
    pub remarks: Vec<Remark>,
}

/// The scenario as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioAnswer {
    /// Its text.
    pub toml: String,
}

/// What the links do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinksReport {
    /// Time since the link began.
    pub elapsed_ns: u64,
    /// By link, in the order of the scenario.
    pub links: Vec<LinkReport>,
    /// What each rule has taken.
    pub rules: Vec<RuleReport>,
    /// What links and rules did that were taken away.
    pub gone: GoneReport,
    /// Packets that were lost outside of the links' queues.
    pub lost_elsewhere: Vec<Elsewhere>,
}

/// Packets lost outside of the queues.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Number of packets.
    pub count: u64,
    /// Why they were lost.
    pub what: String,
}

/// A rule, and what it has taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleReport {
    /// The rule's name.
    pub rule: String,
    /// Packets, and their bytes as IP packets.
    pub packets: u64,
    /// Bytes as IP packets.
    pub bytes: u64,
    /// Of them, in each link that it leads to: what was dropped there, and what the link lost.
    pub dropped: u64,
    /// Packets that those links lost.
    pub lost: u64,
    /// How long they were in its queue: each quantile is the end of a bucket.
    pub sojourn: BucketDelays,
    /// Since it took a packet last; null: it never did.
    pub idle_ns: Option<u64>,
    /// What it took, in bits per second; added by whoever looks twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// Sojourns in 16 buckets, each four times as wide as the one before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BucketDelays {
    /// Number of packets.
    pub packets: u64,
    /// The median.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The largest.
    pub max_ns: Option<u64>,
    /// The end of each bucket that is not empty (null: the last has none), and how many are in it.
    pub buckets: Vec<(Option<u64>, u64)>,
}

impl From<&SojournStats> for BucketDelays {
    fn from(stats: &SojournStats) -> BucketDelays {
        let nanos = |span: Option<Span>| span.map(|span| span.0);
        let buckets = stats.sojourns().into_iter().enumerate().filter(|(_, packets)| *packets > 0);
        BucketDelays {
            packets: stats.packets(),
            p50_ns: nanos(stats.quantile(0.5)),
            p99_ns: nanos(stats.quantile(0.99)),
            max_ns: nanos(stats.quantile(1.0)),
            buckets: buckets
                .map(|(bucket, packets)| (nanos(SojournStats::end_of(bucket)), packets))
                .collect(),
        }
    }
}

/// Links that were taken away; what is their backlog goes still.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoneReport {
    /// Packets that came.
    pub offered: u64,
    /// Packets whose last bit left.
    pub sent: u64,
    /// Packets that the links lost.
    pub lost: u64,
    /// Packets dropped in their queues.
    pub dropped: Drops,
    /// Packets that still wait.
    pub backlog: u64,
    /// Packets that rules took that were taken away.
    pub taken: u64,
}

/// A link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// The link's name.
    pub link: String,
    /// Up, then down.
    pub directions: Vec<DirectionReport>,
}

/// A direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectionReport {
    /// `up` or `down`.
    pub way: String,
    /// What was asked for.
    pub asked: RequestedLink,
    /// All flows together, those that are gone among them.
    pub total: FlowReport,
    /// By flow, in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// How plug-ins broke their contract.
    pub breaches: Vec<BreachReport>,
    /// What masks made, that of the link first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<MaskReport>,
}

/// What a mask made: queues, or links.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MaskReport {
    /// The flow that it is of, named as among the flows; null: it is the link's.
    pub flow: Option<String>,
    /// The mask, as in `each`.
    pub each: String,
    /// So many may have one of their own.
    pub most: u32,
    /// So many have one now, were made, and went.
    pub active: u64,
    /// Queues or links made until now.
    pub made: u64,
    /// Of these, those that went again.
    pub gone: u64,
    /// Packets of those for which there was none, and how many these share.
    pub beyond_packets: u64,
    /// How many queues or links those packets share.
    pub shared: u32,
    /// All ids together.
    pub total: IdReport,
    /// Those that went, together.
    pub of_gone: IdReport,
    /// Those that share, together.
    pub of_shared: IdReport,
    /// Those that are there with most bytes, by name.
    pub busiest: Vec<IdReport>,
}

/// One id of a mask, or several together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IdReport {
    /// As in `src 10.0.0.7`; null: of several.
    pub id: Option<String>,
    /// Packets that were sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped in the queue.
    pub dropped: u64,
    /// Packets that the link lost.
    pub lost: u64,
    /// Time in the queue.
    pub sojourn: BucketDelays,
}

impl IdReport {
    fn new(id: Option<&str>, stats: &SojournStats) -> IdReport {
        IdReport {
            id: id.map(str::to_owned),
            packets: stats.packets(),
            bytes: stats.bytes,
            dropped: stats.dropped,
            lost: stats.lost,
            sojourn: BucketDelays::from(stats),
        }
    }
}

impl MaskReport {
    /// What the engine reports of a mask, named as `flow`.
    pub fn new(flow: Option<String>, made: &Made) -> MaskReport {
        MaskReport {
            flow,
            each: made.mask.clone(),
            most: made.most,
            active: made.active,
            made: made.made,
            gone: made.gone,
            beyond_packets: made.beyond,
            shared: made.shared,
            total: IdReport::new(None, &made.total),
            of_gone: IdReport::new(None, &made.of_gone),
            of_shared: IdReport::new(None, &made.of_shared),
            busiest: made
                .busiest
                .iter()
                .map(|(id, stats)| IdReport::new(Some(id), stats))
                .collect(),
        }
    }
}

/// A plug-in that is not asked any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BreachReport {
    /// The library.
    pub library: String,
    /// How it broke its contract.
    pub what: String,
    /// When, since the link began.
    pub at_ns: u64,
    /// So many of its instances did so.
    pub times: u64,
    /// Packets served by turns since then, without asking it.
    pub packets_by_turns: u64,
}

/// What was asked for of a direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestedLink {
    /// In bits per second; null: unlimited.
    pub rate: Option<u64>,
    /// Propagation delay.
    pub delay_ns: u64,
    /// The discipline.
    pub scheduler: String,
    /// What else the link does to packets, in words.
    pub impairments: Vec<String>,
}

/// A flow, or all of a direction together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its direction and name, `up voice`; of all of a direction together `up`.
    pub flow: String,
    /// Packets that came.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets whose last bit left, and what of them the link lost.
    pub sent: u64,
    /// Bytes of packets whose last bit left.
    pub sent_bytes: u64,
    /// Of these, packets that the link lost.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Packets that left the link and that the far end did not take: no room there, no reader, its
    /// interface down.
    #[serde(default)]
    pub not_taken: u64,
    /// Their bytes.
    #[serde(default)]
    pub not_taken_bytes: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that arrived with a bit turned.
    pub corrupted: u64,
    /// Packets that overtook others.
    pub reordered: u64,
    /// Packets that were marked (ECN).
    #[serde(default)]
    pub marked: u64,
    /// Packets dropped in the queue.
    pub dropped: Drops,
    /// Packets that wait.
    pub backlog: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// The most packets that ever waited.
    pub max_backlog: u64,
    /// Since a packet came last; null: none ever did.
    pub idle_ns: Option<u64>,
    /// From the last bit in to the last bit out of the queue, of packets that were handed over.
    pub sojourn: Delays,
    /// How late they were handed over.
    pub release_error: Delays,
    /// What left and was not lost, in bits per second since `rate_over_ns` ago; added by whoever
    /// looks twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// Dropped packets, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Drops {
    /// The queue was full.
    pub queue_full: u64,
    /// The packet was longer than the queue or the link takes.
    pub too_large: u64,
    /// The discipline threw it away.
    pub discipline: u64,
    /// The queue's policy dropped it.
    #[serde(default)]
    pub policy: u64,
    /// It did not fit any more after a change.
    pub changed: u64,
}

impl From<&Counters> for Drops {
    fn from(c: &Counters) -> Drops {
        Drops {
            queue_full: c.dropped_full,
            too_large: c.dropped_large,
            discipline: c.dropped_by_discipline,
            policy: c.dropped_by_policy,
            changed: c.dropped_by_change,
        }
    }
}

impl Drops {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.queue_full + self.too_large + self.discipline + self.policy + self.changed
    }
}

/// Delays, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Delays {
    /// Number of packets.
    pub packets: u64,
    /// The mean.
    pub mean_ns: Option<f64>,
    /// The median.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The largest.
    pub max_ns: Option<u64>,
    /// A delay, and how many were as long, to three digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
}
