//! From a link of a scenario to an engine with ports.

use crate::clock::Clock;
use crate::datagrams::EndPlan;
use crate::ends::{LONGER_BY, pipe_of};
use crate::forward::{Attached, Forwarder};
use crate::port::TapPort;
use crate::relay::RelayPort;
use crate::sandbox::{End, Sandbox};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_scenario::{Direction, Link, Towards};
use falaj_sched::params::Refusals;
use falaj_sched::queue::FlowId;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// May units larger than the mtu pass this link whole? Only while it is
/// unlimited both ways and does nothing to packets: rates and losses act on
/// packets, not on units of many.
pub fn takes_large_units(link: &Link) -> bool {
    [&link.up, &link.down].into_iter().all(|d| d.setup.rate.is_unlimited() && d.impairments.is_none())
}

fn pipe(direction: &Direction, large: bool) -> PipeSpec {
    let mut pipe = direction.pipe();
    if large {
        pipe.setup.largest = u32::MAX >> 1;
    }
    pipe
}

fn engine(link: &Link, large: bool) -> Result<Engine, Refusals> {
    Engine::new(&[pipe(&link.up, large), pipe(&link.down, large)]).map_err(|(_, refused)| refused)
}

fn flows(link: &Link) -> [usize; 2] {
    [link.up.flows.len(), link.down.flows.len()]
}

/// The link between the two sides of a sandbox, whose TAPs it takes.
pub fn to_sandbox(link: &Link, sandbox: &mut Sandbox, clock: Clock) -> Result<Forwarder, Refusals> {
    let large = takes_large_units(link);
    let engine = engine(link, large)?;
    let attach = |(towards, from): (Towards, End)| {
        let d = link.direction(towards);
        let tap = sandbox.take_tap(from).expect("a sandbox joined by TAPs has one at each end");
        Attached {
            port: Box::new(TapPort::new(from, tap, d.classifier(), d.account, d.mtu, large)),
            pipe: PipeId(pipe_of(towards)),
            leaves_at: from.other().index(),
        }
    };
    let ports = [(Towards::Up, End::Near), (Towards::Down, End::Far)].map(attach);
    Ok(Forwarder::new(clock, engine, &flows(link), ports.into()))
}

/// The link behind loopback sockets, one for each source; where the sources
/// must send to is written into their plans.
pub fn to_loopback(link: &Link, plans: &mut [EndPlan; 2], clock: Clock) -> io::Result<Forwarder> {
    let engine = engine(link, false).map_err(io::Error::other)?;
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
    Ok(Forwarder::new(clock, engine, &flows(link), ports))
}
