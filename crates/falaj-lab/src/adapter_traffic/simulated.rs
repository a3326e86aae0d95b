//! Traffic of adapters in simulated time, with the same measurements as for real packets.

use anyhow::{Context, Result, anyhow};
use falaj_engine::key::Key;
use falaj_engine::network::{IngressPacket, Network, NetworkChange};
use falaj_engine::{Output, PipeId};
use falaj_scenario::difference::difference;
use falaj_scenario::{Scenario, ScheduledChange};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Label;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::source::Source;

const UP: PipeId = PipeId(0);

/// The results of the simulated traffic.
pub(crate) struct SimulatedTraffic {
    /// Bytes that left the link, as the link accounts them, by window and adapter.
    pub(crate) windows: Vec<Vec<u64>>,
    /// Maximum sojourn time of a packet, by adapter.
    pub(crate) longest: Vec<Span>,
}

/// Sends the sources' packets, and makes the scheduled changes of the link. `homes` has the adapter
/// of each source.
pub(crate) fn simulate(
    scenario: &Scenario,
    homes: &[usize],
    window: Span,
) -> Result<SimulatedTraffic> {
    let number = (scenario.run.duration.0 / window.0.max(1)) as usize;
    let over = Time::ZERO + window * number as u64;
    let mut sources: Vec<_> = scenario
        .traffic
        .iter()
        .enumerate()
        .map(|(n, source)| Source::new(source.spec(), scenario.run.seed, n as u64).peekable())
        .collect();
    let mut network =
        Network::new(&scenario.network()).map_err(|(_, refused)| anyhow!("{refused}"))?;
    let adapters = homes.iter().max().map_or(1, |last| last + 1);
    let (mut windows, mut longest) = (vec![vec![0; adapters]; number], vec![Span::ZERO; adapters]);
    // The adapter of each packet, by handle.
    let mut owners: Vec<u8> = Vec::new();
    let mut out = Vec::new();
    let mut note = |out: &mut Vec<Output>, owners: &[u8]| {
        for output in out.drain(..) {
            if let Output::Retimed(retimed) = output {
                let home = usize::from(owners[retimed.handle as usize]);
                longest[home] = longest[home].max(retimed.end - retimed.arrival);
                continue;
            }
            let Output::Emit(emit) = output else { continue };
            let home = usize::from(owners[emit.handle as usize]);
            longest[home] = longest[home].max(emit.end - emit.arrival);
            if let Some(window) = windows.get_mut((emit.end.0 / window.0) as usize) {
                window[home] += u64::from(emit.bytes);
            }
        }
    };
    let (mut now, mut places) = (scenario.clone(), vec![0]);
    let mut changes = scenario.changes.iter().peekable();
    loop {
        let instants =
            sources.iter_mut().enumerate().filter_map(|(n, source)| Some((source.peek()?.at, n)));
        let Some((at, n)) = instants.min().filter(|(at, _)| *at < over) else { break };
        while let Some(ScheduledChange { at: begins, scenario: then, .. }) =
            changes.next_if(|change| Time::ZERO + change.at <= at)
        {
            let made = difference(&now, &then, (&places, network.places()), false)
                .map_err(|why| anyhow!(why))?;
            if let Some(change) = made.change {
                let around = NetworkChange { flows: &[], ingress: change.ingress, rules: None };
                let known = |_: u32| Label::default();
                network
                    .apply(change.engine, around, &known, Time::ZERO + begins, &mut out)
                    .map_err(|unfit| anyhow!("{unfit}"))?;
            }
            note(&mut out, &owners);
            (now, places) = (Scenario::clone(&then), made.at);
        }
        let packet = sources[n].next().context("a packet that was seen")?;
        let handle = owners.len() as u32;
        owners.push(homes[n] as u8);
        let entry = network.route_to(UP, FlowId(scenario.traffic[n].flow as u32));
        // The source's size becomes the length of an IP packet. A link that accounts another layer
        // adds the headers of this layer.
        let packet = IngressPacket { handle, length: packet.bytes, label: &Label::default() };
        network.enter(entry, &Key::default(), packet, at, &mut out);
        note(&mut out, &owners);
    }
    network.poll(over, &mut out);
    note(&mut out, &owners);
    Ok(SimulatedTraffic { windows, longest })
}
