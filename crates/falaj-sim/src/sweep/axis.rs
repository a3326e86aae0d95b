//! The axes of a sweep.

use falaj_scenario::edit;
use serde::{Deserialize, Serialize};
use toml_edit::Value;

/// A key of the scenario, and its values in the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The key, in the form that `falaj set` takes.
    pub key: String,
    /// Its values, as TOML.
    pub values: Vec<String>,
}

impl Axis {
    /// Creates an axis of TOML values. A string as the value of a `scheduler` means its `kind`.
    pub fn new(key: &str, values: &[Value]) -> Axis {
        let words = values.iter().all(Value::is_str);
        let scheduler = words && key.rsplit('.').next() == Some("scheduler");
        let key = if scheduler { format!("{key}.kind") } else { key.to_owned() };
        Axis {
            key,
            values: values.iter().map(|value| value.to_string().trim().to_owned()).collect(),
        }
    }

    /// Reads `KEY=VALUE,VALUE,…`. A list in brackets is TOML, for values that contain commas.
    ///
    /// # Errors
    /// There is no `=`, no key, or no value.
    pub fn parse(text: &str) -> Result<Axis, String> {
        const EXAMPLE: &str = "write a key and its values, as in `uplink.rate=10mbit,20mbit`";
        let (key, values) =
            text.split_once('=').ok_or_else(|| format!("there is no `=`; {EXAMPLE}"))?;
        let values: Vec<Value> = match values.trim().parse::<Value>() {
            Ok(Value::Array(list)) if values.trim_start().starts_with('[') => {
                list.iter().cloned().collect()
            }
            _ => values.split(',').map(|value| edit::value(value.trim())).collect(),
        };
        if key.trim().is_empty() || values.iter().any(|value| value.as_str() == Some("")) {
            return Err(format!("a key or a value is missing; {EXAMPLE}"));
        }
        Ok(Axis::new(key.trim(), &values))
    }
}
