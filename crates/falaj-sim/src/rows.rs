//! The results of a run as numbers, one row per flow.

use crate::scenario::{all_flows, fed_flows, name_of, pipe_of};
use crate::simulate::{FlowResult, Run};
use falaj_scenario::{Scenario, Towards};
use serde::{Deserialize, Serialize};

/// The results of one flow in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the link.
    pub link: String,
    /// `up` or `down`.
    pub way: String,
    /// Name of the flow, unique in the scenario.
    pub flow: String,
    /// Packets that arrived at the queue, including dropped packets.
    pub offered: u64,
    /// Packets that left and were not lost on the link.
    pub delivered: u64,
    /// Packets that were dropped before they were sent.
    pub dropped: u64,
    /// Packets dropped by the queue's AQM policy; included in `dropped`.
    pub dropped_by_policy: u64,
    /// Packets that the policy marked instead of dropping.
    pub marked: u64,
    /// Packets that the link lost.
    pub lost: u64,
    /// Packets that were delivered twice.
    pub duplicated: u64,
    /// Packets that were delivered with a flipped bit.
    pub corrupted: u64,
    /// Packets that were delivered before a packet that had left the queue earlier.
    pub reordered: u64,
    /// Rate of the packets that arrived, in bits per second.
    pub offered_rate: f64,
    /// Rate of the packets that left and were not lost on the link, in bits per second.
    pub delivered_rate: f64,
    /// Mean delay in nanoseconds, from the arrival of a packet's last bit until its last bit leaves
    /// the queue; `None` if no packet left.
    pub delay_mean_ns: Option<f64>,
    /// Median delay in nanoseconds, to three significant digits, like the other percentiles.
    pub delay_p50_ns: Option<u64>,
    /// 99th percentile of the delay.
    pub delay_p99_ns: Option<u64>,
    /// 99.9th percentile of the delay.
    pub delay_p999_ns: Option<u64>,
    /// Maximum delay, exact.
    pub delay_max_ns: Option<u64>,
    /// Maximum number of packets queued at once.
    pub max_backlog_packets: u64,
    /// Goodput of the connections that begin in this flow, in bits per second; each byte of payload
    /// counts once. `None` if no connection begins here.
    pub goodput: Option<f64>,
}

/// One measure of a row.
pub struct Column {
    /// The column's name: a field of [`Row`], or `loss`.
    pub name: &'static str,
    /// Reads the column's value from a row, if there is one.
    pub of: fn(&Row) -> Option<f64>,
}

/// All columns, in the order of the fields of [`Row`]; `loss` follows the numbers of packets.
pub const COLUMNS: [Column; 19] = [
    Column { name: "offered", of: |r| Some(r.offered as f64) },
    Column { name: "delivered", of: |r| Some(r.delivered as f64) },
    Column { name: "dropped", of: |r| Some(r.dropped as f64) },
    Column { name: "dropped_by_policy", of: |r| Some(r.dropped_by_policy as f64) },
    Column { name: "marked", of: |r| Some(r.marked as f64) },
    Column { name: "lost", of: |r| Some(r.lost as f64) },
    Column { name: "duplicated", of: |r| Some(r.duplicated as f64) },
    Column { name: "corrupted", of: |r| Some(r.corrupted as f64) },
    Column { name: "reordered", of: |r| Some(r.reordered as f64) },
    Column { name: "loss", of: Row::loss },
    Column { name: "offered_rate", of: |r| Some(r.offered_rate) },
    Column { name: "delivered_rate", of: |r| Some(r.delivered_rate) },
    Column { name: "delay_mean_ns", of: |r| r.delay_mean_ns },
    Column { name: "delay_p50_ns", of: |r| r.delay_p50_ns.map(|ns| ns as f64) },
    Column { name: "delay_p99_ns", of: |r| r.delay_p99_ns.map(|ns| ns as f64) },
    Column { name: "delay_p999_ns", of: |r| r.delay_p999_ns.map(|ns| ns as f64) },
    Column { name: "delay_max_ns", of: |r| r.delay_max_ns.map(|ns| ns as f64) },
    Column { name: "max_backlog_packets", of: |r| Some(r.max_backlog_packets as f64) },
    Column { name: "goodput", of: |r| r.goodput },
];

impl Row {
    /// The fraction of arrived packets that were dropped or lost; `None` if no packet arrived.
    pub fn loss(&self) -> Option<f64> {
        (self.offered > 0).then(|| (self.dropped + self.lost) as f64 / self.offered as f64)
    }

    fn of(scenario: &Scenario, at: (usize, Towards, usize), flow: &FlowResult, run: &Run) -> Row {
        let (counters, delay) = (&flow.counters, &flow.delay);
        let quantile = |share| delay.quantile(share).map(|span| span.0);
        Row {
            link: scenario.links[at.0].name.clone(),
            way: if at.1 == Towards::Up { "up" } else { "down" }.to_owned(),
            flow: name_of(scenario, at),
            offered: counters.offered,
            delivered: counters.delivered(),
            dropped: counters.dropped(),
            dropped_by_policy: counters.dropped_by_policy,
            marked: counters.marked,
            lost: counters.lost,
            duplicated: counters.duplicated,
            corrupted: counters.corrupted,
            reordered: counters.reordered,
            offered_rate: flow.offered_rate(run.counted()),
            delivered_rate: flow.delivered_rate(run.counted()),
            delay_mean_ns: delay.mean_nanos(),
            delay_p50_ns: quantile(0.5),
            delay_p99_ns: quantile(0.99),
            delay_p999_ns: quantile(0.999),
            delay_max_ns: delay.max().map(|span| span.0),
            max_backlog_packets: counters.max_backlog,
            goodput: goodput(scenario, at, run),
        }
    }
}

/// The goodput of all connections that begin in a flow.
fn goodput(scenario: &Scenario, at: (usize, Towards, usize), run: &Run) -> Option<f64> {
    let begins_here = |source: usize| {
        let source = &scenario.traffic[source];
        (source.link, source.towards, source.flow) == at
    };
    let here = run.connections.iter().filter(|(source, _)| begins_here(*source));
    let bytes = here.map(|(_, connection)| connection.bytes).reduce(|all, more| all + more)?;
    Some(bytes as f64 * 8.0 / run.counted().as_secs_f64())
}

/// Returns the flows that have rows, in order: the flows with a source, or all flows if rules route
/// packets.
pub fn flows_with_rows(scenario: &Scenario) -> Vec<(usize, Towards, usize)> {
    if scenario.rules.is_empty() { fed_flows(scenario) } else { all_flows(scenario) }
}

/// Returns a row for each flow of [`flows_with_rows`], in that order.
pub fn rows(scenario: &Scenario, run: &Run) -> Vec<Row> {
    let row = |at: (usize, Towards, usize)| {
        let flow = &run.pipes[pipe_of(at.0, at.1).0 as usize][at.2];
        Row::of(scenario, at, flow, run)
    };
    flows_with_rows(scenario).into_iter().map(row).collect()
}
