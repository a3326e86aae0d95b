//! All replications of a scenario, with the results of each flow.

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

/// The results of a flow over all replications.
#[derive(Default)]
pub struct SimulatedFlow {
    /// Packets that arrived at the link.
    pub offered: u64,
    /// Packets that were delivered.
    pub sent: u64,
    /// Packets that were refused by a full queue or dropped.
    pub dropped: u64,
    /// Packets of `dropped` that the queue's AQM policy dropped.
    pub dropped_by_policy: u64,
    /// Packets that the policy marked instead of dropping.
    pub marked: u64,
    /// Air time of the flow, where packets have air times.
    pub air: Air,
    /// Packets lost by the link's `loss`.
    pub lost: u64,
    /// Packets that were delivered twice.
    pub duplicated: u64,
    /// Packets that were delivered with a flipped bit.
    pub corrupted: u64,
    /// Packets that were delivered before a packet that left the link earlier.
    pub reordered: u64,
    /// Arrivals in bits per second.
    pub offered_rate: Option<Estimate>,
    /// Delivered bits per second.
    pub sent_rate: Option<Estimate>,
    /// The fraction of packets that were refused by a full queue or dropped.
    pub loss: Option<Estimate>,
    /// The mean delay, in nanoseconds.
    pub mean: Option<Estimate>,
    /// The median delay, in nanoseconds.
    pub p50: Option<Estimate>,
    /// The 99th percentile of the delay, in nanoseconds.
    pub p99: Option<Estimate>,
    /// Delays of all replications.
    pub delay: Meter,
    /// Maximum number of packets queued at once.
    pub max_backlog: u64,
}

/// All replications of a scenario; fewer than requested if interrupted.
pub struct Replications {
    /// The simulation.
    pub simulation: Simulation,
}

impl Replications {
    /// Runs the scenario's number of replications without a warm-up.
    pub fn run(scenario: &Scenario) -> Result<Replications> {
        Replications::as_planned(scenario, &SimulationPlan::beside(scenario))
    }

    /// Runs replications by this plan.
    pub fn as_planned(scenario: &Scenario, plan: &SimulationPlan) -> Result<Replications> {
        Ok(Replications { simulation: Simulation::run(&[scenario], plan)? })
    }

    /// The only study of the simulation.
    pub fn study(&self) -> &Study {
        &self.simulation.studies[0]
    }

    /// Length of each replication, in simulated time.
    pub fn duration(&self) -> Span {
        self.study().duration()
    }

    /// The counted part of each replication, in simulated time.
    pub fn counted(&self) -> Span {
        self.study().counted()
    }

    /// Returns true if Ctrl-C ended the simulation early.
    pub fn interrupted(&self) -> bool {
        self.simulation.interrupted()
    }

    /// The entries that masks created in the first replication, by the name of the link or flow
    /// that has the mask.
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

    /// With rules: the sources whose packets left their last link, and the delays of these packets
    /// from end to end.
    pub fn ways(&self) -> impl Iterator<Item = (usize, &Meter)> {
        self.study().ways().iter().enumerate().filter(|(_, way)| way.count() > 0)
    }

    /// The sources that are connections, with their transfers.
    pub fn connections(&self) -> impl Iterator<Item = (usize, &Connections)> {
        self.study().connections().iter().map(|(source, of)| (*source, of))
    }

    /// Contract violations of plug-ins in all replications, with link and direction.
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

    /// The number of replications.
    pub fn len(&self) -> usize {
        self.study().replications()
    }

    /// Returns true if there is no replication.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The flows at which packets arrived, in the order of `all_flows`.
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
