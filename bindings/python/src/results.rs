//! Results of a simulation, as tables.

use crate::table::{Columns, Values};
use falaj_scenario::{Scenario, Source};
use falaj_sched::units::time::Span;
use falaj_sim::rows::{COLUMNS, flows_with_rows};
use falaj_sim::scenario::{name_of, pipe_of};
use falaj_sim::{Connections, FlowResult, Row, Run, rows};
use falaj_traffic::interval::Estimate;
use falaj_traffic::meter::Meter;
use falaj_traffic::source::Model;
use falaj_traffic::tcp::Transfers;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// All replications of a scenario.
#[pyclass(frozen, module = "falaj._falaj")]
pub(crate) struct Results {
    #[pyo3(get)]
    flows: Py<Columns>,
    #[pyo3(get)]
    replications: Py<Columns>,
    #[pyo3(get)]
    delays: Py<Columns>,
    #[pyo3(get)]
    packets: Option<Py<Columns>>,
    #[pyo3(get)]
    connections: Py<Columns>,
    /// Precision targets: name, half width of the widest interval as a fraction of its estimate,
    /// and true if that is narrow enough.
    #[pyo3(get)]
    until: Vec<(String, Option<f64>, bool)>,
    #[pyo3(get)]
    duration_ns: u64,
    #[pyo3(get)]
    warm_up_ns: u64,
}

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Results {
    pub(crate) fn new(
        py: Python<'_>,
        scenario: &Scenario,
        runs: &[Run],
        packets: Option<Columns>,
        until: Vec<(String, Option<f64>, bool)>,
    ) -> PyResult<Results> {
        let by_run: Vec<Vec<Row>> = runs.iter().map(|run| rows(scenario, run)).collect();
        let delays: Vec<(String, Meter)> = flows_with_rows(scenario)
            .into_iter()
            .map(|at| {
                let mut all = Meter::new();
                let of = |run: &Run| -> FlowResult {
                    run.pipes[pipe_of(at.0, at.1).0 as usize][at.2].clone()
                };
                runs.iter().for_each(|run| all.add(&of(run).delay));
                (name_of(scenario, at), all)
            })
            .collect();
        Ok(Results {
            flows: Py::new(py, flows(&by_run, &delays)?)?,
            replications: Py::new(py, replications(&by_run)?)?,
            delays: Py::new(py, histogram(&delays)?)?,
            packets: packets.map(|packets| Py::new(py, packets)).transpose()?,
            connections: Py::new(py, connections(scenario, runs)?)?,
            until,
            duration_ns: scenario.run.duration.0,
            warm_up_ns: runs.first().map_or(0, |run| run.warm_up.0),
        })
    }
}

/// A line for each flow. Counters are summed over all replications, measured values are means with
/// an interval; quantiles and maxima are over all packets.
fn flows(by_run: &[Vec<Row>], delays: &[(String, Meter)]) -> PyResult<Columns> {
    let count = delays.len();
    let of = |f: usize| by_run.iter().map(move |rows| &rows[f]);
    let text = |of: fn(&Row) -> &String| {
        Values::Text(by_run[0].iter().map(|row| of(row).clone()).collect())
    };
    let sum = |value: fn(&Row) -> u64| {
        Values::Whole((0..count).map(|f| whole(of(f).map(value).sum())).collect())
    };
    let estimates = |name: &str| -> Vec<Option<Estimate>> {
        let values = |f: usize| {
            let column = COLUMNS.iter().find(|column| column.name == name);
            column.map_or_else(Vec::new, |column| of(f).filter_map(column.of).collect())
        };
        (0..count).map(|f| Estimate::of(&values(f))).collect()
    };
    let half_widths =
        |name: &str| estimates(name).into_iter().map(|e| e.and_then(|e| e.half_width)).collect();
    let mut columns: Vec<(String, Values)> = vec![
        ("link".into(), text(|row| &row.link)),
        ("way".into(), text(|row| &row.way)),
        ("flow".into(), text(|row| &row.flow)),
        ("replications".into(), Values::Whole(vec![by_run.len() as i64; count])),
        ("offered".into(), sum(|row| row.offered)),
        ("delivered".into(), sum(|row| row.delivered)),
        ("dropped".into(), sum(|row| row.dropped)),
        ("dropped_by_policy".into(), sum(|row| row.dropped_by_policy)),
        ("marked".into(), sum(|row| row.marked)),
        ("lost".into(), sum(|row| row.lost)),
        ("duplicated".into(), sum(|row| row.duplicated)),
        ("corrupted".into(), sum(|row| row.corrupted)),
        ("reordered".into(), sum(|row| row.reordered)),
    ];
    for name in ["loss", "offered_rate", "delivered_rate", "goodput", "delay_mean_ns"] {
        let mean = estimates(name).into_iter().map(|e| e.map(|e| e.mean)).collect();
        columns.push((name.into(), Values::Numbers(mean)));
        columns.push((format!("{name}_half_width"), Values::Numbers(half_widths(name))));
    }
    for (name, share) in [("delay_p50_ns", 0.5), ("delay_p99_ns", 0.99), ("delay_p999_ns", 0.999)] {
        let quantiles =
            delays.iter().map(|(_, meter)| meter.quantile(share).map(|span| whole(span.0)));
        columns.push((name.into(), Values::MaybeWhole(quantiles.collect())));
        columns.push((format!("{name}_half_width"), Values::Numbers(half_widths(name))));
    }
    let longest = delays.iter().map(|(_, meter)| meter.max().map(|span| whole(span.0)));
    columns.push(("delay_max_ns".into(), Values::MaybeWhole(longest.collect())));
    let most =
        (0..count).map(|f| whole(of(f).map(|row| row.max_backlog_packets).max().unwrap_or(0)));
    columns.push(("max_backlog_packets".into(), Values::Whole(most.collect())));
    Columns::new(columns)
}

/// A line for each TCP source.
fn connections(scenario: &Scenario, runs: &[Run]) -> PyResult<Columns> {
    type Of = fn(&Transfers) -> &Meter;
    let mut all: BTreeMap<usize, Connections> = BTreeMap::new();
    for (n, run) in runs.iter().enumerate() {
        for (source, transfers) in &run.connections {
            all.entry(*source).or_default().take(n, transfers, run.counted());
        }
    }
    let all: Vec<(&Source, &Connections)> =
        all.iter().map(|(n, of)| (&scenario.traffic[*n], of)).collect();
    let count = |of: fn(&Transfers) -> u64| {
        Values::Whole(all.iter().map(|(_, c)| whole(of(&c.all))).collect())
    };
    let span = |of: &dyn Fn(&Transfers) -> Option<Span>| {
        Values::MaybeWhole(all.iter().map(|(_, c)| of(&c.all).map(|span| whole(span.0))).collect())
    };
    let number = |of: &dyn Fn(&Connections) -> Option<f64>| {
        Values::Numbers(all.iter().map(|(_, c)| of(c)).collect())
    };
    let congestion = |source: &Source| match &source.model {
        Model::Tcp(tcp) => tcp.congestion.name().to_owned(),
        _ => String::new(),
    };
    let mut columns: Vec<(String, Values)> = vec![
        (
            "traffic".into(),
            Values::Text(all.iter().map(|(source, _)| source.name.clone()).collect()),
        ),
        (
            "congestion".into(),
            Values::Text(all.iter().map(|(source, _)| congestion(source)).collect()),
        ),
        ("connections".into(), count(|t| t.connections.into())),
        ("goodput".into(), number(&|c| c.goodput().map(|e| e.mean))),
        ("goodput_half_width".into(), number(&|c| c.goodput().and_then(|e| e.half_width))),
        ("bytes".into(), count(|t| t.bytes)),
        ("segments".into(), count(|t| t.segments)),
        ("retransmitted".into(), count(|t| t.retransmitted)),
        ("timeouts".into(), count(|t| t.timeouts)),
        ("reductions".into(), count(|t| t.reductions)),
        ("complete".into(), count(|t| t.completion.count())),
        ("not_complete".into(), count(|t| t.unfinished)),
    ];
    let meters: [(&str, Of); 2] =
        [("round_trip", |t| &t.round_trip), ("completion", |t| &t.completion)];
    for (name, of) in meters {
        columns.push((format!("{name}_mean_ns"), number(&|c| of(&c.all).mean_nanos())));
        columns.push((format!("{name}_min_ns"), span(&|t| of(t).min())));
        columns.push((format!("{name}_p50_ns"), span(&|t| of(t).quantile(0.5))));
        columns.push((format!("{name}_p99_ns"), span(&|t| of(t).quantile(0.99))));
        columns.push((format!("{name}_max_ns"), span(&|t| of(t).max())));
    }
    Columns::new(columns)
}

/// A line for each replication and flow.
fn replications(by_run: &[Vec<Row>]) -> PyResult<Columns> {
    let all: Vec<(usize, &Row)> =
        by_run.iter().enumerate().flat_map(|(n, rows)| rows.iter().map(move |r| (n, r))).collect();
    let text = |of: fn(&Row) -> &String| {
        Values::Text(all.iter().map(|(_, row)| of(row).clone()).collect())
    };
    let mut columns: Vec<(String, Values)> = vec![
        ("replication".into(), Values::Whole(all.iter().map(|(n, _)| *n as i64).collect())),
        ("link".into(), text(|row| &row.link)),
        ("way".into(), text(|row| &row.way)),
        ("flow".into(), text(|row| &row.flow)),
    ];
    for measure in &COLUMNS {
        let values = all.iter().map(|(_, row)| (measure.of)(row)).collect();
        columns.push((measure.name.into(), Values::Numbers(values)));
    }
    Columns::new(columns)
}

/// Number of packets for each flow and each delay. Delays are precise to three digits.
fn histogram(delays: &[(String, Meter)]) -> PyResult<Columns> {
    let (mut flow, mut delay, mut packets) = (Vec::new(), Vec::new(), Vec::new());
    for (name, meter) in delays {
        for (span, times) in meter.counts() {
            flow.push(name.clone());
            delay.push(whole(span.0));
            packets.push(whole(times));
        }
    }
    let columns = [
        ("flow", Values::Text(flow)),
        ("delay_ns", Values::Whole(delay)),
        ("packets", Values::Whole(packets)),
    ];
    Columns::new(columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect())
}
