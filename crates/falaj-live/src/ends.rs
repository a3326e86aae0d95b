//! From a scenario's sources to datagrams that its own rules put in the right
//! flows: which addresses and ports they must have.

use crate::datagrams::{EndPlan, FlowKey, HEADER, Receiving, Sending};
use crate::sandbox::End;
use falaj_engine::classifier::{Match, Protocol, Version};
use falaj_engine::key::Key;
use falaj_scenario::{Direction, Link, Scenario, Source, Towards};
use falaj_sched::queue::FlowId;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// So much longer is an IPv6 header than an IPv4 header.
pub(crate) const LONGER_BY: u32 = 20;

/// A source that the live ends cannot send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The source's name.
    pub source: String,
    /// Why, and what would do.
    pub why: String,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "traffic `{}` cannot be sent as real datagrams: {}", self.source, self.why)
    }
}
impl std::error::Error for Unreachable {}

/// The pipe of one direction: up is 0, down is 1.
pub fn pipe_of(towards: Towards) -> u32 {
    match towards {
        Towards::Up => 0,
        Towards::Down => 1,
    }
}

/// The end at which traffic of this direction comes in.
pub fn from_end(towards: Towards) -> End {
    match towards {
        Towards::Up => End::Near,
        Towards::Down => End::Far,
    }
}

/// What each end sends and receives, near first. Times are still to be set.
pub fn plan(scenario: &Scenario, link: usize) -> Result<[EndPlan; 2], Unreachable> {
    let mut plans = [EndPlan::default(), EndPlan::default()];
    for (i, source) in scenario.traffic.iter().enumerate().filter(|(_, s)| s.link == link) {
        let direction = scenario.links[link].direction(source.towards);
        if source.sources > 1 {
            let why = "`sources` of many addresses are simulated only; leave it out".to_owned();
            return Err(Unreachable { source: source.name.clone(), why });
        }
        let (from, to) = addresses(source, direction, i as u16)?;
        let headers = headers(source, direction, from.is_ipv6())?;
        let flow = FlowKey { pipe: pipe_of(source.towards), flow: source.flow as u32 };
        let source_id = i as u32;
        let near = from_end(source.towards);
        plans[near.index()].sends.push(Sending {
            source: source_id,
            flow,
            headers,
            from,
            to,
            traffic: source.spec().into(),
            ecn: source.ecn as u8,
        });
        plans[near.other().index()].receives.push(Receiving { source: source_id, flow, at: to });
    }
    Ok(plans)
}

/// Largest backlog and delay of a link, as the time to wait for the last packets.
pub fn drain(link: &Link) -> falaj_sched::time::Span {
    use falaj_sched::queue::Limit;
    use falaj_sched::time::Span;
    let of = |d: &Direction| {
        let queues: u64 = d
            .setup
            .flows
            .iter()
            .map(|f| match f.limit {
                Limit::Packets(n) => u64::from(n) * u64::from(d.setup.largest),
                Limit::Bytes(n) => n,
            })
            .sum();
        d.impairments.delays(d.delay).1 + d.setup.rate.airtime_of_many(queues) * 2
    };
    of(&link.up).max(of(&link.down)).min(Span::from_secs(5)) + Span::from_millis(200)
}

/// So many bytes of a packet's length are not the payload of a UDP datagram.
fn headers(source: &Source, direction: &Direction, v6: bool) -> Result<i32, Unreachable> {
    let smallest = source.spec().smallest();
    let longer = if v6 { LONGER_BY } else { 0 };
    let payload = direction.account.udp_payload(smallest).and_then(|bytes| bytes.checked_sub(longer));
    payload.filter(|&bytes| bytes >= HEADER as u32).map(|bytes| smallest as i32 - bytes as i32).ok_or_else(|| {
        Unreachable {
            source: source.name.clone(),
            why: format!("{smallest} B are too few for a datagram with its {HEADER} B of number and time stamp"),
        }
    })
}

/// Addresses and ports that the direction's rules put in the source's flow.
fn addresses(source: &Source, direction: &Direction, number: u16) -> Result<(SocketAddr, SocketAddr), Unreachable> {
    let rules = direction.classifier();
    let (from, to) = (from_end(source.towards), from_end(source.towards).other());
    let flow = &direction.flows[source.flow];
    for rule in &flow.matches {
        let six = rule.version == Some(Version::V6);
        let pair: [IpAddr; 2] = if six {
            [from.address6().into(), to.address6().into()]
        } else {
            [from.address().into(), to.address().into()]
        };
        for (sport, dport) in ports(rule, number) {
            let ends = [SocketAddr::new(pair[0], sport), SocketAddr::new(pair[1], dport)];
            let length = direction.account.to_ip(source.spec().largest());
            let key = Key::of_ordinary(Protocol::UDP, ends[0], ends[1], length);
            if rules.flow_of(&key) == Some(FlowId(source.flow as u32)) {
                return Ok((ends[0], ends[1]));
            }
        }
    }
    let rules: Vec<String> = flow.matches.iter().map(Match::to_string).collect();
    Err(Unreachable {
        source: source.name.clone(),
        why: format!(
            "no UDP datagram from {} ({}) to {} ({}) is put in flow `{}` by its rule `{}` and those before it",
            from.address(),
            from.address6(),
            to.address(),
            to.address6(),
            flow.name,
            rules.join("`, `"),
        ),
    })
}

/// Ports to try: two of the source's own, moved into the rule's ranges.
fn ports(rule: &Match, number: u16) -> impl Iterator<Item = (u16, u16)> {
    const SOURCE: u16 = 20_000;
    const DESTINATION: u16 = 40_000;
    let within = move |own: u16, range: Option<(u16, u16)>, step: u16| match range {
        None => own.wrapping_add(step),
        Some((low, high)) => low + ((number as u32 + step as u32) % (high as u32 - low as u32 + 1)) as u16,
    };
    let (sport, dport) = (rule.sport, rule.dport);
    (0..1000).map(move |step| {
        (within(SOURCE + number % 10_000, sport, step), within(DESTINATION + number % 10_000, dport, step))
    })
}
