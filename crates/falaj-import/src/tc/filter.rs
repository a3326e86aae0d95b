//! Filters, which assign packets to classes: `u32`, `flower`, `matchall`, `basic`, `fw`.

use super::attachment::{Attachment, Handle, handle};
use super::police::{self, Police};
use crate::amounts::whole;
use crate::args::{Args, no_equal_phrase, not_imported, unknown};
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::{self, quoted};
use std::ops::Range;

/// A filter: the packets that it takes, and their target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) parent: Option<Handle>,
    pub(super) prio: u64,
    /// The match, in the grammar of a scenario's `match`.
    pub(super) rule: String,
    pub(super) to: Target,
    pub(super) police: Option<Police>,
    /// If this filter's policer leaves some packets to the next filter: the marks of packets that
    /// this policer, or the policer of a later filter, has left to the next filter. Otherwise
    /// empty.
    pub(super) past: Vec<u32>,
    /// The mark that packets must have.
    pub(super) marks: Option<Marked>,
    /// The protocol and the kind of filter, which all filters of one preference have in common.
    pub(super) table: (String, String),
    pub(super) at: Range<usize>,
}

impl Filter {
    /// Match of the packets that the filter takes: `rule`, without packets that have a mark in
    /// `past`. The rules of policers, which set these marks, come first.
    pub(super) fn taken(&self) -> String {
        let past = self.past.iter().map(|mark| format!("not mark {mark}"));
        let rule = Some(self.rule.clone()).filter(|rule| self.past.is_empty() || rule != "any");
        rule.into_iter().chain(past).collect::<Vec<_>>().join(" ")
    }

    /// Returns true if the filter takes no packet, as its policer drops some and leaves the others
    /// to the next filter.
    pub(super) fn takes_none(&self) -> bool {
        self.police.as_ref().is_some_and(Police::takes_none)
    }
}

/// A mark that packets must have: the bits of `mask` have this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) value: u32,
    pub(super) mask: u32,
    at: Range<usize>,
}

impl Marked {
    fn text(&self) -> String {
        match self.mask {
            u32::MAX => self.value.to_string(),
            mask => format!("{:#x}/{mask:#x}", self.value),
        }
    }

    /// The term of a scenario's `match`.
    fn term(&self) -> String {
        format!("mark {}", self.text())
    }

    /// The warning that no rule sets the mark.
    pub(super) fn is_set_by_none(&self) -> Problem {
        let what = format!(
            "no rule sets the mark {}, so this filter matches no packet; with tc the firewall sets \
             marks, in falaj a rule does",
            self.text()
        );
        let keys = match self.mask {
            u32::MAX => format!("`mark = {}`", self.value),
            mask => format!("`mark = {:#x}`, `mark-mask = {mask:#x}`", self.value),
        };
        Problem::warning(self.at.clone(), what).help(format!(
            "add a rule that sets it, such as `[[rule]]`, `match = \"tcp dport 443\"`, {keys}, \
             `to = \"pass\"`, `then = \"on\"`, and after it a rule that leads to the link"
        ))
    }
}

/// The target of the packets that a filter takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Class(Handle),
    /// The packets are redirected to another device.
    Device(String),
    Drop,
    /// The packets are treated as if there were no further filter.
    Pass,
    /// The filter matches no packet.
    Nothing,
}

/// The terms of a match while they are being read.
#[derive(Default)]
struct Rule {
    version: Option<&'static str>,
    terms: Vec<String>,
    /// Reasons why the match differs slightly, or selects no packet.
    notes: Vec<String>,
    is_nothing: bool,
}

impl Rule {
    fn term(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.terms.contains(&text) {
            self.terms.push(text);
        }
    }

    fn text(self) -> String {
        let addresses = self.terms.iter().any(|t| t.starts_with("src ") || t.starts_with("dst "));
        let ether = self.terms.iter().any(|t| t.starts_with("ether "));
        if ether && self.terms.len() > 1 {
            // No packet has both this EtherType and an IP header.
            return self.terms.join(" ");
        }
        let version = self.version.filter(|_| !addresses).map(str::to_owned);
        let words: Vec<String> = version.into_iter().chain(self.terms).collect();
        if words.is_empty() { "any".to_owned() } else { words.join(" ") }
    }
}

/// The kinds of filters that can be imported.
const KINDS: &[&str] = &["u32", "flower", "matchall", "basic", "fw"];

/// The options that filters of all kinds have.
const OPTIONS: &[&str] = &["flowid", "classid", "action", "skip_hw", "skip_sw"];

/// The other options of a filter of this kind.
fn options_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "u32" | "basic" => &["match", "police"],
        "fw" => &["police"],
        "flower" => FLOWER,
        _ => &[],
    }
}

/// The error for a filter of a kind that cannot be imported, or without a kind.
pub(super) fn no_kind(at: Range<usize>) -> Problem {
    Problem::error(at, "the kind of the filter is missing")
        .help(format!("one of {}", suggest::list(KINDS.iter().copied())))
}

/// Reads the words after the kind.
pub(super) fn read(
    kind: &Word,
    place: &Attachment<'_>,
    args: &mut Args<'_>,
    notes: &mut Vec<Problem>,
) -> Result<Filter, Problem> {
    let mut rule = Rule::default();
    match version(place.protocol)? {
        Some(ether) if ether.starts_with("ether ") => rule.term(ether),
        version => rule.version = version,
    }
    let (mut class, mut action, mut police, mut marks) = (None, None, None, None);
    let at = args.all();
    match kind.text.as_str() {
        "u32" | "flower" | "matchall" | "basic" => {}
        "fw" => {
            let read = marked(kind, place)?;
            rule.term(read.term());
            marks = Some(read);
        }
        "bpf" | "cgroup" | "flow" | "route" | "tcindex" | "rsvp" => {
            return Err(not_imported(kind, "kinds of filters", KINDS));
        }
        _ => return Err(unknown(kind, "a kind of filter that can be imported", KINDS)),
    }
    let known = [options_of(&kind.text), OPTIONS].concat();
    while let Some(word) = args.next() {
        match word.text.as_str() {
            key if !known.contains(&key) => {
                let what = format!("options of {}", kind.text);
                return Err(not_imported(word, &what, &known));
            }
            "match" if kind.text == "u32" => u32_match(args, &mut rule)?,
            "match" => rule.term(ematch(args)?),
            "flowid" | "classid" => class = Some(handle(args.value("a class")?)?),
            "action" => {
                let next = args.peek().filter(|_| action.is_some() || police.is_some());
                if let Some(next) = next {
                    follows(next, police.as_ref().filter(|_| action.is_none()))?;
                }
                action = self::action(args, &mut police)?;
            }
            "police" => police = Some(police::read(word, args)?),
            // These options concern network cards and make no difference to packets.
            "skip_hw" | "skip_sw" => {
                let what = format!("`{}` was left out: falaj has no network card", word.text);
                notes.push(Problem::warning(word.at.clone(), what));
            }
            _ => flower(word, args, &mut rule)?,
        }
    }
    let to = match (action, class) {
        (Some(Target::Pass) | None, Some(class)) if !place.ingress() => Target::Class(class),
        (Some(action), _) => action,
        (None, Some(_)) => Target::Pass,
        (None, None) if police.as_ref().is_some_and(|p| place.ingress() || p.takes_none()) => {
            Target::Pass
        }
        (None, None) => {
            return Err(Problem::error(at, "the filter names no class: `flowid CLASS` is missing"));
        }
    };
    if let Some(tagged) = place.protocol.filter(|word| is_tag(word))
        && !rule.terms.iter().any(|term| term.starts_with("vlan "))
    {
        return Err(no_equal_phrase(
            tagged.at.clone(),
            "a filter of all tags",
            "`flower` with `vlan_id N` matches the packets of one VLAN",
        ));
    }
    for what in rule.notes.drain(..) {
        notes.push(Problem::warning(at.clone(), what));
    }
    if let Some(police) = police.take_if(|police| police.takes_all()) {
        let what = "the policer was left out: packets that conform and packets that exceed pass";
        notes.push(Problem::warning(police.at, what));
    }
    let to = if rule.is_nothing { Target::Nothing } else { to };
    let rule = rule.text();
    if let Err(error) = falaj_scenario::parse_match(&rule) {
        return Err(Problem::error(at, format!("this becomes {}: {}", quoted(&rule), error.what))
            .help(error.help));
    }
    let protocol = place.protocol.map_or("all", |word| &word.text).to_ascii_lowercase();
    let table = (protocol, kind.text.clone());
    let (prio, past) = (place.prio.unwrap_or(0), Vec::new());
    Ok(Filter { parent: place.parent, prio, rule, to, police, past, marks, table, at })
}

/// The names of EtherTypes that can be imported; their numbers; and the term of a scenario's
/// `match`. `all` needs no term. For VLAN tags, `vlan_id` gives the term.
const PROTOCOLS: &[(&str, u64, Option<&str>)] = &[
    ("all", 0x0003, None),
    ("ip", 0x0800, Some("ip")),
    ("ipv4", 0x0800, Some("ip")),
    ("ipv6", 0x86dd, Some("ip6")),
    ("ip6", 0x86dd, Some("ip6")),
    ("arp", 0x0806, Some("ether arp")),
    ("802.1Q", 0x8100, None),
    ("802.1ad", 0x88a8, None),
];

/// The number of an EtherType, by name or number; `None` if the name is unknown.
fn ethertype(protocol: &Word) -> Option<u64> {
    let is = |(name, ..): &&(&str, u64, Option<&str>)| name.eq_ignore_ascii_case(&protocol.text);
    let named = PROTOCOLS.iter().find(is).map(|(_, number, _)| *number);
    named.or_else(|| whole(protocol).ok())
}

/// Returns true if the EtherType is that of a VLAN tag.
fn is_tag(protocol: &Word) -> bool {
    matches!(ethertype(protocol), Some(0x8100 | 0x88a8))
}

/// Reads a filter's `protocol`: the name or the number of an EtherType.
fn version(protocol: Option<&Word>) -> Result<Option<&'static str>, Problem> {
    let Some(word) = protocol else { return Ok(None) };
    let ethertype = ethertype(word);
    let known = PROTOCOLS.iter().find(|(_, number, _)| Some(*number) == ethertype);
    known.map(|(.., term)| *term).ok_or_else(|| {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, ..)| *name).collect();
        not_imported(word, "protocols, by name or number,", &names)
    })
}

/// Reads `handle 6 fw`: the mark that packets must have.
fn marked(kind: &Word, place: &Attachment<'_>) -> Result<Marked, Problem> {
    let Some(word) = place.number else {
        return Err(Problem::error(
            kind.at.clone(),
            "the mark is missing: write `handle MARK` before `fw`",
        ));
    };
    // All bits count if there is no mask.
    let (value, mask) = word.text.split_once('/').unwrap_or((&word.text, "0xffffffff"));
    let number = |text: &str| mark(&Word { text: text.to_owned(), at: word.at.clone() });
    let (value, mask) = (number(value)?, number(mask)?);
    if value & !mask != 0 {
        return Err(Problem::error(word.at.clone(), "this mark has bits that its mask leaves out")
            .help(format!(
                "no packet can match it: write a mask that has all bits of the mark, as in \
                 `{value:#x}/{:#x}`",
                value | mask
            )));
    }
    Ok(Marked { value, mask, at: word.at.clone() })
}

/// Reads the number of a mark.
pub(super) fn mark(word: &Word) -> Result<u32, Problem> {
    u32::try_from(whole(word)?).map_err(|_| {
        Problem::error(word.at.clone(), "a mark has 32 bits")
            .help("write a number from 0 to 0xffffffff")
    })
}

/// The kinds of matches of a `u32` filter that can be imported.
const MATCHES: &[&str] = &["ip", "ip6", "tcp", "udp", "u8", "u16", "u32"];

/// The fields of `match ip` and `match ip6` that can be imported.
const FIELDS: &[&str] = &[
    "src",
    "dst",
    "sport",
    "dport",
    "protocol",
    "tos",
    "dsfield",
    "priority",
    "precedence",
    "firstfrag",
    "nofrag",
];

/// Reads `match ip dport 80 0xffff`.
fn u32_match(args: &mut Args<'_>, rule: &mut Rule) -> Result<(), Problem> {
    let of = args.value("a kind of match")?;
    match of.text.as_str() {
        "ip" | "ip6" => {
            rule.version = Some(if of.text == "ip" { "ip" } else { "ip6" });
            let field = args.value("a field")?;
            let value = args.value("a value")?;
            match field.text.as_str() {
                "src" | "dst" => rule.term(format!("{} {}", field.text, value.text)),
                "sport" | "dport" => {
                    let mask = args.value("a mask")?;
                    rule.term(format!("{} {}", field.text, ports(whole(value)?, mask)?));
                }
                "protocol" => {
                    let mask = args.value("a mask")?;
                    match whole(mask)? {
                        0xff if rule.version == Some("ip6") && whole(value)? == 1 => {
                            rule.is_nothing = true;
                            rule.notes.push(
                                "ICMP of IPv6 is protocol 58: this matches no packet, and is left out"
                                    .to_owned(),
                            );
                        }
                        0xff => rule.term(protocol(whole(value)?, rule.version)),
                        0 => {}
                        _ => {
                            let why = "the mask of a protocol is `0xff`, or `0` for all protocols";
                            return Err(no_equal_phrase(mask.at.clone(), "this mask", why));
                        }
                    }
                }
                "tos" | "dsfield" | "priority" | "precedence" => {
                    let mask = args.value("a mask")?;
                    if let Some(term) = service(whole(value)?, whole(mask)?, mask)? {
                        rule.term(term);
                    }
                }
                "firstfrag" => rule.term("not ( fragment not first-fragment )"),
                "nofrag" => rule.term("not fragment"),
                _ => {
                    let what = format!("fields of `match {}`", of.text);
                    return Err(not_imported(field, &what, FIELDS));
                }
            }
        }
        "u8" | "u16" | "u32" => {
            let (value, mask) = (whole(args.value("a value")?)?, whole(args.value("a mask")?)?);
            let place = match args.take("at") {
                Some(_) => Some(args.value("a place")?),
                None => None,
            };
            bytes(of, (value, mask), place, rule)?;
        }
        "tcp" | "udp" => {
            rule.term(of.text.clone());
            let field = args.value("a field")?;
            let port = match field.text.as_str() {
                "src" => "sport",
                "dst" => "dport",
                _ => {
                    let what = format!("a field of `match {}`", of.text);
                    return Err(unknown(field, &what, &["src", "dst"]));
                }
            };
            let value = whole(args.value("a port")?)?;
            rule.term(format!("{port} {}", ports(value, args.value("a mask")?)?));
        }
        _ => return Err(not_imported(of, "matches of u32", MATCHES)),
    }
    Ok(())
}

/// Reads a match on bytes at an offset of the IP header, if they are a field that rules can match.
fn bytes(
    of: &Word,
    (value, mask): (u64, u64),
    place: Option<&Word>,
    rule: &mut Rule,
) -> Result<(), Problem> {
    if (value, mask) == (0, 0) {
        return Ok(());
    }
    let refused = || {
        let ip = "of IPv4, after `protocol ip`, these can be imported: `u8 0x05 0x0f at 0` (header \
                  length), `u8 … at 1` (type of service), `u16 0 0xffc0 at 2` (packets below a \
                  power of two), `u8 … 0xff at 9` (protocol), `u32 … at 12` and `at 16` (source \
                  and destination prefix), `u16 … at 20` and `at 22` (ports)";
        let others = "of IPv6: `u8 … at 0` (version and half of the traffic class); of TCP, after \
                      `match ip protocol 6 0xff`: `u8 … at 33` or `at nexthdr+13` (flags); \
                      `u32 0 0` matches every packet";
        Err(no_equal_phrase(of.at.clone(), "a match of these bytes", ip).help(others))
    };
    let Some(place) = place.map(|w| w.text.as_str()) else { return refused() };
    let is_ip = rule.version == Some("ip");
    let is_tcp = rule.terms.iter().any(|term| term == "tcp");
    match (of.text.as_str(), place) {
        // The byte holds the version and the upper half of the traffic class.
        ("u8", "0") if rule.version == Some("ip6") => {
            if (value ^ 0x60) & mask & 0xf0 != 0 {
                rule.is_nothing = true;
                let what = "the version in an IPv6 header is 6: this matches no packet, and is \
                            left out";
                rule.notes.push(what.to_owned());
            }
            let at = Word { text: String::new(), at: of.at.clone() };
            let class = service(value << 4 & 0xf0, mask << 4 & 0xf0, &at)?;
            class.into_iter().for_each(|term| rule.term(term));
        }
        // The match is meant for IPv4; well-known scripts repeat it for IPv6.
        ("u16", "2") if rule.version == Some("ip6") => {
            rule.is_nothing = true;
            rule.notes.push(
                "in an IPv6 header these bytes are a part of the flow label, which is random: \
                 this matches hardly any packet, and is left out"
                    .to_owned(),
            );
        }
        ("u8", "0") if mask == 0x0f && value == 5 && is_ip => {
            rule.notes.push("here this also matches packets with IP options".to_owned());
        }
        ("u8", "1") if is_ip => {
            let at = Word { text: String::new(), at: of.at.clone() };
            service(value, mask, &at)?.into_iter().for_each(|term| rule.term(term));
        }
        ("u8", "9") if is_ip && mask == 0xff => rule.term(protocol(value, rule.version)),
        ("u32", "12" | "16") if is_ip && (value | mask) >> 32 == 0 => {
            let (value, mask) = (value as u32, mask as u32);
            if mask.leading_ones() + mask.trailing_zeros() != 32 {
                return refused();
            }
            let side = if place == "12" { "src" } else { "dst" };
            let net = std::net::Ipv4Addr::from(value & mask);
            rule.term(format!("{side} {net}/{}", mask.leading_ones()));
        }
        ("u16", "20" | "22") if is_ip => {
            let mask = Word { text: mask.to_string(), at: of.at.clone() };
            let side = if place == "20" { "sport" } else { "dport" };
            rule.term(format!("{side} {}", ports(value, &mask)?));
        }
        // The length, for masks that match all lengths below a power of two.
        ("u16", "2") if value == 0 && is_ip && is_prefix(mask) => {
            rule.term(format!("length 0-{}", !mask & 0xffff));
        }
        // Flags of TCP, after an IP header without options.
        ("u8", "33") if is_tcp && mask <= 0xff => rule.term(flags(value, mask)),
        ("u8", "nexthdr+13") if is_tcp && mask <= 0xff => rule.term(flags(value, mask)),
        _ => return refused(),
    }
    Ok(())
}

/// Returns true if a mask of 16 bits has ones and then zeros.
fn is_prefix(mask: u64) -> bool {
    let free = !mask & 0xffff;
    mask <= 0xffff && free & (free + 1) == 0
}

/// The match for flags of TCP that are set, and that are not set.
fn flags(value: u64, mask: u64) -> String {
    const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let of = |(n, name): (usize, &&str)| {
        let bit = 1 << n;
        let sign = if value & bit == 0 { "!" } else { "" };
        (mask & bit != 0).then(|| format!("{sign}{name}"))
    };
    let terms: Vec<String> = NAMES.iter().enumerate().filter_map(of).collect();
    format!("flags {}", terms.join(","))
}

/// Reads `"cmp(u16 at 2 layer transport eq 3306)"`, in one word or in several.
fn ematch(args: &mut Args<'_>) -> Result<String, Problem> {
    let first = args.value("a match")?;
    let mut text = first.text.clone();
    while text.contains('(') && !text.contains(')') {
        text.push(' ');
        text.push_str(&args.value("the end of the match, `)`")?.text);
    }
    let text = text.replace(['(', ')', '\'', '"'], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    if let ["cmp", "u16", "at", place @ ("0" | "2"), "layer", layer, op, port] = words[..]
        && ["transport", "tcp", "2"].contains(&layer)
    {
        let port = whole(&Word { text: port.to_owned(), at: first.at.clone() })?;
        let field = if place == "0" { "sport" } else { "dport" };
        match op {
            "eq" => return Ok(format!("{field} {port}")),
            "gt" if port < 0xffff => return Ok(format!("{field} {}-65535", port + 1)),
            "lt" if port > 0 => return Ok(format!("{field} 0-{}", port - 1)),
            _ => {}
        }
    }
    let why = "a `basic` filter can compare ports: `cmp(u16 at 0 layer transport eq PORT)` is the \
               source port, `at 2` the destination port. `layer tcp` and `layer 2` are the same \
               layer. `gt` and `lt` are possible too, if a port can be above or below PORT";
    Err(no_equal_phrase(first.at.clone(), "this match", why))
}

/// The ports that equal `value` in the bits where `mask` has ones.
fn ports(value: u64, mask: &Word) -> Result<String, Problem> {
    let bits = whole(mask)?;
    if bits > 0xffff {
        return Err(Problem::error(mask.at.clone(), "a mask of ports has 16 bits")
            .help("write a mask from 0 to 0xffff"));
    }
    let run = bits.trailing_zeros().min(16);
    let (own, size) = (value & bits, 1u64 << run);
    // Each combination of the free bits (zeros of the mask) above `run` gives a separate range.
    let free: Vec<u64> = (run..16).map(|n| 1u64 << n).filter(|bit| bits & bit == 0).collect();
    if free.len() > MOST_FREE {
        let why = "it selects more than 64 separate ranges of ports: write ranges, as in `flower \
                   ip_proto tcp dst_port 8000-8080`";
        return Err(no_equal_phrase(mask.at.clone(), "this mask", why));
    }
    let first = |choice: u64| {
        free.iter().enumerate().fold(own, |sum, (n, bit)| sum + ((choice >> n) & 1) * bit)
    };
    let range = |from: u64| match size {
        1 => from.to_string(),
        _ => format!("{from}-{}", from + size - 1),
    };
    let mut starts: Vec<u64> = (0..1 << free.len()).map(first).collect();
    starts.sort_unstable();
    Ok(starts.into_iter().map(range).collect::<Vec<_>>().join(","))
}

/// Largest number of free bits (zeros) in a mask of ports, not counting the zeros below the lowest
/// bit that is set.
const MOST_FREE: usize = 6;

/// The match for a protocol number. ICMP of the other IP version is matched by its number.
fn protocol(number: u64, version: Option<&str>) -> String {
    match (number, version) {
        (1, None | Some("ip")) => "icmp".to_owned(),
        (6, _) => "tcp".to_owned(),
        (17, _) => "udp".to_owned(),
        (58, None | Some("ip6")) => "icmp6".to_owned(),
        (n, _) => format!("proto {n}"),
    }
}

/// The values of the TOS byte that equal `value` where `mask` has ones; `None` for all values.
fn service(value: u64, mask: u64, at: &Word) -> Result<Option<String>, Problem> {
    if mask > 0xff {
        return Err(Problem::error(at.at.clone(), "a mask of the type of service has 8 bits")
            .help("write a mask from 0 to 0xff"));
    }
    let value = value & mask;
    Ok(match mask {
        0 => None,
        0xff => Some(format!("tos {value}")),
        0xfc => Some(format!("dscp {}", value >> 2)),
        _ => Some(format!("tos {value:#04x}/{mask:#04x}")),
    })
}

/// The matches of a `flower` filter that can be imported.
const FLOWER: &[&str] = &[
    "src_ip",
    "dst_ip",
    "src_mac",
    "dst_mac",
    "vlan_id",
    "ip_ttl",
    "src_port",
    "dst_port",
    "ip_proto",
    "tcp_flags",
    "ip_tos",
];

/// Reads the value of a match of a `flower` filter.
fn flower(word: &Word, args: &mut Args<'_>, rule: &mut Rule) -> Result<(), Problem> {
    let value = args.value("a value")?;
    match word.text.as_str() {
        key @ ("src_ip" | "dst_ip") => rule.term(format!("{} {}", &key[..3], value.text)),
        key @ ("src_mac" | "dst_mac") => rule.term(format!("mac-{} {}", &key[..3], value.text)),
        "vlan_id" => rule.term(format!("vlan {}", whole(value)?)),
        "ip_ttl" => rule.term(format!("ttl {}", whole(value)?)),
        key @ ("src_port" | "dst_port") => {
            rule.term(format!("{}port {}", &key[..1], value.text));
        }
        "ip_proto" => rule.term(match value.text.as_str() {
            "icmpv6" => "icmp6".to_owned(),
            name @ ("tcp" | "udp" | "icmp") => name.to_owned(),
            _ => match whole(value) {
                Ok(number) => protocol(number, rule.version),
                Err(_) => {
                    let names = &["tcp", "udp", "icmp", "icmpv6"];
                    return Err(unknown(value, "a protocol that can be imported", names)
                        .help("or a number, such as `132` for SCTP"));
                }
            },
        }),
        "tcp_flags" => {
            let (set, mask) = value.text.split_once('/').unwrap_or((&value.text, "0xff"));
            let part = |text: &str| whole(&Word { text: text.to_owned(), at: value.at.clone() });
            let (set, mask) = (part(set)?, part(mask)?);
            if mask > 0xff || mask == 0 {
                return Err(no_equal_phrase(
                    value.at.clone(),
                    "this mask",
                    "a mask has one or more of the flags fin `0x01`, syn `0x02`, rst `0x04`, psh \
                     `0x08`, ack `0x10`, urg `0x20`, ece `0x40` and cwr `0x80`",
                ));
            }
            rule.term(flags(set, mask));
        }
        "ip_tos" => {
            let (tos, mask) = value.text.split_once('/').unwrap_or((&value.text, "0xff"));
            let part = |text: &str| whole(&Word { text: text.to_owned(), at: value.at.clone() });
            if let Some(term) = service(part(tos)?, part(mask)?, value)? {
                rule.term(term);
            }
        }
        _ => return Err(not_imported(word, "matches of flower", FLOWER)),
    }
    Ok(())
}

/// Checks whether `action` may follow the actions before it. `police` is the policer if the only
/// action before is a policer; otherwise `None`, and the result is an error.
fn follows(action: &Word, police: Option<&Police>) -> Result<(), Problem> {
    match police.filter(|_| action.text != "police") {
        Some(police) => police.before_action(action),
        None => {
            let why = "a filter can have one policer and, after it, one action: write a further \
                       filter for the rest, and let the policer leave packets to it by `continue`";
            Err(no_equal_phrase(action.at.clone(), "a further action", why))
        }
    }
}

/// The actions that can be imported; `mirred` only with `egress redirect dev NAME`.
const ACTIONS: &[&str] = &["drop", "shot", "ok", "pass", "police", "mirred", "gact"];

/// Reads the action after `action`: `mirred egress redirect dev ifb0`, `drop`, `pass` or `police`;
/// `None` if the action sends packets nowhere.
fn action(args: &mut Args<'_>, police: &mut Option<Police>) -> Result<Option<Target>, Problem> {
    let mut action = args.value("an action")?;
    if action.text == "gact" {
        action = args.value("an action")?;
    }
    match action.text.as_str() {
        "drop" | "shot" => Ok(Some(Target::Drop)),
        "ok" | "pass" => Ok(Some(Target::Pass)),
        "police" => {
            *police = Some(police::read(action, args)?);
            Ok(None)
        }
        "mirred" => {
            for expected in ["egress", "redirect", "dev"] {
                args.take(expected).ok_or_else(|| {
                    let why = "`mirred egress redirect dev NAME` can be imported";
                    no_equal_phrase(action.at.clone(), "this form of `mirred`", why)
                })?;
            }
            Ok(Some(Target::Device(args.value("a device")?.text.clone())))
        }
        _ => Err(not_imported(action, "actions", ACTIONS)),
    }
}
