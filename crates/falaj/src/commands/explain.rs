//! `falaj explain` and `falaj schema`: the scenario file's keys.

use anyhow::{Result, bail};
use falaj_scenario::reference;
use falaj_terminal::output::print;
use std::process::ExitCode;

/// Arguments of `explain`.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0; 2 if there is no such key, discipline or word.

Examples:
  falaj explain                  all keys and disciplines, a line for each
  falaj explain link.delay
  falaj explain virtual-links
  falaj explain packet loss")]
pub(crate) struct Args {
    /// A key such as `delay` or `flow.phase`, a discipline, or a word of the field such as
    /// `bufferbloat`; without it, all keys and disciplines are listed.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Print a page of the reference as Markdown.
    #[arg(
        long,
        hide = true,
        conflicts_with = "words",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "scenario"
    )]
    reference: Option<Page>,
}

/// Pages of the reference that are made from the keys.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Page {
    Scenario,
    Disciplines,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let text = match (args.reference, args.words.as_slice()) {
        (Some(Page::Scenario), _) => reference::markdown(),
        (Some(Page::Disciplines), _) => reference::disciplines(),
        (None, []) => reference::list(),
        (None, words) => match reference::explain(&words.join(" ")) {
            Ok(text) => text,
            Err(unknown) => bail!("{unknown}\n`falaj explain` lists all"),
        },
    };
    print(&text);
    Ok(ExitCode::SUCCESS)
}

/// Arguments of `schema`.
#[derive(clap::Args)]
#[command(after_help = "\
An editor with a TOML language server completes and checks keys, if the file begins with
  #:schema ./falaj.schema.json

Example:
  falaj schema > falaj.schema.json")]
pub(crate) struct SchemaArgs {}

/// Prints the JSON Schema of the scenario file.
pub(crate) fn schema(_: &SchemaArgs) -> Result<ExitCode> {
    say!("{}", serde_json::to_string_pretty(&reference::schema())?);
    Ok(ExitCode::SUCCESS)
}
