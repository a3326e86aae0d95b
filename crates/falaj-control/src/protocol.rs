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
    pub falaj: u32,
    pub release: String,
    pub pid: u32,
    pub command: String,
    pub about: String,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Show(ShowRequest),
    Set(SetRequest),
    Scenario,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// Whole histograms as well.
    #[serde(default)]
    pub histograms: bool,
}

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
    pub title: String,
    /// What to write, what is allowed.
    pub help: Vec<String>,
}

/// Why there is no other answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub what: String,
    #[serde(default)]
    pub remarks: Vec<Remark>,
}

impl Refusal {
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
    pub remarks: Vec<Remark>,
}

/// The scenario as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioAnswer {
    pub toml: String,
}

/// What the links do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub elapsed_ns: u64,
    pub links: Vec<LinkReport>,
    /// What each rule has taken.
    pub rules: Vec<RuleReport>,
    /// What links and rules did that were taken away.
    pub gone: GoneReport,
    /// Packets that were lost outside of the links' queues.
    pub lost_elsewhere: Vec<Elsewhere>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Elsewhere {
    pub count: u64,
    pub what: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleReport {
    pub rule: String,
    /// Packets, and their bytes as IP packets.
    pub packets: u64,
    pub bytes: u64,
    /// Of them, in each link that it leads to: what was dropped there, and what the link lost.
    pub dropped: u64,
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
    pub packets: u64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
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
    pub offered: u64,
    pub sent: u64,
    pub lost: u64,
    pub dropped: Drops,
    pub backlog: u64,
    /// Packets that rules took that were taken away.
    pub taken: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    pub link: String,
    pub directions: Vec<DirectionReport>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectionReport {
    pub way: String,
    pub asked: Asked,
    /// All flows together, those that are gone among them.
    pub total: FlowReport,
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
    pub each: String,
    /// So many may have one of their own.
    pub most: u32,
    /// So many have one now, were made, and went.
    pub active: u64,
    pub made: u64,
    pub gone: u64,
    /// Packets of those for which there was none, and how many these share.
    pub beyond_packets: u64,
    pub shared: u32,
    pub total: IdReport,
    pub of_gone: IdReport,
    pub of_shared: IdReport,
    /// Those that are there with most bytes, by name.
    pub busiest: Vec<IdReport>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IdReport {
    /// As in `src 10.0.0.7`; null: of several.
    pub id: Option<String>,
    pub packets: u64,
    pub bytes: u64,
    pub dropped: u64,
    pub lost: u64,
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
    pub library: String,
    pub what: String,
    pub at_ns: u64,
    /// So many of its instances did so.
    pub times: u64,
    pub packets_by_turns: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// In bits per second; null: unlimited.
    pub rate: Option<u64>,
    pub delay_ns: u64,
    pub scheduler: String,
    /// What else the link does to packets, in words.
    pub impairments: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowReport {
    pub flow: String,
    pub offered: u64,
    pub offered_bytes: u64,
    /// Packets whose last bit left, and what of them the link lost.
    pub sent: u64,
    pub sent_bytes: u64,
    pub lost: u64,
    pub lost_bytes: u64,
    pub duplicated: u64,
    pub corrupted: u64,
    pub reordered: u64,
    /// Packets that were marked (ECN).
    #[serde(default)]
    pub marked: u64,
    pub dropped: Drops,
    pub backlog: u64,
    pub backlog_bytes: u64,
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

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Drops {
    pub queue_full: u64,
    pub too_large: u64,
    pub discipline: u64,
    #[serde(default)]
    pub policy: u64,
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
    pub fn all(&self) -> u64 {
        self.queue_full + self.too_large + self.discipline + self.policy + self.changed
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Delays {
    pub packets: u64,
    pub mean_ns: Option<f64>,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// A delay, and how many were as long, to three digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
}
