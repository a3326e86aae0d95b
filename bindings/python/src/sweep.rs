//! Sweeps: a scenario with each combination of values.

use crate::interrupt::interruptible;
use crate::table::{Columns, Values};
use crate::{errors, toml};
use falaj_sched::units::time::Span;
use falaj_sim::rows::COLUMNS;
use falaj_sim::sweep::{Axis, Results, Shard, Table};
use falaj_sim::{cores, sweep};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::AtomicBool;
use toml_edit::Value;

/// The simulations of a sweep.
#[pyclass(frozen, module = "falaj._falaj")]
pub(crate) struct Sweep(sweep::Sweep);

#[pymethods]
impl Sweep {
    /// Values by key. Replications, seed and duration are the scenario's if they are None;
    /// `times_ns` has the duration, and the warm-up, which is not counted.
    #[new]
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        axes: Vec<(String, Vec<Bound<'_, PyAny>>)>,
        replications: Option<u32>,
        seed: Option<u64>,
        times_ns: (Option<u64>, u64),
    ) -> PyResult<Sweep> {
        let (duration_ns, warm_up_ns) = times_ns;
        let mut all = Vec::new();
        for (key, values) in axes {
            let values = values
                .iter()
                .map(|value| toml::value(value, &key))
                .collect::<PyResult<Vec<_>>>()?;
            all.push(Axis::new(&key, &values));
        }
        let mut sweep =
            sweep::Sweep::new(text, file, all).map_err(|error| errors::sweep(py, &error))?;
        if let Some(replications) = replications {
            sweep = sweep.replicated(replications);
        }
        if let Some(seed) = seed {
            sweep = sweep.seeded(seed);
        }
        if let Some(duration) = duration_ns {
            sweep = sweep.lasting(Span(duration));
        }
        sweep.warmed_up(Span(warm_up_ns)).map(Sweep).map_err(|error| errors::sweep(py, &error))
    }

    #[getter]
    fn tasks(&self) -> u64 {
        self.0.tasks()
    }

    #[getter]
    fn points(&self) -> usize {
        self.0.points()
    }

    /// The text of the sweep, as `falaj sweep plan` writes it.
    #[getter]
    fn text(&self) -> String {
        format!("{}\n", self.0)
    }

    /// Reads a text of [`Sweep::text`].
    #[staticmethod]
    fn read(py: Python<'_>, text: &str) -> PyResult<Sweep> {
        Ok(Sweep(read(py, text, "sweep")?.sweep().clone()))
    }

    /// Divides the tasks of a shard into this number of parts, as shards; into fewer if there are
    /// fewer tasks.
    fn split(&self, shard: &str, parts: u64) -> PyResult<Vec<String>> {
        let shard: Shard = shard.parse().map_err(PyValueError::new_err)?;
        Ok(shard.split(&self.0, parts).iter().map(Shard::to_string).collect())
    }

    /// Runs a shard such as `1/8` on `cores` cores, or on all cores, and returns its lines as
    /// `falaj sweep run` writes them.
    #[pyo3(signature = (shard, cores=None))]
    fn run(&self, py: Python<'_>, shard: &str, cores: Option<usize>) -> PyResult<String> {
        let shard: Shard = shard.parse().map_err(PyValueError::new_err)?;
        let cores = cores.unwrap_or_else(cores::all);
        let stop = AtomicBool::new(false);
        let ran = interruptible(py, &stop, || self.0.run_on(cores, shard, &stop, &|_| {}))?;
        ran.map(|results| results.to_string()).map_err(|error| errors::sweep(py, &error))
    }
}

/// Reads the lines of a sweep; `name` is for messages.
fn read(py: Python<'_>, text: &str, name: &str) -> PyResult<Results> {
    Results::parse(text, name).map_err(|error| errors::sweep(py, &error))
}

/// Merges shards, given as pairs of name and lines.
#[pyfunction]
pub(crate) fn merge(py: Python<'_>, shards: Vec<(String, String)>) -> PyResult<String> {
    let mut shards = shards.into_iter();
    let (name, text) =
        shards.next().ok_or_else(|| PyValueError::new_err("there is nothing to merge"))?;
    let mut all = read(py, &text, &name)?;
    for (name, text) in shards {
        all.merge(read(py, &text, &name)?).map_err(|error| errors::sweep(py, &error))?;
    }
    Ok(all.to_string())
}

/// A line for each point and flow of a whole sweep.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, text: &str, name: &str) -> PyResult<Columns> {
    let table = read(py, text, name)?.table().map_err(|error| errors::sweep(py, &error))?;
    let mut columns = Vec::new();
    for (n, axis) in table.axes.iter().enumerate() {
        columns.push((axis.key.clone(), axis_values(&table, n)));
    }
    let text = |of: fn(&sweep::Line) -> &String| {
        Values::Text(table.lines.iter().map(|line| of(line).clone()).collect())
    };
    columns.push(("link".into(), text(|line| &line.link)));
    columns.push(("way".into(), text(|line| &line.way)));
    columns.push(("flow".into(), text(|line| &line.flow)));
    for (n, measure) in COLUMNS.iter().enumerate() {
        let mean = table.lines.iter().map(|line| line.measures[n].map(|e| e.mean)).collect();
        let half =
            table.lines.iter().map(|line| line.measures[n].and_then(|e| e.half_width)).collect();
        columns.push((measure.name.into(), Values::Numbers(mean)));
        columns.push((format!("{}_half_width", measure.name), Values::Numbers(half)));
    }
    Columns::new(columns)
}

/// Whole numbers if all values are whole, floats if all are floats, otherwise texts.
fn axis_values(table: &Table, n: usize) -> Values {
    let parsed: Vec<Option<Value>> =
        table.lines.iter().map(|line| line.values[n].parse().ok()).collect();
    let whole: Option<Vec<i64>> = parsed.iter().map(|v| v.as_ref()?.as_integer()).collect();
    let numbers: Option<Vec<Option<f64>>> =
        parsed.iter().map(|v| v.as_ref()?.as_float().map(Some)).collect();
    if let Some(whole) = whole {
        return Values::Whole(whole);
    }
    if let Some(numbers) = numbers {
        return Values::Numbers(numbers);
    }
    let text = |(line, value): (&sweep::Line, &Option<Value>)| {
        value
            .as_ref()
            .and_then(|v| v.as_str())
            .map_or_else(|| line.values[n].clone(), str::to_owned)
    };
    Values::Text(table.lines.iter().zip(&parsed).map(text).collect())
}
