//! The messages of a control socket: JSON, one per line. The page `docs/reference/control.md`
//! explains their meaning.

use falaj_engine::masks::{MaskStats as Made, SojournStats};
use falaj_engine::pipe::Counters;
use falaj_sched::units::time::Span;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// Version of the protocol, which a client must know. It rises when an existing field changes its
/// meaning or is removed.
pub const VERSION: u32 = 1;
/// Maximum length of a line in bytes.
pub const LINE: usize = 4 << 20;

/// The greeting: the first line, from the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub falaj: u32,
    /// Version of the program.
    pub release: String,
    /// Process id.
    pub pid: u32,
    /// The command: `run`, `bridge`, `attach`, `serve`.
    pub command: String,
    /// The file or command line of the link, for people.
    pub about: String,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Requests the report on links.
    Show(ShowRequest),
    /// Requests a change.
    Set(SetRequest),
    /// Requests the running scenario.
    Scenario,
}

/// Options of a report on links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowRequest {
    /// True to include whole histograms.
    #[serde(default)]
    pub histograms: bool,
}

/// A requested change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// The new scenario; without it the running scenario is changed.
    #[serde(default)]
    pub toml: Option<String>,
    /// The scenario's file: files named in the scenario are relative to it. By default the previous
    /// file.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// `KEY=VALUE`, keys as in the scenario.
    #[serde(default)]
    pub set: Vec<String>,
    /// True if queued packets that no longer fit may be dropped.
    #[serde(default)]
    pub drop: bool,
    /// Only check whether the change would be admitted.
    #[serde(default)]
    pub check: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Parses a request. The `id` is returned for the answer even if the rest is invalid.
pub fn request(line: &[u8]) -> (Json, Result<Request, String>) {
    let mut fields = match serde_json::from_slice::<Map<String, Json>>(line) {
        Ok(fields) => fields,
        Err(error) => {
            let told = format!("a request must be a JSON object on one line: {error}");
            return (Json::Null, Err(told));
        }
    };
    let id = fields.remove("id").unwrap_or_default();
    let what = fields.remove("do");
    let fields = Json::Object(fields);
    let read = match what.as_ref().and_then(Json::as_str) {
        Some("show") => serde_json::from_value(fields).map(Request::Show),
        Some("set") => serde_json::from_value(fields).map(Request::Set),
        Some("scenario") => serde_json::from_value::<Nothing>(fields).map(|_| Request::Scenario),
        _ => return (id, Err("`do` must be \"show\", \"set\" or \"scenario\"".into())),
    };
    (id, read.map_err(|error| error.to_string()))
}

/// An error or a warning about a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// `error` or `warning`.
    pub severity: String,
    /// The problem.
    pub title: String,
    /// The remedy, and the permitted values.
    pub help: Vec<String>,
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason.
    pub what: String,
    /// Errors in the requested scenario.
    #[serde(default)]
    pub remarks: Vec<Remark>,
}

impl Refusal {
    /// A refusal without remarks.
    pub fn new(what: impl Into<String>) -> Refusal {
        Refusal { what: what.into(), remarks: Vec::new() }
    }
}

/// An answer as a line.
pub fn answer<T: Serialize>(id: &Json, answer: &Result<T, Refusal>) -> String {
    let line = match answer {
        Ok(answer) => json!({ "id": id, "ok": answer }),
        Err(refusal) => json!({ "id": id, "error": refusal }),
    };
    format!("{line}\n")
}

/// A change that was made or checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAnswer {
    /// The directions that changed; empty if nothing did.
    pub changed: Vec<String>,
    /// Time of the change in nanoseconds since the link began. Null if it was only checked, or if
    /// nothing changed in the running link and the link is not held to guarantees.
    pub at_ns: Option<u64>,
    /// Number of queued packets that were dropped.
    pub dropped: u64,
    /// New warnings.
    pub remarks: Vec<Remark>,
}

/// The running scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioAnswer {
    /// The scenario's text.
    pub toml: String,
}

/// The report on links.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinksReport {
    /// Time since the link began.
    pub elapsed_ns: u64,
    /// Reports of the links, in the order of the scenario.
    pub links: Vec<LinkReport>,
    /// Counters of each rule.
    pub rules: Vec<RuleReport>,
    /// Totals of links and rules that were removed.
    pub gone: GoneReport,
    /// Packets that were lost outside of the links' queues.
    pub lost_elsewhere: Vec<Elsewhere>,
}

/// Packets lost outside of the queues.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Number of packets.
    pub count: u64,
    /// The reason for the loss, as in `packets were dropped for lack of memory`.
    pub what: String,
}

/// A rule, and the packets that matched it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleReport {
    /// The rule's name.
    pub rule: String,
    /// Packets that matched.
    pub packets: u64,
    /// Bytes as IP packets.
    pub bytes: u64,
    /// Packets among them that were dropped in the queues of its links.
    pub dropped: u64,
    /// Packets that those links lost.
    pub lost: u64,
    /// Sojourn times in the queues of its links: each quantile is the end of a bucket.
    pub sojourn: BucketDelays,
    /// Time since a packet last matched; null if none did.
    pub idle_ns: Option<u64>,
    /// Matched bits per second; added by clients that have two reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// Sojourns in 16 buckets, each of which ends at four times the end of the bucket before.
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
    /// The end of each bucket that is not empty (null: the last one has no end), and its number of
    /// packets.
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

/// Totals of removed links; their queued packets are still sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoneReport {
    /// Packets that arrived.
    pub offered: u64,
    /// Packets whose last bit left.
    pub sent: u64,
    /// Packets that the links lost.
    pub lost: u64,
    /// Packets dropped in their queues.
    pub dropped: Drops,
    /// Packets that are still queued.
    pub backlog: u64,
    /// Packets that matched removed rules.
    pub taken: u64,
}

/// The report on a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// The link's name.
    pub link: String,
    /// Up, then down.
    pub directions: Vec<DirectionReport>,
}

/// The report on a direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectionReport {
    /// `up` or `down`.
    pub way: String,
    /// The requested configuration.
    pub asked: RequestedLink,
    /// All flows together, removed ones included.
    pub total: FlowReport,
    /// Reports of the flows, in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// Contract violations of plug-ins.
    pub breaches: Vec<BreachReport>,
    /// The entries of masks, that of the link first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masks: Vec<MaskReport>,
}

/// The entries of a mask: queues, or links.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MaskReport {
    /// The flow that has the mask, named as in the list of flows; null: the link has it.
    pub flow: Option<String>,
    /// The mask, in the syntax of a scenario's key `mask`: `src/24 dport`.
    pub mask: String,
    /// Maximum number of entries.
    pub most: u32,
    /// Number of existing entries.
    pub active: u64,
    /// Number of entries created so far.
    pub made: u64,
    /// Number of entries removed again.
    pub gone: u64,
    /// Packets without an entry of their own.
    pub beyond_packets: u64,
    /// Number of queues or links that those packets share.
    pub shared: u32,
    /// All ids together.
    pub total: IdReport,
    /// All removed entries together.
    pub of_gone: IdReport,
    /// All shared entries together.
    pub of_shared: IdReport,
    /// The existing entries with the most bytes, by name.
    pub busiest: Vec<IdReport>,
}

/// One id of a mask, or several together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IdReport {
    /// The id, as in `src 10.0.0.7`; null for a sum of several.
    pub id: Option<String>,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped in the queue.
    pub dropped: u64,
    /// Packets that the link lost.
    pub lost: u64,
    /// Sojourn time in the queue.
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
    /// The engine's report on a mask, of the flow `flow`.
    pub fn new(flow: Option<String>, made: &Made) -> MaskReport {
        MaskReport {
            flow,
            mask: made.mask.clone(),
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

/// A plug-in that is no longer called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BreachReport {
    /// Name of the library.
    pub library: String,
    /// The violation of its contract.
    pub what: String,
    /// Time of the first such violation, since the link began.
    pub at_ns: u64,
    /// Number of instances of the plug-in with this violation.
    pub times: u64,
    /// Packets served round robin since then, without calling the plug-in.
    pub packets_by_turns: u64,
}

/// The requested configuration of a direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestedLink {
    /// Rate in bits per second; null: unlimited.
    pub rate: Option<u64>,
    /// Propagation delay.
    pub delay_ns: u64,
    /// The discipline.
    pub scheduler: String,
    /// Impairments of the link, in words.
    pub impairments: Vec<String>,
}

/// A flow, or all of a direction together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its direction and name, `up voice`; `up` for the sum of a direction.
    pub flow: String,
    /// Packets that arrived.
    pub offered: u64,
    /// Bytes of packets that arrived.
    pub offered_bytes: u64,
    /// Packets whose last bit left.
    pub sent: u64,
    /// Bytes of packets whose last bit left.
    pub sent_bytes: u64,
    /// Packets among the sent packets that the link lost.
    pub lost: u64,
    /// Bytes of lost packets.
    pub lost_bytes: u64,
    /// Packets that left the link and that the far end did not accept: no room there, no reader, or
    /// its interface is down.
    #[serde(default)]
    pub not_taken: u64,
    /// Bytes of these packets.
    #[serde(default)]
    pub not_taken_bytes: u64,
    /// Packets that were delivered twice.
    pub duplicated: u64,
    /// Packets that were delivered with a flipped bit.
    pub corrupted: u64,
    /// Packets that were delivered before a packet that left earlier.
    pub reordered: u64,
    /// Packets that were marked (ECN).
    #[serde(default)]
    pub marked: u64,
    /// Packets dropped in the queue.
    pub dropped: Drops,
    /// Queued packets.
    pub backlog: u64,
    /// Bytes of queued packets.
    pub backlog_bytes: u64,
    /// Maximum number of packets queued at once.
    pub max_backlog: u64,
    /// Time since the last arrival; null if there was none.
    pub idle_ns: Option<u64>,
    /// Time from the last bit in to the last bit out of the queue, of delivered packets.
    pub sojourn: Delays,
    /// Lateness of their delivery by the host.
    pub release_error: Delays,
    /// Delivered bits per second; added by clients that have two reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// Dropped packets, by reason.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Drops {
    /// The queue was full.
    pub queue_full: u64,
    /// The packet was longer than the queue or the link accepts.
    pub too_large: u64,
    /// The discipline dropped it.
    pub discipline: u64,
    /// The queue's policy dropped it.
    #[serde(default)]
    pub policy: u64,
    /// It no longer fitted after a change.
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
    /// The sum over all reasons.
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
    /// Delays, to three digits, with the number of packets of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
}
