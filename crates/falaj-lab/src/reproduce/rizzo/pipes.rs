//! Commands of dummynet as a network, and its effect on single packets.

use anyhow::{Result, anyhow, bail};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::network::NetworkSpec;
use falaj_import::ipfw;
use falaj_sched::units::time::Time;
use falaj_sim::replay::{Arrival, replay};
use falaj_traffic::capture::Verdict;
use std::net::{Ipv4Addr, SocketAddr};

/// Ingress directions.
pub(super) const OUT: u32 = 0;
pub(super) const IN: u32 = 1;

/// The network of these commands; lengths are those of IP packets, as dummynet counts them.
pub(super) fn dummynet(commands: &str) -> Result<NetworkSpec> {
    let imported = ipfw(commands, "rizzo", None);
    let imported = imported.map_err(|errors| anyhow!("{:?}", errors.problems()))?;
    network(&imported.scenario)
}

/// The network of a scenario, with the same accounting.
pub(super) fn network(scenario: &str) -> Result<NetworkSpec> {
    let mut network = falaj_terminal::file::parse_quietly(scenario, "rizzo")?.network();
    network.places.iter_mut().for_each(|place| place.layer = CountedLayer::Ip);
    Ok(network)
}

/// A datagram of the host 10.0.0.0 plus `host`, to this port.
pub(super) fn datagram(way: u32, host: u32, port: u16, length: u32, at: Time) -> Arrival {
    let from = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + host), 20_000));
    let to = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port));
    Arrival { way, flow: None, key: Key::of_ordinary(Protocol::UDP, from, to, length), length, at }
}

/// The times of a delivered packet.
#[derive(Clone, Copy)]
pub(super) struct PacketOutcome {
    /// End of its transmission on its last link.
    pub(super) end: Time,
    /// Arrival of its last bit at the far end.
    pub(super) due: Time,
}

/// The outcome of each packet; `None` if it was lost.
pub(super) fn send(
    network: &NetworkSpec,
    arrivals: &[Arrival],
) -> Result<Vec<Option<PacketOutcome>>> {
    let replayed = replay(network, arrivals, None).map_err(|(_, refused)| anyhow!("{refused}"))?;
    if replayed.unmatched > 0 {
        bail!("{} packets matched no rule", replayed.unmatched);
    }
    let sent = |verdict: &Verdict| match *verdict {
        Verdict::Sent { end, due, .. } => Some(PacketOutcome { end, due }),
        _ => None,
    };
    Ok(replayed.verdicts.iter().map(sent).collect())
}

/// Milliseconds from one instant to a later one.
pub(super) fn ms(from: Time, to: Time) -> f64 {
    to.since(from).0 as f64 / 1e6
}
