//! The kernel's side of a cell: real connections through the link, in a guest in virtual time.
//!
//! The host starts this program as `tcp-cell`, which boots a guest and runs itself there again. The
//! guest creates two network namespaces with the link between them. One process at the near end has
//! both senders, one at the far end has both receivers. They share an instant of the guest's clock
//! at which the first connection starts.

use super::grid::{Cell, PARTS, PORT, Times};
use super::measured::Measured;
use anyhow::{Context, Result, bail, ensure};
use falaj_control::pacing::default_options;
use falaj_guest::boot::{CpuTime, GuestConfig};
use falaj_guest::epoch::Epoch;
use falaj_guest::job::Job;
use falaj_guest::kernel::Kernel;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::{Forwarder, LiveFlow};
use falaj_live::sandbox::{End, Exit, Join, Sandbox, SandboxSide, SandboxSpec, SideEvent};
use falaj_live::wiring;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::file;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Memory of a guest in bytes.
const MEMORY: u64 = 768 << 20;
/// A guest is ended if its virtual time stands still for this real time.
const STUCK: Duration = Duration::from_secs(120);
/// Time for making the connections, in addition to four round trips, before the first one starts to
/// send.
const LEAD: Span = Span::from_millis(500);
/// Number of bytes that the ends write and read at once.
const CHUNK: usize = 256 << 10;
/// The guest's command, hidden from users.
const COMMAND: &str = "tcp-cell";

/// The tasks of a guest and of the processes in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Task {
    Cell { cell: Cell, periods: u64, seed: u64 },
    Send { at: SocketAddr, zero: u64, starts: Vec<u64>, end: u64 },
    Receive { at: SocketAddr, zero: u64, counted: [u64; 2], end: u64 },
}

/// Arguments of the hidden command.
#[derive(clap::Args)]
pub struct TcpCellArgs {
    /// As JSON: a cell, or one of its ends.
    task: String,
    /// The guest's kernel.
    #[arg(long)]
    kernel: Option<std::path::PathBuf>,
}

/// Measures a cell in a guest.
pub(super) fn measure(cell: &Cell, kernel: &Kernel, periods: u64, seed: u64) -> Result<Measured> {
    let task = serde_json::to_string(&Task::Cell { cell: *cell, periods, seed })?;
    let ran = Command::new(this_program()?)
        .args([COMMAND, &task, "--kernel"])
        .arg(&kernel.path)
        .stdin(Stdio::null())
        .output()
        .context("cannot start this program again")?;
    if !ran.status.success() {
        let told = String::from_utf8_lossy(&ran.stderr);
        bail!("{cell}: the guest ended with {}: {}", ran.status, told.trim());
    }
    serde_json::from_slice(&ran.stdout).with_context(|| {
        format!(
            "{cell}: the guest's report cannot be read: {}",
            String::from_utf8_lossy(&ran.stderr)
        )
    })
}

/// `falaj tcp-cell`: starts a guest with a cell, or runs a task in it.
///
/// # Errors
/// There is no guest, or the cell cannot be measured.
pub fn main(args: &TcpCellArgs) -> Result<ExitCode> {
    let task: Task =
        serde_json::from_str(&args.task).context("this command is for falaj's own use")?;
    match task {
        Task::Send { at, zero, starts, end } => send(at, zero, &starts, end),
        Task::Receive { at, zero, counted, end } => receive(at, zero, counted, end),
        Task::Cell { cell, periods, seed } if falaj_guest::is_inside() => {
            let measured = inside(&cell, cell.times(periods), seed)?;
            println!("{}", serde_json::to_string(&measured)?);
            Ok(ExitCode::SUCCESS)
        }
        Task::Cell { seed, .. } => {
            let config = GuestConfig {
                kernel: falaj_guest::kernel::find(args.kernel.as_deref())?,
                cpu: CpuTime::default(),
                epoch: Epoch::default(),
                memory: MEMORY,
                seed,
                stuck: STUCK,
            };
            let words = [this_program()?.into_os_string(), COMMAND.into(), (&args.task).into()];
            let ended = falaj_guest::run(&config, Job::here(words.into())?)?;
            Ok(ExitCode::from(ended.exit.shell_code()))
        }
    }
}

fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// Settings of the guest's kernel, which new namespaces inherit. All but the congestion control are
/// memory limits: with the default limits, windows would be limited by buffers instead of queues.
fn settings(cell: &Cell) -> [(&'static str, String); 3] {
    let buffers = |first: u64| format!("4096 {first} {}", 256 << 20);
    [
        ("tcp_congestion_control", cell.congestion.name().to_owned()),
        ("tcp_rmem", buffers(131_072)),
        ("tcp_wmem", buffers(16_384)),
    ]
}

/// Measures the cell inside the guest.
fn inside(cell: &Cell, times: Times, seed: u64) -> Result<Measured> {
    for (name, value) in settings(cell) {
        fs::write(format!("/proc/sys/net/ipv4/{name}"), &value)
            .with_context(|| format!("the guest's kernel refuses {name} = {value}"))?;
    }
    let scenario = file::parse_quietly(&cell.link(seed), "link")?;
    let lead = LEAD + Span::from_millis(4 * cell.round_trip);
    let zero = monotonic() + lead.0;
    let at = SocketAddr::new(End::Far.address().into(), PORT);
    let end = times.end.0;
    let send = Task::Send { at, zero, starts: vec![0, times.second.0], end };
    let receive = Task::Receive { at, zero, counted: [times.counted.0, times.second.0], end };
    let (near, _) = side(&send)?;
    let (far, mut report) = side(&receive)?;
    let spec = SandboxSpec { tso: false, join: Join::Tap, near, far, ..SandboxSpec::default() };
    let mut sandbox = Sandbox::start(spec)?;
    // The engine's clock begins before the first packet, so that no packet is at time zero.
    let clock = Clock::from_zero(zero - lead.0);
    let mut forwarder =
        wiring::to_sandbox(&scenario.network(), &mut sandbox, clock, default_options())?;
    sandbox.go(End::Far)?;
    sandbox.go(End::Near)?;
    let mut until = |then: Span| -> Result<LinkState> {
        let deadline = Time::ZERO + lead + then;
        while forwarder.clock().now() < deadline {
            let fds = End::BOTH.map(|end| sandbox.control_fd(end));
            forwarder.run(deadline, &fds)?;
            for side in End::BOTH {
                match sandbox.read_event(side)? {
                    None => {}
                    Some(SideEvent::Exited(Exit::Code(0))) if then >= times.end => {
                        return Ok(LinkState::of(&forwarder));
                    }
                    Some(_) => bail!("the {side} end failed before its time"),
                }
            }
        }
        Ok(LinkState::of(&forwarder))
    };
    let begun = until(times.counted)?;
    let alone = until(times.second)?;
    let mut sent = vec![alone.sent()];
    for part in 1..=PARTS {
        sent.push(until(times.second + times.part() * part)?.sent());
    }
    until(times.end + Span::from_secs(1))?;
    let mut text = String::new();
    report.read_to_string(&mut text)?;
    let received: ReceivedBytes =
        serde_json::from_str(&text).context("the receiver's report cannot be read")?;
    let parts = sent.windows(2).map(|pair| [0, 1].map(|flow| pair[1][flow] - pair[0][flow]));
    let counted = times.second - times.counted;
    Ok(Measured {
        goodput: (received.bytes * 8) as f64 / counted.as_secs_f64(),
        parts: parts.collect(),
        ..alone.since(&begun)
    })
}

/// The link's counters of both flows at an instant.
struct LinkState([LiveFlow; 2]);

impl LinkState {
    fn of(forwarder: &Forwarder) -> LinkState {
        let up = &forwarder.flows()[0];
        LinkState([up[0].clone(), up[1].clone()])
    }

    fn sent(&self) -> [u64; 2] {
        [0, 1].map(|flow| self.0[flow].counters.sent_bytes)
    }

    /// The measurements of the first flow between an earlier instant and this one.
    fn since(&self, then: &LinkState) -> Measured {
        let (now, then) = (&self.0[0], &then.0[0]);
        let gone = |flow: &LiveFlow| flow.counters.dropped() + flow.counters.lost;
        Measured {
            offered: now.counters.offered - then.counters.offered,
            gone: gone(now) - gone(then),
            marked: now.counters.marked - then.counters.marked,
            ..Measured::of_delays(&now.delay, Some(&then.delay))
        }
    }
}

/// A side that executes this task, and the pipe with its report.
fn side(task: &Task) -> Result<(SandboxSide, File)> {
    let (reader, writer) = io::pipe()?;
    let words: [OsString; 3] =
        [this_program()?.into_os_string(), COMMAND.into(), serde_json::to_string(task)?.into()];
    let side = SandboxSide { stdout: Some(OwnedFd::from(writer)), ..SandboxSide::command(words) };
    Ok((side, File::from(OwnedFd::from(reader))))
}

fn sleep_until(instant: u64) {
    sleep(Duration::from_nanos(instant.saturating_sub(monotonic())));
}

/// Runs both senders.
fn send(at: SocketAddr, zero: u64, starts: &[u64], end: u64) -> Result<ExitCode> {
    for (port, &start) in (at.port()..).zip(starts) {
        let mut stream = connect(SocketAddr::new(at.ip(), port))?;
        spawn(move || {
            let chunk = vec![0x5a; CHUNK];
            sleep_until(zero + start);
            // Fails at the end, when the receiver has exited.
            while stream.write_all(&chunk).is_ok() {}
        });
    }
    ensure!(monotonic() < zero, "the connections were made too late");
    sleep_until(zero + end);
    Ok(ExitCode::SUCCESS)
}

/// Connects; retries for a while, as the receiver may not listen yet.
fn connect(to: SocketAddr) -> Result<TcpStream> {
    let mut tries = 0;
    loop {
        match TcpStream::connect(to) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && tries < 100 => {
                tries += 1;
                sleep(Duration::from_millis(1));
            }
            stream => return stream.with_context(|| format!("cannot reach {to}")),
        }
    }
}

/// The receivers' report.
#[derive(Serialize, Deserialize)]
struct ReceivedBytes {
    /// Bytes of the first connection in the counted time.
    bytes: u64,
}

/// Runs both receivers.
fn receive(at: SocketAddr, zero: u64, counted: [u64; 2], end: u64) -> Result<ExitCode> {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    for (number, port) in [(0, at.port()), (1, at.port() + 1)] {
        let address = SocketAddr::new(at.ip(), port);
        let listener =
            TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        spawn(move || -> Result<()> {
            let (mut stream, _) = listener.accept()?;
            let mut chunk = vec![0; CHUNK];
            loop {
                let bytes = stream.read(&mut chunk)? as u64;
                if number == 0 {
                    BYTES.fetch_add(bytes, Ordering::Relaxed);
                }
                if bytes == 0 {
                    return Ok(());
                }
            }
        });
    }
    let at = counted.map(|instant| {
        sleep_until(zero + instant);
        BYTES.load(Ordering::Relaxed)
    });
    sleep_until(zero + end);
    println!("{}", serde_json::to_string(&ReceivedBytes { bytes: at[1] - at[0] })?);
    Ok(ExitCode::SUCCESS)
}
