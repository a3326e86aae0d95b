//! `falaj bench delay`: the delay from socket to socket through a link, less the delay of bare veth
//! in the same run.
//!
//! One process has both sockets and never sleeps while a datagram is in flight, so that only the
//! link's thread has to be woken.

use super::{exit, median};
use anyhow::{Context, Result};
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::Options;
use falaj_live::event_loop::Timer;
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{End, Join, Sandbox, SandboxSpec};
use falaj_live::traffic::probe;
use falaj_live::wiring;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::interrupt::{interruptible, interrupts};
use falaj_terminal::{progress, text};
use falaj_traffic::meter::Meter;
use serde_json::json;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Arguments of `bench delay`.
#[derive(clap::Args)]
#[command(after_help = "\
The paths take turns; each figure is the median over the turns. The delay that a link adds is its
figure minus that of bare veth, at the same quantile; its configured delay is subtracted as well.
The probe and a spinning link need a processor each: with fewer than two free ones, their waits for
a processor are measured instead.

Example:
  falaj bench delay --datagrams 2000 --repeat 5")]
pub struct Args {
    /// Number of datagrams of each measurement.
    #[arg(short = 'n', long, default_value_t = 500,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1_000_000))]
    datagrams: u64,
    /// Number of measurements of each path, in turns.
    #[arg(long, default_value_t = 3,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    repeat: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Pause between two datagrams.
const PAUSE: Duration = Duration::from_micros(300);
const DELAYS: [Span; 2] = [Span::ZERO, Span::from_millis(10)];

/// The path of a datagram.
#[derive(Clone, Copy)]
enum Path {
    /// A veth pair.
    Veth,
    /// A link over TAP interfaces.
    Link(Span, Timer),
}

impl Path {
    fn name(self) -> String {
        match self {
            Path::Veth => "bare veth".into(),
            Path::Link(delay, timer) => format!("link of {delay}, {timer}"),
        }
    }

    /// The configured delay.
    fn delay(self) -> Span {
        match self {
            Path::Veth => Span::ZERO,
            Path::Link(delay, _) => delay,
        }
    }
}

/// The results of one turn: quantiles of the delay in nanoseconds, and number of lost
/// datagrams.
struct DelayTurn {
    quantiles: [f64; 3],
    lost: u64,
}

const SHARES: [f64; 3] = [0.5, 0.99, 1.0];

impl DelayTurn {
    fn new((delays, lost): (Meter, u64)) -> DelayTurn {
        DelayTurn {
            quantiles: SHARES
                .map(|share| delays.quantile(share).map_or(f64::NAN, |span| span.0 as f64)),
            lost,
        }
    }
}

/// Runs `falaj bench delay`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let links = DELAYS.into_iter().flat_map(|delay| {
        [Timer::Spin, Timer::Hybrid, Timer::Sleep]
            .into_iter()
            .map(move |timer| Path::Link(delay, timer))
    });
    let mut series: Vec<(Path, Vec<DelayTurn>)> =
        std::iter::once(Path::Veth).chain(links).map(|path| (path, vec![])).collect();
    let bar = progress::long_bar(args.repeat * series.len() as u64, "probing");
    let (turns, interrupted) = interruptible(|stop| {
        for turn in 0..args.repeat as usize {
            for (path, turns) in &mut series {
                let probed = probed(*path, args.datagrams)?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(turn);
                }
                turns.push(DelayTurn::new(probed));
                bar.inc(1);
            }
        }
        Ok(args.repeat as usize)
    })?;
    // Only turns that all paths have completed are compared.
    series.iter_mut().for_each(|(_, all)| all.truncate(turns));
    bar.finish_and_clear();
    let exit = exit(interrupted, turns == 0)?;
    let at = |turns: &[DelayTurn], share: usize| {
        median(turns.iter().map(|turn| turn.quantiles[share]).collect())
    };
    let floor: Vec<f64> = (0..SHARES.len()).map(|share| at(&series[0].1, share)).collect();
    let lost = |turns: &[DelayTurn]| turns.iter().map(|turn| turn.lost).sum::<u64>();
    let added = |path: Path, turns: &[DelayTurn], share: usize| {
        at(turns, share) - floor[share] - path.delay().0 as f64
    };
    if args.json {
        let row = |(path, turns): &(Path, Vec<DelayTurn>)| {
            let figure = |share| {
                json!({
                    "delay_ns": at(turns, share), "added_ns": added(*path, turns, share),
                })
            };
            json!({
                "path": path.name(), "p50": figure(0), "p99": figure(1), "max": figure(2),
                "lost": lost(turns),
            })
        };
        let rows: Vec<_> = series.iter().map(row).collect();
        say!(
            "{}",
            serde_json::to_string_pretty(&json!({ "datagrams": args.datagrams, "rows": rows }))?
        );
        return Ok(exit);
    }
    say!("{} datagrams each, {turns} times, in turns; medians", args.datagrams);
    let micros = |nanos: f64| format!("{:.1} us", nanos / 1e3);
    let rows = series.iter().map(|(path, turns)| {
        let is_link = matches!(path, Path::Link(..));
        let more =
            |share| if is_link { micros(added(*path, turns, share)) } else { text::DASH.into() };
        vec![
            path.name(),
            micros(at(turns, 0)),
            micros(at(turns, 1)),
            micros(at(turns, 2)),
            more(0),
            more(1),
            lost(turns).to_string(),
        ]
    });
    say!("{}", text::table(&["", "p50", "p99", "max", "added p50", "p99", "lost"], rows));
    Ok(exit)
}

/// Sends datagrams through a new path; returns the delays, and the number of lost datagrams.
fn probed(path: Path, datagrams: u64) -> Result<(Meter, u64)> {
    let join = if matches!(path, Path::Veth) { Join::Veth } else { Join::Tap };
    let mut sandbox = Sandbox::start(SandboxSpec { join, ..SandboxSpec::default() })?;
    let [from, to] = End::BOTH.map(|end| probe::socket(sandbox.pid(end), end.address().into()));
    let (from, to) = (from?, to?);
    let stop = interrupts()?;
    let run = move || {
        priority::be_punctual(Rank::Receiver);
        // The first datagrams find caches and tables empty; they are not counted.
        probe::probe(&from, &to, datagrams / 10, PAUSE, &stop)?;
        probe::probe(&from, &to, datagrams, PAUSE, &stop)
    };
    let failed = || anyhow::anyhow!("the probe failed");
    let Path::Link(delay, timer) = path else {
        return Ok(thread::spawn(run).join().map_err(|_| failed())??);
    };
    let scenario = Scenario::simple(Rate::UNLIMITED, delay, Limit::Packets(1000), 1500);
    let options = Options { timer, ..Options::default() };
    let clock = Clock::from_zero(monotonic());
    let mut forwarder = wiring::to_sandbox(&scenario.network(), &mut sandbox, clock, options)?;
    let (over, ends) = io::pipe()?;
    let probing = thread::spawn(move || {
        let _ends = ends;
        run()
    });
    priority::be_punctual(Rank::Link);
    forwarder.run(Time::NEVER, &[over.as_fd()]).context("the link ended")?;
    Ok(probing.join().map_err(|_| failed())??)
}
