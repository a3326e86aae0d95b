//! `falaj bridge`: an emulated link between two interfaces that are there.

use crate::asked::Asked;
use crate::control::{Control, ControlArgs, Running};
use crate::link::LinkArgs;
use crate::measure::{live_links, warn_of_overflow, warn_of_spinning};
use crate::pace::Pace;
use crate::recording::Recording;
use crate::show::note;
use crate::summary::{FailIf, JsonFile, of_forwarder};
use anyhow::{Context, Result, bail};
use falaj_live::attach;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::forward::Woken;
use falaj_live::interface::Interface;
use falaj_live::packet::{Monitor, Place, State};
use falaj_live::priority::{self, Rank};
use falaj_live::signals::Signals;
use falaj_scenario::Link;
use falaj_scenario::keys::{MTU_MAX, MTU_MIN};
use falaj_sched::time::Time;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

/// What `bridge` takes.
#[derive(clap::Args)]
#[command(after_help = "\
An interface is a name, or NAME@NETNS for one in another network namespace: a name under /run/netns or
the number of a process there, such as a container's first. Up is from the first to the second.
Packet sockets take CAP_NET_RAW, other namespaces root as well, unless they are your own. AF_XDP is
cheaper for small packets, takes root, and frames are the link's alone; where it is not to be had,
packet sockets take its place, and a message says why.

Ctrl-C or SIGTERM ends it, with exit status 0. The interfaces are promiscuous until then; nothing else
about them is changed. One that goes down or vanishes is told of, and taken again when it is back.

Examples:
  falaj bridge eth1 eth2 --rate 10mbit --delay 40ms
  falaj bridge veth0 eth0@4711 --delay 20ms --stats
  falaj bridge eth1@blue eth1@green examples/tenants.toml
  falaj bridge eth1 eth2 --via xdp --rate 1gbit")]
pub(crate) struct Args {
    /// The interface at the near end.
    #[arg(value_name = "IF_A[@NETNS]")]
    a: Place,
    /// The interface at the far end.
    #[arg(value_name = "IF_B[@NETNS]")]
    b: Place,
    /// How the interfaces are read and written.
    #[arg(long, value_enum, default_value_t = Via::Packet, value_name = "WAY")]
    via: Via,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    recording: Recording,
    /// At the end, tells on standard error what the link did.
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    json: JsonFile,
    #[command(flatten)]
    fail_if: FailIf,
    #[command(flatten)]
    asked: Asked,
}

/// Ways to read and write an interface.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    /// Packet sockets: units of many packets and unfinished checksums pass as they are.
    Packet,
    /// AF_XDP sockets: root alone; one packet at a time. VLAN tags that a driver takes out are lost.
    Xdp,
}

/// An end of the link.
struct End<'a> {
    place: &'a Place,
    interface: Interface,
    monitor: Monitor,
}

impl<'a> End<'a> {
    fn open(place: &'a Place, via: Via) -> Result<End<'a>> {
        let opened = match via {
            Via::Packet => Interface::packet(place),
            Via::Xdp => Interface::xdp(place),
        };
        let (interface, monitor) = opened.with_context(|| place.to_string())?;
        Ok(End { place, interface, monitor })
    }

    /// Both, by AF_XDP only if both can be had so.
    fn both(a: &'a Place, b: &'a Place, via: Via) -> Result<[End<'a>; 2]> {
        let open = |via| Ok([End::open(a, via)?, End::open(b, via)?]);
        open(via).or_else(|error: anyhow::Error| {
            if via == Via::Packet {
                return Err(error);
            }
            let ends = open(Via::Packet)?;
            note!("{error:#}: packet sockets instead");
            Ok(ends)
        })
    }

    /// Tells of the interface if it is otherwise than it was.
    fn look(&self) {
        match self.interface.look() {
            Some(State::Up) => note!("{} is up: forwarding", self.place),
            Some(state) => note!("{} {state}: waiting for it", self.place),
            None => {}
        }
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if args.a == args.b {
        bail!("{} is one interface: a link has two ends", args.a);
    }
    let ends = End::both(&args.a, &args.b, args.via)?;
    let [a, b] = &ends;
    if args.a.namespace == args.b.namespace && a.interface.index() == b.interface.index() {
        bail!("{} is one interface: a link has two ends", args.a);
    }
    let mtus = [a.interface.mtu()?, b.interface.mtu()?];
    let (scenario, text) = args.link.scenario(mtus[0].max(mtus[1]).clamp(MTU_MIN, MTU_MAX))?;
    let links = live_links(&scenario)?;
    args.fail_if.check(links)?;
    args.asked.tell(&scenario);
    links.iter().for_each(warn_of_spinning);
    warn_of_mtu(links, &ends, mtus);

    let place = args.control.place()?;
    let signals = Signals::take()?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder =
        attach::to_interfaces(&scenario.network(), [&a.interface, &b.interface], clock, args.pace.options())?;
    args.recording.begin(&mut forwarder, &text)?;
    let about = format!("{} {}", args.a, args.b);
    let recording = args.recording.is_wanted();
    let running =
        Running { command: "bridge", about, file: args.link.name(), scenario: scenario.clone(), text, recording };
    let mut control = Control::open(place.as_deref(), running)?;
    priority::be_punctual(Rank::Link);
    forwarder.tell_of_overflow();
    note!("forwarding between {} and {}; Ctrl-C ends it", args.a, args.b);
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
            Woken::Deadline => {}
        }
    }
    args.recording.end(&mut forwarder);
    let unread = ends.iter().map(|end| end.interface.unread()).sum();
    let summary = of_forwarder(control.scenario(), &forwarder, Some(unread));
    if args.stats {
        summary.tell();
    }
    args.json.write(&summary)?;
    Ok(args.fail_if.judge(&summary)?.unwrap_or(ExitCode::SUCCESS))
}

/// What an interface sends may be more than the link takes.
fn warn_of_mtu(links: &[Link], ends: &[End<'_>], mtus: [u32; 2]) {
    let least = |mtu: fn(&Link) -> u32| links.iter().map(mtu).min().unwrap_or(MTU_MAX);
    for ((end, mtu), takes) in ends.iter().zip(mtus).zip([least(|link| link.up.mtu), least(|link| link.down.mtu)]) {
        if mtu > takes {
            note!(
                "warning: {} has an mtu of {mtu} B and the link one of {takes} B; what is longer is dropped",
                end.place
            );
        }
    }
}
