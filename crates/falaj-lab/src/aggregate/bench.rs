//! `falaj aggregate bench`: compares ways in which packets cross from one process to another. The
//! ways take turns within one run, so that a busy machine slows all of them.

use super::consumer::middle;
use super::producer::{Crossing, CrossingResult, ONE, OfferedLoad, RING, run, separate_processors};
use super::{CrossingCost, cost};
use crate::bench::median;
use anyhow::{Result, ensure};
use falaj_engine::batch::{ADDRESS, BatchPolicy, LENGTH};
use falaj_live::priority::{self, Rank};
use falaj_queueing::Policy as Filled;
use falaj_scenario::{parse_size, parse_span};
use falaj_sched::units::time::Span;
use falaj_terminal::arguments::parse_duration;
use falaj_terminal::{progress, text};
use falaj_traffic::meter::Meter;
use serde::Serialize;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// Arguments of `aggregate bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Two processes: this one sends packets, the other one receives them. CPU is that of each thread and
varies little on a busy machine; delays and packet rates do vary, so compare only figures of one
run. If permitted, both run in the class SCHED_FIFO, each on a processor of its own if there are
two. The sender polls the clock all the time.

Delay is from a packet's arrival to the end of its crossing; a packet arrives at the instant that
its source chose, even if the sender notices it later. Waited is the part of the delay in the
batch, beside the value of the formula for Poisson arrivals. Late is the time from a batch's
timeout to its departure.

Delay and waited are medians over the means of 20 ms each, since a machine that stalls for
milliseconds says nothing about batches. JSON has the mean delay over all packets, too.

With --cost the reader is slowed down: the paper's guest takes --cost 11.4us,1.07us for the two
crossings of each packet that it forwards, or 80,000 packets/s one by one.

Examples:
  falaj aggregate bench
  falaj aggregate bench --cost 11.4us,1.07us --rates 0
  falaj aggregate bench --packets 160 --bytes 16kB --timeout 100us --rates 200e3")]
pub struct Args {
    /// Number of packets in a full batch.
    #[arg(long, default_value_t = 62,
        value_parser = falaj_terminal::arguments::number::<u32>(2..=65_536))]
    packets: u32,
    /// Size of a full batch.
    #[arg(long, value_name = "SIZE", default_value = "4096B", value_parser = parse_size)]
    bytes: u64,
    /// Longest time from a batch's first packet until it leaves, even if it is not full.
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = parse_span)]
    timeout: Span,
    /// Packet size.
    #[arg(long, value_name = "SIZE", default_value = "64B", value_parser = parse_size)]
    size: u64,
    /// Rates at which delays are measured, in packets per second, separated by commas; 0: none.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true,
        default_value = "80e3,200e3,800e3", value_parser = per_second)]
    rates: Vec<f64>,
    /// Cost to the reader: a time per batch and a time per packet.
    #[arg(long, value_name = "TIME,TIME", default_value = "0s,0s", value_parser = cost)]
    cost: CrossingCost,
    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    each: Span,
    /// Number of measurements of each policy and rate, in turns.
    #[arg(long, default_value_t = 3,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    repeat: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn per_second(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(rate) if rate.is_finite() && (0.0..=1e8).contains(&rate) => Ok(rate),
        _ => Err("packets a second are a number up to 1e8: 200e3".into()),
    }
}

/// The results of one way under one load, over all turns.
#[derive(Serialize)]
struct CrossingFigures {
    way: String,
    /// The required packets per second; `None`: as many as possible.
    asked: Option<f64>,
    /// Packets per second that crossed.
    rate: f64,
    /// CPU time of the reader, and of the sender, per packet, in nanoseconds.
    reader_cpu: f64,
    sender_cpu: f64,
    /// Mean number of packets in a batch.
    packets: f64,
    /// Wake-ups per packet, in both directions.
    wakeups: f64,
    delay: Option<f64>,
    /// Mean delay of all packets, in nanoseconds.
    delay_mean: Option<f64>,
    delay_p99: Option<f64>,
    waited: Option<f64>,
    /// Mean wait of packets in their batches by the formula, in nanoseconds.
    formula: Option<f64>,
    /// Lateness of batches after their timeout, 99.9th percentile, in nanoseconds.
    late: Option<f64>,
}

/// Runs `falaj aggregate bench`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let ways = ways(args)?;
    let mut rates: Vec<f64> = args.rates.clone();
    rates.retain(|rate| *rate > 0.0);
    let loads: Vec<Option<f64>> =
        std::iter::once(None).chain(rates.into_iter().map(Some)).collect();
    priority::be_punctual(Rank::Sender);
    let reader_processor = separate_processors();
    let mut turns: Vec<Vec<CrossingResult>> =
        loads.iter().flat_map(|_| &ways).map(|_| Vec::new()).collect();
    let bar = progress::long_bar(args.repeat * turns.len() as u64, "measuring");
    for turn in 0..args.repeat {
        let all = loads.iter().flat_map(|&rate| ways.iter().map(move |(_, way)| (rate, *way)));
        for ((rate, way), outcomes) in all.zip(&mut turns) {
            let size = args.size as usize;
            let (long, cost) = (args.each, args.cost);
            let load = OfferedLoad {
                rate,
                streams: ONE,
                step: None,
                size,
                long,
                skip: Span::ZERO,
                part: 0.99,
                cost,
                exponential: false,
                ring: RING,
                seed: turn,
                reader_processor,
            };
            outcomes.push(run(way, &load)?);
            // Pauses, so that other processes get time and the kernel need not throttle this one.
            sleep(Duration::from_nanos(args.each.0 / 8));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let all = loads.iter().flat_map(|&rate| ways.iter().map(move |way| (rate, way)));
    let rows = all.zip(&turns).map(|((rate, way), outcomes)| row(args, rate, way, outcomes));
    let rows = rows.collect::<Result<Vec<CrossingFigures>>>()?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))?);
    } else {
        tell(args, &rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// The ways that are compared.
fn ways(args: &Args) -> Result<Vec<(String, Crossing)>> {
    let least = LENGTH + args.size as usize;
    ensure!((22..=9000).contains(&args.size), "--size: a packet here has 22 B to 9 kB");
    ensure!(
        (least as u64..=1 << 16).contains(&args.bytes),
        "--bytes: a batch that holds a packet of {} B has {least} B to 64 KiB",
        args.size
    );
    let bytes = args.bytes as u32;
    let filled =
        BatchPolicy { packets: args.packets, bytes, timeout: args.timeout, when_idle: false };
    let way = |policy, always_ring| Crossing { policy, always_ring, tuned: None };
    Ok(vec![
        ("one by one, each rings".into(), way(BatchPolicy::one_by_one(bytes), true)),
        ("one by one".into(), way(BatchPolicy::one_by_one(bytes), false)),
        (format!("{}, {}", args.packets, args.timeout), way(filled, false)),
        (format!("{}, idle", args.packets), way(BatchPolicy { when_idle: true, ..filled }, false)),
    ])
}

fn row(
    args: &Args,
    rate: Option<f64>,
    (name, way): &(String, Crossing),
    outcomes: &[CrossingResult],
) -> Result<CrossingFigures> {
    let sum = |f: &dyn Fn(&CrossingResult) -> f64| outcomes.iter().map(f).sum::<f64>();
    let sent = sum(&|o| o.packets as f64);
    let counted = sum(&|o| o.report.packets as f64).max(1.0);
    let mut late = Meter::new();
    outcomes.iter().for_each(|o| late.add(&o.late));
    let each = |nanos: f64, of: f64| nanos / of.max(1.0);
    let room = (args.bytes as usize - ADDRESS) / (args.size as usize - ADDRESS + LENGTH);
    let most = way.policy.packets.min(room as u32);
    // The formula uses the actual rate.
    let came = sent / sum(&|o| o.nanos as f64).max(1.0);
    let filled = Filled { size: most as usize, timeout: Some(way.policy.timeout.0 as f64) };
    let formula = (most > 1 && !way.policy.when_idle)
        .then(|| filled.fill(came))
        .transpose()?
        .map(|fill| fill.wait);
    let delays =
        || outcomes.iter().filter_map(|o| Some((o.report.delay?, o.report.packets as f64)));
    Ok(CrossingFigures {
        way: name.clone(),
        asked: rate,
        rate: counted / sum(&|o| o.report.nanos as f64).max(1.0) * 1e9,
        reader_cpu: each(sum(&|o| o.report.cpu as f64), counted),
        sender_cpu: each(sum(&|o| o.cpu as f64), sent),
        packets: each(counted, sum(&|o| o.report.batches as f64)),
        wakeups: each(sum(&|o| (o.rung + o.report.rung) as f64), sent),
        delay: rate.and_then(|_| middle(outcomes.iter().flat_map(|o| &o.report.pieces))),
        delay_mean: rate.map(|_| {
            each(delays().map(|((mean, _), n)| mean * n).sum(), delays().map(|(_, n)| n).sum())
        }),
        delay_p99: rate.map(|_| median(delays().map(|((_, p99), _)| p99 as f64).collect())),
        waited: rate.and_then(|_| middle(outcomes.iter().flat_map(|o| &o.waited))),
        formula: rate.and(formula),
        late: late.quantile(0.999).map(|late| late.0 as f64),
    })
}

fn tell(args: &Args, rows: &[CrossingFigures]) {
    say!(
        "packets of {} B from one process to another, {} x {} each, in turns",
        args.size,
        args.repeat,
        args.each
    );
    let or_dash = |figure: Option<f64>| figure.map_or(text::DASH.into(), text::nanos);
    let cells = rows.iter().map(|row| {
        // Relative to one wake-up per packet under the same load.
        let base = rows.iter().find(|base| base.asked == row.asked).unwrap_or(row);
        vec![
            row.asked.map_or("flood".into(), |rate| format!("{:.0} K/s", rate / 1e3)),
            row.way.clone(),
            format!("{:.3}", row.rate / 1e6),
            format!("{:.1}", row.rate / base.rate),
            format!("{:.0}", row.reader_cpu),
            format!("{:.2}", row.reader_cpu / base.reader_cpu),
            format!("{:.0}", row.sender_cpu),
            format!("{:.1}", row.packets),
            format!("{:.3}", row.wakeups),
            or_dash(row.delay),
            or_dash(row.delay_p99),
            or_dash(row.waited),
            or_dash(row.formula),
            or_dash(row.late),
        ]
    });
    let head = [
        "load",
        "way",
        "Mp/s",
        "times",
        "reader ns",
        "times",
        "sender ns",
        "in one",
        "wakes",
        "delay",
        "p99",
        "waited",
        "formula",
        "late p99.9",
    ];
    say!("{}", text::table(&head, cells));
}
