//! `falaj explain` and `falaj schema`: the scenario file's keys.

use crate::show::{print, say};
use anyhow::{Result, bail};
use falaj_scenario::reference;
use std::process::ExitCode;

/// What `explain` takes.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0; 2 if there is no such key.

Examples:
  falaj explain                  all keys and disciplines, a line for each
  falaj explain link.delay
  falaj explain virtual-links")]
pub(crate) struct Args {
    /// A key, `delay` or `flow.phase`, or a discipline; without it all are listed.
    key: Option<String>,
    /// Prints the reference page, Markdown.
    #[arg(long, hide = true, conflicts_with = "key")]
    reference: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let text = match &args.key {
        _ if args.reference => reference::markdown(),
        None => reference::list(),
        Some(key) => match reference::explain(key) {
            Ok(text) => text,
            Err(unknown) => bail!("{unknown}\n`falaj explain` lists all"),
        },
    };
    print(&text);
    Ok(ExitCode::SUCCESS)
}

/// What `schema` takes.
#[derive(clap::Args)]
#[command(after_help = "\
An editor with a TOML language server completes and checks keys, if the file begins with
  #:schema ./falaj.schema.json

Example:
  falaj schema > falaj.schema.json")]
pub(crate) struct SchemaArgs {}

/// `falaj schema`.
pub(crate) fn schema(_: &SchemaArgs) -> Result<ExitCode> {
    say!("{}", serde_json::to_string_pretty(&reference::schema())?);
    Ok(ExitCode::SUCCESS)
}
