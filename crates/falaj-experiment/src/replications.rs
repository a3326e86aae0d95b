//! All replications of a scenario, and what each flow did in them.

use crate::simulation::{Simulation, SimulationPlan};
use anyhow::Result;
use falaj_engine::PipeId;
use falaj_engine::masks::MaskStats;
use falaj_scenario::{Scenario, Towards};
use falaj_sched::contract::breach::Breach;
use falaj_sched::contract::transmission::Air;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::measure::Measure;
use falaj_sim::scenario::{all_flows, pipe_of};
use falaj_sim::{Connections, Many, Study};
use falaj_traffic::interval::Estimate;
use falaj_traffic::meter::Meter;

/// A flow over all replications.
#[derive(Default)]
pub struct SimulatedFlow {
    /// Packets that came, arrived, found no place in the queue.
    pub offered: u64,
    /// Packets that arrived.
    pub sent: u64,
    /// Packets that found no place in the queue, or were dropped there.
    pub dropped: u64,
    /// Of these, those that the policy of the queue dropped; and those that it marked instead.
    pub dropped_by_policy: u64,
    /// Packets that the policy marked instead.
    pub marked: u64,
    /// What it had of the air, where packets have air times.
    pub air: Air,
    /// What the link did to packets.
    pub lost: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that arrived with a bit turned.
    pub corrupted: u64,
    /// Packets that overtook others.
    pub reordered: u64,
    /// Bits per second.
    pub offered_rate: Option<Estimate>,
    /// Bits per second that arrived.
    pub sent_rate: Option<Estimate>,
    /// The share that was dropped.
    pub loss: Option<Estimate>,
    /// Of delays, in nanoseconds.
    pub mean: Option<Estimate>,
    /// The median of delays.
    pub p50: Option<Estimate>,
    /// Their 99th percentile.
    pub p99: Option<Estimate>,
    /// Delays of all replications.
    pub delay: Meter,
    /// The most packets that were ever queued.
    pub max_backlog: u64,
}

/// All replications of a scenario; fewer than asked for if interrupted.
pub struct Replications {
    /// The simulation.
    pub simulation: Simulation,
}

impl Replications {
    /// Runs them as the scenario says, from the first packet on.
    pub fn run(scenario: &Scenario) -> Result<Replications> {
        Replications::as_planned(scenario, &SimulationPlan::beside(scenario))
    }

    /// Runs them as planned.
    pub fn as_planned(scenario: &Scenario, plan: &SimulationPlan) -> Result<Replications> {
        Ok(Replications { simulation: Simulation::run(&[scenario], plan)? })
    }

    /// Its only study.
    pub fn study(&self) -> &Study {
        &self.simulation.studies[0]
    }

    /// How long each was, in simulated time.
    pub fn duration(&self) -> Span {
        self.study().duration()
    }

    /// How long each was counted, in simulated time.
    pub fn counted(&self) -> Span {
        self.study().counted()
    }

    /// Did Ctrl-C end them?
    pub fn interrupted(&self) -> bool {
        self.simulation.interrupted()
    }

    /// What masks made in the first replication, by name.
    pub fn many<'a>(&'a self, scenario: &Scenario) -> Vec<(String, &'a MaskStats)> {
        let name = |many: &Many| {
            let link = &scenario.links[many.pipe.0 as usize / 2];
            let (direction, way) =
                if many.pipe.0.is_multiple_of(2) { (&link.up, "up") } else { (&link.down, "down") };
            match many.flow {
                Some(flow) => format!("{}.{} {way}", link.name, direction.flows[flow.index()].name),
                None => format!("{} {way}", link.name),
            }
        };
        let used = self.study().many().iter().filter(|many| many.report.made > 0);
        used.map(|many| (name(many), &many.report)).collect()
    }

    /// Where there are rules: the sources whose packets left their last link, and the delays of
    /// these from end to end.
    pub fn ways(&self) -> impl Iterator<Item = (usize, &Meter)> {
        self.study().ways().iter().enumerate().filter(|(_, way)| way.count() > 0)
    }

    /// The sources that are connections, and what these have done.
    pub fn connections(&self) -> impl Iterator<Item = (usize, &Connections)> {
        self.study().connections().iter().map(|(source, of)| (*source, of))
    }

    /// How plug-ins broke their contract, in all replications, and in which direction of which
    /// link.
    pub fn breaches(&self, scenario: &Scenario) -> Vec<(String, Breach)> {
        let mut out = Vec::new();
        for (pipe, all) in self.study().breaches().iter().enumerate().take(2 * scenario.links.len())
        {
            let (link, way) =
                (&scenario.links[pipe / 2].name, if pipe % 2 == 0 { "up" } else { "down" });
            out.extend(all.iter().map(|breach| (format!("{link} {way}"), breach.clone())));
        }
        out
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.study().replications()
    }

    /// Returns true if none was run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The flows that packets came for, in the order of `fed_flows`.
    pub fn reached(&self, scenario: &Scenario) -> Vec<(usize, Towards, usize)> {
        let came = |&(l, towards, f): &(usize, Towards, usize)| {
            self.study().flow(pipe_of(l, towards), FlowId(f as u32)).counters.offered > 0
        };
        all_flows(scenario).into_iter().filter(came).collect()
    }

    /// One flow of one pipe.
    pub fn flow(&self, pipe: PipeId, flow: usize) -> SimulatedFlow {
        let of = self.study().flow(pipe, FlowId(flow as u32));
        let c = &of.counters;
        SimulatedFlow {
            offered: c.offered,
            sent: c.delivered(),
            lost: c.lost,
            duplicated: c.duplicated,
            corrupted: c.corrupted,
            reordered: c.reordered,
            dropped: c.dropped(),
            dropped_by_policy: c.dropped_by_policy,
            marked: c.marked,
            air: c.air,
            offered_rate: of.offered_rate(),
            sent_rate: of.estimate(Measure::Rate),
            loss: of.estimate(Measure::Loss),
            mean: of.estimate(Measure::DelayMean),
            p50: of.estimate(Measure::DelayQuantile(0.5)),
            p99: of.estimate(Measure::DelayQuantile(0.99)),
            delay: of.delay.clone(),
            max_backlog: c.max_backlog,
        }
    }
}
