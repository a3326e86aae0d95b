//! `falaj bench io`: sends small packets from one network namespace to another, through an
//! unlimited emulated link and, for comparison, through a loop that only reads and writes, over
//! each kind of port.
//!
//! The paths take turns within one run, so that a busy machine slows all of them. The result is the
//! number of packets per second that are delivered to the far end's interface, while more packets
//! arrive than can be forwarded.

use super::{exit, median};
use anyhow::{Context, Result, bail};
use falaj_engine::PipeId;
use falaj_experiment::bare::{Bare, BareWay};
use falaj_live::adapters::Adapters;
use falaj_live::backend::{Backend, InterfaceName, xdp};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Forwarder, Options};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{
    End, Exit, INTERFACE, Join, Sandbox, SandboxSide, SandboxSpec, SideEvent,
};
use falaj_live::traffic::flood::flood;
use falaj_live::wiring;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_terminal::interrupt::Interrupted;
use falaj_terminal::{progress, text};
use indicatif::ProgressBar;
use serde::Serialize;
use signal_hook::consts::SIGINT;
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Arguments of `bench io`.
#[derive(clap::Args)]
#[command(after_help = "\
Packets are UDP of 64 B on the wire (60 B without the check sequence), one way. Offered is the rate
of packets that arrived at the link; if it hardly exceeds the forwarded rate, the sender was the
limit. AF_XDP needs root, and is left out if it is not available.

Example:
  falaj bench io --bare --seconds 2 --repeat 5")]
pub struct Args {
    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 1,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=3600))]
    seconds: u64,
    /// Number of measurements of each path, in turns.
    #[arg(long, default_value_t = 3,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    repeat: u64,
    /// Also measure each path with a loop that only reads and writes.
    #[arg(long)]
    bare: bool,
    /// Also measure each path with the sender as a service's adapter, whose share of processor time
    /// is limited.
    #[arg(long)]
    adapter: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Act as one end of a path: for falaj's own use.
    #[arg(long, hide = true)]
    end: Option<IoRole>,
}

/// The role of an end.
#[derive(Clone, Copy, clap::ValueEnum)]
enum IoRole {
    Send,
    Receive,
}

const PORT: u16 = 5301;
/// Payload in bytes; it fills a frame of 60 B.
const PAYLOAD: u16 = 18;
/// Warm-up before a measurement starts.
const WARM: Duration = Duration::from_millis(200);

/// The kind of port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Tap,
    Packet,
    Xdp,
}

impl Over {
    fn words(self) -> &'static str {
        match self {
            Over::Tap => "TAP",
            Over::Packet => "packet socket",
            Over::Xdp => "AF_XDP",
        }
    }
}

impl Serialize for Over {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.words())
    }
}

/// The forwarder between the ports.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum By {
    /// A loop that only reads and writes.
    Bare,
    /// A link between two ports.
    Engine,
    /// A link between one virtual adapter and its uplink.
    Adapter,
}

impl By {
    fn words(self) -> &'static str {
        match self {
            By::Bare => "bare",
            By::Engine => "with the engine",
            By::Adapter => "as an adapter",
        }
    }
}

/// The results of one path, by turn.
#[derive(Serialize)]
struct PathTurns {
    over: Over,
    by: By,
    /// Millions of packets per second delivered and offered, per turn.
    turns: Vec<IoTurn>,
}

#[derive(Clone, Copy, Serialize)]
struct IoTurn {
    mpps: f64,
    offered_mpps: f64,
}

/// Runs `falaj bench io`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    if let Some(role) = args.end {
        let at = SocketAddr::new(End::Far.address().into(), PORT);
        match role {
            IoRole::Send => {
                // With the link's scheduling class: otherwise other load could make the sender the
                // bottleneck.
                priority::be_punctual(Rank::Sender);
                flood(at, PAYLOAD, Duration::from_secs(3600))?;
            }
            // The receiver reads nothing: packets that find the socket full are dropped at once.
            IoRole::Receive => {
                let _socket = UdpSocket::bind(at)?;
                sleep(Duration::from_secs(3600));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = [(By::Bare, args.bare), (By::Engine, true), (By::Adapter, args.adapter)];
    let by = || wanted.iter().filter(|(_, wanted)| *wanted).map(|(by, _)| *by);
    let mut over = vec![Over::Tap, Over::Packet];
    match xdp::available() {
        Ok(()) => over.push(Over::Xdp),
        Err(error) => note!("without AF_XDP: {error}"),
    }
    let paths = over.into_iter().flat_map(|over| by().map(move |by| (over, by)));
    let mut series: Vec<PathTurns> =
        paths.map(|(over, by)| PathTurns { over, by, turns: Vec::new() }).collect();
    let bar = progress::long_bar(args.repeat * series.len() as u64, "forwarding");
    let mut turns = 0;
    let interrupted = loop {
        match turn(&mut series, args.seconds, &bar) {
            Ok(()) => turns += 1,
            // Only complete turns are compared.
            Err(error) if error.is::<Interrupted>() => break true,
            Err(error) => return Err(error),
        }
        if turns == args.repeat {
            break false;
        }
    };
    series.iter_mut().for_each(|s| s.turns.truncate(turns as usize));
    bar.finish_and_clear();
    let exit = exit(interrupted, turns == 0)?;
    if args.json {
        say!(
            "{}",
            serde_json::to_string_pretty(
                &serde_json::json!({ "seconds": args.seconds, "series": series })
            )?
        );
        return Ok(exit);
    }
    say!(
        "packets of 64 B, one way, {} s, {turns} times each, in turns; medians, Mpps",
        args.seconds
    );
    let of =
        |s: &PathTurns, figure: fn(&IoTurn) -> f64| median(s.turns.iter().map(figure).collect());
    let rows = series.iter().map(|s| {
        let bare = series
            .iter()
            .find(|other| other.over == s.over && other.by == By::Bare)
            .filter(|_| s.by != By::Bare);
        let rates = || s.turns.iter().map(|t| t.mpps);
        vec![
            format!("{} {}", s.over.words(), s.by.words()),
            format!("{:.3}", of(s, |t| t.mpps)),
            format!(
                "{:.3} to {:.3}",
                rates().fold(f64::INFINITY, f64::min),
                rates().fold(0.0, f64::max)
            ),
            format!("{:.3}", of(s, |t| t.offered_mpps)),
            bare.map_or(text::DASH.into(), |bare| {
                format!("{:.2}", of(s, |t| t.mpps) / of(bare, |t| t.mpps))
            }),
        ]
    });
    say!("{}", text::table(&["", "forwarded", "range", "offered", "of bare"], rows));
    Ok(exit)
}

/// Measures every path once.
fn turn(series: &mut [PathTurns], seconds: u64, bar: &ProgressBar) -> Result<()> {
    for series in series {
        series.turns.push(forward(series.over, series.by, Duration::from_secs(seconds))?);
        bar.inc(1);
    }
    Ok(())
}

/// Measures one path between two new namespaces.
fn forward(over: Over, by: By, long: Duration) -> Result<IoTurn> {
    let side = |role: &str| -> Result<SandboxSide> {
        let program = std::env::current_exe()
            .context("cannot find this program's own file")?
            .into_os_string();
        Ok(SandboxSide::command([
            program,
            "bench".into(),
            "io".into(),
            "--end".into(),
            role.into(),
        ]))
    };
    // Without segmentation offload, datagrams sent together arrive one by one.
    let spec = |join| SandboxSpec { join, tso: false, ..SandboxSpec::default() };
    let (near, far) = (side("send")?, side("receive")?);
    // The first sandbox has the sender, the last one the receiver.
    let mut sandboxes = match over {
        Over::Tap => vec![Sandbox::start(SandboxSpec { near, far, ..spec(Join::Tap) })?],
        Over::Packet => vec![Sandbox::start(SandboxSpec { near, far, ..spec(Join::Packet) })?],
        // Two veth pairs with the same addresses: packets that arrive at the far end of one are
        // sent from the near end of the other.
        Over::Xdp => {
            vec![
                Sandbox::start(SandboxSpec { near, ..spec(Join::Veth) })?,
                Sandbox::start(SandboxSpec { far, ..spec(Join::Veth) })?,
            ]
        }
    };
    let between = between(&sandboxes)?;
    priority::be_punctual(Rank::Link);
    let last = sandboxes.len() - 1;
    sandboxes[last].go(End::Far)?;
    sandboxes[0].go(End::Near)?;
    let mut count = match by {
        By::Bare => bare(&mut sandboxes[0], between.as_ref())?,
        _ => emulated(&mut sandboxes[0], between.as_ref(), by)?,
    };
    let unread = || match &between {
        Some(ends) => ends.iter().map(|end| end.unread()).sum(),
        None => sandboxes[0].unread().unwrap_or(0),
    };
    count(WARM)?;
    let (before, began) = (unread(), Instant::now());
    let handed_over = count(long)?;
    let (seconds, unread) = (began.elapsed().as_secs_f64(), unread() - before);
    for (n, end) in [(0, End::Near), (last, End::Far)] {
        match sandboxes[n].read_event(end)? {
            None => {}
            Some(SideEvent::Exited(Exit::Signal(SIGINT))) => {
                return Err(Interrupted("while forwarding").into());
            }
            Some(_) => bail!("the traffic at the {end} end failed"),
        }
    }
    // The sender ends before its interface is removed; otherwise it would report an error.
    drop(sandboxes);
    drop(count);
    let of_time = |packets: u64| packets as f64 / seconds / 1e6;
    Ok(IoTurn { mpps: of_time(handed_over), offered_mpps: of_time(handed_over + unread) })
}

/// The inner ends of two veth pairs, opened by AF_XDP.
fn between(sandboxes: &[Sandbox]) -> Result<Option<[Box<dyn Backend>; 2]>> {
    let [first, second] = sandboxes else { return Ok(None) };
    let open = |sandbox: &Sandbox, end| -> Result<Box<dyn Backend>> {
        let name = InterfaceName {
            interface: INTERFACE.to_owned(),
            namespace: Some(sandbox.pid(end).to_string()),
        };
        Ok(Box::new(Rc::new(xdp::open(&name)?.0)))
    };
    Ok(Some([open(first, End::Far)?, open(second, End::Near)?]))
}

/// Forwards for a time, and returns the number of packets that the far end's interface took.
type Count = Box<dyn FnMut(Duration) -> Result<u64>>;

/// Forwards through an unlimited link.
fn emulated(
    sandbox: &mut Sandbox,
    between: Option<&[Box<dyn Backend>; 2]>,
    by: By,
) -> Result<Count> {
    let scenario = Scenario::simple(Rate::UNLIMITED, Span::ZERO, Limit::Packets(1000), 1500);
    let (network, clock, options) =
        (scenario.network(), Clock::from_zero(monotonic()), Options::default());
    let mut forwarder = match (by, between) {
        (By::Adapter, _) => {
            let mut port = |end: End, name| match between {
                Some(interfaces) => interfaces[end.index()].port(),
                None => wiring::space_port(sandbox.sides(), end.index(), name),
            };
            let adapters = Adapters::new()?;
            adapters.add("sender", port(End::Near, "the adapter")?, None)?;
            wiring::to_adapters(&network, &adapters, port(End::Far, "the uplink")?, clock, options)?
        }
        (_, Some([near, far])) => wiring::to_ends(&network, [&**near, &**far], clock, options)?,
        (_, None) => wiring::to_sandbox(&network, sandbox, clock, options)?,
    };
    Ok(Box::new(move |long| {
        let handed_over =
            |f: &Forwarder| f.counters(PipeId(0), FlowId(0)).sent - f.losses().not_taken;
        let before = handed_over(&forwarder);
        forwarder.run(forwarder.clock().now() + Span(long.as_nanos() as u64), &[])?;
        Ok(handed_over(&forwarder) - before)
    }))
}

/// Forwards through a loop over the same interfaces.
fn bare(sandbox: &mut Sandbox, between: Option<&[Box<dyn Backend>; 2]>) -> Result<Count> {
    let mut way = if let Some([near, far]) = between {
        let (mut near, mut far) = (near.port()?, far.port()?);
        let read = move |unit: &mut [u8]| Ok(near.receive(unit)?.map(|received| received.length));
        BareWay::new(Box::new(read), Box::new(move |unit| far.transmit(unit)))
    } else {
        let [to_far, _] = Bare::between(sandbox)?.ways;
        to_far
    };
    Ok(Box::new(move |long| {
        let (began, mut handed_over) = (Instant::now(), 0);
        while began.elapsed() < long {
            handed_over += way.turn()?;
        }
        Ok(handed_over)
    }))
}
