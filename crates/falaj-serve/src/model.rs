//! What the API says, as JSON. Times are nanoseconds, rates bits per second, both as numbers.

use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Kind;
use falaj_sched::registry;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use utoipa::ToSchema;

/// The service.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Service {
    /// The version of the program.
    pub(super) release: String,
    /// The number of its process.
    pub(super) pid: u32,
    /// The file that it was started with.
    pub(super) file: String,
    /// Of adapters in namespaces that were made for them, a process that is there; the uplink's
    /// name is empty.
    pub(super) processes: BTreeMap<String, i32>,
}

impl Service {
    pub(super) fn new(file: &Path, processes: BTreeMap<String, i32>) -> Service {
        let (release, file) = (env!("CARGO_PKG_VERSION").to_owned(), file.display().to_string());
        Service { release, pid: std::process::id(), file, processes }
    }
}

/// All adapters, once a second.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Sample {
    /// When, since the service began.
    pub(super) at_ns: u64,
    /// When the service began, since 1970 by the clock of this machine: the same in each sample,
    /// and 0 before the first look.
    #[serde(default)]
    pub(super) began_unix_ns: u64,
    pub(super) adapters: Vec<Adapter>,
    /// What was lost outside of the queues, and why.
    pub(super) losses: BTreeMap<String, u64>,
}

/// A virtual adapter.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Adapter {
    pub(super) name: String,
    /// Where its packets enter and leave, as the file has it.
    pub(super) port: String,
    pub(super) link: String,
    /// What it sends: one flow, or its parts.
    pub(super) up: Vec<Flow>,
    /// What it receives.
    pub(super) down: Vec<Flow>,
    /// Units that came from another adapter's address, and were not heard.
    pub(super) foreign: u64,
    /// Units that were no frames.
    pub(super) malformed: u64,
    /// Units that it did not take.
    pub(super) not_taken: u64,
    /// Packets for which there was no memory when they came.
    #[serde(default)]
    pub(super) no_memory: Ways,
    /// It is not read from, and gets nothing.
    pub(super) paused: bool,
    /// Time of the link's thread that its packets took: reading, queueing, writing.
    pub(super) spent_ns: u64,
    /// The same in the window, as a share of one processor.
    pub(super) processor: Option<f64>,
    /// How often what it may take of that thread in its turn was used up while it, and another
    /// one, had more.
    pub(super) held_back: u64,
    /// Its interface is gone for good.
    #[serde(default)]
    pub(super) gone: bool,
    /// The name that its interface has now, where it was renamed since it was opened.
    #[serde(default)]
    pub(super) interface: Option<String>,
}

/// Packets of an adapter by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Ways {
    /// That it sent.
    pub(super) up: u64,
    /// That came for it.
    pub(super) down: u64,
}

/// A flow of an adapter in one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Flow {
    pub(super) flow: String,
    pub(super) promise: Promise,
    /// Since the sample before this one; none in the first.
    pub(super) window: Option<Window>,
    pub(super) total: Total,
    /// Packets that wait.
    pub(super) backlog: u64,
    pub(super) backlog_bytes: u64,
    pub(super) breaches: Breaches,
}

/// What a flow is promised.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Promise {
    /// At least this, while packets wait.
    pub(super) rate: Option<u64>,
    /// No packet that found room stays longer.
    pub(super) delay_ns: Option<u64>,
    /// The formula of that.
    pub(super) formula: Option<String>,
    /// The delay is promised as long as it sends no more than that.
    pub(super) envelope: Vec<Bucket>,
    /// What its owner asked for.
    pub(super) need_rate: Option<u64>,
    pub(super) need_delay_ns: Option<u64>,
    /// Why nothing is promised.
    pub(super) none: Option<String>,
    /// The rate is held against each packet. It is not where packets are lost on the link or cost
    /// more than is counted, where the promise is for a queue that is never short, and with the
    /// flows that a mask makes.
    #[serde(default)]
    pub(super) judges_rate: bool,
    /// The delay is held against each packet. It is not with the flows that a mask makes.
    #[serde(default)]
    pub(super) judges_delay: bool,
}

/// A token bucket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Bucket {
    pub(super) rate: u64,
    pub(super) burst_bytes: u64,
}

/// What a flow did in a window of a second or so.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Window {
    pub(super) over_ns: u64,
    pub(super) offered: f64,
    pub(super) sent: f64,
    /// Packets waited in all of it: what was sent is held against the promise.
    pub(super) demanded: bool,
    pub(super) dropped: u64,
    pub(super) delay: Quantiles,
    pub(super) release_error: Quantiles,
}

/// Delays of packets, to three digits.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Quantiles {
    pub(super) packets: u64,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
}

/// What a flow did since it began.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Total {
    pub(super) offered: u64,
    pub(super) offered_bytes: u64,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// Packets that left the link and that the far end did not take.
    #[serde(default)]
    pub(super) not_taken: u64,
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) delay: Quantiles,
    pub(super) release_error: Quantiles,
    /// Packets beyond its envelope.
    pub(super) beyond: u64,
    pub(super) beyond_bytes: u64,
}

/// Packets that stayed longer than promised, by what caused it; and windows with less than the
/// promised rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Breaches {
    /// It had sent more than its envelope.
    pub(super) own_burst: u64,
    /// They left in time, and this host handed them over late.
    pub(super) host: u64,
    /// The promise was not kept.
    pub(super) promise: u64,
    /// How often less was served than the promised rate.
    pub(super) rate: u64,
}

/// What was not as promised.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Breach {
    /// Of a delay.
    Delay(TooLong),
    /// Of a rate.
    Rate(TooSlow),
}

/// An interval in which a flow had packets and was served less than it was promised.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct TooSlow {
    pub(super) number: u64,
    /// Link, direction and flow.
    pub(super) flow: String,
    /// Since the service began.
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Bytes that left in it, and bytes that had to, once the promise's latency had passed.
    pub(super) served_bytes: u64,
    pub(super) guaranteed_bytes: u64,
    /// What was sent in it, and what was promised, in bits per second.
    pub(super) sent: u64,
    pub(super) promised: u64,
}

/// A packet that stayed longer than promised.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct TooLong {
    pub(super) number: u64,
    /// Link, direction and flow.
    pub(super) flow: String,
    /// `own-burst`, `host` or `promise`.
    #[schema(value_type = String)]
    pub(super) cause: Cow<'static, str>,
    pub(super) bound_ns: u64,
    /// Last bit in, last bit out, and handed over; since the service began.
    pub(super) arrival_ns: u64,
    pub(super) end_ns: u64,
    pub(super) handed_over_ns: Option<u64>,
}

/// How long packets of a flow stayed since it began: each delay, to three digits, and how many
/// packets were as long.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Delays {
    pub(super) flow: String,
    pub(super) up: Vec<[u64; 2]>,
    pub(super) down: Vec<[u64; 2]>,
}

/// The disciplines that a link may have.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Disciplines {
    /// The one of a link that names none.
    pub(super) default: String,
    pub(super) disciplines: Vec<DisciplineKeys>,
}

/// A discipline, and the keys of its flows that are meant to be edited while it runs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct DisciplineKeys {
    pub(super) kind: String,
    pub(super) keys: Vec<EditableKey>,
}

/// A key of a flow.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct EditableKey {
    pub(super) key: String,
    pub(super) label: String,
    /// The value where the key is missing, in words; `null`: it is required.
    pub(super) default: Option<String>,
    /// A whole number.
    pub(super) number: bool,
    /// The flow's weight.
    pub(super) weight: bool,
}

impl Disciplines {
    /// Those of the registry, from their manifests.
    pub(super) fn new() -> Disciplines {
        let keys = |manifest: &Manifest| -> Vec<EditableKey> {
            let key = |&(key, label): &(&str, &str)| {
                let param = manifest.flow_param(key)?;
                Some(EditableKey {
                    key: key.to_owned(),
                    label: label.to_owned(),
                    default: param.default.map(str::to_owned),
                    number: matches!(param.kind, Kind::Count { .. }),
                    weight: manifest.weight_key == Some(key),
                })
            };
            manifest.editable.iter().filter_map(key).collect()
        };
        let one = |manifest: &'static Manifest| DisciplineKeys {
            kind: manifest.kind.to_owned(),
            keys: keys(manifest),
        };
        Disciplines {
            default: registry::DEFAULT.kind.to_owned(),
            disciplines: registry::all().map(one).collect(),
        }
    }
}

/// Who held a link when, in one direction.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Turns {
    pub(super) link: String,
    /// `up` or `down`.
    pub(super) way: String,
    /// The newest last.
    pub(super) turns: Vec<Turn>,
}

/// Packets of a flow, one behind the other on the link.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Turn {
    pub(super) flow: String,
    /// First bit of the first, last bit of the last, since the service began.
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) packets: u32,
}

/// A change that was made, or could be.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Made {
    /// The directions that are another way now.
    pub(super) changed: Vec<String>,
    /// When, since the service began; null: it was only to be checked.
    pub(super) at_ns: Option<u64>,
    /// Packets that waited and were dropped.
    pub(super) dropped: u64,
    pub(super) remarks: Vec<Remark>,
}

/// Why something was not done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) remarks: Vec<Remark>,
}

/// What is wrong or unlikely, and what to write.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Remark {
    /// `error` or `warning`.
    pub(super) severity: String,
    pub(super) title: String,
    pub(super) help: Vec<String>,
}
