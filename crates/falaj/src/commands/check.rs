//! `falaj check`: reports errors and warnings in scenario files.

use anyhow::Result;
use falaj_scenario::{Diagnostics, Problem, Severity};
use falaj_terminal::file;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `check`.
#[derive(clap::Args)]
#[command(after_help = "\
A library that a file names as its discipline is loaded, as by every command that reads the file.

Exit status: 0 every file is valid, possibly with warnings; 2 one is not.

Example:
  falaj check examples/*.toml")]
pub(crate) struct Args {
    /// Scenario files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON: each problem with its file, line, column, severity, title and help.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let mut good = true;
    let mut problems = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let text = falaj_scenario::bytes_of(path)
            .map_err(|error| format!("cannot read the scenario {name}: {error}"));
        let diagnostics = match text.and_then(|bytes| falaj_scenario::text_of(bytes, &name)) {
            Ok(text) => match falaj_scenario::parse(&text, &name) {
                Ok((_, warnings)) => warnings,
                Err(errors) => errors,
            },
            Err(title) => {
                good = false;
                if args.json {
                    problems.push(
                        json!({ "file": name, "severity": "error", "title": title, "help": [] }),
                    );
                } else {
                    eprintln!("falaj: {title}");
                }
                continue;
            }
        };
        good &= !diagnostics.has_errors();
        if args.json {
            problems.extend(diagnostics.problems().iter().map(|p| to_json(&name, p)));
        } else {
            file::tell(&diagnostics);
            say!("{name}: {}", summary(&diagnostics));
        }
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&json!({ "good": good, "problems": problems }))?);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Returns the counts of errors and warnings in words, as in `no errors, 1 warning`.
fn summary(diagnostics: &Diagnostics) -> String {
    let count = |s: Severity| diagnostics.problems().iter().filter(|p| p.severity == s).count();
    let words = |n: usize, what: &str| match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    match (count(Severity::Error), count(Severity::Warning)) {
        (errors, 0) => words(errors, "error"),
        (errors, warnings) => format!("{}, {}", words(errors, "error"), words(warnings, "warning")),
    }
}

pub(crate) fn to_json(file: &str, problem: &Problem) -> Json {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    json!({
        "file": file, "line": problem.line, "column": problem.column, "severity": severity,
        "title": problem.title, "label": problem.label, "help": problem.help,
    })
}
