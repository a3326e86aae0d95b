//! What is said at a control socket: JSON, a line each. The page `docs/reference/control.md` says what it means.

use falaj_engine::each::Stats;
use falaj_engine::pipe::Counters;
use falaj_sched::time::Span;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// What a client must know to understand the rest. It grows when something that was there means something else, or is gone.
pub(super) const VERSION: u32 = 1;
/// The longest line that is read.
pub(super) const LINE: usize = 4 << 20;

/// The first line, from whoever listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) falaj: u32,
    pub(super) release: String,
    pub(super) pid: u32,
    pub(super) command: String,
    pub(super) about: String,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Show(ShowRequest),
    Set(SetRequest),
    Scenario,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowRequest {
    /// Whole histograms as well.
    #[serde(default)]
    pub(super) histograms: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetRequest {
    /// The scenario that it is to be from then on; else the one that there is.
    #[serde(default)]
    pub(super) toml: Option<String>,
    /// Its file, beside which those stand that it names; else they are looked for as before.
    #[serde(default)]
    pub(super) file: Option<PathBuf>,
    /// `KEY=VALUE`, keys as in the scenario.
    #[serde(default)]
    pub(super) set: Vec<String>,
    /// Packets that wait and do not fit any more may be dropped.
    #[serde(default)]
    pub(super) drop: bool,
    /// Only say whether that could be.
    #[serde(default)]
    pub(super) check: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Reads a request; its `id` comes back with the answer, whatever is wrong with the rest.
pub(super) fn request(line: &[u8]) -> (Json, Result<Request, String>) {
    let mut fields = match serde_json::from_slice::<Map<String, Json>>(line) {
        Ok(fields) => fields,
        Err(error) => return (Json::Null, Err(format!("a request is a JSON object in one line: {error}"))),
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
pub(super) struct Remark {
    /// `error` or `warning`.
    pub(super) severity: String,
    pub(super) title: String,
    /// What to write, what is allowed.
    pub(super) help: Vec<String>,
}

/// Why there is no other answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) what: String,
    #[serde(default)]
    pub(super) remarks: Vec<Remark>,
}

impl Refusal {
    pub(super) fn new(what: impl Into<String>) -> Refusal {
        Refusal { what: what.into(), remarks: Vec::new() }
    }
}

/// The line of an answer.
pub(super) fn answer<T: Serialize>(id: &Json, answer: &Result<T, Refusal>) -> String {
    let line = match answer {
        Ok(answer) => json!({ "id": id, "ok": answer }),
        Err(refusal) => json!({ "id": id, "error": refusal }),
    };
    format!("{line}\n")
}

/// A change that was made, or could be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetAnswer {
    /// The directions that are another way now; none where all was so before.
    pub(super) changed: Vec<String>,
    /// When, in nanoseconds since the link began; null if nothing was changed.
    pub(super) at_ns: Option<u64>,
    /// Packets that waited and were dropped.
    pub(super) dropped: u64,
    pub(super) remarks: Vec<Remark>,
}

/// The scenario as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScenarioAnswer {
    pub(super) toml: String,
}

/// What the links do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) elapsed_ns: u64,
    pub(super) links: Vec<LinkReport>,
    /// What each rule has taken.
    pub(super) rules: Vec<RuleReport>,
    /// What links and rules did that were taken away.
    pub(super) gone: GoneReport,
    /// Packets that were lost outside of the links' queues.
    pub(super) lost_elsewhere: Vec<Elsewhere>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Elsewhere {
    pub(super) count: u64,
    pub(super) what: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RuleReport {
    pub(super) rule: String,
    /// Packets, and their bytes as IP packets.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Of them, in each link that it leads to: what was dropped there, and what the link lost.
    pub(super) dropped: u64,
    pub(super) lost: u64,
    /// How long they were in its queue: each quantile is the end of a bucket.
    pub(super) sojourn: BucketDelays,
    /// Since it took a packet last; null: it never did.
    pub(super) idle_ns: Option<u64>,
    /// What it took, in bits per second; added by whoever looks twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
}

/// Sojourns in 16 buckets, each four times as wide as the one before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BucketDelays {
    pub(super) packets: u64,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
    /// The end of each bucket that is not empty (null: the last has none), and how many are in it.
    pub(super) buckets: Vec<(Option<u64>, u64)>,
}

impl From<&Stats> for BucketDelays {
    fn from(stats: &Stats) -> BucketDelays {
        let nanos = |span: Option<Span>| span.map(|span| span.0);
        let buckets = stats.sojourns().into_iter().enumerate().filter(|(_, packets)| *packets > 0);
        BucketDelays {
            packets: stats.packets(),
            p50_ns: nanos(stats.quantile(0.5)),
            p99_ns: nanos(stats.quantile(0.99)),
            max_ns: nanos(stats.quantile(1.0)),
            buckets: buckets.map(|(bucket, packets)| (nanos(Stats::end_of(bucket)), packets)).collect(),
        }
    }
}

/// Links that were taken away; what is their backlog goes still.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GoneReport {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) dropped: Drops,
    pub(super) backlog: u64,
    /// Packets that rules took that were taken away.
    pub(super) taken: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LinkReport {
    pub(super) link: String,
    pub(super) directions: Vec<DirectionReport>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DirectionReport {
    pub(super) way: String,
    pub(super) asked: Asked,
    /// All flows together, those that are gone among them.
    pub(super) total: FlowReport,
    pub(super) flows: Vec<FlowReport>,
    /// How plug-ins broke their contract.
    pub(super) breaches: Vec<BreachReport>,
}

/// A plug-in that is not asked any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BreachReport {
    pub(super) library: String,
    pub(super) what: String,
    pub(super) at_ns: u64,
    /// So many of its instances did so.
    pub(super) times: u64,
    pub(super) packets_by_turns: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    /// In bits per second; null: unlimited.
    pub(super) rate: Option<u64>,
    pub(super) delay_ns: u64,
    pub(super) scheduler: String,
    /// What else the link does to packets, in words.
    pub(super) impairments: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FlowReport {
    pub(super) flow: String,
    pub(super) offered: u64,
    pub(super) offered_bytes: u64,
    /// Packets whose last bit left, and what of them the link lost.
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) lost: u64,
    pub(super) lost_bytes: u64,
    pub(super) duplicated: u64,
    pub(super) corrupted: u64,
    pub(super) reordered: u64,
    /// Packets that were marked (ECN).
    #[serde(default)]
    pub(super) marked: u64,
    pub(super) dropped: Drops,
    pub(super) backlog: u64,
    pub(super) backlog_bytes: u64,
    pub(super) max_backlog: u64,
    /// Since a packet came last; null: none ever did.
    pub(super) idle_ns: Option<u64>,
    /// From the last bit in to the last bit out of the queue, of packets that were handed over.
    pub(super) sojourn: Delays,
    /// How late they were handed over.
    pub(super) release_error: Delays,
    /// What left and was not lost, in bits per second since `rate_over_ns` ago; added by whoever looks twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Drops {
    pub(super) queue_full: u64,
    pub(super) too_large: u64,
    pub(super) discipline: u64,
    #[serde(default)]
    pub(super) policy: u64,
    pub(super) changed: u64,
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
    pub(super) fn all(&self) -> u64 {
        self.queue_full + self.too_large + self.discipline + self.policy + self.changed
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Delays {
    pub(super) packets: u64,
    pub(super) mean_ns: Option<f64>,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
    /// A delay, and how many were as long, to three digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) histogram: Vec<(u64, u64)>,
}
