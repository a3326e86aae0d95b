//! One TCP stream between two network namespaces, through the paths that `bench tcp` and `doctor`
//! compare: bare veth, a kernel bridge, the kernel's token bucket filter, a bare loop, an emulated
//! link.

use crate::bare::Bare;
use anyhow::{Context, Result, bail, ensure};
use falaj_live::clock::{Clock, monotonic, thread_cpu};
use falaj_live::event_loop::{Forwarder, Options};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{
    End, Exit, INTERFACE, Join, Sandbox, SandboxSide, SandboxSpec, SideEvent,
};
use falaj_live::wiring;
use falaj_scenario::{Scenario, default_queue, parse_rate};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::interrupt::Interrupted;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{getsockopt, setsockopt};
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGINT;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The path of the stream.
#[derive(Clone, Copy, PartialEq)]
pub enum Path {
    /// A veth pair.
    Veth,
    /// A kernel bridge between two pairs of veth interfaces.
    Bridge,
    /// The kernel's token bucket filter before bare veth.
    Filter(Rate),
    /// A loop that only reads and writes, over the same interfaces as the link.
    Bare,
    /// An emulated link.
    Link(Rate),
}

impl Path {
    /// Rate of the path.
    pub fn rate(self) -> Rate {
        match self {
            Path::Veth | Path::Bridge | Path::Bare => Rate::UNLIMITED,
            Path::Filter(rate) | Path::Link(rate) => rate,
        }
    }

    /// Name of the path in tables.
    pub fn name(self) -> String {
        let of = |rate: Rate| if rate.is_unlimited() { String::new() } else { format!(", {rate}") };
        match self {
            Path::Veth => "bare veth".into(),
            Path::Bridge => "kernel bridge".into(),
            Path::Bare => "bare loop".into(),
            Path::Filter(rate) => format!("kernel tbf{}", of(rate)),
            Path::Link(rate) => format!("emulated link{}", of(rate)),
        }
    }

    /// The maximum goodput of TCP at the path's rate, in Gbit/s; `None` if the rate is unlimited.
    pub fn best(self, ip: u8) -> Option<f64> {
        let payload = if ip == 4 { 1448.0 } else { 1428.0 };
        (!self.rate().is_unlimited()).then(|| self.rate().0 as f64 / 1e9 * payload / 1514.0)
    }
}

/// The role of an end of the stream.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum StreamRole {
    /// Sends.
    Send,
    /// Receives.
    Receive,
}

/// Arguments of an end of the stream: for falaj's own use.
#[derive(clap::Args)]
pub struct EndArgs {
    /// The role of this end.
    #[arg(long)]
    role: StreamRole,
    /// For the sender, the address of the other end; for the receiver, its own address.
    #[arg(long)]
    at: SocketAddr,
    /// Duration of sending, in seconds.
    #[arg(long)]
    seconds: u64,
    /// The sender's congestion control.
    #[arg(long)]
    congestion: Option<String>,
    /// Limit the interface of this end to this rate, by the kernel's token bucket filter.
    #[arg(long, value_parser = parse_rate)]
    tbf: Option<Rate>,
}

/// `falaj tcp-end`: one end of the stream.
///
/// # Errors
/// The kernel's filter cannot be set, or the stream fails.
pub fn end(args: &EndArgs) -> Result<ExitCode> {
    let told = match args.role {
        StreamRole::Send => {
            args.tbf.map_or(Ok(()), filter)?;
            send(args.at, Duration::from_secs(args.seconds), args.congestion.as_deref())?
        }
        StreamRole::Receive => receive(args.at)?,
    };
    println!("{}", serde_json::to_string(&told)?);
    Ok(ExitCode::SUCCESS)
}

/// The report of an end.
#[derive(Default, Serialize, Deserialize)]
struct StreamEnd {
    /// Bytes that this end has sent or received.
    bytes: u64,
    /// Time from this end's first byte to its last, in nanoseconds.
    nanos: u64,
    /// CPU time that this end has used, in nanoseconds.
    cpu: u64,
    /// Segments that the sender's namespace has retransmitted; 0 for the receiver.
    retransmitted: u64,
    /// The sender's congestion control.
    congestion: String,
}

/// The result of one stream through one path.
#[derive(Serialize)]
pub struct TcpStreamResult {
    /// Goodput in Gbit/s.
    pub gbit_per_s: f64,
    /// CPU time of the sender divided by the elapsed time.
    pub sender_cpu: f64,
    /// CPU time of the receiver divided by the elapsed time.
    pub receiver_cpu: f64,
    /// CPU time of the emulated link divided by the elapsed time.
    pub link_cpu: f64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Units that the link did not forward.
    pub lost: u64,
    /// The sender's congestion control.
    pub congestion: String,
}

const PORT: u16 = 5201;
/// Number of bytes that the ends write and read at once.
const CHUNK: usize = 128 << 10;

/// Returns an error if a kernel bridge between two sides is not possible here.
pub fn kernel_bridge() -> Result<(), falaj_live::error::Error> {
    Sandbox::start(SandboxSpec { join: Join::Bridge, ..SandboxSpec::default() }).map(drop)
}

/// Returns true if `tc` runs here; the kernel's rate limit needs it.
pub fn has_filter() -> bool {
    Command::new("tc")
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Limits this namespace's interface by the kernel's token bucket filter.
fn filter(rate: Rate) -> Result<()> {
    let rate = format!("{}bit", rate.0);
    let words = [
        "qdisc", "add", "dev", INTERFACE, "root", "tbf", "rate", &rate, "burst", "128kb", "limit",
        "1500kb",
    ];
    let done = Command::new("tc").args(words).status().context("cannot run tc")?;
    ensure!(done.success(), "tc cannot set the kernel's filter (sch_tbf)");
    Ok(())
}

/// Bits per second of a stream of this length through an unlimited emulated link.
pub fn through_a_link(seconds: u64) -> Result<f64> {
    let how =
        StreamSettings { over: Join::Auto, seconds, options: Options::default(), congestion: None };
    Ok(stream(Path::Link(Rate::UNLIMITED), 4, how)?.gbit_per_s * 1e9)
}

/// The settings of all streams of a measurement.
#[derive(Clone, Copy)]
pub struct StreamSettings<'a> {
    /// The connection between a namespace and the emulated link.
    pub over: Join,
    /// Length of each stream in seconds.
    pub seconds: u64,
    /// The options of the event loop.
    pub options: Options,
    /// The senders' congestion control; `None`: the kernel's choice.
    pub congestion: Option<&'a str>,
}

/// One stream between two fresh namespaces.
pub fn stream(path: Path, ip: u8, how: StreamSettings<'_>) -> Result<TcpStreamResult> {
    let (join, rate) = match path {
        Path::Link(rate) => (how.over, rate),
        Path::Bare => (how.over, Rate::UNLIMITED),
        Path::Veth | Path::Filter(_) => (Join::Veth, Rate::UNLIMITED),
        Path::Bridge => (Join::Bridge, Rate::UNLIMITED),
    };
    let scenario = Scenario::simple(rate, Span::ZERO, default_queue(rate, Span::ZERO, 1514), 1500);
    let receiver: IpAddr =
        if ip == 4 { End::Far.address().into() } else { End::Far.address6().into() };
    let at = SocketAddr::new(receiver, PORT).to_string();
    let seconds = how.seconds.to_string();
    let side = |role: &str| -> Result<(SandboxSide, File)> {
        let program = std::env::current_exe()
            .context("cannot find this program's own file")?
            .into_os_string();
        let mut words =
            vec!["tcp-end".into(), "--role".into(), role.into(), "--at".into(), at.clone()];
        words.extend(["--seconds".into(), seconds.clone()]);
        if let Some(name) = how.congestion {
            words.extend(["--congestion".into(), name.into()]);
        }
        if let Path::Filter(rate) = path {
            words.extend(["--tbf".into(), format!("{}bit", rate.0)]);
        }
        let (reader, writer) = io::pipe()?;
        let side = SandboxSide::command(
            std::iter::once(program).chain(words.into_iter().map(OsString::from)),
        );
        Ok((
            SandboxSide { stdout: Some(OwnedFd::from(writer)), ..side },
            File::from(OwnedFd::from(reader)),
        ))
    };
    let (near, from_sender) = side("send")?;
    let (far, from_receiver) = side("receive")?;
    let mut sandbox = Sandbox::start(SandboxSpec { join, near, far, ..SandboxSpec::default() })?;
    let clock = Clock::from_zero(monotonic());
    let mut between = match path {
        Path::Veth | Path::Bridge | Path::Filter(_) => Between::Kernel,
        Path::Bare => Between::Bare(Bare::between(&mut sandbox)?),
        Path::Link(_) => {
            let forwarder =
                wiring::to_sandbox(&scenario.network(), &mut sandbox, clock, how.options)?;
            Between::Link(Box::new(forwarder))
        }
    };
    priority::be_punctual(Rank::Link);
    sandbox.go(End::Far)?;
    sandbox.go(End::Near)?;
    let cpu = thread_cpu();
    let began = Instant::now();
    wait_for_both(&mut sandbox, &mut between)?;
    let link_cpu = (thread_cpu() - cpu) as f64 / began.elapsed().as_nanos() as f64;
    let (sender, receiver) = (told(from_sender)?, told(from_receiver)?);
    ensure!(
        sender.bytes == receiver.bytes,
        "{} bytes were sent and {} received",
        sender.bytes,
        receiver.bytes
    );
    let of_time = |end: &StreamEnd| end.cpu as f64 / end.nanos as f64;
    Ok(TcpStreamResult {
        gbit_per_s: receiver.bytes as f64 * 8.0 / receiver.nanos as f64,
        sender_cpu: of_time(&sender),
        receiver_cpu: of_time(&receiver),
        link_cpu,
        retransmitted: sender.retransmitted,
        lost: between.lost() + sandbox.unread().unwrap_or(0),
        congestion: sender.congestion,
    })
}

/// The forwarder between the ends.
enum Between {
    Kernel,
    Bare(Bare),
    Link(Box<Forwarder>),
}

/// Forwards, if the path needs it, until both ends are done.
fn wait_for_both(sandbox: &mut Sandbox, between: &mut Between) -> Result<()> {
    let mut running = End::BOTH.to_vec();
    while !running.is_empty() {
        let fds: Vec<_> = running.iter().map(|&end| sandbox.control_fd(end)).collect();
        match between {
            Between::Link(forwarder) => _ = forwarder.run(Time::NEVER, &fds)?,
            Between::Bare(bare) => bare.run(&fds)?,
            // The delay until the exit is noticed does not matter.
            Between::Kernel => sleep(Duration::from_millis(5)),
        }
        for end in running.clone() {
            match sandbox.read_event(end)? {
                Some(SideEvent::Exited(Exit::Code(0))) => running.retain(|&other| other != end),
                Some(SideEvent::Exited(Exit::Signal(SIGINT))) => {
                    return Err(Interrupted("while streaming").into());
                }
                Some(_) => bail!("the TCP stream failed at the {end} end"),
                None => {}
            }
        }
    }
    Ok(())
}

impl Between {
    /// Units that the link did not forward.
    fn lost(&self) -> u64 {
        let Between::Link(forwarder) = self else { return 0 };
        let outside: u64 = forwarder.losses().by_reason().into_iter().map(|(n, _)| n).sum();
        let dropped: u64 = forwarder.flows().iter().flatten().map(|f| f.counters.dropped()).sum();
        outside + dropped
    }
}

fn told(mut from: File) -> Result<StreamEnd> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    serde_json::from_str(&text).context("one end of the stream returned no valid result")
}

/// Sends for the time `long`.
fn send(to: SocketAddr, long: Duration, congestion: Option<&str>) -> Result<StreamEnd> {
    let mut stream = connect(to)?;
    if let Some(name) = congestion {
        setsockopt(&stream, TcpCongestion, &name.into()).with_context(|| {
            let known =
                std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
                    .unwrap_or_default();
            format!(
                "the kernel does not offer congestion control `{name}` to this user; it \
                     offers {}",
                known.trim()
            )
        })?;
    }
    let congestion = getsockopt(&stream, TcpCongestion)
        .map(|name| name.to_string_lossy().trim_end_matches('\0').to_owned());
    let chunk = vec![0x5a; CHUNK];
    let (began, cpu, mut bytes) = (Instant::now(), thread_cpu(), 0);
    while began.elapsed() < long {
        bytes += stream.write(&chunk)? as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let (nanos, cpu) = (began.elapsed().as_nanos() as u64, thread_cpu() - cpu);
    // Returns only when the receiver has read everything.
    stream.read_to_end(&mut Vec::new())?;
    Ok(StreamEnd {
        bytes,
        nanos,
        cpu,
        retransmitted: retransmitted(),
        congestion: congestion.unwrap_or_default(),
    })
}

/// Connects; retries for a while, as the receiver may not listen yet.
fn connect(to: SocketAddr) -> Result<TcpStream> {
    let last = Instant::now() + Duration::from_secs(5);
    loop {
        match TcpStream::connect_timeout(&to, Duration::from_secs(5)) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < last => {
                sleep(Duration::from_millis(5));
            }
            stream => return stream.with_context(|| format!("cannot reach {to}")),
        }
    }
}

/// Receives one stream to its end.
fn receive(at: SocketAddr) -> Result<StreamEnd> {
    let (mut stream, _) =
        TcpListener::bind(at).with_context(|| format!("cannot listen at {at}"))?.accept()?;
    let mut chunk = vec![0; CHUNK];
    let mut bytes = stream.read(&mut chunk)? as u64;
    let (began, cpu) = (Instant::now(), thread_cpu());
    loop {
        match stream.read(&mut chunk)? {
            0 => break,
            n => bytes += n as u64,
        }
    }
    let (nanos, cpu) = (began.elapsed().as_nanos() as u64, thread_cpu() - cpu);
    Ok(StreamEnd { bytes, nanos, cpu, retransmitted: 0, congestion: String::new() })
}

/// TCP segments that this namespace has retransmitted; 0 if the kernel does not report it.
fn retransmitted() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    names
        .zip(values)
        .find(|(name, _)| *name == "RetransSegs")
        .and_then(|(_, n)| n.parse().ok())
        .unwrap_or(0)
}
