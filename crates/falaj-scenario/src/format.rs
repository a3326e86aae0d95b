//! A uniform layout of scenario files. Nothing but the layout changes.
//!
//! The new layout is made from the events of the TOML parser, and not from a tree. So the order of
//! tables and keys, every comment, and the notation of each value and key are kept.

use crate::diagnostics::Diagnostics;
use crate::syntax;
use std::fmt::Write;
use toml::de::DeTable;
use toml_parser::Source;
use toml_parser::decoder::Encoding;
use toml_parser::parser::{Event, EventKind, parse_document};

/// Maximum width of a line with an array, in columns, without the comment after it.
pub const WIDTH: usize = 100;

/// The rules of [`format()`], one in each line.
pub const RULES: &[&str] = &[
    "the order of tables and keys, every comment, and the meaning of values stay as they are",
    "`key = value` and `{ a = 1, b = 2 }` with single spaces; no indentation outside of arrays",
    "one blank line before a table's header and the comment on it; elsewhere one at most",
    "an array or an inline table with a comment in it, and an array that passes column 100, has a line for each element",
    "comments after neighbouring lines begin in one column, two after the longest of these lines",
    "double quotes, unless the text would need escapes; lines end in a newline and in no blanks",
];

/// Returns `text` in the uniform layout. The text need not be a valid scenario. `file_name` is only
/// used in messages.
///
/// # Errors
/// The text is not TOML.
pub fn format(text: &str, file_name: &str) -> Result<String, Diagnostics> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problems = syntax::judge(text, root.get_ref(), &errors).problems;
        return Err(Diagnostics::new(file_name, text, problems));
    }
    let source = Source::new(text);
    let mut events: Vec<Event> = Vec::new();
    // Errors were reported above, so this parser reports none.
    parse_document(&source.lex().into_vec(), &mut events, &mut ());
    Ok(lay_out(&LineReader { source, events, at: 0 }.lines()))
}

/// A line of the file, or a value of several lines.
enum SourceLine {
    Blank,
    /// A line with a comment alone.
    Comment(String),
    /// A header, or a key and its value, with the comment behind it in the same line.
    Code {
        text: String,
        comment: Option<String>,
        header: bool,
    },
}

/// A value, as the layout sees it.
enum Node {
    /// A scalar value as it will be written.
    Scalar(String),
    Array(Items),
    Table(Items),
}

/// The contents of brackets or braces.
#[derive(Default)]
struct Items {
    items: Vec<Item>,
    /// Comments after the last item, in lines of their own.
    last: Vec<String>,
}

/// An element of an array, or of an inline table with its key.
struct Item {
    /// Comments before the element, in lines of their own.
    before: Vec<String>,
    key: Option<String>,
    value: Node,
    /// The comment behind the element.
    behind: Option<String>,
}

struct LineReader<'a> {
    source: Source<'a>,
    events: Vec<Event>,
    at: usize,
}

impl<'a> LineReader<'a> {
    fn next(&mut self) -> Option<Event> {
        let event = self.events.get(self.at).copied();
        self.at += 1;
        event
    }

    fn text(&self, event: Event) -> &'a str {
        self.source.get(event).map_or("", |raw| raw.as_str())
    }

    /// A key or a value. Single quotes become double quotes if the text needs no escapes then.
    fn scalar(&self, event: Event) -> String {
        let text = self.text(event);
        let bare = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
        match bare.filter(|bare| {
            event.encoding() == Some(Encoding::LiteralString) && !bare.contains(['"', '\\'])
        }) {
            Some(bare) => format!("\"{bare}\""),
            None => text.to_owned(),
        }
    }

    fn comment(&self, event: Event) -> String {
        self.text(event).trim_end().to_owned()
    }

    fn lines(mut self) -> Vec<SourceLine> {
        let mut lines = Vec::new();
        // The current line so far, and true if it is a header.
        let mut code: Option<(String, bool)> = None;
        let mut empty = true;
        while let Some(event) = self.next() {
            empty &= matches!(event.kind(), EventKind::Whitespace | EventKind::Newline);
            let (text, _) = code.get_or_insert_default();
            match event.kind() {
                EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                    let brackets = self.text(event).to_owned();
                    code = Some((brackets, true));
                }
                EventKind::StdTableClose | EventKind::ArrayTableClose | EventKind::KeySep => {
                    text.push_str(self.text(event));
                }
                EventKind::SimpleKey => text.push_str(&self.scalar(event)),
                EventKind::KeyValSep => {
                    text.push_str(" = ");
                    let value = self.value();
                    write_value(text, &value, 0);
                }
                EventKind::Comment => {
                    let comment = self.comment(event);
                    match code.take().filter(|(text, _)| !text.is_empty()) {
                        Some((text, header)) => {
                            lines.push(SourceLine::Code { text, comment: Some(comment), header });
                        }
                        None => lines.push(SourceLine::Comment(comment)),
                    }
                }
                EventKind::Newline => {
                    match code.take().filter(|(text, _)| !text.is_empty()) {
                        Some((text, header)) => {
                            lines.push(SourceLine::Code { text, comment: None, header });
                        }
                        None if empty => lines.push(SourceLine::Blank),
                        None => {}
                    }
                    empty = true;
                }
                _ => {}
            }
        }
        if let Some((text, header)) = code.filter(|(text, _)| !text.is_empty()) {
            lines.push(SourceLine::Code { text, comment: None, header });
        }
        lines
    }

    /// Reads the next value.
    fn value(&mut self) -> Node {
        while let Some(event) = self.next() {
            match event.kind() {
                EventKind::Scalar => return Node::Scalar(self.scalar(event)),
                EventKind::ArrayOpen => return Node::Array(self.items(EventKind::ArrayClose)),
                EventKind::InlineTableOpen => {
                    return Node::Table(self.items(EventKind::InlineTableClose));
                }
                _ => {}
            }
        }
        // Not reached: a key without a value was reported as an error.
        Node::Scalar(String::new())
    }

    /// Reads the contents up to the closing bracket.
    fn items(&mut self, close: EventKind) -> Items {
        let mut out = Items::default();
        let (mut key, mut same_line) = (String::new(), false);
        while let Some(event) = self.next() {
            match event.kind() {
                kind if kind == close => break,
                EventKind::Newline => same_line = false,
                EventKind::SimpleKey => key.push_str(&self.scalar(event)),
                EventKind::KeySep => key.push('.'),
                EventKind::Comment => {
                    let comment = self.comment(event);
                    match out.items.last_mut().filter(|_| same_line) {
                        Some(item) => item.behind = Some(comment),
                        None => out.last.push(comment),
                    }
                }
                EventKind::Scalar | EventKind::ArrayOpen | EventKind::InlineTableOpen => {
                    self.at -= 1;
                    out.items.push(Item {
                        before: std::mem::take(&mut out.last),
                        key: Some(std::mem::take(&mut key)).filter(|key| !key.is_empty()),
                        value: self.value(),
                        behind: None,
                    });
                    same_line = true;
                }
                _ => {}
            }
        }
        out
    }
}

impl Items {
    fn has_comments(&self) -> bool {
        !self.last.is_empty()
            || self.items.iter().any(|i| !i.before.is_empty() || i.behind.is_some())
    }
}

/// Returns the value in one line, if it contains no comments and no texts of several lines.
fn flat(node: &Node) -> Option<String> {
    let (items, ends) = match node {
        Node::Scalar(text) => return (!text.contains('\n')).then(|| text.clone()),
        Node::Array(items) => (items, ["[", "]"]),
        Node::Table(items) if items.items.is_empty() => (items, ["{", "}"]),
        Node::Table(items) => (items, ["{ ", " }"]),
    };
    if items.has_comments() {
        return None;
    }
    let flat = |item: &Item| {
        let value = flat(&item.value)?;
        Some(item.key.as_ref().map_or_else(|| value.clone(), |key| format!("{key} = {value}")))
    };
    let all = items.items.iter().map(flat).collect::<Option<Vec<_>>>()?;
    Some([ends[0], &all.join(", "), ends[1]].concat())
}

/// Writes a value at the end of the last line of `out`; further lines are indented by `indent` or
/// more.
fn write_value(out: &mut String, node: &Node, indent: usize) {
    let column = out.rsplit('\n').next().map_or(0, |line| line.chars().count());
    let (items, ends) = match node {
        Node::Scalar(text) => return out.push_str(text),
        Node::Array(items) => (items, ['[', ']']),
        Node::Table(items) => (items, ['{', '}']),
    };
    match (node, flat(node)) {
        (_, Some(flat)) if column + flat.chars().count() <= WIDTH => out.push_str(&flat),
        // Without a comment, the braces of a table stay in one line, as TOML 1.0 requires.
        (Node::Table(items), _) if !items.has_comments() => {
            out.push_str("{ ");
            for (n, item) in items.items.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                write_item(out, item, indent);
            }
            out.push_str(" }");
        }
        _ => {
            let inner = indent + 4;
            out.push(ends[0]);
            let own_line = |out: &mut String, indent: usize| {
                // Writing to a string never fails.
                let _ = write!(out, "\n{:indent$}", "");
            };
            for item in &items.items {
                for comment in &item.before {
                    own_line(out, inner);
                    out.push_str(comment);
                }
                own_line(out, inner);
                write_item(out, item, inner);
                out.push(',');
                if let Some(comment) = &item.behind {
                    out.push_str("  ");
                    out.push_str(comment);
                }
            }
            for comment in &items.last {
                own_line(out, inner);
                out.push_str(comment);
            }
            own_line(out, indent);
            out.push(ends[1]);
        }
    }
}

fn write_item(out: &mut String, item: &Item, indent: usize) {
    if let Some(key) = &item.key {
        out.push_str(key);
        out.push_str(" = ");
    }
    write_value(out, &item.value, indent);
}

/// Writes the lines with blank lines between them, and aligns the comments behind them.
fn lay_out(lines: &[SourceLine]) -> String {
    // For each line: true if a table begins there: with the first of the comments directly above
    // its header or, without such comments, with the header.
    let mut heads = vec![false; lines.len()];
    for (n, line) in lines.iter().enumerate() {
        if matches!(line, SourceLine::Code { header: true, .. }) {
            let comments =
                lines[..n].iter().rev().take_while(|l| matches!(l, SourceLine::Comment(_))).count();
            heads[n - comments] = true;
        }
    }
    let mut out = String::new();
    let (mut n, mut blank) = (0, false);
    while n < lines.len() {
        if (blank || heads[n]) && !out.is_empty() && !matches!(lines[n], SourceLine::Blank) {
            out.push('\n');
        }
        blank = matches!(lines[n], SourceLine::Blank);
        match &lines[n] {
            SourceLine::Blank => n += 1,
            SourceLine::Comment(comment) => {
                out.push_str(comment);
                out.push('\n');
                n += 1;
            }
            SourceLine::Code { text, comment: None, .. } => {
                out.push_str(text);
                out.push('\n');
                n += 1;
            }
            SourceLine::Code { comment: Some(_), .. } => {
                let run = commented(&lines[n..], &heads[n..]);
                let width =
                    |text: &str| text.rsplit('\n').next().map_or(0, |line| line.chars().count());
                let longest = run.iter().map(|(text, _)| width(text)).max().unwrap_or(0);
                for (text, comment) in &run {
                    // Writing to a string never fails.
                    let _ = writeln!(
                        out,
                        "{text}{:gap$}{comment}",
                        "",
                        gap = longest - width(text) + 2
                    );
                }
                n += run.len();
            }
        }
    }
    out
}

/// The lines at the beginning of `lines` that have comments behind them, up to the first other line
/// or blank line.
fn commented<'l>(lines: &'l [SourceLine], heads: &[bool]) -> Vec<(&'l str, &'l str)> {
    let line = |(n, line): (usize, &'l SourceLine)| match line {
        SourceLine::Code { text, comment: Some(comment), .. } if n == 0 || !heads[n] => {
            Some((text.as_str(), comment.as_str()))
        }
        _ => None,
    };
    lines.iter().enumerate().map_while(line).collect()
}
