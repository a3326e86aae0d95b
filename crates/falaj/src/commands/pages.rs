//! `falaj completions` and `falaj man`: generated from the description of the command line.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use falaj_terminal::output;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `completions`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  falaj completions bash > ~/.local/share/bash-completion/completions/falaj
  falaj completions fish > ~/.config/fish/completions/falaj.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the completions for a shell.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut command, "falaj", &mut out);
    output::print(&String::from_utf8(out)?);
    Ok(ExitCode::SUCCESS)
}

/// Arguments of `man`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  falaj man | man -l -
  falaj man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write falaj.1 and a page for each command to this directory; without it, print falaj.1.
    directory: Option<PathBuf>,
    /// Print the reference page as Markdown.
    #[arg(long, hide = true, conflicts_with = "directory")]
    reference: bool,
}

/// Prints or writes the manual pages.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<ExitCode> {
    match &args.directory {
        _ if args.reference => output::print(&reference(command)),
        Some(directory) => {
            let written = std::fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(command, directory));
            written
                .with_context(|| format!("cannot write the pages to {}", directory.display()))?;
        }
        None => {
            let mut out = Vec::new();
            clap_mangen::Man::new(command).render(&mut out)?;
            output::print(&String::from_utf8(out)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the reference page `docs/reference/cli.md`: every command with its help.
fn reference(command: Command) -> String {
    let mut out = String::from(
        "# The command line\n\n\
         <!-- Made by `falaj man --reference`; a test fails where it is not up to date. -->\n\n\
         The help of each command. `falaj man DIRECTORY` writes it as manual pages.\n",
    );
    // The same width as the hand-written pages.
    let mut command = command.disable_help_subcommand(true).term_width(100);
    command.build();
    page(&mut out, &mut command);
    out
}

/// Appends a command's help, then that of its subcommands.
fn page(out: &mut String, command: &mut Command) {
    let depth = command.get_bin_name().unwrap_or_default().split(' ').count();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Help may or may not end with an empty line, depending on `after_help`.
    out.push_str(&format!(
        "\n{} `{name}`\n\n```text\n{}\n```\n",
        "#".repeat(depth + 1),
        help.join("\n").trim_end()
    ));
    for below in command.get_subcommands_mut().filter(|c| !c.is_hide_set()) {
        page(out, below);
    }
}
