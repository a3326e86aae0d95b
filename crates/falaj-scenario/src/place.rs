//! Files beside the scenario's, which have lines of words, and places in them.

use crate::diagnostics::Problem;
use crate::read::Field;
use crate::units::quoted;
use std::path::Path;

/// Reads the file that a key of the scenario names; says what is wrong with it, and what its form is.
pub(crate) fn read<T>(
    beside: &Path,
    name: &str,
    field: &Field<'_>,
    parse: impl FnOnce(&str) -> Result<T, At>,
    form: &str,
    problems: &mut Vec<Problem>,
) -> Result<T, ()> {
    let text = std::fs::read_to_string(beside.join(name));
    let text = text.map_err(|error| format!("{} cannot be read: {error}", quoted(name)));
    text.and_then(|text| parse(&text).map_err(|at| at.in_file(name))).map_err(|what| {
        problems.push(Problem::error(field.at.clone(), format!("`{}`: {what}", field.key.name)).help(form.to_owned()));
    })
}

/// A line and a column, counted from 1; and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At {
    line: usize,
    column: usize,
    what: String,
}

impl At {
    pub(crate) const START: At = At { line: 1, column: 1, what: String::new() };

    pub(crate) fn says(&self, what: impl Into<String>) -> At {
        At { what: what.into(), ..*self }
    }

    /// So many characters further in the line.
    pub(crate) fn later(&self, by: usize) -> At {
        At { column: self.column + by, ..self.clone() }
    }

    /// `wifi.dist:3:7: what is wrong`.
    pub(crate) fn in_file(&self, name: &str) -> String {
        format!("{name}:{}:{}: {}", self.line, self.column, self.what)
    }
}

/// All lines of a text that are not blank, without comments and without blanks around, each with its place.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (At, &str)> {
    text.lines().enumerate().filter_map(|(n, whole)| {
        let line = whole.split('#').next().unwrap_or("");
        let column = 1 + line.chars().take_while(|c| c.is_whitespace()).count();
        let line = line.trim();
        (!line.is_empty()).then(|| (At { line: n + 1, column, what: String::new() }, line))
    })
}

/// The words of each line that has some, without comments, each with its place.
pub(crate) fn words_of_lines(text: &str) -> impl Iterator<Item = Vec<(At, &str)>> {
    text.lines().enumerate().filter_map(|(n, whole)| {
        let line = whole.split('#').next().unwrap_or("");
        let words = line.split_whitespace().map(|word| {
            let before = word.as_ptr() as usize - whole.as_ptr() as usize;
            let column = 1 + whole[..before].chars().count();
            (At { line: n + 1, column, what: String::new() }, word)
        });
        Some(words.collect::<Vec<_>>()).filter(|words| !words.is_empty())
    })
}

/// All of them.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (At, &str)> {
    words_of_lines(text).flatten()
}
