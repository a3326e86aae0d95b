//! A flow through the kernel, through falaj and in simulation, and the differences.

use super::KernelCase;
use anyhow::Result;
use falaj_control::live_links::only_link;
use falaj_experiment::measure::{Measured, measure_each, measure_kernel};
use falaj_live::addressing::pipe_of;
use falaj_live::event_loop::Options;
use falaj_live::traffic::datagrams::{EndReport, FlowKey, ReceivedDatagram};
use falaj_scenario::Towards;
use falaj_sim::observer::{Every, PacketEnd};
use falaj_sim::scenario::{experiment, fed_flows, name_of};
use falaj_sim::simulate_watched;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// The measurements of a case, before it is simulated.
pub(super) struct MeasuredCase {
    kernel: Vec<EndReport>,
    live: Measured,
}

impl MeasuredCase {
    pub(super) fn of(case: &KernelCase, options: Options) -> Result<MeasuredCase> {
        let kernel = measure_kernel(&case.scenario, &case.script)?;
        let live = measure_each(&case.scenario, options, "measuring")?;
        Ok(MeasuredCase { kernel, live })
    }

    /// Returns true if falaj lost packets outside of its link.
    pub(super) fn lost_elsewhere(&self) -> bool {
        self.live.losses.by_reason().into_iter().any(|(n, _)| n > 0)
    }
}

/// A flow of a case with its results through the kernel, through falaj and in simulation.
pub(super) struct ComparedFlow {
    pub(super) name: String,
    pub(super) kernel: Passage,
    pub(super) live: Passage,
    pub(super) simulated: Passage,
    /// Comparison of packets that arrived through both the kernel and falaj.
    pub(super) same: SamePackets,
}

/// The results of a flow through the kernel, through falaj, or in simulation.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage {
    pub(super) sent: u64,
    /// Packets that arrived, copies included.
    pub(super) arrived: u64,
    /// Bytes that arrived, as the link accounts them.
    bytes: u64,
    /// The flow's fraction of all bytes that arrived.
    pub(super) share: f64,
    /// Delays in nanoseconds, in ascending order.
    delays: Vec<u64>,
}

/// Quantiles of delays in nanoseconds, each the delay of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DelayQuantiles {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl Passage {
    fn with(mut self, packets: impl Iterator<Item = (u32, u64)>) -> Passage {
        for (bytes, delay) in packets {
            self.bytes += u64::from(bytes);
            self.delays.push(delay);
        }
        self.delays.sort_unstable();
        self
    }

    /// Quantiles of the delay; `None` if nothing arrived.
    pub(super) fn delays(&self) -> Option<DelayQuantiles> {
        let quantile = |percent: usize| {
            let place = (self.delays.len() * percent).div_ceil(100).max(1) - 1;
            self.delays.get(place).copied()
        };
        Some(DelayQuantiles { p50: quantile(50)?, p99: quantile(99)?, max: quantile(100)? })
    }

    pub(super) fn arrived_part(&self) -> f64 {
        self.arrived as f64 / self.sent.max(1) as f64
    }
}

/// Packets that arrived through both the kernel and falaj, each compared with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SamePackets {
    /// Packets that arrived through both.
    pub(super) both: u64,
    /// Packets that arrived through the kernel alone.
    pub(super) kernel_alone: u64,
    /// Packets that arrived through falaj alone.
    pub(super) live_alone: u64,
    /// Difference of the delays, falaj minus kernel, in nanoseconds: minimum, median, maximum.
    pub(super) later: Option<[i64; 3]>,
}

impl SamePackets {
    fn of(kernel: &[ReceivedDatagram], live: &[ReceivedDatagram]) -> SamePackets {
        // If there are several copies of a packet, the first one counts.
        let first = |all: &[ReceivedDatagram]| {
            let mut first = BTreeMap::new();
            for one in all {
                first.entry((one.source, one.number)).or_insert(one.delay);
            }
            first
        };
        let (kernel, live) = (first(kernel), first(live));
        let mut later: Vec<i64> = live
            .iter()
            .filter_map(|(packet, &delay)| Some(delay as i64 - *kernel.get(packet)? as i64))
            .collect();
        later.sort_unstable();
        let both = later.len() as u64;
        SamePackets {
            both,
            kernel_alone: kernel.len() as u64 - both,
            live_alone: live.len() as u64 - both,
            later: (both > 0).then(|| [later[0], later[later.len() / 2], later[later.len() - 1]]),
        }
    }
}

impl ComparedFlow {
    /// All flows of the case that have traffic.
    pub(super) fn all(case: &KernelCase, measured: &MeasuredCase) -> Result<Vec<ComparedFlow>> {
        let scenario = &case.scenario;
        let link = &scenario.links[only_link(scenario)?];
        let simulated = simulate(case)?;
        let flow = |at: (usize, Towards, usize)| {
            let pipe = pipe_of(at.1);
            let key = FlowKey { pipe, flow: at.2 as u32 };
            let layer = link.direction(at.1).layer;
            let of_flow = |all: &mut dyn Iterator<Item = &ReceivedDatagram>| {
                all.filter(|one| one.flow == key).copied().collect::<Vec<_>>()
            };
            let passage = |sent: u64, received: &[ReceivedDatagram]| {
                let all = received.iter().map(|one| (layer.from_udp(one.length), one.delay));
                Passage { sent, arrived: received.len() as u64, ..Passage::default() }.with(all)
            };
            let sent = measured.kernel.iter().flat_map(|r| &r.sent).filter(|s| s.flow == key);
            let kernel = of_flow(&mut measured.kernel.iter().flat_map(|r| &r.each));
            let live = of_flow(&mut measured.live.each.iter());
            ComparedFlow {
                name: name_of(scenario, at),
                same: SamePackets::of(&kernel, &live),
                kernel: passage(sent.map(|s| s.datagrams).sum(), &kernel),
                live: passage(measured.live.flows[pipe as usize][at.2].sent, &live),
                simulated: simulated.get(&key).cloned().unwrap_or_default(),
            }
        };
        let mut flows: Vec<_> = fed_flows(scenario).into_iter().map(flow).collect();
        let parts: [fn(&mut ComparedFlow) -> &mut Passage; 3] =
            [|flow| &mut flow.kernel, |flow| &mut flow.live, |flow| &mut flow.simulated];
        for part in parts {
            let all: u64 = flows.iter_mut().map(|flow| part(flow).bytes).sum();
            flows.iter_mut().map(part).for_each(|p| p.share = p.bytes as f64 / all.max(1) as f64);
        }
        Ok(flows)
    }
}

/// The simulated results of the flows at which packets arrived.
fn simulate(case: &KernelCase) -> Result<BTreeMap<FlowKey, Passage>> {
    let scenario = &case.scenario;
    let experiment = experiment(scenario, scenario.run.duration);
    let mut flows: BTreeMap<FlowKey, (Passage, Vec<(u32, u64)>)> = BTreeMap::new();
    let mut each = Every(|end: PacketEnd<'_>| {
        let (pipe, flow) = match end {
            PacketEnd::Sent(emit) => (emit.pipe, emit.flow),
            PacketEnd::Lost(loss) => (loss.dropped.pipe, loss.dropped.flow),
        };
        let key = FlowKey { pipe: pipe.0, flow: flow.0 };
        let (passage, delays) = flows.entry(key).or_default();
        passage.sent += 1;
        if let PacketEnd::Sent(emit) = end {
            passage.arrived += 1;
            delays.push((emit.bytes, emit.arrives().since(emit.arrival).0));
        }
    });
    let seed = scenario.run.seed;
    let run = simulate_watched(&experiment, seed, &AtomicBool::new(false), &mut each)
        .map_err(|(_, refused)| refused)?;
    let passage = |(key, (mut passage, delays)): (FlowKey, (Passage, Vec<(u32, u64)>))| {
        passage.arrived += run.pipes[key.pipe as usize][key.flow as usize].counters.duplicated;
        (key, passage.with(delays.into_iter()))
    };
    Ok(flows.into_iter().map(passage).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u64, delay: u64) -> ReceivedDatagram {
        let flow = FlowKey { pipe: 0, flow: 0 };
        ReceivedDatagram { flow, source: 0, number, length: 100, delay }
    }

    #[test]
    fn quantiles_are_those_of_packets() {
        let passage = Passage::default().with((1..=200).rev().map(|n| (10, n)));
        assert_eq!(passage.delays(), Some(DelayQuantiles { p50: 100, p99: 198, max: 200 }));
        assert_eq!(passage.bytes, 2000);
        let one = Passage::default().with([(10, 7)].into_iter());
        assert_eq!(one.delays(), Some(DelayQuantiles { p50: 7, p99: 7, max: 7 }));
        assert_eq!(Passage::default().delays(), None);
    }

    #[test]
    fn packets_are_compared_with_themselves() {
        let kernel = [datagram(0, 50), datagram(1, 60), datagram(2, 70), datagram(2, 99)];
        let live = [datagram(2, 75), datagram(1, 58), datagram(3, 10)];
        let same = SamePackets::of(&kernel, &live);
        let expected =
            SamePackets { both: 2, kernel_alone: 1, live_alone: 1, later: Some([-2, 5, 5]) };
        assert_eq!(same, expected);
        assert_eq!(SamePackets::of(&kernel, &[]).later, None);
    }
}
