//! `add [NUMBER] [prob P] ACTION PROTOCOL from SOURCE to DESTINATION [OPTIONS]`.

use super::super::amounts::whole;
use super::super::args::{Args, no_equal, unknown};
use super::super::lines::Word;
use super::config::probability;
use crate::diagnostics::Problem;
use crate::units::quoted;
use std::ops::Range;

/// What becomes of the packets of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Pipe(u64),
    Queue(u64),
    /// The pipe or queue that a table names.
    PipeOfTable,
    Allow,
    Deny,
    Count,
    SkipTo(u64),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) number: u64,
    /// In percent.
    pub(super) probability: Option<String>,
    pub(super) action: Action,
    /// In the grammar of a scenario's `match`.
    pub(super) matches: String,
    /// `up` or `down`; none: both.
    pub(super) direction: Option<&'static str>,
    /// The table whose value counts, and which address is looked up in it.
    pub(super) table: Option<(String, &'static str)>,
    pub(super) at: Range<usize>,
    pub(super) line: String,
}

/// Reads what stands behind `add`; `last` is the highest number so far.
pub(super) fn read(args: &mut Args<'_>, last: u64, notes: &mut Vec<Problem>) -> Result<Rule, Problem> {
    let number = match args.number() {
        Some(word) => whole(word)?,
        None => (last / 100 + 1) * 100,
    };
    let mut chance = None;
    let action = loop {
        let word = args.value("an action")?;
        match word.text.as_str() {
            "prob" => chance = probability(args.value("a probability")?)?.or(Some("0%".to_owned())),
            "set" => _ = whole(args.value("a number")?)?,
            "pipe" | "queue" if args.take("tablearg").is_some() => break Action::PipeOfTable,
            "pipe" => break Action::Pipe(whole(args.value("a number")?)?),
            "queue" => break Action::Queue(whole(args.value("a number")?)?),
            "allow" | "accept" | "pass" | "permit" => break Action::Allow,
            "deny" | "drop" => break Action::Deny,
            "count" => break Action::Count,
            "skipto" => break Action::SkipTo(whole(args.value("a number")?)?),
            _ => {
                return Err(no_equal(
                    word.at.clone(),
                    &word.text,
                    "actions that can be imported: pipe, queue, allow, deny, count, skipto",
                ));
            }
        }
    };
    for word in ["log", "logamount"] {
        if args.take(word).is_some() {
            args.number();
        }
    }
    let mut body = Body::default();
    body.read(args)?;
    let matches = if body.terms.is_empty() { "any".to_owned() } else { body.terms.join(" ") };
    if let Err(error) = crate::parse_match(&matches) {
        let what = format!("this comes to {}: {}", quoted(&matches), error.what);
        return Err(Problem::error(args.all(), what).help(error.help));
    }
    if body.direction.is_none() && matches!(action, Action::Pipe(_) | Action::Queue(_)) {
        let what = "without `in` or `out` both directions share the pipe there; here each has its own";
        notes.push(Problem::warning(args.all(), what));
    }
    if action == Action::PipeOfTable && body.table.is_none() {
        return Err(Problem::error(args.all(), "`tablearg` of which table?")
            .help("as in `pipe tablearg ip from table(1) to any`"));
    }
    Ok(Rule {
        number,
        probability: chance,
        action,
        matches,
        direction: body.direction,
        table: body.table,
        at: args.all(),
        line: args.line(),
    })
}

/// What a rule looks at.
#[derive(Default)]
struct Body {
    terms: Vec<String>,
    direction: Option<&'static str>,
    table: Option<(String, &'static str)>,
}

impl Body {
    fn read(&mut self, args: &mut Args<'_>) -> Result<(), Problem> {
        if let Some(protocol) = args.peek().filter(|w| !OPTIONS.contains(&w.text.as_str())) {
            args.next();
            self.protocol(protocol)?;
            if args.take("from").is_some() {
                self.end(args, "src", "sport")?;
                if args.take("to").is_none() {
                    return Err(Problem::error(args.all(), "`from` needs `to`").help("as in `ip from any to any`"));
                }
                self.end(args, "dst", "dport")?;
            }
        }
        while let Some(word) = args.next() {
            self.option(word, args)?;
        }
        Ok(())
    }

    fn term(&mut self, not: bool, text: impl AsRef<str>) {
        let not = if not { "not " } else { "" };
        self.terms.push(format!("{not}{}", text.as_ref()));
    }

    fn protocol(&mut self, word: &Word) -> Result<(), Problem> {
        match word.text.as_str() {
            "all" | "ip" => {}
            "ip4" | "ipv4" => self.term(false, "ip"),
            "ip6" | "ipv6" => self.term(false, "ip6"),
            "ipv6-icmp" | "icmp6" => self.term(false, "icmp6"),
            "tcp" | "udp" | "icmp" => self.term(false, &word.text),
            _ => {
                let number = whole(word)
                    .map_err(|_| unknown(word, "a protocol", &["ip", "ip4", "ip6", "tcp", "udp", "icmp", "icmp6"]))?;
                self.term(false, format!("proto {number}"));
            }
        }
        Ok(())
    }

    /// An address and perhaps ports.
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
        } else if not {
            return Err(Problem::error(word.at.clone(), "`not any` takes no packet"));
        }
        let list = |w: &&Word| w.text.starts_with(|c: char| c.is_ascii_digit());
        let not = args.take("not").is_some();
        if let Some(ports) = args.peek().filter(list) {
            args.next();
            self.term(not, format!("{port} {}", ports.text));
        }
        Ok(())
    }

    /// A comma separates addresses of one list.
    fn address(&mut self, word: &Word, side: &'static str) -> Result<Option<String>, Problem> {
        if let Some(table) = word.text.strip_prefix("table(").and_then(|t| t.strip_suffix(')')) {
            let name = table.split(',').next().unwrap_or("").to_owned();
            self.table.get_or_insert((name.clone(), side));
            return Ok(Some(format!("{side} table {}", super::link::table_name(&name))));
        }
        if word.text == "any" {
            return Ok(None);
        }
        if word.text.starts_with("me") {
            return Err(no_equal(word.at.clone(), &word.text, "write the address: a scenario knows no host"));
        }
        let all: Vec<String> = word.text.split(',').map(|a| format!("{side} {a}")).collect();
        Ok(Some(if all.len() == 1 { all.concat() } else { format!("( {} )", all.join(" or ")) }))
    }

    fn option(&mut self, word: &Word, args: &mut Args<'_>) -> Result<(), Problem> {
        let mut word = word;
        let not = word.text == "not";
        if not {
            word = args.value("what")?;
        }
        match word.text.as_str() {
            "in" => self.direction = Some(if not { "up" } else { "down" }),
            "out" => self.direction = Some(if not { "down" } else { "up" }),
            "via" | "recv" | "xmit" => {
                let name = args.value("an interface")?;
                self.term(not, format!("in {}", name.text));
            }
            "src-port" | "dst-port" => {
                let port = if word.text == "src-port" { "sport" } else { "dport" };
                self.term(not, format!("{port} {}", args.value("ports")?.text));
            }
            "src-ip" | "dst-ip" | "src-ip6" | "dst-ip6" => {
                let side = if word.text.starts_with("src") { "src" } else { "dst" };
                let address = args.value("an address")?;
                if let Some(text) = self.address(address, side)? {
                    self.term(not, text);
                }
            }
            "proto" => {
                let protocol = args.value("a protocol")?;
                self.protocol(protocol)?;
            }
            "iplen" => self.term(not, format!("length {}", args.value("a length")?.text)),
            "ipttl" => self.term(not, format!("ttl {}", args.value("a number")?.text)),
            "dscp" => self.term(not, format!("dscp {}", args.value("a number")?.text)),
            "tcpflags" => self.term(not, format!("flags {}", args.value("flags")?.text)),
            "setup" => self.term(not, "flags syn,!ack"),
            "established" => self.term(not, "( flags ack or flags rst )"),
            "frag" => self.term(not, "fragment"),
            "layer2" | "bridged" => {}
            "//" => while args.next().is_some() {},
            _ => {
                return Err(no_equal(
                    word.at.clone(),
                    &word.text,
                    format!("options that can be imported: {}", OPTIONS.join(", ")).as_str(),
                ));
            }
        }
        Ok(())
    }
}

/// What may stand behind the addresses.
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
    "proto",
    "iplen",
    "ipttl",
    "dscp",
    "tcpflags",
    "setup",
    "established",
    "frag",
    "layer2",
    "bridged",
    "not",
    "//",
];
