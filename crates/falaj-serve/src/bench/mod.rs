//! `falaj bench serve`: a service under load with very many adapters, and very many conversations
//! in each. It measures the memory used and the response time of the API.
//!
//! Everything is the real service, from ports to HTTP, except that an adapter's port is a socket of
//! this process instead of an external interface: with a thousand interfaces, the benchmark would
//! measure the kernel.

mod effect;
mod fixture;

use anyhow::{Context, Result};
use falaj_sched::units::time::Span;
use falaj_terminal::{arguments, text};
use falaj_traffic::meter::Meter;
use fixture::{Fixture, ask, unit};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `bench serve`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of adapters.
    #[arg(long, default_value_t = 1_000, value_parser = arguments::number::<u32>(1..=20_000))]
    adapters: u32,
    /// Number of conversations of each adapter; each has its own queue.
    #[arg(long, default_value_t = 100, value_parser = arguments::number::<u32>(1..=1_000))]
    conversations: u32,
    /// Packets per second of all conversations together.
    #[arg(long, default_value_t = 20_000)]
    packets: u64,
    /// Duration of the measurement, which begins after each conversation has sent a packet.
    #[arg(long, value_parser = arguments::parse_duration, default_value = "15s")]
    duration: Span,
    /// Measure instead the time from a change of a weight over the API until the first packets on
    /// the wire that are sent by the new weight.
    #[arg(long)]
    effect: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The requests of the clients. A path without a method is read (GET); the path with a method is a
/// change.
const PATHS: [&str; 4] = ["/v1/adapters/a7", "/v1/adapters", "/metrics", "PATCH /v1/adapters/a7"];
/// Rate of the link in bits per second.
const LINK: u64 = 10_000_000_000;
/// Payload of a packet in bytes.
const PAYLOAD: usize = 100;
/// Number of changes of a weight.
const CHANGES: u32 = 100;

fn scenario(args: &Args) -> String {
    let mut text = format!(
        "[link.uplink]\nrate = \"{LINK}bit\"\nuplink = \"far\"\nscheduler = {{ kind = \"wf2q+\" }}\n"
    );
    // Each conversation requires half of its share of the link's rate.
    let rate = LINK / u64::from(args.adapters) / u64::from(args.conversations) / 2;
    for n in 0..args.adapters {
        let _ = write!(
            text,
            "\n[link.uplink.flow.a{n}]\nadapter = \"b{n}\"\nrequires = {{ rate = \"{rate}bit\" }}\nqueue = \"20p\"\n\
             mask = \"src dst sport dport proto\"\nmax-flows = {}\n",
            args.conversations
        );
    }
    text
}

/// Resident memory of this process, in bytes.
fn memory() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .context("/proc/self/statm has no size")?;
    Ok(pages * 4096)
}

/// Sends from all adapters in turn, at the configured packet rate while the sockets have room,
/// until `over` is set. Returns the number of packets sent.
fn load(args: &Args, inside: &[UnixDatagram], over: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0);
    let gap = Duration::from_nanos(1_000_000_000 / args.packets.max(1));
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        let adapter = turn % args.adapters;
        let conversation = turn / args.adapters % args.conversations;
        sent +=
            u64::from(inside[adapter as usize].send(&unit(adapter, conversation, PAYLOAD)).is_ok());
        turn = turn.wrapping_add(1);
        let due = gap * turn;
        std::thread::sleep(due.saturating_sub(began.elapsed()).min(Duration::from_millis(20)));
    }
    sent
}

/// The response times of the requests to one path.
#[derive(Default)]
struct PathTimes {
    times: Meter,
    bytes: usize,
    refused: u64,
}

fn client(api: &Path, path: &str, over: &AtomicBool) -> Result<PathTimes> {
    let mut asked = PathTimes::default();
    let (method, path) = path.split_once(' ').unwrap_or(("GET", path));
    for round in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let changes = method == "PATCH";
        let body =
            if changes { format!("{{\"weight\": {}}}", 1 + round % 3) } else { String::new() };
        let (status, took, bytes) = ask(api, method, path, &body)?;
        asked.times.record(Span(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
        asked.bytes = bytes;
        asked.refused += u64::from(status != 200);
        std::thread::sleep(Duration::from_millis(if changes { 100 } else { 10 }));
    }
    Ok(asked)
}

/// Runs `falaj bench serve`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    if args.effect {
        return tell_effect(args);
    }
    let before = memory()?;
    let (mut stand, outside) = Fixture::new(scenario(args), args.adapters)?;
    let over = AtomicBool::new(false);
    let arrived = AtomicU64::new(0);
    let mut filled = 0;
    let (sent, asked) = std::thread::scope(|scope| -> Result<(u64, Vec<PathTimes>)> {
        let loading = scope.spawn(|| load(args, &outside.adapters, &over));
        scope.spawn(|| {
            let mut buffer = [0; 2048];
            while !over.load(Ordering::Relaxed) {
                match outside.uplink.recv(&mut buffer) {
                    Ok(_) => drop(arrived.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        // Every conversation sends a packet before the first request.
        let warm = u64::from(args.adapters) * u64::from(args.conversations) * 1_000_000_000
            / args.packets.max(1);
        stand.run(Span(warm))?;
        (filled, _) = (memory()?, stand.forwarder.take_latest());
        let clients: Vec<_> =
            PATHS.iter().map(|path| scope.spawn(|| client(&outside.http, path, &over))).collect();
        stand.run(args.duration)?;
        over.store(true, Ordering::Relaxed);
        // The service runs until the requests in progress are answered.
        while !clients.iter().all(|client| client.is_finished()) {
            stand.run(Span::from_millis(5))?;
        }
        let sent = loading.join().ok().context("the load failed")?;
        let asked =
            clients.into_iter().map(|client| client.join().ok().context("a client failed")?);
        Ok((sent, asked.collect::<Result<_>>()?))
    })?;
    let (resident, late) = (memory()?, stand.forwarder.take_latest());
    let active: u64 = (0..args.adapters)
        .filter_map(|n| {
            stand.forwarder.report(
                falaj_engine::PipeId(0),
                Some(falaj_sched::queues::queue::FlowId(n)),
                0,
            )
        })
        .map(|report| report.active)
        .sum();
    stand.end();
    tell(
        args,
        &asked,
        &json!({
            "adapters": args.adapters, "conversations": active, "sent": sent,
            "arrived": arrived.into_inner(),
            "memory_before": before, "memory_filled": filled, "memory": resident,
            "latest_ns": late.0,
        }),
    )
}

/// Reports the time until a change takes effect on the wire.
fn tell_effect(args: &Args) -> Result<ExitCode> {
    let effect::Effect { wire, answers } = effect::measure(CHANGES)?;
    if args.json {
        let of = |meter: &Meter| {
            json!({
                "p50_ns": meter.quantile(0.5).map(|s| s.0),
                "p99_ns": meter.quantile(0.99).map(|s| s.0),
                "max_ns": meter.max().map(|s| s.0),
            })
        };
        say!(
            "{}",
            serde_json::to_string_pretty(
                &json!({ "changes": CHANGES, "wire": of(&wire), "answers": of(&answers) })
            )?
        );
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "{CHANGES} changes of a weight over HTTP, at a full link of 100 Mbit/s; times count from just before the request"
    );
    let row = |what: &str, meter: &Meter| {
        let of = |q| text::span(meter.quantile(q));
        vec![what.to_owned(), of(0.5), of(0.99), text::span(meter.max())]
    };
    let rows = [
        row("to the first packets on the wire by the new weight", &wire),
        row("to the answer", &answers),
    ];
    say!("{}", text::table(&["", "p50", "p99", "most"], rows));
    Ok(ExitCode::SUCCESS)
}

fn tell(args: &Args, asked: &[PathTimes], of: &Value) -> Result<ExitCode> {
    let nanos = |span: Option<Span>| text::span(span);
    if args.json {
        let paths: Vec<Value> = PATHS
            .iter()
            .zip(asked)
            .map(|(path, asked)| {
                json!({
                    "path": path, "answers": asked.times.count(), "refused": asked.refused,
                    "bytes": asked.bytes,
                    "p50_ns": asked.times.quantile(0.5).map(|s| s.0),
                    "p99_ns": asked.times.quantile(0.99).map(|s| s.0),
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
        "{} adapters, {} conversations with queues of their own; {} of {} packets arrived, handed \
         over {} late at most; resident memory {:.0} MB before, {:.0} MB when all had sent, {:.0} \
         MB in the end",
        of["adapters"],
        of["conversations"],
        of["arrived"],
        of["sent"],
        text::nanos(of["latest_ns"].as_f64().unwrap_or(0.0)),
        mb("memory_before"),
        mb("memory_filled"),
        mb("memory")
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
    say!("{}", text::table(&["asked", "answers", "refused", "bytes", "p50", "p99", "most"], rows));
    Ok(ExitCode::SUCCESS)
}
