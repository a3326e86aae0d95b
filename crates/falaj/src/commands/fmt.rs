//! `falaj fmt`: formats scenario files in the standard layout, and replaces former names of keys.

use anyhow::{Context, Result, ensure};
use falaj_terminal::file;
use falaj_terminal::output::print;
use serde_json::{Value as Json, json};
use similar::TextDiff;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `fmt`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Scenario files; `-` alone reads standard input and writes standard output.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write nothing: print what would change, as a unified diff.
    #[arg(long)]
    check: bool,
    /// Replace the former names of keys as well, such as `need`, which is now `requires`.
    #[arg(long)]
    upgrade: bool,
    /// Print JSON: each file, and whether its layout changes or would change.
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let rules: String = falaj_scenario::RULES.iter().map(|rule| format!("  - {rule}\n")).collect();
    format!(
        "The layout:\n{rules}\n\
         Exit status: 0; 1 with --check if a file has another layout; 2 if a file cannot be read or\n\
         written, or is not TOML (it is left unchanged).\n\n\
         Examples:\n  falaj fmt examples/*.toml\n  falaj fmt --check examples/*.toml\n  falaj fmt --upgrade *.toml\n  falaj fmt - < uplink.toml"
    )
}

/// Result of formatting a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Formatting {
    Unchanged,
    Changed,
    /// An error, already reported.
    Failed,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if args.files.iter().any(|f| is_stdin(f)) {
        ensure!(
            args.files.len() == 1,
            "`-` stands alone: its text is printed, not written to a file"
        );
        ensure!(
            args.check || !args.json,
            "`-` prints the scenario: leave out `--json`, or add `--check`"
        );
    }
    let mut outcomes = Vec::new();
    for path in &args.files {
        let outcome = one(path, args).unwrap_or_else(|error| {
            if error.downcast_ref::<file::AlreadyReported>().is_none() {
                eprintln!("falaj: {error:#}");
            }
            Formatting::Failed
        });
        outcomes.push((path.display().to_string(), outcome));
    }
    if args.json {
        let file = |(name, outcome): &(String, Formatting)| -> Json {
            let changed = match outcome {
                Formatting::Unchanged => Some(false),
                Formatting::Changed => Some(true),
                Formatting::Failed => None,
            };
            json!({ "file": name, "changed": changed })
        };
        let all: Vec<Json> = outcomes.iter().map(file).collect();
        say!("{}", serde_json::to_string_pretty(&json!({ "check": args.check, "files": all }))?);
    }
    let any = |wanted: Formatting| outcomes.iter().any(|(_, outcome)| *outcome == wanted);
    Ok(match () {
        () if any(Formatting::Failed) => ExitCode::from(2),
        () if args.check && any(Formatting::Changed) => ExitCode::from(1),
        () => ExitCode::SUCCESS,
    })
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn one(path: &Path, args: &Args) -> Result<Formatting> {
    let stdin = is_stdin(path);
    let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
    let bytes = if stdin {
        falaj_scenario::bytes_from(std::io::stdin())
    } else {
        falaj_scenario::bytes_of(path)
    };
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    let text = falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?;
    let format = |text: &str| {
        falaj_scenario::format(text, &name).map_err(|errors| {
            file::tell(&errors);
            file::AlreadyReported
        })
    };
    let mut new = format(&text)?;
    if args.upgrade {
        new = format(&falaj_scenario::edit::upgrade(&new)?)?;
    }
    let outcome = if new == text { Formatting::Unchanged } else { Formatting::Changed };
    if args.check {
        if outcome == Formatting::Changed && !args.json {
            let diff = TextDiff::from_lines(&text, &new);
            print(&diff.unified_diff().header(&name, &format!("{name}, formatted")).to_string());
        }
    } else if stdin {
        if !new.is_empty() {
            print(&new);
        }
    } else if outcome == Formatting::Changed {
        replace(path, &new).with_context(|| format!("cannot write {name}"))?;
        if !args.json {
            say!("{name}");
        }
    }
    Ok(outcome)
}

/// Replaces the contents of the file with `text`: completely or, if an error occurs, not at all.
/// The file keeps its owner and mode; symbolic links to it stay valid.
fn replace(path: &Path, text: &str) -> Result<()> {
    let path = fs::canonicalize(path)?;
    let old = fs::metadata(&path)?;
    let directory = path.parent().context("it has no directory")?;
    let mut new = tempfile::Builder::new().prefix(".falaj-").tempfile_in(directory)?;
    new.write_all(text.as_bytes())?;
    let made = new.as_file().metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        chown(new.path(), Some(old.uid()), Some(old.gid())).context("its owner cannot be kept")?;
    }
    // After `chown`, which clears some mode bits.
    new.as_file().set_permissions(old.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    Ok(())
}
