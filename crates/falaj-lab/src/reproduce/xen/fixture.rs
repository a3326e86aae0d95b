//! Experiments, simulated and on real packets; each experiment is run once for all figures that
//! need it.

use super::super::disk::{DiskLoad, Done};
use super::testbed::{Divider, PACKET, PAYLOAD, Testbed, VMS};
use crate::adapter_traffic;
use crate::adapter_traffic::{Guests, TrafficPlan, Window, simulate};
use anyhow::Result;
use falaj_sched::units::time::Span;
use falaj_terminal::text;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The effort of the experiments.
#[derive(Clone, Copy)]
pub(super) struct Thoroughness {
    /// Duration on real packets that stands for one second of the paper, in experiments with Xen's
    /// period of 50 ms (which is unchanged), with changes of weights, or with disk load.
    pub(super) second: Span,
    /// Duration on real packets that stands for one second of the paper, in all other experiments.
    pub(super) short: Span,
    /// Number of runs on real packets of experiments that the paper repeated; others are run once.
    pub(super) live: u64,
    /// Number of simulated runs of experiments that the paper repeated.
    pub(super) simulated: u64,
    /// True for experiments of full length; otherwise some are shorter.
    pub(super) long: bool,
    /// Factor by which all rates are lower than the paper's; reported rates are multiplied by it.
    pub(super) slower: u32,
    /// Maximum number of times that a run on real packets is made until one without a stall of this
    /// host is found.
    pub(super) tries: u32,
}

impl Thoroughness {
    pub(super) const FULL: Thoroughness = Thoroughness {
        second: Span::from_secs(1),
        short: Span::from_secs(1),
        live: 10,
        simulated: 10,
        long: true,
        slower: 1,
        tries: 2,
    };
    pub(super) const QUICK: Thoroughness = Thoroughness {
        second: Span::from_millis(100),
        short: Span::from_millis(50),
        live: 1,
        simulated: 3,
        long: false,
        slower: 1,
        tries: 5,
    };
    /// In guests: six of Xen's periods in a second of the paper, and three windows of 100 ms.
    pub(super) const GUESTS: Thoroughness = Thoroughness {
        second: Span::from_millis(300),
        short: Span::from_millis(300),
        slower: SLOWER,
        long: false,
        ..Thoroughness::FULL
    };
    /// In guests, with one run of each experiment on real packets. Only experiments that use
    /// `second` have shorter seconds than those of [`Thoroughness::GUESTS`].
    pub(super) const QUICK_GUESTS: Thoroughness = Thoroughness {
        second: Thoroughness::QUICK.second,
        live: 1,
        simulated: 3,
        ..Thoroughness::GUESTS
    };
}

/// An experiment, and how it is evaluated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Experiment {
    pub(super) bed: Testbed,
    /// Start and end of the disk load, in seconds of the paper's time.
    pub(super) disk: Option<(u32, u32)>,
    /// True if the paper repeated the experiment: the effort sets the number of runs. Otherwise it
    /// is run once.
    pub(super) repeated: bool,
    /// True if each second of the paper is divided into windows of 100 ms.
    pub(super) fine: bool,
}

/// Goodput in Mbit/s, by window and machine.
pub(super) type RateSeries = Vec<[f64; 2]>;

/// The results of an experiment.
#[derive(Clone, Default)]
pub(super) struct Runs {
    pub(super) simulated: Vec<RateSeries>,
    /// Rates measured at the receiver.
    pub(super) live: Vec<RateSeries>,
    /// Rates of the packets that the link sent, at nominal instants; empty if all flows share one
    /// queue.
    pub(super) sent: Vec<RateSeries>,
    /// Maximum lateness of a delivery.
    pub(super) late: Span,
    /// The disk load.
    pub(super) disk: Option<Done>,
    /// Number of windows in a second of the paper: on real packets, and simulated.
    pub(super) parts: [usize; 2],
    /// The reason why measured values are not judged, if this host stalled in a run.
    pub(super) stalled: Option<String>,
}

impl Runs {
    /// This measured value; NaN if this host stalled.
    pub(super) fn measured(&self, value: f64) -> f64 {
        if self.stalled.is_some() { f64::NAN } else { value }
    }
}

/// A run on real packets.
struct LiveRun {
    windows: Vec<Window>,
    disk: Option<Done>,
    /// Maximum lateness of a delivery.
    late: Span,
}

pub(super) struct Fixture {
    pub(super) effort: Thoroughness,
    made: RefCell<BTreeMap<Experiment, Runs>>,
    /// The guests, if the machines are virtual machines; otherwise they are namespaces.
    guests: Option<RefCell<Guests>>,
}

/// Factor by which rates are lower in guests. Higher rates are not possible, because two emulated
/// processors share two real processors.
pub(super) const SLOWER: u32 = 4;
/// The first seed.
const SEED: u64 = 1;

fn mbit(bytes: u64, window: Span) -> f64 {
    bytes as f64 * 8e3 / window.0 as f64
}

impl Fixture {
    pub(super) fn new(effort: Thoroughness, guests: Option<Guests>) -> Fixture {
        Fixture { effort, made: RefCell::default(), guests: guests.map(RefCell::new) }
    }

    pub(super) fn runs(&self, experiment: &Experiment) -> Result<Runs> {
        if let Some(runs) = self.made.borrow().get(experiment) {
            return Ok(runs.clone());
        }
        let runs = self.make(experiment)?;
        self.made.borrow_mut().insert(experiment.clone(), runs.clone());
        Ok(runs)
    }

    /// The simulated results alone.
    pub(super) fn simulated(&self, experiment: &Experiment) -> Result<Vec<RateSeries>> {
        if let Some(runs) = self.made.borrow().get(experiment) {
            return Ok(runs.simulated.clone());
        }
        self.simulate(experiment, 1)
    }

    /// The rates of both machines in the paper's Mbit/s.
    fn both(&self, of: &[u64], window: Span) -> [f64; 2] {
        let slower = f64::from(self.effort.slower);
        [0, 1].map(|vm| of.get(vm).map_or(0.0, |bytes| mbit(*bytes, window) * slower))
    }

    fn times(&self, experiment: &Experiment, of: u64) -> u64 {
        if experiment.repeated { of } else { 1 }
    }

    /// Simulates an experiment; a second of the paper lasts a second of simulated time.
    fn simulate(&self, experiment: &Experiment, parts: usize) -> Result<Vec<RateSeries>> {
        let second = SECOND;
        let window = Span(second.0 / parts as u64);
        let run = |seed: u64| {
            let scenario = experiment.bed.scenario(second, self.effort.slower, seed)?;
            let simulated = simulate(&scenario, &experiment.bed.homes(), window)?;
            let payload = |bytes: &u64| bytes / u64::from(PACKET) * u64::from(PAYLOAD);
            Ok(simulated
                .windows
                .iter()
                .map(|w| self.both(&w.iter().map(payload).collect::<Vec<_>>(), window))
                .collect())
        };
        (SEED..SEED + self.times(experiment, self.effort.simulated)).map(run).collect()
    }

    /// The duration on real packets that stands for one second of the paper.
    fn second(&self, Experiment { bed, disk, .. }: &Experiment) -> Span {
        let periods = matches!(bed.server, Divider::Netback(_)) || !bed.changes.is_empty();
        // Rates beside the disk load are counted at the receiver, where a late packet matters more
        // the shorter a second is.
        if periods || disk.is_some() { self.effort.second } else { self.effort.short }
    }

    fn make(&self, experiment: &Experiment) -> Result<Runs> {
        let Experiment { bed, fine, .. } = experiment;
        let effort = self.effort;
        let second = self.second(experiment);
        let parts = if *fine && second > FINE { (second.0 / FINE.0) as usize } else { 1 };
        let simulated_parts = if *fine { (SECOND.0 / FINE.0) as usize } else { 1 };
        let mut runs = Runs { parts: [parts, simulated_parts], ..Runs::default() };
        let window = Span(second.0 / parts as u64);
        for seed in SEED..SEED + self.times(experiment, effort.live) {
            let LiveRun { windows, disk, late } = self.run_calmly(experiment, seed, window)?;
            runs.disk = disk;
            runs.late = late.max(runs.late);
            runs.live.push(windows.iter().map(|w| self.both(&w.received, window)).collect());
            let sent = |w: &Window| {
                self.both(
                    &w.sent.iter().map(|p| p * u64::from(PAYLOAD)).collect::<Vec<_>>(),
                    window,
                )
            };
            if bed.server != Divider::Fifo {
                runs.sent.push(windows.iter().map(sent).collect());
            }
        }
        if runs.late > self.stall() {
            runs.stalled = Some(format!(
                "this host stalled for {} in the best of {} tries; half of a full queue is sent in \
                 {}. Measure again when the host is less busy",
                text::nanos(runs.late.0 as f64),
                effort.tries,
                text::nanos(self.stall().0 as f64),
            ));
        }
        runs.simulated = self.simulate(experiment, simulated_parts)?;
        Ok(runs)
    }

    /// The lateness above which a run shows a stall of the host and not the scheduler: the time in
    /// which the link sends half of a flow's queue.
    fn stall(&self) -> Span {
        STALL * u64::from(self.effort.slower)
    }

    /// Runs an experiment on real packets until a run has no stall of this host. Returns that run,
    /// or the one with the shortest stall.
    fn run_calmly(&self, experiment: &Experiment, seed: u64, window: Span) -> Result<LiveRun> {
        let mut best = self.run(experiment, seed, window)?;
        for _ in 1..self.effort.tries {
            if best.late <= self.stall() {
                break;
            }
            let run = self.run(experiment, seed, window)?;
            if run.late < best.late {
                best = run;
            }
        }
        Ok(best)
    }

    /// Runs an experiment once on real packets.
    fn run(&self, experiment: &Experiment, seed: u64, window: Span) -> Result<LiveRun> {
        let Experiment { bed, disk, .. } = experiment;
        let second = self.second(experiment);
        let homes = bed.homes();
        let scenario = bed.scenario(second, self.effort.slower, seed)?;
        let load = RefCell::new(None);
        let begins = || -> Result<()> {
            let at = |seconds: u32| Duration::from_nanos(second.0) * seconds;
            let lead = Duration::from_nanos(falaj_experiment::measure::LEAD.0);
            if let Some((from, to)) = disk {
                *load.borrow_mut() = Some(DiskLoad::between(lead + at(*from), lead + at(*to))?);
            }
            Ok(())
        };
        let plan = TrafficPlan {
            scenario: &scenario,
            homes: &homes,
            adapters: &VMS[..homes.iter().max().map_or(1, |last| last + 1)],
            window,
            begins: &begins,
            terms: None,
            guests: self.guests.as_ref(),
        };
        let measured = adapter_traffic::measure(&plan).map(|measured| measured.windows);
        let disk = load.into_inner().map(DiskLoad::end).transpose();
        let windows = measured?;
        let late = windows.iter().map(|w| w.late).max().unwrap_or_default();
        Ok(LiveRun { windows, disk: disk?, late })
    }
}

/// Half of the time in which the link sends a full queue of a flow, 400 packets.
const STALL: Span = Span::from_millis(24);
/// Window for observing the effect of a change.
const FINE: Span = Span::from_millis(100);
const SECOND: Span = Span::from_secs(1);

impl Experiment {
    /// The paper's experiment on this testbed, repeated as the effort provides.
    pub(super) fn of(bed: Testbed) -> Experiment {
        Experiment { bed, disk: None, repeated: true, fine: false }
    }

    /// This experiment, run once.
    pub(super) fn once(self) -> Experiment {
        Experiment { repeated: false, ..self }
    }
}

/// Maximum goodput of the link in Mbit/s.
pub(super) fn most() -> f64 {
    100.0 * f64::from(PAYLOAD) / f64::from(PACKET)
}
