//! Reads sources of traffic.

pub(crate) mod arrivals;
pub(crate) mod captured;
pub(crate) mod envelopes;
pub(crate) mod tcp;

use crate::diagnostics::Problem;
use crate::keys;
use crate::link::Known;
use crate::lints::{envelope, headers};
use crate::model::{Direction, Scenario, Source, Towards};
use crate::read::{Datum, Fields, Got, fields, get};
use crate::routing::rules::{self, RuleRead};
use crate::suggest::{self, quoted};
use arrivals::Sends;
use falaj_engine::classifier::Match;
use falaj_engine::header::{Net, Protocol, Version};
use falaj_engine::key::{Key, Macs};
use falaj_engine::term::{Literal, Term};
use falaj_sched::contract::params::Values;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::source::Model;
use falaj_traffic::source::recorded::Recording;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use toml::de::DeTable;

/// Bytes at the beginning of a datagram's payload with which a live sender marks it, so that the
/// receiver can identify it.
const STAMP: u32 = 32;

/// The number of packets of one source whose lengths were raised for a live sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaisedLengths {
    /// Name of the source.
    pub source: String,
    /// Number of packets with raised lengths.
    pub packets: u64,
    /// The raised length, in bytes as the link accounts them.
    pub to: u32,
}

impl Scenario {
    /// Raises the lengths of recorded packets that are shorter than a datagram with the mark of a
    /// live sender. Simulations keep the lengths as recorded.
    pub fn make_room_for_marks(&mut self) -> Vec<RaisedLengths> {
        let mut raised = Vec::new();
        for source in &mut self.traffic {
            let layer = self.links[source.link].direction(source.towards).layer;
            let to = layer.from_udp(STAMP).min(source.sizes.most());
            let Model::Recorded(recording) = &mut source.model else { continue };
            let packets = recording.packets.iter().filter(|packet| packet.1 < to).count() as u64;
            if packets > 0 {
                let lengths = recording.packets.iter().map(|&(at, bytes)| (at, bytes.max(to)));
                *recording = Recording { packets: lengths.collect(), ..**recording }.into();
                raised.push(RaisedLengths { source: source.name.clone(), packets, to });
            }
        }
        raised
    }
}

/// Reads a table `[traffic.NAME]`, and returns the source with the place of its rate. `duration` is
/// that of the run, if it is known; `rules` are `None` if they have errors.
pub(crate) fn source<'a>(
    name: &str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    (links, rules): (&[Known], Option<&[RuleRead]>),
    beside: &Path,
    duration: Option<Span>,
    problems: &mut Vec<Problem>,
) -> Option<(Source, Range<usize>)> {
    let fields =
        fields(table, at, format!("traffic {}", quoted(name)), keys::TRAFFIC, &[], problems);
    let mut given = Values::default();
    let mut named = [("link", None), ("flow", None)];
    let mut headers = None;
    let mut whole = true;
    for key in keys::TRAFFIC {
        match get(&[&fields], key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => {
                given.set(key.name, value);
            }
            Got::Given(Datum::Name(text)) => {
                if let Some(slot) = named.iter_mut().find(|(n, _)| *n == key.name) {
                    slot.1 = Some(text);
                }
            }
            Got::Given(Datum::Rules(rules)) if key.name == "headers" => headers = Some(rules),
            // These keys are read later, with the model.
            Got::Given(
                Datum::Sizes(_)
                | Datum::Decimal(_)
                | Datum::Rows(_)
                | Datum::Table(_)
                | Datum::Tables(_)
                | Datum::Rules(_),
            )
            | Got::Absent => {}
            _ => whole = false,
        }
    }
    let [(_, link_name), (_, flow_name)] = named;
    let sends = arrivals::sends(&fields, &given, beside, problems);
    // These models send packets of many sizes; `size` is only the largest size.
    let video = matches!(given.choice("model"), Some("mpeg" | "replay"));
    let times = times(&fields, &given, duration, problems);
    let towards =
        if given.choice("direction") == Some("down") { Towards::Down } else { Towards::Up };

    // If the link is unknown, its flows cannot be checked.
    let sure = |name: &str| fields.field(name).map_or(!fields.means(name), |f| f.datum.is_some());
    if !sure("link") || !sure("headers") {
        return None;
    }
    if link_name.is_none() && !rules?.is_empty() {
        let protocol =
            if given.choice("model") == Some("tcp") { Protocol::TCP } else { Protocol::UDP };
        let ends = (towards, protocol);
        let way = way_of_rules(rules?, headers.as_deref(), ends, (links, &fields), problems)?;
        let directions = way.directions(links, towards)?;
        let direction = directions.0;
        if !arrivals::fit(direction, &links[way.link].name, &fields, video, problems) {
            return None;
        }
        let sends = sends?.on(directions, &fields, problems);
        let sources = given.count("sources").and_then(|n| u32::try_from(n).ok())?;
        let (start, stop) = times?;
        let length = direction.layer.to_ip(sends.sizes.most());
        let SourceWay { link, flow, key } = way;
        // The value of `ecn` is the two lowest bits of the TOS byte, which `headers` may set, too.
        let tos = match ecn(&given) {
            Ecn::Not => key.tos,
            ecn => Some(key.tos.unwrap_or(0) & !3 | ecn as u8),
        };
        let ecn = tos.map_or(Ecn::Not, Ecn::from_bits);
        let (name, key) = (name.to_owned(), Some(Key { length: Some(length), tos, ..key }));
        let Sends { model, rate, sizes, limit, offset, at } = sends;
        let start = start + offset;
        let source = Source {
            name,
            link,
            flow,
            towards,
            key,
            model,
            rate,
            sizes,
            limit,
            sources,
            start,
            stop,
            ecn,
        };
        return whole.then_some((source, at));
    }
    if let Some(field) = fields.field("headers") {
        let why = format!("{} passes its link, whatever its `headers`", fields.what);
        problems.push(
            Problem::error(field.name_at.clone(), why)
                .help("only rules use them, and only if the source has no `link`"),
        );
        return None;
    }
    let link =
        pick("link", link_name, links.iter().map(|k| k.name.as_str()), "", &fields, problems)?;
    let known = &links[link];
    let fits = known.link.as_ref().is_some_and(|link| {
        arrivals::fit(link.direction(towards), &known.name, &fields, video, problems)
    });
    let sends = sends.filter(|_| fits);
    if !sure("flow") || !sure("direction") {
        return None;
    }
    let names = known.flows[usize::from(towards == Towards::Down)].as_ref()?;
    let of = format!(" of link {}", quoted(&known.name));
    let flow = pick("flow", flow_name, names.iter().map(String::as_str), &of, &fields, problems)?;

    let sources = given.count("sources").and_then(|n| u32::try_from(n).ok())?;
    let link_read = known.link.as_ref()?;
    let directions = (link_read.direction(towards), link_read.direction(towards.back()));
    let sends = sends?.on(directions, &fields, problems);
    let ((start, stop), Sends { model, rate, sizes, limit, offset, at }) = (times?, sends);
    let start = start + offset;
    let ecn = ecn(&given);
    let (name, key) = (name.to_owned(), None);
    let source = Source {
        name,
        link,
        flow,
        towards,
        key,
        model,
        rate,
        sizes,
        limit,
        sources,
        start,
        stop,
        ecn,
    };
    whole.then_some((source, at))
}

fn ecn(given: &Values) -> Ecn {
    match given.choice("ecn") {
        Some("ect0") => Ecn::Ect0,
        Some("ect1") => Ecn::Ect1,
        _ => Ecn::Not,
    }
}

/// The first link and flow to which the rules lead a source's packets.
struct SourceWay {
    link: usize,
    flow: usize,
    key: Key,
}

impl SourceWay {
    /// The link's direction of the packets, and the opposite direction.
    fn directions<'k>(
        &self,
        links: &'k [Known],
        towards: Towards,
    ) -> Option<(&'k Direction, &'k Direction)> {
        let link = links[self.link].link.as_ref()?;
        Some((link.direction(towards), link.direction(towards.back())))
    }
}

/// Finds the first link to which the rules lead a source's packets, and their flow on it.
fn way_of_rules(
    rules: &[RuleRead],
    headers: Option<&[Match]>,
    (towards, protocol): (Towards, Protocol),
    (links, fields): (&[Known], &Fields<'_>),
    problems: &mut Vec<Problem>,
) -> Option<SourceWay> {
    let at = fields.field("headers").map_or(fields.at.clone(), |f| f.at.clone());
    let key = match headers {
        None => ordinary(&Match::ANY, towards, protocol),
        Some([one]) => headers_of(one, towards, protocol),
        Some(_) => Err("headers without `or` and lists"),
    };
    let key = match key {
        Ok(key) => key,
        Err(what) => {
            let example = "as in `tcp src 10.1.0.7 dport 443`";
            problems.push(
                Problem::error(at, format!("a packet has {what}"))
                    .help(format!("write one value of each, {example}")),
            );
            return None;
        }
    };
    let Some(link) = rules::first_link(rules, &key, towards) else {
        let why = format!("the rules lead {} to no link", fields.what);
        problems.push(
            Problem::error(at, why).help(
                "give the headers of its packets, `headers = \"…\"`, or its `link` and `flow`",
            ),
        );
        return None;
    };
    let direction = links[link as usize].link.as_ref()?.direction(towards);
    let Some(FlowId(flow)) = direction.classifier().flow_of(&key) else {
        let why = format!(
            "no flow of link {} matches {}",
            quoted(&links[link as usize].name),
            fields.what
        );
        problems.push(
            Problem::error(at, why)
                .help("a last flow with `match = \"any\"` matches all other packets"),
        );
        return None;
    };
    Some(SourceWay { link: link as usize, flow: flow as usize, key })
}

/// The key of a packet with these headers between the two ends of a live link. Fields that are not
/// given have their usual values.
fn ordinary(headers: &Match, towards: Towards, protocol: Protocol) -> Result<Key, &'static str> {
    let single = |net: Option<Net>| match net {
        Some(net) if net.len != net.bits() => Err("one address, and no prefix"),
        net => Ok(net.map(|net| net.addr)),
    };
    let port = |range: Option<(u16, u16)>, default: u16| match range {
        Some((from, to)) if from != to => Err("one port, and no range"),
        range => Ok(range.map_or(default, |(port, _)| port)),
    };
    let ends: [IpAddr; 2] = match headers.version {
        Some(Version::V6) => [
            IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)),
        ],
        _ => [[10, 77, 0, 1].into(), [10, 77, 0, 2].into()],
    };
    let [src, dst] = if towards == Towards::Up { ends } else { [ends[1], ends[0]] };
    let from = SocketAddr::new(single(headers.src)?.unwrap_or(src), port(headers.sport, 20_000)?);
    let to = SocketAddr::new(single(headers.dst)?.unwrap_or(dst), port(headers.dport, 40_000)?);
    Ok(Key::of_ordinary(headers.protocol.unwrap_or(protocol), from, to, 0))
}

/// The key of packets with these headers. The error says what the headers must be.
fn headers_of(headers: &Match, towards: Towards, protocol: Protocol) -> Result<Key, &'static str> {
    let mut key = ordinary(headers, towards, protocol)?;
    for literal in &headers.more {
        let macs = key.macs.unwrap_or(Macs { src: [2, 0, 0, 0, 0, 1], dst: [2, 0, 0, 0, 0, 2] });
        match literal {
            Literal { not: true, .. } => return Err("only values, so `not` is not possible"),
            Literal { term, .. } => match *term {
                Term::Ether(kind) => key.ether = Some(kind),
                Term::Vlan(vlan) => key.vlan = Some(vlan),
                Term::MacSrc(src) => key.macs = Some(Macs { src, ..macs }),
                Term::MacDst(dst) => key.macs = Some(Macs { dst, ..macs }),
                Term::Tos { value, mask } => key.tos = Some(key.tos.unwrap_or(0) & !mask | value),
                Term::Dscp(dscp) => key.tos = Some(key.tos.unwrap_or(0) & 3 | dscp << 2),
                Term::Ttl(from, to) if from == to => key.ttl = Some(from),
                Term::Flags { set, .. } => key.tcp = Some(set),
                Term::Ttl(..) => return Err("one time to live, and no range"),
                Term::Length(..) => return Err("the length that `size` gives"),
                Term::Fragment | Term::FirstFragment => {
                    return Err("no fragments: sources send whole packets");
                }
                _ => return Err("one address and one port, and no table"),
            },
        }
    }
    Ok(key)
}

/// Warns if the traffic of a link exceeds the envelopes of its flows. For a direction that sets
/// none of `layer`, `overhead` and `cells`, it also warns if only headers decide whether the
/// traffic fits.
pub(crate) fn counted(
    n: usize,
    known: &Known,
    sources: &[&(Source, Range<usize>)],
    problems: &mut Vec<Problem>,
) {
    let Some(link) = &known.link else { return };
    for (way, towards) in [Towards::Up, Towards::Down].into_iter().enumerate() {
        let of_this = |s: &&(Source, Range<usize>)| (s.0.link, s.0.towards) == (n, towards);
        let mine: Vec<_> = sources.iter().copied().filter(of_this).collect();
        envelope::envelopes(link.direction(towards), &mine, problems);
        if known.layer[way] {
            continue;
        }
        let direction = link.direction(towards);
        let mut warn = |flow: Option<usize>, limit| {
            let of = |s: &&&(Source, Range<usize>)| {
                (s.0.link, s.0.towards) == (n, towards) && flow.is_none_or(|flow| s.0.flow == flow)
            };
            let mine: Vec<_> = sources.iter().filter(of).collect();
            let specs: Vec<&Source> = mine.iter().map(|s| &s.0).collect();
            let headers = headers::headers(&specs, direction.layer, limit)?;
            let flow = flow.map(|flow| direction.flows[flow].name.as_str());
            problems.push(headers.problem(mine.first()?.1.clone(), &known.name, flow));
            Some(())
        };
        let guaranteed = known.guaranteed[way]
            .iter()
            .enumerate()
            .filter_map(|(flow, rate)| Some((flow, (*rate)?)));
        let told = guaranteed.filter_map(|(flow, rate)| warn(Some(flow), rate)).count();
        if told == 0 {
            warn(None, direction.pipe.setup.rate);
        }
    }
}

/// The index of the given name; without a name, the index of the only item.
fn pick<'n>(
    key: &str,
    given: Option<&str>,
    names: impl Iterator<Item = &'n str> + Clone,
    of: &str,
    fields: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let count = names.clone().count();
    let list = || format!("{key}s{of}: {}", suggest::list(names.clone()));
    match given {
        None if count == 1 => Some(0),
        // The error that the file has no links was reported before.
        None if count == 0 => None,
        None => {
            let why = format!("{} lacks `{key}`", fields.what);
            problems.push(Problem::error(fields.at.clone(), why).help(list()));
            None
        }
        Some(name) => {
            let found = names.clone().position(|n| n == name);
            if found.is_none() && count > 0 {
                let at = fields.field(key).map_or(fields.at.clone(), |f| f.at.clone());
                let mut problem =
                    Problem::error(at, format!("there is no {key} {}{of}", quoted(name)));
                if let Some(near) = suggest::nearest(name, names.clone()) {
                    problem = problem.label(format!("did you mean {}?", quoted(near)));
                }
                problems.push(problem.help(list()));
            }
            found
        }
    }
}

fn times(
    fields: &Fields<'_>,
    given: &Values,
    duration: Option<Span>,
    problems: &mut Vec<Problem>,
) -> Option<(Time, Option<Time>)> {
    let start = given.span("start")?;
    if let (Some(stop), Some(field)) = (given.span("stop"), fields.field("stop"))
        && stop <= start
    {
        problems.push(
            Problem::error(field.at.clone(), format!("{} stops before it starts", fields.what))
                .help(format!("write a time after its start, `{start}`")),
        );
        return None;
    }
    if let (Some(duration), Some(field)) = (duration, fields.field("start"))
        && start >= duration
    {
        problems.push(
            Problem::warning(field.at.clone(), format!("{} never starts", fields.what))
                .help(format!("the run lasts `{duration}`: see `duration` in `[run]`")),
        );
    }
    Some((Time(start.0), given.span("stop").map(|s| Time(s.0))))
}
