//! `falaj sim`: a scenario in simulated time.

use crate::asked::Asked;
use crate::show::say;
use crate::summary::{RULE_HEADER, air_json, air_told, breach_json, rule_json, rule_row};
use crate::{each, file, show};
use anyhow::{Context, Result, bail};
use falaj_engine::PipeId;
use falaj_engine::each::Report;
use falaj_engine::rules::Taken;
use falaj_scenario::{Link, Scenario, Towards};
use falaj_sched::discipline::Air;
use falaj_sched::plugin::Breach;
use falaj_sched::time::Span;
use falaj_sim::scenario::{experiment, pipe_of};
use falaj_sim::{FlowResult, Many, Progress, Run, replicate};
use falaj_traffic::interval::Estimate;
use falaj_traffic::meter::Meter;
use serde::Serialize;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What `sim` takes.
#[derive(clap::Args)]
#[command(after_help = "\
With --replay what entered a live link enters once more, at the same instants: a capture of
`falaj run --capture` through its own link, to see that every packet is decided alike, or through another
one (FILE); or the arrivals of any pcap or pcapng, interface 0 up and interface 1 down.

Exit status: 0; 1 if a replay decided otherwise than the live link; 130 after Ctrl-C, with what was
simulated until then.

Examples:
  falaj sim examples/tenants.toml --duration 30s --replications 16
  falaj sim --replay capture.pcapng
  falaj sim examples/tenants.toml --replay capture.pcapng")]
pub(crate) struct Args {
    /// The scenario.
    #[arg(required_unless_present = "replay")]
    file: Option<PathBuf>,
    /// Replay this capture instead of the scenario's sources.
    #[arg(long, value_name = "CAPTURE", conflicts_with_all = ["duration", "replications", "seed"])]
    replay: Option<PathBuf>,
    /// Simulated time of a replication; else the scenario's.
    #[arg(long, value_parser = file::parse_duration)]
    duration: Option<Span>,
    /// Independent replications; else the scenario's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replications: Option<u32>,
    /// Where random numbers begin; else the scenario's.
    #[arg(long)]
    seed: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
}

/// The exit status after Ctrl-C, as shells have it.
pub(crate) const INTERRUPTED: u8 = 128 + 2;

/// Ctrl-C came before there was anything to tell: during what.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) &'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted {}", self.0)
    }
}
impl std::error::Error for Interrupted {}

/// The flag that Ctrl-C sets. While it is set already, Ctrl-C ends the program:
/// the second one during a simulation, and any outside.
pub(crate) fn interrupts() -> Result<Arc<AtomicBool>> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = Arc::new(AtomicBool::new(true));
    flag::register_conditional_default(SIGINT, Arc::clone(&stop))?;
    flag::register(SIGINT, Arc::clone(&stop))?;
    Ok(Arc::clone(STOP.get_or_init(|| stop)))
}

/// Work that Ctrl-C is to end where it is, with what is known: `work` looks at
/// the flag. Was it interrupted?
pub(crate) fn interruptible<T>(work: impl FnOnce(&AtomicBool) -> Result<T>) -> Result<(T, bool)> {
    let stop = interrupts()?;
    stop.store(false, Ordering::Relaxed);
    let done = work(&stop);
    let interrupted = stop.swap(true, Ordering::Relaxed);
    Ok((done?, interrupted))
}

/// A flow over all replications.
pub(crate) struct Simulated {
    /// Packets that came, arrived, found no place in the queue.
    pub(crate) offered: u64,
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    /// Of these, those that the policy of the queue dropped; and those that it marked instead.
    pub(crate) dropped_by_policy: u64,
    pub(crate) marked: u64,
    /// What it had of the air, where packets have air times.
    pub(crate) air: Air,
    /// What the link did to packets.
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
    pub(crate) reordered: u64,
    /// Bits per second.
    pub(crate) offered_rate: Option<Estimate>,
    pub(crate) sent_rate: Option<Estimate>,
    /// Mean delay of each replication, in nanoseconds.
    pub(crate) mean: Option<Estimate>,
    /// Delays of all replications.
    pub(crate) delay: Meter,
    /// The most packets that were ever queued.
    pub(crate) max_backlog: u64,
}

/// All replications of a scenario; fewer than asked for if interrupted.
pub(crate) struct Replications {
    runs: Vec<Run>,
    /// How many were asked for.
    asked: usize,
}

impl Replications {
    /// Runs them, with progress on a terminal; Ctrl-C ends them where they are,
    /// a second one the program.
    pub(crate) fn run(scenario: &Scenario) -> Result<Replications> {
        let stop = interrupts()?;
        stop.store(false, Ordering::Relaxed);
        let replications = scenario.run.replications as usize;
        let bar = show::progress(replications as u64, "simulating");
        let done = |n: usize| bar.set_position(n as u64);
        let progress = Progress { done: &done, stop: &stop };
        let runs = replicate(&experiment(scenario, scenario.run.duration), scenario.run.seed, replications, &progress)
            .map_err(|(_, refused)| refused)?;
        bar.finish_and_clear();
        stop.store(true, Ordering::Relaxed);
        if runs.is_empty() {
            return Err(Interrupted("before the first packet").into());
        }
        let done = runs.iter().filter(|r| r.complete).count();
        if done == 0 {
            eprintln!("interrupted: {} of {} simulated", runs[0].duration, scenario.run.duration);
        } else if done < replications {
            eprintln!("interrupted: {done} of {replications} replications");
        }
        Ok(Replications { runs, asked: replications })
    }

    /// How long each was, in simulated time.
    pub(crate) fn duration(&self) -> Span {
        self.runs[0].duration
    }

    /// Did Ctrl-C end them?
    pub(crate) fn interrupted(&self) -> bool {
        self.runs.len() < self.asked || self.runs.iter().any(|r| !r.complete)
    }

    fn exit(&self) -> ExitCode {
        if self.interrupted() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
    }

    /// What masks made in the first replication, by name.
    fn many<'a>(&'a self, scenario: &Scenario) -> Vec<(String, &'a Report)> {
        let name = |many: &Many| {
            let link = &scenario.links[many.pipe.0 as usize / 2];
            let (direction, way) = if many.pipe.0.is_multiple_of(2) { (&link.up, "up") } else { (&link.down, "down") };
            match many.flow {
                Some(flow) => format!("{}.{} {way}", link.name, direction.flows[flow.index()].name),
                None => format!("{} {way}", link.name),
            }
        };
        let used = self.runs[0].many.iter().filter(|many| many.report.made > 0);
        used.map(|many| (name(many), &many.report)).collect()
    }

    /// How plug-ins broke their contract, in all replications, and in which direction of which link.
    fn breaches(&self, scenario: &Scenario) -> Vec<(String, Breach)> {
        let mut out = Vec::new();
        for pipe in 0..2 * scenario.links.len() {
            let mut all = Vec::new();
            self.runs.iter().flat_map(|run| &run.breaches[pipe]).for_each(|breach| breach.clone().join(&mut all));
            let (link, way) = (&scenario.links[pipe / 2].name, if pipe % 2 == 0 { "up" } else { "down" });
            out.extend(all.into_iter().map(|breach| (format!("{link} {way}"), breach)));
        }
        out
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// What each rule has taken, in all of them.
    fn taken(&self, rule: usize) -> Taken {
        let sum = |sum: Taken, run: &Run| Taken {
            packets: sum.packets + run.taken[rule].packets,
            bytes: sum.bytes + run.taken[rule].bytes,
        };
        self.runs.iter().fold(Taken::default(), sum)
    }

    /// Packets that no rule took, or no flow of their link.
    fn unmatched(&self) -> u64 {
        self.runs.iter().map(|run| run.unmatched).sum()
    }

    /// The flows that packets came for, in the order of [`fed_flows`].
    fn reached(&self, scenario: &Scenario) -> Vec<(usize, Towards, usize)> {
        let all = scenario.links.iter().enumerate().flat_map(|(l, link)| {
            let of = move |towards| (0..link.direction(towards).flows.len()).map(move |f| (l, towards, f));
            of(Towards::Up).chain(of(Towards::Down))
        });
        let came = |&(l, towards, f): &(usize, Towards, usize)| {
            let pipe = pipe_of(l, towards).0 as usize;
            self.runs.iter().any(|run| run.pipes[pipe][f].counters.offered > 0)
        };
        all.filter(came).collect()
    }

    /// One flow of one pipe.
    pub(crate) fn flow(&self, pipe: PipeId, flow: usize) -> Simulated {
        let of: Vec<(&FlowResult, Span)> =
            self.runs.iter().map(|r| (&r.pipes[pipe.0 as usize][flow], r.duration)).collect();
        let sum = |count: fn(&FlowResult) -> u64| of.iter().map(|(f, _)| count(f)).sum();
        let estimate = |value: fn(&FlowResult, Span) -> f64| {
            Estimate::of(&of.iter().map(|(f, d)| value(f, *d)).collect::<Vec<_>>())
        };
        let means: Vec<f64> = of.iter().filter_map(|(f, _)| f.delay.mean_nanos()).collect();
        let mut delay = Meter::new();
        of.iter().for_each(|(f, _)| delay.add(&f.delay));
        Simulated {
            offered: sum(|f| f.counters.offered),
            sent: sum(|f| f.counters.delivered()),
            lost: sum(|f| f.counters.lost),
            duplicated: sum(|f| f.counters.duplicated),
            corrupted: sum(|f| f.counters.corrupted),
            reordered: sum(|f| f.counters.reordered),
            dropped: sum(|f| f.counters.dropped()),
            dropped_by_policy: sum(|f| f.counters.dropped_by_policy),
            marked: sum(|f| f.counters.marked),
            air: Air {
                used: Span(sum(|f| f.counters.air.used.0)),
                lost: Span(sum(|f| f.counters.air.lost.0)),
                collisions: sum(|f| f.counters.air.collisions),
            },
            offered_rate: estimate(FlowResult::offered_rate),
            sent_rate: estimate(FlowResult::delivered_rate),
            mean: Estimate::of(&means),
            delay,
            max_backlog: of.iter().map(|(f, _)| f.counters.max_backlog).max().unwrap_or(0),
        }
    }
}

/// The flows of a scenario that traffic is meant for, in order: link, direction, flow.
pub(crate) fn fed_flows(scenario: &Scenario) -> Vec<(usize, Towards, usize)> {
    let mut flows: Vec<(usize, Towards, usize)> = Vec::new();
    for (l, link) in scenario.links.iter().enumerate() {
        for towards in [Towards::Up, Towards::Down] {
            let fed = |f: &usize| scenario.traffic.iter().any(|s| (s.link, s.towards, s.flow) == (l, towards, *f));
            flows.extend((0..link.direction(towards).flows.len()).filter(fed).map(|f| (l, towards, f)));
        }
    }
    flows
}

/// `flow` or, where there is traffic both ways, `flow up`.
pub(crate) fn name_of_flow(link: &Link, pipe: usize, flow: usize, both_ways: bool) -> String {
    let (direction, way) = if pipe == 0 { (&link.up, "up") } else { (&link.down, "down") };
    let name = &direction.flows[flow].name;
    if both_ways { format!("{name} {way}") } else { name.clone() }
}

/// `uplink` or, where there is traffic both ways, `uplink up`.
pub(crate) fn name_of(scenario: &Scenario, (link, towards, flow): (usize, Towards, usize)) -> String {
    let l = &scenario.links[link];
    let flow = &l.direction(towards).flows[flow].name;
    let both_ways = scenario.traffic.iter().any(|s| s.towards != towards);
    let several = scenario.links.len() > 1;
    let way = match towards {
        Towards::Up => "up",
        Towards::Down => "down",
    };
    match (several, both_ways) {
        (false, false) => flow.clone(),
        (false, true) => format!("{flow} {way}"),
        (true, false) => format!("{}.{flow}", l.name),
        (true, true) => format!("{}.{flow} {way}", l.name),
    }
}

#[derive(Serialize)]
struct Json {
    flow: String,
    offered: u64,
    delivered: u64,
    dropped: u64,
    dropped_by_policy: u64,
    marked: u64,
    air: serde_json::Value,
    lost: u64,
    duplicated: u64,
    corrupted: u64,
    reordered: u64,
    offered_rate: f64,
    delivered_rate: f64,
    delivered_rate_half_width: Option<f64>,
    delay_mean_ns: Option<f64>,
    delay_mean_half_width_ns: Option<f64>,
    delay_p50_ns: Option<u64>,
    delay_p99_ns: Option<u64>,
    delay_max_ns: Option<u64>,
    max_backlog_packets: u64,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(capture) = &args.replay {
        return crate::replay::main(capture, args.file.as_deref(), args.json);
    }
    let path = args.file.as_deref().context("a scenario is needed")?;
    let mut scenario = file::read(path)?;
    scenario.run.duration = args.duration.unwrap_or(scenario.run.duration);
    scenario.run.replications = args.replications.unwrap_or(scenario.run.replications);
    scenario.run.seed = args.seed.unwrap_or(scenario.run.seed);
    if scenario.traffic.is_empty() {
        bail!("{} has no [traffic.NAME]: there is nothing to simulate", path.display());
    }
    args.asked.tell(&scenario);
    let runs = Replications::run(&scenario)?;
    // Where there are rules, packets come to links that no source names.
    let told = if scenario.rules.is_empty() { fed_flows(&scenario) } else { runs.reached(&scenario) };
    let rules: Vec<(&str, Taken)> =
        scenario.rules.iter().enumerate().map(|(n, rule)| (rule.name.as_str(), runs.taken(n))).collect();
    let flows: Vec<(String, Simulated)> =
        told.into_iter().map(|at| (name_of(&scenario, at), runs.flow(pipe_of(at.0, at.1), at.2))).collect();
    let breaches = runs.breaches(&scenario);
    if args.json {
        let json: Vec<Json> = flows.iter().map(|(name, f)| json(name, f)).collect();
        say!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({
                "duration_ns": runs.duration().0,
                "seed": scenario.run.seed,
                "replications": runs.len(),
                "complete": !runs.interrupted(),
                "flows": json,
                "rules": rules.iter().map(|(name, taken)| rule_json(name, taken)).collect::<Vec<_>>(),
                "unmatched": runs.unmatched(),
                "breaches": breaches.iter().map(|(way, breach)| breach_json(way, breach)).collect::<Vec<_>>(),
                "each": runs.many(&scenario).iter().map(|(name, report)| each::json(name, report)).collect::<Vec<_>>(),
            }))?
        );
        return Ok(runs.exit());
    }
    say!("simulated: {} x {}, seed {}; means with 95 % intervals", runs.len(), runs.duration(), scenario.run.seed);
    let header = ["flow", "offered", "delivered", "dropped", "delay mean", "p50", "p99", "max", "backlog max"];
    say!("{}", show::table(&header, flows.iter().map(|(name, f)| row(name, f))));
    if !rules.is_empty() {
        say!("{}", show::table(&RULE_HEADER, rules.iter().map(|(name, taken)| rule_row(name, taken))));
    }
    for (way, breach) in &breaches {
        say!("{way}: {breach}");
    }
    if runs.unmatched() > 0 {
        say!("{} packets matched no rule", runs.unmatched());
    }
    let of = |n: u64, what: &'static str| Some((n, what)).filter(|_| n > 0);
    for (name, f) in &flows {
        let all = [of(f.dropped_by_policy, "were dropped"), of(f.marked, "were marked")];
        let all = all.into_iter().flatten().map(|(n, what)| format!("{} {what}", show::percent(n, f.offered)));
        let all: Vec<String> = all.collect();
        if !all.is_empty() {
            say!("by the policy of the queue, of the packets of {name}: {}", all.join(", "));
        }
    }
    let simulated = runs.duration() * runs.len() as u64;
    let air = flows.iter().filter_map(|(name, f)| air_told(name, &f.air, simulated));
    air.for_each(|told| say!("{told}"));
    for (name, f) in &flows {
        let all = [
            of(f.lost, "were lost"),
            of(f.duplicated, "arrived twice"),
            of(f.corrupted, "arrived with a bit turned"),
            of(f.reordered, "overtook"),
        ];
        let all = all.into_iter().flatten().map(|(n, what)| format!("{} {what}", show::percent(n, f.sent + f.lost)));
        let all: Vec<String> = all.collect();
        if !all.is_empty() {
            say!("on the link, of the packets of {name}: {}", all.join(", "));
        }
    }
    for (name, report) in runs.many(&scenario) {
        let first = if runs.len() > 1 { "\nof the first replication: " } else { "\n" };
        say!("{first}{}", each::told(&name, report));
    }
    Ok(runs.exit())
}

fn row(name: &str, f: &Simulated) -> Vec<String> {
    vec![
        name.to_owned(),
        show::rate(f.offered_rate.map_or(0.0, |e| e.mean)),
        show::rate(f.sent_rate.map_or(0.0, |e| e.mean)),
        show::percent(f.dropped, f.offered),
        show::delay(f.mean),
        show::span(f.delay.quantile(0.5)),
        show::span(f.delay.quantile(0.99)),
        show::span(f.delay.max()),
        format!("{} p", f.max_backlog),
    ]
}

fn json(name: &str, f: &Simulated) -> Json {
    Json {
        flow: name.to_owned(),
        offered: f.offered,
        delivered: f.sent,
        dropped: f.dropped,
        dropped_by_policy: f.dropped_by_policy,
        marked: f.marked,
        air: air_json(&f.air),
        lost: f.lost,
        duplicated: f.duplicated,
        corrupted: f.corrupted,
        reordered: f.reordered,
        offered_rate: f.offered_rate.map_or(0.0, |e| e.mean),
        delivered_rate: f.sent_rate.map_or(0.0, |e| e.mean),
        delivered_rate_half_width: f.sent_rate.and_then(|e| e.half_width),
        delay_mean_ns: f.mean.map(|e| e.mean),
        delay_mean_half_width_ns: f.mean.and_then(|e| e.half_width),
        delay_p50_ns: f.delay.quantile(0.5).map(|s| s.0),
        delay_p99_ns: f.delay.quantile(0.99).map(|s| s.0),
        delay_max_ns: f.delay.max().map(|s| s.0),
        max_backlog_packets: f.max_backlog,
    }
}
