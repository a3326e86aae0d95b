//! `falaj bench release`: lateness of deliveries, accuracy of rates, and CPU cost of waiting, for
//! each kind of timer.
//!
//! The measurement sends real datagrams between two network namespaces, as `falaj traffic` does.

use super::exit;
use anyhow::{Result, ensure};
use falaj_experiment::measure::{MeasuredFlow, Thread, measure};
use falaj_live::clock::{monotonic, thread_cpu};
use falaj_live::event_loop::Options;
use falaj_live::event_loop::Timer;
use falaj_live::priority::{self, Rank};
use falaj_scenario::{Scenario, parse_span};
use falaj_sched::units::time::Span;
use falaj_terminal::interrupt::Interrupted;
use falaj_terminal::{file, progress, text};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `bench release`.
#[derive(clap::Args)]
#[command(after_help = "\
Release error: time from the instant at which a packet is due until it is handed to the kernel;
never negative. CPU: of the link's thread, in percent of one core. Rate: deviation of the rate
received under overload, from the first datagram to the last, from the configured rate, in percent;
left out if the sender got too little CPU time to overload the link. Gap error: deviation of the
time between consecutive packets from its target, which on a full link is the transmission time of a
packet. While the timer sleeps, packets may be late by --slack on purpose. The cost of these
wake-ups alone, and the precision of a thread that only polls the clock, are printed below the
table.

Example:
  falaj bench release --seconds 10")]
pub struct Args {
    /// Duration of each load, in seconds.
    #[arg(long, default_value_t = 3,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=3600))]
    seconds: u64,
    /// Maximum lateness of packets while the timer sleeps.
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = parse_span)]
    slack: Span,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A load: the link, its traffic, and the link's rate if the traffic exceeds this rate.
struct ReleaseCase {
    name: &'static str,
    link: &'static str,
    /// The queue's limit. An overloaded link has a queue of 12 ms, so that a sender that gets no
    /// processor for that time does not let it run empty.
    queue: &'static str,
    traffic: &'static str,
    rate: Option<f64>,
}

/// Bytes of a datagram as the overloaded links account it: an Ethernet frame of a full packet.
const FRAME: f64 = 1514.0;

const LOADS: [ReleaseCase; 4] = [
    ReleaseCase {
        name: "1,000 packets/s",
        link: "rate = '1gbit'",
        queue: "100p",
        traffic: "model = 'cbr'\nrate = '1.6mbit'\nsize = '200B'",
        rate: None,
    },
    ReleaseCase {
        name: "1,000 packets/s, 10 ms",
        link: "rate = '1gbit'\ndelay = '10ms'",
        queue: "100p",
        traffic: "model = 'cbr'\nrate = '1.6mbit'\nsize = '200B'",
        rate: None,
    },
    ReleaseCase {
        name: "100 Mbit/s, full",
        link: "rate = '100mbit'",
        queue: "100p",
        traffic: "model = 'cbr'\nrate = '105mbit'\nsize = '1514B'",
        rate: Some(100e6),
    },
    ReleaseCase {
        name: "1 Gbit/s, full",
        link: "rate = '1gbit'",
        queue: "1000p",
        traffic: "model = 'cbr'\nrate = '1050mbit'\nsize = '1514B'",
        rate: Some(1e9),
    },
];

struct ReleaseFigures {
    timer: Timer,
    load: &'static str,
    flow: MeasuredFlow,
    thread: Thread,
    rate: Option<f64>,
}

impl ReleaseFigures {
    /// The relative error of the rate between the first and the last datagram. `None` for a load
    /// below the link's rate, or if the sender had too little time to send the required load.
    fn rate_error(&self) -> Option<f64> {
        let (asked, received) = (self.rate.filter(|_| self.flow.unsent <= 1)?, &self.flow.received);
        let seconds = received.between? as f64 / 1e9;
        Some((received.datagrams as f64 - 1.0) * FRAME * 8.0 / seconds / asked - 1.0)
    }

    fn gap(&self, share: f64) -> Option<Span> {
        self.flow.link.gap_error.quantile(share)
    }

    /// The fraction of time in which the hybrid timer slept instead of spinning, because other
    /// threads waited for a processor.
    fn rested(&self) -> f64 {
        self.thread.awake.rested.0 as f64 / self.thread.elapsed.0.max(1) as f64
    }

    fn cpu(&self) -> f64 {
        self.thread.usage.cpu.0 as f64 / self.thread.elapsed.0.max(1) as f64
    }
}

/// Runs `falaj bench release`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let mut rows = Vec::new();
    let timers = [Timer::Spin, Timer::Hybrid, Timer::Sleep];
    let bar = progress::long_bar((timers.len() * LOADS.len()) as u64, "measuring");
    let mut interrupted = false;
    'all: for load in &LOADS {
        let scenario = scenario(load, args.seconds)?;
        for timer in timers {
            let slack = if timer == Timer::Sleep { args.slack } else { Options::default().slack };
            let options = Options { timer, slack, ..Options::default() };
            let mut measured = match measure(&scenario, options, "measuring") {
                Err(error) if error.is::<Interrupted>() => {
                    interrupted = true;
                    break 'all;
                }
                measured => measured?,
            };
            ensure!(measured.over == "namespaces", "this measurement needs network namespaces");
            let flow = measured.flows[0].swap_remove(0);
            rows.push(ReleaseFigures {
                timer,
                load: load.name,
                flow,
                thread: measured.thread,
                rate: load.rate,
            });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let exit = exit(interrupted, rows.is_empty())?;
    let alone = (!interrupted).then(|| (waking(args.slack), INSTANTS.map(spinning)));
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|r| {
                let error = &r.flow.link.release_error;
                let nanos = |share| error.quantile(share).map(|s| s.0);
                json!({
                    "load": r.load, "timer": r.timer.to_string(), "packets": error.count(),
                    "unsent": r.flow.unsent,
                    "release_p50_ns": nanos(0.5), "release_p99_ns": nanos(0.99),
                    "release_max_ns": error.max().map(|s| s.0),
                    "gap_error_p50_ns": r.gap(0.5).map(|s| s.0),
                    "gap_error_p99_ns": r.gap(0.99).map(|s| s.0),
                    "delay_p50_ns": r.flow.received.p50, "delay_p99_ns": r.flow.received.p99,
                    "cpu": r.cpu(), "rested": r.rested(), "rate_error": r.rate_error(),
                })
            })
            .collect();
        let (seconds, slack) = (args.seconds, args.slack.0);
        let waking = alone.as_ref().map(|(waking, _)| waking);
        let spinning: Vec<_> = alone
            .iter()
            .flat_map(|(_, spinning)| spinning)
            .map(|s| {
                json!({
                    "each_ns": s.each.0, "late_p99_ns": s.late.0, "gap_error_p99_ns": s.gap.0,
                })
            })
            .collect();
        let all = json!({
            "seconds": seconds, "slack_ns": slack, "rows": rows, "waking_cpu": waking,
            "spinning": spinning,
        });
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(exit);
    }
    say!("{} s each; sleeping with a slack of {}", args.seconds, args.slack);
    let header = [
        "load",
        "timer",
        "packets",
        "release error p50",
        "p99",
        "max",
        "gap error p50",
        "p99",
        "delay p50",
        "p99",
        "CPU",
        "rested",
        "rate",
    ];
    let rows = rows.iter().map(|r| {
        let (error, received) = (&r.flow.link.release_error, &r.flow.received);
        vec![
            r.load.into(),
            r.timer.to_string(),
            error.count().to_string(),
            text::span(error.quantile(0.5)),
            text::span(error.quantile(0.99)),
            text::span(error.max()),
            text::span(r.gap(0.5)),
            text::span(r.gap(0.99)),
            text::span(received.p50.map(Span)),
            text::span(received.p99.map(Span)),
            format!("{:.1} %", 100.0 * r.cpu()),
            format!("{:.0} %", 100.0 * r.rested()),
            r.rate_error().map_or(text::DASH.into(), |e| format!("{:+.3} %", 100.0 * e)),
        ]
    });
    say!("{}", text::table(&header, rows));
    if let Some((waking, spinning)) = alone {
        say!(
            "a thread that wakes every {} and does nothing else: {:.1} %",
            args.slack,
            100.0 * waking
        );
        for Spinning { each, late, gap } in spinning {
            say!(
                "a thread that spins for an instant every {each} and does nothing else: late by {late} at p99, gap error {gap}"
            );
        }
    }
    Ok(exit)
}

/// Intervals between the packets of the loads. The densest load is left out: there the kernel's own
/// work dominates.
const INSTANTS: [Span; 2] = [Span::from_millis(1), Span(121_120)];

/// Timing accuracy of a thread that has the link's scheduling class and never sleeps, on this
/// machine: 99th percentiles of the lateness of instants, and of the error of gaps.
struct Spinning {
    each: Span,
    late: Span,
    gap: Span,
}

/// Measures in periods that end before the kernel throttles such a thread.
fn spinning(each: Span) -> Spinning {
    let look = || {
        priority::be_punctual(Rank::Link);
        let (mut late, mut gaps) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(100));
            let (began, mut due, mut last) = (monotonic(), monotonic() + each.0, None);
            while due < began + 900_000_000 {
                let mut now = monotonic();
                while now < due {
                    now = monotonic();
                }
                late.push(now - due);
                gaps.extend(last.replace(now).map(|last: u64| (now - last).abs_diff(each.0)));
                due += each.0;
            }
        }
        [late, gaps].map(|mut all| {
            all.sort_unstable();
            Span(all[all.len() * 99 / 100])
        })
    };
    let [late, gap] =
        std::thread::scope(|scope| scope.spawn(look).join()).expect("it only looks at the clock");
    Spinning { each, late, gap }
}

/// The CPU use of waking alone: of a thread that has the link's scheduling class and repeatedly
/// sleeps for `slack`.
fn waking(slack: Span) -> f64 {
    let share = || {
        priority::be_punctual(Rank::Link);
        let (began, cpu) = (Instant::now(), thread_cpu());
        while began.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_nanos(slack.0));
        }
        (thread_cpu() - cpu) as f64 / began.elapsed().as_nanos() as f64
    };
    std::thread::scope(|scope| scope.spawn(share).join()).expect("it only sleeps")
}

fn scenario(load: &ReleaseCase, seconds: u64) -> Result<Scenario> {
    let text = format!(
        "[link.l]\n{}\nscheduler = {{ kind = 'fifo' }}\n[link.l.flow.all]\nmatch = 'any'\nqueue = '{}'\n\
         [traffic.all]\nflow = 'all'\n{}\n[run]\nduration = '{seconds}s'\n",
        load.link, load.queue, load.traffic
    );
    file::parse(&text, load.name)
}
