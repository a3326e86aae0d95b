//! From a link of a scenario to an engine with ports.

use crate::aggregate::Guest;
use crate::clock::Clock;
use crate::datagrams::EndPlan;
use crate::ends::{LONGER_BY, pipe_of};
use crate::forward::{Attached, Forwarder, Options};
use crate::interface::Interface;
use crate::packet::{PacketPort, PacketReader, PacketSocket};
use crate::port::{Port, TapPort};
use crate::relay::RelayPort;
use crate::sandbox::{End, Hosts, INTERFACE, Joint, Sandbox};
use crate::topology::Topology;
use crate::xdp::XdpPort;
use falaj_engine::{Engine, PipeId};
use falaj_scenario::{Direction, Link, Scenario, Towards};
use falaj_sched::params::Refusals;
use falaj_sched::queue::FlowId;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

fn engine(link: &Link) -> Result<Engine, Refusals> {
    Engine::new(&[link.up.pipe(), link.down.pipe()]).map_err(|(_, refused)| refused)
}

fn flows(link: &Link) -> [usize; 2] {
    [link.up.flows.len(), link.down.flows.len()]
}

/// The link between the two sides of a sandbox, whose TAPs it takes.
pub fn to_sandbox(link: &Link, sandbox: &mut Sandbox, clock: Clock, options: Options) -> io::Result<Forwarder> {
    between(link, clock, options, |d, from| {
        joint_port(sandbox.sides(), (from.index(), 0), d, || format!("interface {INTERFACE} at the {from} end"))
    })
}

/// The link between the near side of a sandbox and a guest that has the far side's TAP.
///
/// # Errors
/// The near side has no TAP.
pub fn to_guest(
    link: &Link,
    sandbox: &mut Sandbox,
    guest: Guest,
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let mut guest = Some(guest);
    between(link, clock, options, |d, from| {
        if from == End::Far
            && let Some(guest) = guest.take()
        {
            return Ok(Box::new(guest.port(d.classifier(), d.account, d.masks.clone())));
        }
        joint_port(sandbox.sides(), (from.index(), 0), d, || format!("interface {INTERFACE} at the {from} end"))
    })
}

/// All links between hosts, whose interfaces it takes. Of link `n` the pipes are `2 n`, up, and `2 n + 1`, down; so are
/// the ports, near and far.
pub fn to_hosts(
    scenario: &Scenario,
    topology: &Topology,
    hosts: &mut Hosts,
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    let links = &scenario.links;
    let pipes: Vec<_> = links.iter().flat_map(|link| [link.up.pipe(), link.down.pipe()]).collect();
    let engine = Engine::new(&pipes).map_err(|(_, refused)| io::Error::other(refused))?;
    let names: Vec<&str> = topology.names().collect();
    let mut ports = Vec::new();
    for (n, link) in links.iter().enumerate() {
        let ends = topology.ends(n);
        for (towards, from) in [(Towards::Up, End::Near), (Towards::Down, End::Far)] {
            let at = ends[from.index()];
            let name = || format!("end of `{}` at `{}`", link.name, names[at.0]);
            let port = joint_port(hosts, at, link.direction(towards), name)?;
            let number = |end: End| 2 * n + end.index();
            ports.push(Attached { port, pipe: PipeId(number(from) as u32), leaves_at: number(from.other()) });
        }
    }
    let flows: Vec<usize> = links.iter().flat_map(flows).collect();
    Ok(Forwarder::new(clock, engine, &flows, ports, options))
}

/// A port at an interface of one of the hosts: which one, and which of its interfaces.
fn joint_port(
    hosts: &mut Hosts,
    (host, interface): (usize, usize),
    d: &Direction,
    name: impl FnOnce() -> String,
) -> io::Result<Box<dyn Port>> {
    if let Some(Joint::Packet(socket)) = hosts.joint(host, interface) {
        // Whoever holds it asks it for what was not read.
        return packet_port(socket, d);
    }
    let tap = match hosts.take_joint(host, interface) {
        Some(Joint::Tap(tap)) => tap,
        _ => unreachable!("hosts that are not joined by veth have one at each of their interfaces"),
    };
    Ok(Box::new(TapPort::new(name(), tap, d.classifier(), d.account).masked(d.masks.clone())))
}

/// The link between two existing interfaces: up from the first to the second.
pub fn to_interfaces(
    link: &Link,
    interfaces: [&Interface; 2],
    clock: Clock,
    options: Options,
) -> io::Result<Forwarder> {
    between(link, clock, options, |d, from| match interfaces[from.index()] {
        Interface::Packet(socket) => packet_port(socket, d),
        Interface::Xdp(socket) => {
            Ok(Box::new(XdpPort::new(Rc::clone(socket), d.classifier(), d.account).masked(d.masks.clone())))
        }
    })
}

fn packet_port(socket: &Arc<PacketSocket>, d: &Direction) -> io::Result<Box<dyn Port>> {
    let reader = PacketReader::new(Arc::clone(socket))?;
    Ok(Box::new(PacketPort::new(reader, d.classifier(), d.account).masked(d.masks.clone())))
}

/// The link between two ports, each made for what comes in there.
fn between(
    link: &Link,
    clock: Clock,
    options: Options,
    mut port: impl FnMut(&Direction, End) -> io::Result<Box<dyn Port>>,
) -> io::Result<Forwarder> {
    let engine = engine(link).map_err(io::Error::other)?;
    let mut ports = Vec::new();
    for (towards, from) in [(Towards::Up, End::Near), (Towards::Down, End::Far)] {
        let port = port(link.direction(towards), from)?;
        ports.push(Attached { port, pipe: PipeId(pipe_of(towards)), leaves_at: from.other().index() });
    }
    Ok(Forwarder::new(clock, engine, &flows(link), ports, options))
}

/// The link behind loopback sockets, one for each source; where the sources
/// must send to is written into their plans.
pub fn to_loopback(link: &Link, plans: &mut [EndPlan; 2], clock: Clock, options: Options) -> io::Result<Forwarder> {
    let engine = engine(link).map_err(io::Error::other)?;
    let mut ports: Vec<Attached> = Vec::new();
    for from in [0, 1] {
        let [near, far] = &mut *plans;
        let (sender, receiver) = if from == 0 { (near, far) } else { (far, near) };
        for sending in &mut sender.sends {
            let receiving = receiver.receives.iter_mut().find(|r| r.source == sending.source);
            let receiving = receiving.expect("what one end sends the other receives");
            // A free port, found by having it for a moment.
            receiving.at = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let towards = if sending.flow.pipe == pipe_of(Towards::Up) { Towards::Up } else { Towards::Down };
            let d = link.direction(towards);
            let port = RelayPort::new(receiving.at, FlowId(sending.flow.flow), d.account)?;
            sending.to = port.address()?;
            if sending.from.is_ipv6() {
                // Loopback carries it over IPv4: the payload makes up for the shorter header.
                sending.payload += LONGER_BY;
            }
            sending.from = (Ipv4Addr::LOCALHOST, 0).into();
            let leaves_at = ports.len();
            let pipe = PipeId(sending.flow.pipe);
            ports.push(Attached { port: Box::new(port), pipe, leaves_at });
        }
    }
    Ok(Forwarder::new(clock, engine, &flows(link), ports, options))
}
