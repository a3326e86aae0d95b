//! `falaj aggregate`: packets in containers from one process to another.

mod bench;
mod consumer;
mod formula;
mod producer;

use anyhow::{Context, Result};
use clap::Subcommand;
use falaj_engine::container::Policy;
use falaj_live::aggregate::{Guest, serve};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{End, Sandbox};
use falaj_scenario::parse_span;
use falaj_sched::time::Span;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode};
use std::str::FromStr;

/// What `aggregate` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Packets a second, processor time and delay: one by one, in containers, with containers that leave when the
    /// reader is idle.
    Bench(bench::Args),
    /// The other process: takes its side of the rings from standard input.
    #[command(hide = true)]
    Consumer(consumer::Args),
    /// The far end of `run --aggregate`: takes its side of the rings and its interface from standard input.
    #[command(hide = true)]
    Guest {
        #[arg(value_parser = policy)]
        policy: Policy,
    },
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Bench(args) => bench::main(args),
        What::Consumer(args) => consumer::main(args),
        What::Guest { policy } => {
            priority::be_punctual(Rank::Receiver);
            serve(io::stdin().as_fd().try_clone_to_owned()?, *policy)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How packets cross, as it is asked for: `62,200us`, `62,idle`.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    text: String,
    policy: Policy,
}

/// A container's largest length where nobody says one.
const LONGEST: u32 = 1 << 16;

impl FromStr for Asked {
    type Err = String;
    fn from_str(text: &str) -> Result<Asked, String> {
        Ok(Asked { text: text.to_owned(), policy: policy(text)? })
    }
}

impl Asked {
    /// Starts the far end's process and gives it the interface there.
    pub(crate) fn start(&self, sandbox: &mut Sandbox) -> Result<(Guest, Child)> {
        let no_tap = "--aggregate needs TAP interfaces, and there are none here; see `falaj doctor`";
        let tap = sandbox.take_tap(End::Far).context(no_tap)?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["aggregate", "guest", &self.text]);
        Guest::start(command, &tap, self.policy).context("cannot start the far end's process")
    }
}

fn policy(text: &str) -> Result<Policy, String> {
    const HOW: &str =
        "packets of a full container, then when else it leaves: 62,200us or 62,idle, or both: 62,200us,idle";
    let mut words = text.split(',').map(str::trim);
    let packets = words.next().and_then(|word| word.parse::<u32>().ok()).ok_or(HOW)?;
    let mut policy = Policy { packets, bytes: LONGEST, timeout: Span::MAX, when_idle: false };
    for word in words {
        match word {
            "idle" if !policy.when_idle => policy.when_idle = true,
            _ if policy.timeout == Span::MAX => policy.timeout = parse_span(word).map_err(|e| format!("{e}; {HOW}"))?,
            _ => return Err(HOW.into()),
        }
    }
    policy.check().map_err(|nonsense| format!("{nonsense}; {HOW}"))
}

/// What a crossing is declared to cost on the reader's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of each container.
    pub(crate) container: Span,
    /// Of each packet in it.
    pub(crate) packet: Span,
}

impl Cost {
    /// Of a container with so many packets.
    fn of(self, packets: u32) -> Span {
        self.container + self.packet * u64::from(packets)
    }
}

/// `11.4us,1.07us`.
fn cost(text: &str) -> Result<Cost, String> {
    let both =
        text.split_once(',').ok_or("two times with a comma between: of a container, of a packet: 11.4us,1.07us")?;
    let span = |text: &str| parse_span(text).map_err(|error| error.to_string());
    Ok(Cost { container: span(both.0)?, packet: span(both.1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_in_words() {
        let of = |packets, timeout, when_idle| Policy { packets, bytes: LONGEST, timeout, when_idle };
        assert_eq!(policy("62,200us"), Ok(of(62, Span::from_micros(200), false)));
        assert_eq!(policy("62, idle"), Ok(of(62, Span::MAX, true)));
        assert_eq!(policy("8,1ms,idle"), Ok(of(8, Span::from_millis(1), true)));
        assert_eq!(policy("1"), Ok(of(1, Span::MAX, false)));
        for wrong in ["", "0,200us", "62", "62,200", "62,idle,idle", "62,1ms,2ms", "-1,1ms", "x,1ms"] {
            assert!(policy(wrong).is_err(), "{wrong}");
        }
    }
}
