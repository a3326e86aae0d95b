//! Converts a scenario's sources to datagrams, with addresses and ports by which the scenario's own
//! rules put these datagrams in the right flows.

use crate::link_end::End;
use crate::traffic::datagrams::{self, EndPlan, FlowKey, HEADER, Receiving, Sending, Traffic};
use falaj_engine::classifier::Match;
use falaj_engine::header::{Protocol, Version};
use falaj_engine::key::Key;
use falaj_engine::rules::{Passage, RouteRule, RuleAction, RuleTarget};
use falaj_scenario::{Direction, Link, Scenario, Source, Towards};
use falaj_sched::contract::params::{Kind, Param};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry;
use falaj_sched::units::time::Span;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The difference in length between an IPv6 header and an IPv4 header, in bytes.
pub(crate) const LONGER_BY: u32 = 20;

/// A source that the live ends cannot send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The source's name.
    pub source: String,
    /// The reason, and a remedy.
    pub why: String,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "traffic `{}` cannot be sent as real datagrams: {}", self.source, self.why)
    }
}
impl std::error::Error for Unreachable {}

/// Index of a direction's pipe within its link: up is 0, down is 1.
pub fn pipe_of(towards: Towards) -> u32 {
    match towards {
        Towards::Up => 0,
        Towards::Down => 1,
    }
}

/// The end at which traffic of this direction enters.
pub fn from_end(towards: Towards) -> End {
    match towards {
        Towards::Up => End::Near,
        Towards::Down => End::Far,
    }
}

/// The plans of both ends for sending and receiving, the near end first. Their times (`zero`,
/// `duration`, `grace`) are not set yet.
pub fn plan(scenario: &Scenario) -> Result<[EndPlan; 2], Unreachable> {
    let mut plans = [EndPlan::default(), EndPlan::default()];
    let rules: Vec<RouteRule> = scenario.rules.iter().map(|rule| rule.rule.clone()).collect();
    for (i, source) in scenario.traffic.iter().enumerate() {
        let direction = scenario.links[source.link].direction(source.towards);
        if source.sources > 1 {
            let why = "`sources` with many addresses works only in simulation (`falaj sim`); \
                       leave it out"
                .to_owned();
            return Err(Unreachable { source: source.name.clone(), why });
        }
        let traffic = traffic(source)?;
        let (from, to) = match &source.key {
            Some(key) => of_headers(source, key)?,
            None => addresses(source, scenario, &rules, i as u16)?,
        };
        let headers = headers(source, direction, from.is_ipv6())?;
        let flow = FlowKey {
            pipe: 2 * source.link as u32 + pipe_of(source.towards),
            flow: source.flow as u32,
        };
        let source_id = i as u32;
        let near = from_end(source.towards);
        plans[near.index()].sends.push(Sending {
            source: source_id,
            flow,
            headers,
            from,
            to,
            traffic,
            tos: tos(source),
        });
        plans[near.other().index()].receives.push(Receiving { source: source_id, flow, at: to });
    }
    Ok(plans)
}

/// The datagrams of a source.
fn traffic(source: &Source) -> Result<Traffic, Unreachable> {
    source.spec().try_into().map_err(|datagrams::ClosedLoopSource| {
        let why = "`tcp` is simulated only, by `falaj sim`; real connections pass the link in \
                   `falaj run FILE -- iperf3 …`, whose kernel has Reno, CUBIC and BBR of its own";
        Unreachable { source: source.name.clone(), why: why.to_owned() }
    })
}

/// The sending plan of each adapter, and after them the receiving plan of the uplink. Source `n`
/// sends from the address `from[n]`. The link identifies an adapter's packets by where they enter,
/// so addresses and ports need not match any rules. The times of the plans are not set yet.
pub fn plan_of_adapters(
    scenario: &Scenario,
    from: &[Ipv4Addr],
    uplink: Ipv4Addr,
) -> Result<Vec<EndPlan>, Unreachable> {
    let mut adapters: Vec<Ipv4Addr> = Vec::new();
    from.iter().for_each(|address| {
        if !adapters.contains(address) {
            adapters.push(*address);
        }
    });
    let mut plans = vec![EndPlan::default(); adapters.len() + 1];
    for (n, (source, address)) in scenario.traffic.iter().zip(from).enumerate() {
        let direction = scenario.links[source.link].direction(source.towards);
        let flow = FlowKey { pipe: pipe_of(source.towards), flow: source.flow as u32 };
        let (id, number) = (n as u32, n as u16 % 10_000);
        let to = (uplink, DESTINATION + number).into();
        let adapter = adapters.iter().position(|known| known == address).unwrap_or_default();
        plans[adapter].sends.push(Sending {
            source: id,
            flow,
            headers: headers(source, direction, false)?,
            from: (*address, SOURCE + number).into(),
            to,
            traffic: traffic(source)?,
            tos: tos(source),
        });
        plans[adapters.len()].receives.push(Receiving { source: id, flow, at: to });
    }
    Ok(plans)
}

/// The type of service of a source's datagrams.
fn tos(source: &Source) -> u8 {
    source.key.and_then(|key| key.tos).unwrap_or(source.ecn as u8)
}

/// The key of a source's largest datagrams, as rules and flows read it.
pub(crate) fn key_of(
    source: &Source,
    direction: &Direction,
    from: SocketAddr,
    to: SocketAddr,
) -> Key {
    let length = direction.layer.to_ip(source.spec().largest());
    Key { tos: Some(tos(source)), ..Key::of_ordinary(Protocol::UDP, from, to, length) }
}

/// The addresses and ports in a source's `headers`. It is an error if the addresses are not those
/// of the ends, or if a UDP datagram cannot have such headers.
fn of_headers(source: &Source, key: &Key) -> Result<(SocketAddr, SocketAddr), Unreachable> {
    let (from, to) = (from_end(source.towards), from_end(source.towards).other());
    let is_of = |end: End, address: IpAddr| {
        [end.address().into(), end.address6().into()].contains(&address)
    };
    let fault = match (key.src.zip(key.dst), key.ports) {
        _ if key.protocol != Some(Protocol::UDP) => "another protocol than UDP",
        (Some((src, dst)), _) if !is_of(from, src) || !is_of(to, dst) => {
            "an address that does not belong to its end"
        }
        (Some((src, dst)), Some((sport, dport))) => {
            let ends = (SocketAddr::new(src, sport), SocketAddr::new(dst, dport));
            let ordinary = Key::of_ordinary(Protocol::UDP, ends.0, ends.1, 0);
            if (Key { tos: ordinary.tos, length: ordinary.length, ..*key }) == ordinary {
                return Ok(ends);
            }
            "fields that a socket does not set, of Ethernet or a time to live other than 64"
        }
        _ => "no address",
    };
    Err(Unreachable {
        source: source.name.clone(),
        why: format!(
            "its `headers` have {fault}; live datagrams are UDP from {} ({}) to {} ({}), and \
             only ports and `dscp` may be chosen; `falaj sim` can send the others",
            from.address(),
            from.address6(),
            to.address(),
            to.address6(),
        ),
    })
}

/// The time to wait for the last packets. For each link, this is its largest delay plus twice the
/// time to send its largest backlog. The sum over the links is limited to 5 s; 200 ms are added.
pub fn drain(links: &[Link]) -> Span {
    let of = |d: &Direction| {
        let setup = &d.pipe.setup;
        let bytes = |packets: u64| packets * u64::from(setup.largest);
        let of_flow = |limit: Limit| match limit {
            Limit::Packets(n) => bytes(u64::from(n)),
            Limit::Bytes(n) => n,
        };
        let in_flows: u64 = setup.flows.iter().map(|f| of_flow(f.limit)).sum();
        let queues = own_limit(d).map_or(in_flows, bytes);
        d.pipe.impairments.delays(d.pipe.delay).1 + setup.rate.airtime_of_many(queues) * 2
    };
    let all = links.iter().map(|link| of(&link.up).max(of(&link.down)));
    all.fold(Span::ZERO, |sum, one| (sum + one).min(Span::from_secs(5))) + Span::from_millis(200)
}

/// The packet limit of a discipline with a single limit for all its queues, such as fq_codel.
fn own_limit(direction: &Direction) -> Option<u64> {
    let manifest = registry::entry(direction.pipe.kind)?;
    let is_limit =
        |param: &&Param| param.name == "limit" && matches!(param.kind, Kind::Count { .. });
    let param = manifest.scheduler.iter().find(is_limit)?;
    let default = || param.default.and_then(|packets| packets.parse().ok());
    direction.pipe.setup.scheduler.count("limit").or_else(default)
}

/// Bytes of a packet's accounted length that are not the payload of a UDP datagram.
fn headers(source: &Source, direction: &Direction, v6: bool) -> Result<i32, Unreachable> {
    let smallest = source.spec().smallest();
    let longer = if v6 { LONGER_BY } else { 0 };
    let payload = direction.layer.udp_payload(smallest).and_then(|bytes| bytes.checked_sub(longer));
    payload
        .filter(|&bytes| bytes >= HEADER as u32)
        .map(|bytes| smallest as i32 - bytes as i32)
        .ok_or_else(|| Unreachable {
            source: source.name.clone(),
            why: format!(
                "packets of {smallest} B have no room for the {HEADER} B by which a live sender \
                 marks its datagrams; `falaj sim` can send them"
            ),
        })
}

/// Addresses and ports that put the source's datagrams in its flow. If there are rules, the rules
/// lead datagrams with these addresses and ports through the source's link alone.
fn addresses(
    source: &Source,
    scenario: &Scenario,
    rules: &[RouteRule],
    number: u16,
) -> Result<(SocketAddr, SocketAddr), Unreachable> {
    let link = &scenario.links[source.link];
    let direction = link.direction(source.towards);
    let flows = direction.classifier();
    let (from, to) = (from_end(source.towards), from_end(source.towards).other());
    let flow = &direction.flows[source.flow];
    let way = pipe_of(source.towards) as usize;
    let leads = |rule: &&RouteRule| match &rule.to {
        RuleAction::Links(links) => links[..] == [source.link as u32],
        RuleAction::Table { targets, .. } => {
            targets.contains(&Some(RuleTarget::Link(source.link as u32)))
        }
        _ => false,
    };
    // Both the rules that lead to the link and the flow's matches may restrict the ports.
    let any = [Match::ANY];
    let leading: Vec<&Match> = match rules {
        [] => any.iter().collect(),
        rules => rules.iter().filter(leads).flat_map(|rule| &rule.matches).collect(),
    };
    for (led, taken) in
        leading.iter().flat_map(|led| flow.matches.iter().map(move |taken| (*led, taken)))
    {
        let six = [led, taken].into_iter().any(|rule| rule.version == Some(Version::V6));
        let pair: [IpAddr; 2] = if six {
            [from.address6().into(), to.address6().into()]
        } else {
            [from.address().into(), to.address().into()]
        };
        let ranges = both(led.sport, taken.sport).zip(both(led.dport, taken.dport));
        for (sport, dport) in
            ranges.into_iter().flat_map(|(sport, dport)| ports(sport, dport, number))
        {
            let ends = [SocketAddr::new(pair[0], sport), SocketAddr::new(pair[1], dport)];
            let key = key_of(source, direction, ends[0], ends[1]);
            let key = match rules {
                [] => Some(key),
                _ => match Passage::of(rules, &key, way).sure().as_deref() {
                    Some([only]) if only.link == source.link as u32 => Some(only.key),
                    _ => None,
                },
            };
            let flow = key.and_then(|key| flows.flow_of(&key));
            if flow == Some(FlowId(source.flow as u32)) {
                return Ok((ends[0], ends[1]));
            }
        }
    }
    let ends = format!(
        "no UDP datagram from {} ({}) to {} ({})",
        from.address(),
        from.address6(),
        to.address(),
        to.address6()
    );
    let taken: Vec<String> = flow.matches.iter().map(Match::to_string).collect();
    let put = format!(
        "is put in flow `{}` by its rule `{}` and those before it",
        flow.name,
        taken.join("`, `")
    );
    let why = if rules.is_empty() {
        format!("{ends} {put}")
    } else {
        let by_rules =
            format!("by the rules, {ends} always passes link `{}` alone and {put}", link.name);
        format!("{by_rules}; leave out `link` and `flow`, so that the rules decide")
    };
    Err(Unreachable { source: source.name.clone(), why })
}

type Ports = Option<(u16, u16)>;

/// The first source port: each source has one of its own.
const SOURCE: u16 = 20_000;
/// The first destination port.
const DESTINATION: u16 = 40_000;

/// The intersection of two port ranges; a range `None` is all ports. Returns the outer `None` if
/// the intersection is empty.
fn both(one: Ports, other: Ports) -> Option<Ports> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let (low, high) = (one.0.max(other.0), one.1.min(other.1));
            (low <= high).then_some(Some((low, high)))
        }
        _ => Some(one.or(other)),
    }
}

/// Pairs of ports to try: the source's own pair and its successors, within these ranges.
fn ports(sport: Ports, dport: Ports, number: u16) -> impl Iterator<Item = (u16, u16)> {
    let within = move |own: u16, range: Ports, step: u16| match range {
        None => own.wrapping_add(step),
        Some((low, high)) => {
            low + ((u32::from(number) + u32::from(step)) % (u32::from(high) - u32::from(low) + 1))
                as u16
        }
    };
    (0..1000).map(move |step| {
        (
            within(SOURCE + number % 10_000, sport, step),
            within(DESTINATION + number % 10_000, dport, step),
        )
    })
}
