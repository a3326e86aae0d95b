//! `falaj import`: converts configurations of other tools into scenarios.

mod sandbox;

use anyhow::{Context, Result, ensure};
use clap::{Subcommand, ValueEnum};
use falaj_import::{Host, Imported, LastRule, ipfw, tc};
use falaj_scenario::{Diagnostics, parse_rate};
use falaj_sched::units::rate::Rate;
use falaj_terminal::file;
use falaj_terminal::output::print;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `import`.
#[derive(clap::Args)]
#[command(after_help = "\
The scenario is printed to standard output, and differences from the configuration to standard
error. A line without an equivalent is refused with the reason, and no scenario is printed.

A script with parts that only a shell can expand, such as loops, runs in a sandbox without network,
where tc, ipfw, ip, sleep and similar programs only record their commands.

Exit status: 0; 2 if a line cannot be read or has no equivalent.

Examples:
  falaj import tc shape.sh > shape.toml
  echo 'tc qdisc add dev eth0 root netem delay 40ms loss 1%' | falaj import tc -
  falaj import tc --rate 1gbit classes.sh > classes.toml
  falaj import tc limit.sh -- eth0 10mbit > limit.toml
  falaj import ipfw dummynet.sh > pipes.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    from: From,
    /// Print JSON: the scenario, and the messages about the lines.
    #[arg(long, global = true)]
    json: bool,
    /// Refuse scripts that only a shell can expand; do not run them in the sandbox.
    #[arg(long, global = true)]
    no_run: bool,
}

#[derive(Subcommand)]
enum From {
    /// `tc qdisc`, `tc class` and `tc filter` of Linux: a link for each device.
    Tc {
        /// The script; `-`: standard input.
        file: PathBuf,
        /// Rate of the devices, if the script does not limit it.
        #[arg(long, value_name = "RATE", value_parser = parse_rate)]
        rate: Option<Rate>,
        /// The device that sends the packets of the first link's down direction.
        #[arg(long, value_name = "DEVICE")]
        down: Option<String>,
        /// Arguments of the script, which then runs in the sandbox.
        #[arg(last = true, value_name = "ARGUMENTS")]
        args: Vec<String>,
    },
    /// `ipfw`, `dnctl` and `pf` of FreeBSD and macOS: a link for each pipe of dummynet, and rules.
    #[command(visible_alias = "pf")]
    Ipfw {
        /// The script; `-`: standard input.
        file: PathBuf,
        /// Action for packets that match no rule [default: accept, unless the script sets
        /// `net.inet.ip.fw.default_to_accept`].
        #[arg(long, value_name = "ACTION")]
        default: Option<DefaultAction>,
        /// Arguments of the script, which then runs in the sandbox.
        #[arg(last = true, value_name = "ARGUMENTS")]
        args: Vec<String>,
    },
}

/// ipfw's implicit last rule.
#[derive(Clone, Copy, ValueEnum)]
enum DefaultAction {
    /// Such packets pass, as on macOS, OPNsense and pfSense.
    Accept,
    /// Such packets are dropped, as by FreeBSD's kernel.
    Deny,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let made = match &args.from {
        From::Tc { file, rate, down, args: of_script } => {
            let host = Host { rate: *rate, down: down.clone() };
            Script::read(file, of_script, args.no_run)?.import(|text, name| tc(text, name, &host))
        }
        From::Ipfw { file, default, args: of_script } => {
            let last = default.map(|fate| match fate {
                DefaultAction::Accept => LastRule::Accept,
                DefaultAction::Deny => LastRule::Deny,
            });
            Script::read(file, of_script, args.no_run)?.import(|text, name| ipfw(text, name, last))
        }
    }?;
    if args.json {
        let problems = |d: &Diagnostics| -> Vec<_> {
            d.problems().iter().map(|p| crate::commands::check::to_json(d.file_name(), p)).collect()
        };
        let said = match &made {
            Ok(imported) => {
                json!({ "scenario": imported.scenario, "problems": problems(&imported.notes) })
            }
            Err(errors) => json!({ "scenario": null, "problems": problems(errors) }),
        };
        say!("{}", serde_json::to_string_pretty(&said)?);
        return Ok(ExitCode::from(if made.is_ok() { 0 } else { 2 }));
    }
    match made {
        Ok(Imported { scenario, notes }) => {
            file::tell(&notes);
            print(&scenario);
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            file::tell(&errors);
            Ok(ExitCode::from(2))
        }
    }
}

/// A script to be imported.
struct Script<'a> {
    text: String,
    /// Its name in messages.
    name: String,
    args: &'a [String],
    may_run: bool,
}

impl Script<'_> {
    /// Reads a file or standard input.
    fn read<'a>(path: &Path, args: &'a [String], no_run: bool) -> Result<Script<'a>> {
        let (bytes, name) = if path == Path::new("-") {
            (falaj_scenario::bytes_from(std::io::stdin()), "standard input".to_owned())
        } else {
            (falaj_scenario::bytes_of(path), path.display().to_string())
        };
        let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
        let text = falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?;
        ensure!(args.is_empty() || !no_run, "a script takes arguments if it runs: omit `--no-run`");
        Ok(Script { text, name, args, may_run: !no_run })
    }

    /// Without arguments, imports the text directly. With arguments, or if only a shell can expand
    /// the text and the script may run, runs the script in the sandbox and imports the commands
    /// that it executed.
    fn import(
        self,
        import: impl Fn(&str, &str) -> Result<Imported, Diagnostics>,
    ) -> Result<Result<Imported, Diagnostics>> {
        if self.args.is_empty() {
            match import(&self.text, &self.name) {
                Err(errors) if self.may_run && falaj_import::needs_shell(&errors) => {}
                made => return Ok(made),
            }
        }
        let name = &self.name;
        let ran = sandbox::run(&self.text, self.args)
            .with_context(|| format!("cannot read {name} without a shell"))?;
        note!("{name} ran in a sandbox; lines below are those of the commands that it ran");
        if ran.is_endless {
            note!("{name} does not end: its first {} pauses are imported", sandbox::PAUSES);
        }
        if let Some((status, message)) = ran.failed {
            note!("{name} ended with status {status}: {message}");
        }
        let made = import(&ran.commands, &format!("{name}, as it ran"));
        if made.is_err() && self.args.is_empty() && uses_arguments(&self.text) {
            note!("{name} uses arguments of a command line: give them after `--`");
        }
        Ok(made)
    }
}

/// Returns true if a script, or a function in it, refers to arguments: `$1`, `${2}`, `$@`.
fn uses_arguments(script: &str) -> bool {
    let is_argument =
        |rest: &str| rest.trim_start_matches('{').starts_with(|c: char| "123456789@*#".contains(c));
    script.split('$').skip(1).any(is_argument)
}
