//! `falaj completions` and `falaj man`: made from the command line's own description.

use crate::show;
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `completions` takes.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  falaj completions bash > ~/.local/share/bash-completion/completions/falaj
  falaj completions fish > ~/.config/fish/completions/falaj.fish")]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    shell: Shell,
}

/// `falaj completions`.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut command, "falaj", &mut out);
    show::print(&String::from_utf8(out)?);
    Ok(ExitCode::SUCCESS)
}

/// What `man` takes.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  falaj man | man -l -
  falaj man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Writes falaj.1 and a page for each command there; without it falaj.1 is printed.
    directory: Option<PathBuf>,
}

/// `falaj man`.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<ExitCode> {
    match &args.directory {
        Some(directory) => {
            let written =
                std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
            written.with_context(|| format!("cannot write the pages to {}", directory.display()))?;
        }
        None => {
            let mut out = Vec::new();
            clap_mangen::Man::new(command).render(&mut out)?;
            show::print(&String::from_utf8(out)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}
