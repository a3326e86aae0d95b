//! `falaj import`: converts configurations of other tools into scenarios.

use anyhow::{Context, Result};
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

Exit status: 0; 2 if a line cannot be read or has no equivalent.

Examples:
  falaj import tc shape.sh > shape.toml
  echo 'tc qdisc add dev eth0 root netem delay 40ms loss 1%' | falaj import tc -
  falaj import tc --rate 1gbit classes.sh > classes.toml
  falaj import ipfw dummynet.sh > pipes.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    from: From,
    /// Print JSON: the scenario, and the messages about the lines.
    #[arg(long, global = true)]
    json: bool,
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
    },
    /// `ipfw`, `dnctl` and `pf` of FreeBSD and macOS: a link for each pipe of dummynet, and rules.
    #[command(visible_alias = "pf")]
    Ipfw {
        /// The script; `-`: standard input.
        file: PathBuf,
        /// Action for packets that match no rule [default: accept, unless the script sets
        /// `net.inet.ip.fw.default_to_accept`].
        #[arg(long, value_name = "FATE")]
        default: Option<Fate>,
    },
}

/// ipfw's implicit last rule.
#[derive(Clone, Copy, ValueEnum)]
enum Fate {
    /// They pass, as on macOS, OPNsense and pfSense.
    Accept,
    /// They are dropped, as by FreeBSD's kernel.
    Deny,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let made = match &args.from {
        From::Tc { file, rate, down } => {
            let (text, name) = read(file)?;
            tc(&text, &name, &Host { rate: *rate, down: down.clone() })
        }
        From::Ipfw { file, default } => {
            let (text, name) = read(file)?;
            let last = default.map(|fate| match fate {
                Fate::Accept => LastRule::Accept,
                Fate::Deny => LastRule::Deny,
            });
            ipfw(&text, &name, last)
        }
    };
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

/// Reads the text of a file or of standard input, and its name for messages.
fn read(path: &Path) -> Result<(String, String)> {
    if path == Path::new("-") {
        let bytes = falaj_scenario::bytes_from(std::io::stdin());
        let bytes = bytes.context("cannot read standard input")?;
        let name = "standard input".to_owned();
        return Ok((falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?, name));
    }
    let name = path.display().to_string();
    let bytes = falaj_scenario::bytes_of(path).with_context(|| format!("cannot read {name}"))?;
    Ok((falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?, name))
}
