//! The JSON of the API. Times are nanoseconds, rates bits per second, both as numbers.

use falaj_batch::crossing::CrossingCounts;
use falaj_engine::batch::BatchPolicy;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::Kind;
use falaj_sched::registry;
use falaj_sched::units::time::Span;
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
    /// Process id.
    pub(super) pid: u32,
    /// The file that it was started with.
    pub(super) file: String,
    /// Ids of processes in the namespaces that were created for adapters, one for each such
    /// adapter. The uplink's name is the empty string.
    pub(super) processes: BTreeMap<String, i32>,
}

impl Service {
    pub(super) fn new(file: &Path, processes: BTreeMap<String, i32>) -> Service {
        let (release, file) = (env!("CARGO_PKG_VERSION").to_owned(), file.display().to_string());
        Service { release, pid: std::process::id(), file, processes }
    }
}

/// All adapters; there is a sample each second.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Sample {
    /// Time of the sample, since the service began.
    pub(super) at_ns: u64,
    /// Start of the service: time since 1970 by this machine's clock. It is the same in each
    /// sample, and 0 before the first sample.
    #[serde(default)]
    pub(super) began_unix_ns: u64,
    pub(super) adapters: Vec<Adapter>,
    /// Packets lost outside of the queues, by reason.
    pub(super) losses: BTreeMap<String, u64>,
}

/// A virtual adapter.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Adapter {
    pub(super) name: String,
    /// Its port, as written in the scenario.
    pub(super) port: String,
    pub(super) link: String,
    /// Its sending direction: one flow, or its parts.
    pub(super) up: Vec<Flow>,
    /// Its receiving direction.
    pub(super) down: Vec<Flow>,
    /// Units with the source address of another adapter, which were discarded.
    pub(super) foreign: u64,
    /// Units that were not valid frames.
    pub(super) malformed: u64,
    /// Units that the adapter's port did not accept.
    pub(super) not_taken: u64,
    /// Packets dropped on arrival because the packet memory was full.
    #[serde(default)]
    pub(super) no_memory: Ways,
    /// True if it is paused: it is not read from, and gets no packets.
    pub(super) paused: bool,
    /// Time that the link's thread spent on its packets: reading, queueing, writing.
    pub(super) spent_ns: u64,
    /// Time that the link's thread spent on its packets in the last window, as a fraction of one
    /// processor.
    pub(super) processor: Option<f64>,
    /// Number of times that the adapter used up its processor time in the link's thread while this
    /// adapter and another one had more packets.
    pub(super) held_back: u64,
    /// True if its interface is gone for good.
    #[serde(default)]
    pub(super) gone: bool,
    /// The present name of its interface, if it was renamed since it was opened.
    #[serde(default)]
    pub(super) interface: Option<String>,
    /// Its batches, if packets cross to and from it in batches.
    #[serde(default)]
    pub(super) batches: Option<Batches>,
}

/// The batches in which packets cross to and from an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Batches {
    /// The number of packets at which a batch for the adapter leaves. With `adaptive` the tuner
    /// chooses it.
    pub(super) most_packets: u32,
    /// Timeout: the time after its first packet at which a batch leaves even if it is not full;
    /// null if there is none.
    pub(super) timeout_ns: Option<u64>,
    /// True if a batch also leaves while the other side is idle.
    pub(super) when_idle: bool,
    /// Batches in each direction since the adapter was opened.
    pub(super) batches: Ways,
    /// The packets in them.
    pub(super) packets: Ways,
    /// Total time that packets for the adapter waited in batches. Packets in the other direction
    /// wait on the other side, and are not included.
    pub(super) waited_ns: u64,
}

impl Batches {
    pub(super) fn new((counts, policy): (CrossingCounts, BatchPolicy)) -> Batches {
        let CrossingCounts { sent, waited, received } = counts;
        Batches {
            most_packets: policy.packets,
            timeout_ns: (policy.timeout != Span::MAX).then_some(policy.timeout.0),
            when_idle: policy.when_idle,
            batches: Ways { up: received.batches, down: sent.batches },
            packets: Ways { up: received.packets, down: sent.packets },
            waited_ns: waited.0,
        }
    }
}

/// Packets of an adapter by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Ways {
    /// Packets that the adapter sent.
    pub(super) up: u64,
    /// Packets for the adapter.
    pub(super) down: u64,
}

/// A flow of an adapter in one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Flow {
    pub(super) flow: String,
    pub(super) guarantee: Guarantee,
    /// Measurements since the previous sample; none in the first.
    pub(super) window: Option<Window>,
    pub(super) total: Total,
    /// Queued packets.
    pub(super) backlog: u64,
    pub(super) backlog_bytes: u64,
    pub(super) breaches: Breaches,
}

/// The guarantee of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Guarantee {
    /// Minimum rate while packets are queued.
    pub(super) rate: Option<u64>,
    /// Maximum delay of packets that were not dropped on arrival.
    pub(super) delay_ns: Option<u64>,
    /// The formula of the delay.
    pub(super) formula: Option<String>,
    /// The delay is guaranteed as long as the flow conforms to these token buckets.
    pub(super) envelope: Vec<Bucket>,
    /// The rate and the delay that the flow requires.
    pub(super) required_rate: Option<u64>,
    pub(super) required_delay_ns: Option<u64>,
    /// The reason why there is no guarantee.
    pub(super) none: Option<String>,
    /// True if the rate is checked for each packet. It is not checked if packets are lost on the
    /// link or cost more than is accounted, if it is guaranteed only while more than two of the
    /// largest packets are queued, or for flows created by a mask.
    #[serde(default)]
    pub(super) judges_rate: bool,
    /// True if the delay is checked for each packet. It is not checked for flows created by a mask.
    #[serde(default)]
    pub(super) judges_delay: bool,
}

/// A token bucket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Bucket {
    pub(super) rate: u64,
    pub(super) burst_bytes: u64,
}

/// Measurements of a flow in a window of about a second.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Window {
    pub(super) over_ns: u64,
    pub(super) offered: f64,
    pub(super) sent: f64,
    /// True if packets were queued all the time, so that `sent` is comparable with the guarantee.
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

/// Measurements of a flow since it began.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Total {
    pub(super) offered: u64,
    pub(super) offered_bytes: u64,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// Packets that left the link and that the far end did not accept.
    #[serde(default)]
    pub(super) not_taken: u64,
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) delay: Quantiles,
    pub(super) release_error: Quantiles,
    /// Packets in excess of the flow's envelope.
    pub(super) beyond: u64,
    pub(super) beyond_bytes: u64,
}

/// Packets with a delay above the guarantee, by cause; and windows below the guaranteed rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Breaches {
    /// Packets late because the flow had sent more than its envelope allows.
    pub(super) own_burst: u64,
    /// Packets late because of the host: delivered late although scheduled in time, or read late.
    pub(super) host: u64,
    /// Packets late although the flow conformed: the guarantee was violated.
    pub(super) guarantee: u64,
    /// Number of intervals with less service than the guaranteed rate.
    pub(super) rate: u64,
}

/// A guarantee violation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Breach {
    /// Too long a delay.
    Delay(TooLong),
    /// Too low a rate.
    Rate(TooSlow),
}

/// An interval in which a flow was backlogged and got less service than guaranteed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct TooSlow {
    pub(super) number: u64,
    /// Link, direction and flow.
    pub(super) flow: String,
    /// Time since the service began.
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Bytes that left in the interval, and the bytes that were guaranteed to have left by its end.
    pub(super) served_bytes: u64,
    pub(super) guaranteed_bytes: u64,
    /// The actual and the guaranteed rate in bits per second.
    pub(super) sent: u64,
    pub(super) guaranteed: u64,
}

/// A packet with a delay above the guarantee.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct TooLong {
    pub(super) number: u64,
    /// Link, direction and flow.
    pub(super) flow: String,
    /// `own-burst`, `host` or `guarantee`.
    #[schema(value_type = String)]
    pub(super) cause: Cow<'static, str>,
    pub(super) bound_ns: u64,
    /// Times since the service began: arrival of the last bit, departure of the last bit, and
    /// delivery by the host.
    pub(super) arrival_ns: u64,
    pub(super) end_ns: u64,
    pub(super) handed_over_ns: Option<u64>,
}

/// Delays of a flow's packets since it began: each delay, to three digits, with the number of
/// packets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(super) struct Delays {
    pub(super) flow: String,
    pub(super) up: Vec<[u64; 2]>,
    pub(super) down: Vec<[u64; 2]>,
}

/// The last hour of a flow.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct FlowHistory {
    pub(super) flow: String,
    /// The packets that it sent, the oldest step first.
    pub(super) up: Vec<HistoryStep>,
    /// The packets that came for it.
    pub(super) down: Vec<HistoryStep>,
}

/// Ten seconds of a flow.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct HistoryStep {
    /// End of the step, in time since the service began.
    pub(super) end_ns: u64,
    /// Mean rates in bits per second.
    pub(super) offered: f64,
    pub(super) sent: f64,
    /// Quantiles of the delay, each the largest of the step's seconds, and the largest delay.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
    /// The rate that is guaranteed at the end of the step.
    pub(super) rate: Option<u64>,
    /// The delay that is guaranteed at the end of the step.
    pub(super) delay_ns: Option<u64>,
    /// The longest backlog at the end of a second, in packets.
    pub(super) backlog: u64,
    /// Violations of guarantees.
    pub(super) broken: u64,
    /// Packets that were dropped, by reason.
    pub(super) dropped: BTreeMap<String, u64>,
}

/// The disciplines that a link may have.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Disciplines {
    /// The default discipline.
    pub(super) default: String,
    pub(super) disciplines: Vec<DisciplineKeys>,
}

/// A discipline, and the keys of its flows that are meant to be edited while the link runs.
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
    /// The default value as text; `null`: the key is required.
    pub(super) default: Option<String>,
    /// True if the value is a whole number.
    pub(super) number: bool,
    /// True if the key is the flow's weight.
    pub(super) weight: bool,
}

impl Disciplines {
    /// The disciplines of the registry, from their manifests.
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

/// The occupancy of a link in one direction: the last turns of its flows.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Turns {
    pub(super) link: String,
    /// `up` or `down`.
    pub(super) way: String,
    /// The turns, the newest last.
    pub(super) turns: Vec<Turn>,
}

/// A turn: packets of one flow, sent one after the other.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Turn {
    pub(super) flow: String,
    /// Times since the service began: start of the first packet's transmission, end of the last
    /// packet's transmission.
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) packets: u32,
}

/// A change that was made or checked.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ChangeResult {
    /// The directions that changed.
    pub(super) changed: Vec<String>,
    /// Time of the change since the service began; null if it was only checked.
    pub(super) at_ns: Option<u64>,
    /// Number of queued packets that were dropped.
    pub(super) dropped: u64,
    pub(super) remarks: Vec<Remark>,
}

/// The reason why a request failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) remarks: Vec<Remark>,
}

/// A finding: an error or a warning, and how to fix it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Remark {
    /// `error` or `warning`.
    pub(super) severity: String,
    pub(super) title: String,
    pub(super) help: Vec<String>,
}
