//! Builds a forwarder from the links of a scenario.

use crate::adapters::Adapters;
use crate::addressing::{LONGER_BY, key_of, pipe_of};
use crate::backend::batch::Guest;
use crate::backend::loopback::{FlowLookup, LoopbackPort};
use crate::backend::tap::{Tap, TapPort};
use crate::backend::{Backend, Port};
use crate::clock::Clock;
use crate::event_loop::{Attached, Forwarder, Options};
use crate::link_end::End;
use crate::sandbox::{Hosts, INTERFACE, Joint, Sandbox};
use crate::topology::Topology;
use crate::traffic::datagrams::EndPlan;
use falaj_engine::PipeId;
use falaj_engine::network::{Network, NetworkSpec};
use falaj_scenario::{Scenario, Towards};
use falaj_sched::queues::queue::FlowId;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixDatagram;

/// Builds a forwarder for the links between the two sides of a sandbox, whose interfaces it takes.
pub fn to_sandbox(
    spec: &NetworkSpec,
    sandbox: &mut Sandbox,
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    between(spec, clock, options, |from| {
        joint_port(sandbox.sides(), (from.index(), 0), || {
            format!("interface {INTERFACE} at the {from} end")
        })
    })
}

/// Builds a forwarder for the links between the near side of a sandbox and a guest that has the far
/// side's TAP.
///
/// # Errors
/// No descriptor is available for the guest's port, or the near side's port cannot be opened.
pub fn to_guest(
    spec: &NetworkSpec,
    sandbox: &mut Sandbox,
    guest: Guest,
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let mut guest = Some(guest);
    between(spec, clock, options, |from| {
        if from == End::Far
            && let Some(guest) = guest.take()
        {
            return Ok(Box::new(guest.port()?));
        }
        joint_port(sandbox.sides(), (from.index(), 0), || {
            format!("interface {INTERFACE} at the {from} end")
        })
    })
}

/// Builds a forwarder for all links between hosts, whose interfaces it takes. Link `n` has the
/// pipes `2 n`, up, and `2 n + 1`, down; the ports are numbered in the same way, near and far.
pub fn to_hosts(
    scenario: &Scenario,
    topology: &Topology,
    hosts: &mut Hosts,
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let links = &scenario.links;
    let network =
        Network::new(&scenario.network()).map_err(|(_, refused)| io::Error::other(refused))?;
    let names: Vec<&str> = topology.names().collect();
    let mut ports = Vec::new();
    for (n, link) in links.iter().enumerate() {
        let ends = topology.ends(n);
        for from in [End::Near, End::Far] {
            let at = ends[from.index()];
            let name = || format!("end of `{}` at `{}`", link.name, names[at.0]);
            let port = joint_port(hosts, at, name)?;
            let number = |end: End| 2 * n + end.index();
            ports.push(Attached {
                port,
                pipe: PipeId(number(from) as u32),
                leaves_at: number(from.other()),
            });
        }
    }
    paced(Forwarder::new(clock, network, ports, options))
}

/// A port at an interface of one of the hosts, given by their indices.
fn joint_port(
    hosts: &mut Hosts,
    (host, interface): (usize, usize),
    name: impl FnOnce() -> String,
) -> io::Result<Box<dyn Port>> {
    if let Some(Joint::Packet(socket)) = hosts.joint(host, interface) {
        // The owner of the socket queries its counter of unread units.
        return socket.port();
    }
    let tap = match hosts.take_joint(host, interface) {
        Some(Joint::Tap(tap)) => tap,
        _ => unreachable!("hosts that are not joined by veth have one at each of their interfaces"),
    };
    Ok(Box::new(TapPort::new(name(), tap)))
}

/// Builds a forwarder for the links between two open ends; up is from the first end to the second.
/// If the ends return packets, packets leave where they came in.
pub fn to_ends(
    spec: &NetworkSpec,
    ends: [&dyn Backend; 2],
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let stays = ends.iter().all(|end| end.entry().returns_packets);
    connect(spec, clock, options, stays, |from| ends[from.index()].port())
}

/// A port at the only interface of a side.
pub fn space_port(hosts: &mut Hosts, side: usize, name: &str) -> io::Result<Box<dyn Port>> {
    joint_port(hosts, (side, 0), || format!("interface of {name}"))
}

/// The TAP at the only interface of a side, for a guest; `None` if the interface has no TAP.
pub fn space_tap(hosts: &mut Hosts, side: usize) -> Option<Tap> {
    match hosts.take_joint(side, 0) {
        Some(Joint::Tap(tap)) => Some(tap),
        _ => None,
    }
}

/// A port at a socket, and the other end of the socket, for a machine that exists only in memory.
/// Each datagram on the socket is a unit, header included.
pub fn unit_port(name: &str) -> io::Result<(Box<dyn Port>, UnixDatagram)> {
    let (inside, outside) = UnixDatagram::pair()?;
    inside.set_nonblocking(true)?;
    outside.set_nonblocking(true)?;
    let port = TapPort::new(format!("interface of {name}"), Tap::adopt(outside.into()));
    Ok((Box::new(port), inside))
}

/// Builds a forwarder for the links between virtual adapters and their uplink.
pub fn to_adapters(
    spec: &NetworkSpec,
    adapters: &Adapters,
    uplink: Box<dyn Port>,
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let [near, far] = adapters.ends(uplink);
    let mut ends = [Some(near), Some(far)];
    between(spec, clock, options, |from| {
        ends[from.index()].take().ok_or_else(|| io::Error::other("an end twice"))
    })
}

/// Builds a forwarder for the links between two ports.
fn between(
    spec: &NetworkSpec,
    clock: Clock,
    options: Options,
    port: impl FnMut(End) -> io::Result<Box<dyn Port>>,
) -> io::Result<Forwarder> {
    connect(spec, clock, options, false, port)
}

/// Builds a forwarder for links between two ports. Packets leave at the other port or, if `stays`
/// is true, where they came in.
fn connect(
    spec: &NetworkSpec,
    clock: Clock,
    options: Options,
    stays: bool,
    mut port: impl FnMut(End) -> io::Result<Box<dyn Port>>,
) -> io::Result<Forwarder> {
    let network = Network::new(spec).map_err(|(_, refused)| io::Error::other(refused))?;
    let mut ports = Vec::new();
    for (towards, from) in [(Towards::Up, End::Near), (Towards::Down, End::Far)] {
        let port = port(from)?;
        let to = if stays { from } else { from.other() };
        ports.push(Attached { port, pipe: PipeId(pipe_of(towards)), leaves_at: to.index() });
    }
    paced(Forwarder::new(clock, network, ports, options))
}

/// Informs the ports which devices pace links, and returns the forwarder.
fn paced(mut forwarder: Forwarder) -> io::Result<Forwarder> {
    forwarder.pace()?;
    Ok(forwarder)
}

/// Builds a forwarder with a loopback socket as port for each source. The address to which a source
/// must send is written into its plan. Rules see the headers of the original plans.
pub fn to_loopback(
    scenario: &Scenario,
    plans: &mut [EndPlan; 2],
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let network =
        Network::new(&scenario.network()).map_err(|(_, refused)| io::Error::other(refused))?;
    let mut ports: Vec<Attached> = Vec::new();
    for from in [0, 1] {
        let [near, far] = &mut *plans;
        let (sender, receiver) = if from == 0 { (near, far) } else { (far, near) };
        for sending in &mut sender.sends {
            let source = &scenario.traffic[sending.source as usize];
            let direction = scenario.links[source.link].direction(source.towards);
            let sorted = if scenario.rules.is_empty() {
                FlowLookup::Flow(FlowId(sending.flow.flow))
            } else {
                FlowLookup::Key(key_of(source, direction, sending.from, sending.to))
            };
            let receiving = receiver.receives.iter_mut().find(|r| r.source == sending.source);
            let receiving = receiving.expect("both ends have each source");
            // A free port, found by binding it for a moment.
            receiving.at = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let port = LoopbackPort::new(receiving.at, sorted)?;
            sending.to = port.address()?;
            if sending.from.is_ipv6() {
                // Loopback carries the datagram over IPv4: the payload is extended by the
                // difference in header length.
                sending.headers -= LONGER_BY as i32;
            }
            sending.from = (Ipv4Addr::LOCALHOST, 0).into();
            let leaves_at = ports.len();
            // With rules, only the direction of the pipe matters.
            let pipe = PipeId(if scenario.rules.is_empty() {
                sending.flow.pipe
            } else {
                sending.flow.pipe % 2
            });
            ports.push(Attached { port: Box::new(port), pipe, leaves_at });
        }
    }
    paced(Forwarder::new(clock, network, ports, options))
}
