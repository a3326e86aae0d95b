//! `falaj set`: changes values of a running link.

use anyhow::{Result, bail};
use falaj_control::client::LinkSelection;
use falaj_control::protocol::SetRequest;
use falaj_terminal::file;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `set`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys and values are those of the scenario file, with its units and messages: NAME is a link, one of
its directions (link.up), a flow or a rule (rule.web); `falaj explain` lists all keys. Without a
file the link is called `link`. KEY= removes a key, a flow, a link or a rule. To change several of
them at once, omit NAME and write each key in full, or give the whole new scenario by --file. All
changes take effect at one instant, or none does. A flow named without a direction is changed in
both directions. New flows and rules are matched before the others, in their order. The first rule
adds another one, `rest`, by which all other packets keep their route.

A change loses no packet unless --drop allows it. The rest of a packet on the wire is sent at the
new rate, and packets that have left the wire arrive as scheduled, whatever the new delay.

Examples, one after the other on `falaj run --rate 20mbit --delay 5ms -- bash`:
  falaj set link rate=5mbit delay=80ms loss=1%
  falaj set link.up jitter=5ms
  falaj set link 'scheduler={ kind = \"wf2q+\" }' flow.video.match=udp flow.video.weight=4
  falaj set video weight=3
  falaj set link flow.video=
  falaj set link.slow.rate=1mbit rule.web.match='tcp dport 443' rule.web.to=slow
  falaj set rule.web= link.slow=
  falaj set link loss= --json
  falaj show --toml > new.toml
  falaj set --file new.toml")]
pub(crate) struct Args {
    /// A link, one of its directions, a flow or a rule; without it, keys are given in full.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Values to change.
    #[arg(value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Apply this whole scenario: links, flows and rules missing in it are removed, new ones are
    /// added.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Allow the change to drop queued packets that no longer fit: of removed links and flows,
    /// above a new limit, or too large.
    #[arg(long)]
    drop: bool,
    /// Only check whether the change is possible.
    #[arg(long)]
    check: bool,
    /// Print the changes and their time as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: LinkSelection,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let (mut toml, mut file) = (None, None);
    if let Some(path) = &args.file {
        let (name, text) = file::text(path)?;
        // Errors in a file are reported with their position.
        file::parse_quietly(&text, &name)?;
        (toml, file) = (Some(text), Some(std::path::absolute(path)?));
    }
    let sets: Vec<String> = match &args.name {
        Some(name) if !name.contains('=') => {
            args.sets.iter().map(|set| format!("{name}.{set}")).collect()
        }
        name => name.iter().chain(&args.sets).cloned().collect(),
    };
    if let Some(odd) = args.sets.iter().find(|set| !set.contains('=')) {
        bail!("`{odd}`: there is no `=`; write a key and its value, as in `rate=5mbit`");
    }
    if let (true, Some(name)) = (sets.is_empty(), &args.name) {
        bail!(
            "`{name}`: there is nothing to set; write a key and its value, as in `{name} rate=5mbit`"
        );
    }
    let change = SetRequest { toml, file, set: sets, drop: args.drop, check: args.check };
    let made = args.which.connect()?.set(&change)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&made)?);
    } else if made.changed.is_empty() {
        note!("no value was different: nothing was changed");
    }
    if made.dropped > 0 {
        note!("{} packets that waited were dropped", made.dropped);
    }
    Ok(ExitCode::SUCCESS)
}
