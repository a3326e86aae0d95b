//! Problems of a file, and their places.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but is probably not as intended.
    Warning,
}

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The problem's severity.
    pub severity: Severity,
    /// The problem, in one line.
    pub title: String,
    /// The text beside the marked place; may be empty.
    pub label: String,
    /// Cures and allowed values; one line each.
    pub help: Vec<String>,
    /// The place in the file, in bytes.
    pub span: Range<usize>,
    /// The line in which the place begins, from 1.
    pub line: usize,
    /// The column at which the place begins, in characters, from 1.
    pub column: usize,
}

impl Problem {
    fn new(severity: Severity, span: Range<usize>, title: impl Into<String>) -> Problem {
        let title = title.into();
        Problem {
            severity,
            title,
            label: String::new(),
            help: Vec::new(),
            span,
            line: 1,
            column: 1,
        }
    }

    /// An error at this place of the file.
    pub fn error(span: Range<usize>, title: impl Into<String>) -> Problem {
        Problem::new(Severity::Error, span, title)
    }

    /// A warning at this place of the file.
    pub fn warning(span: Range<usize>, title: impl Into<String>) -> Problem {
        Problem::new(Severity::Warning, span, title)
    }

    /// Adds the text beside the marked place.
    pub fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = label.into();
        self
    }

    /// Adds one more line of help.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help.push(help.into());
        self
    }
}

/// The problems of one file, in the order of their places; at most [`Diagnostics::MOST`] are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    file: String,
    text: String,
    problems: Vec<Problem>,
    /// Number of problems beyond [`Diagnostics::MOST`].
    more: usize,
}

impl Diagnostics {
    /// Maximum number of problems shown.
    pub const MOST: usize = 40;

    /// The problems of the file with this name and text, in order and without duplicates, with
    /// lines and columns.
    pub fn new(file: &str, text: &str, mut problems: Vec<Problem>) -> Diagnostics {
        for problem in &mut problems {
            problem.span = inside(text, &problem.span);
        }
        problems.sort_by_key(|p| (p.span.start, p.severity, p.span.end));
        // Both directions of a link may have reported the same problem.
        let mut unique: Vec<Problem> = Vec::new();
        for problem in problems {
            let same = |p: &&Problem| p.span.start == problem.span.start;
            if !unique
                .iter()
                .rev()
                .take_while(same)
                .any(|p| p.span == problem.span && p.title == problem.title)
            {
                unique.push(problem);
            }
        }
        let more = unique.len().saturating_sub(Self::MOST);
        if more > 0 {
            // Errors take precedence over warnings.
            unique.sort_by_key(|p| p.severity);
            unique.truncate(Self::MOST);
            unique.sort_by_key(|p| p.span.start);
        }
        for problem in &mut unique {
            let before = text.get(..problem.span.start).unwrap_or("");
            let line_start = before.rfind('\n').map_or(0, |n| n + 1);
            problem.line = 1 + before.bytes().filter(|b| *b == b'\n').count();
            problem.column = 1 + before[line_start..].chars().count();
        }
        Diagnostics { file: file.to_owned(), text: text.to_owned(), problems: unique, more }
    }

    /// Returns true if there are no problems.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// The name of the file, as given.
    pub fn file_name(&self) -> &str {
        &self.file
    }

    /// The problems, in the order of their places.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns true if any problem is an error.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|p| p.severity == Severity::Error)
    }

    /// Renders all problems for a terminal, each with its line of the file. Of three or more
    /// similar warnings only the first is shown, with the line numbers of the others. Colours are
    /// ANSI escapes. Ends without a newline; empty if there are no problems.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let told = |(problem, alike): &(&Problem, Vec<usize>)| {
            let lines: Vec<String> = alike.iter().map(usize::to_string).collect();
            let more = match lines.len() {
                0 => String::new(),
                n => format!("\n\nand {n} more alike, in lines {}", lines.join(", ")),
            };
            self.render_one(&renderer, problem) + &more
        };
        let mut out: Vec<String> = self.folded().iter().map(told).collect();
        if self.more > 0 {
            out.push(format!("and {} more", self.more));
        }
        out.join("\n\n")
    }

    /// The problems to show, each with the lines of similar warnings.
    fn folded(&self) -> Vec<(&Problem, Vec<usize>)> {
        /// The smallest number of similar warnings that are folded into one.
        const MANY: usize = 3;
        let is_alike = |a: &Problem, b: &Problem| {
            let warn = [a, b].map(|problem| problem.severity == Severity::Warning);
            warn == [true; 2] && without_names(&a.title) == without_names(&b.title)
        };
        let mut told: Vec<(&Problem, Vec<usize>)> = Vec::new();
        for problem in &self.problems {
            let many = self.problems.iter().filter(|other| is_alike(problem, other)).count();
            let first = told.iter_mut().find(|(first, _)| is_alike(first, problem));
            match first.filter(|_| many >= MANY) {
                Some((_, lines)) => lines.push(problem.line),
                None => told.push((problem, Vec::new())),
            }
        }
        told
    }

    fn render_one(&self, renderer: &Renderer, problem: &Problem) -> String {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut annotation = AnnotationKind::Primary.span(problem.span.clone());
        if !problem.label.is_empty() {
            annotation = annotation.label(problem.label.as_str());
        }
        let snippet =
            Snippet::source(self.text.as_str()).path(self.file.as_str()).annotation(annotation);
        let help = problem.help.iter().map(|h| Level::HELP.message(h.as_str()));
        let group = level.primary_title(problem.title.as_str()).element(snippet).elements(help);
        let rendered = renderer.render(&[group]);
        // The renderer pads some lines; the padding is removed.
        rendered.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

/// A title without the names between backticks, and without numbers.
fn without_names(title: &str) -> String {
    title.split('`').step_by(2).flat_map(str::chars).filter(|c| !c.is_ascii_digit()).collect()
}

/// The span, widened to character boundaries of `text`.
fn inside(text: &str, span: &Range<usize>) -> Range<usize> {
    let start =
        (0..=span.start.min(text.len())).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
    let end = (span.end..text.len()).find(|n| text.is_char_boundary(*n)).unwrap_or(text.len());
    start..end.max(start)
}

impl fmt::Display for Diagnostics {
    /// As [`Diagnostics::render`] without colour.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}
impl std::error::Error for Diagnostics {}
