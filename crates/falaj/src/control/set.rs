//! `falaj set`: values of a link that is running.

use super::client::Which;
use crate::show::{note, say};
use anyhow::{Result, bail};
use std::process::ExitCode;

/// What `set` takes.
#[derive(clap::Args)]
#[command(after_help = "\
Keys and values are those of the scenario file, with its units and its messages: NAME is a link, one of
its directions (link.up) or a flow, and `falaj explain` knows all keys. Without a file the link is called
`link`. KEY= takes a key out, or a flow. All is changed at one instant, or nothing is.

No packet is lost by a change unless --drop allows it. A packet on the wire ends when it was to end, and
what has left its queue arrives when it was to arrive, whatever the delay is now.

Examples:
  falaj set link rate=5mbit delay=80ms loss=1%
  falaj set link.up jitter=5ms
  falaj set voice weight=3
  falaj set link flow.video.match='udp dport 5004' flow.video.weight=4 'scheduler={ kind = \"drr\" }'
  falaj set link flow.video=
  falaj set link loss= --json")]
pub(crate) struct Args {
    /// A link, a direction of it, or a flow.
    name: String,
    /// What is to be otherwise.
    #[arg(value_name = "KEY=VALUE", required = true)]
    sets: Vec<String>,
    /// Packets that wait and do not fit any more may be dropped: of flows that go, beyond a new limit, too large.
    #[arg(long)]
    drop: bool,
    /// Only says whether that could be.
    #[arg(long)]
    check: bool,
    /// Says what was changed, and when, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(odd) = args.sets.iter().find(|set| !set.contains('=')) {
        bail!("`{odd}`: there is no `=`; write a key and its value, as in `rate=5mbit`");
    }
    let sets: Vec<String> = args.sets.iter().map(|set| format!("{}.{set}", args.name)).collect();
    let made = args.which.connect()?.set(&sets, args.drop, args.check)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&made)?);
    } else if made.changed.is_empty() {
        note!("nothing is otherwise than it was");
    }
    if made.dropped > 0 {
        note!("{} packets that waited were dropped", made.dropped);
    }
    Ok(ExitCode::SUCCESS)
}
