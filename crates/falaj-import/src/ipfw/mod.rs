//! `ipfw` and `dnctl`: the pipes, queues, schedulers, rules and tables of dummynet.
//!
//! | module | contents |
//! |---|---|
//! | `config` | `pipe`, `queue` and `sched`, with their options |
//! | `policy` | the AQM of a queue |
//! | `queues` | which packets belong to which queue |
//! | `ends` | interfaces, which stand for ends of links |
//! | `pf` | rules of pf that send to pipes |
//! | `rule` | `add`: which packets a rule takes, and its action |
//! | `link` | the links and rules of the scenario |

mod config;
mod ends;
mod link;
mod pf;
mod policy;
mod queues;
mod rule;

use crate::amounts::whole;
use crate::args::{Args, no_equal, no_equal_phrase, unknown};
use crate::draft::{Draft, Table};
use crate::lines::{self, Word};
use crate::{Imported, finish, has_errors, timeline};
use config::{Configured, Kind};
use falaj_scenario::suggest::quoted;
use falaj_scenario::{Diagnostics, Problem};
use rule::{Action, Rule};
use std::ops::Range;

/// The state that all commands together configure.
#[derive(Debug, Clone)]
struct Firewall {
    pipes: Vec<Configured>,
    queues: Vec<Configured>,
    scheds: Vec<Configured>,
    rules: Vec<Rule>,
    tables: Vec<Entry>,
    /// True if a packet passes no further rules after its first pipe.
    one_pass: bool,
    pf: Vec<pf::PfRule>,
    /// The last rule, which takes the packets that no other rule takes; and whether the script or
    /// the caller sets this rule.
    last: LastRule,
    last_is_said: bool,
}

/// The last rule of `ipfw`, which is always there: it takes the packets that no other rule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastRule {
    /// Such packets pass, as on macOS, OPNsense and pfSense.
    Accept,
    /// Such packets are dropped, as by FreeBSD's kernel unless it is configured otherwise.
    Deny,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    table: String,
    address: String,
    value: Option<String>,
    at: Range<usize>,
}

/// Makes a scenario from a script of `ipfw` or `dnctl` commands: a link for each pipe, and the
/// rules, including those of `pf` that send to pipes. Outgoing packets are `up`, incoming ones
/// `down`. `last` is the rule for packets that no other rule takes (`None`: they pass), unless the
/// script sets this rule.
///
/// # Errors
/// Returns every line that cannot be read or has no equivalent, and why.
pub fn ipfw(text: &str, file: &str, last: Option<LastRule>) -> Result<Imported, Diagnostics> {
    let mut problems = Vec::new();
    let mut all = Firewall {
        pipes: Vec::new(),
        queues: Vec::new(),
        scheds: Vec::new(),
        rules: Vec::new(),
        tables: Vec::new(),
        one_pass: true,
        pf: Vec::new(),
        last: last.unwrap_or(LastRule::Accept),
        last_is_said: last.is_some(),
    };
    let commands = lines::commands(text, &mut problems);
    let draft = timeline::run(
        &commands,
        &mut all,
        &mut problems,
        |all, words, problems| command(words, all, problems),
        draft,
    );
    if draft.tables.is_empty() && !has_errors(&problems) {
        problems.push(link::no_pipe(&all));
    }
    finish(&draft, file, text, problems)
}

/// Makes the scenario of a state of the firewall.
fn draft(all: &Firewall, problems: &mut Vec<Problem>) -> Draft {
    let mut rules = all.rules.clone();
    if let (false, Some(rule)) = (all.pf.is_empty(), rules.first()) {
        let what = "the script has rules of pf and of ipfw: it is unknown which of them a packet \
                    meets first";
        problems.push(Problem::error(rule.at.clone(), what).help("import them separately"));
        return Draft::default();
    }
    rules.extend(pf::in_order(all.pf.clone()));
    ends::ends(&mut rules, problems);
    // Rules that only count, after all others, decide nothing.
    while let Some(rule) = rules.pop_if(|rule| rule.action == Action::Count) {
        let what = "this rule counts packets after all other rules; it was left out";
        problems.push(Problem::warning(rule.at, what));
    }
    link::links(&Firewall { rules, ..all.clone() }, problems)
}

/// The tables of one direction of a link, from the options of `pipe N config`.
pub(super) fn direction(args: &mut Args<'_>, header: &str) -> Result<Vec<Table>, Problem> {
    let made = config::read(Kind::Pipe, 0, args)?;
    Ok(link::alone(&made, header))
}

const OBJECTS: &[&str] =
    &["pipe", "queue", "sched", "add", "delete", "table", "flush", "enable", "disable"];

/// Commands that change nothing.
const SHOW: &[&str] = &["show", "list", "zero", "resetlog"];

fn command(words: &[Word], all: &mut Firewall, notes: &mut Vec<Problem>) -> Result<(), Problem> {
    let mut args = Args::new(words);
    if args.take("sudo").is_some() {
        while args.peek().is_some_and(|w| w.text.starts_with('-')) {
            args.next();
        }
    }
    if let Some(words) = pf::words(words) {
        lines::expanded(&words).map_or(Ok(()), Err)?;
        all.pf.extend(pf::read(&words, notes)?);
        return Ok(());
    }
    one(args, words, all, notes)
}

/// Reads a command of ipfw, dnctl or sysctl, without `sudo` in front.
fn one(
    mut args: Args<'_>,
    words: &[Word],
    all: &mut Firewall,
    notes: &mut Vec<Problem>,
) -> Result<(), Problem> {
    let name = |w: &Word| w.text.rsplit('/').next().unwrap_or("").to_owned();
    let program = args.peek().map(name).unwrap_or_default();
    if program == "sysctl" {
        args.next();
        return sysctl(&mut args, all, notes);
    }
    let named = matches!(program.as_str(), "ipfw" | "dnctl" | "cmd");
    if named {
        args.next();
        while args.peek().is_some_and(|w| w.text.starts_with('-')) {
            args.next();
        }
    }
    let object = args.value("a command")?;
    if named || OBJECTS.contains(&object.text.as_str()) || object.is_expanded() {
        lines::expanded(words).map_or(Ok(()), Err)?;
    }
    match object.text.as_str() {
        "pipe" => numbered(&mut args, &mut all.pipes, Kind::Pipe, notes),
        "queue" => numbered(&mut args, &mut all.queues, Kind::Queue, notes),
        "sched" => numbered(&mut args, &mut all.scheds, Kind::Sched, notes),
        "add" => {
            let last = all.rules.last().map_or(0, |r| r.number);
            let Some(rule) = rule::read(&mut args, last, notes)? else { return Ok(()) };
            // Among rules of one number, a later command's rule follows the earlier rules.
            let at =
                all.rules.iter().position(|r| r.number > rule.number).unwrap_or(all.rules.len());
            all.rules.insert(at, rule);
            Ok(())
        }
        "delete" => {
            while let Some(word) = args.next() {
                let number = whole(word)?;
                all.rules.retain(|r| r.number != number);
            }
            Ok(())
        }
        "flush" => {
            all.rules.clear();
            Ok(())
        }
        "table" => table(&mut args, all),
        "enable" | "disable" => {
            let what = args.value("a setting")?;
            match what.text.as_str() {
                "one_pass" => all.one_pass = object.text == "enable",
                _ => notes.push(left_out(&args)),
            }
            Ok(())
        }
        "set" if named => match args.next() {
            Some(verb) if matches!(verb.text.as_str(), "show" | "list") => Ok(()),
            _ => Err(no_equal(
                object.at.clone(),
                "set",
                "falaj has no sets of rules: leave out those that are disabled; `falaj set` changes a running link",
            )),
        },
        name if SHOW.contains(&name) => Ok(()),
        _ if named => {
            let known = [OBJECTS, SHOW].concat();
            Err(unknown(object, "a command of ipfw that can be imported", &known))
        }
        _ => {
            notes.push(left_out(&args));
            Ok(())
        }
    }
}

fn left_out(args: &Args<'_>) -> Problem {
    Problem::warning(args.all(), "this is not a command of dummynet or its rules, and was left out")
}

/// The warning about `pri`: dummynet parses this option and never uses it.
fn pri(at: Range<usize>) -> Problem {
    let what = "`pri` was left out, because dummynet ignores it: under `type prio` the `weight` is the priority";
    Problem::warning(at, what)
}

/// Reads a command with a number: `pipe 1 config bw 1Mbit/s`, `pipe 1 delete`, `pipe flush`.
fn numbered(
    args: &mut Args<'_>,
    configured: &mut Vec<Configured>,
    kind: Kind,
    notes: &mut Vec<Problem>,
) -> Result<(), Problem> {
    let word = args.value("a number")?;
    match word.text.as_str() {
        "flush" => {
            configured.clear();
            return Ok(());
        }
        "show" | "list" => return Ok(()),
        "delete" => {
            let number = whole(args.value("a number")?)?;
            configured.retain(|c| c.number != number);
            return Ok(());
        }
        _ => {}
    }
    let number = whole(word)?;
    if !(1..=65_535).contains(&number) {
        return Err(Problem::error(
            word.at.clone(),
            format!("{} is not the number of a pipe, queue or scheduler", quoted(&word.text)),
        )
        .help("write 1 to 65535"));
    }
    let verb = args.value("`config`")?;
    match verb.text.as_str() {
        "config" => {
            let made = config::read(kind, number, args)?;
            notes.append(&mut args.notes);
            notes.extend(made.pri.clone().map(pri));
            configured.retain(|c| c.number != number);
            configured.push(made);
            Ok(())
        }
        "delete" => {
            configured.retain(|c| c.number != number);
            Ok(())
        }
        "show" | "list" => Ok(()),
        _ => Err(unknown(
            verb,
            "a verb of pipes, queues and schedulers",
            &["config", "delete", "show", "list"],
        )),
    }
}

/// Reads `sysctl net.inet.ip.fw.one_pass=0` and `sysctl net.inet.ip.fw.default_to_accept=1`.
fn sysctl(
    args: &mut Args<'_>,
    all: &mut Firewall,
    notes: &mut Vec<Problem>,
) -> Result<(), Problem> {
    while let Some(word) = args.next() {
        match word.text.split_once('=') {
            Some((name, value)) if name.ends_with("fw.one_pass") => all.one_pass = value != "0",
            Some((name, value)) if name.ends_with("fw.default_to_accept") => {
                all.last = if value == "0" { LastRule::Deny } else { LastRule::Accept };
                all.last_is_said = true;
            }
            None if word.text.starts_with('-') => {}
            _ => notes.push(Problem::warning(
                word.at.clone(),
                "this setting does not concern links, and was left out",
            )),
        }
    }
    Ok(())
}

/// The verbs of `table` that can be imported.
const TABLE: &[&str] = &[
    "add", "delete", "flush", "destroy", "create", "list", "show", "info", "detail", "lock",
    "unlock",
];

/// Reads `table T add ADDRESS [VALUE]`.
fn table(args: &mut Args<'_>, all: &mut Firewall) -> Result<(), Problem> {
    let name = args.value("a table")?.text.clone();
    args.take("atomic");
    let verb = args.value("a verb")?;
    match verb.text.as_str() {
        "add" => {
            let mut next = Some(args.value("an address")?);
            while let Some(address) = next {
                falaj_scenario::parse_match(&format!("src {}", address.text))
                    .map_err(|e| Problem::error(address.at.clone(), e.what).help(e.help))?;
                let value = args.next().map(|w| w.text.clone());
                let at = args.all();
                all.tables.push(Entry {
                    table: name.clone(),
                    address: address.text.clone(),
                    value,
                    at,
                });
                next = args.next();
            }
        }
        "delete" => {
            let mut next = Some(args.value("an address")?);
            while let Some(address) = next {
                all.tables.retain(|e| e.table != name || e.address != address.text);
                next = args.next();
            }
        }
        "flush" | "destroy" => all.tables.retain(|e| e.table != name),
        "create" => {
            while let Some(word) = args.next() {
                if word.text == "type" && args.value("a type")?.text != "addr" {
                    return Err(no_equal_phrase(
                        word.at.clone(),
                        "this type of a table",
                        "only tables of addresses, `type addr`, can be imported",
                    ));
                }
            }
        }
        "list" | "show" | "info" | "detail" | "lock" | "unlock" => {}
        _ => return Err(unknown(verb, "a verb of table that can be imported", TABLE)),
    }
    Ok(())
}
