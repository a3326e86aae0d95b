//! Commands of dummynet as a network, and what it does to single packets.

use anyhow::{Result, anyhow, bail};
use falaj_engine::account::Account;
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::network::NetworkSpec;
use falaj_import::ipfw;
use falaj_sched::units::time::Time;
use falaj_sim::replay::{Arrival, replay};
use falaj_traffic::capture::Verdict;
use std::net::{Ipv4Addr, SocketAddr};

/// Ways in.
pub(super) const OUT: u32 = 0;
pub(super) const IN: u32 = 1;

/// What these commands make; lengths are those of IP packets, as dummynet counts them.
pub(super) fn dummynet(commands: &str) -> Result<NetworkSpec> {
    let imported = ipfw(commands, "rizzo", None);
    let imported = imported.map_err(|errors| anyhow!("{:?}", errors.problems()))?;
    network(&imported.scenario)
}

/// The same of a scenario.
pub(super) fn network(scenario: &str) -> Result<NetworkSpec> {
    let mut network = falaj_terminal::file::parse_quietly(scenario, "rizzo")?.network();
    network.places.iter_mut().for_each(|place| place.account = Account::Ip);
    Ok(network)
}

/// A datagram of a host, 10.0.0.0 and so many, to this port.
pub(super) fn datagram(way: u32, host: u32, port: u16, length: u32, at: Time) -> Arrival {
    let from = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + host), 20_000));
    let to = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port));
    Arrival { way, flow: None, key: Key::of_ordinary(Protocol::UDP, from, to, length), length, at }
}

/// What became of a packet.
#[derive(Clone, Copy)]
pub(super) struct PacketOutcome {
    /// When its transmission was over, on its last link.
    pub(super) end: Time,
    /// When it arrived.
    pub(super) due: Time,
}

/// By packet; none for those that were lost.
pub(super) fn send(
    network: &NetworkSpec,
    arrivals: &[Arrival],
) -> Result<Vec<Option<PacketOutcome>>> {
    let replayed = replay(network, arrivals, None).map_err(|(_, refused)| anyhow!("{refused}"))?;
    if replayed.unmatched > 0 {
        bail!("{} packets were matched by nothing", replayed.unmatched);
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
