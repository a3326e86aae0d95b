//! `falaj run`: a command behind an emulated link.

use crate::asked::Asked;
use crate::flags::Flags;
use crate::measure::{only_link, warn_of_spinning};
use crate::{file, show};
use anyhow::{Context, Result, bail};
use falaj_live::attach;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::forward::{Forwarder, Losses, Woken};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{End, Event, Exit, Sandbox, Side, Spec, UserNamespace};
use falaj_live::signals::Signals;
use falaj_scenario::Scenario;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `run` takes.
#[derive(clap::Args)]
#[command(after_help = "\
The command runs in a network namespace of its own (10.77.0.1, fd77::1); at the far end of the link
is another one (10.77.0.2, fd77::2), where --peer runs. No root is needed where user namespaces are
allowed. Both see FALAJ_SIDE, FALAJ_ADDR, FALAJ_PEER, FALAJ_ADDR6 and FALAJ_PEER6.

Exit status: the command's; 128 + the signal that killed it; 127 if there is no such command, 126 if
it cannot be executed; 2 if there can be no such link here.

Examples:
  falaj run --rate 10mbit --delay 40ms -- ping -c 3 10.77.0.2
  falaj run --rate 20mbit --up-rate 2mbit --delay 15ms --jitter 3ms --loss 0.5% -- curl -O …
  falaj run --rate 100mbit --peer 'iperf3 -s -1' -- sh -c 'sleep 0.2; iperf3 -c $FALAJ_PEER'
  falaj run examples/tenants.toml -- bash")]
pub(crate) struct Args {
    /// A scenario with one link; without it the flags say what the link is.
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// Runs at the far end, by `sh -c` and without input; ends with the command.
    #[arg(long, value_name = "COMMAND")]
    peer: Option<OsString>,
    /// Makes a user namespace even for root.
    #[arg(long)]
    user_namespace: bool,
    /// At the end, tells on standard error what the link did.
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    asked: Asked,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn scenario(args: &Args) -> Result<Scenario> {
    if let Some(path) = &args.file {
        return file::read(path);
    }
    args.flags.scenario()
}

/// The side of the far end's command. What is typed is for the near one alone.
fn peer(command: OsString) -> Result<Side> {
    let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
    Ok(Side { stdin: Some(nothing.into()), ..Side::command([OsString::from("sh"), "-c".into(), command]) })
}

pub(crate) fn main(args: Args) -> Result<ExitCode> {
    let scenario = scenario(&args)?;
    let link = &scenario.links[only_link(&scenario)?];
    args.asked.tell(&scenario);
    warn_of_spinning(link);
    let mtu = u16::try_from(link.up.mtu.max(link.down.mtu)).context("the mtu does not fit an interface")?;
    let mut sandbox = Sandbox::start(Spec {
        mtu,
        tso: attach::takes_large_units(link),
        user_namespace: if args.user_namespace { UserNamespace::Always } else { UserNamespace::Auto },
        near: Side { command: Some(args.command), ..Side::default() },
        far: args.peer.map(peer).transpose()?.unwrap_or_default(),
        ..Spec::default()
    })?;
    let mut signals = Signals::take()?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder = attach::to_sandbox(link, &mut sandbox, clock)?;
    priority::be_punctual(Rank::Link);
    sandbox.go(End::Far)?;
    sandbox.go(End::Near)?;
    let exit = forward(&mut forwarder, &mut sandbox, &mut signals)?;
    if args.stats {
        tell(&scenario, &forwarder, &sandbox);
    }
    Ok(ExitCode::from(u8::try_from(exit.shell_code()).unwrap_or(u8::MAX)))
}

/// Forwards until the command at the near end is done.
fn forward(forwarder: &mut Forwarder, sandbox: &mut Sandbox, signals: &mut Signals) -> Result<Exit> {
    let mut far_is_there = true;
    loop {
        let mut fds = vec![signals.as_fd(), sandbox.control_fd(End::Near)];
        if far_is_there {
            fds.push(sandbox.control_fd(End::Far));
        }
        let woken = forwarder.run(falaj_sched::time::Time::NEVER, &fds)?;
        match woken {
            Woken::Readable(0) => {
                while let Some(signal) = signals.next_sent()? {
                    sandbox.signal(End::Near, signal)?;
                }
            }
            Woken::Readable(1) => match sandbox.read_event(End::Near)? {
                Some(Event::Exited(exit)) => return Ok(exit),
                Some(Event::Closed) => bail!("the command's namespace was killed"),
                None => {}
            },
            // A peer that ends leaves its end of the link in place.
            Woken::Readable(_) => far_is_there = sandbox.read_event(End::Far)? != Some(Event::Closed),
            Woken::Deadline => {}
        }
    }
}

fn tell(scenario: &Scenario, forwarder: &Forwarder, sandbox: &Sandbox) {
    let link = &scenario.links[0];
    let mut rows = Vec::new();
    for (pipe, (way, direction)) in [("up", &link.up), ("down", &link.down)].into_iter().enumerate() {
        for (flow, measured) in direction.flows.iter().zip(&forwarder.flows()[pipe]) {
            let c = &measured.counters;
            rows.push(vec![
                format!("{way} {}", flow.name),
                c.offered.to_string(),
                c.delivered().to_string(),
                c.dropped().to_string(),
                c.lost.to_string(),
                show::span(measured.delay.quantile(0.5)),
                show::span(measured.delay.max()),
                show::span(measured.release_error.quantile(0.99)),
            ]);
        }
    }
    let header = ["flow", "offered", "delivered", "dropped", "lost", "queueing p50", "max", "release error p99"];
    eprintln!("{}", show::table(&header, rows));
    let unread = sandbox.unread();
    let losses = Losses { unread: unread.unwrap_or(0), ..forwarder.losses() };
    for (n, why) in losses.by_reason().into_iter().filter(|&(n, _)| n > 0) {
        eprintln!("{n} packets {why}");
    }
    if unread.is_none() {
        eprintln!("what was not read in time at the entrance is not known: /proc does not say");
    }
}
