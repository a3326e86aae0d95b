//! `falaj bench tcp`: TCP between two network namespaces, joined by bare veth
//! (the yardstick: the kernel alone) and by an unlimited emulated link.
//!
//! The paths take turns within one run, so that a busy machine slows both. One
//! stream, from the near end to the far one; what counts is what the receiver's program has
//! read, from its first byte to its last.

use super::{exit, median};
use crate::show::{self, say};
use crate::sim::Interrupted;
use anyhow::{Context, Result, bail, ensure};
use falaj_live::attach;
use falaj_live::clock::{Clock, monotonic, thread_cpu};
use falaj_live::forward::Forwarder;
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{End, Event, Exit, Join, Sandbox, Side, Spec};
use falaj_scenario::Scenario;
use falaj_sched::queue::Limit;
use falaj_sched::rate::Rate;
use falaj_sched::time::{Span, Time};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGINT;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What `bench tcp` takes.
#[derive(clap::Args)]
#[command(after_help = "\
CPU is of one core, for the sender, the receiver and the emulated link; the kernel's work for a
packet is counted with whoever runs when it is done, so it moves between them.

Example:
  falaj bench tcp --seconds 3 --repeat 5")]
pub(crate) struct Args {
    /// How long each stream lasts.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How often each path has its turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Be one end of the stream: for falaj's own use.
    #[arg(long, hide = true)]
    end: Option<Role>,
    /// The other end's address, or the receiver's own.
    #[arg(long, hide = true, requires = "end")]
    at: Option<SocketAddr>,
}

/// What an end of the stream does.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Role {
    Send,
    Receive,
}

/// What an end tells when it is done.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Told {
    /// What it has written or read.
    bytes: u64,
    /// From its first byte to its last, in nanoseconds.
    nanos: u64,
    /// CPU time that it has used, in nanoseconds.
    cpu: u64,
    /// Segments that its namespace has sent again.
    retransmitted: u64,
}

/// One stream through one path.
#[derive(Clone, Copy, Serialize)]
struct Stream {
    gbit_per_s: f64,
    sender_cpu: f64,
    receiver_cpu: f64,
    link_cpu: f64,
    retransmitted: u64,
    /// Units that the link did not pass on.
    lost: u64,
}

/// A path and its streams.
#[derive(Serialize)]
struct Series {
    path: &'static str,
    ip: u8,
    streams: Vec<Stream>,
}

impl Series {
    fn median(&self, of: impl Fn(&Stream) -> f64) -> f64 {
        median(self.streams.iter().map(of).collect())
    }
}

const PATHS: [(Join, &str); 2] = [(Join::Veth, "bare veth"), (Join::Tap, "emulated link")];
const VERSIONS: [u8; 2] = [4, 6];
const PORT: u16 = 5201;
/// What the ends write and read at once.
const CHUNK: usize = 128 << 10;

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let (Some(role), Some(at)) = (args.end, args.at) {
        let told = match role {
            Role::Send => send(at, Duration::from_secs(args.seconds))?,
            Role::Receive => receive(at)?,
        };
        println!("{}", serde_json::to_string(&told)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut series: Vec<Series> =
        VERSIONS.into_iter().flat_map(|ip| PATHS.map(|(_, path)| Series { path, ip, streams: Vec::new() })).collect();
    let bar = show::progress(args.repeat * series.len() as u64, "streaming");
    let mut turns = 0;
    let interrupted = loop {
        match turn(&mut series, args.seconds, &bar) {
            Ok(()) => turns += 1,
            // Only whole turns compare.
            Err(error) if error.is::<Interrupted>() => break true,
            Err(error) => return Err(error),
        }
        if turns == args.repeat {
            break false;
        }
    };
    series.iter_mut().for_each(|s| s.streams.truncate(turns as usize));
    bar.finish_and_clear();
    let exit = exit(interrupted, turns == 0)?;
    let ratios: Vec<f64> = series
        .chunks_exact(PATHS.len())
        .map(|of| of[1].median(|s| s.gbit_per_s) / of[0].median(|s| s.gbit_per_s))
        .collect();
    if args.json {
        let ratios: serde_json::Map<_, _> =
            VERSIONS.iter().zip(&ratios).map(|(ip, r)| (format!("ipv{ip}"), (*r).into())).collect();
        let json = serde_json::json!({ "seconds": args.seconds, "series": series, "ratio_of_medians": ratios });
        say!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(exit);
    }
    print(args, turns, &series, &ratios);
    Ok(exit)
}

/// A stream through each path.
fn turn(series: &mut [Series], seconds: u64, bar: &ProgressBar) -> Result<()> {
    for (i, &ip) in VERSIONS.iter().enumerate() {
        for (j, &(join, _)) in PATHS.iter().enumerate() {
            series[i * PATHS.len() + j].streams.push(stream(join, ip, seconds)?);
            bar.inc(1);
        }
    }
    Ok(())
}

fn print(args: &Args, turns: u64, series: &[Series], ratios: &[f64]) {
    say!("one TCP stream from the near to the far end, {} s, {} times each, in turns; medians", args.seconds, turns);
    let rows = series.iter().enumerate().map(|(i, s)| {
        let rates = || s.streams.iter().map(|s| s.gbit_per_s);
        let cpu = |of: fn(&Stream) -> f64| format!("{:.0} %", 100.0 * s.median(of));
        let emulated = i % PATHS.len() == 1;
        vec![
            format!("IPv{} {}", s.ip, s.path),
            format!("{:.2}", s.median(|s| s.gbit_per_s)),
            format!("{:.2} to {:.2}", rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)),
            if emulated { format!("{:.2}", ratios[i / PATHS.len()]) } else { show::DASH.into() },
            cpu(|s| s.sender_cpu),
            cpu(|s| s.receiver_cpu),
            if emulated { cpu(|s| s.link_cpu) } else { show::DASH.into() },
            format!("{:.0}", s.median(|s| s.retransmitted as f64)),
            format!("{:.0}", s.median(|s| s.lost as f64)),
        ]
    });
    let header = ["", "Gbit/s", "range", "of veth", "CPU sender", "receiver", "link", "sent again", "lost in link"];
    say!("{}", show::table(&header, rows));
}

/// Bits a second of a stream of so many seconds through an unlimited emulated link.
pub(crate) fn through_a_link(seconds: u64) -> Result<f64> {
    Ok(stream(Join::Tap, 4, seconds)?.gbit_per_s * 1e9)
}

/// One stream between two fresh namespaces.
fn stream(join: Join, ip: u8, seconds: u64) -> Result<Stream> {
    let scenario = Scenario::simple(Rate::UNLIMITED, Span::ZERO, Limit::Packets(1000), 1500);
    let link = &scenario.links[0];
    let receiver: IpAddr = if ip == 4 { End::Far.address().into() } else { End::Far.address6().into() };
    let at = SocketAddr::new(receiver, PORT).to_string();
    let seconds = seconds.to_string();
    let side = |role: &str| -> Result<(Side, File)> {
        let program = std::env::current_exe().context("cannot find this program's own file")?.into_os_string();
        let words = ["bench", "tcp", "--end", role, "--at", &at, "--seconds", &seconds].map(Into::into);
        let (reader, writer) = io::pipe()?;
        let side = Side::command(std::iter::once(program).chain(words));
        Ok((Side { stdout: Some(OwnedFd::from(writer)), ..side }, File::from(OwnedFd::from(reader))))
    };
    let (near, from_sender) = side("send")?;
    let (far, from_receiver) = side("receive")?;
    let mut sandbox = Sandbox::start(Spec { join, near, far, ..Spec::default() })?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder = match join {
        Join::Tap => Some(attach::to_sandbox(link, &mut sandbox, clock)?),
        Join::Veth => None,
    };
    priority::be_punctual(Rank::Link);
    sandbox.go(End::Far)?;
    sandbox.go(End::Near)?;
    let cpu = thread_cpu();
    let began = Instant::now();
    wait_for_both(&mut sandbox, forwarder.as_mut())?;
    let link_cpu = (thread_cpu() - cpu) as f64 / began.elapsed().as_nanos() as f64;
    let (sender, receiver) = (told(from_sender)?, told(from_receiver)?);
    ensure!(sender.bytes == receiver.bytes, "{} bytes were sent and {} received", sender.bytes, receiver.bytes);
    let of_time = |end: Told| end.cpu as f64 / end.nanos as f64;
    Ok(Stream {
        gbit_per_s: receiver.bytes as f64 * 8.0 / receiver.nanos as f64,
        sender_cpu: of_time(sender),
        receiver_cpu: of_time(receiver),
        link_cpu,
        retransmitted: sender.retransmitted,
        lost: forwarder.map_or(0, |f| lost(&f)),
    })
}

/// Forwards, if there is something to forward, until both ends are done.
fn wait_for_both(sandbox: &mut Sandbox, mut forwarder: Option<&mut Forwarder>) -> Result<()> {
    let mut running = End::BOTH.to_vec();
    while !running.is_empty() {
        let fds: Vec<_> = running.iter().map(|&end| sandbox.control_fd(end)).collect();
        match &mut forwarder {
            Some(forwarder) => _ = forwarder.run(Time::NEVER, &fds)?,
            // Nothing depends on hearing of it at once.
            None => sleep(Duration::from_millis(5)),
        }
        for end in running.clone() {
            match sandbox.read_event(end)? {
                Some(Event::Exited(Exit::Code(0))) => running.retain(|&other| other != end),
                Some(Event::Exited(Exit::Signal(SIGINT))) => return Err(Interrupted("while streaming").into()),
                Some(_) => bail!("the TCP stream failed at the {end} end"),
                None => {}
            }
        }
    }
    Ok(())
}

fn lost(forwarder: &Forwarder) -> u64 {
    let outside: u64 = forwarder.losses().by_reason().into_iter().map(|(n, _)| n).sum();
    let dropped: u64 = forwarder.flows().iter().flatten().map(|f| f.counters.dropped()).sum();
    outside + dropped
}

fn told(mut from: File) -> Result<Told> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    serde_json::from_str(&text).context("the stream's end told nothing that can be read")
}

/// Sends for so long.
fn send(to: SocketAddr, long: Duration) -> Result<Told> {
    let mut stream = connect(to)?;
    let chunk = vec![0x5a; CHUNK];
    let (began, cpu, mut bytes) = (Instant::now(), thread_cpu(), 0);
    while began.elapsed() < long {
        bytes += stream.write(&chunk)? as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let told = Told { bytes, nanos: began.elapsed().as_nanos() as u64, cpu: thread_cpu() - cpu, retransmitted: 0 };
    // Ends only when the receiver has read it all.
    stream.read_to_end(&mut Vec::new())?;
    Ok(Told { retransmitted: retransmitted(), ..told })
}

/// The receiver may need a moment to be there.
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
fn receive(at: SocketAddr) -> Result<Told> {
    let (mut stream, _) = TcpListener::bind(at).with_context(|| format!("cannot listen at {at}"))?.accept()?;
    let mut chunk = vec![0; CHUNK];
    let mut bytes = stream.read(&mut chunk)? as u64;
    let (began, cpu) = (Instant::now(), thread_cpu());
    loop {
        match stream.read(&mut chunk)? {
            0 => break,
            n => bytes += n as u64,
        }
    }
    Ok(Told { bytes, nanos: began.elapsed().as_nanos() as u64, cpu: thread_cpu() - cpu, retransmitted: 0 })
}

/// TCP segments that this namespace has sent again; 0 where the kernel does not say.
fn retransmitted() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    names.zip(values).find(|(name, _)| *name == "RetransSegs").and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
}
