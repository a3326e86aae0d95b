//! Converts configurations of other tools to scenarios.
//!
//! | module | input |
//! |---|---|
//! | `tc` | `tc qdisc`, `tc class` and `tc filter`, of Linux |
//! | `ipfw` | `ipfw`, `dnctl` and `pf`: pipes, queues, schedulers, rules and tables of dummynet |
//! | `netconfig` | PlanetLab's command for both directions |
//!
//! A command that changes the traffic becomes part of the scenario, is left out with a warning, or
//! is refused with a message that names the part without an equivalent in falaj. Nothing is left
//! out silently.
#![forbid(unsafe_code)]

mod amounts;
mod args;
mod draft;
mod first_match;
mod ipfw;
mod lines;
mod netconfig;
mod tc;
mod timeline;

use falaj_scenario::{Diagnostics, Problem, Severity};
pub use ipfw::{LastRule, ipfw};
pub use lines::needs_shell;
pub use netconfig::{Netconfig, netconfig};
pub use tc::{Host, tc};

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The scenario, as [`falaj_scenario::format()`] lays it out; [`falaj_scenario::parse`]
    /// accepts it.
    pub scenario: String,
    /// Warnings: parts whose meaning differs slightly, and why.
    pub notes: Diagnostics,
}

/// The scenario of a draft, or the errors if there are any.
fn finish(
    draft: &draft::Draft,
    file: &str,
    text: &str,
    problems: Vec<Problem>,
) -> Result<Imported, Diagnostics> {
    let notes = Diagnostics::new(file, text, problems);
    if notes.has_errors() {
        return Err(notes);
    }
    let scenario = falaj_scenario::format(&draft.to_string(), "the scenario")?;
    match falaj_scenario::parse(&scenario, "the scenario") {
        Ok(_) => Ok(Imported { scenario, notes }),
        Err(errors) => Err(Diagnostics::new(file, text, at_the_source(draft, &scenario, &errors))),
    }
}

fn has_errors(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

/// Maps errors in the scenario to the commands from which their tables were made.
fn at_the_source(draft: &draft::Draft, scenario: &str, errors: &Diagnostics) -> Vec<Problem> {
    let source = |problem: &&Problem| problem.severity == Severity::Error;
    let of = |problem: &Problem| {
        let headers = || scenario.lines().take(problem.line).filter(|line| line.starts_with('['));
        // Several tables may have the same header, as `[[rule]]`.
        let header = headers().last().unwrap_or("");
        let before = headers().filter(|line| *line == header).count().saturating_sub(1);
        let table = draft.tables.iter().filter(|table| table.header == header).nth(before);
        let at = table.map_or(0..0, |t| t.at.clone());
        problem
            .help
            .iter()
            .fold(Problem::error(at, problem.title.clone()), |p, help| p.help(help.clone()))
    };
    errors.problems().iter().filter(source).map(of).collect()
}
