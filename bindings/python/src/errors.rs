//! Errors as exceptions. Their classes are in `python/falaj/errors.py`.

use falaj_scenario::{Diagnostics, Severity};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An exception of `falaj.errors`, with this text and these attributes.
fn of_class(py: Python<'_>, class: &str, text: &str, more: &Bound<'_, PyDict>) -> PyErr {
    let made = py
        .import("falaj.errors")
        .and_then(|m| m.getattr(class))
        .and_then(|c| c.call((text,), Some(more)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// A `ScenarioError`; `words` describe how the scenario differs from its file.
pub(crate) fn scenario(py: Python<'_>, diagnostics: &Diagnostics, words: &str) -> PyErr {
    let fields = || -> PyResult<Bound<'_, PyDict>> {
        let fields = PyDict::new(py);
        let first = diagnostics.problems().iter().find(|p| p.severity == Severity::Error);
        fields.set_item("file", diagnostics.file_name())?;
        if let Some(problem) = first {
            fields.set_item("line", problem.line)?;
            fields.set_item("column", problem.column)?;
            fields.set_item("message", &problem.title)?;
            fields.set_item("help", problem.help.join("\n"))?;
        }
        Ok(fields)
    };
    let text = diagnostics.to_string();
    let text = if words.is_empty() { text } else { format!("with {words}:\n{text}") };
    fields().map_or_else(|error| error, |fields| of_class(py, "ScenarioError", &text, &fields))
}

/// A `SweepError`, or a `ScenarioError` if a scenario of the sweep is invalid.
pub(crate) fn sweep(py: Python<'_>, error: &falaj_sim::SweepError) -> PyErr {
    match error {
        falaj_sim::SweepError::Scenario(words, diagnostics) => scenario(py, diagnostics, words),
        falaj_sim::SweepError::Other(text) => of_class(py, "SweepError", text, &PyDict::new(py)),
    }
}

/// A `SchedulerError`.
pub(crate) fn scheduler(py: Python<'_>, text: &str) -> PyErr {
    of_class(py, "SchedulerError", text, &PyDict::new(py))
}

/// An `UnknownKey`.
pub(crate) fn unknown_key(py: Python<'_>, text: &str) -> PyErr {
    of_class(py, "UnknownKey", text, &PyDict::new(py))
}

/// An error that indicates a bug in this code.
pub(crate) fn internal(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
