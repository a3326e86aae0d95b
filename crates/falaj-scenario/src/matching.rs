//! Rules that say which packets are a flow's: `udp dport 5004`.

use crate::nearest;
use crate::units::{Unreadable, quoted};
use falaj_engine::classifier::{Match, Net, Protocol, Version};
use std::net::IpAddr;
use std::ops::Range;

/// The terms of a rule, for messages and the reference.
pub const TERMS: &[(&str, &str)] = &[
    ("any", "every packet; stands alone"),
    ("udp", "UDP"),
    ("tcp", "TCP"),
    ("icmp", "ICMP of IPv4"),
    ("icmp6", "ICMP of IPv6"),
    ("ip", "IPv4"),
    ("ip6", "IPv6"),
    ("proto", "`proto N`: the protocol with this number, 0 to 255"),
    ("src", "`src ADDRESS` or `src ADDRESS/LENGTH`: from there"),
    ("dst", "`dst ADDRESS` or `dst ADDRESS/LENGTH`: to there"),
    ("sport", "`sport N` or `sport N-M`: source port, of TCP and UDP unless one is named"),
    ("dport", "`dport N` or `dport N-M`: destination port"),
];

const GRAMMAR: &str =
    "terms: any, udp, tcp, icmp, icmp6, ip, ip6, proto N, src ADDRESS[/N], dst ADDRESS[/N], sport N[-M], dport N[-M]";

/// Reads a rule: `any`, or terms (see [`TERMS`]) which must all hold, with
/// spaces or `and` between them.
///
/// # Errors
/// An unknown or repeated term, a bad operand, or terms that exclude each other;
/// `at` tells where.
pub fn parse_match(text: &str) -> Result<Match, Unreadable> {
    let mut words = Words { text, rest: 0 };
    let mut rule = Match::default();
    let mut seen: Vec<(&str, Range<usize>)> = Vec::new();
    let mut joined: Option<Range<usize>> = None; // an `and` that waits for its right side
    while let Some((word, at)) = words.next() {
        if word == "and" {
            if seen.is_empty() || joined.is_some() {
                return Err(wrong(at, "`and` joins two terms", "write a term on both sides, or leave it away"));
            }
            joined = Some(at);
            continue;
        }
        joined = None;
        let slot = match word {
            "udp" | "tcp" | "icmp" | "icmp6" | "proto" => "protocol",
            "ip" | "ip6" => "version",
            other => other,
        };
        if seen.iter().any(|(s, _)| *s == "any" || word == "any") {
            return Err(wrong(at, "`any` stands alone", "leave `any` away, or all the rest"));
        }
        if seen.iter().any(|(s, _)| *s == slot) {
            return Err(wrong(
                at,
                format!("a second {slot}, and all terms must hold at once"),
                "for \"either\", write a list: `match = [\"udp\", \"tcp\"]`",
            ));
        }
        let mut at_all = at.clone();
        let mut operand = |what: &str, example: &str| match words.next() {
            Some((operand, at)) => {
                at_all.end = at.end;
                Ok((operand, at))
            }
            None => Err(wrong(at.clone(), format!("`{word}` needs {what}"), format!("write `{example}`"))),
        };
        match word {
            "any" => {}
            "udp" => rule.protocol = Some(Protocol::UDP),
            "tcp" => rule.protocol = Some(Protocol::TCP),
            "icmp" => rule.protocol = Some(Protocol::ICMP),
            "icmp6" => rule.protocol = Some(Protocol::ICMP6),
            "ip" => rule.version = Some(Version::V4),
            "ip6" => rule.version = Some(Version::V6),
            "proto" => rule.protocol = Some(operand("a number", "proto 47").and_then(protocol)?),
            "src" => rule.src = Some(operand("an address", "src 10.0.0.0/8").and_then(net)?),
            "dst" => rule.dst = Some(operand("an address", "dst 10.0.0.0/8").and_then(net)?),
            "sport" => rule.sport = Some(operand("a port", "sport 5004").and_then(ports)?),
            "dport" => rule.dport = Some(operand("a port", "dport 5004").and_then(ports)?),
            _ => {
                let near = match word {
                    // As others' filters write either.
                    "port" | "ports" => Some("sport` or `dport".to_owned()),
                    _ => nearest::among(word, TERMS.iter().map(|(t, _)| *t)).map(str::to_owned),
                };
                return Err(Unreadable {
                    near,
                    ..wrong(at, format!("{} is not a term of a rule", quoted(word)), GRAMMAR)
                });
            }
        }
        seen.push((slot, at_all));
    }
    if let Some(at) = joined {
        return Err(wrong(at, "`and` joins two terms", "write a term on both sides, or leave it away"));
    }
    if seen.is_empty() {
        return Err(Unreadable::new("an empty rule", "write `any` for every packet"));
    }
    settle(rule, &seen)
}

/// Refuses terms that exclude each other and concludes the version of IP.
fn settle(mut rule: Match, seen: &[(&str, Range<usize>)]) -> Result<Match, Unreadable> {
    let place = |slot: &str| seen.iter().find(|(s, _)| *s == slot).map_or(0..0, |(_, at)| at.clone());
    let by_protocol = match rule.protocol {
        Some(Protocol::ICMP) => Some(Version::V4),
        Some(Protocol::ICMP6) => Some(Version::V6),
        _ => None,
    };
    let versions = [
        ("version", rule.version),
        ("src", rule.src.map(|n| n.version())),
        ("dst", rule.dst.map(|n| n.version())),
        ("protocol", by_protocol),
    ];
    for (slot, version) in versions {
        if let (Some(version), Some(before)) = (version, rule.version)
            && version != before
        {
            return Err(wrong(
                place(slot),
                "a rule for both IPv4 and IPv6 matches nothing",
                "keep to one version, or write a list of two rules",
            ));
        }
        rule.version = rule.version.or(version);
    }
    for slot in ["sport", "dport"] {
        let set = if slot == "sport" { rule.sport } else { rule.dport };
        if let (Some(_), Some(protocol)) = (set, rule.protocol)
            && !protocol.has_ports()
        {
            return Err(wrong(
                place(slot),
                format!("`{protocol}` has no ports"),
                "ports go with `udp` or `tcp`, or with neither to mean both",
            ));
        }
    }
    Ok(rule)
}

fn wrong(at: Range<usize>, what: impl Into<String>, help: impl Into<String>) -> Unreadable {
    Unreadable { at: Some(at), ..Unreadable::new(what, help) }
}

fn protocol((word, at): (&str, Range<usize>)) -> Result<Protocol, Unreadable> {
    number(word).map(Protocol).ok_or_else(|| {
        let known = matches!(word, "udp" | "tcp" | "icmp" | "icmp6");
        let help = if known { format!("write `{word}` alone") } else { "write a number from 0 to 255".to_owned() };
        wrong(at, format!("{} is not the number of a protocol", quoted(word)), help)
    })
}

fn ports((word, at): (&str, Range<usize>)) -> Result<(u16, u16), Unreadable> {
    let (from, to) = word.split_once('-').unwrap_or((word, word));
    match (number::<u16>(from), number::<u16>(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        (Some(from), Some(to)) => {
            Err(wrong(at, format!("{} is an empty range", quoted(word)), format!("write `{to}-{from}`")))
        }
        _ => Err(wrong(
            at,
            format!("{} is not a port", quoted(word)),
            "write a number from 0 to 65535, or a range such as `5000-5010`",
        )),
    }
}

fn net((word, at): (&str, Range<usize>)) -> Result<Net, Unreadable> {
    let (addr, len) = match word.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (word, None),
    };
    let Ok(addr) = addr.parse::<IpAddr>() else {
        return Err(wrong(
            at,
            format!("{} is not an address", quoted(word)),
            "write one such as `10.1.2.3`, `10.0.0.0/8` or `2001:db8::/32`",
        ));
    };
    let most = Net::new(addr, 0).bits();
    let len = match len {
        None => most,
        Some(len) => match number::<u8>(len).filter(|n| *n <= most) {
            Some(len) => len,
            None => {
                return Err(wrong(
                    at,
                    format!("{} has no prefix length that IP knows", quoted(word)),
                    format!("write 0 to {most} after the slash"),
                ));
            }
        },
    };
    let first = Net::new(addr, len).addr;
    if first != addr {
        return Err(wrong(
            at,
            format!("{} has bits set after its first {len}", quoted(word)),
            format!("write `{first}/{len}` for the network, or `{addr}` for the one address"),
        ));
    }
    Ok(Net { addr, len })
}

/// Digits and nothing else; `FromStr` would take a plus sign as well.
fn number<N: std::str::FromStr>(word: &str) -> Option<N> {
    if word.bytes().all(|b| b.is_ascii_digit()) { word.parse().ok() } else { None }
}

/// Words of a text, with their places.
struct Words<'a> {
    text: &'a str,
    rest: usize,
}

impl<'a> Iterator for Words<'a> {
    type Item = (&'a str, Range<usize>);
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.get(self.rest..)?;
        let start = self.rest + rest.find(|c: char| !c.is_whitespace())?;
        let word = self.text.get(start..)?.split(char::is_whitespace).next()?;
        self.rest = start + word.len();
        Some((word, start..self.rest))
    }
}
