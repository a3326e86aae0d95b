//! `falaj aggregate tune`: compares batches that adapt to the load with the best fixed batches,
//! within one run.

use super::bench::per_second;
use super::consumer::{PIECE, TimePiece, middle};
use super::producer::{Crossing, CrossingResult, ONE, OfferedLoad, RING, run, separate_processors};
use super::{CrossingCost, cost};
use anyhow::{Context, Result, ensure};
use falaj_control::batching::{LONGEST, percentile};
use falaj_engine::batch::BatchPolicy;
use falaj_live::priority::{self, Rank};
use falaj_queueing::{Measure, Wanted};
use falaj_scenario::{parse_size, parse_span};
use falaj_sched::units::time::Span;
use falaj_terminal::arguments::parse_duration;
use falaj_terminal::{progress, text};
use serde::Serialize;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// Arguments of `aggregate tune`.
#[derive(clap::Args)]
#[command(after_help = "\
Two processes, as in `falaj aggregate bench`. At each rate it first tries sizes and timeouts that
may keep the delay, and chooses the pair that keeps it with the least CPU time of the reader. It
then measures that pair again, in turns with the tuner, which is given the delay alone. At the end
the rate steps up, tenfold by default, and down again; the delay has settled once it is at most 1.1
times the required delay for 100 ms.

A mean delay is the median over the means of 20 ms each, since a machine that stalls for
milliseconds says nothing about batches. JSON has the mean over all packets, too.

Examples:
  falaj aggregate tune --delay 200us
  falaj aggregate tune --delay 1ms --percentile 99 --rates 400e3
  falaj aggregate tune --delay 300us --cost 5.7us,530ns --rates 100e3")]
pub struct Args {
    /// The required delay.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    delay: Span,
    /// Require the delay for this percentage of the packets, instead of for the mean.
    #[arg(long, value_name = "PERCENT", value_parser = percentile)]
    percentile: Option<f64>,
    /// Rates in packets per second, separated by commas.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, default_value = "100e3,400e3",
        value_parser = per_second)]
    rates: Vec<f64>,
    /// Factor by which the rate steps up in the last part; 1: no step.
    #[arg(long, value_name = "TIMES", default_value_t = 10.0)]
    step: f64,
    /// Packet size.
    #[arg(long, value_name = "SIZE", default_value = "64B", value_parser = parse_size)]
    size: u64,
    /// Cost to the reader: a time per batch and a time per packet.
    #[arg(long, value_name = "TIME,TIME", default_value = "0s,0s", value_parser = cost)]
    cost: CrossingCost,
    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    each: Span,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Maximum time at the beginning that is not counted, because the tuner has no data yet.
const SKIP: Span = Span::from_millis(200);
/// Number of turns of the tuner and of the best fixed policy.
const TURNS: usize = 5;
/// Number of consecutive pieces of 20 ms whose median delay shows whether the delay has settled.
const SETTLED: usize = 5;
/// Batch sizes to try, as multiples of the size at which packets wait on average as long as the
/// required delay until the batch is full; and timeouts to try, as multiples of the required delay.
const SIZES: [f64; 6] = [0.3, 0.5, 0.7, 0.85, 1.0, 1.2];
const TIMEOUTS: [f64; 5] = [0.6, 0.9, 1.3, 1.8, 2.6];

/// The results of one policy at one rate.
#[derive(Clone, Serialize)]
struct TuningFigures {
    /// Packets of a full batch, and the batch's timeout in nanoseconds; for the tuner, at the end.
    packets: u32,
    timeout: u64,
    when_idle: bool,
    /// The required measure of the delay, in nanoseconds; for a mean, the median over pieces of
    /// 20 ms.
    delay: f64,
    /// The mean over all packets, in nanoseconds.
    mean: f64,
    /// Processor time of the reader per packet, in nanoseconds.
    cpu: f64,
    /// For the tuner: number of policy changes, and whether its model predicts that the delay is
    /// kept.
    changes: u64,
    kept: bool,
}

#[derive(Serialize)]
struct Rate {
    rate: f64,
    tuned: TuningFigures,
    best: Option<TuningFigures>,
    tried: Vec<TuningFigures>,
}

#[derive(Serialize)]
struct Step {
    from: f64,
    to: f64,
    /// Times from the step up, and from the step down, until the delay has settled, in nanoseconds;
    /// `None` if it never has.
    up: Option<u64>,
    down: Option<u64>,
    /// Mean delays before, during and after the step, in nanoseconds, each without the settling
    /// time.
    means: [f64; 3],
    changes: u64,
}

/// Runs `falaj aggregate tune`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    ensure!(args.delay != Span::ZERO, "--delay must be above zero");
    ensure!((22..=9000).contains(&args.size), "--size: a packet here has 22 B to 9 kB");
    ensure!(args.step.is_finite() && args.step > 0.0, "--step must be above zero");
    let rates: Vec<f64> = args.rates.iter().copied().filter(|rate| *rate > 0.0).collect();
    ensure!(!rates.is_empty(), "--rates: write at least one rate above zero");
    let measure = args.percentile.map_or(Measure::Mean, Measure::Percentile);
    let wanted = Wanted { delay: args.delay.as_secs_f64(), measure };
    priority::be_punctual(Rank::Sender);
    let run = TuningRun { args, wanted, reader_processor: separate_processors() };
    let bar = progress::long_bar(
        (rates.len() * (SIZES.len() + 1) * TIMEOUTS.len() + rates.len()) as u64,
        "measuring",
    );
    let mut found = Vec::new();
    for &rate in &rates {
        found.push(run.at(rate, &bar)?);
    }
    let mut steps = Vec::new();
    if args.step != 1.0 {
        for &rate in &rates {
            steps.push(run.step(rate)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if args.json {
        say!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({ "rates": found, "steps": steps }))?
        );
    } else {
        tell(args, &found, &steps);
    }
    Ok(ExitCode::SUCCESS)
}

/// A crossing with this policy. With `tuned`, a tuner chooses the policy, and of `policy` only
/// `bytes` counts.
fn way(policy: BatchPolicy, tuned: Option<Wanted>) -> Crossing {
    Crossing { policy, always_ring: false, tuned }
}

fn fixed(packets: u32, timeout: Span) -> BatchPolicy {
    BatchPolicy { packets, bytes: LONGEST, timeout, when_idle: false }
}

/// The common settings of all measurements.
struct TuningRun<'a> {
    args: &'a Args,
    wanted: Wanted,
    /// Processor of the reader.
    reader_processor: Option<usize>,
}

impl TuningRun<'_> {
    /// Time at the beginning that is not counted.
    fn skip(&self) -> Span {
        SKIP.min(self.args.each)
    }

    fn measured(
        &self,
        way: Crossing,
        rate: f64,
        step: Option<f64>,
        long: Span,
    ) -> Result<CrossingResult> {
        let Args { size, cost, percentile, .. } = *self.args;
        let skip = if step.is_some() { Span::ZERO } else { self.skip() };
        let (size, part) = (size as usize, percentile.unwrap_or(0.99));
        let load = OfferedLoad {
            rate: Some(rate),
            streams: ONE,
            step,
            size,
            long,
            skip,
            part,
            cost,
            exponential: false,
            ring: RING,
            seed: 1,
            reader_processor: self.reader_processor,
        };
        let outcome = run(way, &load)?;
        // Pauses, so that other processes get time before the kernel throttles this one.
        sleep(Duration::from_nanos(long.0 / 8));
        Ok(outcome)
    }

    fn row(&self, outcome: &CrossingResult) -> TuningFigures {
        let (mean, high) = outcome.report.delay.unwrap_or((f64::INFINITY, u64::MAX));
        let skipped = (self.skip().0 / PIECE.0) as usize;
        let delay = match self.wanted.measure {
            Measure::Mean => outcome.report.pieces.get(skipped..).and_then(middle).unwrap_or(mean),
            Measure::Percentile(_) => high as f64,
        };
        let cpu = outcome.report.cpu as f64 / outcome.report.packets.max(1) as f64;
        let BatchPolicy { packets, timeout, when_idle, .. } = outcome.last;
        TuningFigures {
            packets,
            timeout: timeout.0,
            when_idle,
            delay,
            mean,
            cpu,
            changes: outcome.changes,
            kept: outcome.kept,
        }
    }

    fn at(&self, rate: f64, bar: &indicatif::ProgressBar) -> Result<Rate> {
        let long = self.skip() + self.args.each;
        let filled = 1.0 + 2.0 * rate * self.wanted.delay;
        let mut ways = Vec::new();
        for timeout in TIMEOUTS {
            let timeout = Span((self.wanted.delay * timeout * 1e9) as u64);
            let sizes = SIZES.iter().map(|part| ((filled * part).round() as u32).max(1));
            ways.extend(sizes.chain([u32::MAX]).map(|packets| fixed(packets, timeout)));
        }
        let mut tried = Vec::new();
        for policy in &ways {
            tried.push(self.row(&self.measured(way(*policy, None), rate, None, long)?));
            bar.inc(1);
        }
        let keeps = |row: &&TuningFigures| row.delay <= self.args.delay.0 as f64;
        let best = tried.iter().filter(keeps).min_by(|a, b| a.cpu.total_cmp(&b.cpu));
        // The minimum of many measurements is partly chance, so the tuner and the best policy are
        // measured again, in turns.
        let (mut tuned, mut again) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let first = ways[0];
            tuned.push(self.row(&self.measured(
                way(first, Some(self.wanted)),
                rate,
                None,
                long,
            )?));
            if let Some(best) = best {
                let best = fixed(best.packets, Span(best.timeout));
                again.push(self.row(&self.measured(way(best, None), rate, None, long)?));
            }
        }
        let (tuned, best) = (in_the_middle(tuned), in_the_middle(again));
        let tuned = tuned.context("the tuner had its turns")?;
        Ok(Rate { rate, tuned, best, tried })
    }

    fn step(&self, rate: f64) -> Result<Step> {
        // At least a second before, during and after the step.
        let third = self.args.each.max(Span::from_secs(1));
        let way = way(fixed(1, self.args.delay), Some(self.wanted));
        let outcome = self.measured(way, rate, Some(self.args.step), third * 3)?;
        let thirds = (third.0 / PIECE.0) as usize;
        let pieces = &outcome.report.pieces;
        let part = |i: usize| {
            &pieces[(i * thirds).min(pieces.len())..((i + 1) * thirds).min(pieces.len())]
        };
        let settled = [0, 1, 2].map(|i| settles(part(i), self.args.delay.0 as f64));
        let means =
            [0, 1, 2].map(|i| middle(&part(i)[settled[i].unwrap_or(0)..]).unwrap_or(f64::INFINITY));
        let time = |pieces: usize| pieces as u64 * PIECE.0;
        let (up, down) = (settled[1].map(time), settled[2].map(time));
        Ok(Step {
            from: rate,
            to: rate * self.args.step,
            up,
            down,
            means,
            changes: outcome.changes,
        })
    }
}

/// The turn with the median processor time; its delay is replaced by the median delay.
fn in_the_middle(mut turns: Vec<TuningFigures>) -> Option<TuningFigures> {
    let middle = turns.len() / 2;
    turns.sort_by(|a, b| a.delay.total_cmp(&b.delay));
    let delay = turns.get(middle)?.delay;
    turns.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    let row = turns.into_iter().nth(middle)?;
    Some(TuningFigures { delay, ..row })
}

/// Index of the first of [`SETTLED`] consecutive pieces whose median delay is at most 1.1 times the
/// required delay.
fn settles(pieces: &[TimePiece], delay: f64) -> Option<usize> {
    let kept = |pieces: &[TimePiece]| middle(pieces).is_some_and(|found| found <= 1.1 * delay);
    (0..pieces.len().saturating_sub(SETTLED - 1)).find(|&i| kept(&pieces[i..i + SETTLED]))
}

fn policy(row: &TuningFigures) -> String {
    let packets = if row.packets == u32::MAX { "any".into() } else { row.packets.to_string() };
    format!(
        "{packets}, {}{}",
        text::nanos(row.timeout as f64),
        if row.when_idle { ", idle" } else { "" }
    )
}

fn tell(args: &Args, rates: &[Rate], steps: &[Step]) {
    let measure = args.percentile.map_or("mean".into(), |part| format!("p{}", 100.0 * part));
    say!("a {measure} delay of {} is required; packets of {} B", args.delay, args.size);
    let rows = rates.iter().map(|Rate { rate, tuned, best, .. }| {
        let or_dash = |text: Option<String>| text.unwrap_or(text::DASH.into());
        vec![
            format!("{:.0} K/s", rate / 1e3),
            policy(tuned),
            text::nanos(tuned.delay),
            format!("{:.2}", tuned.delay / args.delay.0 as f64),
            format!("{:.0}", tuned.cpu),
            tuned.changes.to_string(),
            if tuned.kept { "yes".into() } else { "no".into() },
            or_dash(best.as_ref().map(policy)),
            or_dash(best.as_ref().map(|best| text::nanos(best.delay))),
            or_dash(best.as_ref().map(|best| format!("{:.0}", best.cpu))),
            or_dash(best.as_ref().map(|best| format!("{:.2}", tuned.cpu / best.cpu))),
        ]
    });
    let head = [
        "load",
        "tuned",
        "delay",
        "delay/required",
        "reader ns",
        "changes",
        "feasible",
        "best fixed",
        "delay",
        "reader ns",
        "CPU/best",
    ];
    say!("{}", text::table(&head, rows));
    if !steps.is_empty() {
        let after =
            |settled: Option<u64>| settled.map_or("never".into(), |at| text::nanos(at as f64));
        let rows = steps.iter().map(|step| {
            vec![
                format!("{:.0} to {:.0} K/s", step.from / 1e3, step.to / 1e3),
                after(step.up),
                after(step.down),
                text::nanos(step.means[0]),
                text::nanos(step.means[1]),
                text::nanos(step.means[2]),
                step.changes.to_string(),
            ]
        });
        let head = ["step", "settled up", "and down", "mean before", "between", "after", "changes"];
        say!("{}", text::table(&head, rows));
    }
}
