//! `falaj run`: a command behind an emulated link.
//!
//! | module | content |
//! |---|---|
//! | [`host_ports`] | ports of the host that the command reaches |
//! | [`hosts`] | a scenario with more than two ends |
//! | [`live`] | a line for each flow while the command runs |
//! | [`peer`] | starts the command once the peer listens |

mod host_ports;
mod hosts;
mod live;
mod peer;

use crate::cli::link::LinkArgs;
use crate::cli::virtual_time::VirtualTimeArgs;
use crate::commands::run::live::Live;
use crate::commands::run::peer::{PeerPort, Wait};
use anyhow::{Context, Result, anyhow, bail};
use falaj_control::endpoint::{Control, ControlArgs, VARIABLE};
use falaj_control::live_links::{
    live_links, no_adapters, warn_of_overflow, warn_of_sharing, warn_of_spinning,
};
use falaj_control::pacing::PacingArgs;
use falaj_control::recording::Recording;
use falaj_control::running::Running;
use falaj_control::summary::{FailIf, JsonFile, Summary, of_forwarder};
use falaj_control::{batching, host_limits};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::error::SetupStep;
use falaj_live::event_loop::{Forwarder, WhenFull, Woken};
use falaj_live::host_port::HostPort;
use falaj_live::nat::{self, Nat, NatChoice};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{
    End, Exit, Hosts, Sandbox, SandboxSide, SandboxSpec, SideEvent, Subnet, UserNamespace,
};
use falaj_live::signals::Signals;
use falaj_live::wiring;
use falaj_scenario::edit::with_seed;
use falaj_scenario::keys::SEED_MAX;
use falaj_scenario::{Link, RunTime};
use falaj_terminal::effective_config::EffectiveConfig;
use falaj_terminal::standard_error;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

const FAR_END: &str = "Far end";
const HOSTS: &str = "A scenario with hosts";
const RESULTS: &str = "Results and control";

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  falaj run --rate 10mbit --delay 40ms -- ping -c 3 10.77.0.2
  falaj run --rate 20mbit --up-rate 2mbit --rtt 30ms --loss 0.5% -- curl -O https://example.org/
  falaj run --rate 100mbit --peer 'iperf3 -s -1' -- iperf3 -c 10.77.0.2
  falaj run examples/tenants.toml -- bash
  falaj run examples/star.toml --in 'b:iperf3 -s' -- sh -c 'sleep 0.3; iperf3 -c b'")]
#[command(after_long_help = "\
The command runs in a network namespace of its own (10.77.0.1, fd77::1); at the far end of the link
is another one (10.77.0.2, fd77::2), where --peer runs. No root is needed if user namespaces are
allowed. Both have the environment variables FALAJ_SIDE, FALAJ_ADDR, FALAJ_PEER, FALAJ_ADDR6 and
FALAJ_PEER6, FALAJ_CONTROL for `falaj show` and `falaj set`, and, for scripts written for mahimahi,
MAHIMAHI_BASE, which equals FALAJ_PEER.

The far end has access to the internet over IPv4, with name resolution: by pasta or slirp4netns, if
installed, or with --internet host through the host. A link inside another one (`falaj run … --
falaj run … -- bash`) has its own addresses, 10.77.1.1 and so on, and reaches the internet through
the outer link.

A scenario with hosts ([host.NAME]) has several links and a namespace for each host; the hosts find
each other by name, and have no access to the internet.

Exit status: that of the command; 128 + the signal that killed it; 127 if the command does not
exist, 126 if it cannot be executed; 2 if this link is not possible here. If the command's status is
0: 4 if a condition of --fail-if holds, or else 1 if packets are missing in the capture.

Examples:
  falaj run --rate 10mbit --delay 40ms -- ping -c 3 10.77.0.2
  falaj run --rate 20mbit --up-rate 2mbit --delay 15ms --jitter 3ms --loss 0.5% -- curl -O …
  falaj run --rate 100mbit --peer 'iperf3 -s -1' -- iperf3 -c 10.77.0.2
  falaj run --rate 10mbit --delay 20ms -- curl -O https://example.org/
  falaj run --delay 20ms --host-port 8000 -- curl http://localhost:8000/
  falaj run --delay 20ms -- falaj run --rate 5mbit -- bash
  falaj run --rate 1gbit --delay 1ms --fail-if 'release.p99 > 200us' -- ./measure.sh
  falaj run examples/tenants.toml -- bash
  falaj run --rate 20mbit --netns web -- curl http://10.77.0.2/
  falaj run examples/star.toml --in 'b:iperf3 -s' -- sh -c 'sleep 0.3; iperf3 -c b'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// Run this at the far end, with `sh -c` and without input; it ends with the command.
    #[arg(long, value_name = "COMMAND", help_heading = FAR_END)]
    pub(crate) peer: Option<OsString>,
    /// Start the command once the far end listens at this port (5201, 53/udp); fail after 30 s
    ///
    /// [default: once --peer listens at any port, after 1 s at most, if the command names
    /// FALAJ_PEER or its address]
    #[arg(long, value_name = "PORT[/udp]", value_parser = PeerPort::parse, help_heading = FAR_END)]
    wait: Option<PeerPort>,
    /// Start the command at once, even if --peer does not listen yet.
    #[arg(long, conflicts_with = "wait", help_heading = FAR_END)]
    no_wait: bool,
    #[command(flatten)]
    pub(crate) pace: PacingArgs,
    /// Put the far end into a process of its own. Packets travel to it and back in batches. A batch
    /// ends at a number of packets, and also after a time or when the reader is idle; `adaptive`
    /// chooses the batches so that the given delay (mean, or a percentile) is kept.
    #[arg(long, value_name = "62,200us|62,idle|adaptive,delay=200us", help_heading = FAR_END,
        hide_short_help = true)]
    pub(crate) aggregate: Option<batching::Batching>,
    /// The far end is in this network namespace: a name under /run/netns, or the ID of a process in
    /// it
    ///
    /// The namespace must exist already, such as a container's, given by the ID of the container's
    /// first process. While the link exists, it has the link's interface.
    #[arg(long, value_name = "NAME|PID", help_heading = FAR_END)]
    netns: Option<String>,
    /// Host in which the command runs [default: the first].
    #[arg(long, value_name = "NAME", help_heading = HOSTS)]
    pub(crate) host: Option<String>,
    /// Run a command in this host, or in `router`, with `sh -c`; it ends with the main command
    ///
    /// It has no input. May be given again.
    #[arg(long = "in", value_name = "HOST:COMMAND", value_parser = HostCommand::parse,
        help_heading = HOSTS)]
    pub(crate) within: Vec<HostCommand>,
    /// Make this port of the host's localhost available to the command, through the link
    ///
    /// It is reached at the same port of the command's loopback addresses, or at another one: TCP
    /// and UDP, IPv4 and IPv6. May be given again.
    #[arg(long = "host-port", value_name = "PORT[:PORT]", value_parser = HostPort::parse,
        help_heading = FAR_END)]
    host_ports: Vec<HostPort>,
    /// Internet access from the far end.
    #[arg(long, value_enum, default_value_t = Internet::Auto, value_name = "WAY",
        help_heading = FAR_END)]
    internet: Internet,
    /// Create a user namespace even as root.
    #[arg(long, help_heading = FAR_END, hide_short_help = true)]
    pub(crate) user_namespace: bool,
    /// Show a line for each flow on the terminal while the command runs
    ///
    /// For commands that print little.
    #[arg(long, help_heading = RESULTS)]
    pub(crate) live: bool,
    /// At the end, print the link's statistics to standard error.
    #[arg(long, help_heading = RESULTS)]
    pub(crate) stats: bool,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) recording: Recording,
    #[command(flatten)]
    pub(crate) json: JsonFile,
    #[command(flatten)]
    pub(crate) fail_if: FailIf,
    /// Seed of random numbers, also in the guest in virtual time [default: the scenario's].
    #[arg(long, value_name = "NUMBER", help_heading = "Virtual time",
        value_parser = falaj_terminal::arguments::number::<u64>(0..=SEED_MAX))]
    seed: Option<u64>,
    #[command(flatten)]
    virtual_time: VirtualTimeArgs,
    #[command(flatten)]
    pub(crate) asked: EffectiveConfig,
    /// The command and its arguments.
    #[arg(last = true, required = true, help_heading = clap::builder::Resettable::Reset)]
    pub(crate) command: Vec<OsString>,
}

impl Args {
    /// Refuses options that lead out of a guest, if the run is in virtual time: by `--virtual-time`
    /// or by the scenario's `time`.
    fn refuse_outside(&self, time: RunTime) -> Result<()> {
        let way_out = !matches!(self.internet, Internet::Auto | Internet::None);
        let cure = "leave it out, or start the server of the command at the far end with --peer";
        self.virtual_time.refuse(time, way_out, "--internet", cure)?;
        self.virtual_time.refuse(time, !self.host_ports.is_empty(), "--host-port", cure)?;
        let cure = "that namespace is the host's; start its programs with --peer";
        self.virtual_time.refuse(time, self.netns.is_some(), "--netns", cure)
    }
}

/// Ways to the internet.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Internet {
    /// pasta or slirp4netns, if installed; the host is not changed.
    Auto,
    /// pasta.
    Pasta,
    /// slirp4netns.
    #[value(name = "slirp4netns")]
    Slirp4netns,
    /// Through the host, as root only: translates addresses there, and removes the rules at the
    /// end.
    Host,
    /// None.
    None,
}

impl Internet {
    fn wish(self) -> NatChoice {
        match self {
            Internet::Auto => NatChoice::Auto,
            Internet::Pasta => NatChoice::Pasta,
            Internet::Slirp4netns => NatChoice::Slirp4netns,
            Internet::Host => NatChoice::Host,
            Internet::None => NatChoice::None,
        }
    }
}

/// Prints how to get internet access, if packets tried to leave the far end and there is none.
fn report_missing_internet(sandbox: &Sandbox, internet: Internet, why: Option<&str>) {
    if matches!(internet, Internet::None) || sandbox.stranded().is_none_or(|packets| packets == 0) {
        return;
    }
    match why {
        Some(why) => note!("the far end had no internet access: {why}"),
        None => note!("the far end had no internet access: {}", nat::HOW_TO),
    }
}

/// A command for a host of the scenario, given as `HOST:COMMAND`.
#[derive(Clone, Debug)]
pub(crate) struct HostCommand {
    pub(crate) host: String,
    pub(crate) command: String,
}

impl HostCommand {
    fn parse(text: &str) -> Result<HostCommand, String> {
        match text.split_once(':') {
            Some((host, command)) if !host.is_empty() && !command.trim().is_empty() => {
                Ok(HostCommand { host: host.to_owned(), command: command.to_owned() })
            }
            _ => Err("write the host, a colon and the command: `b:iperf3 -s`".into()),
        }
    }
}

/// Returns a side with a helper command. Its standard input is `/dev/null`, because terminal input
/// belongs to the main command.
pub(crate) fn helper(command: OsString) -> Result<SandboxSide> {
    let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
    Ok(SandboxSide {
        stdin: Some(nothing.into()),
        ..SandboxSide::command([OsString::from("sh"), "-c".into(), command])
    })
}

pub(crate) fn main(args: Args) -> Result<ExitCode> {
    args.refuse_outside(RunTime::Real)?;
    if let Some(status) = args.virtual_time.take_over(args.seed)? {
        return Ok(status);
    }
    let (mut scenario, mut text) = args.link.scenario(1500)?;
    if let Some(seed) = args.seed {
        scenario.begin_at(seed);
        // A capture contains the scenario's text, so this text gets the seed too.
        text = with_seed(&text, seed);
    }
    args.refuse_outside(scenario.run.time)?;
    if let Some(status) = args.virtual_time.take_over_for(&scenario.run)? {
        return Ok(status);
    }
    args.recording.take_standard_output()?;
    args.asked.tell(&scenario);
    no_adapters(&scenario)?;
    if !scenario.hosts.is_empty() {
        if args.peer.is_some() || args.netns.is_some() || args.wait.is_some() {
            bail!(
                "--peer, --wait and --netns are for a link between two ends; this scenario has hosts: write --in HOST:COMMAND"
            );
        }
        if !matches!(args.internet, Internet::Auto | Internet::None) {
            bail!("--internet: a scenario with hosts has no internet access");
        }
        if !args.host_ports.is_empty() {
            bail!(
                "--host-port is for a link between two ends; this scenario has hosts: start the server in one of them, by --in HOST:COMMAND"
            );
        }
        return hosts::main(args, &scenario, &text);
    }
    if args.host.is_some() || !args.within.is_empty() {
        bail!(
            "--host and --in are for a scenario with hosts, each [host.NAME]; this one has two \
             ends: run the command of the far end by --peer"
        );
    }
    host_ports::check(&args.host_ports)?;
    let links = live_links(&scenario)?;
    args.fail_if.check(links)?;
    links.iter().for_each(warn_of_spinning);
    host_limits::warn(links);
    let mtu = links.iter().map(|link| link.up.mtu.max(link.down.mtu)).max().unwrap_or(0);
    let mtu = u16::try_from(mtu).context("the mtu does not fit an interface")?;
    let wish = match args.netns {
        Some(_) if !matches!(args.internet, Internet::Auto | Internet::None) => {
            bail!("--internet: with --netns the far end has the internet access of its namespace")
        }
        Some(_) => NatChoice::None,
        None => args.internet.wish(),
    };
    let ways = nat::ways(wish, args.user_namespace).map_err(|why| anyhow!("--internet: {why}"))?;
    let place = args.control.place()?;
    let about =
        args.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if args.wait.is_some() && args.peer.is_none() && args.netns.is_none() {
        bail!("--wait: nothing listens at the far end; start it there by --peer COMMAND");
    }
    let subnet = Subnet::free();
    let wait = match args.wait {
        Some(port) => Wait::Port(port),
        None if args.peer.is_some() && !args.no_wait => Wait::for_peer_of(&args.command, subnet),
        None => Wait::No,
    };
    let mut near = SandboxSide { command: Some(args.command), ..SandboxSide::default() };
    let has_peer = args.peer.is_some();
    let mut far = args.peer.map(helper).transpose()?.unwrap_or_default();
    if let Some(place) = &place {
        [&mut near, &mut far]
            .into_iter()
            .for_each(|side| side.env.push((VARIABLE.into(), place.into())));
    }
    let mut sandbox = Sandbox::start(SandboxSpec {
        mtu,
        subnet,
        routes: !ways.is_empty(),
        // Batches are for single packets: a segmentation-offload unit of many packets would fill a
        // batch alone.
        tso: args.aggregate.is_none(),
        resolver: ways.first().and_then(nat::resolver),
        user_namespace: if args.user_namespace {
            UserNamespace::Always
        } else {
            UserNamespace::Auto
        },
        near,
        far,
        namespace: args.netns.clone(),
        host_ports: args.host_ports.clone(),
        tells_refusals: true,
        ..SandboxSpec::default()
    })
    .map_err(|error| match &args.netns {
        Some(name) if error.step == SetupStep::EnterNamespace => {
            anyhow!(error).context(format!("--netns {name}"))
        }
        Some(name) if error.step == SetupStep::HostPort => {
            anyhow!(error).context(host_ports::conflict(&args.host_ports, name))
        }
        _ => error.into(),
    })?;
    let mut why = None;
    let out = match Nat::open(&sandbox, &ways) {
        Ok(out) => Some(out),
        // If the user named a way to the internet, its failure is an error.
        Err(error) if !matches!(args.internet, Internet::Auto | Internet::None) => {
            bail!("--internet: {error}")
        }
        Err(error) => {
            why = Some(error).filter(|error| !error.is_empty());
            None
        }
    };
    host_ports::tell(&args.host_ports);
    let mut signals = Signals::take()?;
    let clock = Clock::from_zero(monotonic());
    let by_stack = out.as_ref().is_some_and(|out| out.way().is_user_mode());
    // A user-mode TCP/IP stack does not reduce its rate when packets are lost, so its
    // retransmissions would be lost repeatedly. So packets going down wait for room. With a peer
    // they are dropped instead, because that direction also carries the peer's packets.
    let when_full = if by_stack && !has_peer { WhenFull::WaitDown } else { WhenFull::default() };
    let (network, options) = (scenario.network(), args.pace.options_or(when_full));
    let guest = args.aggregate.as_ref().map(|asked| asked.start(&mut sandbox)).transpose()?;
    let (mut forwarder, guest) = match guest {
        Some((guest, child)) => {
            (wiring::to_guest(&network, &mut sandbox, guest, clock, options)?, Some(child))
        }
        None => (wiring::to_sandbox(&network, &mut sandbox, clock, options)?, None),
    };
    priority::be_punctual(Rank::Link);
    args.recording.begin(&mut forwarder, &text)?;
    let recording = args.recording.is_wanted();
    let running = Running {
        command: "run",
        about,
        file: args.link.name(),
        scenario: Arc::new(scenario.clone()),
        text,
        recording,
        standings: None,
    };
    let mut control = Control::open(place.as_deref(), running)?;
    wait.start_peer(&mut sandbox, &mut signals)?;
    control.schedule(clock, clock.now())?;
    sandbox.go(End::Near)?;
    let ends = (sandbox.sides(), End::Near.index());
    let exit = forward(
        &mut forwarder,
        ends,
        &mut signals,
        &scenario.links,
        args.live,
        Some(&mut control),
    )?;
    let captured = args.recording.end(&mut forwarder);
    if out.is_none() && args.netns.is_none() {
        report_missing_internet(&sandbox, args.internet, why.as_deref());
    }
    let summary = of_forwarder(control.scenario(), &forwarder, sandbox.unread());
    drop(control);
    tell(args.stats, sandbox.sides(), &summary);
    // Dropping the link ends its guest process. The interfaces exist until `sandbox` is dropped.
    drop(forwarder);
    if let Some(mut guest) = guest {
        guest.wait()?;
    }
    // The sides are dropped first: the kernel removes their interfaces one after the other, and the
    // drop waits until they are removed.
    drop(sandbox);
    drop(out);
    status((exit, captured), &summary, &args.json, &args.fail_if)
}

/// Prints the results at the end.
pub(crate) fn tell(stats: bool, sides: &Hosts, summary: &Summary) {
    let unread = sides.unread();
    if let Some(lost @ 1..) = unread {
        note!(
            "warning: this host did not keep up: {lost} packets were not read in time; see `falaj doctor`"
        );
    }
    if stats {
        if let Some(error) = sides.no_tap() {
            eprintln!("no TAP here, so veth and packet sockets are used: {error}");
        }
        summary.tell();
        if unread.is_none() {
            eprintln!(
                "the number of packets that were not read in time is unknown: /proc does not report it"
            );
        }
    } else {
        summary.warn();
    }
}

/// Writes the JSON summary, prints which conditions of `--fail-if` hold, and returns the exit
/// status. If the command's status is 0, it is replaced by 4 if a condition holds, and otherwise by
/// the status of the capture.
pub(crate) fn status(
    (exit, captured): (Exit, ExitCode),
    summary: &Summary,
    json: &JsonFile,
    fail_if: &FailIf,
) -> Result<ExitCode> {
    json.write(summary)?;
    let failed = fail_if.judge(summary)?;
    let status = u8::try_from(exit.shell_code()).unwrap_or(u8::MAX);
    // A failed command has reported its own error.
    Ok(if status == 0 { failed.unwrap_or(captured) } else { ExitCode::from(status) })
}

/// Forwards packets until the command of the side `main` has ended.
pub(crate) fn forward(
    forwarder: &mut Forwarder,
    (sides, main): (&mut Hosts, usize),
    signals: &mut Signals,
    links: &[Link],
    lines: bool,
    mut control: Option<&mut Control>,
) -> Result<Exit> {
    standard_error::detach()?;
    let mut live = Live::new(links, lines);
    forwarder.tell_of_overflow();
    loop {
        // The main side comes first. A closed side is no longer polled; its links stay in place.
        let others = (0..sides.count()).filter(|&side| side != main && !sides.is_closed(side));
        let heard: Vec<usize> = std::iter::once(main).chain(others).collect();
        let mut fds = vec![signals.as_fd()];
        fds.extend(heard.iter().map(|&side| sides.control_fd(side)));
        fds.extend(control.as_ref().and_then(|control| control.as_fd()));
        let woken = forwarder.run(live.next(), &fds)?;
        match woken {
            Woken::Readable(0) => {
                while let Some(signal) = signals.next_sent()? {
                    sides.signal(main, signal)?;
                }
            }
            Woken::Readable(n) if n > heard.len() => {
                if let Some(control) = &mut control
                    && control.serve(forwarder)?
                {
                    live = Live::new(control.links(), lines);
                }
            }
            Woken::Readable(n) => match (sides.read_event(heard[n - 1])?, heard[n - 1] == main) {
                (Some(SideEvent::Exited(exit)), true) => return Ok(exit),
                (Some(SideEvent::Closed), true) => bail!("the command's namespace was killed"),
                (Some(SideEvent::Refused(port)), true) => host_ports::tell_of_refusal(port),
                (Some(SideEvent::Closed), false) => {
                    note!(
                        "warning: a side's processes were killed: that side no longer answers; the link continues"
                    );
                }
                _ => {}
            },
            Woken::Overflow(pipe, flow) => {
                warn_of_overflow(
                    control.as_ref().map_or(links, |control| control.links()),
                    pipe,
                    flow,
                );
            }
            Woken::Shared { pipe, flow, short } => {
                warn_of_sharing(
                    control.as_ref().map_or(links, |control| control.links()),
                    pipe,
                    flow,
                    short,
                );
            }
            Woken::Deadline => live.update(forwarder),
        }
    }
}
