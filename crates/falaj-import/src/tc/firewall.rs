//! Rules of iptables that mark packets for filters of kind `fw`, also those in chains that the
//! script makes. They become rules of the scenario, before all other rules of their direction.

use super::filter;
use crate::amounts::whole;
use crate::args::{Args, no_equal_phrase};
use crate::draft::{Table, inline, quote};
use crate::lines::{self, Word};
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;
use std::collections::BTreeMap;
use std::ops::Range;

/// The chains of the table `mangle` that packets pass when they leave, in this order.
const CHAINS: [&str; 4] = ["PREROUTING", "FORWARD", "OUTPUT", "POSTROUTING"];

/// Largest number of rules on a path that belong to chains of the script, where a rule counts each
/// time that a chain leads to it. Chains that lead to each other can make a path much longer than
/// the script.
const LONGEST: usize = 4096;
/// Largest number of chains of which each leads to the next one.
const DEEPEST: usize = 64;

/// The target of a rule of iptables: how it treats packets that match.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleTarget {
    /// Sets these bits of the mark to this value, and goes on with the next rule.
    Mark { mask: u32, value: u32 },
    /// Goes on with another chain, and then with the next rule.
    Jump(String),
    /// Goes on with another chain, and then as if this chain had ended.
    GoTo(String),
    /// Goes on as if this chain had ended.
    Return,
    /// Goes on as if the outermost chain had ended.
    Accept,
}

/// A rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirewallRule {
    chain: String,
    /// The version of IP: each has chains of its own.
    version: &'static str,
    /// The match, in the grammar of a scenario's `match`.
    matches: String,
    /// The terms of the match in alphabetical order.
    terms: Vec<String>,
    action: RuleTarget,
    /// The device by which the packets leave; `None`: any.
    out: Option<String>,
    /// The network namespace of the rule.
    netns: Option<String>,
    pub(super) at: Range<usize>,
}

impl FirewallRule {
    /// Returns true if the two rules are the same, wherever they are in the script.
    fn is(&self, other: &FirewallRule) -> bool {
        self.chain == other.chain
            && self.terms == other.terms
            && self.action == other.action
            && (self.version, &self.netns, &self.out) == (other.version, &other.netns, &other.out)
    }

    /// Returns true if the rule sets a mark.
    pub(super) fn marks(&self) -> bool {
        matches!(self.action, RuleTarget::Mark { .. })
    }

    /// Sets the keys of the mark.
    fn set_mark(&self, table: &mut Table) {
        match self.action {
            RuleTarget::Mark { mask: u32::MAX, value } => table.set("mark", value.to_string()),
            RuleTarget::Mark { mask, value } => {
                table.set("mark", format!("{value:#x}"));
                table.set("mark-mask", format!("{mask:#x}"));
            }
            _ => {}
        }
    }

    /// Returns true if the rule matches all packets of its version of IP.
    fn takes_all(&self) -> bool {
        self.matches == self.version
    }
}

/// A rule of a scenario that follows from rules of iptables.
#[derive(Debug, Clone)]
enum MarkStep<'a> {
    Mark(&'a FirewallRule),
    /// Packets that match go on at the label with this number; without a rule, all packets do.
    Skip(Option<&'a FirewallRule>, usize),
}

/// The path of the packets that leave by a device, through the rules that mark them.
#[derive(Debug, Clone, Default)]
pub(super) struct FirewallPath<'a> {
    steps: Vec<MarkStep<'a>>,
    /// The chain behind which, or at whose beginning, each label is, and the index of the step that
    /// follows.
    labels: Vec<(String, usize)>,
    /// The number of rules of the script's own chains that were met.
    length: usize,
    /// The place of the rule before which the path was cut, because it has more than [`LONGEST`]
    /// rules or [`DEEPEST`] chains.
    cut: Option<Range<usize>>,
    /// The rules of iptables that the path passes.
    pub(super) rules: Vec<&'a FirewallRule>,
    /// For each chain that only a part of the packets passes in the kernel: the place of its first
    /// rule that sets a mark, and this part in words.
    pub(super) parts: Vec<(Range<usize>, &'static str)>,
}

impl<'a> FirewallPath<'a> {
    /// The path through the chains of `rules` for a device.
    pub(super) fn of(
        rules: &'a [FirewallRule],
        device: &str,
        netns: Option<&str>,
    ) -> FirewallPath<'a> {
        // A name that ends with `+` stands for all names that begin so.
        let leaves = |out: &String| match out.strip_suffix('+') {
            Some(beginning) => device.starts_with(beginning),
            None => out == device,
        };
        let own = |rule: &&FirewallRule| {
            rule.netns.as_deref() == netns && rule.out.as_ref().is_none_or(leaves)
        };
        let own: Vec<&FirewallRule> = rules.iter().filter(own).collect();
        let mut path = FirewallPath::default();
        for chain in CHAINS {
            for version in ["ip", "ip6"] {
                let own: Vec<&FirewallRule> =
                    own.iter().copied().filter(|rule| rule.version == version).collect();
                let before = (path.steps.len(), path.rules.len());
                let end = path.label(&format!("after {chain}"));
                path.pass(&own, &mut vec![chain], [end, end]);
                path.labels[end].1 = path.steps.len();
                let marks = path.steps[before.0..].iter().find_map(|step| match step {
                    MarkStep::Mark(rule) => Some(rule.at.clone()),
                    MarkStep::Skip(..) => None,
                });
                match marks.clone().zip(passed_by_part(chain)) {
                    Some(part) => path.parts.push(part),
                    None if marks.is_none() => path.forget(before),
                    None => {}
                }
            }
        }
        path
    }

    /// Adds a label, whose place is set later.
    fn label(&mut self, what: &str) -> usize {
        self.labels.push((what.to_owned(), 0));
        self.labels.len() - 1
    }

    /// Removes all steps and rules after these numbers of them.
    fn forget(&mut self, (steps, rules): (usize, usize)) {
        self.steps.truncate(steps);
        self.rules.truncate(rules);
    }

    /// Adds the steps of the last of `chains`, to which the chains before it lead. `ends` are the
    /// labels behind this chain, and behind the outermost one.
    fn pass(&mut self, own: &[&'a FirewallRule], chains: &mut Vec<&'a str>, ends: [usize; 2]) {
        let chain = chains.last().copied();
        for rule in own.iter().copied().filter(|rule| Some(rule.chain.as_str()) == chain) {
            if chains.len() > 1 {
                self.length += 1;
            }
            if self.cut.is_some() {
                return;
            }
            if self.length > LONGEST || chains.len() > DEEPEST {
                self.cut = Some(rule.at.clone());
                return;
            }
            let before = (self.steps.len(), self.rules.len());
            self.rules.push(rule);
            let (to, leaves) = match &rule.action {
                RuleTarget::Mark { .. } => {
                    self.steps.push(MarkStep::Mark(rule));
                    continue;
                }
                RuleTarget::Return | RuleTarget::Accept => {
                    let end = ends[usize::from(rule.action == RuleTarget::Accept)];
                    self.steps.push(MarkStep::Skip(Some(rule), end));
                    continue;
                }
                RuleTarget::Jump(to) => (to, false),
                RuleTarget::GoTo(to) => (to, true),
            };
            let [begin, end] = ["", "after "].map(|place| self.label(&format!("{place}{to}")));
            if !rule.takes_all() {
                self.steps.extend([MarkStep::Skip(Some(rule), begin), MarkStep::Skip(None, end)]);
            }
            let inner = self.steps.len();
            self.labels[begin].1 = inner;
            // The kernel refuses chains that lead to themselves.
            if !chains.contains(&to.as_str()) {
                chains.push(to);
                self.pass(own, chains, [if leaves { ends[0] } else { end }, ends[1]]);
                chains.pop();
            }
            // A chain that only returns changes nothing.
            let changes = self.steps[inner..].iter().any(|step| match step {
                MarkStep::Mark(_) => true,
                MarkStep::Skip(_, to) => *to == ends[1],
            });
            if leaves {
                self.steps.push(MarkStep::Skip(None, ends[0]));
            } else if !changes {
                self.forget(before);
            }
            self.labels[end].1 = self.steps.len();
        }
    }

    /// The problem of a path that is too long.
    pub(super) fn too_long(&self) -> Option<Problem> {
        let what =
            format!("a path through more than {LONGEST} rules or {DEEPEST} chains of iptables");
        let why = "here each chain is written again for each rule that leads to it: let fewer \
                   rules lead to chains";
        self.cut.clone().map(|at| no_equal_phrase(at, &what, why))
    }

    /// Returns true if these rules together can set the bits of `mask` to `value`.
    pub(super) fn can_set(&self, value: u32, mask: u32) -> bool {
        let all = self.rules.iter().fold(0, |all, rule| match rule.action {
            RuleTarget::Mark { mask, value } => all | value & mask,
            _ => all,
        });
        value == 0 || value & mask & !all == 0
    }

    /// The rules of the scenario, for one direction.
    pub(super) fn tables(&self, direction: &str) -> Vec<Table> {
        // The names of steps to which others skip; one label may stand behind another.
        let mut names: BTreeMap<usize, String> = BTreeMap::new();
        for step in &self.steps {
            if let MarkStep::Skip(_, label) = step {
                let (what, place) = &self.labels[*label];
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                let what = what.replace(|c: char| !is_plain(c), "-");
                let named = names.len() + 1;
                names.entry(*place).or_insert_with(|| format!("{direction}-{named}-{what}"));
            }
        }
        let mut tables: Vec<Table> = Vec::new();
        for (n, step) in self.steps.iter().map(Some).chain([None]).enumerate() {
            let name = names.get(&n);
            let rule = match step {
                Some(MarkStep::Mark(rule)) => Some(*rule),
                Some(MarkStep::Skip(rule, _)) => *rule,
                None if name.is_none() => break,
                None => None,
            };
            let mut table = Table::new("[[rule]]", rule.map_or(0..0, |rule| rule.at.clone()));
            name.iter().for_each(|name| table.text("name", name));
            rule.iter().for_each(|rule| table.text("match", &rule.matches));
            table.text("direction", direction);
            if let Some(MarkStep::Skip(_, label)) = step {
                let to = &names[&self.labels[*label].1];
                table.set("to", inline(&[("skip-to", quote(to))]));
            } else {
                rule.iter().for_each(|rule| rule.set_mark(&mut table));
                table.text("to", "pass");
                table.text("then", "on");
            }
            tables.push(table);
        }
        tables
    }
}

/// The packets that pass a chain in the kernel, in words; `None` if all packets that leave pass it.
fn passed_by_part(chain: &str) -> Option<&'static str> {
    match chain {
        "PREROUTING" | "FORWARD" => Some("packets that the host forwards"),
        "OUTPUT" => Some("packets of the host's own programs"),
        _ => None,
    }
}

/// Returns true if this program is iptables.
pub(super) fn is_iptables(program: &Word) -> bool {
    lines::is_iptables(program.text.rsplit('/').next().unwrap_or(&program.text))
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
    rules: &mut Vec<FirewallRule>,
) -> Result<bool, Problem> {
    let at = args.all();
    let (mut table, mut words) = ("filter", Vec::new());
    let (mut verb, mut chain, mut number) = (None, None, None);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "-t" | "--table" => table = &args.value("a table")?.text,
            "-w" | "--wait" => {
                args.number();
            }
            "-v" | "--verbose" | "-4" | "--ipv4" => {}
            // These look at rules, and change none.
            "-C" | "--check" | "-L" | "--list" | "-S" | "--list-rules" => return Ok(true),
            text if CHANGES.contains(&text) => {
                let is_name = |word: &&Word| !word.text.starts_with('-');
                chain = args.peek().filter(is_name).map(|chain| chain.text.clone());
                if chain.is_some() {
                    args.next();
                    number = args.number();
                }
                verb = Some(word);
            }
            text => match text.strip_prefix("--table=").or(text.strip_prefix("-t")) {
                Some(name) => table = name,
                None => words.push(word.clone()),
            },
        }
    }
    let Some(verb) = verb else { return Ok(false) };
    let version = if program.text.contains("ip6tables") { "ip6" } else { "ip" };
    let by_number = number.filter(|number| !is(verb, "-I") || number.text != "1");
    if table != "mangle" {
        let marks = is(verb, "-A") || is(verb, "-I");
        return match words.iter().find(|word| word.text == "MARK").filter(|_| marks) {
            Some(mark) => Err(left_out(
                &mark.at,
                "MARK",
                "rules that mark packets are imported from the table `mangle`: add `-t mangle`",
            )),
            None => Ok(false),
        };
    }
    if is(verb, "-F") {
        rules.retain(|rule| {
            (rule.version, &rule.netns) != (version, &netns)
                || chain.as_ref().is_some_and(|chain| *chain != rule.chain)
        });
        return Ok(true);
    }
    // An empty chain changes nothing, and only an empty one can be deleted.
    if is(verb, "-N") || is(verb, "-X") {
        return Ok(true);
    }
    let changes = if is(verb, "-R") || is(verb, "-E") { Some(verb) } else { by_number };
    if let Some(word) = changes {
        let why = "`-A`, `-F`, `-D` with the words of a rule, and `-I` without a number or with 1 \
                   can be imported";
        return Err(left_out(&word.at, &word.text, why));
    }
    let mut args = Args::new(&words);
    let target = words.windows(2).find_map(|pair| {
        let leaves = match pair[0].text.as_str() {
            "-j" | "--jump" => false,
            "-g" | "--goto" => true,
            _ => return None,
        };
        Some((pair[1].text.as_str(), leaves))
    });
    let (Some(chain), Some((target, leaves))) = (chain, target) else { return Ok(false) };
    // Names of targets that are no chains are in capitals, and known to iptables alone.
    let action = match target {
        "MARK" => None,
        "RETURN" => Some(RuleTarget::Return),
        "ACCEPT" => Some(RuleTarget::Accept),
        other if OTHERS.contains(&other) => return Ok(false),
        other if leaves => Some(RuleTarget::GoTo(other.to_owned())),
        other => Some(RuleTarget::Jump(other.to_owned())),
    };
    let (terms, out, set) = read(&mut args, version)?;
    let action = match (action, set.filter(|(mask, _)| *mask != 0)) {
        (Some(action), _) => action,
        (None, Some((mask, value))) => RuleTarget::Mark { mask, value },
        (None, None) => {
            let why = "it changes no bit of the mark: `--set-mark`, `--set-xmark`, `--or-mark` \
                       and `--and-mark` do";
            return Err(left_out(&args.all(), "MARK", why));
        }
    };
    let matches = terms.join(" ");
    let mut terms = terms;
    terms.sort();
    let made = FirewallRule { chain, version, matches, terms, action, out, netns, at };
    if is(verb, "-A") {
        rules.push(made);
    } else if is(verb, "-I") {
        rules.insert(0, made);
    } else if let Some(n) = rules.iter().position(|rule| rule.is(&made)) {
        rules.remove(n);
    }
    Ok(true)
}

/// Commands of iptables that change chains, each with its long form.
const CHANGES: &[&str] = &[
    "-A",
    "--append",
    "-I",
    "--insert",
    "-D",
    "--delete",
    "-F",
    "--flush",
    "-N",
    "--new-chain",
    "-X",
    "--delete-chain",
    "-R",
    "--replace",
    "-E",
    "--rename-chain",
];

/// Returns true if the word is this command, or its long form.
fn is(word: &Word, short: &str) -> bool {
    let at = CHANGES.iter().position(|name| *name == word.text);
    at.is_some_and(|at| CHANGES[at & !1] == short)
}

/// Targets of iptables that are no chains, and become no rules. They change no mark, except for
/// `CONNMARK`, which may restore the mark of a connection.
const OTHERS: [&str; 14] = [
    "DROP", "QUEUE", "NFQUEUE", "LOG", "NFLOG", "ULOG", "TOS", "DSCP", "ECN", "TTL", "HL",
    "TCPMSS", "CONNMARK", "CLASSIFY",
];

/// The terms of a rule's match, the device by which packets leave, and the change to the mark: the
/// bits that change, and their new value.
type ReadRule = (Vec<String>, Option<String>, Option<(u32, u32)>);

/// Reads the matches and the target of a rule.
fn read(args: &mut Args<'_>, version: &str) -> Result<ReadRule, Problem> {
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
                "icmpv6" | "ipv6-icmp" | "58" => "icmp6".to_owned(),
                "6" => "tcp".to_owned(),
                "17" => "udp".to_owned(),
                "1" => "icmp".to_owned(),
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
            "--tos" => format!("tos {}", type_of_service(&value()?.text)),
            "--dscp-class" => format!("dscp {}", value()?.text.to_ascii_lowercase()),
            "--length" => format!("length {}", value()?.text.replace(':', "-")),
            "--mark" if extension == "mark" => format!("mark {}", value()?.text),
            "-o" | "--out-interface" if !not => {
                out = Some(value()?.text.clone());
                continue;
            }
            "-j" | "--jump" | "-g" | "--goto" if !not => {
                value()?;
                continue;
            }
            action
                if action.starts_with("--set-")
                    || ["--or-mark", "--and-mark", "--xor-mark"].contains(&action) =>
            {
                set = Some(change(option, value()?)?);
                continue;
            }
            _ => {
                let why = "a rule can match the protocol, addresses, ports, DSCP, TOS, length and \
                           mark of packets, and the device by which they leave, `-o`";
                return Err(left_out(&option.at, &option.text, why));
            }
        };
        terms.push(if not { format!("not {term}") } else { term });
    }
    if !has_address {
        terms.insert(0, version.to_owned());
    }
    let rule = terms.join(" ");
    match falaj_scenario::parse_match(&rule) {
        Ok(_) => Ok((terms, out, set)),
        Err(error) => Err(left_out(&args.all(), &rule, &error.what)),
    }
}

/// The value and the mask of `--tos`, which also has names for values of the bits 0x3f.
fn type_of_service(text: &str) -> String {
    const NAMES: [(&str, u8); 5] = [
        ("minimize-delay", 0x10),
        ("maximize-throughput", 0x08),
        ("maximize-reliability", 0x04),
        ("minimize-cost", 0x02),
        ("normal-service", 0x00),
    ];
    match NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        Some((_, value)) => format!("{value:#04x}/0x3f"),
        None => text.to_owned(),
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
    if mask == if address.contains(':') { "128" } else { "32" } {
        return Ok(address.to_owned());
    }
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
