//! Rules of `pf` that send to pipes: `dummynet in … pipe 1` of macOS, `pass … dnpipe 1` of FreeBSD
//! and related systems.

use super::rule::{Action, Interface, Rule, port_number};
use crate::amounts::whole;
use crate::args::{Args, no_equal, unknown};
use crate::lines::{self, Word};
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

/// A rule, and whether it is final: a packet that matches a `quick` rule is not compared with later
/// rules.
#[derive(Debug, Clone)]
pub(super) struct PfRule {
    rule: Rule,
    quick: bool,
}

/// The words of a rule of pf, if the command is such a rule: a line of pf's file, or a text that
/// `echo` pipes to `pfctl`.
pub(super) fn words(command: &[Word]) -> Option<Vec<Word>> {
    let is_echo = command.first().is_some_and(|w| matches!(w.text.as_str(), "echo" | "printf"));
    let words = if is_echo {
        // Each word has the place of the text that contains it.
        let inner = |word: &Word| {
            let words = lines::commands(&word.text, &mut Vec::new()).into_iter().flatten();
            words.map(|w| Word { text: w.text, at: word.at.clone() }).collect::<Vec<_>>()
        };
        command[1..].iter().flat_map(inner).collect()
    } else {
        command.to_vec()
    };
    let sends = |w: &Word| w.text.starts_with("dnpipe") || w.text.starts_with("dnqueue");
    let is_rule = match words.first()?.text.as_str() {
        "dummynet" => true,
        "pass" | "match" => words.iter().any(sends),
        _ => false,
    };
    is_rule.then(|| tokens(&words))
}

/// Splits words, so that brackets, commas and `!` are words of their own.
fn tokens(words: &[Word]) -> Vec<Word> {
    let mut tokens: Vec<Word> = Vec::new();
    for word in words {
        let mut token = String::new();
        for c in word.text.chars() {
            if "{}(),!".contains(c) {
                if !token.is_empty() {
                    tokens.push(Word { text: std::mem::take(&mut token), at: word.at.clone() });
                }
                tokens.push(Word { text: c.to_string(), at: word.at.clone() });
            } else {
                token.push(c);
            }
        }
        if !token.is_empty() {
            tokens.push(Word { text: token, at: word.at.clone() });
        }
    }
    tokens
}

/// One side of a rule: its source or its destination.
#[derive(Debug, Clone, Default)]
struct Side {
    addresses: Vec<String>,
    not: bool,
    ports: Vec<String>,
}

impl Side {
    fn terms(&self, address: &str, port: &str) -> Vec<String> {
        let not = if self.not { "not " } else { "" };
        let addresses: Vec<String> =
            self.addresses.iter().map(|a| format!("{address} {a}")).collect();
        let mut terms = match &addresses[..] {
            [] => Vec::new(),
            [one] => vec![format!("{not}{one}")],
            all => vec![format!("{not}( {} )", all.join(" or "))],
        };
        if !self.ports.is_empty() {
            terms.push(format!("{port} {}", self.ports.join(",")));
        }
        terms
    }
}

/// The words of a rule that can be imported; `pipe` and `queue` only after `dummynet`.
const PARTS: &[&str] = &[
    "in", "out", "quick", "log", "on", "inet", "inet6", "all", "proto", "from", "to", "pipe",
    "queue", "dnpipe", "dnqueue", "keep", "modulate", "no", "flags",
];

/// Reads a rule. If the rule names a second pipe, a second rule is made for the packets in the
/// other direction.
pub(super) fn read(words: &[Word], notes: &mut Vec<Problem>) -> Result<Vec<PfRule>, Problem> {
    let mut args = Args::new(words);
    let is_dummynet = args.take("dummynet").is_some();
    if !is_dummynet {
        args.next();
    }
    let (mut direction, mut quick, mut interface) = (None, false, None);
    let mut protocols: Vec<String> = Vec::new();
    let mut version = None;
    let (mut src, mut dst) = (Side::default(), Side::default());
    let mut sends: Vec<Action> = Vec::new();
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "in" => direction = Some("down"),
            "out" => direction = Some("up"),
            "quick" => quick = true,
            "log" => args.left_out(word, "nothing is logged"),
            "on" => interface = Some(args.value("an interface")?.clone()),
            "inet" => version = Some("ip"),
            "inet6" => version = Some("ip6"),
            "all" => {}
            "proto" => {
                for word in list(&mut args, "a protocol")? {
                    protocols.push(match word.text.as_str() {
                        name @ ("tcp" | "udp" | "icmp") => name.to_owned(),
                        "icmp6" | "ipv6-icmp" => "icmp6".to_owned(),
                        _ => match whole(&word) {
                            Ok(number) => format!("proto {number}"),
                            Err(_) => {
                                let known = &["tcp", "udp", "icmp", "icmp6", "ipv6-icmp"];
                                return Err(unknown(&word, "a protocol", known)
                                    .help("or a number, such as `50` for ESP"));
                            }
                        },
                    });
                }
            }
            "from" => side(&mut args, &mut src)?,
            "to" => side(&mut args, &mut dst)?,
            "pipe" | "queue" if is_dummynet => sends.push(action(word, args.value("a number")?)?),
            "dnpipe" | "dnqueue" => {
                let numbers = list(&mut args, "a number")?;
                let actions = numbers.iter().map(|number| action(word, number));
                sends.extend(actions.collect::<Result<Vec<_>, _>>()?);
            }
            "keep" | "modulate" => _ = args.take("state"),
            "no" if args.take("state").is_some() => {}
            "flags" => _ = args.value("flags")?,
            _ => {
                return Err(unknown(word, "a part of a rule that can be imported", PARTS));
            }
        }
    }
    notes.append(&mut args.notes);
    if sends.len() > 2 {
        return Err(Problem::error(args.all(), "the rule names more than two pipes")
            .help("name one for each direction, as in `dnpipe (1, 2)`"));
    }
    if sends.is_empty() {
        return Err(Problem::error(args.all(), "the rule has no pipe: its number is missing")
            .help("as in `dummynet out proto tcp from any to any port 80 pipe 1`"));
    }
    let matches = |src: &Side, dst: &Side, [from, to]: [&str; 2]| -> Result<String, Problem> {
        let mut terms = Vec::new();
        match &protocols[..] {
            [] => {}
            [one] => terms.push(one.clone()),
            all => terms.push(format!("( {} )", all.join(" or "))),
        }
        terms.extend(src.terms(from, if from == "src" { "sport" } else { "dport" }));
        terms.extend(dst.terms(to, if to == "dst" { "dport" } else { "sport" }));
        terms.extend(version.map(str::to_owned));
        let text = if terms.is_empty() { "any".to_owned() } else { terms.join(" ") };
        falaj_scenario::parse_match(&text).map_err(|error| {
            let what = format!("this becomes {}: {}", quoted(&text), error.what);
            Problem::error(args.all(), what).help(error.help)
        })?;
        Ok(text)
    };
    let rule = |action: &Action, matches: String, direction| PfRule {
        rule: Rule {
            number: 0,
            probability: None,
            action: action.clone(),
            mark: None,
            matches,
            direction,
            pass: None,
            table: None,
            interfaces: interface
                .iter()
                .map(|name| Interface { name: name.clone(), passes: None })
                .collect(),
            frames: false,
            at: args.all(),
            line: args.line(),
        },
        quick,
    };
    let mut rules = vec![rule(&sends[0], matches(&src, &dst, ["src", "dst"])?, direction)];
    if let Some(back) = sends.get(1) {
        let turned = direction.map(|way| if way == "up" { "down" } else { "up" });
        rules.push(rule(back, matches(&src, &dst, ["dst", "src"])?, turned));
    }
    Ok(rules)
}

fn action(word: &Word, number: &Word) -> Result<Action, Problem> {
    let number = whole(number)?;
    Ok(if word.text.ends_with("queue") { Action::Queue(number) } else { Action::Pipe(number) })
}

/// Reads one word, or the words in brackets; commas between them are skipped.
fn list(args: &mut Args<'_>, what: &str) -> Result<Vec<Word>, Problem> {
    let first = args.value(what)?;
    if !matches!(first.text.as_str(), "{" | "(") {
        return Ok(vec![first.clone()]);
    }
    let mut words = Vec::new();
    loop {
        let word = args.value("the end of the list")?;
        match word.text.as_str() {
            "}" | ")" => return Ok(words),
            "," => {}
            _ => words.push(word.clone()),
        }
    }
}

/// Reads the addresses and ports after `from` or `to`.
fn side(args: &mut Args<'_>, side: &mut Side) -> Result<(), Problem> {
    let is_address =
        |w: &Word| !matches!(w.text.as_str(), "port" | "to" | "pipe" | "queue" | "dnpipe");
    if args.peek().is_some_and(is_address) {
        side.not = args.take("!").is_some();
        for word in list(args, "an address")? {
            if word.text == "any" {
                continue;
            }
            let is_number = |c: char| c.is_ascii_hexdigit() || ".:/".contains(c);
            if word.text.starts_with('<') || !word.text.chars().all(is_number) {
                let why = "write the addresses, or `any`: a scenario has no tables of pf and no host's interfaces";
                return Err(no_equal(word.at.clone(), &word.text, why));
            }
            side.addresses.push(word.text.clone());
        }
    }
    if args.take("port").is_some() {
        args.take("=");
        for word in list(args, "a port")? {
            let range = word.text.split(':').map(port_number).collect::<Option<Vec<_>>>();
            let Some(range) = range.filter(|ports| ports.len() <= 2) else {
                return Err(Problem::error(
                    word.at.clone(),
                    format!("{} is not a port", quoted(&word.text)),
                )
                .help("a number, a name such as `https`, or a range `8000:8080`"));
            };
            side.ports.push(range.join("-"));
        }
    }
    Ok(())
}

/// Puts rules into an order in which the first match decides. In pf the last match decides, or the
/// first match of a `quick` rule.
pub(super) fn in_order(rules: Vec<PfRule>) -> Vec<Rule> {
    let (quick, mut others): (Vec<PfRule>, Vec<PfRule>) = rules.into_iter().partition(|r| r.quick);
    others.reverse();
    let number = |(n, pf): (usize, PfRule)| Rule { number: 100 * (n as u64 + 1), ..pf.rule };
    quick.into_iter().chain(others).enumerate().map(number).collect()
}
