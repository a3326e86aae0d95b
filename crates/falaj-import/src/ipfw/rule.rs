//! `add [NUMBER] [prob P] ACTION PROTOCOL from SOURCE to DESTINATION [OPTIONS]`.

use crate::amounts::{part_of_one, whole};
use crate::args::{Args, no_equal, no_equal_phrase, not_imported, unknown};
use crate::lines::Word;
use falaj_engine::header::Net;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;
use std::ops::Range;

/// The action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Pipe(u64),
    Queue(u64),
    /// `pipe tablearg`: the pipe is the value of a table's entry.
    PipeOfTable,
    Allow,
    Deny,
    Count,
    SkipTo(u64),
}

/// A rule of ipfw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) number: u64,
    /// Probability of a match, in percent.
    pub(super) probability: Option<String>,
    pub(super) action: Action,
    /// The mark that the rule sets.
    pub(super) mark: Option<Mark>,
    /// The rule's condition, in the syntax of a scenario's `match`.
    pub(super) matches: String,
    /// Direction of its packets on the link, `up` or `down`; `None`: both.
    pub(super) direction: Option<&'static str>,
    /// The firewall's pass in which the rule applies: `down` only when packets come in, `up` only
    /// when they go out; `None`: in both.
    pub(super) pass: Option<&'static str>,
    /// The table for `tablearg`, and which address is looked up in it.
    pub(super) table: Option<(String, &'static str)>,
    /// The interfaces that the rule names.
    pub(super) interfaces: Vec<Interface>,
    /// True if the rule applies to frames, so that the link counts Ethernet headers.
    pub(super) frames: bool,
    pub(super) at: Range<usize>,
    pub(super) line: String,
}

/// The mark that a rule sets on its packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: String,
    /// True if the mark is a tag; in ipfw a packet may have several tags.
    pub(super) tag: bool,
    pub(super) at: Range<usize>,
}

/// An interface that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: Word,
    /// Direction of packets at the interface; `None`: the rule's direction.
    pub(super) passes: Option<&'static str>,
}

/// Reads the words after `add`; `last` is the highest number so far. `None` if the rule is left
/// out; `notes` then has the reason.
pub(super) fn read(
    args: &mut Args<'_>,
    last: u64,
    notes: &mut Vec<Problem>,
) -> Result<Option<Rule>, Problem> {
    let number = match args.number() {
        Some(word) => whole(word)?,
        // ipfw numbers rules in steps of 100.
        None => last.saturating_add(100),
    };
    let (mut chance, mut mark) = (None, None);
    let action = loop {
        let word = args.value("an action")?;
        match word.text.as_str() {
            "prob" => chance = part_of_one(args.value("a probability")?)?.or(Some("0%".to_owned())),
            "set" => {
                whole(args.value("a number")?)?;
                args.left_out(word, "rules of all sets hold");
            }
            "pipe" if args.take("tablearg").is_some() => break Action::PipeOfTable,
            "queue" if args.peek().is_some_and(|w| w.text == "tablearg") => {
                let why = "in falaj, tables select links: write a rule for each queue, `queue 1 ip from 10.1.0.0/16 to any`";
                return Err(no_equal(word.at.clone(), "queue tablearg", why));
            }
            // `call` is an error, so `return` only continues with the next rule.
            "return" => {
                args.left_out(
                    word,
                    "no rule calls another, so packets continue with the next rule",
                );
                notes.append(&mut args.notes);
                return Ok(None);
            }
            "pipe" => break Action::Pipe(whole(args.value("a number")?)?),
            "queue" => break Action::Queue(whole(args.value("a number")?)?),
            "allow" | "accept" | "pass" | "permit" => break Action::Allow,
            "deny" | "drop" => break Action::Deny,
            "count" => break Action::Count,
            "setmark" => {
                let word = args.value("a mark")?;
                mark = Some(Mark {
                    number: marked(word, "setmark", u32::MAX)?,
                    tag: false,
                    at: word.at.clone(),
                });
                break Action::Count;
            }
            "skipto" if args.peek().is_some_and(|w| w.text == "tablearg") => {
                let why = "in falaj, tables select links: write a rule for each number to skip to";
                return Err(no_equal(word.at.clone(), "skipto tablearg", why));
            }
            "skipto" => break Action::SkipTo(whole(args.value("a number")?)?),
            _ => return Err(no_action(word)),
        }
    };
    while let Some(word) = args.take("log").or_else(|| args.take("logamount")) {
        args.number();
        args.left_out(word, "nothing is logged; rules count their packets");
    }
    if let Some(word) = args.take("untag") {
        return Err(no_equal(
            word.at.clone(),
            "untag",
            "a packet has only one mark, and another `tag` replaces it",
        ));
    }
    if args.take("tag").is_some() {
        let word = args.value("a number")?;
        mark = Some(Mark { number: marked(word, "tag", 65_534)?, tag: true, at: word.at.clone() });
    }
    let mut body = Body::default();
    body.read(args)?;
    notes.append(&mut args.notes);
    notes.append(&mut body.notes);
    if !body.interfaces.is_empty() && body.interfaces.iter().all(Interface::is_loopback) {
        let what = "packets of the loopback interface pass no link: this rule is left out";
        notes.push(Problem::warning(args.all(), what));
        return Ok(None);
    }
    // `recv` and `xmit` decide the direction, whether the rule sees packets as they come in or as
    // they go out.
    let by_interface = body.interfaces.iter().rev().find_map(|interface| interface.passes);
    let goes_out = body.interfaces.iter().any(|interface| interface.passes == Some("up"));
    let pass = body.direction.or(goes_out.then_some("up"));
    let direction = by_interface.or(body.direction).or(body.me);
    let matches = if body.terms.is_empty() { "any".to_owned() } else { body.terms.join(" ") };
    if let Err(error) = falaj_scenario::parse_match(&matches) {
        let what = format!("this becomes {}: {}", quoted(&matches), error.what);
        return Err(Problem::error(args.all(), what).help(error.help));
    }
    if direction.is_none() && matches!(action, Action::Pipe(_) | Action::Queue(_)) {
        let what =
            "without `in` or `out` both directions share the pipe in ipfw; here each has its own";
        notes.push(Problem::warning(args.all(), what));
    }
    if action == Action::PipeOfTable && body.table.is_none() {
        return Err(Problem::error(args.all(), "`tablearg` without a table")
            .help("as in `pipe tablearg ip from table(1) to any`"));
    }
    Ok(Some(Rule {
        number,
        probability: chance,
        action,
        mark,
        matches,
        direction,
        pass,
        table: body.table,
        interfaces: body.interfaces,
        frames: body.frames,
        at: args.all(),
        line: args.line(),
    }))
}

/// The match of a rule while it is being read.
#[derive(Default)]
struct Body {
    terms: Vec<String>,
    direction: Option<&'static str>,
    table: Option<(String, &'static str)>,
    interfaces: Vec<Interface>,
    frames: bool,
    /// Direction of the packets, if one address is this host (`me`): `up` if they come from it.
    me: Option<&'static str>,
    /// Warnings: words whose meaning differs slightly in a scenario.
    notes: Vec<Problem>,
}

impl Interface {
    fn is_loopback(&self) -> bool {
        let number = self.name.text.strip_prefix("lo");
        number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// The protocols that have names.
const PROTOCOLS: &[&str] =
    &["all", "ip", "ip4", "ipv4", "ip6", "ipv6", "tcp", "udp", "icmp", "icmp6", "ipv6-icmp"];

impl Body {
    fn read(&mut self, args: &mut Args<'_>) -> Result<(), Problem> {
        let begins = |w: &Word| OPTIONS.contains(&w.text.as_str()) || w.text == "not";
        if let Some(first) = args.peek().filter(|w| !begins(w)) {
            if first.text != "from" {
                args.next();
                if opens(first) {
                    let sides = sides(args, |word, _, body| body.protocol(word, false))?;
                    self.block(false, sides);
                } else {
                    self.protocol(first, false)?;
                }
            }
            if args.take("from").is_some() {
                self.end(args, "src", "sport")?;
                if args.take("to").is_none() {
                    return Err(Problem::error(args.all(), "`from` needs `to`")
                        .help("as in `ip from any to any`"));
                }
                self.end(args, "dst", "dport")?;
            }
        }
        while let Some(word) = args.next() {
            self.option(word, args)?;
        }
        Ok(())
    }

    /// Adds a block of alternatives: a packet must match one of them.
    fn block(&mut self, not: bool, sides: Vec<String>) {
        // An alternative that matches all packets makes the block match all.
        if !sides.iter().any(String::is_empty) {
            self.term(not, format!("( {} )", sides.join(" or ")));
        }
    }

    fn term(&mut self, not: bool, text: impl AsRef<str>) {
        let not = if not { "not " } else { "" };
        self.terms.push(format!("{not}{}", text.as_ref()));
    }

    fn protocol(&mut self, word: &Word, not: bool) -> Result<(), Problem> {
        match word.text.as_str() {
            "all" | "ip" if !not => {}
            "all" | "ip" => {
                return Err(Problem::error(word.at.clone(), "`not ip` matches no packet")
                    .help("leave out `not`, or the rule"));
            }
            "ip4" | "ipv4" => self.term(not, "ip"),
            "ip6" | "ipv6" => self.term(not, "ip6"),
            "ipv6-icmp" | "icmp6" => self.term(not, "icmp6"),
            "tcp" | "udp" | "icmp" => self.term(not, &word.text),
            _ => {
                let number = whole(word).map_err(|_| {
                    unknown(word, "a protocol", PROTOCOLS).help("or a number, such as `50` for ESP")
                })?;
                self.term(not, format!("proto {number}"));
            }
        }
        Ok(())
    }

    /// Reads an address, and ports if there are any.
    fn end(&mut self, args: &mut Args<'_>, side: &'static str, port: &str) -> Result<(), Problem> {
        let not = args.take("not").is_some();
        let word = args.value("an address")?;
        if word.text == "{" || word.text == "(" {
            let mut any = Vec::new();
            loop {
                let word = args.value("an address")?;
                match word.text.as_str() {
                    "}" | ")" => break,
                    "or" => {}
                    _ => any.extend(self.address(word, side)?),
                }
            }
            self.term(not, format!("( {} )", any.join(" or ")));
        } else if let Some(text) = self.address(word, side)? {
            self.term(not, text);
        } else if not && self.me.is_some() {
            return Err(no_equal(word.at.clone(), "not me", "write the addresses that are meant"));
        } else if not {
            return Err(Problem::error(word.at.clone(), "`not any` matches no packet")
                .help("leave out `not`, or the rule"));
        }
        let list = |w: &&Word| {
            let first = w.text.split([',', '-']).next().unwrap_or("");
            w.text.starts_with(|c: char| c.is_ascii_digit()) || port_number(first).is_some()
        };
        // A `not` without ports after it belongs to an option.
        let mut ahead = args.clone();
        let not = ahead.take("not").is_some();
        if let Some(ports) = ahead.peek().filter(list) {
            ahead.next();
            self.term(not, format!("{port} {}", port_list(&ports.text)));
            *args = ahead;
        }
        Ok(())
    }

    /// Reads an address, or a list of addresses separated by commas.
    fn address(&mut self, word: &Word, side: &'static str) -> Result<Option<String>, Problem> {
        if let Some(table) = word.text.strip_prefix("table(").and_then(|t| t.strip_suffix(')')) {
            let name = table.split(',').next().unwrap_or("").to_owned();
            self.table.get_or_insert((name.clone(), side));
            return Ok(Some(format!("{side} table {}", table_name(&name))));
        }
        if word.text == "any" {
            return Ok(None);
        }
        if word.text == "me" || word.text == "me6" {
            let (way, words) = match side {
                "src" => ("up", "packets from it go up"),
                _ => ("down", "packets to it come down"),
            };
            if self.me.is_some_and(|other| other != way) {
                let why = "packets from a host to itself pass no link";
                return Err(no_equal(word.at.clone(), "from me to me", why));
            }
            self.me = Some(way);
            let what = format!("`{}` is the near end of the link: {words}", word.text);
            self.notes.push(Problem::warning(word.at.clone(), what));
            return Ok(None);
        }
        if word.text.contains('{') {
            let why = "write the addresses separately, as a list or as prefixes";
            return Err(no_equal_phrase(word.at.clone(), "a set of last bytes", why));
        }
        let mut all = Vec::new();
        for address in word.text.split(',') {
            let whole = prefix(address, word)?;
            let masked = masked(&whole);
            if let Some(net) = &masked {
                let what = format!("{} is {}", quoted(&whole), quoted(net));
                self.notes.push(Problem::warning(word.at.clone(), what));
            }
            all.push(format!("{side} {}", masked.unwrap_or(whole)));
        }
        Ok(Some(if all.len() == 1 { all.concat() } else { format!("( {} )", all.join(" or ")) }))
    }

    fn option(&mut self, word: &Word, args: &mut Args<'_>) -> Result<(), Problem> {
        let mut word = word;
        let not = word.text == "not";
        if not {
            word = args.value("an option")?;
        }
        if opens(word) {
            let sides = sides(args, |word, args, body| body.option(word, args))?;
            self.block(not, sides);
            return Ok(());
        }
        match word.text.as_str() {
            "or" => {
                return Err(Problem::error(word.at.clone(), "`or` is valid only in a block")
                    .help("as in `{ dst-port 80 or dst-port 443 }`"));
            }
            "in" => self.direction = Some(if not { "up" } else { "down" }),
            "out" => self.direction = Some(if not { "down" } else { "up" }),
            "via" => self.interface(args.value("an interface")?, None, not)?,
            "recv" => self.interface(args.value("an interface")?, Some("down"), not)?,
            "xmit" => self.interface(args.value("an interface")?, Some("up"), not)?,
            "src-port" | "dst-port" => {
                let port = if word.text == "src-port" { "sport" } else { "dport" };
                self.term(not, format!("{port} {}", port_list(&args.value("ports")?.text)));
            }
            "src-ip" | "dst-ip" | "src-ip6" | "dst-ip6" | "src-ipv6" | "dst-ipv6" => {
                let side = if word.text.starts_with("src") { "src" } else { "dst" };
                let address = args.value("an address")?;
                if let Some(text) = self.address(address, side)? {
                    self.term(not, text);
                }
            }
            "proto" => {
                let protocol = args.value("a protocol")?;
                self.protocol(protocol, not)?;
            }
            "ipversion" => match args.value("a version")? {
                version if version.text == "4" => self.term(not, "ip"),
                version if version.text == "6" => self.term(not, "ip6"),
                version => return Err(unknown(version, "a version of IP", &["4", "6"])),
            },
            "lookup" => {
                let key = args.value("a field")?;
                let side = match key.text.as_str() {
                    "src-ip" => "src",
                    "dst-ip" => "dst",
                    _ => {
                        return Err(no_equal(
                            key.at.clone(),
                            &key.text,
                            "only addresses can be looked up: write `src-ip` or `dst-ip`",
                        ));
                    }
                };
                let name = args.value("a table")?.text.clone();
                self.term(not, format!("{side} table {}", table_name(&name)));
                self.table.get_or_insert((name, side));
            }
            "mac" | "MAC" => {
                for side in ["mac-dst", "mac-src"] {
                    let address = args.value("an address")?;
                    if address.text != "any" {
                        self.term(not, format!("{side} {}", address.text));
                    }
                }
            }
            "mac-type" => {
                let types = args.value("a type")?;
                let list: Vec<String> =
                    types.text.split(',').map(|t| format!("ether {}", ether(t))).collect();
                self.block(not, list);
            }
            "iplen" => self.term(not, format!("length {}", args.value("a length")?.text)),
            "ipttl" => self.term(not, format!("ttl {}", args.value("a number")?.text)),
            "dscp" => {
                let points = args.value("a number")?;
                let list: Vec<String> =
                    points.text.split(',').map(|p| format!("dscp {}", dscp(p))).collect();
                self.block(not, list);
            }
            "mark" => {
                let mark = marked(args.value("a mark")?, "mark", u32::MAX)?;
                self.term(not, format!("mark {mark}"));
            }
            "tagged" => {
                let tags = args.value("a number")?;
                let list =
                    tags.text.split(',').map(|tag| Word { text: tag.to_owned(), ..tags.clone() });
                let list = list.map(|tag| Ok(format!("mark {}", marked(&tag, "tagged", 65_534)?)));
                self.block(not, list.collect::<Result<_, Problem>>()?);
            }
            "tcpflags" => self.term(not, format!("flags {}", args.value("flags")?.text)),
            "setup" => self.term(not, "flags syn,!ack"),
            "established" => self.term(not, "( flags ack or flags rst )"),
            // `frag` matches fragments other than the first.
            "frag" => {
                args.take("offset");
                self.term(not, "( fragment not first-fragment )");
            }
            "layer2" | "bridged" => self.frames |= !not,
            "//" => while args.next().is_some() {},
            _ => return Err(no_option(word)),
        }
        Ok(())
    }

    /// Records an interface, which stands for one of the link's two ends.
    fn interface(
        &mut self,
        word: &Word,
        passes: Option<&'static str>,
        not: bool,
    ) -> Result<(), Problem> {
        if not || word.text.starts_with("table(") || word.text.contains('*') {
            let why = "a link has two ends, and `in` and `out` select the direction: name one interface, or two";
            return Err(no_equal_phrase(word.at.clone(), "this choice of interfaces", why));
        }
        if word.text != "any" {
            self.interfaces.push(Interface { name: word.clone(), passes });
        }
        Ok(())
    }
}

/// Reads a mark, in base 10 or 16.
fn marked(word: &Word, what: &str, most: u32) -> Result<String, Problem> {
    let text = word.text.as_str();
    let number = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+')),
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    };
    let least = u32::from(most < u32::MAX);
    match number.filter(|number| (least..=most).contains(number)) {
        Some(number) => Ok(number.to_string()),
        None if text == "tablearg" || text.contains(':') => Err(no_equal(
            word.at.clone(),
            &format!("{what} {text}"),
            "marks are set and compared as whole numbers",
        )),
        None => Err(Problem::error(
            word.at.clone(),
            format!("{} is not a number for `{what}`", quoted(text)),
        )
        .help(format!("write {least} to {most}"))),
    }
}

fn opens(word: &Word) -> bool {
    matches!(word.text.as_str(), "{" | "(")
}

/// Reads the alternatives of a block, up to its end.
fn sides<'a>(
    args: &mut Args<'a>,
    mut read: impl FnMut(&'a Word, &mut Args<'a>, &mut Body) -> Result<(), Problem>,
) -> Result<Vec<String>, Problem> {
    let mut sides = Vec::new();
    let mut side = Body::default();
    loop {
        let word = args.value("the end of the block, `}`")?;
        match word.text.as_str() {
            "}" | ")" => break,
            "or" => sides.push(std::mem::take(&mut side).terms.join(" ")),
            "in" | "out" | "via" | "recv" | "xmit" => {
                let why = "directions and interfaces hold for a whole rule: write two rules";
                return Err(no_equal_phrase(
                    word.at.clone(),
                    "a block with directions or interfaces",
                    why,
                ));
            }
            _ if opens(word) => {
                return Err(Problem::error(word.at.clone(), "a block within a block")
                    .help("write all alternatives in one block, or several rules"));
            }
            _ => read(word, args, &mut side)?,
        }
    }
    sides.push(side.terms.join(" "));
    Ok(sides)
}

/// Reads an address with a mask: `10.0.0.0:255.0.0.0` is `10.0.0.0/8`.
fn prefix(address: &str, word: &Word) -> Result<String, Problem> {
    let Some((base, mask)) = address.split_once(':').filter(|(base, _)| base.contains('.')) else {
        return Ok(address.to_owned());
    };
    let bits = mask.parse::<std::net::Ipv4Addr>().map(u32::from).ok();
    match bits.filter(|bits| bits.leading_ones() + bits.trailing_zeros() == 32) {
        Some(bits) => Ok(format!("{base}/{}", bits.leading_ones())),
        None => Err(no_equal_phrase(
            word.at.clone(),
            "this mask",
            "a mask has ones and then zeros, such as `:255.255.0.0`",
        )),
    }
}

/// Clears the bits after the prefix length; `None` if they are zero already.
fn masked(prefix: &str) -> Option<String> {
    let (address, length) = prefix.split_once('/')?;
    let address = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    let most = if matches!(address, std::net::IpAddr::V4(_)) { 32 } else { 128 };
    if length > most {
        return None;
    }
    Some(Net::new(address, length).to_string()).filter(|net| net != prefix)
}

/// A port by its number, or by one of the names that are common in rules.
pub(super) fn port_number(name: &str) -> Option<String> {
    const NAMES: &[(&str, u16)] = &[
        ("ftp-data", 20),
        ("ftp", 21),
        ("ssh", 22),
        ("telnet", 23),
        ("smtp", 25),
        ("domain", 53),
        ("bootps", 67),
        ("bootpc", 68),
        ("tftp", 69),
        ("http", 80),
        ("www", 80),
        ("pop3", 110),
        ("sunrpc", 111),
        ("ntp", 123),
        ("netbios-ns", 137),
        ("netbios-dgm", 138),
        ("netbios-ssn", 139),
        ("imap", 143),
        ("snmp", 161),
        ("bgp", 179),
        ("ldap", 389),
        ("https", 443),
        ("microsoft-ds", 445),
        ("isakmp", 500),
        ("syslog", 514),
        ("submission", 587),
        ("ldaps", 636),
        ("imaps", 993),
        ("pop3s", 995),
        ("openvpn", 1194),
        ("nfsd", 2049),
        ("nfs", 2049),
        ("mysql", 3306),
        ("sip", 5060),
        ("postgresql", 5432),
    ];
    if name.parse::<u16>().is_ok() {
        return Some(name.to_owned());
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, port)| port.to_string())
}

/// A list of ports and ranges, with numbers in the place of names.
fn port_list(text: &str) -> String {
    let range = |range: &str| {
        // Names may contain dashes too.
        port_number(range).unwrap_or_else(|| {
            let ends = range.split('-').map(|end| port_number(end).unwrap_or(end.to_owned()));
            ends.collect::<Vec<_>>().join("-")
        })
    };
    text.split(',').map(range).collect::<Vec<_>>().join(",")
}

/// The number of an EtherType; some types have names.
fn ether(text: &str) -> &str {
    match text {
        "ip" | "ipv4" => "0x0800",
        "ipv6" => "0x86dd",
        text => text,
    }
}

/// A DSCP in the syntax of a scenario; `be` is 0.
fn dscp(text: &str) -> &str {
    if text == "be" { "0" } else { text }
}

/// The error for an action that has no equivalent in a scenario, with the reason.
fn no_action(word: &Word) -> Problem {
    let why = match word.text.as_str() {
        "check-state" => "rules match packets, not connections",
        "divert" | "tee" | "ngtee" | "netgraph" => {
            "packets stay in the link; `--capture` writes copies of them"
        }
        "fwd" | "forward" | "setfib" => "a link leads only to its other end",
        "nat" | "nat64lsn" | "nat64stl" | "nat64clat" | "nptv6" => {
            "packets arrive as they were sent"
        }
        "reject" | "unreach" | "unreach6" | "reset" | "reset6" | "abort" | "abort6" => {
            "falaj does not answer on behalf of the other end: `deny` drops"
        }
        "call" | "return" => "rules are tried from the top: `skipto` leads further down",
        "setdscp" | "tcp-setmss" => "packets arrive as they were sent",
        "reass" => "fragments pass as they are; rules match the headers of each",
        _ => return not_imported(word, "actions", ACTIONS),
    };
    no_equal(word.at.clone(), &word.text, why)
}

/// The error for an option that has no equivalent in a scenario, with the reason.
fn no_option(word: &Word) -> Problem {
    let why = match word.text.as_str() {
        "keep-state"
        | "limit"
        | "record-state"
        | "set-limit"
        | "defer-action"
        | "defer-immediate-action" => "rules match packets, not connections",
        "uid" | "gid" | "jail" | "sockarg" => {
            "a packet on a link does not tell which process sent it"
        }
        "diverted" | "diverted-loopback" | "diverted-output" | "fib" | "ipsec" => {
            "a packet on a link has none of the kernel's metadata"
        }
        "antispoof" | "verrevpath" | "versrcreach" => "a link has no routes",
        "icmptypes" | "icmp6types" | "ipoptions" | "ipid" | "ipprecedence" | "iptos" | "tcpack"
        | "tcpdatalen" | "tcpseq" | "tcpwin" | "tcpmss" | "tcpoptions" | "ext6hdr" | "flow-id"
        | "flow" => {
            "rules cannot match this field: `falaj explain match` lists the fields that they can match"
        }
        _ => {
            return not_imported(word, "options", OPTIONS);
        }
    };
    no_equal(word.at.clone(), &word.text, why)
}

/// The words that may begin a rule: its action, and words before it.
const ACTIONS: &[&str] = &[
    "pipe", "queue", "allow", "accept", "pass", "permit", "deny", "drop", "count", "skipto",
    "setmark", "return", "prob", "set",
];

/// The options that may follow the addresses.
const OPTIONS: &[&str] = &[
    "in",
    "out",
    "via",
    "recv",
    "xmit",
    "src-port",
    "dst-port",
    "src-ip",
    "dst-ip",
    "src-ip6",
    "dst-ip6",
    "src-ipv6",
    "dst-ipv6",
    "proto",
    "ipversion",
    "lookup",
    "mac",
    "MAC",
    "mac-type",
    "iplen",
    "ipttl",
    "dscp",
    "tcpflags",
    "mark",
    "tagged",
    "setup",
    "established",
    "frag",
    "layer2",
    "bridged",
    "not",
    "//",
];

/// The name of a table in the scenario.
pub(super) fn table_name(number: &str) -> String {
    if number.bytes().all(|b| b.is_ascii_digit()) {
        format!("table{number}")
    } else {
        number.to_owned()
    }
}
