//! `falaj bridge`: an emulated link between two existing interfaces, network cards of virtual
//! machines, memory shared with other programs, or queues of the firewall.

use crate::commands::forwarding::{ForwardingArgs, LinkEnds, forward};
use anyhow::{Context, Result, bail};
use falaj_control::batching::by_timeout;
use falaj_engine::batch::BatchPolicy;
use falaj_live::backend::{BACKENDS, Backend, EndName, InterfaceState, Monitor, OpenOptions};
use falaj_live::loops;
use falaj_scenario::keys::{MTU_MAX, MTU_MIN};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  falaj bridge eth1 eth2 --rate 10mbit --delay 40ms
  falaj bridge veth0 eth0@4711 --delay 20ms --stats
  falaj bridge eth1@blue eth1@green examples/tenants.toml
  falaj bridge eth1 eth2 --via xdp --rate 1gbit";

/// Returns the help after all options: the kinds of ends, and an example of each.
fn after_all_help() -> String {
    let told = BACKENDS.iter().filter(|backend| !backend.help.is_empty());
    let (helps, examples): (Vec<String>, Vec<String>) = told
        .map(|backend| {
            (format!("{}\n\n", backend.help), format!("\n  falaj bridge {}", backend.example))
        })
        .unzip();
    format!(
        "\
An interface is a name, or NAME@NETNS for one in another network namespace: a name under /run/netns
or the ID of a process in it, such as the first one of a container. Up is from the first interface
to the second. Packet sockets need CAP_NET_RAW; other namespaces also need root, unless they are
your own. AF_XDP is cheaper for small packets, needs root, and takes all frames of the interface;
if it is not available, packet sockets are used instead, and a message has the reason.

{}\
Two interfaces that the kernel already connects, such as both ends of one veth pair, are refused.

Ctrl-C or SIGTERM ends it, with exit status 0. Until then the interfaces are in promiscuous mode;
nothing else about them is changed. An interface that goes down or vanishes is reported, and used
again when it is back.

{EXAMPLES}{}",
        helps.concat(),
        examples.concat()
    )
}

/// Returns the help for the name of an end.
fn end_help(end: &str) -> String {
    let forms: Vec<&str> =
        BACKENDS.iter().filter(|b| !b.scheme.is_empty()).map(|b| b.form).collect();
    let (last, others) = forms.split_last().expect("there are backends with names of their own");
    format!("The interface at the {end} end, {}, or {last}", others.join(", "))
}

/// Arguments of `bridge`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = after_all_help())]
pub(crate) struct Args {
    #[arg(value_name = "IF_A[@NETNS]", help = end_help("near"))]
    a: EndName,
    #[arg(value_name = "IF_B[@NETNS]", help = end_help("far"))]
    b: EndName,
    /// Sockets used to read and write the interfaces.
    #[arg(long, value_enum, default_value_t = Via::Packet, value_name = "WAY")]
    via: Via,
    /// With memif: send packets to another falaj in batches of at most PACKETS, each at most TIME
    /// after its first packet.
    #[arg(long, value_name = "PACKETS,TIME", value_parser = by_timeout)]
    aggregate: Option<BatchPolicy>,
    /// With firewall queues: packets that find the queue full, and packets still queued at the end,
    /// pass instead of being dropped.
    #[arg(long)]
    fail_open: bool,
    #[command(flatten)]
    forwarding: ForwardingArgs,
}

/// Ways to read and write an interface.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    /// Packet sockets: segmentation-offload units and partial checksums pass unchanged.
    Packet,
    /// AF_XDP sockets: needs root; one packet at a time. VLAN tags removed by a driver are lost.
    Xdp,
}

/// An end of the link.
struct End<'a> {
    name: &'a EndName,
    interface: Box<dyn Backend>,
    monitor: Monitor,
    /// New name of the interface, if a rename has been reported.
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

    /// Opens both ends. AF_XDP is used only if both ends support it.
    fn both(args: &'a Args) -> Result<[End<'a>; 2]> {
        let Args { a, b, via, .. } = args;
        let end = |name, via| End::open(name, via, args);
        let open = |via| {
            // A process must have a single thread when it enters another network namespace, so the
            // end that starts threads is opened last.
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
            note!("{error:#}; packet sockets are used instead");
            open(Via::Packet)
        })
    }

    /// Prints a note if the interface's state or name has changed.
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
            note!(
                "the interface {} was renamed to {name}, and is still an end of the link",
                self.name
            );
        }
    }
}

/// MTU in bytes if neither end reports one, for example between network cards of virtual machines.
const MTU: u32 = 1500;

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    args.forwarding.recording.take_standard_output()?;
    if args.a == args.b {
        bail!("both ends are the interface {}: a link needs two different interfaces", args.a);
    }
    let ends = [&args.a, &args.b];
    if args.via == Via::Xdp && ends.iter().any(|name| name.interface().is_none()) {
        bail!("--via xdp is for two interfaces: leave it out");
    }
    let queues = ends.iter().filter(|name| name.entry().returns_packets).count();
    if queues == 1 {
        bail!(
            "packets of a firewall queue continue on their own path and reach no other end: give two queues, one for each direction"
        );
    }
    if args.fail_open && queues == 0 {
        bail!("--fail-open is for queues of the firewall: nfqueue:N");
    }
    if args.aggregate.is_some() && !ends.iter().any(|name| name.entry().takes_batches) {
        bail!("--aggregate is for shared memory: memif:PATH");
    }
    if let (Some(a), Some(b)) = (args.a.interface(), args.b.interface())
        && let Some(why) = loops::between(a, b)
    {
        bail!("{why}");
    }
    let ends = End::both(args)?;
    let [a, b] = &ends;
    let mtus = [a.interface.mtu()?, b.interface.mtu()?];
    let mtu = mtus[0].max(mtus[1]).unwrap_or(MTU).clamp(MTU_MIN, MTU_MAX);
    let scenario = args.forwarding.link.scenario(mtu)?;
    let loses_tags = ends.iter().filter(|end| end.interface.loses_tags());
    let warnings = loses_tags.map(|end| {
        format!(
            "\nfalaj: warning: the driver of {} removes VLAN tags from frames, and AF_XDP does not see them: ethtool -K … rxvlan off",
            end.name
        )
    });
    let began = format!("forwarding between {} and {}; Ctrl-C ends it", args.a, args.b);
    let opened = LinkEnds {
        command: "bridge",
        about: format!("{} {}", args.a, args.b),
        names: [args.a.to_string(), args.b.to_string()],
        backends: [&*a.interface, &*b.interface],
        mtus,
        watched: vec![a.monitor.as_fd(), b.monitor.as_fd()],
        began: began + &warnings.collect::<String>(),
    };
    forward(&args.forwarding, scenario, &opened, |end| {
        ends[end].monitor.clear();
        ends[end].look();
        ControlFlow::Continue(())
    })
}
