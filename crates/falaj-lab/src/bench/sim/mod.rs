//! `falaj bench sim`: packets simulated per second; the effect of more cores; and the time until
//! the confidence interval of the loss is within 1 %.
//!
//! Packets pass through the engine, with counters and delay histograms on. The registry builds the
//! discipline.

mod cases;
mod instructions;

use super::{cpu_nanos, exit, median};
use anyhow::{Result, anyhow, ensure};
use cases::{CASES, SimulationCase};
use falaj_experiment::simulation::{Simulation, SimulationPlan};
use falaj_live::clock::process_cpu;
use falaj_scenario::Scenario;
use falaj_sim::scenario::experiment;
use falaj_sim::{Experiment, Progress, Run, replicate, simulate};
use falaj_terminal::interrupt::interruptible;
use falaj_terminal::{progress, text};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Arguments of `bench sim`.
#[derive(clap::Args)]
#[command(after_help = "\
Each case is a scenario, and --scenario prints it: `falaj sim` takes it, too.

Examples:
  falaj bench sim
  falaj bench sim --only drr --millions 2
  falaj bench sim --scenario 'packet-wise, skip' > skip.toml
  falaj bench sim --instructions")]
pub struct Args {
    /// Packets for each figure, in millions.
    #[arg(long, default_value_t = 10,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    millions: u64,
    /// Runs for each figure, all cases in turn; the median and the maximum are reported.
    #[arg(long, default_value_t = 5,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    repeat: u64,
    /// Run only the cases whose names contain this text.
    #[arg(long)]
    only: Option<String>,
    /// Print the scenario of this case, with its smallest number of flows, instead of running
    /// anything.
    #[arg(long, value_name = "CASE")]
    scenario: Option<String>,
    /// Count instructions per packet instead of time, for cases with few flows; needs valgrind.
    #[arg(long, conflicts_with = "scenario")]
    instructions: bool,
    /// Compare the instructions with those that this file has for the same compiler; 5 % more are
    /// allowed.
    #[arg(long, value_name = "FILE", requires = "instructions")]
    check: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Run once under valgrind, and mark the instructions to count.
    #[arg(long, hide = true)]
    counted: bool,
}

impl Args {
    /// The selected cases.
    fn cases(&self) -> impl Iterator<Item = &'static SimulationCase> {
        CASES.iter().filter(|case| self.only.as_ref().is_none_or(|only| case.name.contains(only)))
    }
}

/// The results of a case with this number of flows.
struct SimulationCost<'a> {
    case: &'a SimulationCase,
    flows: u32,
    /// Packets times links per second of CPU time, in millions, of each run.
    rates: Vec<f64>,
}

impl SimulationCost<'_> {
    fn most(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

/// The times of replications on all cores, and of the same replications on one core.
struct Cores {
    cores: usize,
    one: Took,
    all: Took,
}

/// Durations in seconds.
struct Took {
    /// Wall-clock time.
    wall: f64,
    /// CPU time of all threads together. If this is the same on many cores as on one, no thread
    /// slows down another through caches or memory.
    cpu: f64,
}

impl Took {
    /// Measures the times of `act`; `None` if it was stopped.
    fn by(act: impl FnOnce() -> Result<bool>) -> Result<Option<Took>> {
        let (began, before) = (Instant::now(), process_cpu());
        let complete = act()?;
        let (wall, cpu) = (began.elapsed().as_secs_f64(), (process_cpu() - before) as f64 / 1e9);
        Ok(complete.then_some(Took { wall, cpu }))
    }
}

/// Runs `falaj bench sim`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    if let Some(name) = &args.scenario {
        say!(
            "{}",
            named(name)?.scenario(named(name)?.flows[0], args.millions * 1_000_000).trim_end()
        );
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        args.cases().next().is_some(),
        "--only: no case has this text in its name; there are {}",
        names()
    );
    if args.counted {
        return instructions::counted(args);
    }
    if args.instructions {
        return instructions::main(args);
    }
    let mut all = Vec::new();
    for case in args.cases() {
        for &flows in case.flows {
            let simulated = read(&case.scenario(flows, args.millions * 1_000_000))?;
            all.push((
                SimulationCost { case, flows, rates: Vec::new() },
                experiment(&simulated, simulated.run.duration),
            ));
        }
    }
    let bar = progress::long_bar(all.len() as u64 * args.repeat, "simulating");
    let (cores, mut interrupted) = interruptible(|stop| {
        for seed in 0..args.repeat {
            for (found, experiment) in &mut all {
                match rate(experiment, seed, stop)? {
                    Some(rate) => found.rates.push(rate),
                    None => return Ok(None),
                }
                bar.inc(1);
            }
        }
        let fortuna = all
            .iter()
            .find(|(found, _)| found.case.name == "drr")
            .map(|(_, experiment)| experiment);
        fortuna.map_or(Ok(None), |experiment| on_all_cores(experiment, stop))
    })?;
    bar.finish_and_clear();
    let interval = if interrupted || cores.is_none() { None } else { Some(one_percent()?) };
    interrupted |= interval.as_ref().is_some_and(|(simulation, _)| simulation.interrupted());
    let found: Vec<SimulationCost> =
        all.into_iter().map(|(found, _)| found).filter(|found| !found.rates.is_empty()).collect();
    let exit = exit(interrupted, found.is_empty())?;
    if args.json {
        say!(
            "{}",
            serde_json::to_string_pretty(&as_json(&found, cores.as_ref(), interval.as_ref()))?
        );
        return Ok(exit);
    }
    say!(
        "millions of packets per second of CPU time on one core; a packet counts once on each link \
         that it crosses; {} M packets, median of {}",
        args.millions,
        args.repeat
    );
    let rows = found.iter().map(|f| {
        let rate = median(f.rates.clone());
        let (flows, links) = (f.flows.to_string(), f.case.links.to_string());
        vec![
            f.case.name.to_owned(),
            flows,
            links,
            format!("{rate:.1}"),
            format!("{:.1}", f.most()),
            format!("{:.0}", 1e3 / rate),
        ]
    });
    say!(
        "{}",
        text::table(&["discipline", "flows", "links", "M packets/s", "most", "ns/packet"], rows)
    );
    if let Some(Cores { cores, one, all }) = cores {
        say!(
            "drr, 2 flows, on {cores} cores: {:.2} times as fast as on one ({:.2} s, {:.2} s), for {:.2} times the CPU time",
            one.wall / all.wall,
            one.wall,
            all.wall,
            all.cpu / one.cpu
        );
    }
    if let Some((simulation, seconds)) = &interval {
        let n = simulation.studies[0].replications();
        say!("drr, 2 flows, loss within 1 % (95 %): {seconds:.2} s, {n} replications");
    }
    Ok(exit)
}

fn named(name: &str) -> Result<&'static SimulationCase> {
    let found = CASES.iter().find(|case| case.name == name);
    found.ok_or_else(|| anyhow!("there is no case `{name}`; there are {}", names()))
}

fn names() -> String {
    let all: Vec<String> = CASES.iter().map(|case| format!("`{}`", case.name)).collect();
    all.join(", ")
}

fn read(text: &str) -> Result<Scenario> {
    falaj_scenario::parse(text, "bench sim")
        .map(|(scenario, _)| scenario)
        .map_err(|wrong| anyhow!("{wrong}"))
}

/// Packets times links, in millions, per second of this thread's CPU time; `None` if it was
/// stopped.
fn rate(experiment: &Experiment, seed: u64, stop: &AtomicBool) -> Result<Option<f64>> {
    let before = cpu_nanos();
    let run = simulate(experiment, seed, stop).map_err(|(_, refused)| refused)?;
    let used = cpu_nanos() - before;
    Ok(run.complete.then(|| packets_of(&run) as f64 * 1e3 / used as f64))
}

/// The sum over links of packets that arrived.
fn packets_of(run: &Run) -> u64 {
    run.pipes.iter().flatten().map(|flow| flow.counters.offered).sum()
}

/// Runs replications one after the other, and on all cores.
fn on_all_cores(experiment: &Experiment, stop: &AtomicBool) -> Result<Option<Cores>> {
    let cores = falaj_sim::cores::all();
    // Enough replications that the time of the last ones hardly matters.
    let replications = 12 * cores;
    let one = Took::by(|| {
        for seed in 0..replications as u64 {
            if rate(experiment, seed, stop)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    let all = Took::by(|| {
        let progress = Progress { gone: &|_| {}, stop };
        let runs =
            replicate(experiment, 0, replications, &progress).map_err(|(_, refused)| refused)?;
        Ok(runs.len() == replications && runs.iter().all(|run| run.complete))
    })?;
    Ok(one.zip(all).map(|(one, all)| Cores { cores, one, all }))
}

/// The case `drr` with two flows, a million packets in each replication, until its loss is known
/// within 1 %; and the wall-clock time for it.
fn one_percent() -> Result<(Simulation, f64)> {
    let scenario = read(&named("drr")?.scenario(2, 1_000_000))?;
    let until = "loss ±1%".parse().map_err(|why: String| anyhow!(why))?;
    let began = Instant::now();
    let simulation = Simulation::run(&[&scenario], &SimulationPlan::until(vec![until]))?;
    Ok((simulation, began.elapsed().as_secs_f64()))
}

fn as_json(
    found: &[SimulationCost<'_>],
    cores: Option<&Cores>,
    interval: Option<&(Simulation, f64)>,
) -> Json {
    let cases: Vec<Json> = found
        .iter()
        .map(|f| {
            let (name, links, flows) = (f.case.name, f.case.links, f.flows);
            json!({
                "discipline": name, "flows": flows, "links": links, "mpps": median(f.rates.clone()),
                "most_mpps": f.most(),
            })
        })
        .collect();
    let cores = cores.map(|c| {
        let (one, all) = (&c.one, &c.all);
        json!({
            "cores": c.cores, "one_s": one.wall, "all_s": all.wall, "times": one.wall / all.wall,
            "one_cpu_s": one.cpu, "all_cpu_s": all.cpu,
        })
    });
    let interval = interval.map(|(simulation, seconds)| {
        let replications = simulation.studies[0].replications();
        json!({
            "seconds": seconds, "replications": replications, "reached": simulation.is_enough(),
        })
    });
    json!({ "cases": cases, "cores": cores, "interval": interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_scenario_and_its_link_is_full() {
        for case in CASES {
            for &flows in case.flows {
                let scenario = read(&case.scenario(flows, 20_000))
                    .unwrap_or_else(|why| panic!("{}: {why}", case.name));
                let run = simulate(
                    &experiment(&scenario, scenario.run.duration),
                    1,
                    &AtomicBool::new(false),
                )
                .unwrap();
                let offered: u64 =
                    run.pipes.iter().flatten().map(|flow| flow.counters.offered).sum();
                let lost: u64 =
                    run.pipes.iter().flatten().map(|flow| flow.counters.dropped()).sum();
                let what =
                    format!("{} with {flows} flows: {offered} offered, {lost} lost", case.name);
                // Five standard deviations of 20,000 Poisson arrivals are 710 packets on one link,
                // and 5,700 on eight in a row; later links also lack packets lost before.
                assert!(offered.abs_diff(20_000 * u64::from(case.links)) < 8_000, "{what}");
                assert!(lost * 4 < offered, "{what}");
            }
        }
    }
}
