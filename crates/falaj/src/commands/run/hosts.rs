//! `falaj run` with a scenario that has hosts: several links, a namespace for each host, and a
//! command in one of them.

use crate::commands::run::{Args, HostCommand, forward, helper, status, tell};
use anyhow::{Result, bail};
use falaj_control::host_limits;
use falaj_control::live_links::{no_changes, warn_of_spinning};
use falaj_control::summary::of_forwarder;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{Join, SandboxSide, UserNamespace};
use falaj_live::signals::Signals;
use falaj_live::topology::Topology;
use falaj_live::wiring;
use falaj_scenario::Scenario;
use std::process::ExitCode;

pub(crate) fn main(args: Args, scenario: &Scenario, text: &str) -> Result<ExitCode> {
    let topology = Topology::new(scenario)?;
    let main = match &args.host {
        Some(name) => named(&topology, "--host", name)?,
        None => 0,
    };
    if !scenario.rules.is_empty() {
        bail!(
            "this scenario has both hosts, whose kernels choose the links, and [[rule]]: leave one of them out"
        );
    }
    if args.aggregate.is_some() {
        bail!("--aggregate is for a link between two ends; this scenario has hosts");
    }
    no_changes(scenario)?;
    args.fail_if.check(&scenario.links)?;
    scenario.links.iter().for_each(warn_of_spinning);
    host_limits::warn(&scenario.links);
    if args.asked.is_wanted() {
        tell_addresses(&topology);
    }
    let mut sides: Vec<SandboxSide> = topology.names().map(|_| SandboxSide::default()).collect();
    sides[main].command = Some(args.command);
    for HostCommand { host, command } in args.within {
        let side = &mut sides[named(&topology, "--in", &host)?];
        if side.command.is_some() {
            bail!("--in: a command runs in `{host}` already; let one `sh -c` start both");
        }
        *side = helper(command.into())?;
    }
    let users = if args.user_namespace { UserNamespace::Always } else { UserNamespace::Auto };
    let mut hosts = topology.start(sides, users, Join::Auto)?;
    let mut signals = Signals::take()?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder =
        wiring::to_hosts(scenario, &topology, &mut hosts, clock, args.pace.options())?;
    priority::be_punctual(Rank::Link);
    let ports: Vec<String> = scenario
        .links
        .iter()
        .flat_map(|link| [format!("{} near", link.name), format!("{} far", link.name)])
        .collect();
    args.recording.begin_at(
        &mut forwarder,
        text,
        &ports.iter().map(String::as_str).collect::<Vec<_>>(),
    )?;
    for side in (0..hosts.count()).filter(|&side| side != main).chain([main]) {
        hosts.go(side)?;
    }
    let exit = forward(
        &mut forwarder,
        (&mut hosts, main),
        &mut signals,
        &scenario.links,
        args.live,
        None,
    )?;
    let captured = args.recording.end(&mut forwarder);
    let summary = of_forwarder(scenario, &forwarder, hosts.unread());
    tell(args.stats, &hosts, &summary);
    // The hosts are dropped first: the kernel removes their interfaces one after the other, and the
    // drop waits until they are removed.
    drop(hosts);
    status((exit, captured), &summary, &args.json, &args.fail_if)
}

/// Returns the index of the host of this name.
fn named(topology: &Topology, flag: &str, name: &str) -> Result<usize> {
    match topology.names().position(|known| known == name) {
        Some(node) => Ok(node),
        None => {
            let known: Vec<&str> = topology.names().collect();
            bail!("{flag}: there is no host `{name}`; there are {}", known.join(", "))
        }
    }
}

/// Prints the addresses of each host.
fn tell_addresses(topology: &Topology) {
    for (node, name) in topology.names().enumerate() {
        let v6 = topology.address6(node).map_or(String::new(), |address| format!(", {address}"));
        eprintln!("host {name}: {}{v6}", topology.address(node));
    }
}
