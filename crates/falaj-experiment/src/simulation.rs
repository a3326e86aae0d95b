//! Simulations that are set up by command-line options: replications, warm-up, and required
//! intervals.

use anyhow::{Result, bail};
use falaj_scenario::keys::SEED_MAX;
use falaj_scenario::{Scenario, parse_span};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::measure::Until;
use falaj_sim::replication_plan::PILOTS;
use falaj_sim::scenario::{all_flows, name_of};
use falaj_sim::scenario::{experiment, pipe_of};
use falaj_sim::until;
use falaj_sim::{Experiment, Progress, ReplicationPlan, Study, WarmUp, WarmUpMethod, Warmed};
use falaj_terminal::interrupt::{Interrupted, interrupts};
use falaj_terminal::progress;
use serde_json::{Value as Json, json};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Arguments of the commands that simulate.
#[derive(clap::Args)]
pub struct ReplicationArgs {
    /// Number of independent replications [default: the scenario's]. With --until, their maximum
    /// number [default: 1000].
    #[arg(long, value_parser = falaj_terminal::arguments::number::<u32>(1..=10_000))]
    replications: Option<u32>,
    /// Seed of random numbers [default: the scenario's]. Each replication has a seed higher by 1
    /// than the previous one.
    #[arg(long, value_parser = falaj_terminal::arguments::number::<u64>(0..=SEED_MAX))]
    seed: Option<u64>,
    /// Add replications until the 95 % confidence interval is this narrow: `delay.mean ±1%`, `loss
    /// ±5%`, `rate ±1%`, `FLOW.delay.p99 ±2%`; without FLOW, for every flow. May be given again.
    #[arg(long, value_name = "INTERVAL")]
    until: Vec<Until>,
    /// Time before the steady state; packets of this time are not counted: auto (found by MSER-5),
    /// none, or a time [default: auto. For a comparison with measured packets the default is none,
    /// because the measurement begins with an empty link too].
    #[arg(long, value_name = "auto|none|TIME", value_parser = warm_up)]
    warm_up: Option<WarmUp>,
}

fn warm_up(text: &str) -> Result<WarmUp, String> {
    match text {
        "auto" => Ok(WarmUp::Found),
        "none" => Ok(WarmUp::Nothing),
        _ => parse_span(text)
            .map(WarmUp::Given)
            .map_err(|why| format!("{why}; or write `auto` or `none`")),
    }
}

/// Exit status if the replications ended before the intervals were narrow enough.
pub const INCONCLUSIVE: u8 = 3;

impl ReplicationArgs {
    /// The first seed, if given.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Applies the options to a scenario's run.
    pub fn apply(&self, scenario: &mut Scenario) {
        scenario.run.replications = self.replications.unwrap_or(scenario.run.replications);
        scenario.begin_at(self.seed.unwrap_or(scenario.run.seed));
    }

    /// The plan for a scenario to which [`ReplicationArgs::apply`] was applied; `otherwise` is the
    /// default of the warm-up.
    pub fn plan(&self, scenario: &Scenario, otherwise: WarmUp) -> Result<SimulationPlan> {
        let warm_up = self.warm_up.unwrap_or(otherwise);
        let duration = scenario.run.duration;
        if let WarmUp::Given(cut) = warm_up
            && cut >= duration
        {
            bail!(
                "--warm-up {cut} is not shorter than the run of {duration}: write a shorter \
                 --warm-up or a longer --duration"
            );
        }
        for until in &self.until {
            if let Err(what) = until::known(scenario, until) {
                bail!("--until {what}");
            }
        }
        let most = if self.until.is_empty() {
            scenario.run.replications as usize
        } else {
            self.replications.map_or(until::LIMIT, |n| n as usize)
        };
        Ok(SimulationPlan { warm_up, until: self.until.clone(), most, shares: &[] })
    }
}

/// The plan of a simulation.
pub struct SimulationPlan {
    warm_up: WarmUp,
    until: Vec<Until>,
    most: usize,
    /// Further quantiles of the delay that get intervals.
    shares: &'static [f64],
}

impl SimulationPlan {
    /// This plan with intervals for these further quantiles of the delay.
    pub fn with(self, shares: &'static [f64]) -> SimulationPlan {
        SimulationPlan { shares, ..self }
    }

    /// Runs replications after an automatic warm-up until these intervals are narrow enough, but at
    /// most [`until::LIMIT`].
    pub fn until(until: Vec<Until>) -> SimulationPlan {
        SimulationPlan { warm_up: WarmUp::Found, until, most: until::LIMIT, shares: &[] }
    }

    /// All replications of the scenario without a warm-up, as in measurements with real packets.
    pub fn beside(scenario: &Scenario) -> SimulationPlan {
        SimulationPlan {
            warm_up: WarmUp::Nothing,
            until: Vec::new(),
            most: scenario.run.replications as usize,
            shares: &[],
        }
    }
}

/// The simulation of a scenario, or of several under the same arrivals.
pub struct Simulation {
    /// One study for each scenario.
    pub studies: Vec<Study>,
    /// The warm-up that was cut, and how it was found.
    pub warmed: Warmed,
    /// The required intervals and their present widths.
    until: Vec<Reached>,
    /// Maximum number of replications.
    most: usize,
    interrupted: bool,
}

/// A required interval.
struct Reached {
    until: Until,
    /// Half the present width of the widest interval, as a fraction of its estimate; `None` if an
    /// interval is not known.
    now: Option<f64>,
}

impl Reached {
    fn is_enough(&self) -> bool {
        self.now.is_some_and(|now| now <= self.until.within)
    }
}

impl Simulation {
    /// Runs the simulation with progress on a terminal. Ctrl-C ends the simulation where it is, a
    /// second one ends the program.
    pub fn run(scenarios: &[&Scenario], plan: &SimulationPlan) -> Result<Simulation> {
        let first = scenarios[0];
        let duration = first.run.duration;
        let experiments: Vec<Experiment> =
            scenarios.iter().map(|s| experiment(s, duration)).collect();
        let stop = interrupts()?;
        stop.store(false, Ordering::Relaxed);
        let steps =
            |replications: usize| (replications * experiments.len()) as u64 * micros(duration);
        let first_ones =
            if plan.until.is_empty() { plan.most } else { until::FIRST.min(plan.most) };
        let bar = progress::bar_of_time(steps(first_ones + PILOTS));
        let gone = |span: Span| bar.inc(micros(span));
        let progress = Progress { gone: &gone, stop: &stop };
        let mut quantiles = until::quantiles(&plan.until);
        quantiles.extend(plan.shares);
        let practice = ReplicationPlan {
            seed: first.run.seed,
            warm_up: plan.warm_up,
            quantiles,
            most: plan.most,
        };
        let (studies, warmed) = practice
            .studies(&experiments, &progress, |studies| {
                let have = studies[0].replications();
                let next = if plan.until.is_empty() {
                    plan.most
                } else {
                    until::wanted(first, &plan.until, studies)
                };
                bar.set_length(bar.position() + steps(next.min(plan.most).saturating_sub(have)));
                if !plan.until.is_empty() {
                    bar.set_message(format!("{have} replications, simulating more"));
                }
                next
            })
            .map_err(|(_, refused)| refused)?;
        bar.finish_and_clear();
        let interrupted = stop.swap(true, Ordering::Relaxed);
        let until = plan.until.iter().map(|asked| Reached {
            until: asked.clone(),
            now: until::width(first, asked, &studies),
        });
        let until = until.collect();
        let simulation = Simulation { studies, warmed, until, most: plan.most, interrupted };
        simulation.tell_interruption(duration)?;
        Ok(simulation)
    }

    fn tell_interruption(&self, duration: Span) -> Result<()> {
        let study = &self.studies[0];
        if self.studies.iter().any(|study| study.replications() == 0) {
            return Err(Interrupted("before the first packet").into());
        }
        if !study.is_complete() {
            eprintln!("interrupted: {} of {duration} simulated", study.duration());
        } else if self.interrupted() {
            eprintln!("interrupted: {} of {} replications", study.replications(), self.most);
        }
        Ok(())
    }

    /// Returns true if Ctrl-C ended the simulation early.
    pub fn interrupted(&self) -> bool {
        let all = |study: &Study| study.is_complete() && study.replications() == self.most;
        let done = self.studies.iter().all(all) || !self.until.is_empty() && self.is_enough();
        self.interrupted && !done
    }

    /// Returns true if all intervals are narrow enough.
    pub fn is_enough(&self) -> bool {
        self.until.iter().all(Reached::is_enough)
    }

    /// The exit status: 130 after Ctrl-C, 3 if the replications ended before the intervals were
    /// narrow enough.
    pub fn exit(&self) -> ExitCode {
        match () {
            () if self.interrupted() => ExitCode::from(falaj_terminal::interrupt::INTERRUPTED),
            () if !self.is_enough() => ExitCode::from(INCONCLUSIVE),
            () => ExitCode::SUCCESS,
        }
    }

    /// Title of the simulation: `8 x 10s, seed 1, less 50ms of warm-up each`.
    pub fn title(&self, scenario: &Scenario) -> String {
        let study = &self.studies[0];
        let warm_up = match self.warmed.cut {
            Span::ZERO => String::new(),
            cut => format!(", less {cut} of warm-up each"),
        };
        format!(
            "{} x {}, seed {}{warm_up}",
            study.replications(),
            study.duration(),
            scenario.run.seed
        )
    }

    /// Remarks on the warm-up and the intervals, one per line.
    pub fn notes(&self, scenario: &Scenario) -> Vec<String> {
        let mut notes = Vec::new();
        if let WarmUpMethod::Found { late, unknown, .. } = &self.warmed.how {
            for (pipe, flow, cut) in late {
                notes.push(format!(
                    "no steady state of {}: its delays change until the end, and MSER-5 would cut \
                     at least {cut} of {}; nothing was cut for it. Simulate longer (--duration), \
                     or check if its offered rate exceeds its share",
                    name_at(scenario, pipe.0, *flow),
                    self.studies[0].duration(),
                ));
            }
            if !unknown.is_empty() {
                let names: Vec<String> =
                    unknown.iter().map(|(p, f)| name_at(scenario, p.0, *f)).collect();
                notes.push(format!(
                    "too few packets to determine the warm-up: {}",
                    names.join(", ")
                ));
            }
        }
        if self.warmed.how == WarmUpMethod::Scheduled {
            notes.push(
                "sources begin or end, or links change, within the run: no warm-up was cut".into(),
            );
        }
        for reached in &self.until {
            let short = "no interval (simulate longer: a replication has fewer than five packets beyond the quantile)";
            let unknown = if until::quantile(reached.until.measure).is_some() {
                short
            } else {
                "no interval"
            };
            let now = reached.now.map_or(unknown.into(), |now| format!("±{:.2} %", now * 100.0));
            let (until, n) = (&reached.until, self.studies[0].replications());
            notes.push(if reached.is_enough() {
                format!("{until}: reached, {now} after {n} replications")
            } else {
                format!(
                    "{until}: not reached, {now} after {n} replications; the maximum is {}",
                    self.most
                )
            });
        }
        notes
    }

    /// Prints the remarks, and the meaning of maxima.
    pub fn tell(&self, scenario: &Scenario) {
        self.notes(scenario).iter().for_each(|note| say!("{note}"));
        say!(
            "maxima are the largest values seen, not estimates: longer runs see larger ones, and `falaj plan` bounds them"
        );
    }

    /// The remarks as JSON: those on the warm-up, and those on the intervals.
    pub fn json(&self, scenario: &Scenario) -> (Json, Json) {
        let (how, late, unknown) = match &self.warmed.how {
            WarmUpMethod::Asked => ("asked", &[][..], &[][..]),
            WarmUpMethod::Scheduled => ("scheduled", &[][..], &[][..]),
            WarmUpMethod::Stopped => ("stopped", &[][..], &[][..]),
            WarmUpMethod::Found { late, unknown, .. } => ("mser-5", &late[..], &unknown[..]),
        };
        let late: Vec<Json> = late
            .iter()
            .map(|(pipe, flow, cut)| {
                json!({
                    "flow": name_at(scenario, pipe.0, *flow), "cut_ns": cut.0,
                })
            })
            .collect();
        let unknown: Vec<String> =
            unknown.iter().map(|(pipe, flow)| name_at(scenario, pipe.0, *flow)).collect();
        let until: Vec<Json> = self
            .until
            .iter()
            .map(|r| {
                json!({
                    "asked": r.until.to_string(), "reached": r.is_enough(), "within": r.now,
                })
            })
            .collect();
        (
            json!({ "cut_ns": self.warmed.cut.0, "how": how, "late": late, "unknown": unknown }),
            json!(until),
        )
    }
}

fn micros(span: Span) -> u64 {
    span.0 / 1000
}

fn name_at(scenario: &Scenario, pipe: u32, flow: FlowId) -> String {
    let at = all_flows(scenario)
        .into_iter()
        .find(|&(l, t, f)| (pipe_of(l, t).0, f) == (pipe, flow.index()));
    at.map_or_else(String::new, |at| name_of(scenario, at))
}
