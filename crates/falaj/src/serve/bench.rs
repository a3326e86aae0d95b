//! `falaj bench serve`: a service with very many adapters, and very many conversations in them, under load: the memory that it
//! takes, and how long whoever asks its API waits.
//!
//! All of it is the service itself, from ports to HTTP, but that an adapter's port is a socket of this process instead of
//! an interface of somebody else's: a thousand of these would measure the kernel.

use super::{api, model, ports, watch};
use crate::control::{Control, Running, terms};
use crate::file;
use crate::plan::standings;
use crate::show::{self, say};
use anyhow::{Context, Result, ensure};
use falaj_live::adapters::{Adapters, Opener};
use falaj_live::attach;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::forward::{Options, Woken};
use falaj_sched::time::Span;
use falaj_traffic::meter::Meter;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What `bench serve` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many adapters.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    adapters: u32,
    /// Conversations in each of them; each has a queue of its own.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    conversations: u32,
    /// Packets a second, of all together.
    #[arg(long, default_value_t = 20_000)]
    packets: u64,
    /// How long.
    #[arg(long, value_parser = file::parse_duration, default_value = "15s")]
    duration: Span,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Who asks: each path, and whether that is a change.
const PATHS: [&str; 4] = ["/v1/adapters/a7", "/v1/adapters", "/metrics", "PATCH /v1/adapters/a7"];
/// A packet's payload.
const PAYLOAD: usize = 100;

fn scenario(args: &Args) -> String {
    let mut text = "[link.uplink]\nrate = \"10gbit\"\nuplink = \"far\"\nscheduler = { kind = \"wf2q+\" }\n".to_owned();
    for n in 0..args.adapters {
        let _ = write!(
            text,
            "\n[link.uplink.flow.a{n}]\nadapter = \"b{n}\"\nneed = {{ rate = \"100kbit\" }}\nqueue = \"20p\"\n\
             each = \"src dst sport dport proto\"\nmax-flows = {}\n",
            args.conversations
        );
    }
    text
}

/// Files that this process may have open.
fn open_files(wanted: u64) -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(wanted <= most, "{wanted} open files are needed, and {most} allowed: raise `ulimit -Hn`");
    Ok(setrlimit(Resource::RLIMIT_NOFILE, wanted, most)?)
}

/// Resident memory of this process, in bytes.
fn memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).context("/proc/self/statm has no size")?;
    Ok(pages * 4096)
}

fn mac(n: u32) -> [u8; 6] {
    let [a, b, c, d] = n.to_be_bytes();
    [2, 0xfa, a, b, c, d]
}

/// A unit of one conversation of an adapter: header, frame.
fn unit(adapter: u32, conversation: u32) -> Vec<u8> {
    let mut unit = vec![0; 12];
    unit.extend([2, 0, 0, 0, 0, 0xfe]);
    unit.extend(mac(adapter));
    unit.extend([0x08, 0]);
    let length = (28 + PAYLOAD) as u16;
    let [high, low] = length.to_be_bytes();
    unit.extend([0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0]);
    unit.extend([10, adapter.to_be_bytes()[1], adapter.to_be_bytes()[2], adapter.to_be_bytes()[3]]);
    unit.extend([10, 255, 255, 1]);
    unit.extend((1_024 + conversation as u16).to_be_bytes());
    unit.extend(9u16.to_be_bytes());
    unit.extend((8 + PAYLOAD as u16).to_be_bytes());
    unit.extend([0, 0]);
    unit.resize(unit.len() + PAYLOAD, 0);
    unit
}

/// Sends from all adapters in turn, at this rate as far as there is room, until told to end; how many went.
fn load(args: &Args, inside: &[UnixDatagram], over: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0);
    let gap = Duration::from_nanos(1_000_000_000 / args.packets.max(1));
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        let adapter = turn % args.adapters;
        let conversation = turn / args.adapters % args.conversations;
        sent += u64::from(inside[adapter as usize].send(&unit(adapter, conversation)).is_ok());
        turn = turn.wrapping_add(1);
        let due = gap * turn;
        std::thread::sleep(due.saturating_sub(began.elapsed()).min(Duration::from_millis(20)));
    }
    sent
}

/// What answered, and how long it took.
fn ask(api: &Path, path: &str, round: u64) -> Result<(u16, Duration, usize)> {
    let began = Instant::now();
    let (method, path) = path.split_once(' ').unwrap_or(("GET", path));
    let body = if method == "PATCH" { format!("{{\"weight\": {}}}", 1 + round % 3) } else { String::new() };
    let mut stream = UnixStream::connect(api)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0);
    Ok((status, began.elapsed(), answer.len()))
}

/// What became of one path.
#[derive(Default)]
struct Asked {
    times: Meter,
    bytes: usize,
    refused: u64,
}

fn client(api: &Path, path: &str, over: &AtomicBool) -> Result<Asked> {
    let mut asked = Asked::default();
    for round in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let (status, took, bytes) = ask(api, path, round)?;
        asked.times.record(Span(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
        asked.bytes = bytes;
        asked.refused += u64::from(status != 200);
        std::thread::sleep(Duration::from_millis(if path.starts_with("PATCH") { 500 } else { 10 }));
    }
    Ok(asked)
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    open_files(u64::from(args.adapters) * 2 + 200)?;
    let text = scenario(args);
    let parsed = file::parse(&text, "bench serve")?;
    let promised = standings(&parsed)?;
    let before = memory()?;
    let opener = Opener::start()?;
    let all = Adapters::new()?;
    let mut inside = Vec::new();
    for n in 0..args.adapters {
        let (port, socket) = attach::unit_port(&format!("adapter a{n}"))?;
        all.add(&format!("a{n}"), port, Some(mac(n)))?;
        inside.push(socket);
    }
    let (uplink, outside) = attach::unit_port("the uplink")?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder = attach::to_adapters(&parsed.network(), &all, uplink, clock, Options::default())?;
    forwarder.hold_to(terms(&parsed, &promised));
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("control");
    let http: PathBuf = directory.path().join("http");
    let running = Running {
        command: "serve",
        about: "bench".into(),
        file: PathBuf::from("bench"),
        scenario: Arc::new(parsed.clone()),
        text,
        recording: false,
        standings: Some(Arc::new(promised)),
    };
    let mut control = Control::open(Some(&place), running)?;
    control.change_with(ports::beside(&all, opener, &parsed)?);
    let desk = control.desk().context("the control socket is open")?;
    let published = watch::Published::new();
    let watching = watch::Watching::begin(Arc::clone(&desk), Arc::clone(&published))?;
    let told = model::Service::new(&PathBuf::from("bench"), std::collections::BTreeMap::new());
    let listeners = api::listen(&http, None)?;
    let serving = api::Serving::begin(listeners, api::App::new(Arc::clone(&desk), published, told, None))?;
    let over = AtomicBool::new(false);
    let arrived = AtomicU64::new(0);
    let end = clock.now() + args.duration;
    let (sent, asked) = std::thread::scope(|scope| -> Result<(u64, Vec<Asked>)> {
        let loading = scope.spawn(|| load(args, &inside, &over));
        scope.spawn(|| {
            let mut buffer = [0; 2048];
            while !over.load(Ordering::Relaxed) {
                match outside.recv(&mut buffer) {
                    Ok(_) => drop(arrived.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        let clients: Vec<_> = PATHS.iter().map(|path| scope.spawn(|| client(&http, path, &over))).collect();
        loop {
            let fd = control.as_fd().context("the control socket is open")?;
            match forwarder.run(end, &[fd])? {
                Woken::Deadline => break,
                _ => drop(control.serve(&mut forwarder)?),
            }
        }
        over.store(true, Ordering::Relaxed);
        // Who is in the middle of a question is answered still.
        while !clients.iter().all(|client| client.is_finished()) {
            let fd = control.as_fd().context("the control socket is open")?;
            forwarder.run(clock.now() + Span::from_millis(5), &[fd])?;
            control.serve(&mut forwarder)?;
        }
        let sent = loading.join().ok().context("the load failed")?;
        let asked = clients.into_iter().map(|client| client.join().ok().context("a client failed")?);
        Ok((sent, asked.collect::<Result<_>>()?))
    })?;
    let resident = memory()?;
    let active: u64 = (0..args.adapters)
        .filter_map(|n| forwarder.report(falaj_engine::PipeId(0), Some(falaj_sched::queue::FlowId(n)), 0))
        .map(|report| report.active)
        .sum();
    drop(control);
    serving.end();
    watching.end();
    tell(
        args,
        &asked,
        &json!({
            "adapters": args.adapters, "conversations": active, "sent": sent, "arrived": arrived.into_inner(),
            "memory_before": before, "memory": resident,
        }),
    )
}

fn tell(args: &Args, asked: &[Asked], of: &Value) -> Result<ExitCode> {
    let nanos = |span: Option<Span>| show::span(span);
    if args.json {
        let paths: Vec<Value> = PATHS
            .iter()
            .zip(asked)
            .map(|(path, asked)| {
                json!({
                    "path": path, "answers": asked.times.count(), "refused": asked.refused, "bytes": asked.bytes,
                    "p50_ns": asked.times.quantile(0.5).map(|s| s.0), "p99_ns": asked.times.quantile(0.99).map(|s| s.0),
                    "max_ns": asked.times.max().map(|s| s.0),
                })
            })
            .collect();
        let mut all = of.clone();
        all["paths"] = paths.into();
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mb = |key: &str| of[key].as_f64().unwrap_or(0.0) / 1e6;
    say!(
        "{} adapters, {} conversations with queues of their own; {} of {} packets arrived; resident memory {:.0} MB, {:.0} MB before",
        of["adapters"],
        of["conversations"],
        of["arrived"],
        of["sent"],
        mb("memory"),
        mb("memory_before")
    );
    let rows = PATHS.iter().zip(asked).map(|(path, asked)| {
        vec![
            (*path).to_owned(),
            asked.times.count().to_string(),
            asked.refused.to_string(),
            asked.bytes.to_string(),
            nanos(asked.times.quantile(0.5)),
            nanos(asked.times.quantile(0.99)),
            nanos(asked.times.max()),
        ]
    });
    say!("{}", show::table(&["asked", "answers", "refused", "bytes", "p50", "p99", "most"], rows));
    Ok(ExitCode::SUCCESS)
}
