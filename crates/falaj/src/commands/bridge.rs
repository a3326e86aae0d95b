//! `falaj bridge`: an emulated link between two interfaces that are there, guests' cards, shared
//! memory of other programs, or queues of the firewall.

use crate::cli::link::LinkArgs;
use anyhow::{Context, Result, bail};
use falaj_control::batching::by_timeout;
use falaj_control::endpoint::{Control, ControlArgs};
use falaj_control::host_limits;
use falaj_control::live_links::{
    live_links, no_adapters, warn_of_overflow, warn_of_sharing, warn_of_spinning,
};
use falaj_control::pacing::PacingArgs;
use falaj_control::recording::Recording;
use falaj_control::running::Running;
use falaj_control::summary::{FailIf, JsonFile, of_forwarder};
use falaj_engine::batch::BatchPolicy;
use falaj_live::backend::{BACKENDS, Backend, EndName, InterfaceState, Monitor, OpenOptions};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::Woken;
use falaj_live::priority::{self, Rank};
use falaj_live::signals::Signals;
use falaj_live::wiring;
use falaj_scenario::Link;
use falaj_scenario::keys::{MTU_MAX, MTU_MIN};
use falaj_sched::units::time::Time;
use falaj_terminal::effective_config::EffectiveConfig;
use falaj_terminal::standard_error;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  falaj bridge eth1 eth2 --rate 10mbit --delay 40ms
  falaj bridge veth0 eth0@4711 --delay 20ms --stats
  falaj bridge eth1@blue eth1@green examples/tenants.toml
  falaj bridge eth1 eth2 --via xdp --rate 1gbit";

/// Help that follows all options: what ends there are, and an example of each.
fn after_all_help() -> String {
    let told = BACKENDS.iter().filter(|backend| !backend.help.is_empty());
    let (helps, examples): (Vec<String>, Vec<String>) = told
        .map(|backend| {
            (format!("{}\n\n", backend.help), format!("\n  falaj bridge {}", backend.example))
        })
        .unzip();
    format!(
        "\
An interface is a name, or NAME@NETNS for one in another network namespace: a name under /run/netns or
the number of a process there, such as a container's first. Up is from the first to the second.
Packet sockets take CAP_NET_RAW, other namespaces root as well, unless they are your own. AF_XDP is
cheaper for small packets, takes root, and frames are the link's alone; where it is not to be had,
packet sockets take its place, and a message says why.

{}\
Ctrl-C or SIGTERM ends it, with exit status 0. The interfaces are promiscuous until then; nothing else
about them is changed. One that goes down or vanishes is told of, and taken again when it is back.

{EXAMPLES}{}",
        helps.concat(),
        examples.concat()
    )
}

/// Help for the name of an end.
fn end_help(end: &str) -> String {
    let forms: Vec<&str> =
        BACKENDS.iter().filter(|b| !b.scheme.is_empty()).map(|b| b.form).collect();
    let (last, others) = forms.split_last().expect("there are backends with names of their own");
    format!("The interface at the {end} end, {}, or {last}", others.join(", "))
}

/// What `bridge` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = after_all_help())]
pub(crate) struct Args {
    #[arg(value_name = "IF_A[@NETNS]", help = end_help("near"))]
    a: EndName,
    #[arg(value_name = "IF_B[@NETNS]", help = end_help("far"))]
    b: EndName,
    /// How the interfaces are read and written.
    #[arg(long, value_enum, default_value_t = Via::Packet, value_name = "WAY")]
    via: Via,
    /// Of memif: packets go to another falaj in containers of so many, which leave after that time
    /// at the latest.
    #[arg(long, value_name = "PACKETS,TIME", value_parser = by_timeout)]
    aggregate: Option<BatchPolicy>,
    /// Of queues: what finds no room, and what is in them at the end, goes on instead of being
    /// dropped.
    #[arg(long)]
    fail_open: bool,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    pace: PacingArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    recording: Recording,
    /// At the end, tells on standard error what the link did.
    #[arg(long, help_heading = "Results and control")]
    stats: bool,
    #[command(flatten)]
    json: JsonFile,
    #[command(flatten)]
    fail_if: FailIf,
    #[command(flatten)]
    asked: EffectiveConfig,
}

/// Ways to read and write an interface.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    /// Packet sockets: units of many packets and unfinished checksums pass as they are.
    Packet,
    /// AF_XDP sockets: root alone; one packet at a time. VLAN tags that a driver takes out are
    /// lost.
    Xdp,
}

/// An end of the link.
struct End<'a> {
    name: &'a EndName,
    interface: Box<dyn Backend>,
    monitor: Monitor,
    /// Another name that its interface was said to have.
    renamed: RefCell<Option<String>>,
}

impl<'a> End<'a> {
    fn open(name: &'a EndName, via: Via, args: &Args) -> Result<End<'a>> {
        let options = OpenOptions {
            xdp: via == Via::Xdp,
            batches: args.aggregate,
            fail_open: args.fail_open,
        };
        let (interface, monitor) = name.open(&options).with_context(|| name.to_string())?;
        Ok(End { name, interface, monitor, renamed: RefCell::default() })
    }

    /// Both, by AF_XDP only if both can be had so.
    fn both(args: &'a Args) -> Result<[End<'a>; 2]> {
        let Args { a, b, via, .. } = args;
        let end = |name, via| End::open(name, via, args);
        let open = |via| {
            // Another network namespace is entered by a process with one thread.
            if a.entry().starts_threads {
                let [b, a] = [end(b, via)?, end(a, via)?];
                return Ok([a, b]);
            }
            Ok([end(a, via)?, end(b, via)?])
        };
        open(*via).or_else(|error: anyhow::Error| {
            if *via == Via::Packet {
                return Err(error);
            }
            note!("{error:#}: packet sockets instead");
            open(Via::Packet)
        })
    }

    /// Tells of the interface if it is otherwise than it was.
    fn look(&self) {
        if let Some(why) = self.interface.why() {
            note!("{}: {why}", self.name);
        }
        match self.interface.look() {
            Some(InterfaceState::Up) => note!("{} is up: forwarding", self.name),
            Some(state) => note!("{} {state}: waiting for it", self.name),
            None => {}
        }
        let renamed = self.interface.renamed();
        if self.renamed.replace(renamed.clone()) != renamed
            && let Some(name) = renamed
        {
            note!("the interface {} is called {name} now, and stays an end", self.name);
        }
    }
}

/// An mtu where nobody says another one: of cards that do not say.
const MTU: u32 = 1500;

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    args.recording.take_standard_output()?;
    if args.a == args.b {
        bail!("{} is one interface: a link has two ends", args.a);
    }
    let ends = [&args.a, &args.b];
    if args.via == Via::Xdp && ends.iter().any(|name| name.interface().is_none()) {
        bail!("--via xdp is for two interfaces: leave it out");
    }
    let queues = ends.iter().filter(|name| name.entry().returns_packets).count();
    if queues == 1 {
        bail!(
            "packets of a queue go on by their own way and reach no other end: give two queues, one for each direction"
        );
    }
    if args.fail_open && queues == 0 {
        bail!("--fail-open is for queues of the firewall: nfqueue:N");
    }
    if args.aggregate.is_some() && !ends.iter().any(|name| name.entry().takes_batches) {
        bail!("--aggregate is for shared memory: memif:PATH");
    }
    let ends = End::both(args)?;
    let [a, b] = &ends;
    if let (Some(first), Some(second)) = (args.a.interface(), args.b.interface())
        && first.namespace == second.namespace
        && a.interface.index() == b.interface.index()
    {
        bail!("{} is one interface: a link has two ends", args.a);
    }
    let mtus = [a.interface.mtu()?, b.interface.mtu()?];
    let (scenario, text) =
        args.link.scenario(mtus[0].max(mtus[1]).unwrap_or(MTU).clamp(MTU_MIN, MTU_MAX))?;
    let links = live_links(&scenario)?;
    no_adapters(&scenario)?;
    args.fail_if.check(links)?;
    args.asked.tell(&scenario);
    links.iter().for_each(warn_of_spinning);
    host_limits::warn(links);
    warn_of_mtu(links, &ends, mtus);

    let place = args.control.place()?;
    let signals = Signals::take()?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder = wiring::to_ends(
        &scenario.network(),
        [&*a.interface, &*b.interface],
        clock,
        args.pace.options(),
    )?;
    args.recording.begin(&mut forwarder, &text)?;
    let about = format!("{} {}", args.a, args.b);
    let recording = args.recording.is_wanted();
    let running = Running {
        command: "bridge",
        about,
        file: args.link.name(),
        scenario: Arc::new(scenario.clone()),
        text,
        recording,
        standings: None,
    };
    let mut control = Control::open(place.as_deref(), running)?;
    standard_error::detach()?;
    priority::be_punctual(Rank::Link);
    forwarder.tell_of_overflow();
    note!("forwarding between {} and {}; Ctrl-C ends it", args.a, args.b);
    for end in ends.iter().filter(|end| end.interface.loses_tags()) {
        note!(
            "warning: the driver of {} takes VLAN tags out of frames, and AF_XDP does not see them: ethtool -K … rxvlan off",
            end.name
        );
    }
    loop {
        let others = [signals.as_fd(), a.monitor.as_fd(), b.monitor.as_fd()];
        let others: Vec<BorrowedFd<'_>> = others.into_iter().chain(control.as_fd()).collect();
        match forwarder.run(Time::NEVER, &others)? {
            Woken::Readable(0) => break,
            Woken::Readable(i @ (1 | 2)) => {
                ends[i - 1].monitor.clear();
                ends[i - 1].look();
            }
            Woken::Readable(_) => {
                control.serve(&mut forwarder)?;
            }
            Woken::Overflow(pipe, flow) => warn_of_overflow(control.links(), pipe, flow),
            Woken::Shared(pipe, flow) => warn_of_sharing(control.links(), pipe, flow),
            Woken::Deadline => {}
        }
    }
    let captured = args.recording.end(&mut forwarder);
    let unread = ends.iter().map(|end| end.interface.unread()).sum();
    let summary = of_forwarder(control.scenario(), &forwarder, Some(unread));
    if args.stats {
        summary.tell();
    }
    args.json.write(&summary)?;
    Ok(args.fail_if.judge(&summary)?.unwrap_or(captured))
}

/// What an interface sends may be more than the link takes.
fn warn_of_mtu(links: &[Link], ends: &[End<'_>], mtus: [Option<u32>; 2]) {
    let least = |mtu: fn(&Link) -> u32| links.iter().map(mtu).min().unwrap_or(MTU_MAX);
    for ((end, mtu), takes) in
        ends.iter().zip(mtus).zip([least(|link| link.up.mtu), least(|link| link.down.mtu)])
    {
        if let Some(mtu) = mtu.filter(|&mtu| mtu > takes) {
            note!(
                "warning: {} has an mtu of {mtu} B and the link one of {takes} B; what is longer is dropped",
                end.name
            );
        }
    }
}
