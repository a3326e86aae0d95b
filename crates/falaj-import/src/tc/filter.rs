//! Which packets go to which class: `u32`, `flower`, `matchall`, `fw`.

use super::attachment::{Attachment, Handle, handle};
use crate::amounts::whole;
use crate::args::{Args, no_equal, unknown};
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;
use std::ops::Range;

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) parent: Option<Handle>,
    pub(super) prio: u64,
    /// In the grammar of a scenario's `match`.
    pub(super) rule: String,
    /// The class that it sends to.
    pub(super) to: Option<Handle>,
    /// The device that it sends to.
    pub(super) redirects: Option<String>,
    pub(super) at: Range<usize>,
}

/// The words of a rule, gathered.
#[derive(Default)]
struct Rule {
    version: Option<&'static str>,
    terms: Vec<String>,
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
        let version = self.version.filter(|_| !addresses).map(str::to_owned);
        let words: Vec<String> = version.into_iter().chain(self.terms).collect();
        if words.is_empty() { "any".to_owned() } else { words.join(" ") }
    }
}

/// Reads what stands behind the kind.
pub(super) fn read(
    kind: &Word,
    place: &Attachment<'_>,
    args: &mut Args<'_>,
    notes: &mut Vec<Problem>,
) -> Result<Filter, Problem> {
    let mut rule = Rule { version: version(place.protocol)?, terms: Vec::new() };
    let (mut to, mut redirects) = (None, None);
    let at = args.all();
    match kind.text.as_str() {
        "u32" | "flower" | "matchall" => {}
        "fw" => rule.term(marked(kind, place, notes)?),
        "basic" | "bpf" | "cgroup" | "flow" | "route" | "tcindex" | "rsvp" => {
            return Err(no_equal(
                kind.at.clone(),
                &kind.text,
                "filters of kind u32, flower, matchall and fw can be imported",
            ));
        }
        _ => {
            return Err(unknown(
                kind,
                "a filter that can be imported",
                &["u32", "flower", "matchall", "fw"],
            ));
        }
    }
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "match" if kind.text == "u32" => u32_match(args, &mut rule)?,
            "flowid" | "classid" => to = Some(handle(args.value("a class")?)?),
            "action" => redirects = Some(redirect(args)?),
            "skip_hw" | "skip_sw" => {}
            key if kind.text == "flower" => flower(word, key, args, &mut rule)?,
            _ => {
                return Err(no_equal(
                    word.at.clone(),
                    &word.text,
                    "a filter looks at addresses, protocol, ports and type of service",
                ));
            }
        }
    }
    if to.is_none() && redirects.is_none() {
        return Err(Problem::error(at, "where to? `flowid CLASS` is missing"));
    }
    if let Some(tagged) = place.protocol.filter(|word| word.text.starts_with("802."))
        && !rule.terms.iter().any(|term| term.starts_with("vlan "))
    {
        return Err(no_equal(
            tagged.at.clone(),
            "a filter of all tags",
            "`vlan_id N` tells one VLAN",
        ));
    }
    let rule = rule.text();
    if let Err(error) = falaj_scenario::parse_match(&rule) {
        return Err(Problem::error(at, format!("this comes to {}: {}", quoted(&rule), error.what))
            .help(error.help));
    }
    Ok(Filter { parent: place.parent, prio: place.prio.unwrap_or(0), rule, to, redirects, at })
}

/// What a filter's `protocol` says of IP.
fn version(protocol: Option<&Word>) -> Result<Option<&'static str>, Problem> {
    match protocol.map(|w| (w, w.text.as_str())) {
        None | Some((_, "all")) => Ok(None),
        Some((_, "ip")) => Ok(Some("ip")),
        Some((_, "ipv6")) => Ok(Some("ip6")),
        // Of a tag, which `vlan_id` looks at.
        Some((_, "802.1Q" | "802.1q")) => Ok(None),
        Some((word, _)) => Err(no_equal(
            word.at.clone(),
            "this protocol",
            "`ip`, `ipv6` and `all` can be imported",
        )),
    }
}

/// `handle 6 fw`: the mark that a packet has.
fn marked(
    kind: &Word,
    place: &Attachment<'_>,
    notes: &mut Vec<Problem>,
) -> Result<String, Problem> {
    let Some(word) = place.number else {
        return Err(Problem::error(
            kind.at.clone(),
            "which mark? `handle MARK` before `fw` is missing",
        ));
    };
    // All bits count unless a mask says otherwise.
    let (mark, mask) = word.text.split_once('/').unwrap_or((&word.text, "0xffffffff"));
    let number = |text: &str| {
        let least = whole(&Word { text: text.to_owned(), at: word.at.clone() })?;
        u32::try_from(least).map_err(|_| Problem::error(word.at.clone(), "a mark has 32 bits"))
    };
    if number(mask)? != u32::MAX {
        return Err(no_equal(word.at.clone(), "this mask", "marks are compared as whole numbers"));
    }
    let mark = number(mark)?;
    let what = format!("who marks packets with {mark}? there it is the firewall; here a rule does");
    notes.push(Problem::warning(word.at.clone(), what).help(format!(
        "for instance `[[rule]]`, `match = \"tcp dport 443\"`, `mark = {mark}`, `to = \"pass\"`, \
         `then = \"on\"`, and behind it one that leads to the link"
    )));
    Ok(format!("mark {mark}"))
}

/// `match ip dport 80 0xffff`.
fn u32_match(args: &mut Args<'_>, rule: &mut Rule) -> Result<(), Problem> {
    let of = args.value("what to look at")?;
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
                    args.value("a mask")?;
                    rule.term(protocol(whole(value)?));
                }
                "tos" | "dsfield" | "priority" => {
                    let mask = whole(args.value("a mask")?)?;
                    rule.term(service(whole(value)?, mask).ok_or_else(|| {
                        no_equal(
                            field.at.clone(),
                            "this mask",
                            "`0xfc` looks at the DSCP, `0xff` at the whole byte",
                        )
                    })?);
                }
                _ => {
                    return Err(no_equal(
                        field.at.clone(),
                        &field.text,
                        "src, dst, sport, dport, protocol and tos can be imported",
                    ));
                }
            }
        }
        "u32" => {
            let (value, mask) = (whole(args.value("a value")?)?, whole(args.value("a mask")?)?);
            if (value, mask) != (0, 0) {
                return Err(no_equal(
                    of.at.clone(),
                    "a look at bytes",
                    "`match u32 0 0` takes every packet; others name a field",
                ));
            }
            if args.take("at").is_some() {
                args.value("a place")?;
            }
        }
        "tcp" | "udp" => {
            rule.term(of.text.clone());
            let field = args.value("a field")?;
            let port = match field.text.as_str() {
                "src" => "sport",
                "dst" => "dport",
                _ => return Err(unknown(field, "a field of it", &["src", "dst"])),
            };
            let value = whole(args.value("a port")?)?;
            rule.term(format!("{port} {}", ports(value, args.value("a mask")?)?));
        }
        _ => {
            return Err(no_equal(
                of.at.clone(),
                &of.text,
                "ip, ip6, tcp, udp and `u32 0 0` can be imported",
            ));
        }
    }
    Ok(())
}

/// The ports that agree with `value` where `mask` has ones.
fn ports(value: u64, mask: &Word) -> Result<String, Problem> {
    let bits = whole(mask)?;
    let free = !bits & 0xffff;
    if bits > 0xffff || (free + 1) & free != 0 {
        return Err(no_equal(
            mask.at.clone(),
            "this mask",
            "a mask of ports has ones and then zeros, such as 0xffff or 0xfff0",
        ));
    }
    let first = value & bits;
    Ok(if free == 0 { first.to_string() } else { format!("{first}-{}", first + free) })
}

fn protocol(number: u64) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmp6".to_owned(),
        n => format!("proto {n}"),
    }
}

/// The type of service, where a mask lets it be told.
fn service(value: u64, mask: u64) -> Option<String> {
    match mask {
        0xff => Some(format!("tos {value}")),
        0xfc if value & 3 == 0 => Some(format!("dscp {}", value >> 2)),
        _ => None,
    }
}

fn flower(word: &Word, key: &str, args: &mut Args<'_>, rule: &mut Rule) -> Result<(), Problem> {
    let value = args.value("a value")?;
    match key {
        "src_ip" | "dst_ip" => rule.term(format!("{} {}", &key[..3], value.text)),
        "src_mac" | "dst_mac" => rule.term(format!("mac-{} {}", &key[..3], value.text)),
        "vlan_id" => rule.term(format!("vlan {}", whole(value)?)),
        "ip_ttl" => rule.term(format!("ttl {}", whole(value)?)),
        "src_port" | "dst_port" => rule.term(format!("{}port {}", &key[..1], value.text)),
        "ip_proto" => rule.term(match value.text.as_str() {
            "icmpv6" => "icmp6".to_owned(),
            name @ ("tcp" | "udp" | "icmp") => name.to_owned(),
            _ => protocol(whole(value)?),
        }),
        "ip_tos" => {
            let (tos, mask) = value.text.split_once('/').unwrap_or((&value.text, "0xff"));
            let part = |text: &str| whole(&Word { text: text.to_owned(), at: value.at.clone() });
            let term = service(part(tos)?, part(mask)?);
            rule.term(term.ok_or_else(|| {
                no_equal(value.at.clone(), "this mask", "`/0xfc` looks at the DSCP")
            })?);
        }
        _ => {
            return Err(no_equal(
                word.at.clone(),
                key,
                "addresses, MACs, VLAN, protocol, ports, TTL and type of service can be imported",
            ));
        }
    }
    Ok(())
}

/// `action mirred egress redirect dev ifb0`.
fn redirect(args: &mut Args<'_>) -> Result<String, Problem> {
    let action = args.value("an action")?;
    let refused = || {
        no_equal(
            action.at.clone(),
            "this action",
            "`mirred egress redirect dev NAME` can be imported",
        )
    };
    if action.text != "mirred" {
        return Err(refused());
    }
    for expected in ["egress", "redirect", "dev"] {
        args.take(expected).ok_or_else(refused)?;
    }
    Ok(args.value("a device")?.text.clone())
}
