//! `falaj bench tcp`: TCP between two network namespaces. They are joined by bare veth and by a
//! kernel bridge, as references for the kernel alone, and by an emulated link, unlimited or with a
//! given rate. For a given rate the kernel's token bucket filter is measured too.
//!
//! The paths take turns within one run, so that a busy machine slows all of them. One stream runs
//! from the near end to the far one; the result is the goodput: the bytes that the receiver's
//! program has read, divided by the time from its first byte to its last.

use super::{exit, median};
use anyhow::Result;
use falaj_control::pacing::PacingArgs;
use falaj_experiment::tcp::{
    Path, StreamSettings, TcpStreamResult, has_filter, kernel_bridge, stream,
};
use falaj_live::sandbox::Join;
use falaj_scenario::parse_rate;
use falaj_sched::units::rate::Rate;
use falaj_terminal::interrupt::Interrupted;
use falaj_terminal::{progress, text};
use indicatif::ProgressBar;
use serde::Serialize;
use std::process::ExitCode;

/// Arguments of `bench tcp`.
#[derive(clap::Args)]
#[command(after_help = "\
CPU is in percent of one core, for the sender, the receiver and the emulated link. The kernel's
work for a packet is accounted to the thread that runs at that time, so it moves between them.

Goodput is compared with the part of a rate that TCP's payload can use: 1448 of 1514 bytes over
IPv4, 1428 over IPv6. The path through the kernel's filter (sch_tbf) is left out if `tc` is
missing, and the bridge if the kernel has none. An unlimited link is compared with the bridge, or
else with veth.

Examples:
  falaj bench tcp --seconds 3 --repeat 5 --bare
  falaj bench tcp --rate 1gbit --rate 10gbit --congestion cubic")]
pub struct Args {
    /// Duration of each stream, in seconds.
    #[arg(long, default_value_t = 2,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=3600))]
    seconds: u64,
    /// Number of measurements of each path, in turns.
    #[arg(long, default_value_t = 3,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    repeat: u64,
    /// Also measure a link of this rate. May be given again.
    #[arg(long, value_parser = parse_rate)]
    rate: Vec<Rate>,
    /// The senders' congestion control, by the kernel's name: cubic, reno, bbr [default: the
    /// kernel's].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    #[command(flatten)]
    pace: PacingArgs,
    /// Connection between the namespaces and the emulated link.
    #[arg(long, value_enum, default_value_t = Over::Tap)]
    over: Over,
    /// Also measure a loop that only reads and writes, over the interfaces of the unlimited link.
    #[arg(long)]
    bare: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The connection between a namespace and the emulated link.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Over {
    /// A TAP interface.
    Tap,
    /// A packet socket at a veth pair.
    Packet,
}

impl Over {
    fn join(self) -> Join {
        match self {
            Over::Tap => Join::Tap,
            Over::Packet => Join::Packet,
        }
    }
}

/// A path and the results of its streams.
#[derive(Serialize)]
struct PathStreams {
    #[serde(serialize_with = "by_name")]
    path: Path,
    ip: u8,
    streams: Vec<TcpStreamResult>,
}

fn by_name<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.name())
}

impl PathStreams {
    fn median(&self, of: impl Fn(&TcpStreamResult) -> f64) -> f64 {
        median(self.streams.iter().map(of).collect())
    }
}

const VERSIONS: [u8; 2] = [4, 6];

/// Runs `falaj bench tcp`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let mut paths = vec![Path::Veth];
    match kernel_bridge() {
        Ok(()) => paths.push(Path::Bridge),
        Err(error) => note!("no kernel bridge to compare with: {error}"),
    }
    paths.extend(args.bare.then_some(Path::Bare));
    paths.push(Path::Link(Rate::UNLIMITED));
    let filters = has_filter();
    for &rate in &args.rate {
        paths.extend(filters.then_some(Path::Filter(rate)));
        paths.push(Path::Link(rate));
    }
    let mut series: Vec<PathStreams> = VERSIONS
        .into_iter()
        .flat_map(|ip| paths.iter().map(move |&path| PathStreams { path, ip, streams: Vec::new() }))
        .collect();
    let bar = progress::long_bar(args.repeat * series.len() as u64, "streaming");
    let mut turns = 0;
    let interrupted = loop {
        match turn(&mut series, args, &bar) {
            Ok(()) => turns += 1,
            // Only complete turns are compared.
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
    let ratios: Vec<Option<f64>> = series.iter().map(|s| ratio(s, &series)).collect();
    if args.json {
        let of = |(s, ratio): (&PathStreams, &Option<f64>)| {
            let mut json = serde_json::to_value(s)?;
            json["ratio_of_medians"] = (*ratio).into();
            Ok(json)
        };
        let series =
            series.iter().zip(&ratios).map(of).collect::<Result<Vec<_>, serde_json::Error>>()?;
        let json = serde_json::json!({ "seconds": args.seconds, "series": series });
        say!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(exit);
    }
    print(args, turns, &series, &ratios);
    Ok(exit)
}

/// The ratio of a path's median goodput to a reference. The reference of a path with a rate is
/// TCP's maximum at that rate. The reference of a path without a rate is the kernel bridge, or bare
/// veth if there is no bridge. The reference of the bridge is bare veth; bare veth has no
/// reference.
fn ratio(of: &PathStreams, all: &[PathStreams]) -> Option<f64> {
    let goodput = |s: &PathStreams| s.median(|s| s.gbit_per_s);
    let with = |path| all.iter().find(|s| s.ip == of.ip && s.path == path);
    let yardstick = match of.path {
        Path::Veth => None,
        Path::Bridge => with(Path::Veth),
        Path::Filter(_) | Path::Bare | Path::Link(_) => with(Path::Bridge).or(with(Path::Veth)),
    };
    let best = of.path.best(of.ip).or(yardstick.map(goodput))?;
    Some(goodput(of) / best)
}

/// Runs a stream through each path.
fn turn(series: &mut [PathStreams], args: &Args, bar: &ProgressBar) -> Result<()> {
    let congestion = args.congestion.as_deref();
    let how = StreamSettings {
        over: args.over.join(),
        seconds: args.seconds,
        options: args.pace.options(),
        congestion,
    };
    for s in series {
        s.streams.push(stream(s.path, s.ip, how)?);
        bar.inc(1);
    }
    Ok(())
}

fn print(args: &Args, turns: u64, series: &[PathStreams], ratios: &[Option<f64>]) {
    let congestion =
        series.iter().find_map(|s| s.streams.first()).map_or("", |stream| &stream.congestion);
    say!(
        "one TCP stream ({congestion}) from the near to the far end, {} s, {turns} times each, in turns; medians",
        args.seconds
    );
    let rows = series.iter().zip(ratios).map(|(s, ratio)| {
        let rates = || s.streams.iter().map(|s| s.gbit_per_s);
        let cpu = |of: fn(&TcpStreamResult) -> f64| format!("{:.0} %", 100.0 * s.median(of));
        let emulated = matches!(s.path, Path::Bare | Path::Link(_));
        vec![
            format!("IPv{} {}", s.ip, s.path.name()),
            format!("{:.2}", s.median(|s| s.gbit_per_s)),
            format!(
                "{:.2} to {:.2}",
                rates().fold(f64::INFINITY, f64::min),
                rates().fold(0.0, f64::max)
            ),
            ratio.map_or(text::DASH.into(), |ratio| format!("{ratio:.3}")),
            cpu(|s| s.sender_cpu),
            cpu(|s| s.receiver_cpu),
            if emulated { cpu(|s| s.link_cpu) } else { text::DASH.into() },
            format!("{:.0}", s.median(|s| s.retransmitted as f64)),
            format!("{:.0}", s.median(|s| s.lost as f64)),
        ]
    });
    let header = [
        "",
        "Gbit/s",
        "range",
        "of reference",
        "CPU sender",
        "receiver",
        "link",
        "retransmitted",
        "lost in link",
    ];
    say!("{}", text::table(&header, rows));
}
