//! Rules of iptables that mark packets for filters of kind `fw`: rules of the scenario, before all
//! other rules of their direction.

use super::filter;
use crate::amounts::whole;
use crate::args::Args;
use crate::draft::Table;
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;
use std::ops::Range;

/// The chains of the table `mangle`, in the order in which a packet that leaves passes them.
const CHAINS: [&str; 4] = ["PREROUTING", "FORWARD", "OUTPUT", "POSTROUTING"];

/// A rule that marks packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marking {
    /// Index of the chain in [`CHAINS`].
    chain: usize,
    /// The version of IP: each has chains of its own.
    version: &'static str,
    /// The match, in the grammar of a scenario's `match`.
    rule: String,
    /// The bits of the mark that change, and their new value.
    mask: u32,
    value: u32,
    /// The device by which the packets leave; `None`: any.
    out: Option<String>,
    /// The network namespace of the rule.
    netns: Option<String>,
    pub(super) at: Range<usize>,
}

impl Marking {
    /// Returns true if the two rules are the same, wherever they are in the script.
    fn is(&self, other: &Marking) -> bool {
        *self == Marking { at: self.at.clone(), ..other.clone() }
    }

    /// The reason if only a part of the packets that leave passes the rule's chain in the kernel.
    pub(super) fn passed_by_part(&self) -> Option<&'static str> {
        match CHAINS[self.chain] {
            "PREROUTING" | "FORWARD" => Some("packets that the host forwards"),
            "OUTPUT" => Some("packets of the host's own programs"),
            _ => None,
        }
    }

    /// Returns true if the rule marks packets that leave by this device.
    pub(super) fn concerns(&self, device: &str, netns: Option<&str>) -> bool {
        self.netns.as_deref() == netns && self.out.as_ref().is_none_or(|out| out == device)
    }

    /// The rule in the scenario, for one direction.
    pub(super) fn table(&self, direction: &str) -> Table {
        let mut rule = Table::new("[[rule]]", self.at.clone());
        if self.rule != "any" {
            rule.text("match", &self.rule);
        }
        rule.text("direction", direction);
        match self.mask {
            u32::MAX => rule.set("mark", self.value.to_string()),
            mask => {
                rule.set("mark", format!("{:#x}", self.value));
                rule.set("mark-mask", format!("{mask:#x}"));
            }
        }
        rule.text("to", "pass");
        rule.text("then", "on");
        rule
    }
}

/// Returns true if these rules together can set the bits of `mask` to `value`.
pub(super) fn can_set(markings: &[&Marking], value: u32, mask: u32) -> bool {
    let all = markings.iter().fold(0, |all, m| all | m.value & m.mask);
    value == 0 || value & mask & !all == 0
}

/// Returns true if this program is iptables.
pub(super) fn is_iptables(program: &Word) -> bool {
    let name = program.text.rsplit('/').next().unwrap_or(&program.text);
    let name = name.trim_end_matches("-nft").trim_end_matches("-legacy");
    ["iptables", "ip6tables"].contains(&name)
}

/// Runs a command of iptables on the rules that were read before. Returns true if it concerns
/// marks.
///
/// # Errors
/// Returns the reason why a rule that marks packets cannot be imported.
pub(super) fn command(
    program: &Word,
    args: &mut Args<'_>,
    netns: Option<String>,
    rules: &mut Vec<Marking>,
) -> Result<bool, Problem> {
    let at = args.all();
    let mut table = "filter";
    let mut verb = None;
    let mut words = Vec::new();
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "-t" | "--table" => table = &args.value("a table")?.text,
            "-w" | "--wait" => {
                args.number();
            }
            "-A" | "--append" | "-I" | "--insert" | "-D" | "--delete" | "-F" | "--flush" => {
                verb = Some(word);
            }
            _ => words.push(word.clone()),
        }
    }
    let (Some(verb), "mangle") = (verb, table) else { return Ok(false) };
    let mut args = Args::new(&words);
    let chain = args.next();
    let version = if program.text.contains("ip6tables") { "ip6" } else { "ip" };
    let known = |chain: &Word| CHAINS.iter().position(|name| *name == chain.text);
    if matches!(verb.text.as_str(), "-F" | "--flush") {
        let chain = chain.map(known);
        rules.retain(|rule| {
            (rule.version, &rule.netns) != (version, &netns)
                || chain.is_some_and(|chain| chain != Some(rule.chain))
        });
        return Ok(true);
    }
    let is_mark = words
        .windows(2)
        .any(|pair| ["-j", "--jump"].contains(&&*pair[0].text) && pair[1].text == "MARK");
    let (Some(name), true) = (chain, is_mark) else { return Ok(false) };
    let Some(chain) = known(name) else {
        let why = format!("chains that can be imported: {}", CHAINS.join(", "));
        return Err(left_out(&name.at, &name.text, &why));
    };
    if let Some(number) = args.number().filter(|number| number.text != "1") {
        return Err(left_out(
            &number.at,
            &number.text,
            "`-A`, and `-I` without a number or with 1, can be imported",
        ));
    }
    let (rule, out, mask, value) = marking(&mut args, version)?;
    let made = Marking { chain, version, rule, mask, value, out, netns, at };
    match verb.text.as_str() {
        "-A" | "--append" => rules.push(made),
        "-I" | "--insert" => rules.insert(0, made),
        _ => {
            if let Some(n) = rules.iter().position(|rule| rule.is(&made)) {
                rules.remove(n);
            }
        }
    }
    // Within a chain, the order is that of the commands.
    rules.sort_by_key(|rule| rule.chain);
    Ok(true)
}

/// Reads the matches and the target `MARK`: the match, the device, and the change to the mark.
fn marking(
    args: &mut Args<'_>,
    version: &str,
) -> Result<(String, Option<String>, u32, u32), Problem> {
    let (mut terms, mut out, mut set) = (Vec::new(), None, None);
    let (mut has_address, mut extension) = (false, "");
    while let Some(word) = args.next() {
        let not = word.text == "!";
        let option = if not { args.value("an option")? } else { word };
        let mut value = || args.value("a value");
        let term = match option.text.as_str() {
            "-m" | "--match" => {
                extension = &value()?.text;
                continue;
            }
            "--comment" => {
                value()?;
                continue;
            }
            "-p" | "--proto" | "--protocol" => match value()?.text.as_str() {
                "all" | "0" => continue,
                name @ ("tcp" | "udp" | "icmp") => name.to_owned(),
                "icmpv6" | "ipv6-icmp" => "icmp6".to_owned(),
                number => format!("proto {number}"),
            },
            "-s" | "--source" | "--src" => {
                has_address |= !not;
                format!("src {}", net(value()?)?)
            }
            "-d" | "--destination" | "--dst" => {
                has_address |= !not;
                format!("dst {}", net(value()?)?)
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                format!("sport {}", ports(value()?))
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                format!("dport {}", ports(value()?))
            }
            "--dscp" => format!("dscp {}", whole(value()?)?),
            "--dscp-class" => format!("dscp {}", value()?.text.to_ascii_lowercase()),
            "--length" => format!("length {}", value()?.text.replace(':', "-")),
            "--mark" if extension == "mark" => format!("mark {}", value()?.text),
            "-o" | "--out-interface" if !not => {
                out = Some(value()?.text.clone());
                continue;
            }
            "-j" | "--jump" if !not => {
                value()?;
                continue;
            }
            action
                if action.starts_with("--set-")
                    || ["--or-mark", "--and-mark"].contains(&action) =>
            {
                set = Some(change(option, value()?)?);
                continue;
            }
            _ => {
                let why = "a rule can match the protocol, addresses, ports, DSCP, length and mark \
                           of packets, and the device by which they leave, `-o`";
                return Err(left_out(&option.at, &option.text, why));
            }
        };
        terms.push(if not { format!("not {term}") } else { term });
    }
    let Some((mask, value)) = set.filter(|(mask, _)| *mask != 0) else {
        let why = "it changes no bit of the mark: `--set-mark`, `--set-xmark`, `--or-mark` and \
                   `--and-mark` do";
        return Err(left_out(&args.all(), "MARK", why));
    };
    if !has_address {
        terms.insert(0, version.to_owned());
    }
    let rule = terms.join(" ");
    match falaj_scenario::parse_match(&rule) {
        Ok(_) => Ok((rule, out, mask, value)),
        Err(error) => Err(left_out(&args.all(), "MARK", &error.what)),
    }
}

/// Reads the value of `--set-mark` and its like: the bits that change, and their new value.
fn change(option: &Word, word: &Word) -> Result<(u32, u32), Problem> {
    let number = |text: &str| filter::mark(&Word { text: text.to_owned(), at: word.at.clone() });
    let (value, mask) = match word.text.split_once('/') {
        Some((value, mask)) => (number(value)?, Some(number(mask)?)),
        None => (number(&word.text)?, None),
    };
    match (option.text.as_str(), mask) {
        ("--set-mark" | "--set-xmark", None) => Ok((u32::MAX, value)),
        // The bits of the value are set, also where the mask has none.
        ("--set-mark", Some(mask)) => Ok((mask | value, value)),
        ("--set-xmark", Some(mask)) if value & !mask == 0 => Ok((mask, value)),
        ("--or-mark", None) => Ok((value, value)),
        ("--and-mark", None) => Ok((!value, 0)),
        _ => {
            let why = "a rule sets bits of a mark to a value, and does not invert them: write \
                       `--set-mark VALUE/MASK`, `--or-mark BITS` or `--and-mark BITS`";
            Err(left_out(&option.at, &option.text, why))
        }
    }
}

/// Reads an address with a prefix or a mask.
fn net(word: &Word) -> Result<String, Problem> {
    let Some((address, mask)) = word.text.split_once('/') else { return Ok(word.text.clone()) };
    let Ok(mask) = mask.parse::<std::net::Ipv4Addr>() else { return Ok(word.text.clone()) };
    let bits = mask.to_bits();
    if bits.leading_ones() + bits.trailing_zeros() < 32 {
        return Err(left_out(
            &word.at,
            &word.text,
            "write a prefix, such as `/24`, or a mask of ones and then zeros",
        ));
    }
    Ok(format!("{address}/{}", bits.leading_ones()))
}

/// Ports and ranges of ports as `match` writes them.
fn ports(word: &Word) -> String {
    let one = |part: &str| match part.split_once(':') {
        Some(("", to)) => format!("0-{to}"),
        Some((from, "")) => format!("{from}-65535"),
        Some((from, to)) => format!("{from}-{to}"),
        None => part.to_owned(),
    };
    word.text.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// The warning for a rule that cannot be imported.
fn left_out(at: &Range<usize>, word: &str, why: &str) -> Problem {
    let what = format!("this rule of iptables was left out, because of {}", quoted(word));
    Problem::warning(at.clone(), what).help(why.to_owned())
}
