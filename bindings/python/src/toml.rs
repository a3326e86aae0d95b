//! Python values as TOML, for the ordinary parser.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

/// A dict of dicts, lists, texts, numbers and booleans, as the text of a file.
#[pyfunction]
pub(crate) fn document(dict: &Bound<'_, PyMapping>) -> PyResult<String> {
    let mut document = DocumentMut::new();
    *document.as_table_mut() = table(dict, "")?;
    Ok(document.to_string())
}

/// Converts a dict to a table, which has its own header unless it contains only tables.
fn table(dict: &Bound<'_, PyMapping>, path: &str) -> PyResult<Table> {
    let mut table = Table::new();
    table.set_implicit(true);
    for (key, value) in pairs(dict, path)? {
        let within = within(path, &key);
        let nested = value.cast::<PyMapping>().ok().filter(|_| has_header(&within));
        let item = match nested {
            Some(inner) => Item::Table(self::table(inner, &within)?),
            None => Item::Value(self::value(&value, &within)?),
        };
        table.insert(&key, item);
    }
    Ok(table)
}

/// Returns true if the table at `path` has a header of its own, as in `[link.uplink.flow.voice]`. A
/// table that is the value of a key, such as a scheduler, is inline.
fn has_header(path: &str) -> bool {
    let words: Vec<&str> = path.split('.').collect();
    let named = |word: &&str| ["link", "flow", "traffic", "table", "host"].contains(word);
    let last = words.last().copied().unwrap_or_default();
    let before = words.len().checked_sub(2).map(|n| words[n]);
    last == "run"
        || named(&last)
        || before.is_some_and(|word| named(&word))
        || ["up", "down"].contains(&last)
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn pairs<'py>(
    dict: &Bound<'py, PyMapping>,
    path: &str,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let mut pairs = Vec::new();
    for pair in dict.items()?.try_iter()? {
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
        let text = key.cast::<PyString>().map_err(|_| {
            let place = if path.is_empty() { "the scenario" } else { path };
            PyTypeError::new_err(format!("{place}: a key must be a text, and {key} is not"))
        })?;
        // None counts as absent.
        if !value.is_none() {
            pairs.push((text.to_string(), value));
        }
    }
    Ok(pairs)
}

/// A value; `path` is its place, for messages.
pub(crate) fn value(value: &Bound<'_, PyAny>, path: &str) -> PyResult<Value> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::from(text.to_string()));
    }
    // Booleans are tested before whole numbers, since Python's booleans are integers too.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Value::from(truth.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let number: i64 = value.extract().map_err(|_| {
            PyValueError::new_err(format!(
                "{path}: {value} is too large; TOML has whole numbers of 64 bits"
            ))
        })?;
        return Ok(Value::from(number));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::from(value.extract::<f64>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut array = Array::new();
        for (n, item) in value.try_iter()?.enumerate() {
            array.push(self::value(&item?, &format!("{path}[{n}]"))?);
        }
        return Ok(Value::Array(array));
    }
    if let Ok(dict) = value.cast::<PyMapping>() {
        let mut table = InlineTable::new();
        for (key, inner) in pairs(dict, path)? {
            let inner = self::value(&inner, &within(path, &key))?;
            table.insert(&key, inner);
        }
        return Ok(Value::InlineTable(table));
    }
    // NumPy's numbers are accepted too.
    let number = |item: &Bound<'_, PyAny>| {
        item.is_instance_of::<PyInt>() || item.is_instance_of::<PyFloat>()
    };
    if let Some(item) = value.call_method0("item").ok().filter(number) {
        return self::value(&item, path);
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{path}: a {kind} is not a value of a scenario; write a text, a number, a list or a dict"
    )))
}
