//! Rewrites errors of the TOML parser in words for users.

use crate::diagnostics::Problem;
use crate::suggest::quoted;
use std::ops::Range;
use toml::de::{DeTable, DeValue, Error};

/// Errors of the syntax, and their effect on the rest of the file.
pub(crate) struct Syntax {
    pub(crate) problems: Vec<Problem>,
    /// Places of values that could not be read. Further errors about them are not reported.
    pub(crate) broken: Vec<Range<usize>>,
    /// True if the errors are inside values, so that all tables are where they were intended.
    pub(crate) sound: bool,
}

pub(crate) fn judge(text: &str, root: &DeTable<'_>, errors: &[Error]) -> Syntax {
    let mut scalars = Vec::new();
    collect(root, &mut scalars);
    let mut out = Syntax { problems: Vec::new(), broken: Vec::new(), sound: true };
    // The line and the value of the last error reported.
    let mut last: Option<(usize, Option<&Range<usize>>)> = None;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let start =
            (0..=span.start.min(text.len())).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        let line_start = text[..start].rfind('\n').map_or(0, |n| n + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let value = scalars.iter().find(|s| s.start <= span.start && span.end <= s.end);
        let duplicate = error.message().starts_with("duplicate key");
        // A second header of the same table has replaced the contents of the first. A second value
        // has not replaced the first value.
        let second_value = duplicate && !line.trim_start().starts_with('[');
        out.sound &= value.is_some() || second_value;
        if let Some(value) = value {
            out.broken.push(value.clone());
        }
        // One typing error often causes several errors of the TOML parser.
        if last == Some((line_start, None)) || last == Some((line_start, value)) {
            continue;
        }
        last = Some((line_start, value));
        out.problems.push(if duplicate {
            let name = text.get(span.clone()).unwrap_or("");
            let what = format!("{} is given twice", quoted(name));
            Problem::error(span, what).label("the second").help("keep one of the two")
        } else if let Some(value) = value {
            in_value(text, error, span, value)
        } else {
            other(error, span)
        });
    }
    out
}

fn in_value(text: &str, error: &Error, span: Range<usize>, value: &Range<usize>) -> Problem {
    let raw = text.get(value.clone()).unwrap_or("").trim_end();
    if raw.is_empty() {
        return Problem::error(value.clone(), "a key without a value").label("nothing after `=`");
    }
    if raw.starts_with(['"', '\'', '[', '{']) || raw.contains(['"', '\\', '\n']) {
        return other(error, span);
    }
    Problem::error(value.start..value.start + raw.len(), "a text needs quotes")
        .help(format!("write `\"{}\"`", quoted(raw).trim_matches('`')))
}

fn other(error: &Error, span: Range<usize>) -> Problem {
    let message = error.message().lines().next().unwrap_or("");
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let problem = Problem::error(span, format!("this is not valid TOML: {what}"));
    match expected {
        "" | "nothing" => problem,
        expected => problem.label(format!("expected {expected}")),
    }
}

/// Finds the places of all values that contain no other values.
fn collect(table: &DeTable<'_>, out: &mut Vec<Range<usize>>) {
    for value in table.values() {
        collect_value(value, out);
    }
}

fn collect_value(value: &toml::Spanned<DeValue<'_>>, out: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => collect(table, out),
        DeValue::Array(array) => array.iter().for_each(|v| collect_value(v, out)),
        _ => out.push(value.span()),
    }
}
