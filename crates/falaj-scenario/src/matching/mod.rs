//! Rules that assign packets to a flow: `udp dport 5004`.

mod normal;
mod operands;

pub(crate) use operands::net_or_numbers;

use crate::suggest::{self, quoted};
use crate::units::Unreadable;
use falaj_engine::classifier::Match;
use falaj_engine::header::{Protocol, Version};
use falaj_engine::table::{Field, LookupTable};
use falaj_engine::term::Term;
use normal::apart;
use operands::{bounds, dscp, each, flags, mac, mark, net, protocol, tos, wrong};
use std::ops::Range;
use std::sync::Arc;

/// The terms of a rule, for messages and the reference.
pub const TERMS: &[(&str, &str)] = &[
    ("any", "every packet; without other terms"),
    ("udp", "UDP"),
    ("tcp", "TCP"),
    ("icmp", "ICMP of IPv4"),
    ("icmp6", "ICMP of IPv6"),
    ("ip", "IPv4"),
    ("ip6", "IPv6"),
    ("proto", "`proto N`: IP protocol number, 0 to 255; for IPv6 that after the extension headers"),
    (
        "src",
        "`src ADDRESS` or `src ADDRESS/LENGTH`: source address; `src table NAME`: source address \
         that the table contains",
    ),
    ("dst", "`dst ADDRESS`, `dst ADDRESS/LENGTH` or `dst table NAME`: destination address"),
    (
        "sport",
        "`sport N`, `sport N-M`, a list such as `sport 80,443,8000-8080`, or `sport table NAME`: \
         source port, of TCP and UDP unless one of them is named",
    ),
    ("dport", "`dport N`, `dport N-M`, a list or `dport table NAME`: destination port"),
    ("dscp", "`dscp N`: DSCP from 0 to 63, or a name such as `ef`, `af41`, `cs1`"),
    (
        "tos",
        "`tos N`: TOS byte, DSCP and ECN together, from 0 to 255 or `0x00` to `0xff`; `tos \
         0x08/0x18`: the bits of the byte where the mask after `/` has ones",
    ),
    ("ttl", "`ttl N` or `ttl N-M`: time to live, or hop limit of IPv6"),
    ("length", "`length N` or `length N-M`: length of the IP packet in bytes, from its header"),
    (
        "flags",
        "`flags syn,!ack`: TCP packets in which these flags are set, and those after `!` are not",
    ),
    ("fragment", "a fragment of a packet, including the first one; later fragments have no ports"),
    ("first-fragment", "the first fragment of a packet"),
    ("ether", "`ether N`: EtherType, after VLAN tags; `ether arp`, `ether 0x88cc`"),
    ("vlan", "`vlan N`: VLAN ID of the outer tag, 0 to 4095"),
    ("mac-src", "`mac-src 02:00:00:00:00:01`: source MAC address"),
    ("mac-dst", "`mac-dst 02:00:00:00:00:01`: destination MAC address"),
    (
        "mark",
        "`mark N`: mark that a rule gave the packet by `mark = N`; `mark 0`: no mark; `mark \
         0x10/0xf0`: the bits of the mark where the mask after `/` has ones",
    ),
    (
        "not",
        "`not TERM` or `not ( … )`: packets that do not match, including those without such a \
         header",
    ),
    ("( … or … )", "packets that match one of the sides; each side is one or more terms"),
];

const GRAMMAR: &str = "terms: any, udp, tcp, icmp, icmp6, ip, ip6, proto N, src ADDRESS[/N], dst \
                       ADDRESS[/N], sport N[-M], dport N[-M], dscp N, tos N[/MASK], ttl N[-M], \
                       length N[-M], flags F, fragment, first-fragment, ether N, vlan N, mac-src \
                       MAC, mac-dst MAC, mark N[/MASK], not TERM, ( A or B ); see `falaj explain \
                       match`";

/// Maximum number of alternatives, which contain no `or`, into which a rule is divided.
const MOST: usize = 4096;
/// Maximum depth of nested blocks.
const DEEPEST: usize = 32;

/// Reads a rule: `any`, or terms (see [`TERMS`]) that must all hold, with spaces or `and` between
/// them. A rule with `or`, or with a list, is divided into several matches, of which one must hold.
/// Lookup tables are given by name; their contents are not needed.
///
/// # Errors
/// An unknown or repeated term, a wrong operand, or terms that exclude each other. The error's `at`
/// is the place in the text.
pub fn parse_match(text: &str) -> Result<Vec<Match>, Unreadable> {
    parse_named(text).map(|(matches, _)| matches)
}

/// The name of a lookup table in a rule, and its place in the rule's text.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) field: Field,
    pub(crate) at: Range<usize>,
}

/// Reads a rule as [`parse_match`] does; also returns the tables that it names.
pub(crate) fn parse_named(text: &str) -> Result<(Vec<Match>, Vec<Named>), Unreadable> {
    let (matches, named) = alternatives(text)?;
    if matches.is_empty() {
        return Err(wrong(
            0..text.len(),
            "a rule whose terms exclude each other matches nothing",
            "leave out one of them",
        ));
    }
    Ok((matches, named))
}

/// Reads a rule as [`parse_match`] does, except that a rule that no packet can match because of a
/// `not` or a block yields an empty list instead of an error.
///
/// # Errors
/// The errors of [`parse_match`].
pub fn parse_match_or_empty(text: &str) -> Result<Vec<Match>, Unreadable> {
    alternatives(text).map(|(matches, _)| matches)
}

fn alternatives(text: &str) -> Result<(Vec<Match>, Vec<Named>), Unreadable> {
    let mut parser = Parser { words: Words { text, rest: 0 }, named: Vec::new() };
    let all = parser.all(None, 0)?;
    if all.is_empty() {
        return Err(Unreadable::new("an empty rule", "write `any` for every packet"));
    }
    let matches = apart(&all)?.into_iter().filter_map(settled).collect();
    Ok((matches, parser.named))
}

/// A part of a rule's text.
enum Node {
    /// Every packet.
    Any,
    /// One of these terms must hold, as in a list of ports.
    One(Vec<Term>),
    Not(Box<Node>),
    /// One of the sides must hold. A side holds if all of its terms hold.
    Or(Vec<Vec<Node>>),
}

struct Parser<'a> {
    words: Words<'a>,
    named: Vec<Named>,
}

impl Parser<'_> {
    /// Reads terms that must all hold. They are the whole rule, or one side of the block that
    /// begins at `block`, up to `or` or `)`.
    fn all(&mut self, block: Option<&Range<usize>>, depth: usize) -> Result<Vec<Node>, Unreadable> {
        let mut out = Vec::new();
        let mut rule = Match::ANY;
        let mut seen: Vec<(String, Range<usize>)> = Vec::new();
        let mut joined: Option<Range<usize>> = None; // an `and` that waits for its right side
        let both =
            |at| wrong(at, "`and` joins two terms", "write a term on both sides, or leave it out");
        while let Some((word, at)) = self.words.peek() {
            if block.is_some() && matches!(word, "or" | ")") {
                break;
            }
            self.words.next();
            if word == "and" {
                if seen.is_empty() || joined.is_some() {
                    return Err(both(at));
                }
                joined = Some(at);
                continue;
            }
            joined = None;
            let alone = |at| wrong(at, "`any` stands alone", "leave out `any`, or all the rest");
            if seen.iter().any(|(s, _)| s == "any") || (word == "any" && !seen.is_empty()) {
                return Err(alone(at));
            }
            match word {
                "not" | "(" => {
                    out.push(self.item(word, &at, depth)?);
                    seen.push((String::new(), at));
                }
                "or" | ")" => return Err(stray(word, at)),
                _ => {
                    let slot = match word {
                        "udp" | "tcp" | "icmp" | "icmp6" | "proto" => "protocol",
                        "ip" | "ip6" => "version",
                        other => other,
                    };
                    let table = matches!(self.words.peek(), Some(("table", _)));
                    let slot = if table { format!("{slot} table") } else { slot.to_owned() };
                    if seen.iter().any(|(s, _)| *s == slot) {
                        return Err(wrong(
                            at,
                            format!("a second {slot}, and all terms must hold at once"),
                            "for \"either\", write a list: `match = [\"udp\", \"tcp\"]`",
                        ));
                    }
                    let (node, end) = self.term(word, &at)?;
                    if let Node::One(terms) = &node {
                        note(&mut rule, terms);
                    }
                    seen.push((slot, at.start..end));
                    out.push(node);
                }
            }
        }
        if let Some(at) = joined {
            return Err(both(at));
        }
        settle(rule, &seen)?;
        Ok(out)
    }

    /// Reads an item that begins with `not` or `(`.
    fn item(&mut self, word: &str, at: &Range<usize>, depth: usize) -> Result<Node, Unreadable> {
        if depth == DEEPEST {
            return Err(wrong(
                at.clone(),
                "blocks are nested too deeply",
                format!("at most {DEEPEST}"),
            ));
        }
        if word == "not" {
            return match self.words.next() {
                Some(("any", at)) => Err(wrong(
                    at,
                    "`not any` matches nothing",
                    "leave it out, or say what must not hold",
                )),
                Some((word @ ("not" | "("), at)) => {
                    Ok(Node::Not(Box::new(self.item(word, &at, depth + 1)?)))
                }
                Some((word @ ("and" | "or" | ")"), at)) => Err(wrong(
                    at,
                    format!("`not` needs a term after it, and not `{word}`"),
                    "write `not udp` or `not ( … )`",
                )),
                Some((word, at)) => Ok(Node::Not(Box::new(self.term(word, &at)?.0))),
                None => Err(wrong(at.clone(), "`not` needs a term", "write `not udp`")),
            };
        }
        let mut sides = Vec::new();
        loop {
            let side = self.all(Some(at), depth + 1)?;
            let Some((word, end)) = self.words.next() else {
                return Err(wrong(at.clone(), "this block is not closed", "close it with `)`"));
            };
            if side.is_empty() {
                let what =
                    if word == "or" { "`or` joins two sides" } else { "a side with nothing in it" };
                return Err(wrong(end, what, "write terms on both sides, as in `( udp or tcp )`"));
            }
            sides.push(side);
            if word == ")" {
                return Ok(Node::Or(sides));
            }
        }
    }

    /// Reads a term that begins with this word; returns it and its end.
    fn term(&mut self, word: &str, at: &Range<usize>) -> Result<(Node, usize), Unreadable> {
        let mut end = at.end;
        let words = &mut self.words;
        let mut operand = |what: &str, example: &str| match words.next() {
            Some((operand, at)) if !matches!(operand, "(" | ")") => {
                end = at.end;
                Ok((operand, at))
            }
            _ => Err(wrong(
                at.clone(),
                format!("`{word}` needs {what}"),
                format!("write `{example}`"),
            )),
        };
        let field = Field::from_name(word)
            .filter(|f| matches!(f, Field::Src | Field::Dst | Field::Sport | Field::Dport));
        let one = |term: Term| vec![term];
        let terms = match word {
            "any" => return Ok((Node::Any, end)),
            "in" | "out" | "recv" | "xmit" | "via" => {
                let what =
                    format!("`{word}`: a rule matches a packet's direction, not its interface");
                let help = "write `direction = \"up\"` in the rule for packets that come in at the \
                            near end, the first interface of `falaj bridge`, and `direction = \
                            \"down\"` for packets that come in at the other";
                return Err(wrong(at.clone(), what, help));
            }
            "udp" => one(Term::Protocol(Protocol::UDP)),
            "tcp" => one(Term::Protocol(Protocol::TCP)),
            "icmp" => one(Term::Protocol(Protocol::ICMP)),
            "icmp6" => one(Term::Protocol(Protocol::ICMP6)),
            "ip" => one(Term::Version(Version::V4)),
            "ip6" => one(Term::Version(Version::V6)),
            "fragment" => one(Term::Fragment),
            "first-fragment" => one(Term::FirstFragment),
            "proto" => one(Term::Protocol(operand("a number", "proto 47").and_then(protocol)?)),
            "src" | "dst" | "sport" | "dport" => {
                let (what, example) = match word {
                    "src" | "dst" => ("an address", format!("{word} 10.0.0.0/8")),
                    _ => ("a port", format!("{word} 5004")),
                };
                match (operand(what, &example)?, field) {
                    (("table", _), Some(field)) => {
                        let (name, at) =
                            operand("the name of a table", &format!("{word} table customers"))?;
                        self.named.push(Named { name: name.to_owned(), field, at });
                        let table = LookupTable::new(name, &[])
                            .map_err(|_| Unreadable::new("a table", ""))?;
                        one(Term::In(field, Arc::new(table)))
                    }
                    (operand, Some(Field::Src)) => one(Term::Src(net(operand)?)),
                    (operand, Some(Field::Dst)) => one(Term::Dst(net(operand)?)),
                    (operand, Some(Field::Sport)) => {
                        each(operand, |(from, to)| Term::Sport(from, to))?
                    }
                    (operand, _) => each(operand, |(from, to)| Term::Dport(from, to))?,
                }
            }
            "dscp" => one(Term::Dscp(operand("a number or a name", "dscp ef").and_then(dscp)?)),
            "tos" => one(tos(operand("a number", "tos 0xb8")?)?),
            "ttl" => {
                let (from, to) =
                    bounds(operand("a number", "ttl 1-5")?, "a time to live", 0, 255, true)?;
                one(Term::Ttl(from as u8, to as u8))
            }
            "length" => {
                let (from, to) = bounds(
                    operand("a length in bytes", "length 0-128")?,
                    "a length",
                    0,
                    65_575,
                    true,
                )?;
                one(Term::Length(from, to))
            }
            "mark" => one(mark(operand("a number", "mark 7")?)?),
            "vlan" => {
                let (from, _) = bounds(operand("a number", "vlan 7")?, "a VLAN", 0, 4095, false)?;
                one(Term::Vlan(from as u16))
            }
            "ether" => match operand("a number", "ether 0x0806")? {
                ("arp", _) => one(Term::Ether(0x0806)),
                operand => one(Term::Ether(
                    bounds(operand, "a type of Ethernet", 0x600, 0xffff, false)?.0 as u16,
                )),
            },
            "mac-src" => {
                one(Term::MacSrc(operand("an address", "mac-src 02:00:00:00:00:01").and_then(mac)?))
            }
            "mac-dst" => {
                one(Term::MacDst(operand("an address", "mac-dst 02:00:00:00:00:01").and_then(mac)?))
            }
            "flags" => one(operand("flags", "flags syn,!ack").and_then(flags)?),
            _ => {
                let near = match word {
                    // In filters of other tools, `port` means source or destination port.
                    "port" | "ports" => Some("sport` or `dport".to_owned()),
                    _ => suggest::nearest(word, TERMS.iter().map(|(t, _)| *t)).map(str::to_owned),
                };
                return Err(Unreadable {
                    near,
                    ..wrong(
                        at.clone(),
                        format!("{} is not a term of a rule", quoted(word)),
                        GRAMMAR,
                    )
                });
            }
        };
        Ok((Node::One(terms), end))
    }
}

/// The error for a word that is valid only in a block.
fn stray(word: &str, at: Range<usize>) -> Unreadable {
    match word {
        "or" => wrong(
            at,
            "`or` is valid only in a block",
            "write `( udp or tcp )`, or a list: `match = [\"udp\", \"tcp\"]`",
        ),
        _ => wrong(at, "no block ends here", "leave out `)`, or open a block with `(`"),
    }
}

/// Stores the first of `terms` in the field of `rule` for terms of this kind, so that
/// contradictions between terms are found.
fn note(rule: &mut Match, terms: &[Term]) {
    match terms[0] {
        Term::Version(version) => rule.version = Some(version),
        Term::Protocol(protocol) => rule.protocol = Some(protocol),
        Term::Src(net) => rule.src = Some(net),
        Term::Dst(net) => rule.dst = Some(net),
        Term::Sport(from, to) => rule.sport = Some((from, to)),
        Term::Dport(from, to) => rule.dport = Some((from, to)),
        _ => {}
    }
}

/// The IP version that each kind of term implies, with the name of that kind.
fn versions(rule: &Match) -> [(&'static str, Option<Version>); 4] {
    let by_protocol = match rule.protocol {
        Some(Protocol::ICMP) => Some(Version::V4),
        Some(Protocol::ICMP6) => Some(Version::V6),
        _ => None,
    };
    [
        ("version", rule.version),
        ("src", rule.src.map(|n| n.version())),
        ("dst", rule.dst.map(|n| n.version())),
        ("protocol", by_protocol),
    ]
}

/// Sets the rule's IP version from its terms; `None` if no packet can match the rule.
fn settled(mut rule: Match) -> Option<Match> {
    for (_, version) in versions(&rule) {
        if version.is_some() && rule.version.is_some() && version != rule.version {
            return None;
        }
        rule.version = rule.version.or(version);
    }
    Some(rule)
}

/// Returns an error for terms that exclude each other.
fn settle(mut rule: Match, seen: &[(String, Range<usize>)]) -> Result<(), Unreadable> {
    let place =
        |slot: &str| seen.iter().find(|(s, _)| *s == slot).map_or(0..0, |(_, at)| at.clone());
    for (slot, version) in versions(&rule) {
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
    Ok(())
}

/// The words of a text, with their places. A parenthesis is a word of its own.
struct Words<'a> {
    text: &'a str,
    rest: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<(&'a str, Range<usize>)> {
        Words { ..*self }.next()
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = (&'a str, Range<usize>);
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.get(self.rest..)?;
        let start = self.rest + rest.find(|c: char| !c.is_whitespace())?;
        let rest = self.text.get(start..)?;
        let word = match rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')')) {
            Some(0) => rest.get(..1)?,
            Some(end) => rest.get(..end)?,
            None => rest,
        };
        self.rest = start + word.len();
        Some((word, start..self.rest))
    }
}
