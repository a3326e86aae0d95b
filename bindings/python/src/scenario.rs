//! Reading, changing, planning and simulating a scenario.

use crate::interrupt::interruptible;
use crate::results::Results;
use crate::scheduler::{self, Failure};
use crate::table::{Columns, Packets, Values};
use crate::{errors, toml};
use falaj_engine::{Emit, PipeId};
use falaj_plan::json;
use falaj_scenario::{Scenario as Read, Towards, edit};
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::units::time::Span;
use falaj_sim::cores::on_all;
use falaj_sim::measure::Until;
use falaj_sim::scenario::{experiment, name_of, pipe_of};
use falaj_sim::{
    Experiment, Progress, ReplicationPlan, Run, Study, WarmUp, simulate_watched, until,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use toml_edit::{DocumentMut, Key};

/// A valid scenario, and the text from which it was read.
#[pyclass(frozen, module = "falaj._falaj")]
pub(crate) struct Scenario {
    text: String,
    file: String,
    warnings: String,
    read: Read,
}

/// The error of a setup that a discipline refuses although the parser accepted it.
fn refused(refusals: &ConfigErrors) -> PyErr {
    PyValueError::new_err(refusals.to_string())
}

#[pymethods]
impl Scenario {
    #[new]
    fn new(py: Python<'_>, text: String, file: String) -> PyResult<Scenario> {
        let (read, warnings) = falaj_scenario::parse(&text, &file)
            .map_err(|wrong| errors::scenario(py, &wrong, ""))?;
        Ok(Scenario { text, file, warnings: warnings.to_string(), read })
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn file(&self) -> &str {
        &self.file
    }

    #[getter]
    fn warnings(&self) -> &str {
        &self.warnings
    }

    /// For each link its name, and the names of the flows of each direction.
    #[getter]
    fn links(&self) -> Vec<(String, Vec<String>, Vec<String>)> {
        let flows =
            |d: &falaj_scenario::Direction| d.flows.iter().map(|flow| flow.name.clone()).collect();
        self.read
            .links
            .iter()
            .map(|link| (link.name.clone(), flows(&link.up), flows(&link.down)))
            .collect()
    }

    /// Replications, seed and duration in nanoseconds.
    #[getter]
    fn run(&self) -> (u32, u64, u64) {
        (self.read.run.replications, self.read.run.seed, self.read.run.duration.0)
    }

    /// Returns the scenario with other values; None removes a key.
    fn set(&self, py: Python<'_>, values: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Scenario> {
        let mut document: DocumentMut = self.text.parse().map_err(errors::internal)?;
        let mut words = Vec::new();
        for (key, value) in &values {
            let unreadable = |_| {
                errors::unknown_key(
                    py,
                    &format!("`{key}` is not a key; write one such as `link.uplink.rate`"),
                )
            };
            let path: Vec<String> =
                Key::parse(key).map_err(unreadable)?.iter().map(|k| k.get().to_owned()).collect();
            let value = if value.is_none() { None } else { Some(toml::value(value, key)?) };
            let applied = edit::apply(&mut document, &path, value.as_ref());
            applied.map_err(|what| errors::unknown_key(py, &format!("`{key}`: {what}")))?;
            words.push(format!(
                "{key} = {}",
                value.map_or("nothing".into(), |v| v.to_string().trim().to_owned())
            ));
        }
        let text = document.to_string();
        let (read, warnings) = falaj_scenario::parse(&text, &self.file)
            .map_err(|wrong| errors::scenario(py, &wrong, &words.join(" and ")))?;
        Ok(Scenario { text, file: self.file.clone(), warnings: warnings.to_string(), read })
    }

    /// The plan as JSON, as `falaj plan --json` prints it.
    fn plan_json(&self) -> PyResult<String> {
        let ways = falaj_plan::plan(&self.read).map_err(|refusals| refused(&refusals))?;
        Ok(json::all(&self.read, &ways, None, None).to_string())
    }

    /// The guarantees: a line for each flow of each direction. The direction down is left out if it
    /// is configured like up and has no traffic source.
    fn bounds(&self) -> PyResult<Columns> {
        let ways = falaj_plan::plan(&self.read).map_err(|refusals| refused(&refusals))?;
        let all = ways
            .iter()
            .filter(|way| !way.same)
            .flat_map(|way| way.flows.iter().map(move |flow| (way, flow)));
        let all: Vec<_> = all.collect();
        let text = |of: &dyn Fn(&falaj_plan::Way<'_>, &falaj_plan::bounds::Outlook) -> String| {
            Values::Text(all.iter().map(|(way, flow)| of(way, flow)).collect())
        };
        let whole = |of: &dyn Fn(&falaj_plan::bounds::Outlook) -> Option<u64>| {
            Values::MaybeWhole(
                all.iter().map(|(_, flow)| of(flow).and_then(|n| i64::try_from(n).ok())).collect(),
            )
        };
        let columns = vec![
            ("link", text(&|way, _| way.link.to_owned())),
            ("way", text(&|way, _| way.name().to_owned())),
            ("flow", text(&|_, flow| flow.name.clone())),
            ("offered_rate", whole(&|flow| Some(flow.offered))),
            ("rate", whole(&|flow| flow.guarantee.as_ref().ok().map(|p| p.rate.0))),
            ("latency_ns", whole(&|flow| flow.guarantee.as_ref().ok().map(|p| p.latency.0))),
            ("delay_ns", whole(&|flow| flow.best().map(|d| d.delay.0))),
            ("formula", text(&|_, flow| flow.best().map_or(String::new(), |d| d.formula.clone()))),
            (
                "condition",
                text(&|_, flow| flow.best().map_or(String::new(), |d| d.condition.clone())),
            ),
            ("limit", text(&|_, flow| flow.best().map_or(String::new(), |d| d.limit.clone()))),
            ("backlog_bytes", whole(&|flow| flow.backlog.as_ref().map(|b| b.bytes))),
            (
                "lossless",
                Values::Truth(
                    all.iter().map(|(_, flow)| flow.backlog.as_ref().map(|b| b.lossless)).collect(),
                ),
            ),
        ];
        Columns::new(columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect())
    }

    /// Simulates the scenario; see `falaj.Scenario.simulate`. `run` has the values that the getter
    /// `run` returns; if `until` is not empty, its replications are a maximum. Each of `schedulers`
    /// has the name of a link, the direction (true: up), and a callable.
    #[allow(clippy::too_many_arguments, reason = "they have names where people write them")]
    #[pyo3(signature = (run, warm_up_ns, until, packets, schedulers, progress))]
    fn simulate(
        &self,
        py: Python<'_>,
        run: (usize, u64, u64),
        warm_up_ns: Option<u64>,
        until: Vec<String>,
        packets: bool,
        schedulers: Vec<(String, bool, Py<PyAny>)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let (replications, seed, duration_ns) = run;
        let asked = until.iter().map(|text| text.parse::<Until>()).collect::<Result<Vec<_>, _>>();
        let asked = asked.map_err(PyValueError::new_err)?;
        asked
            .iter()
            .try_for_each(|until| until::known(&self.read, until))
            .map_err(PyValueError::new_err)?;
        if self.read.traffic.is_empty() {
            let what = format!("{} has no [traffic.NAME]: there is nothing to simulate", self.file);
            return Err(PyValueError::new_err(what));
        }
        let mut read = self.read.clone();
        read.run.duration = Span(duration_ns);
        let stop = Arc::new(AtomicBool::new(false));
        let failure = Failure::new(Arc::clone(&stop));
        let told = |(_, refusals): (PipeId, ConfigErrors)| refused(&refusals);
        // The scenario's own schedulers determine the warm-up, so that results of schedulers
        // in Python are counted over the same time.
        let warm_up = match warm_up_ns {
            Some(ns) if ns >= duration_ns => {
                let what = format!(
                    "a warm-up of {} is not shorter than the duration of {}",
                    Span(ns),
                    Span(duration_ns)
                );
                return Err(PyValueError::new_err(what));
            }
            Some(ns) => Span(ns),
            None => {
                let experiment = experiment(&read, read.run.duration);
                let practice = ReplicationPlan {
                    seed,
                    warm_up: WarmUp::Found,
                    quantiles: Vec::new(),
                    most: replications,
                };
                let progress = Progress { gone: &|_| {}, stop: &stop };
                interruptible(py, &stop, || practice.warm_up(&experiment, &progress))?
                    .map_err(told)?
                    .cut
            }
        };
        let calls = !schedulers.is_empty();
        if calls && !read.changes.is_empty() {
            let what =
                "a scheduler in Python does not support changes of its link: leave [[change]] out";
            return Err(PyValueError::new_err(what));
        }
        for (link, up, class) in schedulers {
            scheduler::put(py, &mut read, &link, up, class, &failure)?;
        }
        let experiment = Experiment { warm_up, ..experiment(&read, read.run.duration) };
        let codes = codes(&read);
        let done = |n: usize, of: usize| {
            let Some(progress) = &progress else { return };
            Python::attach(|py| {
                if let Err(error) = progress.call1(py, (n, of)) {
                    failure.set(error);
                }
            });
        };
        let run = |i: usize| {
            let seed = seed.wrapping_add(i as u64);
            let mut columns = Packets::default();
            let run = if packets {
                let mut watch = |emit: &Emit| {
                    columns.flow.push(codes[emit.pipe.0 as usize] + emit.flow.0);
                    columns.bytes.push(emit.bytes);
                    columns.arrival.push(emit.arrival.0 as i64);
                    columns.start.push(emit.start.0 as i64);
                    columns.end.push(emit.end.0 as i64);
                };
                simulate_watched(&experiment, seed, &stop, &mut watch)?
            } else {
                falaj_sim::simulate(&experiment, seed, &stop)?
            };
            Ok((run, columns))
        };
        // A thread that was attached to Python once stays registered, so that calls need no new
        // registration each time.
        let one = |i: usize| if calls { Python::attach(|py| py.detach(|| run(i))) } else { run(i) };
        let mut ran: Vec<(usize, (Run, Packets))> = Vec::new();
        let mut study = Study::new(&until::quantiles(&asked));
        let mut next = if asked.is_empty() { replications } else { until::FIRST.min(replications) };
        while ran.len() < next {
            let have = ran.len();
            let take = |n: usize, pair| {
                ran.push((n, pair));
                done(ran.len(), next);
            };
            let ended = interruptible(py, &stop, || on_all(have..next, &stop, one, take));
            if let Some(error) = failure.take() {
                return Err(error);
            }
            ended?.map_err(told)?;
            if !asked.is_empty() {
                ran[have..].iter().for_each(|(n, (run, _))| study.take(*n, run.clone()));
                next = until::wanted(&read, &asked, std::slice::from_ref(&study)).min(replications);
            }
        }
        let reached = |until: &Until| {
            let now = until::width(&read, until, std::slice::from_ref(&study));
            (until.to_string(), now, now.is_some_and(|now| now <= until.within))
        };
        let reached = asked.iter().map(reached).collect();
        ran.sort_by_key(|(n, _)| *n);
        debug_assert!(!stop.load(Ordering::Relaxed), "an interrupted run returns an error");
        let (runs, packet_columns): (Vec<_>, Vec<_>) =
            ran.into_iter().map(|(_, pair)| pair).unzip();
        scheduler::judge(py, &runs)?;
        let packets =
            if packets { Some(Columns::of_packets(&names(&read), packet_columns)?) } else { None };
        Results::new(py, &read, &runs, packets, reached)
    }
}

/// Names of all flows, pipe by pipe.
fn names(scenario: &Read) -> Vec<String> {
    let mut names = Vec::new();
    for (l, link) in scenario.links.iter().enumerate() {
        for towards in [Towards::Up, Towards::Down] {
            names.extend(
                (0..link.direction(towards).flows.len())
                    .map(|f| name_of(scenario, (l, towards, f))),
            );
        }
    }
    names
}

/// Index of the first name of each pipe's flows in [`names`].
fn codes(scenario: &Read) -> Vec<u32> {
    let mut codes = vec![0; 2 * scenario.links.len()];
    let mut next = 0;
    for (l, link) in scenario.links.iter().enumerate() {
        for towards in [Towards::Up, Towards::Down] {
            codes[pipe_of(l, towards).0 as usize] = next;
            next += link.direction(towards).flows.len() as u32;
        }
    }
    codes
}
