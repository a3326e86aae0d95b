//! A scenario while it is being made: tables of keys, in order.

use std::fmt;
use std::ops::Range;

/// A table of the scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) header: String,
    /// Place of the command from which the table was made.
    pub(crate) at: Range<usize>,
    /// Comment lines above the table.
    pub(crate) comments: Vec<String>,
    keys: Vec<(String, String)>,
}

impl Table {
    pub(crate) fn new(header: impl Into<String>, at: Range<usize>) -> Table {
        Table { header: header.into(), at, ..Table::default() }
    }

    /// Sets a key to a value in TOML's syntax; a later value replaces an earlier one.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// The value of a key, in TOML's syntax.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// The keys whose values differ from those in a former table. Each key comes with its value in
    /// this table, in TOML's syntax; `None` if this table lacks the key.
    pub(crate) fn differences<'a>(&'a self, former: &'a Table) -> Vec<(&'a str, Option<&'a str>)> {
        let new = self.keys.iter().filter(|(k, value)| former.get(k) != Some(value));
        let lost = former.keys.iter().filter(|(k, _)| self.get(k).is_none());
        let new = new.map(|(k, value)| (k.as_str(), Some(value.as_str())));
        new.chain(lost.map(|(k, _)| (k.as_str(), None))).collect()
    }

    /// Removes a key.
    pub(crate) fn unset(&mut self, key: &str) {
        self.keys.retain(|(k, _)| k != key);
    }

    /// Sets a key to a string.
    pub(crate) fn text(&mut self, key: &str, value: impl fmt::Display) {
        self.set(key, quote(&value.to_string()));
    }
}

/// The tables of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) tables: Vec<Table>,
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            for comment in &table.comments {
                // Names may have control characters, which TOML forbids in comments.
                writeln!(f, "# {}", comment.replace(char::is_control, "\u{fffd}"))?;
            }
            writeln!(f, "{}", table.header)?;
            for (key, value) in &table.keys {
                writeln!(f, "{key} = {value}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Quotes a string for TOML. The escapes are those of JSON, and in addition the escape of the
/// delete character.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A key of TOML, without quotes where TOML allows that.
pub(crate) fn key(name: &str) -> String {
    let bare = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { name.to_owned() } else { quote(name) }
}

/// An inline table: `{ a = 1, b = 2 }`.
pub(crate) fn inline(keys: &[(&str, String)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    format!("{{ {} }}", keys.join(", "))
}
